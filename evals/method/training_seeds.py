"""Claim: the interval over several trainings covers the mean of all trainings and all prompts in at least 93% of audits, for
the share after and for its change, with 3 and with 5 seeds, whether trainings differ not at all or much more than contrasts do,
and in 95% of them on average; the interval of one training covers that mean far less often where trainings differ.

Margins are normal: one part is the seed's, one the prompt's, one the contrast's, one of the contrast under one training. The
true shares follow from the normal distribution.

    python -m evals.method.training_seeds      (about two minutes on 2 cores)
"""

from __future__ import annotations

import itertools
import math
import sys
from dataclasses import dataclass

import numpy as np
from pydantic_core import to_jsonable_python
from scipy import stats

from cda.stats.estimators import share_of
from cda.stats.means import change_over_seeds, share_over_seeds
from evals.shared import Check, finish

SEED, N_AUDITS = 20261123, 2000
LEAST, ON_AVERAGE, SINGLE_BELOW = 0.93, 0.95, 0.75
SD_PROMPT, SD_CONTRAST, SD_ROW = 0.7, 0.5, 1.0
BEFORE = 1.2
Z_99 = 2.5758


@dataclass(frozen=True)
class World:
    """Seeds, prompts, contrasts of each prompt, mean margin after, and standard deviation of the trainings' margins."""

    seeds: int
    prompts: int
    per_prompt: int
    after: float
    sd_seed: float


WORLDS = [
    World(*cell)
    for seeds, (prompts, each) in itertools.product((3, 5), ((80, 1), (40, 2), (20, 1)))
    for cell in itertools.product((seeds,), (prompts,), (each,), (0.0, 1.5), (0.0, 0.1, 0.3, 0.6))
]


def coverage(world: World, rng: np.random.Generator, n_audits: int) -> dict[str, float]:
    """Share of audits whose interval holds the true share after, the true change, and the true share by one training's."""
    n, ids = (
        world.prompts * world.per_prompt,
        [str(row // world.per_prompt) for row in range(world.prompts * world.per_prompt)],
    )
    of_rows = SD_PROMPT**2 + SD_CONTRAST**2 + SD_ROW**2
    after = float(stats.norm.cdf(world.after / math.sqrt(of_rows + world.sd_seed**2)))
    change = after - float(stats.norm.cdf(BEFORE / math.sqrt(of_rows)))
    held = dict.fromkeys(("share", "change", "one training"), 0)
    for _ in range(n_audits):
        contrasts = np.repeat(rng.normal(0, SD_PROMPT, world.prompts), world.per_prompt) + rng.normal(0, SD_CONTRAST, n)
        first = (BEFORE + contrasts + rng.normal(0, SD_ROW, n) > 0).astype(float)
        moved = world.after + rng.normal(0, world.sd_seed, (world.seeds, 1))
        hits = (moved + contrasts + rng.normal(0, SD_ROW, (world.seeds, n)) > 0).astype(float)
        found = {
            "share": (share_over_seeds(hits, ids), after),
            "change": (change_over_seeds(first, hits, ids), change),
            "one training": (share_of(hits[0], ids), after),
        }
        for name, (estimate, true) in found.items():
            held[name] += estimate.low <= true <= estimate.high
    return {name: count / n_audits for name, count in held.items()}


def main() -> int:
    rng = np.random.default_rng(SEED)
    cells = [{**to_jsonable_python(world), **coverage(world, rng, N_AUDITS)} for world in WORLDS]
    error = Z_99 * math.sqrt(LEAST * (1 - LEAST) / N_AUDITS)
    checks = []
    for name in ("share", "change"):
        every = [cell[name] for cell in cells]
        checks += [
            Check(
                f"{name}: covered in {LEAST:.0%} of audits or more in every world (less {error:.1%}, 99% Monte-Carlo)",
                f"least {min(every):.1%} of {len(every)} worlds",
                min(every) >= LEAST - error,
            ),
            Check(
                f"{name}: in {ON_AVERAGE:.0%} on average", f"{np.mean(every):.1%}", bool(np.mean(every) >= ON_AVERAGE)
            ),
        ]
    single = [
        cell["one training"] for cell in cells if cell["sd_seed"] >= 0.3 and cell["prompts"] == 80 and not cell["after"]
    ]
    checks.append(
        Check(
            f"the interval of one training: below {SINGLE_BELOW:.0%} with 80 prompts and trainings that differ (SD 0.3, 0.6)",
            f"at most {max(single):.1%}",
            max(single) < SINGLE_BELOW,
        )
    )
    return finish(
        "training_seeds",
        (__doc__ or "").split("\n\n")[0],
        checks,
        {"n_audits": N_AUDITS, "seed": SEED, "worlds": cells},
    )


if __name__ == "__main__":
    sys.exit(main())
