"""The eval of the paper's tables, on a small release made here and, where it is present, on the real one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from cda.errors import DataError
from evals.real_data import paper_tables

ROOT = Path(__file__).parent.parent.parent
DATA = Path(os.environ.get("CDA_DATA", ROOT.parent / "shared" / "data")) / "fff"
N = 12


def write_rows(path: Path, rows: list[Mapping[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")


def scores(shift: float) -> list[dict[str, Any]]:
    """Even pairs prefer the perturbed side; a shift of −1 makes a tie of them, one of −2 turns them round."""
    return [
        {
            "query": f"q{row}",
            "base_response": f"plain {row}",
            "perturbed_response": f"fancy words {row}",
            "base_score": 1.0,
            "perturbed_score": 1.0 + (1 if row % 2 == 0 else -1) + shift,
        }
        for row in range(N)
    ][::-1]


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A release of one bias nobody knows, with two sizes, a run, a joint run, two judges, labels and RewardBench."""
    root = tmp_path / "release"
    annotations = []
    for row in range(N):
        first = row % 3 == 0  # the biased response is shown first in a third of the pairs
        side = "response_1" if first else "response_2"
        other = "response_2" if first else "response_1"
        liked = side if row < 4 else other
        votes = [liked, liked, "Tie"] if row < 10 else ["Response 1", "response_2"]
        texts = [f"fancy words {row}", f"plain {row}"]
        annotations.append(
            {
                "query": f"q{row}",
                "response_1": texts[0 if first else 1],
                "response_2": texts[1 if first else 0],
                "most_frequent_preference": liked if row < 10 else ("Tie" if row == 10 else side),
                "more_flowery_response": side,
                "reward_model_preferred_response": side if row % 2 else other,
                "entries": [{"overall_preference": vote} for vote in [*votes, "no idea"]],
            }
        )
    path = root / "human_annotation_data" / "flowery" / "flowery_grouped_human_annotations.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(annotations), encoding="utf-8")
    folder = root / "data" / "fine_tuned_model_scores"
    for size in ("2B", "27B"):
        write_rows(folder / "flowery" / f"flowery_scored_{size}.jsonl", scores(0))
        write_rows(folder / "flowery" / f"flowery_scored_fine_tuned_{size}_750_3.jsonl", scores(-2))
    write_rows(folder / "flowery_length" / "flowery_scored_2B_500.jsonl", scores(-1)[:-2])
    for judge in ("one", "other-2-5"):
        verdicts = [
            {"query": f"q{row}", "judgement": {"judgement": "Tie" if row % 4 == 3 else "Response 2"}}
            for row in range(N)
        ]
        path = root / "llm_evaluation" / "generative_model_scores" / "flowery" / f"flowery_scored_{judge}.jsonl"
        write_rows(path, verdicts)
    write_rows(
        root / "data" / "reward_model_training_labeled_data" / "GEMMA_sample_labeled_flowery.jsonl",
        [
            {"chosen_flowery": "Yes", "rejected_flowery": "No"},
            {"chosen_flowery": "**Yes**", "rejected_flowery": "no"},
            {"chosen_flowery": "No", "rejected_flowery": "Yes (as it says)"},
            {"chosen_flowery": "", "rejected_flowery": "No"},
        ],
    )
    bench = root / "data" / "rewardbench_results"
    for name in ("base-models/2B_base", "flowery/2B_flowery_750_3"):
        path = bench / f"{name}_rewardbench.out"
        path.parent.mkdir(parents=True)
        path.write_text("hep-go: 0.8\nSection Scores: {'Chat': 0.75, 'Safety': 0.5}\n", encoding="utf-8")
    return root


