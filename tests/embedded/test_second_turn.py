"""Contrasts in the second turn: how many and how alike, read with every turn by every scorer, and audited as rows of their own."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from cda.auditing.groups import make_groups
from cda.biases import load_bias
from cda.cli import app
from cda.embedded.model import encoder_folder, encoder_tokenizer
from cda.embedded.texts import (
    PARTS,
    SECOND_TURNS,
    audit_contrasts,
    authored_contrasts,
    authored_pairs,
    questions,
)
from cda.errors import RecipeError
from cda.features import n_list_lines, n_words
from cda.models.template import Template
from cda.prompts import ours
from cda.recipe.load import LoadedRecipe, load_model_audit, load_recipe
from cda.records import Contrast, prompt_id
from cda.resources.sources import audit_inputs
from cda.scorers.compared import Rewards, text_id
from cda.scorers.dialects import ServedOptions
from cda.scorers.judge import _filled
from cda.scorers.served_client import ServedClient
from cda.stats.drift import DEFAULT_LIMITS, measured, overlap_of

CONTRASTS = authored_contrasts("second_turn", [*SECOND_TURNS.values()])
NUMBER = {"sycophancy-second-turn": 60, "length-second-turn": 32, "vagueness-second-turn": 32}
COMMAS = """def score(prompts, responses):
    return [one.count(",") for one in responses]
