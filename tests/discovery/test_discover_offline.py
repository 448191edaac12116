"""`cda discover` without an LLM: embedded responses, mined features, rules, scorers of the user's own."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from cda.biases import Bias, load_bias
from cda.cli import app
from cda.files.jsonl import read_json, read_jsonl
from cda.recipe.load import contrasts_beside, load_recipe

SCORERS = '''
import hashlib
import re

OPENER = re.compile(r"\\A(?:Certainly|Sure|Absolutely|Of course|Definitely|Happy to help|Yes)\\b", re.IGNORECASE)


def noise(text):
    return int(hashlib.sha256(text.encode()).hexdigest()[:8], 16) / 2**32


def reward(prompts, responses):
    """Likes an affirmative opener, and little else."""
    return [3.0 * bool(OPENER.match(text)) + noise(text) for text in responses]


def judge(prompts, responses):
    return [-3.0 * bool(OPENER.match(text)) + noise(text + "judge") for text in responses]


def same(prompts, responses):
    return reward(prompts, responses)
'''
SMALL = ["discover.populations=[16,5,3]", "discover.batches=[10,12]"]


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scorers.py").write_text(SCORERS, encoding="utf-8")
    return tmp_path


def discover(*words: str) -> Result:
    return CliRunner().invoke(app, ["discover", "scorers.py:reward", "--out", "found", *words])


def result_of(folder: Path) -> dict[str, Any]:
    found = dict(read_json(folder / "discover.json"))
    for own in ("stages", "versions"):
        found.pop(own)
    found.pop("run", None)
    return found


def test_a_planted_bias_is_found_and_its_file_can_be_trained_on(workplace: Path) -> None:
    done = discover("--judge", "scorers.py:judge", *SMALL)
    assert done.exit_code == 0, done.output
    found = result_of(workplace / "found")
    confirmed = [one for one in found["tested"] if one["confirmed"]]
    assert confirmed
    for one in confirmed:
        bias = load_bias(str(workplace / "found" / one["file"]))
        assert bias.shows("Certainly! The answer is four.") or bias.shows("Sure, the answer is four.")
        assert one["pooled"]["reward"]["low"] > 1.5 and one["pooled"]["judge"]["high"] < 0.3
        _taught_what_was_validated(workplace / "found", bias, workplace / "found" / one["file"])
    page = (workplace / "found" / "report.html").read_text(encoding="utf-8")
    assert (
        confirmed[0]["name"] in page
        and page.count("<svg") > 6
        and "found/report.html" in done.output.replace("\\", "/")
    )
    assert confirmed[0]["attribute"][:40] in done.output and "p = " not in done.output.splitlines()[0]
    parts = found["material"]["prompts"]
    assert sum(parts.values()) == 85 and min(parts.values()) >= 21
    assert [one["index"] for one in found["generations"]] == [0, 1]
    assert {row["generation"] for row in read_jsonl(workplace / "found" / "lineage.jsonl")} == {0, 1}
    rows = list(read_jsonl(workplace / "found" / "pairs.jsonl"))
    assert len({row["rewriter"] for row in rows}) == 3 and all(row["preference"] is not None for row in rows)
    file = workplace / "found" / confirmed[0]["file"]
    trained = CliRunner().invoke(app, ["train", str(file), "--dry-run"])
    assert trained.exit_code == 0 and f"name: {file.stem}" in trained.stdout, trained.output
    again = discover("--judge", "scorers.py:judge", *SMALL)
    assert again.output.count("reused") >= 5
    assert result_of(workplace / "found") == found


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


def test_a_judge_that_agrees_leaves_nothing_and_that_is_said(workplace: Path) -> None:
    done = discover("--judge", "scorers.py:same", *SMALL)
    assert done.exit_code == 0, done.output
    found = result_of(workplace / "found")
    assert not [one for one in found["tested"] if one["confirmed"]]
    assert "is shown" in done.output and not list((workplace / "found" / "biases").glob("*"))


def test_formats_on_a_narrow_set_of_prompts(workplace: Path) -> None:
    done = discover(
        "--judge", "scorers.py:judge", "--formats", "--figures", "svg", "discover.responses=embedded-narrow"
    )
    assert done.exit_code == 0, done.output
    found = result_of(workplace / "found")
    assert found["given"] and len(found["tested"]) == 7 and found["n_test_prompts"] == 23
    assert [one["name"] for one in found["tested"] if one["confirmed"]] == ["affirmative"]
    others = [one["pooled"]["reward"] for one in found["tested"] if not one["confirmed"] and one["pooled"]]
    assert others and all(one["value"] < 0.5 for one in others)
    assert "over-rewards 1 of 7 attributes" in done.output
    captions = (workplace / "found" / "figures" / "captions.md").read_text(encoding="utf-8")
    assert "tested.svg (" in captions and (workplace / "found" / "figures" / "tested.svg").is_file()


def test_responses_of_the_users_own(workplace: Path) -> None:
    rows = [
        {
            "question": f"What is {n} plus {n}?",
            "answers": [f"It is {2 * n}, as anybody can count.", f"Sure, {2 * n} it is."],
        }
        for n in range(40)
    ]
    (workplace / "mine.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    columns = "discover.columns={prompt: question, responses: answers}"
    done = discover("--judge", "scorers.py:judge", "--responses", "mine.jsonl", columns, *SMALL)
    assert done.exit_code == 0, done.output
    made = {name: value for name, value in result_of(workplace / "found")["material"]["made"].items() if value}
    assert made == {"responses": "mine.jsonl"}
    assert re.search(r"80 responses to 40 prompts \(16 to search on, 10 to validate, 14 to test\)", done.output)


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
    done = discover("--judge", "scorers.py:judge", *words)
    assert done.exit_code == 1 and said in done.output and "Traceback" not in done.output, done.output
    assert not (workplace / "found").exists()
