"""Habits of the command line: JSON, limits, seeds, dry runs, conditions, columns, names, settings, completion, exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

import cda
from cda.cli import app, main
from cda.recipe.schema import Recipe
from cda.results.audit import AuditResult
from cda.results.data import DataResult

SCORER = "def longer(prompts, responses):\n    return [float(len(each)) for each in responses]\n"
AUDIT = "audit rm.py:longer --bias length --quality none --triples none audit.second_turn=no"
SAMPLES = [{"prompt": f"Why {n}?", "responses": [f"So {n}.", f"- So {n}.\n- And so on {'on ' * n}"]} for n in range(12)]


@pytest.fixture(autouse=True)
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a scorer, samples, outputs, and pairs whose columns have other names."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rm.py").write_text(SCORER, encoding="utf-8")
    pairs = [{"question": f"Why {n}?", "better": f"So it is {n}.", "worse": "No."} for n in range(12)]
    outputs = [{"prompt": row["prompt"], "response": row["responses"][n % 2]} for n, row in enumerate(SAMPLES)]
    others = [{"prompt": row["prompt"], "response": row["responses"][1 - n % 2]} for n, row in enumerate(SAMPLES)]
    contrasts = [{"question": f"Why {n}?", "base": "So.", "perturbed": f"So, {'so ' * n}."} for n in range(12)]
    tables = {"pairs": pairs, "samples": SAMPLES, "first": outputs, "second": others, "contrasts": contrasts}
    for name, rows in tables.items():
        (tmp_path / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return tmp_path


def run(command: str, *more: str) -> Result:
    return CliRunner().invoke(app, [*command.split(), *more])


def refused(command: str, *said: str) -> None:
    """A user's mistake: exit code 2, one line for each problem, and no traceback."""
    done = run(command)
    assert done.exit_code == 2 and done.stdout == "", done.output
    lines = done.stderr.splitlines()
    assert len(lines) == len(said) and all(words in line for words, line in zip(said, lines, strict=True)), done.stderr


def test_json_is_the_result_alone_and_a_condition_that_holds_ends_with_1() -> None:
    done = run(f"{AUDIT} --limit 8 --seed 5 --json", "--fail-if", "length.skew>0.7", "--fail-if", "length.skew < 0.2")
    found = AuditResult.model_validate_json(done.stdout)
    assert (done.exit_code, found.seed, found.skew["length"].before.n) == (1, 5, 8)
    assert found.skew["length"].before.value == 1  # an added length is longer
    assert "at most 8 of each file and bias, drawn with seed 5" in done.stderr and "skew" in done.stderr
    (failed,) = [line for line in done.stderr.splitlines() if line.startswith("failed")]
    assert failed == f"failed: length.skew>0.7: found 1 [{found.skew['length'].before.low:.3g}, 1] (n = 8)"


def test_a_condition_without_a_number_fails_with_its_reason_and_one_that_does_not_hold_passes() -> None:
    voted, quality = "length.miscalibration>0.9", "quality.accuracy<0.1"
    done = run(f"{AUDIT} --limit 4", "--fail-if", voted, "--fail-if", quality)
    assert done.exit_code == 1
    assert f"failed: {voted}: no value: people did not vote on its contrasts\n" in done.stderr
    assert f"failed: {quality}: no value: quality was not measured\n" in done.stderr
    passed = run(f"{AUDIT} --limit 4", "--fail-if", "length.skew<=0.99")
    assert (passed.exit_code, passed.stderr) == (0, "")
    audit = cda.load("runs/audit-rm.py-longer-limit-4").audit  # type: ignore[union-attr]
    assert audit.failures("length.skew>=1", "length.skew<1") == ["length.skew>=1: found 1 [0.51, 1] (n = 4)"]


