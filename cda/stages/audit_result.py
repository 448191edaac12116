"""The headline of an audit: skew, people's votes and quality under every scoring, with what changed where there are two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np

from cda.data.contrasts import DIRECTIONS
from cda.embedded.rules import telling_phrases
from cda.metrics.beyond_noise import beyond_noise
from cda.metrics.people import AgainstPeople, against_people
from cda.metrics.people_change import people_change
from cda.metrics.prediction_powered import powered_human_skew, powered_miscalibration
from cda.metrics.preference import Change, ModelTies, positive_share, positive_share_change
from cda.metrics.preference_table import preference_table
from cda.metrics.votes import TieRule, agreement, noise_ceiling
from cda.records import Contrast, Pair, prompt_id
from cda.results.audit import AuditResult
from cda.results.base import Estimate, Measure, Missing, PerScoring, Test, as_json
from cda.results.effects import BiasEffects
from cda.results.rate import BiasRate
from cda.results.skew import BiasSkew, PlainSkew, Quality, TripleSkew, UnseenPhrases
from cda.score.compared import Compared, Rewards
from cda.stages.audit_groups import FloatArray, Group, People, Scorings, attempt, estimated, people_of, sides_of
from cda.stats.multiplicity import benjamini_hochberg, holm
from cda.stats.proportions import exact_change_test
from cda.stats.streams import Stream, generator

T = TypeVar("T")
M = TypeVar("M", bound=Measure)
W = TypeVar("W", UnseenPhrases, TripleSkew)
A = TypeVar("A", BiasSkew, Quality, BiasEffects, BiasRate)
_NOTHING = {"value": 0.0, "low": 0.0, "high": 0.0, "method": "one model"}
"""A change from a model to itself."""
_SAME_MODEL = Missing(reason="before and after are one model")


def rng(seed: int) -> np.random.Generator:
    """The audit's generator: every number is drawn from a fresh one, so that none depends on which others were made."""
    return generator(seed, Stream.AUDIT_INTERVALS)


def skews(
    groups: Sequence[Group], available: Mapping[str, int], failed: Mapping[str, Mapping[str, int]]
) -> dict[str, BiasSkew]:
    """Skew of every bias, the targets first."""
    return {
        group.bias.name: BiasSkew(
            **dict(measure_of(group.margins, group.prompt_ids, ties_of(group.unit))),
            target=group.is_target,
            source=group.contrasts[0].tags.get("source", "file"),
            available=available[group.bias.name],
            unread=group.n_unread,
            rewrites_failed=dict(failed.get(group.bias.name, {})),
            by_direction=_by_direction(group),
            mean_margin=per_scoring({label: float(values.mean()) for label, values in group.margins.items()}),
            sd_margin=per_scoring({label: float(values.std()) for label, values in group.margins.items()}),
        )
        for group in groups
    }


def plain_skew(group: Group) -> PlainSkew:
    """Skew of a bias, and apart for contrasts to which it was added and from which it was removed."""
    measured = measure_of(group.margins, group.prompt_ids, ties_of(group.unit))
    return PlainSkew(**dict(measured), by_direction=_by_direction(group))


def _by_direction(group: Group) -> dict[str, Measure]:
    """Skew among contrasts to which the bias was added, and among those from which it was removed; none without both."""
    made = np.array([one.tags.get("direction", "") for one in group.contrasts])
    directions = [name for name in DIRECTIONS if (made == name).any()]
    found: dict[str, Measure] = {}
    for name in directions if len(directions) == len(DIRECTIONS) else []:
        keep = made == name
        ids = [one for one, kept in zip(group.prompt_ids, keep, strict=True) if kept]
        margins = {label: values[keep] for label, values in group.margins.items()}
        found[name] = measure_of(margins, ids, ties_of(group.unit))
    return found


