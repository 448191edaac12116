"""The headline of an audit: skew, people's votes and quality under every scoring, with what changed where there are two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np

from cda.arrays import FloatArray
from cda.auditing.groups import Group, Scorings, estimated
from cda.data.contrasts import DIRECTIONS
from cda.data.quality_sets import QualitySet
from cda.embedded.rules import telling_phrases
from cda.records import Contrast, Pair, count_reasons, prompt_id
from cda.resources.artifacts import shown_path
from cda.results.audit import AuditResult
from cda.results.base import BeforeAfter, Estimate, Measure, Missing, PerScoring, Test
from cda.results.benchmarks import Accuracies, AccuracyGroup, SetQuality
from cda.results.effects import BiasEffects
from cda.results.rate import BiasRate
from cda.results.skew import BiasSkew, PlainSkew, Quality, TripleSkew, UnseenPhrases, VotedBias
from cda.scorers.compared import Compared, Rewards
from cda.stats.accuracy import Ranked, measure, with_holm
from cda.stats.multiplicity import benjamini_hochberg, holm
from cda.stats.preference import Change, ModelTies, beyond_noise, positive_share, positive_share_change
from cda.stats.streams import Stream, generator

T = TypeVar("T")
M = TypeVar("M", bound=Measure)
W = TypeVar("W", UnseenPhrases, TripleSkew)
A = TypeVar("A", Measure, BiasSkew, Quality, BiasEffects, BiasRate)
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
    return audit.model_copy(
        update={
            "rate": {name: _rate_unchanged(one) for name, one in audit.rate.items()},
            "skew": {name: _still(one) for name, one in audit.skew.items()},
            "votes": {name: _still_votes(one) for name, one in audit.votes.items()},
            "quality": audit.quality and _still(audit.quality),
            "quality_sections": audit.quality_sections and _still_sections(audit.quality_sections),
            "unseen_phrases": {name: _still_within(one) for name, one in audit.unseen_phrases.items()},
            "triple_skew": {name: _still_within(one) for name, one in audit.triple_skew.items()},
        }
    )


def _rate_unchanged(rate: BiasRate) -> BiasRate:
    after = rate.under().get("after")
    if after is None or isinstance(after.overall, Missing):
        return rate
    nothing: dict[str, object] = {"p_value": 1.0, "bca": _SAME_MODEL, "standardised": _SAME_MODEL}
    effects = tuple(
        one.model_copy(update={"estimate": one.estimate.model_copy(update=_NOTHING), **nothing})
        for one in after.overall.effects
    )
    return rate.model_copy(update={"changes": after.overall.model_copy(update={"effects": effects})})


def _still(one: M) -> M:
    """A measure whose changes are exactly 0, and those of its directions."""
    found: dict[str, object] = {"change": _nothing(one.change), "unpaired": _nothing(one.unpaired)}
    if isinstance(one, BiasSkew):
        found["by_direction"] = {name: _still(each) for name, each in one.by_direction.items()}
    return one.model_copy(update=found)


def _still_within(one: W) -> W:
    return one if isinstance(one.skew, Missing) else one.model_copy(update={"skew": _still(one.skew)})


def _still_votes(one: VotedBias) -> VotedBias:
    found: dict[str, object] = {name: _still(getattr(one, name)) for name in ("skew_on_voted", "miscalibration")}
    found["gap"] = one.gap.model_copy(update={"change": _nothing(one.gap.change)})
    if isinstance(one.auc, BeforeAfter):
        found["auc"] = one.auc.model_copy(update={"change": _nothing(one.auc.change)})
    return one.model_copy(update=found)


def _nothing(change: Estimate | Missing) -> Estimate | Missing:
    return change if isinstance(change, Missing) else change.model_copy(update=_NOTHING)


def _still_sections(found: SetQuality) -> SetQuality:
    def still(group: AccuracyGroup) -> AccuracyGroup:
        shift = group.shift
        if shift is None:
            return group
        estimate = shift.estimate.model_copy(update=_NOTHING)
        return group.model_copy(update={"shift": shift.model_copy(update={"estimate": estimate})})

    each = {name: tuple(map(still, getattr(found, name))) for name in ("sections", "subsets", "cells")}
    return found.model_copy(update={"overall": still(found.overall), **each})


def adjust_for_all_tests(audit: AuditResult) -> AuditResult:
    """The audit with Holm's and Benjamini and Hochberg's adjusted p-values beside every p-value of its family of tests.

    The family is everything that the audit tests: changes of skew, of skew and miscalibration where people voted, and of
    quality; of an audit alone, mean margins and skew against people's; RATE's average effects by the double-rewrite estimator.
    """
    skews = {name: one for name, one in audit.skew.items() if isinstance(one.test, Test)}
    voted = [
        (name, what) for name in audit.votes for what in ("skew_on_voted", "miscalibration") if len(audit.scorings) == 2
    ]
    gaps = [name for name, one in audit.votes.items() if one.gap_test is not None]
    quality = [audit.quality.test] if audit.quality and isinstance(audit.quality.test, Test) else []
    effects = {name: one.test for name, one in audit.effects.items() if isinstance(one.test, Test)}
    rates = {name: one.test for name, one in audit.rate.items() if isinstance(one.test, Test)}
    p_values = [_p_of(one) for one in skews.values()]
    p_values += [_p_of(getattr(audit.votes[name], what)) for name, what in voted]
    p_values += [test.p_value for name in gaps if (test := audit.votes[name].gap_test)]
    p_values += [one.p_value for one in (*quality, *effects.values(), *rates.values())]
    adjusted = iter(zip(holm(p_values), benjamini_hochberg(p_values), strict=True))
    skew = {name: _adjusted(one, next(adjusted)) for name, one in skews.items()}
    votes = dict(audit.votes)
    for name, what in voted:
        votes[name] = votes[name].model_copy(update={what: _adjusted(getattr(votes[name], what), next(adjusted))})
    for name in gaps:
        votes[name] = votes[name].model_copy(update={"gap_test": _with_p(votes[name].gap_test, next(adjusted))})
    found: dict[str, object] = {"skew": audit.skew | skew, "votes": votes, "n_tests": len(p_values)}
    if audit.quality and quality:
        found["quality"] = _adjusted(audit.quality, next(adjusted))
    found["effects"] = audit.effects | {name: _adjusted(audit.effects[name], next(adjusted)) for name in effects}
    found["rate"] = audit.rate | {name: _adjusted(audit.rate[name], next(adjusted)) for name in rates}
    return audit.model_copy(update=found)


def _p_of(one: Measure) -> float:
    return one.of_training().test.p_value


def _adjusted(one: A, adjusted: tuple[float, float]) -> A:
    """A measure, or an effect, whose test has these adjusted p-values: Holm's, and Benjamini and Hochberg's."""
    return one if isinstance(one.test, Missing) else one.model_copy(update={"test": _with_p(one.test, adjusted)})


def _with_p(test: Test | None, adjusted: tuple[float, float]) -> Test | None:
    return test and test.model_copy(update={"p_holm": adjusted[0], "p_bh": adjusted[1]})


def margin_rows(contrasts: Sequence[Contrast], pairs: Sequence[Pair], scorings: Scorings) -> list[dict[str, object]]:
    """One row a comparison with what every scoring said; rewards of both sides where there are rewards."""
    rows: list[dict[str, object]] = []
    for contrast in contrasts:
        named: dict[str, object] = {
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
        return measured_change(positive_share_change(before, after, prompt_ids))
    (values,) = margins.values()
    share = positive_share(values, prompt_ids, ties)
    return Measure(before=share, ties=PerScoring[int](before=int((values == 0).sum())))


def measured_change(found: Change) -> Measure:
    """A share before and after as a measure."""
    return Measure(
        before=found.before,
        after=found.after,
        change=found.change,
        unpaired=found.unpaired,
        test=Test(p_value=found.p_value, method=found.p_method),
        ties=PerScoring[int](before=found.n_ties[0], after=found.n_ties[1]),
    )


def per_scoring(values: Mapping[str, T]) -> PerScoring[T]:
    """A value of the one model; or of the model before and after."""
    return PerScoring(**dict(zip(("before", "after"), values.values(), strict=False)))


def _said(prompt: Any, first: tuple[str, str], second: tuple[str, str], scorings: Scorings) -> dict[str, Any]:
    found: dict[str, object] = {}
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


_UNREAD = "no score of both sides"


def quality_by_section(quality: QualitySet | None, scorings: Scorings, seed: int) -> SetQuality | None:
    """Accuracy of every section and subset, before, after and change.

    None where no quality pair is there, or all are of one section: then the audit's one accuracy says the same.
    """
    if quality is None or len({one.section for one in quality.items}) < 2:
        return None
    compared = [(one.prompt, one.chosen[0], one.rejected[0]) for one in quality.items]
    margins = {label: scoring.margins(compared) for label, scoring in scorings.items()}
    read = ~np.isnan(np.array(list(margins.values()))).any(axis=0)
    if not read.any():
        return None
    ranked = {
        label: [
            Ranked(prompt_id(item.prompt), item.subset, item.section, np.array([[margin]]))
            for item, margin, keep in zip(quality.items, values, read, strict=True)
            if keep
        ]
        for label, values in margins.items()
    }
    judged = ties_of(next(iter(scorings.values())).unit) == "half"
    (result,) = with_holm([measure(ranked, "pair", quality.weights, seed, judged)])
    unread = int((~read).sum())
    return set_quality(quality, result, [_UNREAD] * unread)


def set_quality(quality: QualitySet, found: Accuracies, unread: Sequence[str]) -> SetQuality:
    """Accuracies with what is known of their set, and why items of it have no margin."""
    return SetQuality(
        **dict(found),
        name=quality.name,
        source=shown_path(quality.source),
        format=quality.format,
        n_items=len(quality.items) - len(unread),
        exclusions=quality.exclusions,
        left_out_rows={reason: tuple(rows) for reason, rows in quality.left_out_rows.items()},
        unread=len(unread),
        unread_reasons=count_reasons(unread),
        n_expected=dict(quality.n_expected),
    )