def test_conditions_in_a_wrong_form_or_on_unknown_names_are_told_before_any_work(desk: Path) -> None:
    refused(f"{AUDIT} --fail-if length.skw>1 --fail-if length>1 --fail-if length.skew>x",
            "'skw' is no measure of length. Did you mean 'skew'?", "--fail-if length>1: has the form", "has the form")  # fmt: skip
    refused(f"{AUDIT} --fail-if length.skew.change<0 --fail-if quality.accuracy.after<0.7",
            "length.skew.change<0: there is no training that something could be measured after; leave out .change",
            "leave out .after")  # fmt: skip
    refused(f"{AUDIT} --fail-if length.skew>70 --fail-if length.gap<-0.1 --fail-if length.skew.change<-2 --fail-if length.rate>1e999",
            "length.skew>70: skew is a share, from 0 to 1: 70% is 0.7; so the condition would never hold",
            "length.gap<-0.1: gap is a share, from 0 to 1: 70% is 0.7; so the condition would never hold",
            "length.skew.change<-2: skew is a share difference, from -1 to 1: 70% is 0.7; so the condition would never hold",
            "length.rate>1e999: give a number of at most 1e+100")  # fmt: skip
    refused(
        f"{AUDIT} --fail-if length.skew<70 --fail-if quality.accuracy.change>=-3",
        "would always hold",
        "would always hold",
    )
    refused(f"{AUDIT} --fail-if lenth.skew>1", "'lenth' is not measured here. Did you mean 'length'? Known: length,")
    refused("audit embedded --bias jargon --fail-if length-second-turn.skew>0.5",
            "'length-second-turn' is not measured here. Known: jargon, quality")  # fmt: skip
    refused("train jargon --only --fail-if jargon.skew>1", "--fail-if: not with --only, which trains without an audit")
    refused("train jargon --fail-if jargn.skew>1", "'jargn' is not measured here. Did you mean 'jargon'?")
    assert not (desk / "runs").exists()


VOTED = [
    {
        "id": f"c{n}",
        "prompt": f"Why {n}?",
        "base": "So.",
        "perturbed": f"So {n}, so.",
        "bias": ("length", "jargon")[n % 2],
    }
    for n in range(60)
]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("calibrate rm.py:longer --contrasts none", "audit.contrasts is none, so that triples are all that an audit measures, and there are none; give contrasts"),
        ("calibrate rm.py:longer --contrasts none --votes votes.csv", "audit.contrasts is none, and audit.votes are on contrasts; give contrasts"),
        ("calibrate rm.py:longer dose.repeats=0", "dose.repeats: input should be greater than or equal to 1, found 0"),
        ("calibrate rm.py:longer --bias yes.yaml --contrasts voted.jsonl --votes length.csv", "voted.jsonl: no usable contrast; 60 of 60 dropped (30 of another bias (jargon), 30 of another bias (length))"),
        ("dose rm.py:longer --against rm.py:longer dose.doses=[0]", "dose.doses: give at least one dose besides 0 (the base model) and 1 (plain CDA), found [0]"),
        ("audit rm.py:longer --contrasts none", "and there are none; give contrasts, or, for cda audit, triples (--triples FILE, audit.triples)"),
        ("audit rm.py:longer --bias yes.yaml --votes votes.csv", "those of yes-bias are still to be rewritten, so that nobody can have voted on them"),
        ("audit rm.py:longer --bias jargon --contrasts voted.jsonl --votes length.csv", "its 30 ids are of contrasts of length in voted.jsonl, and this measures jargon alone; name it too (--bias length)"),
        ("best-of rm.py:longer single.jsonl", "no prompt has two responses to choose from; prompts: 12, "),
        ("audit judge:m score.judge.repeats=-1", "score.judge.repeats: input should be greater than or equal to 1, found -1"),
        ("config train.lr", "train.lr: not a field of trl.RewardConfig. Did you mean 'learning_rate'?"),
    ],
)  # fmt: skip
def test_bad_input_is_told_in_one_sentence(desk: Path, command: str, said: str) -> None:
    (desk / "voted.jsonl").write_text("\n".join(map(json.dumps, VOTED)), encoding="utf-8")
    ids = {"votes": [f"x{n}" for n in range(30)], "length": [row["id"] for row in VOTED if row["bias"] == "length"]}
    for name, voted in ids.items():
        (desk / f"{name}.csv").write_text("\n".join(["id,vote", *(f"{each},base" for each in voted)]), encoding="utf-8")
    single = [{"prompt": row["prompt"], "responses": ["So."]} for row in SAMPLES]
    (desk / "single.jsonl").write_text("\n".join(map(json.dumps, single)), encoding="utf-8")
    (desk / "yes.yaml").write_text(
        "name: yes-bias\ndescription: Opens with Yes.\nquestion: Does it open with Yes?\nkeep: [the rest]\n"
        "instructions: {add: Open with Yes., remove: Drop the opening Yes.}\noffline: {open_with: [Yes.]}\n",
        encoding="utf-8",
    )
    done = run(command)
    errors = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    assert done.exit_code == 2 and len(errors) == 1 and said in errors[0], done.stderr


