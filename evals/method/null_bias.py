"""Claim: where no effect is planted, the double-rewrite test finds one 5% of the time within Monte-Carlo error, and one
or more among ten attributes no more often than that after Holm or Benjamini–Hochberg.

The world is as confounded as in planted_effect.py, so that the naive and single-rewrite tests do find something.

    python -m evals.method.null_bias      (about half a minute on 2 cores)
"""

from __future__ import annotations

import sys

import numpy as np

from cda.stats.multiplicity import benjamini_hochberg, holm
from cda.stats.rate import effect
from evals.method.simulated_world import World, draw, invariant
from evals.shared import Check, finish

SEED = 20261121
N_DRAWS, N_PROMPTS, PER_PROMPT, N_ATTRIBUTES = 2000, 200, 3, 10
LEVEL = 0.05
Z_99 = 2.5758
"""Within Monte-Carlo error: inside the 99% interval of the simulation."""


def p_values(rng: np.random.Generator, n_draws: int) -> dict[str, np.ndarray]:
    """p-values of `n_draws` audits: ten attributes by double-rewrite (n, 10), the first also by the others (n, 1)."""
    world = World(effect=0.0, effect_by_z=0.0)
    found: dict[str, list[list[float]]] = {"double": [], "single": [], "naive": []}
    for _ in range(n_draws):
        z = invariant(rng, N_PROMPTS, PER_PROMPT)
        audit = [draw(world, rng, N_PROMPTS, PER_PROMPT, z).contrasts() for _ in range(N_ATTRIBUTES)]
        found["double"].append([effect(one).p_value for one in audit])
        found["single"].append([effect(audit[0], "ATE", "single").p_value])
        found["naive"].append([effect(audit[0], "ATE", "naive").p_value])
    return {name: np.array(rows) for name, rows in found.items()}


def main() -> int:
    found = p_values(np.random.default_rng(SEED), N_DRAWS)
    rejected = found["double"] <= LEVEL
    rate = float(rejected.mean())
    error = float(rejected.mean(axis=1).std(ddof=1) / np.sqrt(N_DRAWS))
    family_error = float(np.sqrt(LEVEL * (1 - LEVEL) / N_DRAWS))
    any_rates = {
        "none": float(rejected.any(axis=1).mean()),
        "Holm": float(np.mean([min(holm(row)) <= LEVEL for row in found["double"].tolist()])),
        "Benjamini-Hochberg": float(
            np.mean([min(benjamini_hochberg(row)) <= LEVEL for row in found["double"].tolist()])
        ),
    }
    others = {name: float((found[name] <= LEVEL).mean()) for name in ("single", "naive")}
    allowed = LEVEL + Z_99 * family_error
    checks = [
        Check(
            f"false positives of one double-rewrite test: 5% ± {Z_99 * error:.2%} (99% Monte-Carlo)",
            f"{rate:.2%}",
            abs(rate - LEVEL) <= Z_99 * error,
        ),
        *(
            Check(f"any false positive among {N_ATTRIBUTES}, {name}: at most {allowed:.2%}", f"{any_rates[name]:.2%}", any_rates[name] <= allowed)
            for name in ("Holm", "Benjamini-Hochberg")
        ),
    ]  # fmt: skip
    print(
        f"for comparison: uncorrected family {any_rates['none']:.1%}, single {others['single']:.1%}, naive {others['naive']:.1%}"
    )
    numbers = {
        "n_draws": N_DRAWS,
        "n_prompts": N_PROMPTS,
        "responses_per_prompt": PER_PROMPT,
        "n_attributes": N_ATTRIBUTES,
        "seed": SEED,
        "false_positive_rate": rate,
        "monte_carlo_error": error,
        "any_false_positive": any_rates,
        "false_positive_rate_of_others": others,
    }
    return finish("null_bias", (__doc__ or "").split("\n\n")[0].replace("\n", " "), checks, numbers)


if __name__ == "__main__":
    sys.exit(main())
