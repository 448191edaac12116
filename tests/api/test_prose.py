"""A text in place of a file, model or bias is said as such in one line, and never repeated as a whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import cda
from cda.files.paths import is_prose, prose_problem

LONG = "I think that the best answer is the longest, because people like to read much.\n" * 30
SHORT = "I think that this answer is long"
ROWS = [{"prompt": "Why?", "response": "So."}]


def score(_: list[Any], responses: list[str]) -> list[float]:
    return [1.0 for _ in responses]


CALLS: list[tuple[str, Callable[[str], object]]] = [
    ("pairs: found text", lambda text: cda.audit_data(text)),
    ("pairs, row 1: found text", lambda text: cda.audit_data([text, SHORT])),  # type: ignore[list-item]
    ("pairs: found text", lambda text: cda.quality(score, text)),
    ("data: found text", lambda text: cda.quality(score, [text, SHORT])),
    ("cda.audit: contrasts: found text", lambda text: cda.audit(score, contrasts=text)),
    ("data: found text", lambda text: cda.label(text, "length")),
    ("cda.label: bias: found text", lambda text: cda.label(ROWS, text)),
    ("cda.audit: biases: found text", lambda text: cda.audit(score, biases=["length", text])),
    ("model: found text", lambda text: cda.audit(text)),
    ("model: found text", lambda text: cda.compare(text, "embedded")),
    ("cda.load: found text", lambda text: cda.load(text)),
    ("cda.train: recipe: found text", lambda text: cda.train(text)),
    ("cda.train: pairs: found text", lambda text: cda.train("jargon", pairs=text)),
    ("votes: found text", lambda text: cda.calibrate(score, text)),
    ("cda.quality: adapter: found text", lambda text: cda.quality("embedded", "embedded", adapter=text)),
    ("cda.audit_data: out: found text", lambda text: cda.audit_data("embedded", out=text)),
]


@pytest.mark.parametrize("text", [LONG, SHORT], ids=["long", "short"])
@pytest.mark.parametrize(("begins", "call"), CALLS, ids=range(len(CALLS)))
def test_a_text_is_no_file(begins: str, call: Callable[[str], object], text: str, elsewhere: Any) -> None:
    with pytest.raises(cda.CdaError) as raised:
        call(text)
    said = str(raised.value)
    assert said.startswith(begins) and "\n" not in said and len(said) <= 90
    assert not (elsewhere / "runs").exists()


@pytest.mark.parametrize("text", ["I like it", "Go to bed early.", "Gut!"])
def test_a_few_words_are_no_hub_id(text: str, elsewhere: Any) -> None:
    calls: list[Callable[[], object]] = [
        lambda: cda.audit_data(text),
        lambda: cda.label(text, "structure"),
        lambda: cda.quality(score, text),
        lambda: cda.best_of(score, text),
        lambda: cda.audit(score, contrasts=text, biases="length"),
        lambda: cda.audit(score, votes=text, biases="length"),
        lambda: cda.train("jargon", pairs=text),
    ]
    for call in calls:
        with pytest.raises(
            cda.CdaError, match=f"{text}: no such file, and no hub id; give a file, a folder or a hub id"
        ):
            call()
    assert not (elsewhere / "runs" / "inputs").exists()


@pytest.mark.parametrize(
    "name",
    [
        "org/model",
        "a b/pairs of last week and more.jsonl",
        "judge:gpt-4o",
        "/very/long/" + "x/" * 300 + "pairs.csv",
        "my data",
    ],
)
def test_names_and_paths_are_no_texts(name: str) -> None:
    assert not is_prose(name) and prose_problem(name, "pairs", "a file") is None


def test_the_line_has_80_characters() -> None:
    said = prose_problem(LONG, "pairs", "a file, hub id or list of dicts")
    assert (
        said == "pairs: found text 'I think that the best…'; give a file, hub id or list of dicts" and len(said) <= 80
    )
