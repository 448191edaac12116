"""The headline of an audit: skew and quality under every scoring, with their changes; and the family of all its tests."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from itertools import compress

import numpy as np
from numpy.typing import NDArray
from pydantic_core import to_jsonable_python

from cda.arrays import FloatArray
from cda.auditing.groups import (
    Group,
    Scorings,
    contrast_comparisons,
    pair_comparisons,
    per_scoring,
    read_margins,
    ties_of,
    unit_of,
)
from cda.data.contrasts import DIRECTIONS
from cda.data.quality_sets import QualitySet
from cda.embedded.rules import telling_phrases
from cda.records import Contrast, Pair, Prompt, Triple, count_reasons
from cda.resources.artifacts import shown_path
from cda.results.audit import AuditResult
from cda.results.base import Estimate, Measure, Missing, PerScoring, Result, Test, or_missing
from cda.results.benchmarks import Accuracies, AccuracyShift, SetQuality
from cda.results.effects import BiasRate
from cda.results.skew import BiasSkew, PlainSkew, Quality, UnseenPhrases
from cda.scorers.compared import Rewards
from cda.stats.accuracy import Ranked, measure_accuracy, with_holm
from cda.stats.multiplicity import benjamini_hochberg, holm
from cda.stats.proportions import ModelTies, beyond_noise, positive_share, positive_share_change

_CHANGES = ("change", "unpaired", "shift")
"""Fields of a result that hold a change from before to after."""
_TESTS = ("test", "gap_test", "by_direction")
"""Fields of a result that hold its test, and one whose tests are outside the family."""
_FAMILY = ("skew", "votes", "quality", "effects", "rate")
"""Parts of an audit whose tests are adjusted together."""
_NOTHING = {"value": 0.0, "low": 0.0, "high": 0.0, "method": "one model"}
"""A change from a model to itself."""
_SAME_MODEL = Missing(reason="before and after are one model")
_UNREAD = "no score of both sides"


def skews(
    groups: Sequence[Group], available: Mapping[str, int], failed: Mapping[str, Mapping[str, int]]
) -> dict[str, BiasSkew]:
    """Skew of every bias, the targets first."""
    return {
        group.bias.name: BiasSkew(
            **dict(plain_skew(group)),
            target=group.is_target,
            source=group.contrasts[0].tags.get("source", "file"),
            available=available[group.bias.name],
            unread=group.n_unread,
            rewrites_failed=dict(failed.get(group.bias.name, {})),
            mean_margin=per_scoring({label: float(values.mean()) for label, values in group.margins.items()}),
            sd_margin=per_scoring({label: float(values.std()) for label, values in group.margins.items()}),
        )
        for group in groups
    }


def plain_skew(group: Group) -> PlainSkew:
    """Skew of a bias; and apart for contrasts to which it was added and from which it was removed, if there are both."""
    directions = np.array([contrast.tags.get("direction", "") for contrast in group.contrasts])
    rows = {name: directions == name for name in DIRECTIONS if (directions == name).any()}
    by_direction = {name: _measure_rows(group, keep) for name, keep in rows.items() if len(rows) == len(DIRECTIONS)}
    return PlainSkew(**dict(share_measure(group.margins, group.prompt_ids, group.ties)), by_direction=by_direction)


def _measure_rows(group: Group, rows: NDArray[np.bool_]) -> Measure:
    margins = {label: values[rows] for label, values in group.margins.items()}
    return share_measure(margins, list(compress(group.prompt_ids, rows)), group.ties)


def quality(pairs: Sequence[Pair], scorings: Scorings) -> Quality | None:
    """Accuracy on held-out pairs; pairs without a readable verdict are left out and counted."""
    margins, ids, _ = read_margins(scorings, pair_comparisons(pairs))
    if not ids:
        return None
    return Quality(**dict(share_measure(margins, ids, ties_of(unit_of(scorings)))), unread=len(pairs) - len(ids))


def beyond_noise_of(
    groups: Sequence[Group], pairs: Sequence[Pair], scorings: Scorings
) -> dict[str, Estimate | Missing]:
    """Change of each bias's mean margin beyond noise and stretched rewards; empty without two scorings."""
    if len(scorings) != 2:
        return {}
    margins, ids, _ = read_margins(scorings, pair_comparisons(pairs))
    if not ids:
        return {group.bias.name: Missing(reason="quality was not measured") for group in groups}
    pairs_before, pairs_after = margins.values()

    def beyond(group: Group) -> Estimate:
        before, after = group.margins.values()
        return beyond_noise(before, after, group.prompt_ids, pairs_before, pairs_after, ids)

    return {group.bias.name: or_missing(partial(beyond, group)) for group in groups}


