"""Which of these? Models audited one after the other with one plan and one budget, finished runs, files of audits and shared rows:
places over all biases, means over audits of one kind with their ranks, and every audit paired with the first."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import compress, product
from os import PathLike
from pathlib import Path
from statistics import fmean
from typing import NamedTuple, get_args

import numpy as np

from cda.arrays import BoolArray, FloatArray
from cda.auditing.audit import planned_calls
from cda.comparing.discoveries import discoveries_at, read_discoveries
from cda.comparing.findings import comparison_limits, findings
from cda.comparing.members import Gathered, Member, audits_at, gather
from cda.comparing.page import comparison_csv
from cda.comparing.row import QUALITY, row_file
from cda.comparing.screen import ALIKE
from cda.errors import DataError, RecipeError, RunError
from cda.files.paths import free_place, is_there, own_folder, user_path
from cda.jobs.options import Model
from cda.jobs.perform import Job, Made, ResultsFolder, perform
from cda.jobs.terms import RUNS, Terms, loaded_for_model, refuse_results
from cda.launch import is_main, say
from cda.llm.purse import FOLDER, Purse
from cda.numbers.measures import MEASURES, VotedRows, of_people
from cda.numbers.people import row_values
from cda.pipeline import plan as planning
from cda.pipeline.stages import carry_out, run_job, said_plan
from cda.provenance import versions
from cda.recipe.load import LoadedRecipe, Opened, is_recipe
from cda.records import content_id
from cda.report.numbers import listed, printed
from cda.resources.artifacts import as_given
from cda.resources.dry_run import NOTHING_DONE, noting
from cda.resources.llm_access import Step, agreed_calls, confirm_all, price_of, share_purse, tell_costs
from cda.results.audit import AuditResult
from cda.results.base import Estimate, Missing, Number, or_missing
from cda.results.commands import ComparisonPlan, Plan
from cda.results.comparison import (
    AuditRow,
    ComparisonResult,
    DiscoveriesResult,
    Kind,
    MeanOver,
    PairedMargins,
    PairedOn,
    RankedGroup,
)
from cda.run import fingerprint
from cda.scorers.kinds import scorer_kind
from cda.scorers.own_code import bare_name, same_name
from cda.stats.estimators import ROUNDING, paired_change
from cda.stats.means import CROSSED
from cda.stats.multiplicity import benjamini_hochberg, holm
from cda.stats.panel import compare_margins, mean_change, mean_share, ranks
from cda.stats.people import absolute, human_skew
from cda.stats.proportions import unpaired_change
from cda.stats.verdict import mostly_by_place
from cda.stats.votes import Majority
from cda.user_errors import explain

_NOT_MEASURED = Missing(reason="not measured by both")
_BEST_ON = ("votes", "triples", "contrasts")
"""Texts that a place rests on, in the order of preference."""


def compare_audits(
    gathered: Gathered, seed: int, failed: Mapping[str, str] | None = None, repeated: Sequence[str] = ()
) -> ComparisonResult:
    """The comparison of audits; `failed` models and `repeated` targets are named in it."""
    members = gathered.members
    numbers: list[Number] = []
    ranked = tuple(_ranked(members, numbers))
    over_audits = list(_means(members, numbers))
    numbers += [*_over_biases(over_audits), *_between_folders(over_audits)]
    means = tuple(each.mean for each in over_audits)
    # One without any skew to compare comes last, so that the others have one to be held against.
    with_margins = sorted(
        (member for member in members if member.margins), key=lambda member: {*member.row.biases} == {*member.row.tied}
    )
    paired = adjusted({other.name: _on_both(with_margins[0], other) for other in with_margins[1:]})
    result = ComparisonResult(
        audits={member.name: member.row for member in members},
        sources={member.name: member.source for member in members},
        together=tuple(numbers),
        means=means,
        ranked=ranked,
        paired=paired,
        against=with_margins[0].name if paired else None,
        n_tests=sum(1 for _ in _tested(paired)),
        findings=(),
        limits=comparison_limits(members),
        failed=dict(failed or {}),
        refused=dict(gathered.refused),
        seed=seed,
        versions=versions(),
    )
    said = [*gathered.superseded, *(f"Given more than once, counted once: {name}." for name in repeated)]
    return result.model_copy(update={"findings": tuple(findings(result, members, said))})


def _ranked(members: Sequence[Member], numbers: list[Number]) -> Iterator[RankedGroup]:
    """Places among audits of the same texts, two at least, the largest group first. Scores and places go into `numbers`."""
    groups: dict[str, dict[str, AuditRow]] = {}
    for member in members:
        contents = {name: texts.content for name, texts in member.row.texts.items()}
        if None not in contents.values():
            # Of one text set the biases are the same, unless a row was changed by hand.
            groups.setdefault(content_id(contents, sorted(member.row.biases)), {})[member.name] = member.row
    for rows in sorted(groups.values(), key=len, reverse=True):
        if len(rows) > 1:
            group, found = ranked(rows)
            numbers += found
            yield group


def ranked(rows: Mapping[str, AuditRow]) -> tuple[RankedGroup, list[Number]]:
    """Places of audits on the same texts by the mean over biases of the first measure that all of them have. A place's interval has
    the places that the scores' intervals allow; equal scores share the mean of their places. A judge that goes by the place of an answer
    is near 50% whatever it prefers, and has none by the distance from it; nor has one that scores the pairs of a bias alike."""
    scored = (each for each in MEASURES.items() if each[1].score)
    apart = {name: row for name, row in rows.items() if not row.tied}
    for key, measure in sorted(scored, key=lambda each: _BEST_ON.index(each[1].on)):
        sizes = {
            name: [_size(row.last(key, bias), measure.null) for bias in row.biases]
            for name, row in (apart or rows).items()
        }
        if all(isinstance(each, Estimate) for own in sizes.values() for each in own):
            break
    by_place = [
        name
        for name, row in rows.items()
        if key == "skew" and isinstance(found := row.last("position"), Estimate) and mostly_by_place(found)
    ]
    scores = {name: mean_of_biases(own) for name, own in sizes.items() if name in apart and name not in by_place}
    if len(scores) < 2:
        scores = {}
    order = sorted(scores, key=lambda name: (scores[name].value, name))
    numbers = []
    for name in order:
        own = scores[name]
        slack = ROUNDING * max(1.0, abs(own.value))
        lower = sum(other.value < own.value - slack for other in scores.values())
        equal = sum(abs(other.value - own.value) <= slack for other in scores.values())
        best = 1 + sum(other.high < own.low for other in scores.values())
        worst = len(scores) - sum(other.low > own.high for other in scores.values())
        at = {
            "value": lower + (equal + 1) / 2,
            "low": float(best),
            "high": float(worst),
            "unit": "rank",
            "method": "overlap of intervals",
        }
        of = {"audit": name}
        numbers += [Number.of("score", "model", of, own), Number.of("place", "model", of, own.model_copy(update=at))]
    tied = tuple(name for name in rows if name not in apart and name not in by_place)
    return RankedGroup(audits=tuple(order), ranked_by=measure.score, by_place=tuple(by_place), tied=tied), numbers


def _size(found: Estimate | Missing, null: float | None) -> Estimate | Missing:
    """Distance from `null`, with the interval of the distances of all values in the interval."""
    if isinstance(found, Missing) or null is None:
        return found
    return absolute(found.model_copy(update={end: getattr(found, end) - null for end in ("value", "low", "high")}))


def mean_of_biases(values: Sequence[Estimate | Missing]) -> Estimate:
    """Mean over the biases of one audit, each of the same weight. The interval has the mean of the intervals' ends, as wide as if all
    biases erred together: an upper bound, since their contrasts may share prompts. DataError: a missing value, or none."""
    known = [value for value in values if isinstance(value, Estimate)]
    if not known or len(known) < len(values):
        raise DataError("a mean over biases needs a value for each of them")
    return Estimate(
        value=fmean(value.value for value in known),
        low=fmean(value.low for value in known),
        high=fmean(value.high for value in known),
        n=sum(value.n for value in known),
        n_prompts=max(value.n_prompts for value in known),
        unit=known[0].unit,
        method=known[0].method,
    )


class _OverAudits(NamedTuple):
    """A mean over audits of a bias, its shares by measure and moment, and the hits of the audits under the last scoring, shape (audits,
    n). `people`: None if nobody voted."""

    mean: MeanOver
    shares: Mapping[tuple[str, str], Estimate]
    hits: FloatArray
    people: Majority | None
    ids: Sequence[str]
    texts: tuple[str, ...] | None


def _means(members: Sequence[Member], numbers: list[Number]) -> Iterator[_OverAudits]:
    """For each kind and bias the mean over audits of the same contrasts and votes, two at least; of trainings those against it. None
    is over audits without a skew to compare. If several folders were given, over those of each by itself. Means and ranks go into `numbers`."""
    groups = list(dict.fromkeys(member.group for member in members))
    for kind, group in product(get_args(Kind), groups):
        own = [member for member in members if (member.row.kinds, member.group) == (kind, group)]
        of = group if len(groups) > 1 else ""
        for bias in dict.fromkeys(bias for member in own for bias in member.row.biases):
            sets: dict[tuple[str, ...] | None, list[Member]] = {}
            for member in own:
                of_bias = bias in member.margins and bias not in member.row.tied
                if of_bias and (member.row.training is None or bias in member.row.training.against):
                    sets.setdefault(member.row.text_set("votes", bias), []).append(member)
            for alike in sorted(sets.values(), key=len, reverse=True):
                if len(alike) > 1 and (found := _mean(bias, kind, of, alike, len(sets) == 1)):
                    numbers += found[1]
                    yield found[0]


def _mean(
    bias: str, kind: Kind, group: str, alike: Sequence[Member], are_all: bool
) -> tuple[_OverAudits, list[Number]] | None:
    """A mean with its numbers, and the ranks of those that it is over; None if no contrast has a margin under every scoring."""
    moments = alike[0].scorings
    margins = np.stack([[member.margins[bias].by_scoring[moment] for member in alike] for moment in moments])
    hits = np.stack([[member.hits(bias, moment) for member in alike] for moment in moments])
    common: BoolArray = np.asarray(~np.isnan(hits).any(axis=(0, 1)))
    if not common.any():
        return None
    name = (
        f"mean of {len(alike)} {kind}"
        + f" in {group}" * bool(group)
        + ("" if are_all else f" ({', '.join(member.name for member in alike)})")
    )
    at = {"audit": name, "kind": kind, "audits": str(len(alike)), "bias": bias}
    ids, people = alike[0].margins[bias].prompt_ids, _majority(alike[0], bias, common)
    shares = list(_shares(margins, hits, moments, common, people, ids))
    found = [] if people is None else [Number.of("human_skew", moments[0], at, human_skew(people, ids))]
    found += [Number.of(key, moment, at, _one_sided(key, moment, bias, each, alike)) for key, moment, each in shares]
    if len(moments) == 1:
        found += _ranks(bias, alike, hits[0], common, people)
    mean = MeanOver(
        bias=bias, kind=kind, name=name, group=group, audits=tuple(member.name for member in alike), left_out=int((~common).sum()),
        interval_over="models and prompts" if all(each.method == CROSSED for _, _, each in shares) else "prompts",
        sd=float(hits[-1][:, common].mean(axis=1).std(ddof=1)),
    )  # fmt: skip
    texts = alike[0].row.text_set("votes", bias)
    kept = {(key, moment): each for key, moment, each in shares}
    return _OverAudits(mean, kept, hits[-1], people, ids, texts), found


OVER_BIASES = {"miscalibration": "miscalibration", "gap": "signed_gap"}
"""Measures with a mean over biases, and the share of a bias that each is the size of."""


def _over_biases(means: Sequence[_OverAudits]) -> Iterator[Number]:
    """Means over biases, each of the same weight, of means over audits: miscalibration, and the distance of the mean skew from people's
    (the two that Bharadwaj et al. 2025 print). They have no bias among their levels."""
    for name in dict.fromkeys(each.mean.name for each in means):
        own = [each for each in means if each.mean.name == name and each.people is not None]
        at = {"audit": name, "kind": own[0].mean.kind, "audits": str(len(own[0].mean.audits))} if own else {}
        for (key, share), moment in product(OVER_BIASES.items(), ("model", "before", "after")):
            found = [absolute(each.shares[share, moment]) for each in own if (share, moment) in each.shares]
            if len(found) > 1:
                yield Number.of(key, moment, at, mean_of_biases(found))


def _between_folders(means: Sequence[_OverAudits]) -> Iterator[Number]:
    """Change of the means of each further folder from those of the first, on the contrasts with a majority of people's votes that both
    have: paired, and as if they were of different contrasts (the interval that papers print, `interval`: unpaired)."""
    first = {
        (each.mean.kind, each.mean.bias, each.texts): each
        for each in reversed(means)
        if each.mean.group == means[0].mean.group
    }
    for each in means:
        before = first.get((each.mean.kind, each.mean.bias, each.texts))
        if before is None or before.mean.group == each.mean.group or before.people is None or each.people is None:
            continue
        used = before.people.used & each.people.used
        ids, target = list(compress(each.ids, used)), each.people.target[used]
        at = {"audit": f"{each.mean.name} against {before.mean.group}", "kind": each.mean.kind,
              "audits": str(len(each.mean.audits)), "bias": each.mean.bias}  # fmt: skip
        for key, start in (("skew_on_voted", 0.0), ("miscalibration", target)):
            one, other = (np.abs(of.hits[:, used] - start).mean(axis=0) for of in (before, each))
            yield Number.of(key, "change", at, paired_change(one, other, ids, len(each.hits)))
            yield Number.of(key, "change", {**at, "interval": "unpaired"}, unpaired_change(one, other))


def _one_sided(key: str, moment: str, bias: str, mean: Estimate, alike: Sequence[Member]) -> Estimate | Missing:
    """The mean; Missing, with the lowest and the highest number behind it, if they lie on both sides of no effect."""
    null = 0.0 if moment == "change" else MEASURES[key].null
    own = [found for member in alike if isinstance(found := member.row.moments(key, bias).get(moment), Estimate)]
    low, high = (pick(own, key=lambda each: each.value, default=mean) for pick in (min, max))
    if null is None or not low.value < null < high.value:
        return mean
    ends = " to ".join(printed(key, moment, end).partition(" [")[0] for end in (low, high))
    return Missing(reason=f"no mean: {ends}, both sides of no effect")


def _majority(member: Member, bias: str, common: BoolArray) -> Majority | None:
    """People's majorities on the common contrasts; None if there are none."""
    people = member.margins[bias].people
    if people is None or not (people.majority.used & common).any():
        return None
    return replace(people.majority, used=people.majority.used & common)


