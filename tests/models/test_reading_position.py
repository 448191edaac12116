"""The reward is that of plain Transformers on one text without padding, however the text is batched."""

from __future__ import annotations

import datetime
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny import edit_json, load, message_of, scores_of
from transformers.modeling_outputs import SequenceClassifierOutput

from cda.errors import ModelError
from cda.models.config import ModelSpec, load_config
from cda.models.load import load_reward_model, load_template
from cda.models.reading import one_output
from cda.records import user_prompt
from cda.scorers.batching import packed, padded
from cda.scorers.classifier import self_check
from cda.scorers.engine import scope_of
from cda.scorers.own import model_in_memory
from cda.training.chunks import chunked_rewards
from cda.training.lora import train_adapter

if TYPE_CHECKING:
    from conftest import ModelMaker, Texts

TURNS = "{{ bos_token }}{% for m in messages %}<|{{ m.role }}|> {{ m.content }} {{ eos_token }}{% endfor %}"
BEYOND = 70
"""The tiny vocabulary has 70 tokens."""
CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "pad is eos": ({"pad_token_id": 2}, {"pad": "</s>", "chat_template": TURNS}),
    "pad is eos in config.json alone": ({"pad_token_id": 2}, {"chat_template": TURNS}),
    "pad is eos for the tokenizer alone": ({"pad_token_id": None}, {"pad": "</s>", "chat_template": TURNS}),
    "pad unset": ({"pad_token_id": None}, {"pad": None, "chat_template": TURNS}),
    "pad of its own": ({"pad_token_id": 3}, {"chat_template": TURNS}),
    "pad of its own for the tokenizer alone": ({"pad_token_id": None}, {"chat_template": TURNS}),
    "left padding": ({"pad_token_id": 3}, {"chat_template": TURNS, "padding_side": "left"}),
    "template ends in pad": ({"pad_token_id": 3}, {"chat_template": TURNS + "<pad>"}),
    "template ends in pad, config has none": ({"pad_token_id": None}, {"chat_template": TURNS + "<pad>"}),
    "no template": ({"pad_token_id": 2}, {"pad": "</s>", "chat_template": None}),
}


def plain(folder: Path, all_ids: list[list[int]]) -> list[float]:
    """Rewards by Transformers alone, one text at a time."""
    import torch
    from transformers import AutoModelForSequenceClassification

    model = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32).eval()
    with torch.inference_mode():
        return [float(model(torch.tensor([ids])).logits[0, 0]) for ids in all_ids]


@pytest.mark.parametrize("case", CASES)
def test_one_reward_alone_padded_packed_and_in_training(llama_maker: ModelMaker, texts: Texts, case: str) -> None:
    import torch

    config, tokenizer = CASES[case]
    folder = llama_maker(f"reads-{case.replace(' ', '-')}", config=config, **tokenizer)
    loaded = load(folder)
    ids = [loaded.template.encode(*text).ids for text in zip(texts.prompts, texts.responses, strict=True)]
    expected = plain(folder, ids)
    np.testing.assert_allclose(scores_of(loaded, texts), expected, atol=1e-5)
    np.testing.assert_allclose(padded(loaded, ids), expected, atol=1e-5)
    # On a CPU the texts of a pack would see each other: one at a time.
    np.testing.assert_allclose([packed(loaded, [row])[0] for row in ids], expected, atol=1e-5)
    width, fill = max(map(len, ids)), loaded.template.pad_token_id
    for side in ("left", "right"):
        empty = [[fill] * (width - len(row)) for row in ids]
        rows = [[*pad, *row] if side == "left" else [*row, *pad] for pad, row in zip(empty, ids, strict=True)]
        none = [[0] * len(pad) for pad in empty]
        mask = [[*m, *[1] * len(r)] if side == "left" else [*[1] * len(r), *m] for m, r in zip(none, ids, strict=True)]
        with torch.inference_mode():
            trained = chunked_rewards(loaded.model, torch.tensor(rows), torch.tensor(mask), 8)
        np.testing.assert_allclose(trained.numpy(), expected, atol=1e-5)
    assert self_check(loaded) == []
    disagree = (config["pad_token_id"] is None) != (tokenizer.get("pad", "<pad>") is None) or "alone" in case
    assert any("the reward is read as config.json says" in note for note in loaded.reading.notes) == disagree  # type: ignore[union-attr]


def test_the_note_says_that_a_text_ends_in_padding(llama_maker: ModelMaker) -> None:
    loaded = load(llama_maker("ends-in-pad", config={"pad_token_id": 2}, pad="</s>", chat_template=TURNS))
    assert loaded.reading is not None
    assert [note for note in loaded.reading.notes if "Texts end in config.json's padding token 2" in note]