def test_a_name_that_is_no_file_is_told_before_the_hub_is_asked() -> None:
    done = run("audit rm.py:longer --bias jargon --votes nope")
    assert "  nope: no such file here; looked for as a data set on the Hugging Face hub\n" in done.stdout
    assert done.exit_code == 2 and done.stderr.startswith("error: nope: not a local file, and not loadable from the ")


@pytest.mark.parametrize(
    ("command", "n", "counted"),
    [
        ("data pairs.jsonl --bias length --column prompt=question --column chosen=better --column rejected=worse", 12, "5 of 12"),
        ("quality rm.py:longer pairs.jsonl --column prompt=question --column chosen=better --column rejected=worse", 12, "5, read as"),
        ("best-of rm.py:longer samples.jsonl --bias length", 12, "10 responses to 5 of 12 prompts"),
        ("quality rm.py:longer first.jsonl --over second.jsonl", 12, "5, read as outputs"),
        ("audit rm.py:longer --bias length --contrasts contrasts.jsonl --column prompt=question --quality none --triples none", 12, "at most 5"),
    ],
)  # fmt: skip
def test_a_limit_draws_and_counts_and_a_dry_run_writes_nothing(desk: Path, command: str, n: int, counted: str) -> None:
    dry = run(f"{command} --limit 5 --dry-run --full --json --seed 3")
    plan = json.loads(dry.stdout)
    assert dry.exit_code == 0 and counted in "\n".join(plan["lines"]) and plan["settings"]["seed"] == 3, dry.output
    assert set(Recipe.model_fields) - set(plan["settings"]) <= {"data"}
    assert not (desk / "runs").exists()
    if command.startswith("data"):
        return  # five such pairs say nothing
    whole, limited = (run(f"{command} {more} --json --out runs/{len(more)}") for more in ("", "--limit 5"))
    assert (whole.exit_code, limited.exit_code) == (0, 0), whole.output + limited.output
    if not command.startswith("audit"):
        assert f'"not drawn (--limit)": {n - 5}' in limited.stdout and "not drawn" not in whole.stdout


def test_data_that_are_limited_say_so() -> None:
    done = run("data embedded --bias jargon --limit 60 --json")
    found = DataResult.model_validate_json(done.stdout)
    assert (found.n_pairs, found.not_drawn) == (60, 336 - 60) and "(--limit)" in done.stderr
    refused("data embedded --limit 1", "--limit 1: 2 or more pairs are needed")


def test_a_dry_run_of_a_recipe_shows_what_differs_and_with_full_everything() -> None:
    short = run(
        "train worth-noting --limit 30 --out elsewhere --column prompt=question --column quality.chosen=good --dry-run"
    )
    assert short.exit_code == 0, short.output
    for line in (
        "- biases/worth-noting.yaml",
        "max_pairs: 30",
        "max_triples: 30",
        "folder: elsewhere",
        "question",
        "chosen: good",
    ):
        assert line in short.stdout
    assert "trust_remote_code" not in short.stdout
    full = run("train worth-noting --dry-run --full")
    assert "trust_remote_code: false" in full.stdout and full.stdout.startswith("name: worth-noting")
    refused("train jargon --full", "--full: only with --dry-run, whose settings it lists")
    refused(
        "train jargon --column tripels.prompt=x", "'tripels' is no file with columns here; known: pairs, supplement"
    )
    refused("audit rm.py:longer --column question", "--column question: has the form ours=theirs")
    refused(
        "audit rm.py:longer --column pairs.prompt=x", "'pairs' is no file with columns here; known: contrasts, triples"
    )


