"""The exported texts come back through the ordinary loaders as what an audit measures on by itself."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from cda.auditing.groups import make_groups
from cda.biases import load_bias
from cda.cli import app
from cda.data.contrasts import clean_contrasts
from cda.data.load import load_rows
from cda.data.pairs import clean_pairs
from cda.data.sampled import load_sampled
from cda.data.triples import clean_triples
from cda.embedded import model
from cda.embedded.model import embedded_model_folder, encoder_folder, encoder_tokenizer
from cda.embedded.rules import telling_phrases
from cda.embedded.texts import (
    EMBEDDED_BIASES,
    PARTS,
    SECOND_TURNS,
    audit_contrasts,
    authored_contrasts,
    authored_pairs,
    authored_samples,
    authored_triples,
    export,
    questions,
    tables,
)
from cda.errors import RecipeError
from cda.features import n_list_lines, n_words
from cda.models.template import Template
from cda.prompts import ours
from cda.recipe.load import LoadedRecipe, load_model_audit, load_recipe
from cda.records import Contrast, prompt_id
from cda.resources.sources import audit_inputs, sampled_responses
from cda.rewriting.labels import exhibits
from cda.scorers.compared import Rewards, text_id
from cda.scorers.dialects import ServedOptions
from cda.scorers.judge import _filled
from cda.scorers.served_client import ServedClient
from cda.stats.drift import DEFAULT_LIMITS, measured, overlap_of


def test_no_style_and_no_length_of_samples_tells_which_are_right() -> None:
    """Drawn by lot for each prompt: of twelve answers six are right, and each style and length is as often theirs as the others', or once more."""
    rows = authored_samples()
    assert len(rows) == 60
    biases = [load_bias(name) for name in ("structure", "jargon", "sycophancy", "vagueness")]
    for row in rows:
        right = [not flaw for flaw in row.flaws]
        assert len(set(row.responses)) == 12 and sum(right) == 6
        of_size = Counter(
            (is_right, sum(n_words(text) > limit for limit in (42, 80)))
            for text, is_right in zip(row.responses, right, strict=True)
        )
        assert set(of_size.values()) == {2} and len(of_size) == 6, row.item
        for bias in biases:
            shows = [bool(exhibits(text, bias)) for text in row.responses]
            assert sum(shows) == (4 if bias.name == "structure" else 3), (row.item, bias.name)
            assert abs(sum(a and b for a, b in zip(shows, right, strict=True)) - sum(shows) / 2) <= 0.5


@pytest.mark.parametrize(("form", "ending"), [("jsonl", ".jsonl"), ("datasets", "")])
def test_a_round_trip_loses_nothing(form: str, ending: str, tmp_path: Path) -> None:
    out = tmp_path / "texts"
    done = CliRunner().invoke(app, ["texts", str(out), "--format", form])
    assert done.exit_code == 0, done.output
    assert "700 contrasts" in done.output
    for name, expected in (("contrasts", audit_contrasts()), ("lessons", authored_contrasts("lessons"))):
        found = clean_contrasts(load_rows(str(out / f"{name}{ending}")), EMBEDDED_BIASES, {}, name)
        assert found.exclusions.dropped == 0
        assert [one.id for one in found.contrasts] == [one.id for one in expected]
        assert [one.tags["direction"] for one in found.contrasts] == [one.tags["direction"] for one in expected]
    triples = clean_triples(load_rows(str(out / f"triples{ending}")), EMBEDDED_BIASES, {}, "triples")
    assert triples.exclusions.dropped == 0
    assert list(triples.triples) == [one.triple for one in authored_triples()]
    outputs, own = load_sampled(str(out / f"samples{ending}")), sampled_responses("embedded")
    assert [(one.prompt, one.responses, one.quality) for one in outputs.prompts] == [
        (one.prompt, one.responses, one.quality) for one in own.prompts
    ]
    for part in ("quality", "train"):
        pairs = clean_pairs(load_rows(str(out / f"{part}{ending}")))
        assert [one.id for one in pairs.pairs] == [one.pair.id for one in authored_pairs(part)]  # type: ignore[arg-type]
    assert "CC BY 4.0" in (out / "README.md").read_text(encoding="utf-8")
    items = {row["item"] for name in tables() if name != "readings" for row in load_rows(str(out / f"{name}{ending}"))}
    assert {
        "audit-007-vagueness",
        "shown-length-001",
        "quality-012",
        "train-001",
        "narrow-001",
        "audit-001-length-back",
    } <= items
    readings = load_rows(str(out / f"readings{ending}"))
    assert len(readings) == 3477
    items |= {f"{one.item}-{number:02}" for one in authored_samples() for number in range(1, 13)}  # read one by one
    assert {row["id"] for row in readings} <= items
    refused = CliRunner().invoke(app, ["audit", "embedded", "--contrasts", str(out), "--out", str(tmp_path / "run")])
    assert f"{out / 'contrasts'}{ending}" in refused.output.replace("\n", "")


