"""The reward in the outputs of models: its names and shapes, and the one of several labels that is meant."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny import scores_of
from transformers.modeling_outputs import SequenceClassifierOutput

from cda.errors import ModelError
from cda.models.config import ModelSpec, load_config
from cda.models.load import load_reward_model
from cda.models.reading import one_output

if TYPE_CHECKING:
    from conftest import ModelMaker, Texts

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