def _shares(
    margins: FloatArray,
    hits: FloatArray,
    moments: Sequence[str],
    common: BoolArray,
    people: Majority | None,
    ids: Sequence[str],
) -> Iterator[tuple[str, str, Estimate]]:
    """Measure, moment and mean of every share, and of every difference from people's; `margins` and `hits` of shape (moments, audits, n).
    Sizes are of one model, and means of several models' rewards have no unit."""
    yield from _of_models("skew", hits[:, :, common], moments, list(compress(ids, common)))
    if people is not None:
        used, voted, target = people.used, list(compress(ids, people.used)), people.target[people.used]
        sides = [VotedRows(*both, target, voted) for both in zip(margins[:, :, used], hits[:, :, used], strict=True)]
        for key, measure in of_people(rows=True).items():
            if measure.unit in ("share", "share difference"):
                rows = np.stack([row_values(measure, side) for side in sides])
                yield from _of_models(key, rows, moments, voted, None if measure.unit == "share" else target)


def _of_models(
    key: str, values: FloatArray, moments: Sequence[str], ids: Sequence[str], people: FloatArray | None = None
) -> Iterator[tuple[str, str, Estimate]]:
    """A share with its change; a difference from people's, who are the same under each scoring, has none."""
    for rows, moment in zip(values, moments, strict=True):
        yield key, moment, mean_share(rows, ids) if people is None else mean_change(people, rows + people, ids)
    if len(moments) > 1 and people is None:
        yield key, "change", mean_change(values[0], values[1], ids)