def test_tables_by_hand(made: Path) -> None:
    table = paper_tables.bias_tables(made, "flowery")
    # Released: rows 0 to 3 and 11 for the biased side, 4 to 9 against it, 10 a tie. Raw votes of 10 and 11 are split.
    assert (table["items"], table["unreadable_votes"], table["labels_that_differ"]) == (N, N, 1)
    released, recomputed = table["labels"]["as_released"], table["labels"]["recomputed"]
    assert (released["human_skew"]["value"], released["human_skew"]["n"]) == (5 / 11, 11)
    assert (recomputed["human_skew"]["value"], recomputed["human_skew"]["n"]) == (4 / 10, 10)
    base = released["models"]["base"]["sizes"]["2B"]
    # Even rows 0, 2, 4, 6, 8 are preferred; wrong on 1, 3, 11 and on 4, 6, 8.
    assert base["skew"]["value"] == 5 / 11
    assert base["miscalibration"]["value"] == 6 / 11
    tuned = released["models"]["750_3"]
    assert tuned["mean"]["skew"]["value"] == 0.0
    assert tuned["change"]["27B"]["skew"]["paired"]["value"] == pytest.approx(-5 / 11)
    assert tuned["change"]["27B"]["skew"]["unpaired"]["value"] == pytest.approx(-5 / 11)
    assert tuned["change_pooled"]["skew"]["paired"]["n_prompts"] == 11
    joint = released["models"]["flowery_length 500"]
    assert joint["items_without_score"] == {"2B": 2}
    assert joint["sizes"]["2B"]["skew"]["n"] == 9
    judge = released["judges"]["panel"]
    # The biased side is second unless the row is a multiple of 3; ties on 3, 7, 11.
    assert judge["ties_as_margin_0"]["skew"]["value"] == pytest.approx(5 / 11)
    assert judge["ties_left_out"]["skew"]["n"] == 8
    strict, parsed = table["contingency"]["strict"], table["contingency"]["parsed"]
    assert (strict["only_chosen"], strict["only_rejected"], strict["neither"]) == (1, 0, 3)
    assert (parsed["only_chosen"], parsed["only_rejected"], parsed["exclusions"]["reasons"]) == (
        2,
        1,
        {"unparsed label": 1},
    )
    assert table["r_train"]["value"] == pytest.approx(1 / 3)


@pytest.mark.skipif(not DATA.is_dir(), reason=f"public research data absent: {DATA} (set CDA_DATA)")
def test_the_real_release_gives_the_paper_s_numbers(tmp_path: Path) -> None:
    result = tmp_path / "tables.json"
    command = [sys.executable, "-m", "evals.real_data.paper_tables", "--release", str(DATA), "--result", str(result)]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    content = json.loads(result.read_text(encoding="utf-8"))
    assert content["passed"] and len(content["checks"]) >= 38
    assert content["by_source"] == {
        "paper": {"compared": 2, "equal": 2},
        "notebook": {"compared": 12, "equal": 12},
        "released files": {"compared": len(content["checks"]) - 14, "equal": len(content["checks"]) - 14},
    }
    assert {bias: table["labels_that_differ"] for bias, table in content["biases"].items()} == {
        "jargon": 0,
        "length": 1,
        "structure": 2,
    }
    assert str(DATA) not in result.read_text(encoding="utf-8")


def test_correlations_in_the_order_shown_are_scipy_s() -> None:
    random = np.random.default_rng
    ids = [str(row) for row in range(90)]
    signs = random(1).choice([-1.0, 1.0], 90)
    prefers = (signs + random(2).normal(size=90)) > 0
    found = paper_tables.preference_correlation(signs.tolist(), prefers.tolist(), ids)
    assert found.value == pytest.approx(stats.pointbiserialr(prefers, signs).statistic)
    words = random(3).normal(0, 80, 90) + 40 * prefers
    length = paper_tables.preference_correlation(words.tolist(), prefers.tolist(), ids)
    expected = stats.pearsonr(words, prefers)
    fisher = expected.confidence_interval(0.95)
    assert length.value == pytest.approx(expected.statistic)
    assert (length.low, length.high) == pytest.approx((fisher.low, fisher.high), abs=0.05)
    with pytest.raises(DataError, match="the attribute is the same in all 3 pairs"):
        paper_tables.preference_correlation([1, 1, 1], [True, False, True], ids[:3])
    with pytest.raises(DataError, match="the preference is the same in all 3 pairs"):
        paper_tables.preference_correlation([1, 2, 1], [True] * 3, ids[:3])
