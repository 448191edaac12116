"""Rewards of single texts in an audit: how they are spread over the sides of contrasts and the texts of triples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from cda.metrics.distribution import common_edges, distribution
from cda.records import Triple, prompt_id
from cda.results.base import Missing, PerScoring
from cda.results.rewards import ContrastRewards, Kinds, RewardSpread, TripleRewards
from cda.score.compared import Rewards
from cda.stages.audit_groups import FloatArray, Group, Scorings, before_and_after, estimated
from cda.stages.audit_result import rng

SIDES = ("base", "perturbed")
TEXTS = ("original", "rewrite", "rewrite_of_rewrite")
Values = Mapping[str, Mapping[str, tuple[FloatArray, list[str]]]]
"""Scoring to kind of text to its rewards and prompts."""


def rewards(
    groups: Sequence[Group], triples: Sequence[Triple], scorings: Scorings, seed: int
) -> RewardSpread | Missing:
    """Distributions of rewards on common bins; missing if a scorer compares pairs and rewards no single text."""
    known = {label: one for label, one in scorings.items() if isinstance(one, Rewards)}
    if len(known) < len(scorings):
        return Missing(reason="the scorer compares pairs and rewards no single text")
    sides = {group.bias.name: _of_contrasts(group, known) for group in groups}
    names = dict.fromkeys(triple.bias for triple in triples)
    texts = {name: _of_triples([one for one in triples if one.bias == name], known) for name in names}
    edges = _edges([one for of in sides.values() for one in _arrays(of)])
    return RewardSpread(
        contrasts=ContrastRewards(
            edges=edges, of={name: _distributions(of, edges, seed) for name, of in sides.items()}
        ),
        triples={name: _on_own_bins(of, seed) for name, of in texts.items()},
    )


def _of_contrasts(group: Group, known: Mapping[str, Rewards]) -> Values:
    return {
        label: {
            side: _there([one.of(row.prompt, getattr(row, side)) for row in group.contrasts], group.prompt_ids)
            for side in SIDES
        }
        for label, one in known.items()
    }


def _of_triples(triples: Sequence[Triple], known: Mapping[str, Rewards]) -> Values:
    found: dict[str, dict[str, tuple[FloatArray, list[str]]]] = {}
    for label, one in known.items():
        found[label] = {}
        for group, has in (("with", True), ("without", False)):
            rows = [triple for triple in triples if triple.has_attribute == has]
            ids = [prompt_id(triple.prompt) for triple in rows]
            for text in TEXTS if rows else ():
                values = [one.of(row.prompt, getattr(row, text)) for row in rows]
                found[label][f"{group}, {text}"] = _there(values, ids)
    return found


def _on_own_bins(of: Values, seed: int) -> TripleRewards:
    edges = _edges(_arrays(of))
    return TripleRewards(edges=edges, of=_distributions(of, edges, seed))


def _distributions(of: Values, edges: Sequence[float], seed: int) -> PerScoring[Kinds]:
    found = {
        label: {
            kind: estimated(partial(distribution, values, ids, edges, rng(seed)))
            for kind, (values, ids) in kinds.items()
        }
        for label, kinds in of.items()
    }
    return PerScoring[Kinds](**before_and_after(found))


def _arrays(of: Values) -> list[FloatArray]:
    return [values for kinds in of.values() for values, _ in kinds.values()]


def _edges(arrays: Sequence[FloatArray]) -> tuple[float, ...]:
    return common_edges(arrays) if any(one.size for one in arrays) else ()


def _there(values: Sequence[float], ids: Sequence[str]) -> tuple[FloatArray, list[str]]:
    found = np.asarray(values, dtype=np.float64)
    keep = ~np.isnan(found)
    return found[keep], [one for one, there in zip(ids, keep, strict=True) if there]