@pytest.mark.parametrize("pad", [BEYOND, -1])
def test_padding_beyond_the_embedding_table_pads_nothing(llama_maker: ModelMaker, texts: Texts, pad: int) -> None:
    folder = llama_maker(f"beyond{pad}", config={"pad_token_id": None}, chat_template=TURNS)
    expected = scores_of(load(folder), texts)
    edit_json(folder / "config.json", pad_token_id=pad)
    loaded = load(folder)
    np.testing.assert_array_equal(scores_of(loaded, texts, 4096).argsort(), expected.argsort())
    np.testing.assert_allclose(scores_of(loaded, texts), expected, atol=1e-6)
    assert loaded.reading is not None and "beyond the 70 tokens" in loaded.reading.notes[0]


@pytest.mark.parametrize(("reads", "last"), [("last_token", "<pad>"), ("last_attended", "</s>"), ("config", "</s>")])
def test_another_reading_can_be_asked_for(llama_maker: ModelMaker, texts: Texts, reads: Any, last: str) -> None:
    import torch

    folder = llama_maker(f"asked-{reads}", config={"pad_token_id": 3}, chat_template=TURNS + "<pad>")
    loaded = load_reward_model(ModelSpec(str(folder), "fp32", 64, reads=reads))
    ids = loaded.template.encode(texts.prompts[0], texts.responses[0]).ids
    assert loaded.reading is not None
    position = loaded.reading.position(ids) % len(ids)
    assert loaded.template.tokenizer.convert_ids_to_tokens(ids[position]) == last
    with torch.inference_mode():
        hidden = loaded.model.model(torch.tensor([ids])).last_hidden_state[0, position]
        assert float(loaded.model.score(hidden)) == pytest.approx(padded(loaded, [ids, ids[:9]])[0], abs=1e-5)


def test_a_model_in_memory_is_read_as_its_folder_is_and_left_as_it_was(llama_maker: ModelMaker, texts: Texts) -> None:
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    folder = llama_maker("in-memory", config={"pad_token_id": 2}, pad="<pad>", chat_template=TURNS)
    model = AutoModelForSequenceClassification.from_pretrained(folder)
    kind = type(model)
    with model_in_memory(model, AutoTokenizer.from_pretrained(folder), "mine", 64) as scorer:
        found = scorer.score(texts.prompts, texts.responses)
    np.testing.assert_allclose(found, scores_of(load(folder), texts), atol=1e-5)
    assert type(model) is kind and model.config.pad_token_id == 2 and not hasattr(model, "reading")


def test_a_class_that_reads_the_last_column_gets_its_texts_one_by_one_and_is_not_trained(
    bert: Path, texts: Texts, lora: Any, tmp_path: Path
) -> None:
    import torch
    from transformers import AutoTokenizer, XLNetConfig, XLNetForSequenceClassification

    tokenizer, folder = AutoTokenizer.from_pretrained(bert), tmp_path / "xlnet"
    sizes = {"vocab_size": len(tokenizer), "d_model": 64, "n_layer": 2, "n_head": 4, "d_inner": 128}
    torch.manual_seed(0)
    XLNetForSequenceClassification(
        XLNetConfig(**sizes, num_labels=1, pad_token_id=0, initializer_range=0.2)
    ).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    loaded = load(folder)
    ids = [loaded.template.encode(*text).ids for text in zip(texts.prompts, texts.responses, strict=True)]
    np.testing.assert_allclose(scores_of(loaded, texts, 4096), plain(folder, ids), atol=1e-5)
    assert self_check(loaded) == []
    assert "is padded, as batches in training are" in message_of(
        lambda: train_adapter(loaded, [], [], lora, {}, tmp_path, 0)
    )


DATED = (
    "{{ bos_token }}{{ strftime_now('%d %B %Y') }} {% for m in messages %}<|{{ m.role }}|> {{ m.content }} {% endfor %}"
)


def test_todays_date_is_one_day_for_all_days(llama_maker: ModelMaker, words: Callable[..., str]) -> None:
    folder = llama_maker("dated", chat_template=DATED)
    loaded = load(folder)
    assert "26 July 2024" in loaded.template.text(user_prompt(words(2)), words(3))
    assert loaded.template.notes() == [
        "The chat template writes today's date; it gets 2024-07-26 on every day (model.template_date)."
    ]
    other = load_reward_model(ModelSpec(str(folder), "fp32", 64, template_date=datetime.date(2026, 1, 2)))
    assert "02 January 2026" in other.template.text(user_prompt(words(2)), words(3))
    assert scope_of(other) != scope_of(loaded) == scope_of(load(folder))


