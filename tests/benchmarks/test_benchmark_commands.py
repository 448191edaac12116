"""What `cda quality`, `cda best-of` and `cda win-rate` share: one process writes, other folders stay, costs are agreed to."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from replies import Answer, reply
from typer.testing import CliRunner, Result

from cda.cli import app

SCORER = """import pathlib
def reward(prompts, responses):
    pathlib.Path(__file__).with_name("asked").touch()
    return [float(len(response)) for response in responses]
"""
ROWS = {
    "quality": [{"prompt": f"q{n}", "chosen": "better", "rejected": "bad"} for n in range(3)],
    "best-of": [{"prompt": f"q{n}", "responses": ["good", "b " * (n + 1)]} for n in range(1, 4)],
    "win-rate": [{"prompt": f"q{n}", "response": f"a{n}"} for n in range(3)],
}
RESULTS = {"quality": "quality.json", "best-of": "best_of_n.json", "win-rate": "win_rate.json"}


@pytest.fixture(params=list(ROWS))
def command(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def run(command: str, tmp_path: Path) -> Callable[..., Result]:
    """Runs the command on its files: with the given model, else with the length of a text, which leaves a file `asked`."""
    scorer, file = tmp_path / "mine.py", tmp_path / "rows.jsonl"
    scorer.write_text(SCORER)
    file.write_text("".join(json.dumps(row) + "\n" for row in ROWS[command]))

    def cda(*words: object, model: str = f"{scorer}:reward") -> Result:
        files = [str(file)] * (2 if command == "win-rate" else 1)
        return CliRunner().invoke(app, [command, model, *files, *map(str, words)])

    return cda


def test_only_the_main_process_writes_and_speaks(
    command: str, run: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    monkeypatch.setenv("RANK", "1")
    other = run("--out", out)
    assert (other.exit_code, other.stdout) == (0, "") and list(out.iterdir()) == []
    monkeypatch.setenv("RANK", "0")
    main = run("--out", out)
    assert main.exit_code == 0 and str(out) in main.stdout and (out / RESULTS[command]).is_file()


def test_a_folder_that_cannot_take_results_is_refused_before_anything_is_asked(
    command: str, run: Callable[..., Result], tmp_path: Path
) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "scores.jsonl").write_text("mine")
    used, file = run("--out", theirs), run("--out", tmp_path / "mine.py")
    assert used.exit_code == file.exit_code == 1 and "Traceback" not in used.output + file.output
    assert f"other than results of `cda {command}`" in " ".join(used.output.split())
    assert "no folder for results" in file.output
    assert (theirs / "scores.jsonl").read_text() == "mine" and not (tmp_path / "asked").exists()


def test_home_in_a_folder_named_with_an_equals_sign(
    command: str, run: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As bash leaves it in `--out=~/results`."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert run("--out=~/results").exit_code == 0
    assert (tmp_path / "results" / RESULTS[command]).is_file() and not (tmp_path / "~").exists()


@pytest.mark.parametrize("command", ["quality", "win-rate"], indirect=True)
def test_what_a_judge_costs_is_agreed_to_beforehand(
    run: Callable[..., Result], serve: Callable[[Answer], str], tmp_path: Path
) -> None:
    url = serve(lambda _: reply("Verdict: tie"))
    words = (f"llm.base_url={url}", "llm.prices={local: {input: 1, output: 1}}", "--out", tmp_path / "out")
    declined = run(*words, model="judge:local")
    assert declined.exit_code == 1 and "Agree beforehand with --yes" in declined.output
    agreed = run(*words, "--yes", model="judge:local")
    assert agreed.exit_code == 0, agreed.output
