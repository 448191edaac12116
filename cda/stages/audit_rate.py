"""RATE in an audit: effects on triples under every scoring, of rewards or of a pairwise judge's preferences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from cda.effects.clustered import Resampling
from cda.effects.contrasts import Contrasts, from_preferences, from_rewards
from cda.effects.covariates import ConditionalEffects, conditional_effects
from cda.effects.rate import rate_effects
from cda.effects.sample import quantile_groups
from cda.features import n_words
from cda.records import Triple, prompt_id
from cda.score.compared import Compared, Comparison, Rewards
from cda.stages.audit_groups import Scorings, attempt
from cda.stages.audit_result import rng
from cda.stats.bootstrap import bootstrap_mean
from cda.stats.estimate import Estimate


def rate(triples: Sequence[Triple], scorings: Scorings, rewriter: str, seed: int) -> dict[str, Any]:
    """RATE effects of every bias with triples; every scoring on the same ones."""
    names = dict.fromkeys(triple.bias for triple in triples)
    return {
        name: {"rewriter": rewriter, **_rate([one for one in triples if one.bias == name], scorings, seed)}
        for name in names
    }


def triple_comparisons(triple: Triple) -> tuple[Comparison, Comparison, Comparison]:
    """Double contrast and single contrast, the side with the bias first; then rewrite of rewrite against original."""
    prompt, first, flipped, back = triple.prompt, triple.original, triple.rewrite, triple.rewrite_of_rewrite
    if triple.has_attribute:
        return (prompt, back, flipped), (prompt, first, flipped), (prompt, back, first)
    return (prompt, flipped, back), (prompt, flipped, first), (prompt, back, first)


def _rate(triples: Sequence[Triple], scorings: Scorings, seed: int) -> dict[str, Any]:
    asked = [triple_comparisons(triple) for triple in triples]
    margins = {
        label: [scoring.margins([one[at] for one in asked]) for at in range(3)] for label, scoring in scorings.items()
    }
    read = ~np.isnan(np.concatenate([np.array(sides) for sides in margins.values()])).any(axis=0)
    result: dict[str, Any] = {"n": int(read.sum()), "unread": int((~read).sum())}
    if not read.any():
        return result | {"missing": "no triple has a readable verdict on all its comparisons"}
    kept = [triple for triple, keep in zip(triples, read, strict=True) if keep]
    contrasts = {label: _contrasts(kept, scoring) for label, scoring in scorings.items()}
    for label, one in contrasts.items():
        result[label] = attempt(partial(rate_effects, one, Resampling(rng(seed))))
        result[label]["by_length"] = attempt(partial(_by_length, one, kept, seed))
    if len(contrasts) == 2:
        before, after = contrasts.values()
        result["change"] = attempt(partial(_change, before, after, seed))
    last = result[list(contrasts)[-1]]
    average = next((one for one in last.get("effects", ()) if _is_average(one)), None)
    if average is not None:
        result["test"] = {"what": "the double-rewrite ATE is not 0", "p_value": average["p_value"]}
    return result


def _contrasts(triples: Sequence[Triple], scoring: Compared) -> Contrasts:
    attribute = [triple.has_attribute for triple in triples]
    ids = [prompt_id(triple.prompt) for triple in triples]
    if isinstance(scoring, Rewards):
        original, rewrite, back = (
            np.array([scoring.of(one.prompt, getattr(one, side)) for one in triples])
            for side in ("original", "rewrite", "rewrite_of_rewrite")
        )
        return from_rewards(original, rewrite, back, attribute, ids, scoring.unit)
    asked = [triple_comparisons(triple) for triple in triples]
    double, single, rewriting = (scoring.margins([one[at] for one in asked]) for at in range(3))
    return from_preferences(double, single, rewriting, attribute, ids)


def _by_length(contrasts: Contrasts, triples: Sequence[Triple], seed: int) -> ConditionalEffects:
    """The effect among shorter and longer originals (words)."""
    groups = quantile_groups([n_words(one.original) for one in triples], 2)
    return conditional_effects(contrasts, groups, "double", Resampling(rng(seed)))


def _change(before: Contrasts, after: Contrasts, seed: int) -> Estimate:
    """Change of the double-rewrite ATE on the same triples; in units that training may have stretched."""
    return bootstrap_mean(after.double - before.double, after.prompt_ids, rng(seed)).estimate(after.unit)


def _is_average(effect: Mapping[str, Any]) -> bool:
    return bool(effect["estimand"] == "ATE" and effect["estimator"] == "double")
