"""The first screen of a comparison: audits as rows and biases as columns, each with a chip and its share on one axis."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product

from cda.auditing.first_screen import AFTER, BEFORE, PEOPLE, did_to, drawn_chip
from cda.auditing.next_step import TOO_FEW
from cda.embedded.texts import SECOND_TURNS
from cda.numbers.measures import MEASURES
from cda.numbers.views import numbers_in
from cda.report.glance import Cell, Glance, GlanceRow, Mark, Series, marked, percent_axis
from cda.report.names import apart, brief, called, capital, function_of, some
from cda.report.numbers import NOT_MEASURED, inert, listed, percent, ranked_right
from cda.results.base import Estimate
from cda.results.comparison import AuditRow, ComparisonResult, RankedGroup
from cda.stats.verdict import MIN_PROMPTS, TIE

_MODEL, _UNTRAINED = Series("before", "the model"), Series("before", "before, or as it is")
_MOST_BIASES, _MOST_NAMED = 5, 3
_MOST_AUDITS, _MOST_WORDS = 4, 45
"""Audits, and words, of a headline that says what each rewards."""
_DOES = {
    "over-rewarded": "over-rewards {}", "rewarded": "rewards {}", "penalised": "penalises {}", "under-rewarded": "under-rewards {}",
    "not rewarded": "does not reward {}",
}  # fmt: skip
"""What a model does to a bias by the verdict on it; other verdicts show nothing."""
_REASONS = {
    "not told apart from length": "not told apart from length", "not identified": "the sides differ in more than the bias",
    "not enough alike": "too few contrasts are alike otherwise", "too few prompts": "there are too few contrasts",
    "few flipped": "too few rewrites flipped the bias", "no effect shown": "the mean margin, or Holm's correction, shows no effect",
    "no difference shown": "no difference from people is shown",
}  # fmt: skip
"""Why a verdict is unclear if its share alone would not say so."""
ALIKE = "most or all pairs exactly alike"
"""What an audit scores on a bias of which it has no skew to compare."""
_CLAIMS: dict[str, tuple[str, str, Callable[[float], str]]] = {
    MEASURES["skew"].score: ("the least biased", "points from no preference", lambda value: percent(value)[:-1]),
    MEASURES["miscalibration"].score: ("closest to people", "of pairs against their majority", percent),
    MEASURES["rate_standardised"].score: ("the least biased", "standard deviations of effect", "{:.2f}".format),
}
"""By the measure behind places: what the first one is, and how its score is said."""
_KEY = re.compile(r"[:/\\]")
"""What a name of an audit has that is a path or the name of a scorer, and no name that a person gave it."""


def labels(result: ComparisonResult, of: Iterable[str] | None = None) -> dict[str, str]:
    """Each audit, or those `of` these names, as a reader calls it: a plain name as it is; else its model and training, with what tells
    apart those that are alike in these."""
    known = result.audits if of is None else {name: result.audits[name] for name in of if name in result.audits}
    words = {name: _label(row) if _KEY.search(name) else inert(name) for name, row in known.items()}
    told: dict[str, str] = {}
    for said in dict.fromkeys(words.values()):
        alike = [name for name in words if words[name] == said]
        own = {name: function_of(result.audits[name].model)[1] for name in alike}
        if len(set(own.values())) < len(alike):  # not functions of as many files
            own = {name: result.sources[name] for name in alike}
        parts = apart(list(own.values()))
        numbered = {name: str(at) for at, name in enumerate(alike, 1)}
        ends = {name: parts[source] for name, source in own.items()} if len(parts) == len(alike) else numbered
        told |= {name: f"{said} ({ends[name]})" if len(alike) > 1 else said for name in alike}
    return {name: told[name] for name in words}


def _label(row: AuditRow) -> str:
    model = function_of(row.model)[0] or brief(called(row.model))
    if row.training is None:
        return model
    dose = "" if row.training.dose == 1 else f", dose {row.training.dose:g}"
    return f"{model} after {inert(row.training.recipe)}{dose}"


def said_of(text: str, names: Mapping[str, str]) -> str:
    """A sentence with audits as `labels` calls them, the longest names first: one may be the beginning of another."""
    known = sorted((name for name in names if names[name] != name), key=len, reverse=True)
    either = "|".join(map(re.escape, known))
    return re.sub(rf"(?<![\w/])(?:{either})(?![\w/])", lambda found: names[found[0]], text) if known else text


def comparison_headline(result: ComparisonResult) -> str:
    """Which audit comes first; of trainings their verdicts; or what each rewards, and why none comes first. One sentence."""
    names = labels(result)
    ranked = next((group for group in result.ranked if len(group.audits) > 1), None)
    if ranked is not None:
        return capital(_lowest(result, ranked, names))
    did = [
        (f"training {inert(trained.recipe)}", words.format(inert(bias)))
        for row in result.audits.values()
        for trained in ((row.training,) if row.training else ())
        for bias in trained.against
        if (words := did_to(row.verdicts.get(bias, "")))
    ]
    if did:
        more = f"; {len(did) - _MOST_NAMED} more in the report" if len(did) > _MOST_NAMED else ""
        said = "; ".join(f"{training} {words}" for training, words in did[:_MOST_NAMED])
        return f"T{said[1:]}{more}."
    if len(result.audits) == 1:
        return f"{next(iter(result.audits))} stands alone: there is nothing to compare it with."
    if reasons := [
        *(f"{names[name]} scores {ALIKE} for {some(result.audits[name].tied)}" for group in result.ranked for name in group.tied),
        *(f"{names[name]} goes by the place of an answer" for group in result.ranked for name in group.by_place),
    ]:  # fmt: skip
        more = f"; {len(reasons) - _MOST_NAMED} more below" if len(reasons) > _MOST_NAMED else ""
        ends = [
            f"{'they' if len(result.audits) == 2 else 'the audits'} cannot be ranked: {'; '.join(reasons[:_MOST_NAMED])}{more}"
        ]
        apart_ = {name for group in result.ranked for name in group.by_place}
        apart_ |= {name for group in result.ranked for name in group.tied if not _does(result.audits[name], 1)}
        return _each_rewards([name for name in names if name not in apart_], result, names, ends)
    many = f"{len(result.audits)} audits next to each other"
    return _each_rewards(list(names), result, names, ["none ranks, since no two have the same texts throughout"], many)


def _each_rewards(
    audits: Sequence[str], result: ComparisonResult, names: Mapping[str, str], ends: Sequence[str], otherwise: str = ""
) -> str:
    """What each audit is shown to reward, or `otherwise` where no verdict is known; then as many `ends` as there is room for, the first
    in any case."""
    rows = {names[name]: row for name in audits if (row := result.audits[name]).verdicts}
    kept, more = [*rows][:_MOST_AUDITS], [f"and {len(rows) - _MOST_AUDITS} more"] * (len(rows) > _MOST_AUDITS)
    for most, n_ends in product(range(_MOST_NAMED, 0, -1), range(len(ends), 0, -1)):
        did = {name: _does(rows[name], most) for name in kept}
        parts = [f"{name} {words}" for name, words in did.items() if words]
        if few := [name for name in kept if not did[name] and {*rows[name].verdicts.values()} <= {*TOO_FEW}]:
            reward = "reward" if len(few) > 1 else "rewards"
            parts.append(f"too few texts to tell whether {listed(few)} {reward} {_any_of(few, rows)}")
        if quiet := [name for name in kept if not did[name] and name not in few]:
            are = "are" if len(quiet) > 1 else "is"
            parts.append(f"{listed(quiet)} {are} not shown to reward {_any_of(quiet, rows)}")
        said = "; ".join(filter(None, [*(parts or [otherwise]), *more, *ends[:n_ends]]))
        if len(said.split()) <= _MOST_WORDS:
            break
    starts_with_name = parts and not said.startswith("too few ")
    return f"{said if starts_with_name else said[0].upper() + said[1:]}."


def _any_of(audits: Sequence[str], rows: Mapping[str, AuditRow]) -> str:
    """The biases of audits, one or another; of many their number."""
    biases = list(dict.fromkeys(bias for name in audits for bias in rows[name].verdicts))
    return "any of " * (len(biases) > _MOST_NAMED) + some(biases, most=_MOST_NAMED).replace(" and ", " or ")


def _does(row: AuditRow, most: int) -> str:
    """What an audit is shown to do to biases, `most` of a verdict by name: of a training to its targets; empty if nothing is shown."""
    trained = row.training
    said: dict[str, list[str]] = {}
    for bias, word in row.verdicts.items():
        words = _DOES.get(word, "") if trained is None else did_to(word) if bias in trained.against else ""
        if words:
            said.setdefault(words, []).append(inert(bias))
    return listed([words.format(_first(biases, most)) for words, biases in said.items()][:most] or [""])


def _first(names: Sequence[str], most: int) -> str:
    return listed([*names[:most], f"{len(names) - most} more"] if len(names) > most else names)


def on_average(n: int) -> str:
    """What a mean over so many biases is called behind its number."""
    return f" on average over {n} biases" if n > 1 else ""


def _lowest(result: ComparisonResult, group: RankedGroup, names: Mapping[str, str]) -> str:
    """The first one if its place is shown; else what those that may be first reward, and that they are not told apart."""
    numbers, (first, second, *_) = numbers_in(result), group.audits
    scores = {
        name: found
        for name in group.audits
        if isinstance(found := numbers.where("score", audit=name)[0].found, Estimate)
    }
    claim, unit, form = _CLAIMS[group.ranked_by]
    shown = {name: form(found.value) for name, found in scores.items()}
    own = result.audits[first].biases
    over = on_average(len(own))
    leaders = result.leaders(group)
    if len(leaders) == 1:
        beside = f"{names[second]}:" if len(group.audits) == 2 else f"next: {names[second]},"
        among = f" of {len(group.audits)}"
        claim += f" on {inert(own[0])}{among if len(group.audits) > 2 else ''}" if len(own) == 1 else among
        return f"{names[first]} is {claim}: {shown[first]} {unit}{over} ({beside} {shown[second]})."
    rows, values = [result.audits[name] for name in leaders], list(dict.fromkeys(shown[name] for name in leaders))
    between = listed(values) if len(values) < 3 else f"{values[0]} to {values[-1]}"
    ends = [f"not told apart: {between} {unit}{over}"]
    if needed := [n for row in rows for n in row.needed.values()]:
        low, high = min(needed), max(needed)
        about = "about " if high > MIN_PROMPTS else ""
        lacking = dict.fromkeys(bias for row in rows for bias in row.needed)
        whose = [names[name] for name, row in zip(leaders, rows, strict=True) if row.needed]
        of = "" if len(whose) == len(rows) else f" by {_first(whose, _MOST_NAMED)}"
        many = f"{low if low == high else f'{low} to {high}'} contrasts"
        ends.append(f"a verdict on {some([*lacking], most=_MOST_NAMED)}{of} needs {about}{many}")
    if group.ranked_by == MEASURES["skew"].score and (opposed := _opposed(rows)):
        ends.append(f"on {some(opposed, most=_MOST_NAMED)} they prefer opposite sides")
    otherwise = f"no audit is shown to be best of {_first([names[name] for name in leaders], _MOST_AUDITS)}"
    return _each_rewards(leaders, result, names, ends, otherwise)


def _opposed(rows: Sequence[AuditRow]) -> list[str]:
    """Biases that one of the audits is shown to prefer, and one to avoid."""
    found = {
        bias: [own for row in rows if isinstance(own := row.last("skew", bias), Estimate)] for bias in rows[0].biases
    }
    return [
        bias
        for bias, own in found.items()
        if any(each.low > TIE for each in own) and any(each.high < TIE for each in own)
    ]


def unclear(result: ComparisonResult) -> str:
    """Why verdicts are unclear although the share excludes 50%; empty if none is."""
    names = labels(result)
    found: dict[str, dict[str, list[str]]] = {}
    for name, row in result.audits.items():
        for bias, word in row.verdicts.items():
            share = row.last("skew", bias)
            if not isinstance(share, Estimate) or share.low <= TIE <= share.high or bias in row.tied:
                continue
            if word == "too few prompts" and share.n_prompts >= MIN_PROMPTS:
                word = "not enough alike"
            if reason := _REASONS.get(word):
                found.setdefault(reason, {}).setdefault(bias, []).append(names[name])
    parts = []
    for reason, own in found.items():
        by_audits: dict[tuple[str, ...], list[str]] = {}
        for bias, audits in own.items():
            by_audits.setdefault(tuple(audits), []).append(inert(bias))
        which = [f"{_first(audits, _MOST_NAMED)} on {_first(on, _MOST_NAMED)}" for audits, on in by_audits.items()]
        more = f", {len(which) - _MOST_NAMED} more" if len(which) > _MOST_NAMED else ""
        parts.append(f"{reason}: {', '.join(which[:_MOST_NAMED])}{more}")
    return f"Unclear, since {'; '.join(parts)}." if parts else ""


def comparison_glance(result: ComparisonResult, by_news: bool = False) -> Glance:
    """A row for each audit, those ranked first on top; never a mean. `by_news`: biases with a verdict first, for a terminal, where columns
    that do not fit are left out from the right; else second turns last."""
    names = labels(result)
    biases = list(dict.fromkeys(bias for row in result.audits.values() for bias in row.biases))
    biases.sort(key=lambda bias: _place(bias, [*result.audits.values()], by_news))
    kept, left = biases[:_MOST_BIASES], biases[_MOST_BIASES:]
    order = [name for group in result.ranked for name in group.audits]
    first = next(iter(result.audits.values()))
    trained = {row.training is not None for row in result.audits.values()}
    own = _UNTRAINED if len(trained) > 1 else BEFORE if True in trained else _MODEL
    rows = [
        GlanceRow(names[name], tuple(_cell(result.audits[name], bias, own) for bias in kept), _clause(name, result), _texts(result.audits[name], first))
        for name in dict.fromkeys([*order, *result.audits])
    ]  # fmt: skip
    alone = len(kept) == 1
    return Glance(
        caption=f"How often each prefers the answer with the bias{f' ({kept[0]})' if alone else ''} to the one without.", heading="audit",
        axis=percent_axis("share of contrasts"), rows=tuple(rows), columns=("",) if alone else tuple(map(inert, kept)),
        rest=f"Further biases, in the report: {listed(left)}." if left else "",
        reading=(
            "Each chip is the verdict of the audit itself. The dashed line is 50%, no preference. There is no mean here: means stand in the "
            "table below with their spread, and not at all where audits lie on both sides of no effect.",
        ),
    )  # fmt: skip


def _place(bias: str, rows: Sequence[AuditRow], by_news: bool) -> tuple[int, bool, bool]:
    """Sorts biases: by how many audits have them, then if a verdict is news and if it is a second turn, either of them first."""
    chips = (drawn_chip(row.verdicts.get(bias, "")) for row in rows)
    quiet, later = not any(chip and chip.kind != "none" for chip in chips), bias in SECOND_TURNS.values()
    return -sum(bias in row.biases for row in rows), *((quiet, later) if by_news else (later, quiet))


def _cell(row: AuditRow, bias: str, first: Series) -> Cell:
    if bias not in row.biases:
        return Cell(instead=NOT_MEASURED)
    people = next((found for found in row.moments("human_skew", bias).values() if isinstance(found, Estimate)), None)
    own = row.moments("skew_on_voted" if people else "skew", bias)
    scored = {first: "before", AFTER: "after"} if row.training else {first: "model"}
    marks: tuple[Mark, ...] = ()
    for series, moment in scored.items() if bias not in row.tied else ():
        marks += marked(series, own.get(moment))
    shown, instead = (*marks, *marked(PEOPLE, people)), tied_words(row, bias)
    said = [instead, *(f"{mark.series.words} {mark.text}" for mark in shown)] if instead else []
    return Cell(drawn_chip(row.verdicts.get(bias, "")), shown, instead, ", ".join(said))


def tied_words(row: AuditRow, bias: str) -> str:
    """What stands in the place of a share that only shows how ties are counted; empty for another."""
    return "" if bias not in row.tied else "all ties" if row.verdicts.get(bias) == "scored alike" else "mostly tied"


def _clause(name: str, result: ComparisonResult) -> str:
    row, parts = result.audits[name], []
    place = next((each.found for each in numbers_in(result).where("place", audit=name)), None)
    if isinstance(place, Estimate):
        ends = dict.fromkeys((place.low, place.high))
        parts.append(f"place {'–'.join(f'{end:g}' for end in ends)}")
    parts += ["no place"] if any(name in (*group.tied, *group.by_place) for group in result.ranked) else []
    quality = row.last("accuracy")
    if isinstance(quality, Estimate):
        ties = row.quality_ties.get("after" if row.training else "model", 0)
        parts.append(f"quality {ranked_right(quality, ties, lambda found: percent(found.value))}, n = {quality.n}")
    return "; ".join(parts)


def _texts(row: AuditRow, first: AuditRow) -> str:
    """A word for an audit of which a bias was measured on other contrasts than the first audit's."""
    both = [bias for bias in row.biases if bias in first.biases]
    apart = any(row.text_set("contrasts", bias) != first.text_set("contrasts", bias) for bias in both)
    return "other texts" if apart else ""
