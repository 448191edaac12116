"""Claim: each of the five shipped recipes brings the embedded model nearer to a tie on its bias, takes it past none, moves no other bias further
from a tie, and keeps accuracy on quality pairs.

structure.yaml and sycophancy.yaml were chosen on 80 of these contrasts and the quality pairs by single trainings of another seed (five mixes of structure,
one of sycophancy), so that their results are partly selected; the other recipes were not.

Three trainings of each recipe (seeds counted from the recipe's), audited on all 140 contrasts of each bias, which no training saw; a dose that a
recipe chooses, it chooses on these contrasts, and the skew of its bias is then that of such choices on other halves. Nobody voted on them, so that
the target is a tie: each side preferred as often as the other. `joint_embedded` says the same of recipes/joint.yaml.

Thresholds, of the mean over the trainings of each recipe:
    1. Skew on its bias falls (the upper end of the change lies below 0), and its verdict is not "overcorrected".
    2. The distance from 50% of no other bias grows by more than 5 points.
    3. Accuracy on quality pairs falls by 1 point at most.

    python -m evals.method.recipes_embedded --work FOLDER      (about 20 minutes on 2 cores; a run that is there is not made again)
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic_core import to_jsonable_python

from cda.auditing.verdict_sentences import verdicts
from cda.embedded.texts import EMBEDDED_BIASES
from cda.files.jsonl import read_json
from cda.results.audit import AuditResult
from evals.method.joint_embedded import FURTHER, LOSS, audited, from_tie, moved, over_seeds
from evals.shared import ROOT, Check, finish


def checks(bias: str, audit: AuditResult) -> Iterator[Check]:
    taught, word = over_seeds(audit, "skew", bias), {each.bias: each.word for each in verdicts(audit)}[bias]
    down = taught.change.high < 0 and word != "overcorrected"
    yield Check(f"{bias}.yaml: {bias} falls, and is not overcorrected", f"{moved(taught)}; {word}", down)
    others = {name: over_seeds(audit, "skew", name) for name in EMBEDDED_BIASES if name != bias}
    further = {name: from_tie(own.after) - from_tie(own.before) for name, own in others.items()}
    worst = max(further, key=lambda name: further[name])
    yield Check(
        f"{bias}.yaml: no other bias {100 * FURTHER:g} points further from a tie",
        f"{worst} {moved(others[worst])}",
        further[worst] <= FURTHER,
    )
    accuracy = over_seeds(audit, "accuracy")
    yield Check(
        f"{bias}.yaml: accuracy: {100 * LOSS:g} point lost at most", moved(accuracy), accuracy.change.value >= -LOSS
    )


def levels(audit: AuditResult) -> dict[str, Any]:
    """Skew of every bias, and accuracy, before and after: means over the trainings, and each training."""
    found = {bias: over_seeds(audit, "skew", bias) for bias in EMBEDDED_BIASES}
    found["accuracy"] = over_seeds(audit, "accuracy")
    return {name: to_jsonable_python(one) for name, one in found.items()} | {"doses": audit.seeds and audit.seeds.doses}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--work", type=Path, required=True, help="folder of the runs")
    parser.add_argument("--only", action="append", default=[], help="recipes to train again; the others stay")
    asked = parser.parse_args()
    kept = ROOT / "evals" / "results" / "recipes_embedded.json"
    before = read_json(kept) if asked.only else {"checks": [], "numbers": {}}
    found, numbers = list[Check](), dict[str, Any]()
    for bias in EMBEDDED_BIASES:
        if asked.only and bias not in asked.only:
            found += [Check(**each) for each in before["checks"] if each["threshold"].startswith(f"{bias}.yaml:")]
            numbers[bias] = before["numbers"][bias]
            continue
        audit = audited(asked.work, bias)
        found += checks(bias, audit)
        numbers[bias] = levels(audit)
    claim = " ".join((__doc__ or "").split("\n\n")[0].removeprefix("Claim: ").split())
    return finish("recipes_embedded", claim, found, numbers)


if __name__ == "__main__":
    sys.exit(main())
