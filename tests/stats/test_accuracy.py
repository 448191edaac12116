"""Benchmark rules on margins that can be counted by hand; sections, weights, flags and Holm."""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path

import numpy as np
import pytest

from cda.data.quality_sets import N_PAIRS, SECTIONS, WEIGHTS
from cda.errors import DataError
from cda.report.scoring import flag
from cda.results.base import Estimate, Test
from cda.results.benchmarks import Accuracies
from cda.results.effects import Level
from cda.stats.accuracy import Ranked, holm_over_sections, measure_accuracy, tied_value
from cda.stats.estimators import wilson

ROOT = Path(__file__).parent.parent.parent
DATA = Path(os.environ.get("CDA_DATA", ROOT.parent / "shared" / "data")) / "fff" / "data" / "rewardbench_results"


def ranked(margins: list[float], subset: str = "s", section: str = "S", start: int = 0) -> list[Ranked]:
    return [
        Ranked(f"p{start + row}", subset, section, np.array([[margin]], dtype=np.float64))
        for row, margin in enumerate(margins)
    ]


def best_of(*margins: list[float]) -> Ranked:
    return Ranked("p", "Math", "Math", np.array(margins, dtype=np.float64))


def of(group: Level, label: str = "model") -> Estimate:
    found = group.of("accuracy", label)
    assert found is not None
    return found


def value(group: Level) -> float:
    return of(group).value


def one(items: list[Ranked], rule: str = "pair", weights: dict[str, float] | None = None) -> Accuracies:
    return measure_accuracy({"model": items}, rule, weights)  # type: ignore[arg-type]


def test_a_tie_is_wrong_for_rewards_and_half_for_judges() -> None:
    items = ranked([1.0, 0.0, -1.0, 2.0])
    found = one(items)
    assert value(found.overall) == 0.5
    assert found.overall.ties == {"model": 1} and found.labels == ("model",)
    assert value(measure_accuracy({"model": items}, "pair", None, half_ties=True).overall) == 0.625


def test_interval_and_standard_error_by_hand() -> None:
    score = one(ranked([1.0] * 8 + [-1.0] * 2)).overall
    assert (of(score).low, of(score).high) == wilson(8, 10)
    assert score.errors["model"] == pytest.approx(np.sqrt(0.8 * 0.2 / 10))


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (best_of([1, 2, 3]), 1.0),
        (best_of([1, -0.1, 3]), 0.0),
        (best_of([0, 2, 3]), 1 / 2),  # shares the highest reward with one
        (best_of([0, 0, 0]), 1 / 4),
        (best_of([0, -1, 3]), 0.0),
        (best_of([-1, -1, -1], [1, 1, 1]), 1.0),  # one of two chosen is the best
        (best_of([0, 1, 1], [0, 1, 1]), 2 / 3),  # both chosen share it with one rejected
    ],
)
def test_best_of_four_by_hand(item: Ranked, expected: float) -> None:
    assert value(one([item], "best-of", {"Math": 1.0}).overall) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("reference", "tied", "spread", "expected"),
    [
        (3.0, 2.0, 1.0, 1.0 + 0.01 * np.tanh(1.0)),
        (0.5, 2.0, 1.0, 0.8 + 0.01 * np.tanh(-0.5)),  # the reference's gap is inside the spread
        (3.0, 0.5, 1.0, 0.6 + 0.01 * np.tanh(-0.5)),
        (3.0, -1.0, 1.0, 0.3 + 0.01 * np.tanh(-2.0)),
        (-1.0, -1.0, 1.0, 0.01 * np.tanh(-2.0)),
        (0.0, 0.0, 0.0, 0.0),
        (1.0, 1.0, 0.0, 1.01),
    ],
)
def test_ties_by_hand(reference: float, tied: float, spread: float, expected: float) -> None:
    assert tied_value(reference, tied, spread) == pytest.approx(expected)