def _ranks(
    bias: str, alike: Sequence[Member], hits: FloatArray, common: BoolArray, people: Majority | None
) -> Iterator[Number]:
    """Places by skew and, if people voted, by distance; Missing with too few prompts."""
    wanted = {"rank_by_skew": (common, None)}
    if people is not None:
        wanted["rank_by_distance"] = (people.used, people.target[people.used])  # type: ignore[assignment]
    for key, (used, target) in wanted.items():
        ids = list(compress(alike[0].margins[bias].prompt_ids, used))
        places = or_missing(partial(ranks, hits[:, used], ids, target))
        for at, member in enumerate(alike):
            of = {"audit": member.name, "kind": member.row.kinds, "bias": bias}
            yield Number.of(key, "model", of, places if isinstance(places, Missing) else places[at])


def _on_both(first: Member, other: Member) -> PairedOn:
    of = [*(bias for bias in first.row.biases if bias in other.row.biases), QUALITY]
    return {name: _paired(name, first, other) for name in of}


def _paired(name: str, first: Member, other: Member) -> PairedMargins | Missing:
    """Two audits on the texts that both have a margin on under their last scoring."""
    if name not in first.margins or name not in other.margins:
        return _NOT_MEASURED
    if tied := [member.name for member in (first, other) if name in member.row.tied]:
        return Missing(reason=f"no skew to compare: {listed(tied)} {'score' if len(tied) > 1 else 'scores'} {ALIKE}")
    if name == QUALITY and (tied := [member.name for member in (first, other) if _ties_all(member)]):
        return Missing(reason=f"no accuracy to compare: {listed(tied)} {'tie' if len(tied) > 1 else 'ties'} every pair")
    prompts: dict[str, str] = {}
    margins: list[dict[str, float]] = []
    for member in (first, other):
        own = member.margins[name]
        prompts |= dict(zip(own.ids, own.prompt_ids, strict=True))
        known = zip(own.ids, own.by_scoring[member.scorings[-1]], strict=True)
        margins.append({each: float(margin) for each, margin in known if not np.isnan(margin)})
    one, two = margins
    if not (shared := sorted(one.keys() & two.keys())):
        return Missing(reason=f"no text of the {len(one)} of the first is among the {len(two)} of the other")
    return compare_margins(
        [one[each] for each in shared], [two[each] for each in shared], [prompts[each] for each in shared],
        (first.ties, other.ties), (len(one) - len(shared), len(two) - len(shared)),
    )  # fmt: skip


