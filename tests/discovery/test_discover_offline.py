"""`cda discover` without an LLM: embedded responses, mined features, rules, scorers of the user's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cda.biases import Bias, load_bias
from cda.cli import app
from cda.files.jsonl import read_json, read_jsonl
from cda.recipe.load import contrasts_beside, load_recipe
from cda.report.names import short_name

SCORERS = '''
import hashlib
import re

OPENER = re.compile(r"\\A(?:Certainly|Sure|Absolutely|Of course|Definitely|Happy to help|Yes)\\b", re.IGNORECASE)


def reward(prompts, responses, liking=3.0, salt=""):
    """Likes an affirmative opener, and little else."""
    noise = [int(hashlib.sha256((text + salt).encode()).hexdigest()[:8], 16) / 2**32 for text in responses]
    return [liking * bool(OPENER.match(text)) + more for text, more in zip(responses, noise)]


def judge(prompts, responses):
    return reward(prompts, responses, -3.0, "judge")


def same(prompts, responses):
    return reward(prompts, responses)
'''
SMALL = ["discover.populations=[16,5,3]", "discover.batches=[10,12]"]


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scorers.py").write_text(SCORERS, encoding="utf-8")
    return tmp_path


def discover(*words: str, judge: str = "judge") -> str:
    done = CliRunner().invoke(
        app, ["discover", "scorers.py:reward", "--out", "found", "--judge", f"scorers.py:{judge}", *words]
    )
    assert done.exit_code == 0, done.output
    return done.output


def result_of(folder: Path) -> dict[str, Any]:
    return {name: value for name, value in read_json(folder / "discover.json").items() if name != "stages"}


def test_a_planted_bias_is_found_and_its_file_can_be_trained_on(workplace: Path) -> None:
    output, folder = discover(*SMALL), workplace / "found"
    found = result_of(folder)
    confirmed = [one for one in found["tested"] if one["confirmed"]]
    assert confirmed and short_name(confirmed[0]["attribute"]) in output
    for one in confirmed:
        bias = load_bias(str(folder / one["file"]))
        assert bias.shows("Certainly! The answer is four.") or bias.shows("Sure, the answer is four.")
        assert one["pooled"]["reward"]["low"] > 1.5 and one["pooled"]["judge"]["high"] < 0.3
        _taught_what_was_validated(folder, bias, folder / one["file"])
    parts = found["material"]["prompts"]
    assert sum(parts.values()) == 85 and min(parts.values()) >= 21
    rows = list(read_jsonl(folder / "pairs.jsonl"))
    assert len({row["rewriter"] for row in rows}) == 3 and all(row["preference"] is not None for row in rows)
    file = folder / confirmed[0]["file"]
    trained = CliRunner().invoke(app, ["train", str(file), "--dry-run"])
    assert trained.exit_code == 0 and f"name: {file.stem}" in trained.stdout, trained.output
    assert discover(*SMALL).count("reused") >= 5 and result_of(folder) == found


def _taught_what_was_validated(folder: Path, bias: Bias, file: Path) -> None:
    """Contrasts lie beside the bias file, on validation prompts alone, and a training on the file takes them."""
    recipe = load_recipe(str(file)).recipe
    beside = contrasts_beside(file)
    assert recipe.data.contrasts == str(beside) and recipe.data.pairs == "embedded"
    assert load_recipe(str(file), ["data.contrasts=null"]).recipe.data.contrasts is None
    rows = list(read_jsonl(beside))
    parts = {row["prompt"][0]["content"]: row["part"] for row in read_jsonl(folder / "material" / "samples.jsonl")}
    assert len(rows) > 20 and {parts[row["prompt"][0]["content"]] for row in rows} == {"validation"}
    assert {row["bias"] for row in rows} == {bias.name}
    assert sum(bias.shows(row["perturbed"]) for row in rows) > 0.9 * len(rows)
    assert not any(bias.shows(row["base"]) for row in rows)
    assert len({(row["perturbed"], row["base"]) for row in rows}) == len(rows)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--attribute", "Mentions the weather"), "needs an LLM"),
        (("--attribute", ""), "one sentence is needed"),
        (("discover.rewriters=[a,b]",), "discover.rewriters: needs an LLM"),
        (("--responses", "none.jsonl"), "none.jsonl: no such file"),
        (("discover.parts=[1,1,1]",), "add up to 1"),
        (("discover.populations=[4,2]",), "go together"),
        (("--adapter", "nowhere"), "--adapter"),
    ],
)  # fmt: skip
def test_mistakes_are_messages(workplace: Path, words: tuple[str, ...], said: str) -> None:
    words = ("scorers.py:reward", "--out", "found", "--judge", "scorers.py:judge", *words)
    done = CliRunner().invoke(app, ["discover", *words])
    assert done.exit_code == 2 and said in done.output and "Traceback" not in done.output, done.output
    assert not (workplace / "found").exists()