def test_ties_are_scored_by_number_and_weigh_as_a_section() -> None:
    ties = [
        Ranked("r1", "Ties", "Ties", np.array([[3.0, 4.0]]), tied=("ref", 1)),
        Ranked("t1", "Ties", "Ties", np.array([[2.0, 5.0], [3.0, 6.0]]), 1.0, ("tied", 1)),
        Ranked("r2", "Ties", "Ties", np.array([[-1.0]]), tied=("ref", 2)),
        Ranked("t2", "Ties", "Ties", np.array([[-1.0], [0.0]]), 1.0, ("tied", 2)),
    ]
    found = one([*ties, best_of([1, 1, 1]), best_of([1, 1, 1])], "best-of", {"Ties": 1.0, "Math": 1.0})
    sections = {group.name: group for group in found.sections}
    expected = ((1 + 0.01 * np.tanh(1)) + 0.01 * np.tanh(-2)) / 2
    assert value(sections["Ties"]) == pytest.approx(expected)
    assert sections["Ties"].n == 2 and sections["Ties"].ties["model"] == 1
    assert value(found.overall) == pytest.approx((expected + 1) / 2)  # sections weigh alike


def test_styles_by_hand() -> None:
    # Reward = substance + style: the plain chosen response loses against richer rejected ones.
    chosen, rejected = np.array([1.0, 2.0, 3.0]), np.array([0.5, 1.5, 2.5])
    item = Ranked("p", "chat", "", chosen[:, None] - rejected[None, :])
    other = Ranked("q", "chat", "", np.ones((3, 3)))
    found = one([item, other], "styles", {"chat": 1.0})
    assert [(group.name, value(group)) for group in found.sections] == [("easy", 1.0), ("normal", 1.0), ("hard", 0.5)]
    assert value(found.overall) == pytest.approx(2.5 / 3)
    cells = {group.name: value(group) for group in found.cells}
    assert len(cells) == 9 and cells["1 over 2"] == 0.5 and cells["2 over 1"] == 1.0
    assert found.overall.n_prompts == 2


def test_mathematics_weighs_as_much_as_code() -> None:
    items = [*ranked([1.0] * 447, "math-prm", "Reasoning"), *ranked([-1.0] * 164, "hep-go", "Reasoning", 1000)]
    found = one(items, weights=dict(WEIGHTS))
    estimate = of(found.sections[0])
    assert estimate.value == pytest.approx(984 / (984 + 164))
    assert estimate.low < estimate.value < estimate.high


@pytest.mark.skipif(not DATA.is_dir(), reason=f"public research data absent: {DATA} (set CDA_DATA)")
@pytest.mark.parametrize("model", ["2B", "3B", "8B"])
def test_sections_are_those_that_rewardbench_printed(model: str) -> None:
    """From the subsets' printed accuracies to the printed section scores, where all subsets were printed."""
    text = (DATA / "base-models" / f"{model}_base_rewardbench.out").read_text()
    printed = {name: float(share) for name, share in re.findall(r"^([\w-]+): ([\d.]+)$", text, re.MULTILINE)}
    scores = ast.literal_eval(text[text.index("{") :].splitlines()[0])
    whole = [section for section, subsets in SECTIONS.items() if all(one in printed for one in subsets)]
    assert len(whole) >= 2
    items: list[Ranked] = []
    for section in whole:
        for subset in SECTIONS[section]:
            hits = round(printed[subset] * N_PAIRS[subset])
            margins = [1.0] * hits + [-1.0] * (N_PAIRS[subset] - hits)
            items += ranked(margins, subset, section, 1000 * len(items))
    for group in one(items, weights=dict(WEIGHTS)).sections:
        assert value(group) == pytest.approx(scores[group.name], abs=1e-9)


def changed(n: int, down: int, up: int) -> tuple[list[Ranked], list[Ranked]]:
    before = [1.0] * (n - up) + [-1.0] * up
    after = [-1.0] * down + [1.0] * (n - down)
    return ranked(before), ranked(after)


@pytest.mark.parametrize(
    ("n", "down", "up", "said"),
    [
        (1000, 50, 5, "fell*"),
        (100, 3, 1, "fell"),
        (100, 0, 0, ""),  # 100 pairs cannot rule a point out
        (5000, 10, 10, "kept"),
        (200, 2, 0, ""),  # exactly one point
    ],
)
def test_flags(n: int, down: int, up: int, said: str) -> None:
    before, after = changed(n, down, up)
    overall = measure_accuracy({"before": before, "after": after}, "pair", None).overall
    assert of(overall, "change").value == pytest.approx((up - down) / n)
    assert flag(overall) == said and isinstance(overall.test, Test) and overall.test.method == "exact McNemar"