def _ties_all(member: Member) -> bool:
    """True if it scores both sides of every quality pair alike."""
    found = member.row.last("accuracy")
    ties = member.row.quality_ties.get("after" if member.row.training else "model", 0)
    return isinstance(found, Estimate) and ties == found.n


def _tested(pairs: Mapping[str, PairedOn]) -> Iterator[PairedMargins]:
    yield from (found for on in pairs.values() for found in on.values() if isinstance(found, PairedMargins))


def adjusted(pairs: Mapping[str, PairedOn]) -> dict[str, PairedOn]:
    """The pairs with p-values adjusted over all of their tests."""
    p_values = [found.test.p_value for found in _tested(pairs)]
    found_p = iter(zip(holm(p_values), benjamini_hochberg(p_values), strict=True) if p_values else ())

    def with_p(found: PairedMargins | Missing) -> PairedMargins | Missing:
        if isinstance(found, Missing):
            return found
        p_holm, p_bh = next(found_p)
        return found.model_copy(update={"test": found.test.model_copy(update={"p_holm": p_holm, "p_bh": p_bh})})

    return {other: {name: with_p(found) for name, found in on.items()} for other, on in pairs.items()}


_LONGEST = 40
"""Characters of the targets' names in the name of a comparison's folder."""
_OF_COMPARISONS = ("figures", "out", "confirm", "progress", "overrides")
"""Options that have an effect on a comparison of finished audits."""


