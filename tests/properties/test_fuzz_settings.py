"""Recipes, overrides and bias files, made hostile: a recipe or a bias comes back, or all mistakes as one error of ours."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from mutations import broken, mutated
from test_fuzz_data_files import UNPRINTABLE, ours_or_nothing

from cda.biases import builtin_names, load_bias
from cda.errors import RecipeError
from cda.files.yaml_file import parse_yaml
from cda.models.refusals import folder_problems
from cda.recipe.load import find_recipe, is_recipe, load_model_audit, load_recipe

FUZZ = settings(deadline=None, derandomize=True, max_examples=40)
VALUES = (
    "!!int ''", "!!int 'x'", "!!bool x", "!!timestamp x", "!!float ''", "!!python/name:os.system", "!!binary '%%'", "!!set {a}",
    "!!omap [a: 1]", f"0x{'f' * 50}", f"0x{'f' * 5000}", f"0b{'1' * 90}", "1:60:99", "1e999", ".nan", "-.inf", "2026-01-01",
    '"\\0"', '"\\e[31m"', '"\\uD800"', "*x", "&a [*a]", "<<: 1", "{? [a] : b}", f"'{'x' * 100_000}'", "[" * 200 + "]" * 200,
    "'(a'", "'a{99999999999}'", f"'{'(' * 300}'", '"\\U00110000"', "!foo bar", "~", "'(?P<1>a)'", "../../x", "[]", "{}", "-1",
)  # fmt: skip
OVERRIDES = (
    "seed=1", "llm.model=x", "data.columns.prompt=q", "a", "=", "a=", "=b", "..=1", f"{'a.' * 3000}b=1", "model=nope",
    f"model.x={'[' * 300}", "name=\ud800", "name=../x", 'run.folder="a\\0"', f"seed=0x{'f' * 5000}", "llm.base_url=http://[",
    "objectives=[{kind: paired, target: {jargon: .nan}}]", "synthesize.counterfactuals={x: 1}", "biases={}", "model={}",
    "llm.prices={a: {input: -1, output: 1e999}}", f"biases=[../x, {'a' * 300}]", "data=paper", f"data.preset={'x' * 400}",
    "seed=&a [*a]", "biases=[1, null]", "audit.bias=!!int ''", "run.folder=\x1b[31m",
)  # fmt: skip
RECIPE: dict[str, Any] = {
    "name": "x", "biases": ["structure"], "model": {"name_or_path": "embedded", "precision": "fp32"}, "seed": 1,
    "data": {"pairs": "embedded", "columns": {"prompt": "q"}}, "objectives": [{"kind": "paired", "target": 0.8}, "keep"],
    "llm": {"model": "gpt", "prices": {"gpt": {"input": 1, "output": 2}}, "budget_usd": 3, "base_url": "http://x"},
    "synthesize": {"counterfactuals": {"structure": 3}}, "audit": {"votes": "x.csv"}, "run": {"folder": "runs/x"},
}  # fmt: skip
BIAS: dict[str, Any] = {
    "name": "own", "description": "It shouts.", "question": "Does it shout?", "keep": ["the facts"],
    "instructions": {"add": "Shout.", "remove": "Whisper."}, "pattern": "a+b", "limits": {"words": {"ratio": 2}},
    "measure": {"feature": "pattern_count", "present_above": 1}, "treatment": ["pattern_count"], "aspects": {"loud": "Loud?"},
    "offline": {"swaps_add": [{"find": "(a)b", "put": "\\1c"}], "words": {"a": "b"}, "share": 0.5},
}  # fmt: skip


def hostile_yaml(valid: Any, rng: random.Random) -> bytes:
    """The YAML of a mutated value, with what only YAML can say at one of its lines."""
    value = mutated(valid, rng, rng.randint(0, 2))
    lines = (yaml.safe_dump(value) if rng.random() < 0.7 else json.dumps(value, indent=1)).split("\n")
    place = rng.randrange(len(lines))
    if ":" in lines[place] and rng.random() < 0.6:
        lines[place] = f"{lines[place].partition(':')[0]}: {rng.choice(VALUES)}"
    content = "\n".join(lines).encode()
    return broken(content, rng) if rng.random() < 0.2 else content


def used(path: Path) -> None:
    """A bias file put to use: measured with, and written."""
    bias = load_bias(str(path))
    bias.shows("a text of words", "another")
    bias.respaced("a  b", "a b")
    json.dumps(bias.model_dump(mode="json")).encode()
    bias.model_dump_json()


@FUZZ
@given(seed=st.integers(0, 2**32))
def test_hostile_recipes_are_resolved_or_refused(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    rng = random.Random(seed)
    path = tmp_path_factory.getbasetemp() / "mine.yaml"
    path.write_bytes(hostile_yaml(RECIPE, rng))
    ours_or_nothing(lambda: load_recipe(str(path), rng.sample(OVERRIDES, rng.randint(0, 2))))


@FUZZ
@given(seed=st.integers(0, 2**32))
def test_hostile_bias_files_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    rng = random.Random(seed)
    path = tmp_path_factory.getbasetemp() / "own.yaml"
    path.write_bytes(hostile_yaml(BIAS, rng))
    ours_or_nothing(lambda: used(path))


@pytest.mark.parametrize("override", OVERRIDES, ids=range(len(OVERRIDES)))
def test_hostile_overrides(override: str) -> None:
    ours_or_nothing(lambda: load_model_audit("judge:x", {"biases": ["structure"]}, [override]))


def test_the_valid_files_are_read(tmp_path: Path) -> None:
    """Or the fuzzing above would only ever see the first refusal."""
    (tmp_path / "own.yaml").write_text(yaml.safe_dump(BIAS), "utf-8")
    used(tmp_path / "own.yaml")
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(RECIPE), "utf-8")
    assert load_recipe(str(tmp_path / "mine.yaml")).recipe.llm.budget_usd == 3
    for name in builtin_names():
        assert load_bias(name).name == name


@pytest.mark.parametrize("name", ["x" * 5000, "x\0y", f"{'a/' * 3000}b", f"{'x' * 300}.yaml", "\ud800", "x\x1b[31m"])
def test_names_that_no_file_can_have(name: str) -> None:
    with pytest.raises(RecipeError) as caught:
        find_recipe(name)
    assert not UNPRINTABLE.search(str(caught.value))
    with pytest.raises(RecipeError):
        load_bias(name)
    assert is_recipe(name) == name.endswith(".yaml")
    folder_problems(name)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: !!int ''", "a value cannot be read"),
        (f"a: 0x{'f' * 5000}", "1:4: .*more digits"),
        ('a: "\\0"', r"1:4: .*U\+0000"),
        ('a: "x\\e[31m"', r"1:4: .*U\+001B"),
        ('"\\uD800": 1', r"1:1: .*U\+D800"),
        ("a: &x [*x]", "1:8: .*alias"),
        ("a: *b", "undefined alias"),
        ("a: &x {b: 1}\nc: {<<: *x, b: 2, b: 3}", "key 'b' is given twice"),
    ],
)
def test_yaml_that_once_ended_in_a_traceback(text: str, message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        parse_yaml(text, "x.yaml")


@pytest.mark.parametrize("find", ["a{99999999999}", "(" * 3000 + ")" * 3000, "(a"])
def test_a_pattern_that_is_none_is_a_mistake_in_the_bias_file(tmp_path: Path, find: str) -> None:
    for place in ({"pattern": find}, {"offline": {"swaps_add": [{"find": find, "put": "b"}]}}):
        path = tmp_path / "own.yaml"
        path.write_text(yaml.safe_dump({**BIAS, **place}), "utf-8")
        with pytest.raises(RecipeError, match="not a regular expression"):
            load_bias(str(path))
