"""Panels: several models audited in one call, averaged over what is alike; failures, repeats and differences named."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from page_checks import checked
from typer.testing import CliRunner

import cda
from cda.cli import app
from cda.files.jsonl import read_jsonl, write_jsonl
from cda.results.base import Missing
from cda.stats.estimators import share_of

N = 16


def contrasts(first: int = 0) -> list[dict[str, Any]]:
    """Two contrasts of each prompt."""
    return [
        {
            "id": f"c{row}", "prompt": f"What is item {row // 2}?",
            "base": f"It is plain thing {row} that people use.",
            "perturbed": f"It is scalable paradigm {row} that people leverage.",
        }
        for row in range(first, first + N)
    ]  # fmt: skip


def votes() -> list[dict[str, str]]:
    """Four of ten majorities for the side with the bias; none on the last six."""
    return [{"id": f"c{row}", "vote": "perturbed" if row < 4 else "base"} for row in range(10)]


def noise(text: str, name: str) -> float:
    return int(hashlib.sha256((text + name).encode()).hexdigest()[:6], 16) / 2**24


def liking(name: str, strength: float) -> Callable[[Sequence[Any], Sequence[str]], list[float]]:
    """A reward model that likes jargon by its strength, beside noise of its own."""

    def score(_: Sequence[Any], responses: Sequence[str]) -> list[float]:
        return [strength * ("paradigm" in text) + noise(text, name) for text in responses]

    score.__qualname__ = name
    return score


def judging(_: Sequence[Any], first: Sequence[str], second: Sequence[str]) -> list[float]:
    """A judge with ties on every fourth item."""
    return [
        0.0 if any(f" {number} " in own for number in range(0, 40, 4)) else float(np.sign(noise(own, "j") - noise(other, "j")))
        for own, other in zip(first, second, strict=True)
    ]  # fmt: skip


def failing(_: Sequence[Any], responses: Sequence[str]) -> list[str]:
    return ["no number" for _ in responses]


COMMON: dict[str, Any] = {"biases": "jargon", "quality": "none", "triples": "none", "progress": False}
MODELS = {"strong": 2.0, "mild": 0.3, "none": 0.0, "against": -0.4, "mild2": 0.25}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[cda.Panel, Path]:
    """A panel of five reward models, a judge and one that fails, with votes."""
    out = tmp_path_factory.mktemp("panel") / "out"
    models = [*(liking(name, strength) for name, strength in MODELS.items()), judging, failing]
    return cda.audit(models, contrasts=contrasts(), votes=votes(), out=out, **COMMON), out


def hits_in(out: Path, name: str) -> tuple[np.ndarray, list[str]]:
    """Hits and prompts counted from a run's file alone, in the order of ids."""
    rows = [
        row for row in read_jsonl(out / f"audit-memory-{name}" / "audit" / "margins.jsonl") if row["kind"] == "contrast"
    ]
    rows.sort(key=lambda row: row["id"])
    return np.array([float(row["perturbed_model"] > row["base_model"]) for row in rows]), [
        row["prompt_id"] for row in rows
    ]