def unseen_phrases(groups: Sequence[Group]) -> dict[str, UnseenPhrases]:
    """Skew on contrasts whose perturbed side holds no wording of the rule-based rewriter, except wordings that base sides hold
    too: it shows whether training unlearned a feature or a word list."""
    result: dict[str, UnseenPhrases] = {}
    for group in groups:
        if not group.is_target or group.bias.offline is None:
            continue
        perturbed, base = group.sides
        pattern = telling_phrases(group.bias.offline, base)
        keep = np.array([not pattern.search(text) for text in perturbed])
        skew = _measure_rows(group, keep) if keep.any() else Missing(reason="no such contrast")
        result[group.bias.name] = UnseenPhrases(n=int(keep.sum()), of=len(group), skew=skew)
    return result


def quality_by_section(quality: QualitySet | None, scorings: Scorings, seed: int) -> SetQuality | None:
    """Accuracy of every section and subset, before, after and change; None without pairs, or if all are of one section."""
    if quality is None or len({item.section for item in quality.items}) < 2:
        return None
    compared = [(item.prompt, item.chosen[0], item.rejected[0]) for item in quality.items]
    margins, ids, read = read_margins(scorings, compared)
    if not ids:
        return None
    items = list(compress(quality.items, read))
    ranked = {
        label: [
            Ranked(prompt, item.subset, item.section, np.array([[margin]]))
            for prompt, item, margin in zip(ids, items, values, strict=True)
        ]
        for label, values in margins.items()
    }
    halves = ties_of(unit_of(scorings)) == "half"
    (result,) = with_holm([measure_accuracy(ranked, "pair", quality.weights, seed, halves)])
    return set_quality(quality, result, [_UNREAD] * (len(quality.items) - len(items)))


