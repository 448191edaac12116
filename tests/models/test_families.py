"""Families of published reward models: tiny copies are read as their authors read them, trained, saved, merged and read again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from published import built, family, scored, spec_of
from safetensors.torch import load_file, save_file
from tiny import edit_json, message_of

from cda.models.config import ModelSpec, family_for
from cda.models.families import FAMILIES, family_of
from cda.models.families.family import published
from cda.models.load import RewardModel, load_reward_model
from cda.models.own_files import ModelFiles
from cda.pipeline.merge import merge_adapter
from cda.records import Pair, TrainingExample, user_prompt
from cda.training.arguments import Lora
from cda.training.dose import DosedModel
from cda.training.lora import TrainingResult, train_adapter
from evals.reliability import reward_models_reference as by_author
from evals.reliability.reward_models import row_of
from evals.reliability.reward_models_families import TEXTS

READ = {
    "FsfairX-LLaMA3-RM": None,
    "GRM rewardmodel-ft": "grm-ft",
    "Tulu-3-8B-RM": "tulu-3",
    "hh_rlhf_rm_open_llama_3b": "hh-open-llama",
    "gpt2-large-helpful": "gpt2-hh",
    "OpenRLHF, score and mean": "openrlhf",
    "Beaver cost": "beaver-cost",
    "Starling-RM-7B-alpha": "starling-7b",
    "Starling-RM-34B": "starling-34b",
    "UltraRM-13b": "ultrarm",
    "Eurus-RM-7b": "eurus",
    "WorldPM-72B": "worldpm",
    "Qwen2.5-Math-RM-72B": "qwen2.5-math-rm",
    "OpenAssistant Pythia": "oasst-pythia",
    "GRM sftreg": "grm-sftreg",
    "AceCodeRM": "acecoder",
}


@pytest.mark.parametrize("title", READ)
def test_rewards_are_the_authors_alone_padded_and_packed(title: str, tmp_path: Path) -> None:
    row = row_of(family(title), tmp_path, in_8bit=False)
    assert (row.status, row.ranks) == ("equal", 1), row
    assert row.family == (READ[title] or "")


def test_every_family_has_its_own_key_and_says_how_its_authors_score() -> None:
    keys = [one.key for one in FAMILIES]
    assert len(set(keys)) == len(keys)
    assert all(one.models and one.official.endswith(".") and one.source for one in FAMILIES)


def test_a_text_known_from_a_card_alone_is_taken_by_the_published_name_or_by_the_key_in_config(tmp_path: Path) -> None:
    claims = published("hh_rlhf_rm_open_llama_3b")
    names = ("weqweasdas/hh_rlhf_rm_open_llama_3b", "/x/models--weqweasdas--hh_rlhf_rm_open_llama_3b/snapshots/0a1b")
    assert all(claims(ModelFiles(name)) for name in (*names, names[0].upper(), f"{names[0]}/"))
    assert not any(
        claims(ModelFiles(name)) for name in ("me/my-hh_rlhf_rm_open_llama_3b", "/x/hh_rlhf_rm_open_llama_3b/y")
    )
    other = built("hh_rlhf_rm_open_llama_3b", tmp_path, "mine")
    assert load_reward_model(spec_of(other)).template.form == "plain text"
    edit_json(other / "config.json", reward_family="hh-open-llama")
    named = load_reward_model(spec_of(other))
    wanted = scored(load_reward_model(spec_of(built("hh_rlhf_rm_open_llama_3b", tmp_path / "own"))))
    assert named.template.text(user_prompt("a"), "b") == "###Human: a ###Assistant: b"
    # Of its config.json, which the tiny copy's weights are drawn from, only the key differs.
    np.testing.assert_array_equal(scored(named), wanted)


def test_another_class_in_a_folder_of_a_published_name_is_not_claimed(tmp_path: Path) -> None:
    folder = built("Skywork-Reward-V2 Qwen 3", tmp_path)
    for name in (
        "hh_rlhf_rm_open_llama_3b",
        "gpt2-large-helpful-reward_model",
        "Starling-RM-34B",
        "Llama-3.1-Tulu-3-8B-RM",
    ):
        assert family_of(str(folder.rename(tmp_path / name))) is None
        folder = tmp_path / name


def test_a_choice_of_a_familys_number_is_refused(tmp_path: Path) -> None:
    folder = built("Beaver cost", tmp_path)
    message = message_of(lambda: load_reward_model(ModelSpec(str(folder), "fp32", 64, head=3)))
    assert "model.head=3: the reward of beaver-7b" in message and message.endswith("Leave model.head out")
    load_reward_model(spec_of(folder))


def test_a_cost_is_taken_with_its_sign_changed_and_that_is_said(tmp_path: Path) -> None:
    folder = built("Beaver cost", tmp_path)
    model = load_reward_model(spec_of(folder))
    costs = np.array([family("Beaver cost").reference(folder, *text) for text in TEXTS])
    np.testing.assert_allclose(scored(model), -costs, atol=1e-5)
    assert model.reading is not None and "the reward is minus the cost" in model.reading.notes[0]


def test_starlings_long_texts_lose_their_beginning_and_keep_the_first_token(tmp_path: Path) -> None:
    folder = built("Starling-RM-7B-alpha", tmp_path)
    whole, cut = (load_reward_model(ModelSpec(str(folder), "fp32", limit)).template for limit in (1024, 24))
    prompt, response = user_prompt("a " * 40), "the end."
    ids, found = whole.encode(prompt, response).ids, cut.encode(prompt, response)
    assert found.truncated and len(found.ids) == 24
    assert found.ids[0] == ids[0] and found.ids[1:] == ids[-23:]


def test_an_empty_system_turn_stands_only_where_a_conversation_has_none(tmp_path: Path) -> None:
    from cda.records import Message

    template = load_reward_model(spec_of(built("WorldPM-72B", tmp_path))).template
    system = "<|im_start|>system\n"
    assert template.text(user_prompt("a"), "b").startswith(f"{system}<|im_end|>\n<|im_start|>user\na")
    said = template.text((Message("system", "Be brief."), Message("user", "a")), "b")
    assert said.startswith(f"{system}Be brief.") and said.count(system) == 1


def test_beaver_with_several_scores_is_not_taken_for_one_with_one(tmp_path: Path) -> None:
    folder = built("Beaver reward", tmp_path)
    edit_json(folder / "config.json", score_dim=2)
    assert family_of(str(folder), None, "two scores") is None
    assert "LlamaForScore" in message_of(lambda: load_reward_model(spec_of(folder)))


def test_starlings_files_hold_the_backbone_twice_and_an_output_layer(tmp_path: Path) -> None:
    """As its class, which keeps the language model beside its backbone, saved them."""
    folder = built("Starling-RM-7B-alpha", tmp_path)
    wanted = scored(load_reward_model(spec_of(folder)))
    weights = load_file(folder / "model.safetensors")
    twice = {
        f"model.model.{name.removeprefix('transformer.')}": -value
        for name, value in weights.items()
        if name.startswith("transformer.")
    }
    lm_head = {"model.lm_head.weight": weights["transformer.embed_tokens.weight"].clone()}
    save_file(weights | twice | lm_head, folder / "model.safetensors", metadata={"format": "pt"})
    np.testing.assert_array_equal(scored(load_reward_model(spec_of(folder))), wanted)


def test_a_linear_value_head_of_grm_is_read(tmp_path: Path) -> None:
    folder = built("GRM sftreg", tmp_path)
    edit_json(folder / "config.json", vhead_layer_type="linear")
    weights = load_file(folder / "model.safetensors")
    kept = {name: value for name, value in weights.items() if not name.startswith("v_head.")}
    head = torch.randn(1, weights["v_head.summary.0.weight"].shape[1])
    kept |= {"v_head.summary.weight": head, "v_head.summary.bias": torch.tensor([0.5])}
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
    reference = by_author.head(by_author.template_and_special, by_author.last("v_head.summary"))
    found = scored(load_reward_model(spec_of(folder)))
    np.testing.assert_allclose(found, [reference(folder, *text) for text in TEXTS], atol=1e-4)


TRAINED = {
    "linear under another name": "UltraRM-13b",
    "MLP": "WorldPM-72B",
    "MLP beside an output layer": "GRM sftreg",
    "normalised by config.json": "OpenRLHF, score and mean",
    "normalised by buffers, minus": "Beaver cost",
}
PAIRS = [
    Pair(user_prompt(f"Question {n}?"), f"A good answer, number {n}, good.", f"A bad answer{' again' * n}.")
    for n in range(4)
]


def train(
    spec: ModelSpec, folder: Path, lora: Lora, arguments: Mapping[str, Any]
) -> tuple[TrainingResult, RewardModel]:
    model = load_reward_model(spec)
    steps = {"max_steps": 2, "save_steps": 1, "per_device_train_batch_size": 2}
    result = train_adapter(model, list(map(TrainingExample, PAIRS)), [], lora, {**arguments, **steps}, folder, 0)
    model.model.eval()
    return result, model


@pytest.mark.parametrize("head", TRAINED)
def test_heads_are_trained_in_8bit_saved_dosed_and_merged(
    head: str, lora: Lora, train_arguments: Mapping[str, Any], tmp_path: Path
) -> None:
    folder = built(TRAINED[head], tmp_path)
    spec, own = spec_of(folder, "8bit"), family_for(spec_of(folder))
    before = scored(load_reward_model(spec))
    result, in_place = train(spec, tmp_path / "run", lora, train_arguments)
    after = scored(in_place)
    assert result.counts.steps == 2 and np.abs(after - before).max() > 0.01 * np.ptp(before)

    adapted = load_reward_model(spec, result.adapter)
    np.testing.assert_array_equal(scored(adapted), after)
    np.testing.assert_allclose(scored(adapted, 4096), after, atol=1e-4)

    dosed = DosedModel(load_reward_model(spec, result.adapter))
    dosed.set(0)
    np.testing.assert_allclose(scored(dosed.reward_model), before, atol=1e-5)

    merge_adapter(spec_of(folder), result.adapter, tmp_path / "merged", "fp32")
    merged, exact = spec_of(tmp_path / "merged"), scored(load_reward_model(spec_of(folder), result.adapter))
    again = family_for(merged)
    assert again is not None and own is not None and again.key == own.key
    np.testing.assert_allclose(scored(load_reward_model(merged)), exact, atol=1e-5)
    assert np.isfinite(scored(load_reward_model(spec_of(tmp_path / "merged", "8bit")))).all()
