"""`cda quality`, with `--over` too, and `cda best-of` alike: one process writes, other folders stay, costs are agreed to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from replies import Answer, reply

ROWS = {
    "quality": [{"prompt": f"q{n}", "chosen": "better", "rejected": "bad"} for n in range(3)],
    "best-of": [{"prompt": f"q{n}", "responses": ["good", "b " * (n + 1)]} for n in range(1, 4)],
    "quality --over": [{"prompt": f"q{n}", "response": f"a{n}"} for n in range(3)],
}
RESULTS = {"quality": "quality.json", "best-of": "best_of_n.json", "quality --over": "quality.json"}
Run = Callable[..., str]


@pytest.fixture(params=list(ROWS))
def command(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def run(command: str, write: Callable[..., Path], longer: str, cda: Callable[..., str]) -> Run:
    """Runs the command on its files."""
    name, *over = command.split()
    own = [write("rows", ROWS[command])] * (1 + len(over))
    return lambda *words, model=longer, files=own, status=0: cda(
        name, model, files[0], *over, *files[1:], *words, status=status
    )


def test_only_the_main_process_writes_and_speaks(
    command: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    monkeypatch.setenv("RANK", "1")
    assert run("--out", out) == "" and list(out.iterdir()) == []
    monkeypatch.setenv("RANK", "0")
    assert str(out) in run("--out", out) and (out / RESULTS[command]).is_file()


def test_a_folder_that_cannot_take_results_is_refused_before_anything_is_asked(
    command: str, run: Run, tmp_path: Path
) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "scores.jsonl").write_text("mine")
    assert f"other than results of `cda {command.split()[0]}`" in run("--out", theirs, status=2)
    assert (theirs / "scores.jsonl").read_text() == "mine"
    for place in (tmp_path / "mine.py", tmp_path / "mine.py" / "below"):
        assert "no folder for results" in run("--out", place, status=2)
    assert "no home folder is known" in run("--out", "~nobody-of-this-name/x", status=2)
    assert not (tmp_path / "asked").exists()


@pytest.mark.parametrize("command", ["quality", "quality --over"], indirect=True)
def test_what_a_judge_costs_is_agreed_to_beforehand(run: Run, serve: Callable[[Answer], str], tmp_path: Path) -> None:
    url = serve(lambda _: reply("Verdict: tie"))
    words = (f"llm.base_url={url}", "llm.prices={local: {input: 1, output: 1}}", "--out", tmp_path / "out")
    assert "Agree beforehand with --yes" in run(*words, model="judge:local", status=2)
    run(*words, "--yes", model="judge:local")


def test_what_is_asked_decides_the_folder(
    command: str, run: Run, write: Callable[..., Path], longer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other files, settings or a second model take nothing away from what was found before."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other.py").write_text((tmp_path / "mine.py").read_text())
    other, two_files = write("other", ROWS[command]), "--over" in command
    calls = [(), ("seed=3",), (), ("--against", longer.replace("mine", "other"))]
    for words in calls:
        run(*words)
    run(files=[other, tmp_path / "rows.jsonl"] if two_files else [other])
    names = sorted(path.parent.name for path in Path("runs").glob(f"*/{RESULTS[command]}"))
    assert len(names) == len(calls) and all(name.startswith(f"{command.split()[0]}-") for name in names)
    assert sum("-against-" in name for name in names) == 1
    assert sum("-on-other-over-rows-" in name if two_files else "-on-other-" in name for name in names) == 1