def test_holm_is_over_the_sections_of_all_sets() -> None:
    before, after = changed(100, 8, 1)
    results = holm_over_sections([measure_accuracy({"before": before, "after": after}, "pair", None) for _ in range(3)])
    for result in results:
        section, whole = result.sections[0].test, result.overall.test
        assert isinstance(section, Test) and section.p_holm == pytest.approx(3 * section.p_value)
        assert isinstance(whole, Test) and whole.p_holm is None


def test_a_weighted_section_is_tested() -> None:
    def items(margin: float) -> list[Ranked]:
        return [*ranked([margin] * 40, "math-prm", "Reasoning"), *ranked([1.0] * 10, "hep-go", "Reasoning", 100)]

    found = measure_accuracy({"before": items(1.0), "after": items(-1.0)}, "pair", dict(WEIGHTS))
    change, test = of(found.sections[0], "change"), found.sections[0].test
    assert change.value == pytest.approx(-984 / (984 + 164)) and change.high < 0
    assert isinstance(test, Test) and test.p_value < 1e-4
    (same,) = measure_accuracy({"before": items(1.0), "after": items(1.0)}, "pair", dict(WEIGHTS)).sections
    assert isinstance(same.test, Test) and same.test.p_value == 1.0
    assert of(same, "change").low < 0 < of(same, "change").high


def test_broken_input_raises() -> None:
    with pytest.raises(DataError, match="NaN or infinite"):
        one(ranked([float("nan")]))
    with pytest.raises(DataError, match="no items"):
        one([])
    with pytest.raises(DataError, match="other items"):
        measure_accuracy({"before": ranked([1.0]), "after": ranked([1.0], "t")}, "pair", None)


def test_differences_between_weighted_subsets_are_no_sampling_error() -> None:
    weights = {"a": 1.0, "b": 1.0}
    half = [*ranked([1.0] * 100, "a"), *ranked([1.0, -1.0] * 25, "b", start=100)]
    score = one(half, weights=weights).sections[0]
    assert of(score).value == pytest.approx(0.75)
    # Of the second subset alone: 0.5 · √(0.25 / 49).
    assert score.errors["model"] == pytest.approx(0.5 * np.sqrt(0.25 / 49))
    assert of(score).high - of(score).low == pytest.approx(2 * 1.96 * score.errors["model"], rel=0.05)
    # Where no subset has a spread, prompts are taken for one share.
    known = [*ranked([1.0] * 100, "a"), *ranked([-1.0] * 50, "b", start=100)]
    score = one(known, weights=weights).overall
    assert score.errors["model"] == 0
    assert (of(score).low, of(score).high) == pytest.approx(wilson(75, 150))


def test_a_prompt_of_two_subsets_is_drawn_with_both() -> None:
    """Twice the same prompts and verdicts in two subsets say no more than once."""
    margins = [1.0] * 40 + [-1.0] * 20
    twice = [*ranked(margins, "a"), *ranked(margins, "b")]
    apart = [*ranked(margins, "a"), *ranked(margins, "b", start=60)]
    errors = [one(items, weights={"a": 1.0, "b": 1.0}).overall.errors["model"] for items in (twice, apart)]
    assert errors[0] == pytest.approx(np.sqrt(2 / 9 / 59))
    assert errors[1] == pytest.approx(errors[0] / np.sqrt(2))


def test_a_subset_of_one_prompt_keeps_its_error() -> None:
    """A single pair has no spread of its own: its error is that of a larger group."""
    items = [*ranked([1.0], "a"), *ranked([-1.0] * 2, "b", start=1), *ranked([1.0] * 9, "c", start=3)]
    score = one(items, weights={"a": 1.0, "b": 1.0, "c": 1.0}).overall
    assert score.errors["model"] > 0.1
    n = 2 / 9 / score.errors["model"] ** 2
    assert (of(score).low, of(score).high) == pytest.approx(wilson(2 / 3 * n, n))


def test_one_prompt_beside_scores_outside_a_share() -> None:
    """Ties score up to 1.01, beside a subset without spread."""
    ties = [
        Ranked("r1", "Ties", "Ties", np.array([[3.0]]), tied=("ref", 1)),
        Ranked("t1", "Ties", "Ties", np.array([[2.0], [3.0]]), 0.0, ("tied", 1)),
    ]
    found = one([*ties, best_of([-1.0, 1.0, 1.0])], "best-of", {"Ties": 1.0, "Math": 1.0})
    estimate = of(found.overall)
    assert estimate.value == pytest.approx(0.505)
    assert 0 <= estimate.low < estimate.value < estimate.high