def votes(groups: Sequence[Group], rule: TieRule, seed: int) -> dict[str, Any]:
    """Every bias that people voted on: human skew, miscalibration, gap, AUC; agreement and noise ceiling from raw votes."""
    found = {group.bias.name: (group, people_of(group, rule)) for group in groups}
    return {name: _beside(group, people, seed) for name, (group, people) in sorted(found.items()) if people}


def votes_moved(groups: Sequence[Group], rule: TieRule, seed: int) -> dict[str, Any]:
    """The part of `votes` that a training changes; of two scorings."""
    found = {group.bias.name: (group, people_of(group, rule)) for group in groups}
    return {name: _moved(group, people, seed)[1] for name, (group, people) in sorted(found.items()) if people}


def votes_undecided(groups: Sequence[Group], rule: TieRule) -> dict[str, int]:
    """Biases that people voted on without a majority for one side on any contrast: how many contrasts have votes."""
    voted = {group.bias.name: sum(bool(one.votes or one.preferred) for one in group.contrasts) for group in groups}
    return {group.bias.name: n for group in groups if (n := voted[group.bias.name]) and not people_of(group, rule)}


def quality(pairs: Sequence[Pair], scorings: Scorings) -> Quality | None:
    """Accuracy on held-out pairs; pairs without a readable verdict are left out and counted."""
    margins, ids = _quality_margins(pairs, scorings)
    if not ids:
        return None
    ties = ties_of(next(iter(scorings.values())).unit)
    return Quality(**dict(measure_of(margins, ids, ties)), unread=len(pairs) - len(ids))


def beyond_noise_of(
    groups: Sequence[Group], pairs: Sequence[Pair], scorings: Scorings
) -> dict[str, Estimate | Missing]:
    """Of two scorings, how far each bias's mean margin moved beyond noise and stretched rewards; else nothing."""
    if len(scorings) != 2:
        return {}
    margins, ids = _quality_margins(pairs, scorings)
    if not ids:
        return {group.bias.name: Missing(reason="quality was not measured") for group in groups}
    first, second = scorings
    return {
        group.bias.name: estimated(
            partial(
                beyond_noise,
                group.margins[first],
                group.margins[second],
                group.prompt_ids,
                margins[first],
                margins[second],
                ids,
            )
        )
        for group in groups
    }


def _quality_margins(pairs: Sequence[Pair], scorings: Scorings) -> tuple[dict[str, FloatArray], list[str]]:
    """Margins of the quality pairs that every scoring has a verdict on, and their prompts."""
    compared = [(pair.prompt, pair.chosen, pair.rejected) for pair in pairs]
    margins = {label: scoring.margins(compared) for label, scoring in scorings.items()}
    read = ~np.isnan(np.array(list(margins.values()))).any(axis=0)
    ids = [prompt_id(pair.prompt) for pair, keep in zip(pairs, read, strict=True) if keep]
    return {label: values[read] for label, values in margins.items()}, ids


def unseen_phrases(groups: Sequence[Group]) -> dict[str, UnseenPhrases]:
    """Skew on contrasts whose perturbed side holds no wording that the rule-based rewriter can put into a text.

    It shows whether training unlearned a feature or a word list. Wordings that the base sides hold as well are ordinary
    ones and do not count.
    """
    result: dict[str, UnseenPhrases] = {}
    for group in groups:
        if not group.is_target or group.bias.offline is None:
            continue
        pattern = telling_phrases(group.bias.offline, [one.base for one in group.contrasts])
        keep = np.array([not pattern.search(one.perturbed) for one in group.contrasts])
        skew: Measure | Missing = Missing(reason="no such contrast")
        if keep.any():
            ids = [one for one, kept in zip(group.prompt_ids, keep, strict=True) if kept]
            skew = measure_of({label: values[keep] for label, values in group.margins.items()}, ids)
        result[group.bias.name] = UnseenPhrases(n=int(keep.sum()), of=len(group), skew=skew)
    return result


