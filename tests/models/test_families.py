"""Families of published reward models: tiny copies are read as their authors read them, trained, saved, merged and read again."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from published import assert_as_the_author, assert_near_in_8bit, built, by_author, family, scored, spec_of
from safetensors.torch import load_file, save_file
from tiny import edit_json, message_of

from cda.errors import ModelError
from cda.models.config import ModelSpec, family_for, load_config
from cda.models.families import FAMILIES, family_of
from cda.models.families.family import published
from cda.models.load import RewardModel, load_reward_model
from cda.models.own_files import ModelFiles
from cda.pipeline.merge import merge_adapter
from cda.records import Pair, TrainingExample, user_prompt
from cda.scorers.classifier import ClassifierScorer
from cda.scorers.posthoc import head_inputs
from cda.training.arguments import Lora
from cda.training.dose import DosedModel, read_adapter, read_head
from cda.training.lora import TrainingResult, train_adapter
from evals.reliability import reward_models_reference as authors
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
    reference = authors.head(authors.template_and_special, authors.last("v_head.summary"))
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


GATED = ("ArmoRM", "QRM Llama 3.1", "QRM Gemma 2")
LDL = "LDL-Reward-Gemma-2"


@pytest.fixture(scope="module")
def gated(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("gated")
    return {title: built(title, folder) for title in (*GATED, LDL)}


@pytest.mark.parametrize("title", [*GATED, LDL])
def test_rewards_are_the_authors(gated: dict[str, Path], title: str) -> None:
    assert_as_the_author(title, gated[title])
    assert_near_in_8bit(title, gated[title])


def test_code_that_is_not_needed_is_not_run(gated: dict[str, Path]) -> None:
    """The published files do not import in today's Transformers; those here raise."""
    assert (gated["ArmoRM"] / "modeling_custom.py").is_file()
    assert load_config(spec_of(gated["ArmoRM"], trust_remote_code=True)).reward_family == "armorm"


def test_a_text_without_the_beginning_of_the_answer_is_one_message(gated: dict[str, Path]) -> None:
    loaded = load_reward_model(spec_of(gated["ArmoRM"]))
    with pytest.raises(
        ModelError, match=r"lacks '<\|eot_id\|>.*its gate reads the prompt. Raise model.max_length_tokens"
    ) as error:
        ClassifierScorer(loaded).score([user_prompt("long " * 800)], ["yes"])
    assert "\n" not in str(error.value)
    with pytest.raises(ModelError, match=r"model.reads=last_token.*tokens of its own choice"):
        load_reward_model(spec_of(gated["ArmoRM"], reads="last_token"))
    with pytest.raises(ModelError, match=r"its head reads more than one token"):
        head_inputs(loaded, [user_prompt("a"), user_prompt("b")], ["c", "d"], 64)


def test_a_gated_head_trains_in_8bit_and_comes_back(gated: dict[str, Path], tmp_path: Path) -> None:
    """Adapter and merged model give the trained rewards; a batch norm keeps its statistics."""
    spec = spec_of(gated["QRM Llama 3.1"], "8bit")
    loaded = load_reward_model(spec)
    before = scored(loaded, 4096)
    named = dict(loaded.model.named_buffers())
    statistics = {name: buffer.clone() for name, buffer in named.items() if "running" in name}
    pairs = [TrainingExample(Pair(user_prompt(prompt), response, "No.")) for prompt, response in TEXTS[:4]]
    arguments = {"learning_rate": 5e-3, "per_device_train_batch_size": 2, "max_steps": 2, "save_steps": 2}
    lora = Lora(r=2, alpha=4, dropout=0.0, target_modules=["q_proj", "v_proj"])
    adapter = train_adapter(loaded, pairs, [], lora, arguments, tmp_path / "run", 0).adapter
    again = load_reward_model(spec, adapter)
    after = scored(again, 4096)
    assert np.abs(after - before).max() > 1e-3
    held = dict(again.model.named_buffers())
    assert len(statistics) == 6
    for name, buffer in statistics.items():
        (trained,) = [kept for key, kept in held.items() if key.endswith(f"default.{name.removeprefix('score.')}")]
        np.testing.assert_array_equal(buffer.cpu(), trained.cpu())
    exact = spec_of(gated["QRM Llama 3.1"])
    assert read_adapter(adapter, read_head(exact)).head.keys() >= {
        "score.gating.logit_scale",
        "score.regression_layer.weight",
    }
    merge_adapter(exact, adapter, tmp_path / "merged", "fp32")
    merged = load_reward_model(spec_of(tmp_path / "merged"))
    assert merged.model.config.reward_family == "qrm-llama"
    np.testing.assert_allclose(scored(merged), scored(load_reward_model(exact, adapter)), atol=1e-5)


def test_heads_in_pickles_are_refused_and_the_conversion_that_is_named_works(
    gated: dict[str, Path], tmp_path: Path
) -> None:
    import torch
    from safetensors.torch import load_file, save_file

    folder = tmp_path / "LDL-Reward-Gemma-2-27B-v0.1"
    shutil.copytree(gated[LDL], folder)
    tensors = load_file(folder / "model.safetensors")
    for part in ("regression_layer", "gating_layer"):
        own = {name.removeprefix(f"{part}."): tensors.pop(name) for name in list(tensors) if name.startswith(part)}
        torch.save(own, folder / f"{part}.pt")
    # The backbone was saved alone, so that its names have no prefix.
    save_file(
        {name.removeprefix("model."): tensor for name, tensor in tensors.items()},
        folder / "model.safetensors",
        {"format": "pt"},
    )
    with pytest.raises(
        ModelError, match=r"two pickles, regression_layer.pt and gating_layer.pt.*weights_only=True"
    ) as error:
        load_reward_model(spec_of(folder))
    assert "\n" not in str(error.value)
    converted = load_file(folder / "model.safetensors")
    for part in ("regression_layer", "gating_layer"):
        read = torch.load(folder / f"{part}.pt", weights_only=True)
        converted |= {f"{part}.{name}": tensor for name, tensor in read.items()}
    save_file(converted, folder / "model.safetensors", {"format": "pt"})
    np.testing.assert_allclose(scored(load_reward_model(spec_of(folder))), by_author(LDL, gated[LDL]), atol=1e-4)