def check_export(place: str | None, several: bool = False) -> None:
    """Refuse, before any work, a place for rows that is neither a folder nor, for one model, a .json file, or cannot be written."""
    if place is not None:
        free_place(row_file(place, "row.json", several))


def export_rows(of: AuditResult | ComparisonResult, place: str | None) -> None:
    """Write the rows of audits, if a place is given; say where each is, if the place is a folder."""
    if place is not None and is_main():
        written = of.export(place)
        for file in (written,) if isinstance(written, Path) else written:
            if str(file) != place:
                say(f"Row: {file}")


class _PlannedAudit(NamedTuple):
    """One model: its name, the folder of its run, and what is audited."""

    name: str
    run: Path
    target: Model


class _Asked(NamedTuple):
    """What is compared: models to audit with their settings, and what is finished."""

    models: Sequence[_PlannedAudit]
    settings: Mapping[str, object]
    finished: Sequence[str | Path]
    repeated: Sequence[str]
    seed: int
    folder: Path


def compare_targets(targets: Sequence[Model], terms: Terms) -> ComparisonResult | DiscoveriesResult:
    """Audit every model in a folder of its own, reusing what is there, and compare all that could be audited with what is finished.

    Mistakes in the settings are raised before anything is spent; a model that fails afterwards is named in the result, and does not
    stop the others. The cost of all LLMs is agreed to once, and `llm.budget_usd` holds for all models together. Folders of
    discoveries are compared with each other.
    """
    if discoveries := discoveries_at(targets):
        return _compared_discoveries(discoveries, terms)
    asked = _checked(targets, terms)
    gather(asked.finished) if asked.finished else None  # what cannot be read is known before anything is spent
    steps, failed = _costs(asked, terms)
    opened = Opened()
    if steps:
        say(f"\n{len(asked.models)} models, their LLM calls together")
        confirm_all(steps, terms.consent, opened)
    purse = Purse(own_folder(asked.folder / FOLDER)) if any(price_of(llm) for llm, _ in steps) else None
    agreed = terms.but(confirm=True) if steps else terms

    def audit(_: str, loaded: LoadedRecipe) -> None:
        share_purse(loaded, purse, agreed_calls(opened))
        carry_out(replace(loaded, brief=True))

    failed |= _each(asked, agreed, audit, without=tuple(failed))
    if purse is not None and purse.n_calls:
        say(f"\n{purse.n_calls:,} LLM calls for ${purse.spent:,.2f}, in all starts")
    done = [each.run for each in asked.models if each.name not in failed]
    if not done and not asked.finished:
        raise _none_left(failed)
    return _compared(asked, gather(asked.finished, done), failed, terms)


