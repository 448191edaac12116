"""Optional fields of a bias file: the query's class, aspects, limits of the gate; a file without them still works."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from cda.biases import Bias, builtin_names, load_bias
from cda.errors import RecipeError

OWN: dict[str, Any] = {
    "name": "own",
    "description": "Anything.",
    "question": "Is it so?",
    "instructions": {"add": "Make it so.", "remove": "Make it not so."},
    "keep": ["every fact"],
}


def load(folder: Path, **changes: Any) -> Bias:
    path = folder / "own.yaml"
    path.write_text(yaml.safe_dump(OWN | changes), encoding="utf-8")
    return load_bias(str(path))


def test_a_file_without_them_works(tmp_path: Path) -> None:
    bias = load(tmp_path)
    assert (bias.query_question, bias.aspects, bias.limits) == (None, {}, {})
    assert bias.shows("text") is None


def test_they_are_read(tmp_path: Path) -> None:
    bias = load(
        tmp_path,
        query_question="Does the user ask for it?",
        aspects={"specific": "Is it specific?"},
        limits={"words": {"ratio": 1.5, "difference": 10}, "headers": None},
    )
    assert bias.query_question == "Does the user ask for it?" and list(bias.aspects) == ["specific"]
    words = bias.limits["words"]
    assert words is not None and (words.ratio, words.difference) == (1.5, 10)
    assert bias.limits["headers"] is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"limits": {"wrds": {"ratio": 2}}}, "unknown feature. Did you mean 'words'?"),
        ({"limits": {"words": {"ratio": 0.5}}}, "limits.words.ratio: input should be greater than or equal to 1"),
        ({"limits": {"words": {}}}, "limits.words: give ratio, difference, or both"),
        ({"limits": {"words": {"share": 2}}}, "limits.words.share: unknown key"),
        ({"aspects": {"Not A Name": "Is it?"}}, "string should match pattern"),
        ({"aspects": {"specific": ""}}, "aspects.specific: string should have at least 1 character"),
        ({"query_question": ""}, "query_question: string should have at least 1 character"),
        ({"query_qestion": "x"}, "query_qestion: unknown key. Did you mean 'query_question'?"),
    ],
)
def test_each_mistake_is_named(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(RecipeError) as caught:
        load(tmp_path, **change)
    assert len(caught.value.problems) == 1
    assert message in str(caught.value)


def test_the_shipped_files_ask_what_they_need() -> None:
    asked = {name for name in builtin_names() if load_bias(name).query_question is not None}
    assert asked == {"jargon", "structure", "vagueness-paper"}
    assert {name: list(load_bias(name).aspects) for name in builtin_names() if load_bias(name).aspects} == {
        "vagueness": ["specific"],
        "vagueness-paper": ["specific"],
    }
