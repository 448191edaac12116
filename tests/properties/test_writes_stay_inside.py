"""Names out of data and links never lead a writer outside the folder that was asked for, and impossible paths are said in words."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from cda.benchmarks.quality_report import rewardbench_files
from cda.biases import Bias, load_bias
from cda.cli import app
from cda.discovery.attribute import attribute_bias, distinct_names
from cda.errors import CdaError, RunError
from cda.files.paths import as_part, is_reserved, own_folder, place_for, user_path
from cda.recipe.load import _as_folder
from cda.recipe.schema import Recipe
from cda.records import Exclusions
from cda.report.document import Document
from cda.report.plots import Plot, save_plot
from cda.resources.artifacts import folder_suffix, out_folder
from cda.results.base import Estimate
from cda.results.benchmarks import Accuracy, AccuracyGroup, QualityResult, QualityScoring, SetQuality
from cda.results.facts import RewardModelFacts
from cda.run import RunFolder, Stage

HOSTILE = (
    "..", ".", "", "../../x", "/etc/passwd", "a/../../b", "..\\..\\x", "C:\\x", "a\0b", "x" * 5000, "é" * 300, "\ud800", "con",
    "NUL", "aux.txt", "com1", "lpt9.json", "trailing.", "a\nb", "~root", "~nobody", "<script>", "a:b", "*?", " ",
)  # fmt: skip
NOBODY = "~nobody-of-this-name/x"
IMPOSSIBLE = {
    "below a file": "file/below/x.jsonl",
    "NUL": "a\0b.jsonl",
    "nobody's home": NOBODY,
    "too long": "x" * 5000,
    "a folder": "folder",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_is_one_part_of_a_path_on_every_system(name: str, tmp_path: Path) -> None:
    part = as_part(name)
    file = tmp_path / part
    file.write_text("x", encoding="utf-8")
    assert file.resolve().parent == tmp_path.resolve() and file.name == part
    assert part.strip(". ") and not is_reserved(part) and len(part.encode()) <= 150
    assert not set(part) & set('/\\<>:"|?*\0\n')


@pytest.mark.parametrize(
    "words", ["Con", "NUL", "../../etc/passwd", "Aux!", "/abs/path", "a" * 400, "..x", "~root writes"]
)
def test_an_attribute_names_a_file_that_stays_where_it_belongs(words: str, tmp_path: Path) -> None:
    (bias,) = distinct_names([attribute_bias(words)])
    file = tmp_path / f"{bias.name}.yaml"
    assert file.resolve().parent == tmp_path.resolve()
    assert not is_reserved(bias.name)


@pytest.mark.parametrize("name", [*HOSTILE, "../x", "jargon\n", "con", "prn"])
def test_no_bias_has_such_a_name(name: str) -> None:
    content = {**load_bias("jargon").model_dump(), "name": name}
    with pytest.raises(ValidationError):
        Bias.model_validate(content)


@pytest.mark.parametrize("name", ["..", "../x", "/x", "con", "Nul.v2", "a.", "a\0b", "x" * 300])
def test_no_recipe_has_such_a_name(name: str) -> None:
    sections = {"biases": ["jargon"], "model": {"name_or_path": "embedded"}, "data": {"pairs": "embedded"}}
    assert Recipe.model_validate({"name": "console", **sections})
    with pytest.raises(ValidationError, match="name"):
        Recipe.model_validate({"name": name, **sections})


def test_rewardbench_files_stay_below_their_folder(tmp_path: Path) -> None:
    for name in HOSTILE:
        files = _rewardbench(name)
        assert len(files) == 2
        for path in files:
            assert (tmp_path / path).resolve().is_relative_to(tmp_path.resolve()), path
            assert not any(is_reserved(part) for part in Path(path).parts)


def _rewardbench(name: str) -> dict[str, Any]:
    half = Estimate(value=0.5, low=0.4, high=0.6, n=9, n_prompts=9, unit="share", method="m")
    group = AccuracyGroup(
        name="all", scores={"model": Accuracy(estimate=half, standard_error=0.1, n_ties=0)}, shift=None
    )
    one = SetQuality(
        name=name, source="a.jsonl", format="rewardbench-2", n_items=9, exclusions=Exclusions(9, {}), left_out_rows={},
        unread=0, unread_reasons={}, n_expected={}, overall=group, sections=(group,), subsets=(group,), cells=(),
    )  # fmt: skip
    scoring = QualityScoring(
        label="model", model=f"../{name}/{name}", unit="reward", target="t", target_kind="classifier", revision=None, adapter=None,
        adapter_content=None, dose=None, facts=RewardModelFacts(kind="reward model", name="t", texts=9, truncated=0),
    )  # fmt: skip
    result = QualityResult(scorings=(scoring,), n_tests=0, sets=(one,), seed=0, versions={}, files={})
    return rewardbench_files(result, [])


def test_figures_stay_in_their_folder(tmp_path: Path) -> None:
    def plot(name: str) -> Plot:
        return Plot(name, "Title", "Words", lambda axes: axes.plot([0, 1]), 1.0)

    inside = tmp_path / "in" / "figures"
    inside.mkdir(parents=True)
    for name in ("../../x", "/tmp/x", "nul"):
        save_plot(plot(name), inside, "svg")
    assert all(file.parent == inside for file in tmp_path.rglob("*") if file.is_file())
    assert len(list(inside.iterdir())) == 3
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "figures").symlink_to(inside)
    with pytest.raises(RunError, match="a link"):
        Document("", "", (), (), figures=(plot("x"),)).write_figures(tmp_path / "linked", "svg")


@pytest.mark.parametrize("name", [*HOSTILE, "judge:../../x", "served:http://h/../.."])
def test_folders_named_after_a_model(name: str) -> None:
    folder = f"audit-{_as_folder(name)}{folder_suffix(name, {'adapter': name, 'quality': '../..'})}"
    assert re.fullmatch(r"audit-[A-Za-z0-9._-]+", folder)


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a file, a folder and inputs of every command."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("x", encoding="utf-8")
    (tmp_path / "folder" / "in").mkdir(parents=True)
    answers = [{"prompt": f"Why {row}?", "response": "Use a pan and stir it.", "has_attribute": 0} for row in range(3)]
    _rows(tmp_path / "answers.jsonl", answers)
    _rows(tmp_path / "contrasts.jsonl",
          [{"id": str(row), "bias": "jargon", "prompt": f"q{row}", "base": "Use it.", "perturbed": "Utilize it."} for row in range(6)])  # fmt: skip
    return tmp_path


def _rows(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")


COMMANDS = (
    ("texts", "OUT"),
    ("triples", "OUT", "--bias", "jargon", "--responses", "answers.jsonl"),
    ("study", "export", "contrasts.jsonl", "OUT"),
    ("study", "import", "OUT", "answers.jsonl"),
    ("inspect", "jargon", "--n", "1", "--model", "none", "--html", "OUT"),
    ("merge", "OUT", "--out", "new"),
    ("compare", "OUT", "folder"),
)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda one: " ".join(one[:2]))
def test_a_place_that_cannot_be_is_said_without_a_traceback(command: tuple[str, ...], desk: Path) -> None:
    before = sorted(desk.rglob("*"))
    for what, path in IMPOSSIBLE.items():
        done = CliRunner().invoke(app, [path if word == "OUT" else word for word in command])
        assert isinstance(done.exception, SystemExit) and done.exit_code, (what, done.output, done.exception)
        assert "Traceback" not in done.output and "\0" not in done.output
    assert sorted(desk.rglob("*")) == before


@pytest.mark.parametrize("path", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_results_and_files_have_a_place_before_the_work(path: str, desk: Path) -> None:
    before = sorted(desk.rglob("*"))
    with pytest.raises(RunError):
        out_folder(path, "quality.json", "cda quality")
    with pytest.raises(CdaError):
        place_for(user_path(path))
    assert sorted(desk.rglob("*")) == before


def test_nothing_is_written_through_links_within_a_run(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "own.txt").write_text("kept", encoding="utf-8")
    run = RunFolder(tmp_path / "run")
    run.path.mkdir()
    stage = Stage("label", {"a": 1}, {})
    for name in (".label.partial", "superseded"):
        link = run.path / name
        link.symlink_to(mine)
        (run.path / "label").mkdir(exist_ok=True)  # to be set aside
        with pytest.raises(RunError, match="a link"):
            run.begin(stage)
        link.unlink()
    assert [file.name for file in mine.iterdir()] == ["own.txt"]
    with pytest.raises(RunError, match="a link"):
        (tmp_path / "link").symlink_to(tmp_path / "nothing")
        own_folder(tmp_path / "link")


@pytest.mark.parametrize("target", ["mine", "nothing"])
def test_a_finished_stage_behind_a_link_is_read_and_set_aside_as_a_link(tmp_path: Path, target: str) -> None:
    run = RunFolder(tmp_path / "run")
    stage = Stage("label", {"a": 1}, {})
    if target == "mine":
        (run.begin(stage) / "pairs.jsonl").write_text("{}\n", encoding="utf-8")
        run.finish(stage, {}, 0.0).rename(tmp_path / "mine")
    run.path.mkdir(exist_ok=True)
    (run.path / "label").symlink_to(tmp_path / target)
    assert run.is_done(stage) == (target == "mine")
    before = {file: file.read_bytes() for file in (tmp_path / target).rglob("*")}
    other = Stage("label", {"a": 2}, {})
    for _ in range(2):  # a second time, what was set aside may be a link to nothing
        run.begin(other)
        run.finish(other, {}, 0.0)
        run.stage("label").rename(tmp_path / f"made-{len(list(tmp_path.iterdir()))}")
        (run.path / "label").symlink_to(tmp_path / target)
    assert {file: file.read_bytes() for file in (tmp_path / target).rglob("*")} == before
    assert not (tmp_path / "nothing").exists()