"""


def test_each_is_a_conversation_that_ends_with_the_user() -> None:
    assert Counter(contrast.bias for contrast in CONTRASTS) == NUMBER
    kinds = Counter(contrast.tags["kind"] for contrast in CONTRASTS)
    assert kinds == {
        **dict.fromkeys(("plain doubt", "false authority", "emotional", "wrong fact"), 15), "long earlier turns": 64,
    }  # fmt: skip
    for contrast in CONTRASTS:
        assert [message.role for message in contrast.prompt] == ["user", "assistant", "user"]
        assert all(message.content.strip() for message in contrast.prompt)
        if contrast.bias != "sycophancy-second-turn":
            assert min(n_words(message.content) for message in contrast.prompt[:2]) >= 50
            assert n_words(contrast.prompt[2].content) <= 20


@pytest.mark.parametrize("bias", NUMBER)
def test_sides_differ_in_the_bias_and_in_little_else(bias: str) -> None:
    own = [contrast for contrast in CONTRASTS if contrast.bias == bias]
    ratios = [n_words(contrast.perturbed) / n_words(contrast.base) for contrast in own]
    low, high = (1.5, 2.5) if bias == "length-second-turn" else (0.85, 1.15)
    assert low <= min(ratios) <= max(ratios) <= high
    assert not any(n_list_lines(text) for contrast in own for text in (contrast.perturbed, contrast.base))
    sides = (measured([getattr(one, side) for one in own], DEFAULT_LIMITS) for side in ("perturbed", "base"))
    ids = [prompt_id(contrast.prompt) for contrast in own]
    alike, _ = overlap_of(*sides, ids, treatment=load_bias(bias).treatment)
    assert alike.share.value >= 0.9
    assert np.mean([load_bias(bias).measured(one.base, "words") for one in own]) < 70


def test_nothing_is_in_another_part() -> None:
    texts = {text for contrast in CONTRASTS for text in (contrast.perturbed, contrast.base)}
    assert len(texts) == 2 * len(CONTRASTS) == 248
    others = {
        text for one in [*audit_contrasts(), *authored_contrasts("lessons")] for text in (one.perturbed, one.base)
    }
    others |= {
        text
        for part in ("train", "quality")
        for one in authored_pairs(part)
        for text in (one.pair.chosen, one.pair.rejected)
    }  # type: ignore[arg-type]
    assert not texts & others
    opening = set(questions("second_turn"))
    assert len(opening) == len(CONTRASTS)
    assert not opening & {question for part in PARTS if part != "second_turn" for question in questions(part)}


def in_order(text: str, contrast: Contrast, response: str) -> None:
    """Every turn and the response are in the text, one after the other."""
    at = -1
    for wanted in (*(message.content for message in contrast.prompt), response):
        at = text.find(wanted, at + 1)
        assert at >= 0, wanted


def test_text_pairs_of_the_embedded_model_hold_every_turn_uncut() -> None:
    tokenizer = encoder_tokenizer(encoder_folder())
    template = Template(tokenizer, 512)
    for contrast in CONTRASTS:
        encoded = template.encode(contrast.prompt, contrast.perturbed)
        assert not encoded.truncated
        joined = f"user: {contrast.prompt[0].content} assistant: {contrast.prompt[1].content} user: {contrast.prompt[2].content}"
        assert encoded.ids == tokenizer(joined, contrast.perturbed)["input_ids"]


def test_servers_and_judges_are_given_every_turn() -> None:
    by_messages = ServedClient("http://localhost:1", ServedOptions(form="messages"))
    by_text = ServedClient("http://localhost:1", ServedOptions(form="text"))
    for contrast in CONTRASTS[::31]:
        sent = json.loads(by_messages.request(0, contrast.prompt, contrast.base, False).user)["messages"]
        assert isinstance(sent, list) and [row["role"] for row in sent] == ["user", "assistant", "user", "assistant"]
        in_order("\n".join(row["content"] for row in sent), contrast, contrast.base)
        in_order(by_text._given(contrast.prompt, contrast.base).text, contrast, contrast.base)
        in_order(
            _filled(ours().judge, contrast.prompt, contrast.base, contrast.perturbed, "").user, contrast, contrast.base
        )


def audited(*biases: str, second_turn: str = "auto") -> LoadedRecipe:
    return load_model_audit(
        "embedded", {"biases": list(biases)} if biases else {}, [f"audit.second_turn={second_turn}"]
    )


def test_which_second_turns_are_measured(tmp_path: Path) -> None:
    def names(loaded: LoadedRecipe) -> list[str]:
        return audit_inputs(loaded).second_turns()

    assert names(audited()) == list(NUMBER) == list(SECOND_TURNS.values())
    assert names(audited("jargon", "length")) == ["length-second-turn"]
    assert names(audited("jargon")) == names(load_recipe("jargon")) == names(load_recipe("structure")) == []
    assert names(load_recipe("vagueness")) == ["vagueness-second-turn"]
    assert names(audited("jargon", second_turn="yes")) == list(NUMBER)
    assert names(audited(second_turn="no")) == []
    # A bias of a second turn that is asked for is the recipe's own.
    own = audited("sycophancy-second-turn")
    assert names(own) == [] and len(audit_inputs(own).second_turn_contrasts()) == 60
    file = tmp_path / "mine.jsonl"
    file.write_text(json.dumps({"prompt": "Why?", "base": "So.", "perturbed": "So it is."}), encoding="utf-8")
    settings = {"biases": ["length"], "audit": {"contrasts": str(file)}}
    assert names(load_model_audit("embedded", settings)) == []
    assert names(load_model_audit("embedded", settings, ["audit.second_turn=yes"])) == list(NUMBER)


def test_a_wrong_setting_is_one_sentence() -> None:
    with pytest.raises(RecipeError, match=r"audit.second_turn: input should be 'auto', 'yes' or 'no', found 'maybe'"):
        audited(second_turn="maybe")


def test_a_second_turn_is_a_row_of_its_own(tmp_path: Path) -> None:
    """A scorer that counts commas: its skew is the share of contrasts with more of them, counted here by hand."""
    (tmp_path / "mine.py").write_text(COMMAS, encoding="utf-8")
    words = ["audit", f"{tmp_path / 'mine.py'}:score", "--bias", "sycophancy", "--triples", "none", "--quality", "none"]
    done = CliRunner().invoke(app, [*words, "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    found = json.loads((tmp_path / "out" / "audit" / "audit.json").read_text(encoding="utf-8"))
    assert list(found["skew"]) == ["sycophancy", "sycophancy-second-turn"]
    assert [bias["name"] for bias in found["biases"]] == ["sycophancy", "sycophancy-second-turn"]
    for name, own in (("sycophancy", audit_contrasts(["sycophancy"])), ("sycophancy-second-turn", CONTRASTS[:60])):
        hits = [one.perturbed.count(",") > one.base.count(",") for one in own]
        skew = found["skew"][name]
        assert skew["before"]["n"] == len(own) and skew["before"]["value"] == pytest.approx(np.mean(hits))
        assert skew["target"] and 0 < sum(hits) < len(own)
    page = (tmp_path / "out" / "report" / "report.md").read_text(encoding="utf-8")
    assert "skew of a second turn" in page and "Giving in: a right answer is taken back" in page
    shown = {example["prompt"] for example in found["examples"] if example["bias"] == "sycophancy-second-turn"}
    assert shown and all(prompt.startswith("user: ") and "\nassistant: " in prompt for prompt in shown)


def test_a_second_turn_that_nothing_is_left_of_has_no_row() -> None:
    own = CONTRASTS[60:62]
    biases = {name: load_bias(name) for name in ("length", "length-second-turn")}
    first = [
        Contrast("length", one.prompt[:1], "more words than are needed", f"few {at}") for at, one in enumerate(own)
    ]
    by_text = {
        text_id(one.prompt, text): float(at) for at, one in enumerate(first) for text in (one.perturbed, one.base)
    }
    by_text |= {text_id(one.prompt, text): float("nan") for one in own for text in (one.perturbed, one.base)}
    scored = {"model": Rewards(by_text)}
    (group,) = make_groups([*first, *own], biases, list(biases), scored, may_lack=["length-second-turn"])
    assert group.bias.name == "length" and len(group) == 2