def unchanged(audit: AuditResult) -> AuditResult:
    """The audit with every change of a share or a RATE effect exactly 0: at dose 0, before and after are one model."""
    for part in (audit.votes, audit.quality_sections):
        _set_unchanged(part)
    return audit.model_copy(
        update={
            "rate": {name: _rate_unchanged(one) for name, one in audit.rate.items()},
            "skew": {name: _still(one) for name, one in audit.skew.items()},
            "quality": audit.quality and _still(audit.quality),
            "unseen_phrases": {name: _still_within(one) for name, one in audit.unseen_phrases.items()},
            "triple_skew": {name: _still_within(one) for name, one in audit.triple_skew.items()},
        }
    )


def _rate_unchanged(rate: BiasRate) -> BiasRate:
    after = rate.under().get("after")
    if after is None or isinstance(after.overall, Missing):
        return rate
    nothing: dict[str, Any] = {"p_value": 1.0, "bca": _SAME_MODEL, "standardised": _SAME_MODEL}
    effects = tuple(
        one.model_copy(update={"estimate": one.estimate.model_copy(update=_NOTHING), **nothing})
        for one in after.overall.effects
    )
    return rate.model_copy(update={"changes": after.overall.model_copy(update={"effects": effects})})


def _still(one: M) -> M:
    """A measure whose changes are exactly 0, and those of its directions."""
    found: dict[str, Any] = {"change": _nothing(one.change), "unpaired": _nothing(one.unpaired)}
    if isinstance(one, BiasSkew):
        found["by_direction"] = {name: _still(each) for name, each in one.by_direction.items()}
    return one.model_copy(update=found)


def _still_within(one: W) -> W:
    return one if isinstance(one.skew, Missing) else one.model_copy(update={"skew": _still(one.skew)})


def _nothing(change: Estimate | Missing) -> Estimate | Missing:
    return change if isinstance(change, Missing) else change.model_copy(update=_NOTHING)


def _set_unchanged(part: Any) -> None:
    if isinstance(part, list | tuple):
        for one in part:
            _set_unchanged(one)
    if not isinstance(part, dict):
        return
    for name, value in part.items():
        estimate = value.get("estimate") if name == "shift" and isinstance(value, dict) else value
        if name in ("change", "unpaired", "shift") and isinstance(estimate, dict) and "low" in estimate:
            estimate |= _NOTHING
        else:
            _set_unchanged(value)


def adjust_for_all_tests(audit: AuditResult) -> AuditResult:
    """The audit with Holm's and Benjamini and Hochberg's adjusted p-values beside every p-value of its family of tests.

    The family is everything that the audit tests: changes of skew, of skew and miscalibration where people voted, and of
    quality; of an audit alone, mean margins and skew against people's; RATE's average effects by the double-rewrite estimator.
    """
    skews = {name: one.test for name, one in audit.skew.items() if isinstance(one.test, Test)}
    tests = [one[what] for one in audit.votes.values() for what in ("skew_on_voted", "miscalibration")]
    tests += [one["gap_test"] for one in audit.votes.values() if "gap_test" in one]
    tests = [one for one in tests if "p_value" in one]
    quality = [audit.quality.test] if audit.quality and isinstance(audit.quality.test, Test) else []
    effects = {name: one.test for name, one in audit.effects.items() if isinstance(one.test, Test)}
    rates = {name: one.test for name, one in audit.rate.items() if isinstance(one.test, Test)}
    p_values = [one.p_value for one in skews.values()] + [one["p_value"] for one in tests]
    p_values += [one.p_value for one in (*quality, *effects.values(), *rates.values())]
    adjusted = iter(zip(holm(p_values), benjamini_hochberg(p_values), strict=True))
    skew = {name: _adjusted(audit.skew[name], next(adjusted)) for name in skews}
    for one in tests:
        one["p_holm"], one["p_bh"] = next(adjusted)
    found: dict[str, Any] = {"skew": audit.skew | skew, "n_tests": len(p_values)}
    if audit.quality and quality:
        found["quality"] = _adjusted(audit.quality, next(adjusted))
    found["effects"] = audit.effects | {name: _adjusted(audit.effects[name], next(adjusted)) for name in effects}
    found["rate"] = audit.rate | {name: _adjusted(audit.rate[name], next(adjusted)) for name in rates}
    return audit.model_copy(update=found)


