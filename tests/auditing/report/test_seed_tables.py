"""Several trainings in every form of the report, and of one training what its intervals leave out."""

from __future__ import annotations

from typing import Any

import pytest
from changed import changed
from planted_dose import ALWAYS, planted_dose

from cda.auditing.first_screen import audit_summary, bias_verdicts, headline
from cda.auditing.model_card import ExportedTraining, model_card
from cda.auditing.next_step import after_audit
from cda.auditing.report import audit_document
from cda.auditing.report_cells import of_mean
from cda.auditing.report_scoring import caveats
from cda.auditing.report_trainings import seed_table
from cda.auditing.shares import held_out
from cda.auditing.verdict_sentences import quality_sentence, verdicts
from cda.results.audit import InSample
from cda.results.base import Estimate, Missing, Test
from cda.results.skew import OverSeeds, Seeds
from cda.stats.means import CROSSED

PATH, ADAPTER = "runs/jargon/report/report.html", "runs/jargon/adapter"
LEFT_OUT = "the intervals do not cover differences between seeds"


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


def with_test(over: OverSeeds, p_holm: float) -> OverSeeds:
    return changed(over, "test", Test(p_value=p_holm, method=CROSSED, p_holm=p_holm))


@pytest.mark.parametrize(
    ("change", "p_holm", "chip"),
    [((-0.38, -0.57, -0.19), 0.001, "improved"), ((-0.38, -0.57, -0.19), 0.2, "no change shown"),
     ((-0.38, -0.79, 0.03), 0.06, "no change shown"), ((0.12, 0.04, 0.2), 0.01, "worse")],
)  # fmt: skip
def test_the_verdict_is_that_of_the_mean_over_trainings(make_audit: Any, change: Any, p_holm: float, chip: str) -> None:
    first = make_audit({"jargon": (0.88, 0.40)}, others=())
    assert [each.chip for each in bias_verdicts(first)] == ["improved"]
    skew = with_test(measure(0.46, 0.31, 0.49, change=change), p_holm)
    right = with_test(measure(0.77, 0.76, 0.78, change=(0.01, -0.04, 0.05)), 0.9)
    over = {"skew": {"jargon": skew}, "accuracy": {"": right}}
    audit = changed(first, "seeds", Seeds(seeds=(42, 1, 2), doses=(1.0,) * 3, measures=over))
    [found], [sentence] = bias_verdicts(audit), verdicts(audit)
    assert (found.chip, found.word) == (chip, sentence.word)
    assert found.last.value == skew.after.value and "42%" in sentence.reason
    assert headline(audit).startswith("On average, training the embedded model ")
    assert "(+1 [−4, 5] points, n = 80)" in quality_sentence(audit) and "mean of 3" in audit_summary(audit)
    # Both halves of a good word: the mean, and quality in the mean.
    lost = changed(
        audit, "seeds.measures", over | {"accuracy": {"": changed(right, "change", estimate(-0.2, -0.3, -0.1))}}
    )
    assert [each.chip for each in bias_verdicts(lost)] == ["at a cost" if chip == "improved" else chip]


def test_people_and_the_gap_to_them_are_those_of_the_mean(make_audit: Any) -> None:
    first = make_audit({"jargon": (0.60, 0.60)}, {"jargon": (0.60, 0.60, 0.75)}, others=())
    skew, missed = (
        with_test(measure(0.1, 0.2, 0.3, change=(-0.4, -0.5, -0.3)), 0.001),
        with_test(measure(0.5, 0.5, 0.6), 0.2),
    )
    skew = changed(skew, "before", first.skew["jargon"].before)
    over = {"skew": {"jargon": skew}, "skew_on_voted": {"jargon": skew}, "miscalibration": {"jargon": missed}}
    mean = of_mean(changed(first, "seeds", Seeds(seeds=(1, 2, 3), doses=(1.0,) * 3, measures=over)))
    gap = mean.votes["jargon"].gap.change
    assert isinstance(gap, Estimate) and (gap.low, gap.high) == pytest.approx((0.3, 0.5))
    assert [each.chip for each in bias_verdicts(mean)] == ["worse"]
    assert of_mean(first) is first


def test_after_a_chosen_dose_a_good_word_needs_the_held_out_results_too(make_audit: Any) -> None:
    first = make_audit({"jargon": (0.88, 0.40)}, {"jargon": (0.88, 0.40, 0.4)}, others=())
    fell = with_test(measure(0.46, 0.31, 0.49), 0.001)
    right = with_test(measure(0.77, 0.76, 0.78, change=(0.01, -0.04, 0.05)), 0.9)
    over = {key: {"jargon": fell} for key in ("skew", "skew_on_voted", "miscalibration")} | {"accuracy": {"": right}}
    audit = changed(first, "seeds", Seeds(seeds=(42, 1, 2), doses=(0.5,) * 3, measures=over))
    assert [each.word for each in verdicts(audit)] == ["improved"]
    held = planted_dose(dose=(ALWAYS, ALWAYS, ALWAYS))  # nothing changes, held out
    assert held.chosen == 1
    held_audit = held_out(changed(audit, "dose_applied", 1.0), held)
    assert [each.word for each in verdicts(held_audit)] == ["no change shown"]


def test_a_bias_that_got_worse_in_the_first_training_alone_is_said_to_be_of_it(make_audit: Any) -> None:
    first = make_audit({"jargon": (0.88, 0.40)}, others=("structure",))
    rose = with_test(measure(0.9, 0.85, 0.95, change=(0.1, 0.05, 0.15)), 0.001)
    same = with_test(measure(0.8, 0.7, 0.9, change=(0.0, -0.1, 0.1)), 0.9)
    fell = with_test(measure(0.46, 0.31, 0.49), 0.001)
    own = first.skew["structure"].model_copy(update={"change": rose.change, "test": rose.test})
    worse = changed(first, "skew", {**first.skew, "structure": own})
    worse = changed(worse, "in_sample", InSample(aim="tie", biases=("jargon",), numbers=(), also=()))
    for mean, said in ((same, True), (rose, False)):
        over = {"skew": {"jargon": fell, "structure": mean}}
        audit = changed(worse, "seeds", Seeds(seeds=(42, 1, 2), doses=(1.0,) * 3, measures=over))
        why = after_audit(audit).why
        assert "structure got worse" in why and ("in the first training, whose adapter this is" in why) == said
