"""Foreign text is inert wherever it comes out: errors, terminal, Markdown, HTML, files named after data, keys; no code runs."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from mutations import CONTROLS, FORMULA, MARKUP
from test_fuzz_data_files import UNPRINTABLE

import cda
from cda.errors import CdaError, DataError, RecipeError
from cda.inert import clipped, inert, short_lines, visible
from cda.launch import say
from cda.llm import asking as progress
from cda.report.tables import Table, escaped, fenced_block, markdown_table, plain_table
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
    r"\btorch\.load\(": ("models/families/gated.py",), r"\bpickle\b|\bjoblib\b|\bdill\b|\bmarshal\b|\bshelve\b": ("models/causal.py", "models/families/gated.py", "models/agreement.py", "models/refusals.py", "models/adapters.py", "scorers/log_ratio.py", "scorers/own_code.py"),
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