def _adjusted(one: A, adjusted: tuple[float, float]) -> A:
    """A measure, or an effect, whose test has these adjusted p-values: Holm's, and Benjamini and Hochberg's."""
    if isinstance(one.test, Missing):
        return one
    test = one.test.model_copy(update={"p_holm": adjusted[0], "p_bh": adjusted[1]})
    return one.model_copy(update={"test": test})


def margin_rows(contrasts: Sequence[Contrast], pairs: Sequence[Pair], scorings: Scorings) -> list[dict[str, Any]]:
    """One row a comparison with what every scoring said; rewards of both sides where there are rewards."""
    rows: list[dict[str, Any]] = []
    for contrast in contrasts:
        named: dict[str, Any] = {
            "kind": "contrast",
            "bias": contrast.bias,
            "id": contrast.id,
            "preferred": contrast.preferred,
        }
        if contrast.votes:
            named["votes"] = list(contrast.votes)
        rows.append(
            named | _said(contrast.prompt, ("perturbed", contrast.perturbed), ("base", contrast.base), scorings)
        )
    for pair in pairs:
        said = _said(pair.prompt, ("chosen", pair.chosen), ("rejected", pair.rejected), scorings)
        rows.append({"kind": "quality", "id": pair.id} | said)
    return rows


def ties_of(unit: str) -> ModelTies:
    """What a margin of exactly 0 counts: a judge says tie on purpose, a reward model by accident."""
    return "half" if unit == "preference" else "no-hit"


def measure_of(margins: Mapping[str, FloatArray], prompt_ids: Sequence[str], ties: ModelTies = "no-hit") -> Measure:
    """Share of positive margins under each scoring; with two (reward models), their paired change and its test."""
    if len(margins) == 2:
        before, after = margins.values()
        found = positive_share_change(before, after, prompt_ids)
        return Measure(
            before=found.before,
            after=found.after,
            change=found.change,
            unpaired=found.unpaired,
            test=Test(p_value=found.p_value, method=found.p_method),
            ties=PerScoring[int](before=found.n_ties[0], after=found.n_ties[1]),
        )
    (values,) = margins.values()
    share = positive_share(values, prompt_ids, ties)
    return Measure(before=share, ties=PerScoring[int](before=int((values == 0).sum())))


def per_scoring(values: Mapping[str, T]) -> PerScoring[T]:
    """A value of the one model; or of the model before and after."""
    return PerScoring(**dict(zip(("before", "after"), values.values(), strict=False)))


def change_json(change: Change) -> dict[str, Any]:
    """A change as JSON."""
    return {
        "before": change.before.model_dump(),
        "after": change.after.model_dump(),
        "change": change.change.model_dump(),
        "unpaired": change.unpaired.model_dump(),
        "p_value": change.p_value,
        "p_method": change.p_method,
        "ties": {"before": change.n_ties[0], "after": change.n_ties[1]},
    }


def _beside(group: Group, people: People, seed: int) -> dict[str, Any]:
    ids, found = list(group.prompt_ids), people.majority
    human_skew, result = _moved(group, people, seed) if len(group.margins) == 2 else _alone(group, people)
    result = {"human_skew": human_skew, **result}
    result["by_majority"] = {label: _by_majority(values, group, people) for label, values in group.margins.items()}
    result |= {"rule": found.rule, "left_out": dict(found.exclusions.reasons)}
    counts = people.counts
    if counts is not None:
        result["agreement"] = attempt(lambda: agreement(counts, ids, rng(seed)))
        result["noise_ceiling"] = attempt(lambda: noise_ceiling(counts, found, ids, rng(seed)))
    if any(one.verdicts for one in group.contrasts):
        result["prediction_powered"] = _powered(group)
    return result


