"""Accuracy by section in an audit: RewardBench, LLMBar, or preference pairs that name sections."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cda.data.quality_sets import QualitySet
from cda.metrics.quality import measure, with_holm
from cda.metrics.quality_rules import Ranked
from cda.records import count_reasons, prompt_id
from cda.results.benchmarks import Accuracies, SetQuality
from cda.stages.audit_groups import Scorings
from cda.stages.audit_result import ties_of
from cda.stages.shown import shown_path

_UNREAD = "no score of both sides"


def by_section(quality: QualitySet | None, scorings: Scorings, seed: int) -> SetQuality | None:
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
