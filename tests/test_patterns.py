"""A bias file's patterns find what Python's `re` finds, and are stopped over texts that take them too long."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import cda.patterns
from cda.biases import load_bias
from cda.embedded.rules import RuleRewriter
from cda.errors import DataError
from cda.features import measure
from cda.patterns import SlowPatternError, compiled
from cda.records import RewriteRequest, user_prompt

SLOW = r"(?:a|aa)+$"
PATTERNS = (
    r"\w+", r"\W+", r"[\W_]+", r"[^\w\s]", r"\bhi\b", r"\Bi", r"(?i:\A[\W_]*(?:hi|ok)(?!\w))", r"x{e}", r"[]a]+", r"[^]a]+",
    r"(?i:(?<!\w)(?:hi)[\W_]*\Z)", r"{a}", r"a{2}", r"a{,2}", r"a{1,}", r"\s+", r"^\s*-", r"\N{EM DASH}", "(?x) h i # c",
    r"(?i)ß", r"(?s).+", r"[^\W\d_]+(?:['’-][^\W\d_]+)*", r"[\]a]", r"[\b]", r"(?P<x>.)(?P=x)", r"(?:x){2}{e}", r"[\[a]+",
    r"(?>ab|a)b", r"(?<=[a-z)][.!?])(?=[ \t]|$)",
)  # fmt: skip
PIECES = [*"hiokabxe_-.!?'’\n\t {}[]12²½éßS#✅—中", "\u0301", "\ufe0f", "\x1c", "✅\ufe0f", "hi", "ok", "Hi."]


@given(st.sampled_from(PATTERNS), st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
@example(r"(?<!\w)hi(?!\w)", "hi\ufe0f")  # to `regex` the sign belongs to the word
@settings(max_examples=300, deadline=None)
def test_a_pattern_finds_what_re_finds(pattern: str, text: str) -> None:
    expected = [match.span() for match in re.finditer(pattern, text, re.MULTILINE)]
    assert [match.span() for match in compiled(pattern, multiline=True).finditer(text)] == expected


@pytest.mark.parametrize("pattern", ["[[:alpha:]]", "[a--b]", "(", r"\p{L}", "a(?i)b"])
def test_what_re_does_not_know_or_warns_of_is_refused(pattern: str) -> None:
    with pytest.raises(re.error):
        compiled(pattern)


@pytest.fixture
def short_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cda.patterns, "LIMIT_S", 0.05)


@pytest.mark.usefixtures("short_limit")
def test_a_slow_pattern_is_stopped_in_every_way_of_using_it() -> None:
    text, pattern = "a" * 20_000 + "b", compiled(SLOW)
    for use in (pattern.search, pattern.finditer, lambda one: pattern.subn(lambda _: "", one)):
        with pytest.raises(SlowPatternError, match=r"'\(\?:a\|aa\)\+\$' was stopped after 0.05 s .* 20,001 characters"):
            use(text)


BIAS = """
name: slow
description: d
question: q?
instructions: {add: a, remove: r}
keep: [k]
"""


@pytest.mark.usefixtures("short_limit")
def test_the_error_names_the_file_and_the_setting(tmp_path: Path) -> None:
    file = tmp_path / "slow.yaml"
    own = f"measure: {{feature: pattern_count, present_above: 0}}\npattern: '{SLOW}'\n"
    file.write_text(f"{BIAS}{own}offline: {{swaps_add: [{{find: '{SLOW}', put: x}}]}}\n", encoding="utf-8")
    bias, text = load_bias(str(file)), "a" * 20_000 + "b"
    with pytest.raises(DataError) as caught:
        bias.shows(text)
    assert str(caught.value).startswith(f"{file}: pattern: '{SLOW}' was stopped")
    with pytest.raises(DataError) as caught:
        RuleRewriter().rewrite([RewriteRequest(user_prompt("p"), text, "add")], bias)
    assert str(caught.value).startswith(f"{file}: offline: '{SLOW}' was stopped")


@pytest.fixture
def stopped_when_hanging() -> Iterator[None]:
    """A hanging measurement fails, after a hundred times of what it takes."""

    def stop(*_: object) -> None:
        raise AssertionError("hangs")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, 20)
    yield
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    signal.signal(signal.SIGVTALRM, before)


@pytest.mark.usefixtures("stopped_when_hanging")
def test_long_runs_of_one_sign_are_measured() -> None:
    assert measure("?" * 300_000 + "x", "questions") == 0
    assert measure("Why" + "?!" * 150_000, "questions") == 1
    assert measure("a" + " " * 300_000 + "b", "markers_per_100_words", [" so ", "a  b", "c  "]) == 50
