"""Coverage of the paired numbers of two audits: difference of skew, agreement and correlation of margins."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np

from cda.arrays import FloatArray
from cda.results.base import Estimate
from cda.stats.estimators import wilson
from cda.stats.panel import compare_margins
from evals.shared import Check, finish

CLAIM = (
    "two audits of the same texts are compared honestly: 95% intervals of the difference of skew, of the agreement and of the correlation of "
    "margins hold the truth in at least 93% of comparisons on average over 20 to 100 prompts, one or three contrasts each, light and heavy "
    "tails, and nowhere below 90%; and where two models have the same skew, the test finds a difference in at most 5%."
)
# Stated first.
MEAN, WORST, FALSE = 0.93, 0.90, 0.05
PROMPTS, ROWS, TAILS = (20, 40, 100), (1, 3), (np.inf, 5.0)
RUNS, TRUTH, SEED = 250, 2_000_000, 11
MEASURES = ("difference", "agreement", "correlation")


@dataclass(frozen=True)
class World:
    """Margins of two models: a taste of the prompt and a text that they share, and noise of their own; `tails` degrees of freedom."""

    n_prompts: int
    rows: int
    tails: float
    shifts: tuple[float, float]

    def margins(self, n_prompts: int, random: np.random.Generator) -> FloatArray:
        """Margins of both models, shape (2, rows of all prompts)."""
        n = n_prompts * self.rows
        taste = np.repeat(random.normal(size=n_prompts), self.rows)
        shared = 0.7 * taste + self._noise(random, n)
        return np.array([shared + 0.8 * self._noise(random, n) + shift for shift in self.shifts])

    def _noise(self, random: np.random.Generator, n: int) -> FloatArray:
        return random.normal(size=n) if np.isinf(self.tails) else random.standard_t(self.tails, size=n)

    def truth(self, random: np.random.Generator) -> dict[str, float]:
        first, other = self.margins(TRUTH // self.rows, random)
        return {
            "difference": float((other > 0).mean() - (first > 0).mean()),
            "agreement": float((np.sign(first) == np.sign(other)).mean()),
            "correlation": float(np.corrcoef(first, other)[0, 1]),
        }


def coverage(world: World, random: np.random.Generator) -> tuple[dict[str, float], float]:
    """Share of comparisons whose intervals hold the truth, by measure; and the share with p below 5%."""
    truth, held, found = world.truth(random), dict.fromkeys(MEASURES, 0), 0
    ids = [f"p{row // world.rows}" for row in range(world.n_prompts * world.rows)]
    for _ in range(RUNS):
        first, other = world.margins(world.n_prompts, random)
        result = compare_margins(first, other, ids)
        found += result.test.p_value < FALSE
        for name in MEASURES:
            estimate = getattr(result, name)
            held[name] += isinstance(estimate, Estimate) and estimate.low <= truth[name] <= estimate.high
    return {name: count / RUNS for name, count in held.items()}, found / RUNS


def main() -> int:
    random = np.random.default_rng(SEED)
    shapes = [(prompts, rows, tails) for prompts in PROMPTS for rows in ROWS for tails in TAILS]
    cells = {}
    for shape in shapes:
        apart, _ = coverage(World(*shape, shifts=(0.2, 1.2)), random)
        alike, false = coverage(World(*shape, shifts=(0.5, 0.5)), random)
        prompts, rows, tails = shape
        cells[f"{prompts} prompts, {rows} each, {'normal' if np.isinf(tails) else f't with {tails:g}'}"] = {
            **{f"{name}, skews apart": value for name, value in apart.items()},
            **{f"{name}, skews alike": value for name, value in alike.items()},
            "differences found, skews alike": false,
        }
    checks = []
    for name in MEASURES:
        values = [cell[f"{name}, skews {how}"] for cell in cells.values() for how in ("apart", "alike")]
        said = f"{np.mean(values):.1%} on average, {min(values):.1%} at the worst"
        threshold = f"{name}: {MEAN:.0%} of intervals hold the truth on average, {WORST:.0%} in every cell"
        checks.append(Check(threshold, said, bool(np.mean(values) >= MEAN and min(values) >= WORST)))
    false_rate = float(np.mean([cell["differences found, skews alike"] for cell in cells.values()]))
    checks.append(Check(f"skews alike: a difference in at most {FALSE:.0%}", f"{false_rate:.1%}", false_rate <= FALSE))
    numbers = {
        "comparisons a cell": RUNS,
        "95% of a cell's comparisons, with the chance of that number": wilson(0.95 * RUNS, RUNS),
        "cells": cells,
    }
    return finish("paired_audits", CLAIM, checks, numbers)


if __name__ == "__main__":
    sys.exit(main())