def test_names_and_settings_are_listed_and_explained() -> None:
    everything = run("list").stdout
    assert all(name in everything for name in ("jargon", "faithful", "llama-8b", "judge/ours", "cda list KIND"))
    listed = json.loads(run("list biases --json").stdout)["names"]
    assert {"jargon", "vagueness"} <= {row["name"] for row in listed} and all(
        Path(row["file"]).is_file() for row in listed
    )
    for kind in ("biases", "recipes", "models", "prompts"):
        assert (
            run(f"list {kind}").stdout.count(".yaml")
            == len(json.loads(run(f"list {kind} --json").stdout)["names"])
            >= 5
        )
    assert all(row["description"] for row in json.loads(run("list prompts --json").stdout)["names"])
    refused("list bias", "bias: nothing of this kind. Did you mean 'biases'?")
    info = json.loads(run("config lora.target_modules --json").stdout)
    assert info["default"] == "null" and info["set_by"]["model=embedded"] == "[query, value]"
    orders = json.loads(run("config score.judge.orders --json").stdout)
    assert orders["allowed"] == ["both", "one", "null"] and "asked with either answer first" in orders["meaning"]
    sections = run("config").stdout
    assert all(name in sections for name in Recipe.model_fields)
    assert "score.judge.ties" in run("config score.judge").stdout
    refused("config lora.rank", "lora.rank: no such setting. Did you mean 'lora.r'?")
    refused("config target_modules", "Did you mean 'lora.target_modules'?")
    refused("completion tcsh", "tcsh: no completion for this shell. Known: bash, zsh, fish")


def test_the_shell_completes_commands_names_and_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = run("completion bash").stdout
    assert "complete -o default -F" in script and "== *[=:] ]] && compopt -o nospace\n    return 0" in script
    assert all(run(f"completion {shell}").exit_code == 0 for shell in ("zsh", "fish"))

    def asked(words: str) -> dict[str, str]:
        return {"_CDA_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}

    def completed(words: str) -> set[str]:
        for name, value in asked(words).items():
            monkeypatch.setenv(name, value)
        with pytest.raises(SystemExit):
            main([])
        return set(capsys.readouterr().out.split())

    assert {"jargon", "joint"} == completed("cda train j")
    assert {"sycophancy", "sycophancy-second-turn"} == completed("cda audit embedded --bias sy")
    assert "train.learning_rate=" in completed("cda train jargon train.lea")
    real = subprocess.run(
        [sys.executable, "-m", "cda"],
        env={**os.environ, **asked("cda d")},
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert {"data", "discover", "dose"} == set(real.stdout.split())


def test_a_fault_of_ours_ends_with_3_and_its_traceback() -> None:
    program = "import cda.cli.commands as n\ndef shipped(kind): raise KeyError(kind)\nn.shipped = shipped\nfrom cda.cli import main\nmain(['list', 'biases'])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 3 and done.stderr.startswith("Traceback") and "KeyError: 'biases'" in done.stderr


def test_short_help_version_and_exit_codes() -> None:
    assert run("--version").stdout.strip() == run("version").stdout.strip() == cda.__version__
    assert run("-h").stdout == run("--help").stdout and run("audit -h").exit_code == 0
    shown = " ".join(run("-h").stdout.split())
    assert (
        "1 a condition of --fail-if holds" in shown
        and "130 stopped by Ctrl-C" in shown
        and "Train and correct" in shown
    )
    assert run("audit rm.py:longer --limit 0").exit_code == run("audit rm.py:longer --limi 3").exit_code == 2
