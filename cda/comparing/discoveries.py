"""Several discoveries compared: what each confirmed of all that they confirmed together, and how strongly it is rewarded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path

from cda.errors import RecipeError
from cda.files.paths import is_a_file, user_path
from cda.jobs.options import Model
from cda.records import PERCENT
from cda.report.document import Document, meaning
from cda.report.glance import Cell, Chip, Glance, GlanceRow, Series, marked, percent_axis
from cda.report.names import apart, called, distinct, short_name, some
from cda.report.next_step import after_discoveries
from cda.report.numbers import NOT_ESTIMATED, cell, count, inert, listed, share, signed
from cda.report.page import Entry, Headline, ReportSection
from cda.report.plots import BEFORE, FAINT, Mark, Plot, Scale, in_words, named, percent_scale, rows_plot
from cda.report.tables import Row, Table, table
from cda.resources.artifacts import shown_path
from cda.results.base import Estimate, Missing, load
from cda.results.comparison import ComparedAttribute, ComparedDiscovery, DiscoveriesResult
from cda.results.discover import DiscoverResult, TestedAttribute
from cda.stats.estimators import share_of

_MOST_FIGURES, _AT = 12, "0.5"
_MARKS = {"confirmed": Mark("confirmed", BEFORE, "D"), "not confirmed": Mark("not confirmed", FAINT, "o", filled=False)}
_TERMS = (
    Entry("recall", "attributes that it confirmed / attributes that any of these discoveries confirmed", "Among discoveries of one model against one judge. It says nothing of what none of them found. Wilson's interval, as if attributes were drawn at random."),
    Entry("strength", "Σ R(Aᵢ) · max(0, 1 − max over stronger Aⱼ of cos(Aⱼ, Aᵢ))", "Of the attributes whose reward the validation shows, with a judge below 50%; no interval."),
    Entry("effect", "mean margin when the attribute is added, in reward units", "On the test prompts of that discovery, by the rewriters that count."),
)  # fmt: skip


def discoveries_at(targets: Sequence[Model]) -> dict[str, Path] | None:
    """The discoveries that targets name, folders or files; None if none is one.

    Raises:
        RecipeError: Discoveries and other things together, or one discovery alone.
    """
    name, found, others = DiscoverResult.made_by.file, dict[str, Path](), list[str]()
    for target in targets:
        path = user_path(str(target)) if isinstance(target, str | PathLike) else Path()
        file = path if path.name == name else path / name
        if is_a_file(file):
            found.setdefault(shown_path(str(target)), file)
        else:
            others.append(str(target))
    if not found:
        return None
    if others:
        raise RecipeError(
            [
                f"cda compare: {listed(list(found))}: a discovery is compared with discoveries; found {listed(others)} too"
            ]
        )
    if len(found) < 2:
        raise RecipeError([f"cda compare: give two or more discoveries; found {next(iter(found))} alone"])
    return found


def read_discoveries(files: Mapping[str, Path]) -> DiscoveriesResult:
    """The comparison of discoveries that were read; DataError as of `load`."""
    return compare_discoveries({name: load(DiscoverResult, file, "cda discover") for name, file in files.items()})


def compare_discoveries(found: Mapping[str, DiscoverResult]) -> DiscoveriesResult:
    """Recall of each among what those of the same model and judge confirmed, and every attribute that any of them confirmed, by its words."""
    tested = {name: {_words(entry.attribute): entry for entry in result.tested} for name, result in found.items()}
    confirmed = {name: {words for words, entry in own.items() if entry.confirmed} for name, own in tested.items()}
    attributes = []
    for words in dict.fromkeys(words for name in found for words in tested[name] if words in confirmed[name]):
        own = {name: entries[words] for name, entries in tested.items() if words in entries}
        attributes.append(
            ComparedAttribute(
                attribute=next(iter(own.values())).attribute,
                confirmed=tuple(name for name in own if words in confirmed[name]),
                effect={name: _reward(entry) for name, entry in own.items()},
            )
        )
    discoveries = {}
    for name, result in found.items():
        alike = [other for other, each in found.items() if (each.model, each.judge) == (result.model, result.judge)]
        together = sorted(set[str]().union(*(confirmed[other] for other in alike)))
        few = (
            "given attributes, not searched for"
            if result.given
            else "no other of this model and judge"
            if len(alike) < 2
            else ""
        )
        few = few or ("" if together else "none confirmed anything")
        hits = [words in confirmed[name] for words in together]
        strength = result.strength
        discoveries[name] = ComparedDiscovery(
            model=result.model, judge=result.judge, by=result.by, rewriters=result.rewriters, search=result.search,
            n_candidates=len(result.candidates), n_validated=len(result.validated), n_tested=len(result.tested),
            n_confirmed=len(confirmed[name]), n_test_prompts=result.n_test_prompts, seed=result.seed,
            recall=Missing(reason=few) if few else share_of(hits, together),
            strength=strength if isinstance(strength, Missing) else (strength or {}).get(_AT),
        )  # fmt: skip
    return DiscoveriesResult(discoveries=discoveries, found_by_any=tuple(attributes))


def _words(attribute: str) -> str:
    """Two attributes are one if they differ in case, spacing or the last full stop alone."""
    return " ".join(attribute.casefold().split()).rstrip(".")


def _reward(entry: TestedAttribute) -> Estimate | Missing:
    return entry.pooled.reward if entry.pooled else Missing(reason=entry.untested or NOT_ESTIMATED)


def discoveries_document(result: DiscoveriesResult) -> Document:
    """What each found, as one table and one figure; then every attribute over the discoveries."""
    names, words = apart(list(result.discoveries)), [one.attribute for one in result.found_by_any]
    short = distinct({each: short_name(each) for each in words})
    result = result.model_copy(update={
        "discoveries": {names[name]: one for name, one in result.discoveries.items()},
        "found_by_any": tuple(
            one.model_copy(update={
                "attribute": short[one.attribute],
                "confirmed": tuple(names[name] for name in one.confirmed), "effect": {names[name]: found for name, found in one.effect.items()},
            })
            for one in result.found_by_any
        ),
    })  # fmt: skip
    each, rows = result.discoveries, _configurations(result)
    header = (
        "discovery",
        "candidates",
        "generations",
        "proposed by",
        "rewriters",
        "validated",
        "tested",
        "confirmed",
        "recall",
        "strength",
    )
    tables = filter(None, [table(f"What each found, with {PERCENT} intervals", header, rows), _attributes(result)])
    sections = (
        ReportSection("discoveries", "Next to each other", (), tuple(tables), tuple(_plots(result))),
        ReportSection(
            "attributes", "The attributes in full", entries=tuple(Entry(short[each], "", inert(each)) for each in words)
        ),
        meaning(*_TERMS),
    )
    models = dict.fromkeys(f"{called(one.model.name)} against {called(one.judge.name)}" for one in each.values())
    title = f"Which search finds more? {len(each)} discoveries compared"
    return Document(
        title,
        f"Models against judges: {'; '.join(models)}.",
        tuple(_said(result)),
        sections,
        headline=_headline(result),
        glance=_glance(result),
        next=after_discoveries(result),
    )


_RECALL = Series("after", "recall: of what all of them confirmed")


def _headline(result: DiscoveriesResult) -> str:
    """Which discovery confirmed most of what all confirmed together, in one sentence."""
    known = {name: one.recall for name, one in result.discoveries.items() if isinstance(one.recall, Estimate)}
    if not known:
        confirmed = ", ".join(f"{inert(name)} {one.n_confirmed}" for name, one in result.discoveries.items())
        return f"No recall can be compared; confirmed: {confirmed}."
    most = max(found.value for found in known.values())
    best = [inert(name) for name, found in known.items() if found.value == most]
    found = next(iter(known.values()))
    also = [name for name, one in known.items() if one.value < most and one.high >= most]
    end = f"; {some(also, 'others')} {'is' if len(also) == 1 else 'are'} not told from that" if also else ""
    return f"{some(best, 'searches')} confirmed most: {round(most * found.n)} of the {found.n} attributes that any of them confirmed{end}."


def _glance(result: DiscoveriesResult) -> Glance:
    rows = []
    for name, one in result.discoveries.items():
        chip = Chip(
            f"{one.n_confirmed} confirmed", "bad" if one.n_confirmed else "none", "▲" if one.n_confirmed else "?"
        )
        instead = one.recall.reason if isinstance(one.recall, Missing) else ""
        clause = f"of {one.n_tested} tested, {one.n_candidates} candidates"
        rows.append(GlanceRow(inert(name), (Cell(chip, marked(_RECALL, one.recall), instead),), clause))
    return Glance(
        caption="What each discovery confirmed.", heading="discovery", axis=percent_axis("recall", None), rows=tuple(rows),
        reading=(_TERMS[0].meaning,),
    )  # fmt: skip


def _said(result: DiscoveriesResult) -> Iterator[Headline]:
    known = {name: one.recall for name, one in result.discoveries.items() if isinstance(one.recall, Estimate)}
    for name, recall in sorted(known.items(), key=lambda item: -item[1].value):
        yield Headline(
            f"{name}:",
            f"confirmed {round(recall.value * recall.n)} of the {recall.n} attributes that discoveries of this model and judge confirmed, {share(recall)}.",
        )
    for name, one in result.discoveries.items():
        if isinstance(one.recall, Missing):
            yield Headline(
                f"{name}:", f"no recall ({one.recall.reason}); {one.n_confirmed} of {one.n_tested} tested confirmed."
            )
    if len({(one.model.name, one.judge.name) for one in result.discoveries.values()}) > 1:
        yield Headline(
            "Beware.",
            "The discoveries are of different models or judges: rewards have other units there, and recall is not shared.",
        )
    if len({one.n_test_prompts for one in result.discoveries.values()}) > 1:
        yield Headline("Beware.", "They tested on different numbers of prompts: more prompts confirm more.")
    yield Headline("Note.", "Attributes are told apart by their words: the same in other words counts as another.")


def _configurations(result: DiscoveriesResult) -> Iterator[Row]:
    for name, one in result.discoveries.items():
        counts = map(str, (one.n_validated, one.n_tested, one.n_confirmed))
        strength = "" if one.strength is None else cell(one.strength, lambda found: f"{found:.2f}", None)
        yield (
            inert(name), str(one.n_candidates), str(one.search.n_generations), inert(one.by), inert(", ".join(one.rewriters)), *counts,
            cell(one.recall, lambda found: f"{share(found)}, n {count(found)}", None), strength,
        )  # fmt: skip


def _attributes(result: DiscoveriesResult) -> Table | None:
    rows = []
    for one in result.found_by_any:
        cells = []
        for name in result.discoveries:
            found = one.effect.get(name)
            shown = "not tested" if found is None else cell(found, signed, None)
            cells.append(f"{shown}{', confirmed' * (name in one.confirmed)}")
        rows.append((inert(one.attribute), *cells))
    caption = f"Effect on the reward of what any of them confirmed, with {PERCENT} intervals"
    return table(caption, ("attribute", *map(inert, result.discoveries)), rows)


def _plots(result: DiscoveriesResult) -> Iterator[Plot]:
    """Recall over discoveries, then the effect of each attribute over them."""
    recall = {
        name: {"confirmed": one.recall} for name, one in result.discoveries.items() if isinstance(one.recall, Estimate)
    }
    rows = {named(name): own for name, own in recall.items()}
    if len(rows) > 1:
        words = " ".join(in_words(label, own, share) for label, own in rows.items())
        mark = {"confirmed": _MARKS["confirmed"]}
        yield rows_plot(
            "recall",
            "Recall: of what all confirmed together",
            words,
            rows.items(),
            mark,
            percent_scale("confirmed (%)"),
        )
    for at, one in enumerate(result.found_by_any[:_MOST_FIGURES], 1):
        effects = {
            named(name): {"confirmed" if name in one.confirmed else "not confirmed": found}
            for name, found in one.effect.items()
            if isinstance(found, Estimate)
        }
        if effects:
            words = " ".join(in_words(label, own, signed) for label, own in effects.items())
            title = f"{at}. {inert(one.attribute)}: effect in each discovery that tested it"
            yield rows_plot(
                f"effect-{at}", title, words, effects.items(), _MARKS, Scale("reward when it is added", reference=0)
            )
