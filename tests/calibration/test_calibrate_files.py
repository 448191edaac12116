"""Calibration from score files: found, applied by hand, and every mistake in a file named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import cda
from cda.calibration.files import calibrate_files
from cda.calibration.report import calibration_document
from cda.cli import app
from cda.errors import CdaError, DataError
from cda.files.jsonl import read_json, read_jsonl, write_jsonl
from cda.results.base import Estimate, Missing
from cda.results.dose import CalibrationResult, OrderCorrection

N = 80
Rows = list[dict[str, Any]]


def scores(planted: float = 2.0, first: float = 0.0, scale: float = 1.0) -> Rows:
    """Margins that follow a value, the bias and its difference; people follow the value alone."""
    rng = np.random.default_rng(0)
    value, difference, places = rng.normal(size=N), rng.uniform(0, 2, N), rng.choice([-1, 1], N)
    margins = scale * (value + planted * difference + first * places)
    return [
        {"id": f"c{row}", "prompt": f"Question {row}?", "margin": float(np.tanh(margins[row] / 2) if first else margins[row]),
         "difference": float(difference[row]), "preferred": "perturbed" if value[row] > 0 else "base",
         "first": "perturbed" if places[row] > 0 else "base"}
        for row in range(N)
    ]  # fmt: skip


def pairs(planted: float = 2.0, first: float = 0.0) -> Rows:
    """Quality pairs with the same tastes; the chosen side is worth more on the whole."""
    rng = np.random.default_rng(1)
    rows: Rows = []
    for row in range(40):
        difference, place = float(rng.normal()), 1 if row % 2 else -1
        margin = float(1 + rng.normal()) + planted * difference + first * place
        rows.append({"id": f"q{row}", "margin": float(np.tanh(margin / 2)) if first else margin, "difference": difference,
                     "first": "chosen" if place > 0 else "rejected"})  # fmt: skip
    return rows


def write(path: Path, rows: Rows) -> Path:
    write_jsonl(path, rows)
    return path


def found(folder: Path, rows: Rows, **options: Any) -> CalibrationResult:
    return calibrate_files(write(folder / "scores.jsonl", rows), repeats=5, **{"seed": 0, **options})[0]


def without(rows: Rows, *columns: str) -> Rows:
    return [{name: cell for name, cell in row.items() if name not in columns} for row in rows]


def test_a_planted_slope_is_found_and_its_effect_is_out_of_fold(tmp_path: Path) -> None:
    result = found(tmp_path, without(scores(), "first"), quality=write(tmp_path / "q.jsonl", without(pairs(), "first")))
    own = result.biases["bias"]
    assert result.strength > 0 and result.unit == "reward" and result.scorer is None
    assert own.base.skew.value > 0.85 and own.change.gap.high < 0 and own.base.human_skew.n == N
    assert isinstance(result.order, Missing) and "no column first" in result.order.reason
    assert result.quality is not None and isinstance(result.quality.before, Estimate) and result.quality.before.n == 40


def test_a_taste_for_the_first_place_of_a_judge_is_taken_off(tmp_path: Path) -> None:
    rows, quality = scores(0.0, first=2.0), write(tmp_path / "q.jsonl", pairs(0.0, first=2.0))
    result = found(tmp_path, rows, quality=quality, preferences=True)
    assert result.unit == "log odds" and isinstance(result.order, OrderCorrection) and result.strength > 0
    first = result.order.prefers_first
    assert isinstance(first.before, Estimate) and isinstance(first.after, Estimate) and first.before.n == N + 40
    assert result.order.offset.low > 0
    assert abs(first.after.value - 0.5) < abs(first.before.value - 0.5)
    assert result.biases["bias"].change.miscalibration.value < 0


def test_a_scale_of_the_margins_changes_nothing_but_the_corrections(tmp_path: Path) -> None:
    own, large = (found(tmp_path, without(scores(scale=scale), "first")) for scale in (1.0, 100.0))
    assert own.biases["bias"].calibrated == large.biases["bias"].calibrated and own.strength == large.strength
    one, other = (result.corrections["bias"].slope for result in (own, large))
    assert isinstance(one, Estimate) and isinstance(other, Estimate)
    assert other.value == pytest.approx(100 * one.value, rel=1e-6)


def test_tiny_margins_are_corrected_as_others_are(tmp_path: Path) -> None:
    own, tiny = (found(tmp_path, without(scores(scale=scale), "first")) for scale in (1.0, 1e-200))
    assert own.following.value == pytest.approx(tiny.following.value) and own.following.value > 1
    assert own.biases["bias"].calibrated.skew.value == pytest.approx(tiny.biases["bias"].calibrated.skew.value)


def test_cells_that_are_missing_are_counted(tmp_path: Path) -> None:
    rows = [row if number % 4 else without([row], "difference", "first")[0] for number, row in enumerate(scores())]
    quality = write(tmp_path / "q.jsonl", without(pairs(), "difference", "first"))
    result = found(tmp_path, rows, quality=quality)
    assert isinstance(result.order, Missing)
    assert result.order.reason == "60 of 120 rows do not say in first which side was shown first"
    told = "rows have no difference in bias; they count as alike in it, and its slope leaves them as they are"
    assert [note.partition(": ")[2] for note in result.notes] == [f"20 of 80 {told}", f"40 of 40 {told}"]


def test_scores_that_are_no_numbers_or_beyond_all_reason_are_left_out_and_counted(tmp_path: Path) -> None:
    rows = without(scores(), "first")
    for at, margin in enumerate((True, 1e200, -1e101, 10**400, "nan", None)):
        rows = changed(rows, at, margin=margin)
    result = found(tmp_path, rows)
    assert result.left_out["rows of scores"].reasons == {"without a score": 4, "with a score beyond 1e+100": 2}
    with pytest.raises(
        DataError, match=r"bias 1; a bias needs 20\. .*scores.jsonl: 79 of 80 dropped \(79 with a score"
    ):
        found(tmp_path, [*[row | {"margin": 1e300, "preferred": "tie"} for row in rows[1:]], rows[0] | {"margin": 1}])


def test_margins_that_do_not_follow_people_are_said(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    blind = [row | {"margin": 1 + float(rng.normal())} for row in without(scores(), "first", "difference")]
    result = found(tmp_path, blind)
    assert result.following.low < 0.1 < 1 < found(tmp_path, without(scores(), "first")).following.low
    assert "hardly follow people's votes" in calibration_document(result).text()
    assert "hardly follow" not in calibration_document(found(tmp_path, without(scores(), "first"))).text()


def test_several_biases_each_have_their_own_terms_and_few_votes_none(tmp_path: Path) -> None:
    rows = [
        {**row, "bias": "length" if number < 50 else "jargon" if number < 75 else "tone"}
        for number, row in enumerate(scores())
    ]
    result = found(tmp_path, rows)
    assert set(result.corrections) == set(result.biases) == {"length", "jargon"}
    assert result.uncorrected == {"tone": "fewer than 20 prompts with a majority"}
    assert result.biases["length"].base.human_skew.n == 50


def test_in_python_it_corrects_margins_without_texts(tmp_path: Path) -> None:
    calibration = cda.calibrate_scores(without(scores(), "first"), out=tmp_path / "out")
    own = calibration.corrections["bias"]
    assert isinstance(own.offset, Estimate) and isinstance(own.slope, Estimate)
    expected = np.array([1.0, 2.0]) - calibration.strength * (own.offset.value + own.slope.value * np.array([0.5, 1.5]))
    assert calibration.corrected([1.0, 2.0], "bias", [0.5, 1.5]) == pytest.approx(expected)
    with pytest.raises(DataError, match=r"'bais': not a bias of this calibration. Did you mean 'bias'"):
        calibration.corrected([1.0], "bais")
    with pytest.raises(DataError, match="comes from score files"):
        calibration(["q?"], ["a"], ["b"], [1.0])
    loaded = cda.load(tmp_path / "out" / "calibration.json")
    assert isinstance(loaded, cda.Calibration) and loaded.model_dump() == calibration.model_dump()
    assert str(loaded) == str(calibration)
    with pytest.raises(CdaError, match="comes from score files, which name no scorer"):
        cda.audit(len_reward, **{"score.calibration": str(tmp_path / "out" / "calibration.json")}, out=tmp_path / "a")  # type: ignore[arg-type]


def len_reward(prompts: list[Any], responses: list[str]) -> list[float]:  # noqa: ARG001
    return [float(len(response)) for response in responses]


def test_rows_out_of_fold_are_written_and_give_the_reported_skew(tmp_path: Path) -> None:
    cda.calibrate_scores(without(scores(), "first"), out=tmp_path / "out")
    rows = list(read_jsonl(tmp_path / "out" / "out_of_fold.jsonl"))
    assert len(rows) == N and rows[3]["margin"] == pytest.approx(scores()[3]["margin"])
    result = read_json(tmp_path / "out" / "calibration.json")
    assert np.mean([row["margin"] > 0 for row in rows]) == pytest.approx(
        result["biases"]["bias"]["base"]["skew"]["value"]
    )
    assert np.mean([row["out_of_fold"] > 0 for row in rows]) == pytest.approx(
        result["biases"]["bias"]["calibrated"]["skew"]["value"], abs=0.1
    )


def changed(rows: Rows, row: int, **cells: Any) -> Rows:
    return [own | (cells if number == row else {}) for number, own in enumerate(rows)]


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        (
            scores()[:15],
            {},
            "too few votes to calibrate by: prompts with a majority of people: bias 15; a bias needs 20",
        ),
        (without(scores(), "preferred"), {}, "no votes"),
        (changed(scores(), 3, first="left"), {}, r"c3: first is 'left'; give perturbed or base"),
        (changed(scores(), 3, difference="long"), {}, r"c3: difference is 'long'; give a number"),
        (changed(scores(), 3, difference=1e200), {}, r"c3: difference is '1e\+200'; give a number of at most 1e\+100"),
        (changed(scores(), 3, difference=True), {}, r"c3: difference is 'True'"),
        (
            [row | {"margin": 0} for row in scores()],
            {},
            "scores.jsonl: every margin is 0: there is no preference to correct",
        ),
        (scores(), {"preferences": True}, r"a judge's verdict is a preference in \[-1, 1\].*leave --preferences out"),
    ],
)
def test_a_mistake_in_a_file_is_named(tmp_path: Path, rows: Rows, options: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        found(tmp_path, rows, **options)


def test_votes_on_unknown_ids_and_few_quality_pairs_are_said(tmp_path: Path) -> None:
    votes = write(tmp_path / "votes.jsonl", [{"id": f"x{row}", "vote": "base"} for row in range(N)])
    with pytest.raises(DataError, match="none of its 80 items"):
        found(tmp_path, without(scores(), "preferred"), votes=votes)
    some = [{"id": f"c{row}", "vote": "base" if row % 3 else "perturbed"} for row in range(N + 7)]
    result = found(tmp_path, without(scores(), "preferred"), votes=write(tmp_path / "votes.jsonl", some))
    assert any("7 of 87 items have no scores" in note for note in result.notes)
    with pytest.raises(DataError, match="5 prompts with quality pairs: 20 are needed"):
        found(tmp_path, scores(), quality=write(tmp_path / "q.jsonl", pairs()[:5]))


def test_the_command_names_options_that_do_not_go_together(tmp_path: Path) -> None:
    file = str(write(tmp_path / "scores.jsonl", scores()))
    for words, message in (
        ([], "give a model, or a score file with --scores"),
        (["embedded", "--scores", file], "a model: not with --scores"),
        (["embedded", "--preferences"], "--preferences: only with --scores"),
        (
            ["--scores", file, "--pairs", file, "--bias", "jargon"],
            "--pairs: not with --scores\nerror: --bias: not with --scores",
        ),
        (["--scores", file, "--ties", "often"], "ties: drop, half, as-released; found 'often'"),
    ):
        result = CliRunner().invoke(app, ["calibrate", *words, "--out", str(tmp_path / "out")])
        assert result.exit_code == 2 and message in result.output, result.output