def plan_comparison(targets: Sequence[Model], terms: Terms, full: bool = False) -> ComparisonPlan:
    """Check everything, and say the plan of every audit; do nothing. Raises as `compare_targets`, RunError if any model fails."""
    if discoveries := discoveries_at(targets):
        _compared_discoveries(discoveries, terms)  # its dry run ends here
    asked = _checked(targets, terms)
    if not asked.models:
        _compared(asked, gather(asked.finished), {}, terms)  # its dry run ends here
    plans: dict[str, Plan] = {}

    def planned(name: str, loaded: LoadedRecipe) -> None:
        plans[name] = said_plan(replace(run_job(loaded), costs=list), loaded, full)  # those of all are said below

    if failed := _each(asked, terms, planned):
        raise _none_left(failed)
    with noting():
        steps, _ = _costs(asked, terms)
    if steps:
        say("\nLLM calls of all models")
        tell_costs(steps)
    read = [f"reads       {place}" for place in asked.finished]
    say("\n".join(["", *read, f"comparison  {asked.folder}", "", NOTHING_DONE]))
    return ComparisonPlan(models=plans, folder=asked.folder)


def _compared_discoveries(files: Mapping[str, Path], terms: Terms) -> DiscoveriesResult:
    """Compare discoveries, whose results are read as they are, and write every form."""
    given = [name for name in terms.given if name not in _OF_COMPARISONS]
    if given := [*given, *terms.settings, *(terms["overrides"] or ())]:
        raise RecipeError([f"{terms.where}: {', '.join(given)}: no effect on discoveries, which are read as they are"])
    result = read_discoveries(files)
    mark = fingerprint(sorted(str(file.resolve()) for file in files.values()))[:6]
    folder = RUNS / f"compare-discoveries-{mark}" if terms["out"] is None else user_path(terms["out"]) / "comparison"
    plan = [f"reads       {name}: {one.n_confirmed} confirmed" for name, one in result.discoveries.items()]
    place = ResultsFolder(folder, DiscoveriesResult.made_by)
    return perform(Job(lambda: plan, lambda _: Made(result), place), None, terms["figures"])