def test_an_edited_row_of_the_export_says_so(tmp_path: Path) -> None:
    """Swapped sides with the old id: votes on the old text are unmatched, and the notice counts the row."""
    export(tmp_path / "texts", "jsonl")
    rows = [dict(row) for row in load_rows(str(tmp_path / "texts" / "contrasts.jsonl")) if row["bias"] == "jargon"][:6]
    rows[0] |= {"base": rows[0]["perturbed"], "perturbed": rows[0]["base"]}
    (tmp_path / "edited.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    votes = "".join(f"{row['id']},base\n" for row in rows)
    (tmp_path / "votes.csv").write_text(f"id,vote\n{votes}", encoding="utf-8")
    (tmp_path / "mine.py").write_text("def score(prompts, responses):\n    return [len(one) for one in responses]\n")
    words = [
        "audit",
        f"{tmp_path / 'mine.py'}:score",
        "--bias",
        "jargon",
        "--contrasts",
        str(tmp_path / "edited.jsonl"),
    ]
    words += ["--votes", str(tmp_path / "votes.csv"), "--quality", "none", "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert "1 of 6 rows carry an id that was made from other text" in " ".join(done.output.split())
    found = json.loads((tmp_path / "out" / "audit" / "audit.json").read_text(encoding="utf-8"))
    assert found["votes_unmatched"] == 1
    assert found["excluded"]["ids of contrasts"]["reasons"] == {"made from other text": 1}


def test_datasets_finds_the_tables_by_name(tmp_path: Path) -> None:
    from datasets import load_dataset

    export(tmp_path / "texts", "jsonl")
    found = load_dataset(str(tmp_path / "texts"), "quality", split="train", cache_dir=str(tmp_path / "cache"))
    assert len(found) == len(authored_pairs("quality"))
    assert {"prompt", "chosen", "rejected", "flaw", "item"} <= set(found.column_names)
    read = load_dataset(str(tmp_path / "texts"), "readings", split="train", cache_dir=str(tmp_path / "cache"))
    assert len(read) == 3477


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine", encoding="utf-8")
    asked = CliRunner().invoke(app, ["texts", str(tmp_path)])
    assert asked.exit_code == 2 and "is not empty; nothing is written over" in asked.output
    asked = CliRunner().invoke(app, ["texts", str(tmp_path / "new"), "--format", "xml"])
    assert asked.exit_code != 0
    assert not (tmp_path / "new").exists()


SECOND = authored_contrasts("second_turn", [*SECOND_TURNS.values()])
CONTRASTS = [(part, bias) for part in ("audit", "shown", "lessons") for bias in EMBEDDED_BIASES]
WITHIN = 0.15


def test_pairs_have_two_different_sides_and_say_what_is_wrong() -> None:
    for part in ("train", "quality"):
        for one in authored_pairs(part):
            assert one.pair.chosen.strip() != one.pair.rejected.strip()
            assert one.flaw.strip()
            assert one.flaw_kind in {"wrong fact", "wrong step", "misses the point", "incomplete"}
            assert set(one.sound_shows) | set(one.flawed_shows) <= set(EMBEDDED_BIASES)


def test_held_out_quality_does_not_reward_length() -> None:
    ratios = [n_words(one.pair.chosen) / n_words(one.pair.rejected) for one in authored_pairs("quality")]
    assert 0.95 <= np.median(ratios) <= 1.05
    assert 0.8 <= min(ratios) <= max(ratios) <= 1.25


def _ratios(part: str, bias: str) -> list[float]:
    return [n_words(one.perturbed) / n_words(one.base) for one in authored_contrasts(part, [bias])]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("part", "bias"), [one for one in CONTRASTS if one[1] != "length" and one != ("lessons", "structure")]
)
def test_sides_of_a_contrast_have_about_the_same_words(part: str, bias: str) -> None:
    assert all(abs(ratio - 1) <= WITHIN for ratio in _ratios(part, bias))


@pytest.mark.parametrize(("part", "bias"), CONTRASTS)
def test_lists_are_of_structure_alone(part: str, bias: str) -> None:
    for one in authored_contrasts(part, [bias]):  # type: ignore[arg-type]
        lines = n_list_lines(one.perturbed), n_list_lines(one.base)
        assert (lines[0] >= 2 and lines[1] == 0) if bias == "structure" else lines[0] == lines[1]


@pytest.mark.parametrize("bias", ["jargon", "sycophancy", "vagueness"])
def test_word_lists_are_not_taken_from_the_audit(bias: str) -> None:
    """Enough audit texts hold no wording that the rules can write, so that unlearning a list shows as such."""
    offline = load_bias(bias).offline
    assert offline is not None
    contrasts = authored_contrasts("audit", [bias])
    pattern = telling_phrases(offline, [one.base for one in contrasts])
    unseen = np.mean([not pattern.search(one.perturbed) for one in contrasts])
    assert unseen >= 0.3
    # Whole sentences that the rules weave in are in no audit text at all.
    sentences = [*offline.open_with, *offline.weave, *offline.close_with]
    assert sentences
    assert not any(sentence in one.perturbed for sentence in sentences for one in contrasts)


def test_no_question_occurs_twice() -> None:
    asked = [question.strip().lower() for part in PARTS for question in questions(part)]  # type: ignore[arg-type]
    assert len(set(asked)) == len(asked)


def test_parts_share_no_text() -> None:
    texts = {
        part: {text for one in authored_pairs(part) for text in (one.pair.chosen, one.pair.rejected)}  # type: ignore[arg-type]
        for part in ("train", "quality")
    } | {
        part: {text for one in authored_contrasts(part) for text in (one.base, one.perturbed)}  # type: ignore[arg-type]
        for part in ("audit", "shown", "lessons")
    }
    texts["second_turn"] = {text for one in SECOND for text in (one.base, one.perturbed)}
    assert len(texts["second_turn"]) == 2 * len(SECOND) == 248
    for one, other in itertools.combinations(texts, 2):
        assert not texts[one] & texts[other]


def test_another_encoder_or_adapter_is_merged_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder, adapter = tmp_path / "encoder", tmp_path / "adapter"
    for folder in (encoder, adapter):
        folder.mkdir()
        (folder / "weights").write_text("one", encoding="utf-8")
    monkeypatch.setenv("CDA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(model, "encoder_folder", lambda: encoder)
    monkeypatch.setattr(model, "ADAPTERS", {"embedded": adapter})
    merged = lambda _, __, folder: (folder / "model.safetensors").write_text("merged", encoding="utf-8")  # noqa: E731
    monkeypatch.setattr(model, "save_merged", merged)
    first = embedded_model_folder()
    assert first == embedded_model_folder() and (first / "model.safetensors").is_file()
    (encoder / "weights").write_text("two", encoding="utf-8")
    second = embedded_model_folder()
    (adapter / "adapter_config.json").write_text("{}", encoding="utf-8")
    assert len({first, second, embedded_model_folder()}) == 3


NUMBER = {"sycophancy-second-turn": 60, "length-second-turn": 32, "vagueness-second-turn": 32}
COMMAS = """def score(prompts, responses):
    return [one.count(",") for one in responses]
"""


def test_each_is_a_conversation_that_ends_with_the_user() -> None:
    assert Counter(contrast.bias for contrast in SECOND) == NUMBER
    kinds = Counter(contrast.tags["kind"] for contrast in SECOND)
    assert kinds == {
        **dict.fromkeys(("plain doubt", "false authority", "emotional", "wrong fact"), 15), "long earlier turns": 64,
    }  # fmt: skip
    for contrast in SECOND:
        assert [message.role for message in contrast.prompt] == ["user", "assistant", "user"]
        assert all(message.content.strip() for message in contrast.prompt)
        if contrast.bias != "sycophancy-second-turn":
            assert min(n_words(message.content) for message in contrast.prompt[:2]) >= 50
            assert n_words(contrast.prompt[2].content) <= 20


@pytest.mark.parametrize("bias", NUMBER)
def test_sides_differ_in_the_bias_and_in_little_else(bias: str) -> None:
    own = [contrast for contrast in SECOND if contrast.bias == bias]
    ratios = [n_words(contrast.perturbed) / n_words(contrast.base) for contrast in own]
    low, high = (1.5, 2.5) if bias == "length-second-turn" else (0.85, 1.15)
    assert low <= min(ratios) <= max(ratios) <= high
    assert not any(n_list_lines(text) for contrast in own for text in (contrast.perturbed, contrast.base))
    sides = (measured([getattr(one, side) for one in own], DEFAULT_LIMITS) for side in ("perturbed", "base"))
    ids = [prompt_id(contrast.prompt) for contrast in own]
    alike, _ = overlap_of(*sides, ids, treatment=load_bias(bias).treatment)
    assert alike.share.value >= 0.9
    assert np.mean([load_bias(bias).measured(one.base, "words") for one in own]) < 70


def in_order(text: str, contrast: Contrast, response: str) -> None:
    """Every turn and the response are in the text, one after the other."""
    at = -1
    for wanted in (*(message.content for message in contrast.prompt), response):
        at = text.find(wanted, at + 1)
        assert at >= 0, wanted


def test_text_pairs_of_the_embedded_model_hold_every_turn_uncut() -> None:
    tokenizer = encoder_tokenizer(encoder_folder())
    template = Template(tokenizer, 512)
    for contrast in SECOND:
        encoded = template.encode(contrast.prompt, contrast.perturbed)
        assert not encoded.truncated
        joined = f"user: {contrast.prompt[0].content} assistant: {contrast.prompt[1].content} user: {contrast.prompt[2].content}"
        assert encoded.ids == tokenizer(joined, contrast.perturbed)["input_ids"]


def test_servers_and_judges_are_given_every_turn() -> None:
    by_messages = ServedClient("http://localhost:1", ServedOptions(form="messages"))
    by_text = ServedClient("http://localhost:1", ServedOptions(form="text"))
    for contrast in SECOND[::31]:
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
    for name, own in (("sycophancy", audit_contrasts(["sycophancy"])), ("sycophancy-second-turn", SECOND[:60])):
        hits = [one.perturbed.count(",") > one.base.count(",") for one in own]
        skew = found["skew"][name]
        assert skew["before"]["n"] == len(own) and skew["before"]["value"] == pytest.approx(np.mean(hits))
        assert skew["target"] and 0 < sum(hits) < len(own)
    page = (tmp_path / "out" / "report" / "report.md").read_text(encoding="utf-8")
    assert "skew of a second turn" in page and "Giving in: a right answer is taken back" in page
    shown = {example["prompt"] for example in found["examples"] if example["bias"] == "sycophancy-second-turn"}
    assert shown and all(prompt.startswith("user: ") and "\nassistant: " in prompt for prompt in shown)


def test_a_second_turn_that_nothing_is_left_of_has_no_row() -> None:
    own = SECOND[60:62]
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
