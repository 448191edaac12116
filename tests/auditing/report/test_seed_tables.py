"""Several trainings in every form of the report, and of one training what its intervals leave out."""

from __future__ import annotations

from typing import Any

import pytest
from changed import changed

from cda.auditing.model_card import ExportedTraining, model_card
from cda.auditing.report import audit_document
from cda.auditing.report_scoring import caveats
from cda.auditing.report_trainings import seed_table
from cda.results.base import Estimate, Missing
from cda.results.skew import OverSeeds, Seeds
from cda.stats.means import CROSSED

PATH, ADAPTER = "runs/jargon/report/report.html", "runs/jargon/adapter"
LEFT_OUT = "leave out which seed was drawn"


def estimate(value: float, low: float, high: float, method: str = "t over seeds and prompts 95%") -> Estimate:
    return Estimate(value=value, low=low, high=high, n=80, n_prompts=80, unit="share", method=method)


def measure(*by_seed: float, change: tuple[float, float, float] = (-0.38, -0.57, -0.19)) -> OverSeeds:
    mean = sum(by_seed) / len(by_seed)
    after = estimate(mean, mean - 0.16, mean + 0.18, CROSSED)
    sd = (sum((one - mean) ** 2 for one in by_seed) / (len(by_seed) - 1)) ** 0.5
    return OverSeeds(before=estimate(0.81, 0.71, 0.88), after=after, change=estimate(*change), sd=sd, by_seed=by_seed)


def with_seeds(
    audit: Any, seeds: list[int] | None = None, change: tuple[float, float, float] = (-0.38, -0.57, -0.19)
) -> Any:
    """The audit with three trainings: skew of each bias, quality and one effect."""
    return audit.model_copy(
        update={
            "seeds": Seeds(
                seeds=tuple(seeds or (42, 1, 2)),
                doses=(1.0,) * len(seeds or (42, 1, 2)),
                measures={
                    "skew": {name: measure(0.46, 0.31, 0.49, change=change) for name in audit.skew},
                    "triple_skew": {"jargon": Missing(reason="1 prompts")},
                    "rate": {"jargon": changed(measure(-1.15, -0.5, -0.9), "before", 3.16)},
                    "accuracy": {"": measure(0.77, 0.76, 0.78, change=(0.01, -0.04, 0.05))},
                },
            )
        }
    )


@pytest.mark.parametrize("seeds", [Seeds(seeds=(7,)), None])
def test_one_training_says_what_its_intervals_leave_out(audit: Any, seeds: Any) -> None:
    found = audit.model_copy(update={"seeds": seeds})
    (note,) = [one for one in caveats(found) if LEFT_OUT in one]
    assert ("seed 7" in note) == (seeds is not None) and "train.seeds=3" in note
    assert LEFT_OUT in audit_document(found).markdown() and LEFT_OUT in audit_document(found).page()
    assert LEFT_OUT in model_card([ExportedTraining("jargon", 1.0, found)], "embedded", None)
    assert seed_table(found) is None and "Over trainings" not in audit_document(found).markdown()


def test_the_card_of_a_later_seed_is_its_own(audit: Any) -> None:
    found = with_seeds(audit)
    first = model_card([ExportedTraining("jargon", 1.0, found)], "my-org/base", None)
    own = model_card([ExportedTraining("jargon-seed-2", 1.0, found, at=2)], "my-org/base", None)
    assert "One of 3 trainings on the same labels and rewrites: that of seed 2. The verdicts" in own
    row = next(line for line in own.splitlines() if line.startswith("| jargon skew |"))
    assert row.endswith("| 49% |") and "| 46%, 31%, 49% |" in first and "| −0.90 |" in own
    # Nothing of the first training alone: its verdicts, its part of the limits, its numbers in the metadata.
    for words in ("Before and after training", "Of 3 trainings the adapter is that of the first seed", "model-index"):
        assert words in first and words not in own
    assert "base_model: my-org/base" in own and own.count("```python") == 1