def set_quality(quality: QualitySet, accuracies: Accuracies, unread: Sequence[str]) -> SetQuality:
    """Accuracies with the facts about their set; `unread` holds a reason for every item without a margin."""
    return SetQuality(
        **dict(accuracies),
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


def unchanged(audit: AuditResult) -> AuditResult:
    """The audit with every change of a share or a RATE effect exactly 0: at dose 0, before and after are one model."""
    shares = ("skew", "votes", "quality", "quality_sections", "unseen_phrases", "triple_skew")
    update: dict[str, object] = {name: _mapped(getattr(audit, name), _CHANGES, _nothing) for name in shares}
    return audit.model_copy(update=update | {"rate": {name: _rate_still(rate) for name, rate in audit.rate.items()}})


def _mapped(value: object, fields: Collection[str], change: Callable[[object], object]) -> object:
    """A result, or a collection of results, with every field of these names changed."""
    if isinstance(value, dict):
        return {key: _mapped(item, fields, change) for key, item in value.items()}
    if isinstance(value, tuple):
        return tuple(_mapped(item, fields, change) for item in value)
    if not isinstance(value, Result):
        return value
    update = {name: change(own) if name in fields else _mapped(own, fields, change) for name, own in value}
    return value.model_copy(update=update)


def _nothing(change: object) -> object:
    match change:
        case Estimate():
            return change.model_copy(update=_NOTHING)
        case AccuracyShift():
            return change.model_copy(update={"estimate": change.estimate.model_copy(update=_NOTHING)})
    return change


def _rate_still(rate: BiasRate) -> BiasRate:
    after = rate.under().get("after")
    if after is None or isinstance(after.overall, Missing):
        return rate
    no_change: dict[str, object] = {"p_value": 1.0, "bca": _SAME_MODEL, "standardised": _SAME_MODEL}
    effects = tuple(
        effect.model_copy(update=no_change | {"estimate": _nothing(effect.estimate)})
        for effect in after.overall.effects
    )
    return rate.model_copy(update={"changes": after.overall.model_copy(update={"effects": effects})})


def adjust_for_all_tests(audit: AuditResult) -> AuditResult:
    """The audit with Holm's and Benjamini and Hochberg's adjusted p-values next to every p-value of its family of tests:
    changes of skew, of skew and miscalibration on voted contrasts, and of quality; of an audit alone, mean margins and skew
    against people's; RATE's double-rewrite ATE."""
    family = {name: getattr(audit, name) for name in _FAMILY}
    p_values: list[float] = []

    def collected(found: object) -> object:
        if isinstance(found, Test):
            p_values.append(found.p_value)
        return found

    _mapped(family, _TESTS, collected)
    adjusted = iter(zip(holm(p_values), benjamini_hochberg(p_values), strict=True))

    def with_p(found: object) -> object:
        if not isinstance(found, Test):
            return found
        p_holm, p_bh = next(adjusted)
        return found.model_copy(update={"p_holm": p_holm, "p_bh": p_bh})

    update = {name: _mapped(part, _TESTS, with_p) for name, part in family.items()}
    return audit.model_copy(update=update | {"n_tests": len(p_values)})


def margin_rows(contrasts: Sequence[Contrast], pairs: Sequence[Pair], scorings: Scorings) -> list[dict[str, object]]:
    """One row for each comparison with its margins; with the rewards of both sides if there are rewards."""
    rows: list[dict[str, object]] = []
    for contrast, (prompt, perturbed, base) in zip(contrasts, contrast_comparisons(contrasts), strict=True):
        row: dict[str, object] = {"kind": "contrast", "bias": contrast.bias, "id": contrast.id}
        row["preferred"] = contrast.preferred
        if contrast.votes:
            row["votes"] = list(contrast.votes)
        rows.append(row | _scores(prompt, ("perturbed", perturbed), ("base", base), scorings))
    for pair in pairs:
        scores = _scores(pair.prompt, ("chosen", pair.chosen), ("rejected", pair.rejected), scorings)
        rows.append({"kind": "quality", "id": pair.id} | scores)
    return rows


def triple_rows(triples: Sequence[Triple], scorings: Scorings) -> list[dict[str, object]]:
    """Every triple, with the rewards of its texts if there are rewards."""
    rows = []
    for triple in triples:
        row: dict[str, object] = to_jsonable_python(triple)
        texts = (triple.original, triple.rewrite, triple.rewrite_of_rewrite)
        for label, scoring in scorings.items():
            if isinstance(scoring, Rewards):
                row[f"rewards_{label}"] = [_json_number(scoring.of(triple.prompt, text)) for text in texts]
        rows.append(row)
    return rows


def _scores(prompt: Prompt, first: tuple[str, str], second: tuple[str, str], scorings: Scorings) -> dict[str, object]:
    scores: dict[str, object] = {}
    for label, scoring in scorings.items():
        if isinstance(scoring, Rewards):
            scores |= {f"{name}_{label}": _json_number(scoring.of(prompt, text)) for name, text in (first, second)}
        else:
            scores[f"margin_{label}"] = _json_number(float(scoring.margins([(prompt, first[1], second[1])])[0]))
    return scores


def _json_number(value: float) -> float | None:
    return None if np.isnan(value) else value


def share_measure(margins: Mapping[str, FloatArray], prompt_ids: Sequence[str], ties: ModelTies = "no-hit") -> Measure:
    """Share of positive margins under each scoring; of two (reward models), also their paired change and its test."""
    if len(margins) == 2:
        before, after = margins.values()
        return positive_share_change(before, after, prompt_ids)
    (values,) = margins.values()
    share = positive_share(values, prompt_ids, ties)
    return Measure(before=share, ties=PerScoring[int](before=int((values == 0).sum())))