def _compared(asked: _Asked, gathered: Gathered, failed: Mapping[str, str], terms: Terms) -> ComparisonResult:
    """Compare what was read, and write every form."""

    def plan() -> list[str]:
        said = [
            f"reads       {each.source}: {each.row.label}; biases: {', '.join(each.row.biases)}"
            for each in gathered.members
        ]
        left = [f"            {name}: {reason}" for name, reason in gathered.refused.items()]
        return [*said, *left]

    def work(_: Path) -> Made[ComparisonResult]:
        result = compare_audits(gathered, asked.seed, failed, asked.repeated)
        names = as_given(*asked.finished, *(place for each in asked.models for place in (each.target, each.run)))
        return Made(result, {"comparison.csv": partial(comparison_csv, result)}, names=names)

    return perform(Job(plan, work, ResultsFolder(asked.folder, ComparisonResult.made_by)), None, terms["figures"])


def _none_left(failed: Mapping[str, str]) -> RunError:
    return RunError("\n".join(f"{name}: {problem}" for name, problem in failed.items()))


def _checked(targets: Sequence[Model], terms: Terms) -> _Asked:
    """Models with their folders and the settings of all, and what is finished; RecipeError carries every mistake."""
    problems: list[str] = []
    models: list[Model] = []
    finished: list[str | Path] = []
    once, repeated = _distinct(targets)
    for target in once:
        if wrong := refuse_results(target, of_one=False):
            problems += wrong
            continue
        try:
            is_finished = isinstance(target, str | PathLike) and audits_at(target) is not None
        except DataError as error:
            problems.append(str(error))
            continue
        if is_finished:
            finished.append(str(target))
        else:
            models.append(target)
    is_folder = any(said != place for place in finished for _, said in audits_at(place) or ())
    if not problems and len(once) < 2 and not is_folder:
        one = str(once[0]) if once else "none"
        missing = bool(once) and not finished and isinstance(once[0], str | PathLike) and not is_there(user_path(one))
        found = f"{one}, no such file or folder" if missing else f"{one}{' twice' * bool(repeated)}"
        problems.append(f"{terms.where}: give two or more to compare, or a folder of them; found {found}")
    given = [name for name in terms.given if name not in _OF_COMPARISONS]
    given += [*terms.settings, *(terms["overrides"] or ())]
    if given and not models:
        problems.append(
            f"{terms.where}: {', '.join(given)}: no effect on finished audits, and no model is audited here"
        )
    settings = terms.nested()
    planned, seed = _planned(models, settings, terms, problems)
    names = [*(each.run.name.removeprefix("audit-") for each in planned), *(Path(place).name for place in finished)]
    mark = fingerprint(sorted(str(user_path(place)) for place in (*(each.run for each in planned), *finished)))[:6]
    folder = RUNS / f"compare-{'-'.join(names)[:_LONGEST].strip('-.')}-{mark}"
    folder = folder if terms["out"] is None else user_path(terms["out"]) / "comparison"
    return _Asked(planned, settings, finished, repeated, seed, folder)


