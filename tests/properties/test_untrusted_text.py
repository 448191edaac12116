"""Foreign text is inert wherever it comes out: errors, terminal, Markdown, HTML, files named after data, keys; no code runs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mutations import CONTROLS, FORMULA, MARKUP
from pydantic import ValidationError
from replies import reply
from test_fuzz_data_files import UNPRINTABLE
from typer.testing import CliRunner

import cda
from cda.benchmarks.quality import rewardbench_files
from cda.biases import Bias, load_bias
from cda.cli import app
from cda.discovery.attribute import attribute_bias, distinct_names
from cda.errors import CdaError, DataError, RecipeError, RunError
from cda.files.paths import as_part, is_reserved, own_folder, place_for, user_path
from cda.inert import clipped, inert, short_lines, visible
from cda.jobs.perform import ResultsFolder
from cda.launch import say
from cda.llm import asking as progress
from cda.llm.outcome import Again, Endpoint, of_data, without_secret
from cda.llm.protocol import Completion
from cda.recipe.load import _as_folder
from cda.recipe.schema import Recipe
from cda.records import Exclusions
from cda.report.document import Document
from cda.report.drawing import FigureForm, save_plot
from cda.report.plots import Plot
from cda.report.tables import Table, escaped, fenced_block, markdown_table, plain_table
from cda.resources.artifacts import folder_suffix
from cda.results.base import Estimate, Missing
from cda.results.benchmarks import QualityResult, QualityScoring, SetQuality
from cda.results.effects import Level
from cda.results.facts import RewardModelFacts
from cda.run import RunFolder, Stage
from cda.user_errors import explain, user_errors

PACKAGE = Path(cda.__file__).parent
HOSTILE = (
    CONTROLS,
    MARKUP,
    FORMULA,
    "\x1b]8;;http://evil.example\x07click\x1b]8;;\x07",
    "a\rb",
    "x" * 100_000,
    "\u2028# h",
    "# h",
    "1. x",
    "---",
)


def test_an_error_spells_out_what_a_terminal_would_obey() -> None:
    assert (
        str(CdaError("name \x1b[31m\u202e\ud800\x00\n\tsecond"))
        == "name [U+001B][31m[U+202E][U+D800][U+0000]\n\tsecond"
    )
    assert len(str(CdaError("x" * 100_000))) < 5000


def test_every_mistake_of_a_recipe_is_spelled_out() -> None:
    error = RecipeError(["a\x1b[1m", "b\u2066"])
    assert error.problems == ("a[U+001B][1m", "b[U+2066]") and str(error) == "a[U+001B][1m\nb[U+2066]"


def test_what_is_said_is_printed_and_never_obeyed(capsys: pytest.CaptureFixture[str]) -> None:
    """A lone surrogate would also end the command: standard output is strict."""
    for text in HOSTILE:
        say(f"  {text}: done")
        progress.print_line(text)
    printed = capsys.readouterr()
    assert not UNPRINTABLE.search(printed.out + printed.err)
    assert "[U+001B]" in printed.out and "[U+001B]" in printed.err


def test_an_error_of_the_system_is_spelled_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert explain(PermissionError(13, "no", "a\x1b[31m")) == "a[U+001B][31m: cannot be written (no)"
    assert (
        explain(OSError(36, "File name too long", "x" * 5000))
        == f"{'x' * 100}… (4,900 more characters): no file can have so long a name"
    )
    with pytest.raises(SystemExit), user_errors():
        raise DataError("a\x1b[31m")
    assert capsys.readouterr().err == "error: a[U+001B][31m\n"


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize("shown", [inert, visible, lambda text: clipped(inert(text), 40), escaped, lambda text: "\n".join(fenced_block(text))],
                         ids=["inert", "visible", "clipped", "escaped", "fenced"])  # fmt: skip
def test_no_form_of_text_keeps_a_control_character(shown: Callable[[str], str], text: str) -> None:
    assert not UNPRINTABLE.search(shown(text))


@pytest.mark.parametrize("unit", ["\x9d", "\x1b]", "\x1b[1", "\x1bA", "\u0301", "漢"])
def test_long_runs_take_linear_time(unit: str) -> None:
    text = unit * 60_000
    for shown in (text, f"{text}\x1bA"):  # the closing escape once made it a matter of hours
        assert not UNPRINTABLE.search(clipped(inert(shown), 40))


def test_clipping_counts_columns_and_keeps_marks_with_their_letters() -> None:
    assert clipped("e\u0301" * 5, 3) == "e\u0301e\u0301…"
    assert clipped("漢字漢字", 5) == "漢字…" and clipped("漢字", 4) == "漢字"
    assert short_lines("ab\ncd", 1) == "a… (1 more characters)\nc… (1 more characters)"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# h", r"\# h"), ("## h", r"\## h"), ("- x", r"\- x"), ("---", r"\---"), ("===", r"\==="), ("1. x", r"1\. x"), ("+ x", r"\+ x"),
        ("<b>", "&lt;b&gt;"), ("[a](b)", r"\[a\](b)"), ("![a](b)", r"!\[a\](b)"), ("a|b", r"a\|b"), ("`a`", r"\`a\`"), ("&lt;", "&amp;lt;"),
        ("http://x", "http&#58;//x"), ("www.x.org", "www&#46;x.org"), ("(WWW.x", "(WWW&#46;x"), ("_www.x", r"\_www&#46;x"),
        ("-5", "-5"), ("10.5%", "10.5%"), ("a - b", "a - b"), ("awww.", "awww."),
    ],
)  # fmt: skip
def test_markdown_is_text(text: str, expected: str) -> None:
    assert escaped(text) == expected


def test_a_cell_cannot_leave_its_table() -> None:
    table = Table("c" + MARKUP, ("h|h", "second\nline"), ((MARKUP, f"{CONTROLS}|"),))
    lines = markdown_table(table)
    assert len(lines) == 6 and all(len(re.findall(r"(?<!\\)\|", line)) == 3 for line in lines[2:5])
    assert "<script" not in "".join(lines) and "www." not in "".join(lines)
    assert not UNPRINTABLE.search(plain_table(table)) and plain_table(table).count("\n") == 2


CODE = {
    r"\btorch\.load\(": ("models/families/linear.py",), r"\bpickle\b|\bjoblib\b|\bdill\b|\bmarshal\b|\bshelve\b": ("models/causal.py", "models/families/linear.py", "models/agreement.py", "models/refusals.py", "models/adapters.py", "scorers/log_ratio.py", "scorers/own_code.py"),
    r"\byaml\.(?:unsafe_load|full_load|load_all|UnsafeLoader|FullLoader|Loader)\b": (), r"\byaml\.load\(": ("files/yaml_file.py",),
    r"(?<![\w.])eval\(": (), r"(?<![\w.])exec\(": ("scorers/own_code.py",), r"trust_remote_code\s*=\s*True": (),
    r"allow_pickle\s*=\s*True": (), r"shell\s*=\s*True": (), r"os\.(?:system|popen)\(": (), r"weights_only\s*=\s*False": (),
}  # fmt: skip
"""What runs code that came as data, and the files that may name it: to refuse it, or because the user named that very code."""


@pytest.mark.parametrize("pattern", CODE)
def test_nothing_runs_code_that_came_as_data(pattern: str) -> None:
    files = sorted(PACKAGE.rglob("*.py")) + sorted(PACKAGE.parent.joinpath("scripts").glob("*.py"))
    assert len(files) > 100
    found = {
        str(one.relative_to(PACKAGE))
        for one in files
        if one.is_relative_to(PACKAGE) and re.search(pattern, one.read_text("utf-8"))
    }
    assert found <= set(CODE[pattern])


def test_no_code_of_a_model_runs_unless_the_user_says_so() -> None:
    from cda.models.config import ModelSpec
    from cda.recipe.schema import Recipe

    assert ModelSpec("x").trust_remote_code is False
    assert Recipe.model_fields["model"].annotation.model_fields["trust_remote_code"].default is False  # type: ignore[union-attr]


Serve = Callable[[Any], str]
KEY = "sk-canary-5f1d0c9e8b7a-6f5e4d3c2b1a"
QUESTION = "How does a kettle keep water warm?"


class Parrot:
    """A server that repeats the key wherever it says something; every second kind of request fails with it."""

    def __init__(self, status: int = 200) -> None:
        self.status, self.calls = status, 0

    def __call__(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        self.calls += 1
        if self.status != 200:
            return self.status, {"error": {"message": f"key {KEY} may not do this", "code": KEY, "type": KEY}}
        system = body["messages"][0]["content"]
        if system.startswith("You label"):
            # Of escapes no search for the key's bytes would know, once they are read.
            said = f"{KEY} said so"
            text = json.dumps({"reasoning": said, "query": "no", "response": "no", "has_attribute": "no", KEY: 1})
        else:
            text = f"Use a pan to cook it, {KEY}, and start with cold water. Your key is {KEY}."
        status, body = reply(text, KEY)
        return status, body | {"id": KEY}


def run(folder: Path, url: str, *more: str) -> Any:
    responses = folder / "responses.jsonl"
    rows = [{"prompt": f"{QUESTION} {row}", "response": "Use a pan and stir it."} for row in range(2)]
    responses.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    words = [
        "triples",
        str(folder / "out.jsonl"),
        "--bias",
        "jargon",
        "--responses",
        str(responses),
        "llm.model=parrot",
    ]
    words += [f"llm.base_url={url}", f"llm.cache={folder / 'cache.sqlite'}", "llm.retries=1", *more]
    return CliRunner().invoke(app, words)


def nowhere(folder: Path, *outputs: str) -> None:
    """No file below the folder, SQLite's own beside it included, and nothing said holds the key or its larger part."""
    parts = (KEY, KEY[3:], KEY[: len(KEY) // 2 + 8])
    for file in folder.rglob("*"):
        if file.is_file():
            content = file.read_bytes()
            assert not any(part.encode() in content for part in parts), file
    for said in outputs:
        assert not any(part in said for part in parts)


def test_a_key_in_an_answer_is_neither_kept_nor_written(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    server = Parrot()
    done = run(tmp_path, serve(server), "llm.api_key_env=MY_KEY", "synthesize.gate.on=false")
    assert server.calls > 0 and "Traceback" not in done.output
    assert b"***" in (tmp_path / "cache.sqlite").read_bytes() + _beside(tmp_path / "cache.sqlite")  # answers were kept
    nowhere(tmp_path, done.stdout, done.stderr)


def _beside(file: Path) -> bytes:
    return b"".join(one.read_bytes() for one in file.parent.glob(f"{file.name}-*"))


def _answer(text: object, key_env: str, **choice: object) -> object:
    candidates = {"content": [{"top_logprobs": [{"token": text, "logprob": -0.5}]}]}
    one = {"message": {"content": text}, "finish_reason": "stop", "logprobs": candidates} | choice
    return of_data({"model": f"of {KEY}", "choices": [one]}, Endpoint("x", "m", key_env), one_token=True)


def test_only_what_can_be_a_secret_is_taken_out_of_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_KEY", KEY)
    monkeypatch.setenv("A_WORD", "none")
    hidden = Completion("a *** b", logprobs=(("a *** b", -0.5),), model="of ***")
    assert _answer(f"a {KEY} b", "A_KEY") == hidden
    # Local servers are given a word, which answers may hold. A name of a model is shown, and holds no key of anybody.
    assert _answer("none of them", "A_WORD") == Completion(
        "none of them", logprobs=(("none of them", -0.5),), model="of ***"
    )
    assert without_secret("none", "none") == "none"


@pytest.mark.parametrize(
    "finish", [KEY, f"x{KEY}", f"{'because ' * 3}{KEY}", {"why": [KEY]}, "sk-proj-0123456789abcdef"]
)
def test_a_key_in_a_finish_reason_is_not_said(monkeypatch: pytest.MonkeyPatch, finish: object) -> None:
    """Also of a key that the end of a short message would cut, and of another's key."""
    monkeypatch.setenv("A_KEY", KEY)
    found = _answer("yes", "A_KEY", finish_reason=finish)
    assert isinstance(found, Again) and "***" in found.reason
    assert KEY[:10] not in found.reason and "0123456789" not in found.reason


HOSTILE_NAMES = (
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


@pytest.mark.parametrize("name", HOSTILE_NAMES)
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


@pytest.mark.parametrize("name", [*HOSTILE_NAMES, "../x", "jargon\n", "con", "prn"])
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
    for name in HOSTILE_NAMES:
        files = _rewardbench(name)
        assert len(files) == 2
        for path in files:
            assert (tmp_path / path).resolve().is_relative_to(tmp_path.resolve()), path
            assert not any(is_reserved(part) for part in Path(path).parts)


def _rewardbench(name: str) -> dict[str, Any]:
    half = Estimate(value=0.5, low=0.4, high=0.6, n=9, n_prompts=9, unit="share", method="m")
    group = Level(name="all", n=9, n_prompts=9, found={"accuracy": {"model": half}}, test=Missing(reason="one scoring"))
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
        save_plot(plot(name), inside, FigureForm("svg"))
    assert all(file.parent == inside for file in tmp_path.rglob("*") if file.is_file())
    assert len(list(inside.iterdir())) == 3
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "figures").symlink_to(inside)
    with pytest.raises(RunError, match="a link"):
        Document("", "", (), (), figures=(plot("x"),)).write_figures(tmp_path / "linked", "svg")


@pytest.mark.parametrize("name", [*HOSTILE_NAMES, "judge:../../x", "served:http://h/../.."])
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
        ResultsFolder(path, QualityResult.made_by).planned()
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
