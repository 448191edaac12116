"""Dry runs of the commands that work on files and finished runs: what would be read, asked and written; nothing is done."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import Result
from typer.testing import CliRunner

from cda.cli import app

RUN = "audit rm.py:longer --bias length --contrasts contrasts.jsonl --quality none --triples none --out"
STUDY = "writes      NEW: README.md, items.csv, key.json"


def run(*words: str) -> Result:
    return CliRunner().invoke(app, [word for part in words for word in part.split()])


def written(file: Path, rows: list[dict[str, Any]]) -> None:
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")


@pytest.fixture(scope="module", autouse=True)
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A working folder with files of every kind, two audits and their rows, a study and an answer."""
    folder, before = tmp_path_factory.mktemp("desk"), Path.cwd()
    os.chdir(folder)
    scorer = "def longer(prompts, responses):\n    return [float(len(each)) for each in responses]\n"
    (folder / "rm.py").write_text(scorer, encoding="utf-8")
    written(folder / "contrasts.jsonl", [{"id": f"c{n}", "bias": "length", "prompt": f"Why {n}?", "base": "So.", "perturbed": f"So, {'so ' * n}."}
                                         for n in range(24)])  # fmt: skip
    written(folder / "scored.jsonl", [{"prompt": "Why?", "response": "So.", "score": 1}])
    assert run(RUN, "a --export rows/").exit_code == 0
    shutil.copytree(folder / "a", folder / "b")
    assert run("study export contrasts.jsonl st").exit_code == 0
    table = (folder / "st" / "items.csv").read_text(encoding="utf-8-sig")
    rows = [{**row, "choice": "A"} for row in csv.DictReader(io.StringIO(table, newline=""))]
    with (folder / "filled.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    yield folder
    os.chdir(before)


@pytest.mark.parametrize(
    ("command", "options", "steps"),
    [
        ("samples 0.05 --share 0.8", {"share": 0.8}, ["prints      the contrasts, votes and prompts that ± 5 points need; reads and writes no file"]),
        ("texts NEW", {}, ["ship with cda: contrasts 700, second_turns 124", "writes      NEW: each as a table, and README.md"]),
        ("study export contrasts.jsonl NEW --limit 6 --attention 0", {"limit": 6, "attention": 0},
         ["reads       6 contrasts of contrasts.jsonl (18 of 24 dropped (18 not drawn (--limit)))",
          "3 participants (experts), 6 contrasts and 0 checks each; 3 judgements a contrast, 18 in all", STUDY]),
        ("study import st filled.csv --out NEW.jsonl", {"out": "NEW.jsonl"},
         ["reads       1 file of results: 72 votes on 24 contrasts (none of 72 dropped)",
          "writes      NEW.jsonl, NEW.summary.json, NEW.summary.html"]),
        ("compare rows --out NEW", {"out": "NEW"}, ["rm.py:longer; biases: length", "report      NEW/comparison/report.html"]),
        ("report a --figures svg", {"figures": "svg"}, ["reads       a/audit/audit.json: rm.py:longer; biases: length", "report      a/report/report.html"]),
        ("report a --out NEW", {"out": "NEW"}, ["report      NEW/report.html"]),
        ("compare a b --out NEW", {"out": "NEW"},
         ["reads       a: rm.py:longer; biases: length", "reads       b: rm.py:longer; biases: length"]),
    ],
    ids=lambda value: value.partition(" --")[0] if isinstance(value, str) else "",
)  # fmt: skip
def test_a_dry_run_says_what_is_read_and_written_and_does_nothing(
    desk: Path, command: str, options: dict[str, Any], steps: list[str]
) -> None:
    before = sorted(desk.rglob("*"))
    planned, full = json.loads(run(command, "--dry-run --json").stdout), run(command, "--dry-run --full")
    assert full.exit_code == 0 and full.stdout.endswith("\nDry run: nothing was done.\n"), full.output
    lines = "\n".join(planned["lines"])
    assert planned["settings"] == options and all(step in lines for step in steps), planned
    every, shown = full.stdout.split("\n\n")[:2]
    assert options.items() <= yaml.safe_load(every).items() and shown == lines
    assert sorted(desk.rglob("*")) == before


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("samples 0.7", "it lies between 0 and 0.5"),
        ("texts rows", "rows: is not empty; nothing is written over. Give a new folder"),
        ("study export contrasts.jsonl rows", "rows: is not empty; nothing is written over. Give a new folder"),
        ("study export contrasts.jsonl rm.py/st", "rm.py: is a file, so that no folder can be made there. Give a folder elsewhere"),
        ("study import st filled.csv --out votes.csv", "give a name that ends in .jsonl"),
        ("compare rows --out rm.py", "rm.py: is a file"),
        ("report a --out rows", "rows: holds something other than results of `cda report`"),
        ("report a --limit 3", "--limit: only with a recipe; a is the folder of a run, whose report is drawn as it is"),
        ("compare a b --seed 3", "seed=3: no effect on finished audits, and no model is audited here"),
        ("dose scores:rm.py --against scores:after.jsonl", "rm.py: unknown file type; use one of .jsonl"),
        ("dose scores:scored.jsonl --against scores:scored.jsonl --bias length --contrasts contrasts.jsonl --quality none",
         "length: people's majorities on 0 prompts, and choosing a dose needs 20 at least of one bias (half of them choose, the others "
         "measure). Give contrasts with votes: `cda study export CONTRASTS study`"),
        ("calibrate scores:scored.jsonl --bias length --contrasts contrasts.jsonl --quality none", "length: people's majorities on 0 prompts, and calibrating needs 20 at least"),
        ("dose scores:scored.jsonl --against scores:scored.jsonl --only", "--only: only with a recipe"),
        ("train jargon --only", "stage 'label' does not fit this recipe (it has not been run). Leave out --only to run it"),
        (f"{RUN} c --export rm.py/", "rm.py/row.json: cannot be written (rm.py: is a file"),
    ],
)  # fmt: skip
def test_a_dry_run_finds_what_would_stop_the_command(desk: Path, command: str, said: str) -> None:
    before = sorted(desk.rglob("*"))
    done = run(command, "--dry-run")
    assert done.exit_code == 2 and done.stdout == "" and said in done.stderr, done.output
    assert sorted(desk.rglob("*")) == before


def test_a_report_elsewhere_is_that_of_the_run_which_stays_as_it_is(desk: Path) -> None:
    page = desk / "a" / "report" / "report.html"
    before, last = page.read_bytes(), page.stat().st_mtime_ns
    done = run("report a --out copy --figures svg")
    assert done.exit_code == 0 and "Report: copy/report.html" in done.stdout, done.output
    assert (desk / "copy" / "report.html").read_bytes() == before and page.stat().st_mtime_ns == last
    assert {path.name for path in (desk / "copy").iterdir()} == {"report.html", "report.md", "figures"}
    assert run("report a --out copy").exit_code == 0  # an earlier one is replaced
    assert not (desk / "a" / "report" / "figures").exists()
