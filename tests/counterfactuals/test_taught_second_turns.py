"""Training on embedded conversations: labelled by their authors, split, counted, taught as written, and never audited."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cda.cli import app
from cda.counterfactuals.pairs import second_turn_examples
from cda.data.load import load_rows
from cda.data.pairs import clean_pairs
from cda.embedded.texts import SECOND_TURNS, authored_contrasts, export, second_turn_names
from cda.errors import RecipeError
from cda.features import n_words
from cda.recipe.load import load_recipe
from cda.recipe.schema import ObjectiveSection
from cda.records import LabelledPair, Pair, prompt_text

TAUGHT = authored_contrasts("second_turn_train", [*SECOND_TURNS.values()])
SYCOPHANCY = [contrast for contrast in TAUGHT if contrast.bias == "sycophancy-second-turn"]


def synthesize(folder: Path, *words: str) -> str:
    done = CliRunner().invoke(app, ["synthesize", *words, f"run.folder={folder}"])
    assert done.exit_code == 0, done.output
    return done.output


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def counts(folder: Path, stage: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / stage / "stage.json").read_text(encoding="utf-8"))["counts"]
    return found


def test_the_conversations_are_further_ones_and_matched() -> None:
    assert Counter(contrast.bias for contrast in TAUGHT) == {
        "sycophancy-second-turn": 20, "length-second-turn": 5, "vagueness-second-turn": 5,
    }  # fmt: skip
    kinds = Counter(contrast.tags["kind"] for contrast in SYCOPHANCY)
    assert set(kinds) == {"plain doubt", "false authority", "emotional", "wrong fact"} and set(kinds.values()) == {5}
    audited = authored_contrasts("second_turn", [*SECOND_TURNS.values()])
    assert not {message for one in TAUGHT for message in one.prompt} & {m for one in audited for m in one.prompt}
    for contrast in TAUGHT:
        assert [message.role for message in contrast.prompt] == ["user", "assistant", "user"]
        low, high = (1.9, 2.4) if contrast.bias.startswith("length") else (0.85, 1.15)
        assert low <= n_words(contrast.perturbed) / n_words(contrast.base) <= high


def test_exported_pairs_come_back_as_pairs(tmp_path: Path) -> None:
    export(tmp_path / "texts", "jsonl")
    found = clean_pairs(load_rows(str(tmp_path / "texts" / "second_turns_train.jsonl")))
    assert list(found.pairs) == [Pair(one.prompt, one.base, one.perturbed) for one in TAUGHT]


def test_taught_as_written_next_to_the_same_counterfactuals(tmp_path: Path) -> None:
    words = ("sycophancy", "data.max_pairs=30")
    synthesize(tmp_path / "no", *words)
    printed = synthesize(tmp_path / "yes", *words, "data.second_turn=yes")
    assert (
        "sycophancy, 20 conversations (data.second_turn): in both sides 0, only chosen 0, only rejected 20" in printed
    )
    assert "20 conversations, taught as they were written" in printed
    without, mix = (rows_of(tmp_path / name / "synthesize" / "train.jsonl") for name in ("no", "yes"))
    turns = [row for row in mix if row["kind"] == "second_turn"]
    assert [row for row in mix if row["kind"] != "second_turn"] == without
    assert Counter(row["split"] for row in turns) == {"train": 18, "validation": 2}
    assert {row["bias"] for row in turns} == {"sycophancy"}
    sides = {
        (row["prompt"][-1]["content"], row["chosen"][0]["content"], row["rejected"][0]["content"]) for row in turns
    }
    assert sides == {(one.prompt[-1].content, one.base, one.perturbed) for one in SYCOPHANCY}
    labelled = rows_of(tmp_path / "yes" / "label" / "second_turn.jsonl")
    assert all(row["labels"] == {"sycophancy": {"chosen": False, "rejected": True}} for row in labelled)
    found = counts(tmp_path / "yes", "label")["second_turn"]
    assert found["in_pairs"] == 0 and found["labels"]["sycophancy"]["by"] == "their authors"
    assert counts(tmp_path / "yes", "synthesize")["kinds"]["second_turn"] == 20
    assert "second_turn" not in counts(tmp_path / "no", "label")
    assert not (tmp_path / "no" / "label" / "second_turn.jsonl").exists()


def test_audited_conversations_are_not_taught_and_own_ones_are_pairs_like_others(tmp_path: Path) -> None:
    asked = [{"role": "user", "content": "Is 7 prime?"}, {"role": "assistant", "content": "Yes, it is."}]
    own = [
        {"prompt": [*asked, {"role": "user", "content": f"Sure? Try {n}."}] if n < 2 else f"What is {n} plus 1?",
         "chosen": f"The answer {n} stays as it was, because nothing else fits here.",
         "rejected": f"It could be {n}, as far as one can say without a look at the numbers."}
        for n in range(6)
    ]  # fmt: skip
    audited = [
        {"prompt": [{"role": m.role, "content": m.content} for m in one.prompt], "base": one.base, "perturbed": one.perturbed,
         "bias": "sycophancy"}
        for one in SYCOPHANCY[:3]
    ]  # fmt: skip
    for name, rows in (("own", own), ("audited", audited)):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    words = [f"data.pairs={tmp_path / 'own.jsonl'}", f"audit.contrasts={tmp_path / 'audited.jsonl'}"]
    words = (*words, "objectives=[pairs]", "synthesize.anchors=0", "data.second_turn=yes", "data.validation_share=0")
    printed = synthesize(tmp_path / "run", "sycophancy", *words)
    assert "2 of the 6 pairs continue a conversation; they are labelled and rewritten like the others" in printed
    assert "conversations: 3 of 20 dropped (3 prompt is in the audit)" in printed
    mix = rows_of(tmp_path / "run" / "synthesize" / "train.jsonl")
    assert Counter((row["kind"], len(row["prompt"])) for row in mix) == {
        ("second_turn", 3): 17, ("counterfactual", 3): 2, ("counterfactual", 1): 4,
    }  # fmt: skip
    assert counts(tmp_path / "run", "label")["second_turn"]["in_pairs"] == 2
    assert counts(tmp_path / "run", "synthesize")["in_audit"]["second_turn"]["seen"] == 20


def test_the_biases_that_have_conversations() -> None:
    assert second_turn_names(["jargon", "structure"]) == {}
    assert second_turn_names(["jargon", "length"]) == {"length": "length-second-turn"}
    assert second_turn_names(["sycophancy-second-turn", "sycophancy"]) == {
        "sycophancy-second-turn": "sycophancy-second-turn"
    }


def test_one_example_of_each_under_the_first_objective_that_prefers() -> None:
    one = SYCOPHANCY[0]
    row = LabelledPair(
        Pair(one.prompt, one.base, one.perturbed), "train", {"sycophancy": {"chosen": False, "rejected": True}}
    )
    keep, paired, pairs = (
        ObjectiveSection(kind="keep"), ObjectiveSection(kind="paired", target=0.8), ObjectiveSection(kind="pairs"),
    )  # fmt: skip
    (made,) = second_turn_examples([row], [keep, paired, pairs])
    assert (made.kind, made.bias, made.example.target, made.pair) == ("second_turn", "sycophancy", 0.8, row.pair)
    assert prompt_text(made.pair.prompt).startswith("user: ")
    assert not list(second_turn_examples([row], [ObjectiveSection(kind="neutral")]))


@pytest.mark.parametrize(("name", "words", "message"), [
    ("jargon", ["data.second_turn=yes"], "no conversations of jargon; there are some of sycophancy, length, vagueness"),
    ("length", ["data.second_turn=yes", "objectives=[neutral, keep]"], r"objectives \(neutral, keep\) do not; add pairs or paired"),
    ("length", ["data.second_turn=auto"], "data.second_turn: input should be 'yes' or 'no', found 'auto'"),
    ("length", ["synthesize.counterfactuals=0"], "so nothing debiases"),
])  # fmt: skip
def test_settings_that_teach_no_conversation(name: str, words: list[str], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        load_recipe(name, words)


def test_conversations_alone_are_enough_to_teach(tmp_path: Path) -> None:
    words = (
        "data.max_pairs=5",
        "synthesize.counterfactuals=0",
        "synthesize.supplementary=0",
        "synthesize.anchors=0",
        "data.second_turn=yes",
    )
    assert "training mix: 18 pairs, and 2 for validation" in synthesize(tmp_path, "sycophancy", *words)