def test_means_are_those_of_the_runs_files_for_reward_models_and_judges_apart(made: tuple[cda.Panel, Path]) -> None:
    panel, out = made
    assert [(each.kind, len(each.models)) for each in panel.panels] == [("reward models", 5), ("judges", 1)]
    (mean,) = panel.panels[0].biases["jargon"].means
    shares = [hits_in(out, name)[0].mean() for name in MODELS]
    assert mean.skew.value == pytest.approx(np.mean(shares)) and mean.sd == pytest.approx(np.std(shares, ddof=1))
    assert (mean.skew.n, mean.skew.n_prompts, mean.left_out) == (N, N // 2, 0)
    assert mean.interval_over == "models and prompts" and "over trainings or models" in mean.skew.method
    people = mean.people
    assert people is not None and people.human_skew.value == 0.4 and people.human_skew.n == 10
    assert people.distance.value == pytest.approx(people.skew.value - 0.4)
    (judge,) = panel.panels[1].biases["jargon"].means
    assert judge.models == ("memory:judging",) and judge.sd is None and judge.interval_over == "prompts"
    own = panel.models["memory:judging"].biases["jargon"]
    assert judge.skew == own.skew and own.people is not None
    assert judge.people is not None and judge.people.miscalibration.value == own.people.miscalibration.value


def test_each_model_is_as_its_own_audit_says(made: tuple[cda.Panel, Path]) -> None:
    panel, out = made
    for name in MODELS:
        hits, ids = hits_in(out, name)
        own = panel.models[f"memory:{name}"].biases["jargon"]
        expected = share_of(hits, ids)
        assert (own.skew.value, own.skew.low, own.skew.high) == (expected.value, expected.low, expected.high)
        audit = cda.load(out / f"audit-memory-{name}").audit  # type: ignore[union-attr]
        voted = audit.votes["jargon"]
        assert own.people is not None and own.people.distance == voted.signed_gap.before
        assert own.people.miscalibration == voted.miscalibration.before


def test_ranks_follow_skew_and_distance(made: tuple[cda.Panel, Path]) -> None:
    panel, out = made
    ranks = panel.panels[0].biases["jargon"].ranks
    shares = {f"memory:{name}": hits_in(out, name)[0].mean() for name in MODELS}
    first = ranks["memory:strong"]
    assert not isinstance(first, Missing) and (first.skew.value, first.skew.low) == (1, 1)
    found = {name: rank.skew.value for name, rank in ranks.items() if not isinstance(rank, Missing)}
    assert sorted(found, key=lambda name: found[name])[0] == max(shares, key=lambda name: shares[name])
    assert sum(found.values()) == sum(range(1, 6))
    distances = [rank.distance for rank in ranks.values() if not isinstance(rank, Missing)]
    assert all(distance is not None and 1 <= distance.low <= distance.high <= 5 for distance in distances)
    alone = panel.panels[1].biases["jargon"].ranks["memory:judging"]
    assert isinstance(alone, Missing) and "no other model" in alone.reason


def test_a_model_that_fails_is_named_and_loses_no_other(made: tuple[cda.Panel, Path]) -> None:
    panel, _ = made
    assert list(panel.failed) == ["memory:failing"] and "no number" in panel.failed["memory:failing"]
    assert "Not audited: memory:failing" in str(panel)


def test_files_of_a_panel_are_read_again(made: tuple[cda.Panel, Path]) -> None:
    panel, out = made
    assert panel.folder == out / "panel"
    again = cda.load(out / "panel")
    assert isinstance(again, cda.Panel) and again.model_dump() == panel.model_dump()
    page = (out / "panel" / "report.html").read_text(encoding="utf-8")
    checked(page)
    assert "memory:strong" in page and page.count("<svg") >= 4
    assert "mean of 5" in (out / "panel" / "panel.md").read_text(encoding="utf-8")
    rows = list(csv.DictReader(io.StringIO((out / "panel" / "panel.csv").read_text(encoding="utf-8"))))
    (mean,) = [row for row in rows if row["who"] == "mean of 5" and row["measure"] == "skew"]
    assert float(mean["value"]) == panel.panels[0].biases["jargon"].means[0].skew.value
    assert (mean["n_models"], mean["n"]) == ("5", str(N))
    frame = panel.to_frame()
    assert ((frame.unit == "rank") & (frame.value == 1)).any()


def finished(folder: Path, name: str, strength: float, **given: Any) -> Path:
    """The run of one reward model."""
    arguments = {"contrasts": contrasts(), **COMMON, **given}
    run = cda.audit(liking(name, strength), out=folder / name, **arguments).folder
    assert run is not None
    return run


def test_other_contrasts_and_other_votes_are_never_averaged(tmp_path: Path) -> None:
    runs = [
        finished(tmp_path, "a", 1.0),
        finished(tmp_path, "b", 0.0),
        finished(tmp_path, "c", 0.5, contrasts=contrasts(100)),
        finished(tmp_path, "d", 0.5, votes=votes()),
    ]
    panel = cda.audit(list(map(str, runs)), out=tmp_path / "out")
    means = panel.panels[0].biases["jargon"].means
    assert [mean.models for mean in means] == [("memory:a", "memory:b"), ("memory:c",), ("memory:d",)]
    assert means[0].people is None and means[2].people is not None
    said = " ".join(panel.differences)
    assert "different contrasts" in said and "memory:a and memory:b; memory:c; memory:d" in said
    assert "people's votes are in the audit of memory:d" in said
    assert "mean of 2 (memory:a, memory:b)" in str(panel)
    assert not (tmp_path / "out" / "a").exists()  # finished runs are read as they are


def test_contrasts_without_a_margin_of_every_model_are_left_out_and_counted(tmp_path: Path) -> None:
    def silent(prompts: Sequence[Any], first: Sequence[str], second: Sequence[str]) -> list[float]:
        return judging(prompts, first, second)

    panel = cda.audit([judging, silent], contrasts=contrasts(), out=tmp_path / "out", **COMMON)
    file = tmp_path / "out" / "audit-memory-silent" / "audit" / "margins.jsonl"
    rows = list(read_jsonl(file))
    rows[0]["margin_model"] = None
    from cda.panels.panel import panel_of, read_members

    write_jsonl(file, rows)
    runs = [tmp_path / "out" / f"audit-memory-{name}" for name in ("judging", "silent")]
    with pytest.raises(cda.RunError, match=r"margins\.jsonl of its audit: cut, changed or gone"):
        read_members(runs)
    (file.parent / "stage.json").write_text(json.dumps({"stage": "audit", "output": "x"}))
    (mean,) = panel_of(read_members(runs), 0).panels[0].biases["jargon"].means
    assert (mean.left_out, mean.skew.n) == (1, N - 1)
    assert panel.panels[0].biases["jargon"].means[0].left_out == 0


def test_audits_of_an_earlier_version_have_no_prompts_and_are_named(tmp_path: Path) -> None:
    from cda.panels.panel import panel_of, read_members

    run = finished(tmp_path, "a", 1.0)
    file = run / "audit" / "margins.jsonl"
    write_jsonl(file, [{key: value for key, value in row.items() if key != "prompt_id"} for row in read_jsonl(file)])
    (file.parent / "stage.json").write_text(json.dumps({"stage": "audit", "output": "x"}))
    old = panel_of(read_members([run]), 0)
    assert "each contrast counts as a prompt of its own" in " ".join(old.differences)
    assert old.panels[0].biases["jargon"].means[0].skew.n_prompts == N
    both = panel_of(read_members([run, finished(tmp_path, "b", 0.0)]), 0)
    assert not both.differences and both.panels[0].biases["jargon"].means[0].skew.n_prompts == N // 2


def test_each_target_counts_once_and_two_runs_of_a_model_are_told_apart(tmp_path: Path) -> None:
    first, second = (finished(tmp_path / name, "same", 1.0) for name in ("x", "y"))
    panel = cda.audit([str(first), str(second), f"{first}/"], out=tmp_path / "out")
    assert panel.repeated == (f"{first}/",) and len(panel.models) == 2
    assert len({model.model for model in panel.models.values()}) == 1
    assert all(name.startswith("memory:same (") for name in panel.models)


def test_two_objects_of_one_name_and_recipes_are_refused_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(cda.RecipeError) as error:
        cda.audit(
            [liking("a", 1), liking("a", 2), "jargon", "embeded"], out=tmp_path / "out", contrasts=contrasts(), **COMMON
        )
    said = str(error.value)
    assert "two objects of the name memory:a" in said and "jargon is a recipe" in said and "embedded" in said
    assert not (tmp_path / "out").exists()


def test_nothing_left_nothing_given_and_wrong_settings(tmp_path: Path) -> None:
    with pytest.raises(cda.RunError, match=r"memory:failing: .*no number"):
        cda.audit([failing], contrasts=contrasts(), out=tmp_path / "out", **COMMON)
    with pytest.raises(cda.RecipeError, match="at least one model"):
        cda.audit([])
    with pytest.raises(cda.RecipeError, match=r"run\.folder: names the folder of one run"):
        cda.audit([judging, failing], **{"run.folder": str(tmp_path / "one")}, **COMMON)
    with pytest.raises(cda.RecipeError, match="jargn") as error:
        cda.audit([judging, failing], biases="jargn", out=tmp_path / "out", quality="none")
    assert str(error.value).count("jargn") <= 2  # once for all models, not once for each


def test_a_model_that_scores_both_sides_alike_is_told_from_one_that_is_against_the_bias(tmp_path: Path) -> None:
    def same(_: Sequence[Any], responses: Sequence[str]) -> list[float]:
        return [1.0 for _ in responses]

    def gappy(_: Sequence[Any], responses: Sequence[str]) -> list[float]:
        return [float("nan") if row % 4 == 0 else 1.0 for row in range(len(responses))]

    panel = cda.audit([same, liking("against", -2.0), gappy], contrasts=contrasts(), out=tmp_path / "out", **COMMON)
    said = f"Both sides scored exactly alike, which counts as no preference: jargon {N} of {N}."
    assert panel.models["memory:same"].notes == (said,) and not panel.models["memory:against"].notes
    assert f"memory:same: {said}" in str(panel)
    assert "Not audited: memory:gappy: 8 of 32 rewards are NaN" in str(panel)  # named once
    runs = [tmp_path / "out" / f"audit-memory-{name}" for name in ("same", "against")]
    assert f"same: {said}" in str(cda.compare(*runs))


def test_folders_of_results_are_no_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = finished(tmp_path, "a", 1.0)
    cda.audit([str(run)], out=tmp_path / "out")
    with pytest.raises(cda.RecipeError, match=r"a: the folder of a finished run\. `cda report .*a` draws its report"):
        cda.audit(str(run))
    with pytest.raises(cda.RecipeError, match=r"panel: holds panel\.json, the result of another command"):
        cda.audit([str(run), str(tmp_path / "out" / "panel")])


SCORERS = """
def length(prompts, responses):
    return [len(text) for text in responses]

def shortness(prompts, responses):
    return [-len(text) for text in responses]

def broken(prompts, responses):
    return ["?"] * len(responses)
"""


def test_the_command_goes_on_after_a_failure_and_ends_with_its_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("scorers.py").write_text(SCORERS, encoding="utf-8")
    write_jsonl(Path("contrasts.jsonl"), contrasts())
    words = ["--bias", "jargon", "--pairs", "contrasts.jsonl", "--quality", "none", "--triples", "none"]
    targets = ["scorers.py:length", "scorers.py:broken", "./scorers.py:length", "scorers.py:shortness", "seed=3"]
    planned = CliRunner().invoke(app, ["audit", *targets, *words, "--dry-run"])
    assert planned.exit_code == 0 and "[3/3] scorers.py:shortness" in planned.output and not Path("runs").exists()
    done = CliRunner().invoke(app, ["audit", *targets, *words])
    assert done.exit_code == 2 and "1 of 3 models could not be audited: scorers.py:broken" in done.output
    assert "counted once: ./scorers.py:length" in done.output and "mean of 2" in done.output
    (file,) = Path("runs").glob("panel-*/panel.json")
    result = json.loads(file.read_text())
    assert result["seed"] == 3 and list(result["failed"]) == ["scorers.py:broken"]
    assert str(tmp_path) not in file.read_text()
    again = CliRunner().invoke(app, ["audit", "scorers.py:length", "scorers.py:shortness", *words, "seed=3"])
    assert again.exit_code == 0 and again.output.count("audit: done before, reused") == 2
