"""Claim: with a planted effect, the double-rewrite 95% interval covers it 94–96% of the time and its error shrinks as
1/√n; naive and single-rewrite estimates do neither, because what goes along with the attribute, or with rewriting, does
not shrink.

    python -m evals.method.planted_effect      (about a minute on 2 cores)
"""

from __future__ import annotations

import sys

import numpy as np

from cda.stats.rate import Estimator, effect
from evals.method.simulated_world import World, draw, welch_standard_error
from evals.shared import Check, finish

SEED = 20261121
N_DRAWS, N_PROMPTS, PER_PROMPT = 2000, 200, 3
RMSE_PROMPTS, RMSE_DRAWS = (50, 200, 800, 3200), 500
ESTIMATORS: tuple[Estimator, ...] = ("double", "single", "naive")


def coverage(world: World, rng: np.random.Generator, n_draws: int) -> tuple[dict[str, float], list[float]]:
    """Share of intervals that hold the planted effect, by estimator, and the paired width over Welch's in each draw."""
    covered = dict.fromkeys([*ESTIMATORS, "double, prompts ignored"], 0)
    ratios = []
    for _ in range(n_draws):
        sample = draw(world, rng, N_PROMPTS, PER_PROMPT)
        contrasts = sample.contrasts()
        for estimator in ESTIMATORS:
            found = effect(contrasts, "ATE", estimator)
            covered[estimator] += found.estimate.low <= world.effect <= found.estimate.high
            if estimator == "double":
                ratios.append(found.standard_error / welch_standard_error(sample))
        half = 1.959964 * contrasts.double.std(ddof=1) / np.sqrt(len(contrasts))
        covered["double, prompts ignored"] += abs(contrasts.double.mean() - world.effect) <= half
    return {name: hits / n_draws for name, hits in covered.items()}, ratios


def rmse(world: World, rng: np.random.Generator) -> dict[str, list[float]]:
    """Root mean squared error of each estimator at each number of prompts."""
    found: dict[str, list[float]] = {estimator: [] for estimator in ESTIMATORS}
    for n_prompts in RMSE_PROMPTS:
        samples = [draw(world, rng, n_prompts, PER_PROMPT).contrasts() for _ in range(RMSE_DRAWS)]
        for estimator in ESTIMATORS:
            errors = [effect(sample, "ATE", estimator).estimate.value - world.effect for sample in samples]
            found[estimator].append(float(np.sqrt(np.mean(np.square(errors)))))
    return found


def main() -> int:
    world, rng = World(), np.random.default_rng(SEED)
    covered, ratios = coverage(world, rng, N_DRAWS)
    errors = rmse(world, rng)
    slopes = {name: float(np.polyfit(np.log(RMSE_PROMPTS), np.log(values), 1)[0]) for name, values in errors.items()}
    checks = [
        Check("double-rewrite interval covers 94–96%", f"{covered['double']:.2%}", 0.94 <= covered["double"] <= 0.96),
        *(
            Check(f"{name} interval does not cover 94–96%", f"{covered[name]:.2%}", covered[name] < 0.94)
            for name in ("single", "naive")
        ),
        Check(
            "RMSE of double-rewrite falls as 1/√n: log-log slope in −0.5 ± 0.05",
            f"{slopes['double']:.3f}",
            abs(slopes["double"] + 0.5) <= 0.05,
        ),
        *(
            Check(f"RMSE of {name} does not: slope above −0.1", f"{slopes[name]:.3f}", slopes[name] > -0.1)
            for name in ("single", "naive")
        ),
    ]
    ratio = float(np.mean(ratios))
    print(f"paired, clustered width over Welch's (unpaired): {ratio:.3f}")
    numbers = {
        "planted_ate": world.effect,
        "n_draws": N_DRAWS,
        "n_prompts": N_PROMPTS,
        "responses_per_prompt": PER_PROMPT,
        "seed": SEED,
        "coverage": covered,
        "width_paired_over_welch": ratio,
        "rmse_prompts": RMSE_PROMPTS,
        "rmse_draws": RMSE_DRAWS,
        "rmse": errors,
        "rmse_log_log_slope": slopes,
    }
    return finish("planted_effect", (__doc__ or "").split("\n\n")[0].replace("\n", " "), checks, numbers)


if __name__ == "__main__":
    sys.exit(main())