@pytest.mark.parametrize("drawn", ["{{ [1, 2] | random }}", "{{ lipsum(1) }}"])
def test_a_template_that_draws_at_random_is_refused(llama_maker: ModelMaker, drawn: str) -> None:
    folder = llama_maker(f"random{len(drawn)}", chat_template=TURNS + drawn)
    message = message_of(lambda: load_template(ModelSpec(str(folder), "fp32")))
    assert message.startswith(f"{folder}: its chat template draws at random") and "\n" not in message


@pytest.mark.parametrize("reads", ["config", "last_token", "last_attended"])
def test_a_class_that_nobody_knows_is_read_where_the_user_says_also_once_it_is_merged(
    llama_maker: ModelMaker, texts: Texts, tmp_path: Path, reads: Any
) -> None:
    from safetensors.torch import load_file, save_file

    folder = llama_maker(f"unknown-{reads}", config={"pad_token_id": 3}, chat_template=TURNS + "<pad>")
    expected = scores_of(load_reward_model(ModelSpec(str(folder), "fp32", 64, reads=reads)), texts)
    weights = load_file(folder / "model.safetensors")
    weights["value_head.weight"] = weights.pop("score.weight")
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    edit_json(folder / "config.json", architectures=["NobodysRewardModel"])
    message = message_of(lambda: load(folder))
    assert "names the class NobodysRewardModel, which Transformers does not have" in message and "\n" not in message
    assert "a head of one output (value_head.weight)" in message and "model.reads=last_attended" in message
    found = load_reward_model(ModelSpec(str(folder), "fp32", 64, reads=reads))
    np.testing.assert_allclose(scores_of(found, texts), expected, atol=1e-5)
    found.model.save_pretrained(tmp_path, save_original_format=False)
    found.template.tokenizer.save_pretrained(tmp_path)
    np.testing.assert_allclose(scores_of(load(tmp_path), texts), expected, atol=1e-5)


REWARDS = torch.tensor([0.5, -1.0, 2.0])
ATTRIBUTES = torch.arange(6.0).reshape(3, 2)


@pytest.mark.parametrize("shape", [(3,), (3, 1), (3, 1, 1)])
@pytest.mark.parametrize(
    "given",
    [
        lambda rewards: SequenceClassifierOutput(logits=rewards),
        lambda rewards: SimpleNamespace(score=rewards, logits=ATTRIBUTES),
        lambda rewards: SimpleNamespace(score=rewards, rewards=ATTRIBUTES),
        lambda rewards: SimpleNamespace(rewards=rewards),
        lambda rewards: SimpleNamespace(end_scores=rewards, scores=None),
        lambda rewards: (rewards, ATTRIBUTES),
        lambda rewards: (None, rewards),
        lambda rewards: rewards,
    ],
)
def test_a_reward_is_found_under_any_name_and_in_any_shape(given: Any, shape: tuple[int, ...]) -> None:
    assert torch.equal(one_output(given(REWARDS.reshape(shape)), ""), REWARDS[:, None])


def test_of_several_numbers_the_setting_names_one() -> None:
    output = SequenceClassifierOutput(logits=ATTRIBUTES)
    assert torch.equal(one_output(output, 1), ATTRIBUTES[:, 1:])
    assert torch.equal(one_output(SimpleNamespace(rewards=ATTRIBUTES, gain=REWARDS), "gain"), REWARDS[:, None])
    assert torch.equal(one_output({"gain": REWARDS}, "gain"), REWARDS[:, None])
    assert torch.equal(one_output({"rewards": REWARDS}, ""), REWARDS[:, None])
    assert torch.equal(one_output(SimpleNamespace(score=REWARDS, logits=ATTRIBUTES), 1), ATTRIBUTES[:, 1:])
    for named, which, why in (
        (output, "", "2 numbers a text"),
        (output, 2, "and no number 2"),
        (SimpleNamespace(rewards=REWARDS), 2, "and no number 2"),
        (SequenceClassifierOutput(logits=ATTRIBUTES[..., None]), 0, "2 numbers a text$"),  # one a token
        (SimpleNamespace(hidden=REWARDS), "", "holds no rewards .looked for score, scores"),
        (output, "gain", "holds no rewards"),
    ):
        with pytest.raises(ValueError, match=why):
            one_output(named, which)


