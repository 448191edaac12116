"""Accuracy by section in an audit: RewardBench, LLMBar, or preference pairs that name sections."""

from __future__ import annotations

from typing import Any

import numpy as np

from cda.data.quality_sets import QualitySet
from cda.metrics.quality import measure, with_holm
from cda.metrics.quality_rules import Ranked
from cda.records import prompt_id
from cda.results.base import as_json
from cda.stages.audit_groups import Scorings
from cda.stages.audit_result import ties_of
from cda.stages.shown import shown_path

_UNREAD = "no score of both sides"


def by_section(quality: QualitySet | None, scorings: Scorings, seed: int) -> dict[str, Any] | None:
    """Accuracy of every section and subset, before, after and change, in the form of a set in quality.json.

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
    return {
        "name": quality.name,
        "source": shown_path(quality.source),
        "format": quality.format,
        "n_items": int(read.sum()),
        "exclusions": as_json(quality.exclusions),
        "left_out_rows": {reason: list(rows) for reason, rows in quality.left_out_rows.items()},
        "unread": unread,
        "unread_reasons": {_UNREAD: unread} if unread else {},
        "n_expected": dict(quality.n_expected),
        **as_json(result),
    }