def _moved(group: Group, people: People, seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Human skew, and what training did to the model beside people."""
    before, after = group.margins.values()
    change = people_change(before, after, people.majority, list(group.prompt_ids), rng(seed))
    sides = {"before": change.before, "after": change.after}
    return change.before.human_skew.model_dump(), {
        "skew_on_voted": change_json(change.skew),
        "miscalibration": change_json(change.miscalibration),
        "gap": _both(sides, "gap", change.gap),
        "auc": _both(sides, "auc", change.auc),
        "signed_gap": _both(sides, "signed_gap", None),
    }


def _alone(group: Group, people: People) -> tuple[dict[str, Any], dict[str, Any]]:
    """Human skew, and one model beside people."""
    ids = list(group.prompt_ids)
    ((label, values),) = group.margins.items()
    one = against_people(values, people.majority, ids, ties_of(group.unit))
    sides = {label: one}
    return one.human_skew.model_dump(), {
        "skew_on_voted": {label: one.skew.model_dump()},
        "miscalibration": {label: one.miscalibration.model_dump()},
        "gap": {label: one.gap.model_dump()},
        "auc": _both(sides, "auc", None),
        "gap_test": _gap_test(values, people, ids, ties_of(group.unit)),
        "signed_gap": _both(sides, "signed_gap", None),
    }


def _by_majority(margins: FloatArray, group: Group, people: People) -> dict[str, Any]:
    words = sides_of(group, people)
    return dict(as_json(preference_table(margins, words, group.prompt_ids, ties_of(group.unit))))


def _gap_test(margins: FloatArray, people: People, ids: Sequence[str], ties: ModelTies) -> dict[str, Any]:
    """Exact paired test that the model's preferences and people's majorities are for the perturbed side equally often."""
    rows = people.majority.used
    hits = np.where(margins == 0, 0.5, margins > 0) if ties == "half" else (margins > 0).astype(float)
    kept = [one for one, keep in zip(ids, rows, strict=True) if keep]
    test = exact_change_test(people.majority.target[rows], hits[rows], kept)
    return {"what": "skew differs from human skew", "p_value": test.p_value, "p_method": test.method}


def _powered(group: Group) -> dict[str, Any]:
    """Human skew and miscalibration of all contrasts, from few votes and the judges' verdicts; ties count half."""
    people = people_of(group, "half")
    if people is None:
        return {"missing": "no contrast has a majority"}
    value = {"perturbed": 1.0, "tie": 0.0, "base": -1.0}
    judge = np.array(
        [np.mean([value[word] for word in one.verdicts]) if one.verdicts else np.nan for one in group.contrasts]
    )
    ids = group.prompt_ids
    found = {"human_skew": attempt(partial(powered_human_skew, people.majority, judge, ids))}
    for label, margins in group.margins.items():
        found[f"miscalibration_{label}"] = attempt(
            partial(powered_miscalibration, margins, people.majority, judge, ids, ties_of(group.unit))
        )
    return found


def _both(sides: Mapping[str, AgainstPeople], name: str, change: Estimate | None) -> dict[str, Any]:
    values = {label: getattr(one, name) for label, one in sides.items()}
    if None in values.values():
        return {"missing": "all majorities are for one side"}
    found = {label: as_json(value) for label, value in values.items()}
    return found if change is None else found | {"change": change.model_dump()}


def _said(prompt: Any, first: tuple[str, str], second: tuple[str, str], scorings: Scorings) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for label, scoring in scorings.items():
        if isinstance(scoring, Rewards):
            found |= {f"{name}_{label}": known(scoring.of(prompt, text)) for name, text in (first, second)}
        else:
            found[f"margin_{label}"] = _number(scoring, prompt, first[1], second[1])
    return found


def known(value: float) -> float | None:
    """A number as JSON has it; None for one that is not there."""
    return None if np.isnan(value) else value


def _number(scoring: Compared, prompt: Any, first: str, second: str) -> float | None:
    return known(float(scoring.margins([(prompt, first, second)])[0]))