@pytest.mark.parametrize("kind", ["llama", "bert"])
def test_one_of_several_labels_is_read_by_index_and_by_name(
    llama_maker: ModelMaker, encoder_maker: ModelMaker, texts: Texts, kind: str
) -> None:
    labels = {"id2label": {0: "length", 1: "quality"}, "label2id": {"length": 0, "quality": 1}, "num_labels": 2}
    folder = llama_maker("two labels", config=labels) if kind == "llama" else encoder_maker("Bert", **labels)
    with pytest.raises(ModelError, match=r"has 2 labels .*0: length, 1: quality.*model.head=0, or its name"):
        load_config(ModelSpec(str(folder), "fp32", 64))
    with pytest.raises(ModelError, match="and none called depth"):
        load_config(ModelSpec(str(folder), "fp32", 64, head="depth"))
    found = {
        head: scores_of(load_reward_model(ModelSpec(str(folder), "fp32", 64, head=head)), texts)
        for head in (0, 1, "1", "quality")
    }
    for head in ("1", "quality"):
        np.testing.assert_array_equal(found[head], found[1])
    assert np.abs(found[0] - found[1]).max() > 1e-3
    in_one_batch = load_reward_model(ModelSpec(str(folder), "fp32", 64, head="quality"))
    np.testing.assert_allclose(scores_of(in_one_batch, texts, 1024), found[1], atol=1e-4)
    eight = scores_of(load_reward_model(ModelSpec(str(folder), "8bit", 64, head="quality")), texts, 1024)
    assert np.corrcoef(eight, found[1])[0, 1] > 0.9


def test_a_choice_where_there_is_none_is_refused(llama: Path) -> None:
    for head in (3, "quality"):
        with pytest.raises(ModelError, match=rf"model.head={head}: it gives one number, .* Leave model.head out"):
            load_config(ModelSpec(str(llama), "fp32", 64, head=head))
    for named in (None, 0, "0", "LABEL_0"):
        load_config(ModelSpec(str(llama), "fp32", 64, head=named))


def test_a_classifier_of_tokens_is_read_where_the_settings_say(llama: Path, texts: Texts, tmp_path: Path) -> None:
    from transformers import AutoModelForTokenClassification

    folder = Path(shutil.copytree(llama, tmp_path / "tokens"))
    model = AutoModelForTokenClassification.from_pretrained(llama, num_labels=1).eval()
    torch.nn.init.normal_(model.score.weight)
    torch.nn.init.constant_(model.score.bias, 0.7)
    model.save_pretrained(folder)
    with pytest.raises(
        ModelError, match=r"LlamaForTokenClassification, which gives no reward of a whole text; .*model.reads="
    ):
        load_config(ModelSpec(str(folder), "fp32", 64))
    loaded = load_reward_model(ModelSpec(str(folder), "fp32", 64, reads="last_token"))
    ids = [loaded.template.encode(*text).ids for text in zip(texts.prompts, texts.responses, strict=True)]
    with torch.inference_mode():
        wanted = [float(model(torch.tensor([row])).logits[0, -1, 0]) for row in ids]
    for size in (1, 1024):
        np.testing.assert_allclose(scores_of(loaded, texts, size), wanted, atol=1e-4)


def test_a_head_of_another_name_than_its_class_gives_it_is_read_where_the_settings_say(
    llama: Path, texts: Texts, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(llama, tmp_path / "renamed"))
    tensors = load_file(folder / "model.safetensors")
    tensors["v_head.weight"] = tensors.pop("score.weight")
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"whose own head is not in the weights; .*v_head.weight.*model.reads="):
        load_config(ModelSpec(str(folder), "fp32", 64))
    loaded = load_reward_model(ModelSpec(str(folder), "fp32", 64, reads="config"))  # the remedy
    np.testing.assert_allclose(
        scores_of(loaded, texts), scores_of(load_reward_model(ModelSpec(str(llama), "fp32", 64)), texts), atol=1e-6
    )


@pytest.mark.parametrize(("kind", "head"), [("llama", "score"), ("bert", "classifier")])
def test_a_config_that_names_no_label_has_as_many_as_the_head(
    llama_maker: ModelMaker, encoder_maker: ModelMaker, texts: Texts, kind: str, head: str
) -> None:
    """Transformers says two."""
    folder = llama_maker("no labels") if kind == "llama" else encoder_maker("Bert")
    named = scores_of(load_reward_model(ModelSpec(str(folder), "fp32", 64)), texts)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    for key in ("num_labels", "id2label", "label2id"):
        config.pop(key, None)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    assert load_file(folder / "model.safetensors")[f"{head}.weight"].shape[0] == 1
    np.testing.assert_array_equal(scores_of(load_reward_model(ModelSpec(str(folder), "fp32", 64)), texts), named)
