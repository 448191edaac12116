"""Attempts to get an interval that is too sure of itself: few prompts, one prompt twice, votes that are all split alike."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from fault_attempts import Attempt

from cda.report.numbers import FEW_PROMPTS, few_prompts
from cda.stats.proportions import paired_change, wilson_share
from cda.stats.votes import agreement, count_votes, majority, noise_ceiling


def _few_prompts(_: Path) -> str | None:
    """Three prompts of five rows, half as alike as they could be; drawing prompts covers 0.5 about three times in four."""
    random, ids, runs = np.random.default_rng(0), np.repeat(np.arange(3), 5), 300
    inside = 0
    for _run in range(runs):
        found = wilson_share(random.random(15) < random.beta(0.5, 0.5, 3)[ids], ids.astype(str).tolist())
        inside += found.low <= 0.5 <= found.high
    return None if inside / runs >= 0.93 else f"a 95% interval holds the share in {inside / runs:.1%} of {runs} runs"


def _one_prompt_twice(_: Path) -> str | None:
    """One hit in twenty, then one more miss on a prompt that was there: no other method, and no other width."""
    hits, own = np.arange(20) < 1, [str(row) for row in range(20)]
    widths = []
    for values, ids in ((hits, own), (np.append(hits, False), [*own, own[-1]])):
        for found in (wilson_share(values, ids), paired_change(np.zeros(len(ids)), values, ids)):
            widths.append(found.high - found.low)
    jumps = [abs(widths[2] / widths[0] - 1), abs(widths[3] / widths[1] - 1)]
    return None if max(jumps) < 0.05 else f"one row more changes the width of an interval by {max(jumps):.0%}"


def _split_alike(_: Path) -> str | None:
    counts, ids = count_votes([["perturbed", "perturbed", "base"]] * 12), [str(row) for row in range(12)]
    random = np.random.default_rng(0)
    found = {
        "alpha": agreement(counts, ids, random).alpha,
        "second majority": noise_ceiling(counts, majority(counts, "drop"), ids, random).miscalibration,
    }
    sure = [name for name, one in found.items() if one is not None and one.high - one.low < 0.05]
    return f"no width where all items are split alike: {', '.join(sure)}" if sure else None


def _unsaid(_: Path) -> str | None:
    said = few_prompts({"jargon": FEW_PROMPTS - 1, "length": FEW_PROMPTS})
    return (
        None
        if "jargon" in said and "length" not in said
        else "an interval from nine prompts is shown without a warning"
    )


ATTEMPTS: tuple[Attempt, ...] = (
    Attempt("wrong numbers", "intervals of three prompts", _few_prompts),
    Attempt("wrong numbers", "one prompt that repeats", _one_prompt_twice),
    Attempt("wrong numbers", "every item split alike", _split_alike),
    Attempt("wrong numbers", "few prompts without a warning", _unsaid),
)
