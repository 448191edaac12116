"""Skew over triples: how often a scorer prefers the rewrite with the bias over the rewrite without it.

Both sides went through the rewriter, as in "Flattery, Fluff, and Fog"; skew over authored pairs is another measure.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cda.records import Triple, prompt_id
from cda.results.base import Measure, Missing
from cda.results.skew import TripleSkew
from cda.stages.audit_groups import Scorings
from cda.stages.audit_rate import triple_comparisons
from cda.stages.audit_result import measure_of, ties_of


def triple_skews(triples: Sequence[Triple], released: Sequence[Triple], scorings: Scorings) -> dict[str, TripleSkew]:
    """Skew of every bias with triples: before, after and their paired change, or of the one model.

    Args:
        triples: Those whose rewrites flipped the bias as far as anybody can tell.
        released: Those of the paper's release, which stand for their biases, all of them: the paper checks none.
        scorings: Of all these triples.

    Returns:
        By bias.
    """
    used = skewed_triples(triples, released)
    names = dict.fromkeys(triple.bias for triple in used)
    return {name: _skew([one for one in used if one.bias == name], scorings) for name in names}


def skewed_triples(triples: Sequence[Triple], released: Sequence[Triple]) -> list[Triple]:
    """The triples whose sides are compared: of biases that the paper's release has triples of, all of these."""
    whole = {triple.bias for triple in released}
    return [*(one for one in triples if one.bias not in whole), *released]


def _skew(triples: Sequence[Triple], scorings: Scorings) -> TripleSkew:
    compared = [triple_comparisons(triple)[0] for triple in triples]
    margins = {label: scoring.margins(compared) for label, scoring in scorings.items()}
    read = ~np.isnan(np.array(list(margins.values()))).any(axis=0)
    skew: Measure | Missing = Missing(reason="no triple has a score of both rewrites")
    if read.any():
        ids = [prompt_id(triple.prompt) for triple, keep in zip(triples, read, strict=True) if keep]
        kept = {label: values[read] for label, values in margins.items()}
        skew = measure_of(kept, ids, ties_of(next(iter(scorings.values())).unit))
    return TripleSkew(n=int(read.sum()), unread=int((~read).sum()), skew=skew)
