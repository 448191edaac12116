"""Claim: on the 32 triples of rewards that the RATE paper prints (tables 8, 10, 11, 12), the estimators give the effects
computed from them by hand, and single, double and rewrite effect fulfil their identities.

    CDA_DATA=../shared/data python -m evals.real_data.rate_triples      (a second)
"""

from __future__ import annotations

import sys
from pathlib import Path

from cda.files.jsonl import read_jsonl
from cda.results.base import Estimate
from cda.stats.rate import Contrasts, effect, from_rewards, rate_effects, rewrite_effect
from evals.shared import DATA, SKIPPED, Check, finish

KNOWN = {
    "length": {"ATT double": -0.00002, "ATU double": 0.00409, "ATE double": 0.00203, "ATE single": 0.01878, "ATE naive": 0.01406},
    "sentiment": {"ATT double": 0.00780, "ATU double": 0.00687, "ATE double": 0.00745, "ATE single": 0.00378, "ATE naive": -0.00330},
    "complexity": {"ATT double": 0.00777, "ATU double": 0.01249, "ATE double": 0.01131, "ATE single": 0.00729, "ATE naive": 0.05181},
}  # fmt: skip
HALF_OF_THE_LAST_DIGIT = 0.5e-5 + 1e-9
EXACT = 1e-12


def triples(path: Path) -> dict[str, Contrasts]:
    """The triples of each attribute. The paper prints no prompts, so each triple is a cluster of its own."""
    rows = list(read_jsonl(path))
    found = {}
    for attribute in sorted({row["attribute"] for row in rows}):
        mine = [row for row in rows if row["attribute"] == attribute]
        sides = ([row[side] for row in mine] for side in ("original", "rewrite", "rewrite_of_rewrite"))
        found[attribute] = from_rewards(*sides, [row["w"] for row in mine], [str(row) for row in range(len(mine))])
    return found


def identity_gaps(contrasts: Contrasts) -> dict[str, float]:
    """How far the two identities are from holding; 0 but for rounding."""
    return {
        "ATT2 - ATT1 = rewrite effect at w = 1": effect(contrasts, "ATT", "double").estimate.value
        - effect(contrasts, "ATT", "single").estimate.value
        - rewrite_effect(contrasts, 1).estimate.value,
        "ATU1 - ATU2 = rewrite effect at w = 0": effect(contrasts, "ATU", "single").estimate.value
        - effect(contrasts, "ATU", "double").estimate.value
        - rewrite_effect(contrasts, 0).estimate.value,
    }


def main() -> int:
    path = DATA / "rate" / "paper_reward_triples.jsonl"
    if not path.is_file():
        print("skipped: rate/paper_reward_triples.jsonl is absent; set CDA_DATA")
        return SKIPPED
    found = triples(path)
    n = sum(len(one) for one in found.values())
    checks = [Check("32 triples", str(n), n == 32)]
    for attribute, known in KNOWN.items():
        for name, value in known.items():
            estimand, estimator = name.split()
            result = effect(found[attribute], estimand, estimator).estimate.value  # type: ignore[arg-type]
            close = abs(result - value) <= HALF_OF_THE_LAST_DIGIT
            checks.append(Check(f"{attribute} {name}: {value:.5f}", f"{result:.5f}", close))
        for name, gap in identity_gaps(found[attribute]).items():
            checks.append(Check(f"{attribute} {name}", f"gap {gap:.1e}", abs(gap) <= EXACT))
    summaries = {attribute: rate_effects(one) for attribute, one in found.items()}
    numbers = {
        attribute: {
            "n_with": one.n_with,
            "n_without": one.n_without,
            "effects": {
                f"{each.estimand} {each.estimator}": {
                    "estimate": each.estimate.model_dump(),
                    "standard_error": each.standard_error,
                    "standardised": each.standardised.value if isinstance(each.standardised, Estimate) else None,
                }
                for each in one.effects
            },
            "not_estimated": {f"{each.estimand} {each.estimator}": each.reason for each in one.not_estimated},
        }
        for attribute, one in summaries.items()
    }
    return finish("rate_triples", (__doc__ or "").split("\n\n")[0].replace("\n", " "), checks, numbers)


if __name__ == "__main__":
    sys.exit(main())
