"""Claim: `cda calibrate` leaves a scorer that needs nothing as it is, finds one that needs something, and describes what it gives out.

The choice of the strength is cda's own (`choose_strength`, 10 splits into folds), on simulated contrasts of one bias with one vote per
prompt; terms are an offset and a slope. Two scorers need nothing: one votes like people do, by the same value with a noise of its own of
the same size, so that both prefer the same side equally often (50%, and 76%); people's skew is then the scorer's. Where there is a gap, a
constant is added to the first scorer's margins that makes it 10, 20 or 30 points. Gaps before and after are those on 40,000 other prompts.

Thresholds, at 60, 150 and 400 prompts, 300 runs each: a nonzero strength in at most 5% of runs under no need (of the 600 runs of
both scorers), and at most 0.3 points introduced in the mean. Power: gaps of 30 points are
corrected in 90% of runs at every size; of 20 points in 60% at 60 prompts and 95% from 150 on; of 10 points in 75% at 400 prompts. Of a
gap of 20 points at 150 prompts, the fall of skew that the "calibrated" column shows, of files that correct something, is that on other
prompts within 2 points in the mean.

    python -m evals.method.calibration_null      (about four minutes)
"""

from __future__ import annotations

import sys

import numpy as np

from cda.calibration.fit import ALPHA, Problem, Scored, choose_strength, corrected_apart, fit_of
from cda.dosing.held_out import halves
from cda.records import Exclusions
from cda.stats.estimators import wilson
from cda.stats.votes import Majority
from evals.shared import Check, finish

PROMPTS, RUNS, REPEATS, SEED = (60, 150, 400), 300, 10, 11
NOISE, MEANS = 0.7, (0.0, 0.85)
GAPS = {10: 0.31, 20: 0.64, 30: 1.03}
"""Points to what is added to the margins."""
MOST_NONZERO, MOST_INTRODUCED, MOST_APART = ALPHA, 0.3, 2.0
POWER = {
    (30, 60): 0.9,
    (30, 150): 0.9,
    (30, 400): 0.9,
    (20, 60): 0.6,
    (20, 150): 0.95,
    (20, 400): 0.95,
    (10, 400): 0.75,
}
OTHERS = 40_000


def world(n: int, mean: float, added: float, rng: np.random.Generator) -> Problem:
    value, measure = rng.normal(mean, 1, n), rng.normal(1, 1, n)
    margins, votes = (value + NOISE * rng.normal(size=n) for _ in range(2))
    return Problem(
        Scored(margins + added, np.column_stack([np.ones(n), measure]), [f"p{row}" for row in range(n)]),
        Majority((votes > 0).astype(float), np.ones(n, dtype=bool), "drop", Exclusions(n, {})),
        ("length",) * n,
        Scored(np.zeros(0), np.zeros((0, 2)), []),
        "no-hit",
    )


def cell(n: int, mean: float, added: float, rng: np.random.Generator, told: bool = False) -> dict[str, float]:
    """Shares of runs and points over the runs of one scorer."""
    others = world(OTHERS, mean, added, rng)
    people = others.people.target.mean()
    before = (others.contrasts.margins > 0).mean()
    nonzero, by_one_error, moved, apart = 0, 0, [], []
    for _ in range(RUNS):
        problem = world(n, mean, added, rng)
        found = choose_strength(problem, REPEATS, rng, 0.01)
        by_one_error += any(gain.estimate.value > gain.error for gain in found.gains.values())
        if not found.strength:
            moved.append(0.0)
            continue
        nonzero += 1
        ones = np.ones((1, n))
        shift = others.contrasts.shifts(fit_of(problem, problem.prompts, ones).corrections)[0]
        after = (others.contrasts.margins - found.strength * shift > 0).mean()
        moved.append(100 * float(abs(after - people) - abs(before - people)))
        if told:
            many = np.ones((REPEATS, n))
            held = corrected_apart(
                problem, problem.prompts, many, halves(problem.prompts.strata, many, rng), found.strength
            )
            column = (held.margins > 0).mean() - (problem.contrasts.margins > 0).mean()
            apart.append(100 * float(column - (after - before)))
    return {
        "gap": 100 * float(abs(before - people)),
        "nonzero": nonzero / RUNS,
        "more than one standard error": by_one_error / RUNS,
        "points moved": float(np.mean(moved)),
    } | ({"column less other prompts": float(np.mean(apart))} if apart else {})


def main() -> int:
    rng = np.random.default_rng(SEED)
    none = {n: {f"{mean:g}": cell(n, mean, 0.0, rng) for mean in MEANS} for n in PROMPTS}
    real = {
        n: {gap: cell(n, MEANS[0], added, rng, told=(gap, n) == (20, 150)) for gap, added in GAPS.items()}
        for n in PROMPTS
    }
    checks = []
    for n, cells in none.items():
        share = float(np.mean([one["nonzero"] for one in cells.values()]))
        low, high = wilson(share * RUNS * len(MEANS), RUNS * len(MEANS))
        points = max(one["points moved"] for one in cells.values())
        checks += [
            Check(f"{n} prompts, nothing needed: a nonzero strength in at most {MOST_NONZERO:.0%}",
                  f"{share:.1%} [{100 * low:.1f}, {100 * high:.1f}]", share <= MOST_NONZERO),
            Check(f"{n} prompts, nothing needed: at most {MOST_INTRODUCED} points introduced", f"{points:.2f}",
                  points <= MOST_INTRODUCED),
        ]  # fmt: skip
    for (gap, n), least in POWER.items():
        own = real[n][gap]
        said = f"{own['nonzero']:.0%}, moved by {own['points moved']:+.1f} points"
        checks.append(
            Check(f"{n} prompts, a gap of {gap} points: corrected in {least:.0%}", said, own["nonzero"] >= least)
        )
    apart = real[150][20]["column less other prompts"]
    checks.append(
        Check(
            f"the calibrated column and other prompts: within {MOST_APART:g} points",
            f"{apart:+.2f}",
            abs(apart) <= MOST_APART,
        )
    )
    numbers = {"runs a cell": RUNS, "nothing needed": none, "a gap": real}
    return finish("calibration_null", (__doc__ or "").partition("\n\n")[0].removeprefix("Claim: "), checks, numbers)


if __name__ == "__main__":
    sys.exit(main())
