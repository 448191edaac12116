"""Claim: the shipped embedded model is what its script makes of the shipped texts.

Builds the model again and scores the audit contrasts and the held-out pairs with both. Threads and processors round
differently, so that weights need not be equal to the bit.

Thresholds: correlation of the two models' margins at least 0.99; skew of every bias and accuracy within 3 points; and of
the shipped model accuracy of 75% or more, and skew of every bias between 75% and 95%.

    python -m evals.reliability.embedded_rebuild        (about 15 minutes on 2 cores)
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cda.embedded.model import ADAPTER, embedded_model_folder, encoder_folder, save_merged
from cda.embedded.texts import EMBEDDED_BIASES, audit_contrasts, authored_pairs
from cda.models.config import ModelSpec
from cda.models.load import free_memory, load_reward_model
from cda.records import Pair, prompt_id
from cda.scorers.classifier import ClassifierScorer
from cda.scorers.compared import text_id
from cda.scorers.engine import score_texts
from cda.stats.estimators import share_of
from evals.reliability.build_embedded import build
from evals.shared import Check, finish

CORRELATION, POINTS = 0.99, 0.03
ACCURACY, SKEW = 0.75, (0.75, 0.95)
CONTRASTS = audit_contrasts()
PAIRS = [Pair(one.prompt, one.perturbed, one.base) for one in CONTRASTS] + [
    one.pair for one in authored_pairs("quality")
]
GROUPS = [*(one.bias for one in CONTRASTS), *("quality" for _ in authored_pairs("quality"))]


def margins(folder: Path, label: str) -> NDArray[np.float64]:
    """Margins of every contrast and quality pair, in fp32."""
    reward_model = load_reward_model(ModelSpec(str(folder), "fp32"))
    texts = [(pair.prompt, text) for pair in PAIRS for text in (pair.chosen, pair.rejected)]
    scores = score_texts(ClassifierScorer(reward_model, 8192, f"  {label}"), texts).by_text
    del reward_model
    free_memory()
    return np.array(
        [scores[text_id(one.prompt, one.chosen)] - scores[text_id(one.prompt, one.rejected)] for one in PAIRS]
    )


def shares(values: NDArray[np.float64]) -> dict[str, Any]:
    """Share of positive margins: skew by bias, and accuracy."""
    found = {}
    for name in (*EMBEDDED_BIASES, "quality"):
        rows = [row for row, group in enumerate(GROUPS) if group == name]
        ids = [prompt_id(PAIRS[row].prompt) for row in rows]
        found[name] = share_of(values[rows] > 0, ids).model_dump()
    return found


def main() -> int:
    with tempfile.TemporaryDirectory() as temporary:
        adapter, merged = Path(temporary) / "adapter", Path(temporary) / "merged"
        build(adapter)
        merged.mkdir()
        save_merged(encoder_folder(), adapter, merged)
        again = margins(merged, "built now")
    shipped = margins(embedded_model_folder(), "shipped")
    correlation = float(np.corrcoef(shipped, again)[0, 1])
    first, second = shares(shipped), shares(again)
    moved = {name: abs(first[name]["value"] - second[name]["value"]) for name in first}
    skews = [first[name]["value"] for name in EMBEDDED_BIASES]
    said = ", ".join(f"{name} {first[name]['value']:.0%} and {second[name]['value']:.0%}" for name in first)
    quality = first["quality"]
    checks = [
        Check("margins correlate by 0.99", f"{correlation:.4f}", correlation >= CORRELATION),
        Check("skew and accuracy within 3 points", said, max(moved.values()) <= POINTS),
        Check(
            "held-out accuracy of 75%",
            f"{quality['value']:.1%} [{quality['low']:.1%}, {quality['high']:.1%}], n {quality['n']}",
            quality["value"] >= ACCURACY,
        ),
        Check("skew of every bias between 75% and 95%", said, SKEW[0] <= min(skews) and max(skews) <= SKEW[1]),
    ]
    numbers = {
        "command": "python -m evals.reliability.embedded_rebuild", "adapter": ADAPTER.name, "correlation": correlation,
        "largest_difference": float(np.abs(shipped - again).max()), "sd_of_margins": float(shipped.std()),
        "shipped": first, "built_now": second,
    }  # fmt: skip
    return finish("embedded_rebuild", (__doc__ or "").split("\n\n")[0], checks, numbers)


if __name__ == "__main__":
    sys.exit(main())