def _costs(asked: _Asked, terms: Terms) -> tuple[list[Step], dict[str, str]]:
    """The LLM calls of all models, those that several have in common once; and problems of models that would ask an LLM and
    cannot be audited, by name."""
    steps: list[Step] = []

    def plan(_: str, loaded: LoadedRecipe) -> None:
        if own := planned_calls(loaded):
            planning.check(loaded)
            steps.extend(step for step in own if step not in steps)

    failed = _each(asked, terms, plan, tell=False)
    return steps, failed


def _each(
    asked: _Asked,
    terms: Terms,
    do: Callable[[str, LoadedRecipe], object],
    without: Collection[str] = (),
    tell: bool = True,
) -> dict[str, str]:
    """Do something with each model, one after the other; problems by name of those that failed. Raises those that no user can act
    on."""
    failed: dict[str, str] = {}
    models = [each for each in asked.models if each.name not in without]
    for number, (name, run, target) in enumerate(models, 1):
        if tell:
            say(f"\n[{number}/{len(models)}] {name}")
        try:
            placed = {**asked.settings, "run": {"folder": str(run)}}
            with loaded_for_model(target, placed, terms) as loaded:
                do(name, loaded)
        except Exception as error:
            if (problem := explain(error)) is None:
                raise
            failed[name] = "; ".join(line.removeprefix(f"{name}: ") for line in problem.splitlines())
            if tell:
                say(f"  failed: {failed[name]}")
    return failed


def _resolved(path: str) -> str:
    return str(user_path(path).resolve()) if is_there(user_path(path)) else path


def _distinct(targets: Sequence[Model]) -> tuple[list[Model], list[str]]:
    """Each target once, whatever way a path is written; and the names of those that were repeated."""
    found: dict[object, Model] = {}
    repeated: list[str] = []
    for target in targets:
        key: object = id(target)
        if isinstance(target, str | PathLike):
            kind = scorer_kind(str(target))
            key = kind, kind.written(kind.bare(str(target)), _resolved)
        if key in found and str(target) not in repeated:
            repeated.append(str(target))
        found.setdefault(key, target)
    return list(found.values()), repeated


def _planned(
    targets: Sequence[Model], settings: Mapping[str, object], terms: Terms, problems: Sequence[str]
) -> tuple[list[_PlannedAudit], int]:
    """Name and folder of every model, and the seed; RecipeError carries every mistake in settings and targets, and `problems`."""
    found = list(problems)
    planned: list[_PlannedAudit] = []
    seed = 42
    for target in targets:
        try:
            if isinstance(target, str) and is_recipe(target):
                raise RecipeError(
                    [f"{terms.where}: {target} is a recipe: train it, and give the folder of its run here"]
                )
            with loaded_for_model(target, settings, terms) as loaded:
                recipe = loaded.recipe
        except RecipeError as error:
            found += error.problems
            continue
        seed = recipe.seed
        if recipe.run.folder not in (None, str(terms["out"])):
            found.append(f"{terms.where}: run.folder: names the folder of one run; that of several is `out`, or --out")
        own = terms.apart(loaded).recipe.run_path if terms["out"] is None else user_path(terms["out"]) / recipe.name
        name = bare_name(recipe.model.name_or_path)
        if not isinstance(target, str | PathLike) and any(each.name == name for each in planned):
            found.append(f"{terms.where}: {same_name(name)}")
        if any(each.run == own for each in planned):  # org/model and org-model
            own = own.with_name(f"{own.name}-{fingerprint(name)[:6]}")
        planned.append(_PlannedAudit(name, own, target))
    if found:
        raise RecipeError(dict.fromkeys(found))
    return planned, seed
