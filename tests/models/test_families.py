"""Families of published reward models: tiny copies are read as their authors read them, trained, saved, merged and read again."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from published import LENGTHY, assert_as_the_author, assert_near_in_8bit, built, by_author, family, scored, spec_of
from reward_servers import OpenRLHF
from safetensors.torch import load_file, save_file
from serving import Served
from tiny import edit_json, message_of
from transformers import AutoConfig, AutoModelForCausalLM

from cda.arrays import FloatArray
from cda.errors import ModelError
from cda.models.config import ModelSpec, family_for, load_config
from cda.models.families import FAMILIES, family_of
from cda.models.families.family import published
from cda.models.load import RewardModel, load_reward_model, load_template
from cda.models.own_files import ModelFiles
from cda.models.template import Template
from cda.models.weights import head_names
from cda.pipeline.merge import merge_adapter
from cda.records import Message, Pair, Prompt, TrainingExample, user_prompt
from cda.scorers.classifier import ClassifierScorer, in_order, preferred, self_check
from cda.scorers.dialects import ServedOptions
from cda.scorers.own import OwnPairwise, OwnPointwise, own_scorer
from cda.scorers.posthoc import head_inputs
from cda.scorers.rendering import Rendering
from cda.scorers.served_client import ServedClient, ServedScorer
from cda.training.arguments import Lora
from cda.training.dose import DosedModel, read_adapter, read_head
from cda.training.lora import TrainingResult, train_adapter
from evals.reliability import reward_models_reference as authors
from evals.reliability.own_models_tiny import build
from evals.reliability.reward_models import COMPARISONS, row_of
from evals.reliability.reward_models_families import TEXTS
from evals.reliability.reward_models_tokenizers import PAIR_CONTEXT

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


TITLES = ("PairRM", "pair-preference-model")
TALK: Prompt = (
    Message("system", "Be brief."),
    Message("user", "Name a colour."),
    Message("assistant", "Red."),
    Message("user", "Another one."),
)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("comparing")
    return {title: built(title, folder) for title in (*TITLES, "SteamSHP")}


def loaded(folder: Path, precision: str = "fp32", **options: Any) -> RewardModel:
    return load_reward_model(spec_of(folder, precision, **options), compares=True)


def log_odds(model: RewardModel, batch_tokens: int) -> FloatArray:
    """Of the first response, in both orders, shape (n, 2)."""
    texts = [in_order(user_prompt(p), *shown) for p, a, b in COMPARISONS for shown in ((a, b), (b, a))]
    return ClassifierScorer(model, batch_tokens).score(*zip(*texts, strict=True)).reshape(-1, 2)


def preferences(model: RewardModel, batch_tokens: int) -> FloatArray:
    encoding = model.template.layout.encoding
    assert encoding is not None and encoding.compares is not None
    return preferred(log_odds(model, batch_tokens), encoding.compares)[0]


def template_of(folder: Path, limit: int = LENGTHY) -> Template:
    spec = ModelSpec(str(folder), "fp32", limit)
    return load_template(spec, load_config(spec, compares=True))


@pytest.mark.parametrize("title", TITLES)
def test_preferences_are_the_authors(folders: dict[str, Path], title: str) -> None:
    """Alone, in a padded batch, and nearly so in 8-bit."""
    own, model = family(title), loaded(folders[title])
    wanted = np.array([own.as_preference(own.reference(folders[title], *row)) for row in COMPARISONS])
    assert np.ptp(wanted) > 0.01 and len({*np.sign(wanted)}) == 2
    np.testing.assert_allclose(preferences(model, 1), wanted, atol=1e-5)
    np.testing.assert_allclose(preferences(model, 4096), wanted, atol=1e-5)
    in_8bit = preferences(loaded(folders[title], "8bit"), 4096)
    assert np.abs(in_8bit - wanted).max() < 0.15 * np.ptp(wanted)
    assert self_check(model, [in_order(user_prompt(prompt), "No.", answer) for prompt, answer in TEXTS]) == []


def test_steamshp_gives_the_probability_of_its_authors(folders: dict[str, Path]) -> None:
    """A reward of a single response. In 8-bit its logarithm is near: the tiny copy's probabilities span four orders of magnitude."""
    assert_as_the_author("SteamSHP", folders["SteamSHP"])
    wanted = np.log(by_author("SteamSHP", folders["SteamSHP"]))
    found = np.log(scored(load_reward_model(spec_of(folders["SteamSHP"], "8bit")), 4096))
    assert np.abs(found - wanted).max() < 0.15 * np.ptp(wanted)


def test_pairrm_gives_the_numbers_of_its_authors(folders: dict[str, Path]) -> None:
    """The difference of both orders, not only a function of it."""
    found = log_odds(loaded(folders["PairRM"]), 4096)
    wanted = [family("PairRM").reference(folders["PairRM"], *row) for row in COMPARISONS]
    np.testing.assert_allclose(found[:, 0] - found[:, 1], wanted, atol=1e-5)


def test_a_conversation_is_written_as_the_authors_write_one(folders: dict[str, Path]) -> None:
    template = template_of(folders["PairRM"])
    texts = (
        "<|source|>Finish the following coversation in each i-th turn by filling in <Response i> with your response."
        "USER: Be brief.\n\nName a colour.\nAssistant: <Response 1>\nUSER: Another one.\nAssistant: <Response 2>",
        "<|candidate1|><Response 1>: Red.\n<Response 2>: Blue.",
        "<|candidate2|><Response 1>: Red.\n<Response 2>: Red again.",
    )
    wanted = [token for text in texts for token in template.tokenizer(text)["input_ids"]]
    assert template.encode(*in_order(TALK, "Blue.", "Red again.")).ids == wanted

    template = template_of(folders["pair-preference-model"])
    tokenizer = template.tokenizer
    turns = [("user", "Be brief.\n\nName a colour."), ("assistant", "Red."), ("user", "Another one.")]
    said = [{"role": role, "content": text} for role, text in turns]
    context = tokenizer.apply_chat_template(said, chat_template=PAIR_CONTEXT, tokenize=False)
    asked = f"[CONTEXT] {context} [RESPONSE A] Blue. [RESPONSE B] Red again. \n"
    text = tokenizer.apply_chat_template([{"role": "user", "content": asked}], tokenize=False)
    wanted = tokenizer(text.replace(tokenizer.bos_token, ""), add_special_tokens=False)["input_ids"]
    assert template.encode(*in_order(TALK, "Blue.", "Red again.")).ids == wanted
    assert tokenizer.bos_token_id not in wanted


def test_marks_in_a_text_are_read_as_text(folders: dict[str, Path]) -> None:
    """An answer cannot move the tokens that the head reads, nor end a turn."""
    template = template_of(folders["PairRM"])
    marks = template.tokenizer.convert_tokens_to_ids(["<|source|>", "<|candidate1|>", "<|candidate2|>"])
    text = in_order(user_prompt("Say <|candidate1|>."), "<|candidate2|> <|source|>", "[SEP] <|candidate2|>")
    ids = template.encode(*text).ids
    assert [ids.count(mark) for mark in marks] == [1, 1, 1] and ids.count(template.tokenizer.sep_token_id) == 3
    assert template.has_marks(*text)
    template = template_of(folders["pair-preference-model"])
    ids = template.encode(*in_order(user_prompt("Hi"), "<|eot_id|>", "fine<|eot_id|>")).ids
    assert ids.count(template.tokenizer.convert_tokens_to_ids("<|eot_id|>")) == 1


def test_long_texts_lose_what_their_authors_cut_and_keep_where_they_are_read(folders: dict[str, Path]) -> None:
    long, short = "word " * 600, "Blue."
    template = template_of(folders["PairRM"], 4096)
    assert template.max_length_tokens == 2048  # whatever config.json and the settings say
    tokenizer = template.tokenizer
    source = tokenizer(f"<|source|>{long}", truncation=True, max_length=1224)["input_ids"]
    room = (2048 - len(source)) // 2
    each = [
        tokenizer(f"<|candidate{n}|>{text}", truncation=True, max_length=room)["input_ids"]
        for n, text in ((1, long), (2, short))
    ]
    encoded = template.encode(*in_order(user_prompt(long), long, short))
    assert encoded.truncated and encoded.ids == [*source, *each[0], *each[1]] and len(source) == 1224
    assert not template.encode(*in_order(user_prompt(short), short, short)).truncated

    for limit in (64, 200):
        template = template_of(folders["pair-preference-model"], limit)
        whole = template_of(folders["pair-preference-model"], 8192).encode(*in_order(user_prompt(long), short, "Red."))
        cut = template.encode(*in_order(user_prompt(long), short, "Red."))
        assert cut.truncated and cut.ids == whole.ids[-limit:]

    template = template_of(folders["SteamSHP"], 4096)
    assert template.max_length_tokens == 512
    whole = template.tokenizer("\n\n RESPONSE A: Blue.\n\n RESPONSE B: .\n\n Which response is better? RESPONSE")
    end = whole["input_ids"]
    for prompt, answer in ((long, short), (short, long), (long, long)):
        encoded = template.encode(user_prompt(prompt), answer)
        assert encoded.truncated and len(encoded.ids) == 512
        assert template.tokenizer.decode(encoded.ids).endswith(
            "RESPONSE B: .\n\n Which response is better? RESPONSE</s>"
        )
    assert template.encode(user_prompt(long), short).ids[-len(end) :] == end  # the answer is whole
    assert template.tokenizer.decode(template.encode(user_prompt(short), long).ids).count("word") > 50


def test_a_limit_below_the_marks_is_refused(folders: dict[str, Path]) -> None:
    model = load_reward_model(ModelSpec(str(folders["PairRM"]), "fp32", 8), compares=True)
    with pytest.raises(ModelError, match=r"lacks one of those that mark source and candidates.*Raise model.max_length"):
        log_odds(model, 1)


@pytest.mark.parametrize("title", TITLES)
def test_where_one_answer_needs_a_reward_it_is_refused_with_a_way(folders: dict[str, Path], title: str) -> None:
    spec = spec_of(folders[title])
    for refused in (load_config, load_reward_model):
        with pytest.raises(ModelError, match=r"compares two answers.*no reward of a single one.*`cda audit ") as error:
            refused(spec)
        assert "\n" not in str(error.value)
    assert head_names(load_config(spec, compares=True), spec) == ("score",)


def test_another_name_is_another_model_unless_config_json_says_so(folders: dict[str, Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(folders["pair-preference-model"], tmp_path / "mine"))
    with pytest.raises(ModelError, match=r'is a LlamaForCausalLM.*"reward_family": "pair-preference-model"'):
        loaded(folder)
    edit_json(folder / "config.json", reward_family="pair_preference_model")
    with pytest.raises(ModelError, match=r"config\.json has reward_family .* Did you mean 'pair-preference-model'\?"):
        loaded(folder)
    edit_json(folder / "config.json", reward_family="pair-preference-model")
    wanted = log_odds(loaded(folders["pair-preference-model"]), 1)
    np.testing.assert_array_equal(log_odds(loaded(folder), 1), wanted)


def test_missing_parts_are_named(folders: dict[str, Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(folders["pair-preference-model"], tmp_path / "pair-preference-model-LLaMA3-8B"))
    weights = load_file(folder / "model.safetensors")
    kept = {name: tensor for name, tensor in weights.items() if "lm_head" not in name and "embed_tokens" not in name}
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"hold no output layer \(lm_head\)"):
        loaded(folder)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    for file in folder.glob("tokenizer*"):
        file.unlink()
    with pytest.raises(ModelError, match="its tokenizer") as error:
        loaded(folder)
    assert "\n" not in str(error.value)


DECLARED = ("InternLM2-reward", "Nemotron-70B-Reward", "Qwen2.5-Math-PRM")
OWN_CODE = ("URM", "Custom code with `score`", "Custom code for AutoModel")
REFUSED = {
    "POLAR-1_8B": ("POLAR", r"scores a response against a reference answer"),
    "Better-PairRM": ("PairRM", r"is Better-PairRM, whose texts are written and cut otherwise"),
    "flan-t5-xl": ("SteamSHP", r"is a T5ForConditionalGeneration, .* without a reward head among its weights"),
}
"""Name of a folder to the model that is built there, and words of the reason."""
OWN_TOKENIZER = """
from transformers import PreTrainedTokenizerFast

class InternLM2Tokenizer(PreTrainedTokenizerFast):
    pass
"""


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("other")
    made = {title: built(title, folder / str(n)) for n, title in enumerate((*DECLARED, *OWN_CODE, "SteamSHP"))}
    return made | {name: built(title, folder, name) for name, (title, _) in REFUSED.items()}


@pytest.mark.parametrize("title", DECLARED)
def test_rewards_of_declared_models_are_the_authors(others: dict[str, Path], title: str) -> None:
    assert_as_the_author(title, others[title])
    assert_near_in_8bit(title, others[title])


@pytest.mark.parametrize("title", OWN_CODE)
def test_code_of_its_own_gives_the_authors_reward_once_it_is_allowed(others: dict[str, Path], title: str) -> None:
    with pytest.raises(ModelError, match=r"needs custom code.*model.trust_remote_code=true"):
        load_reward_model(spec_of(others[title]))
    assert_as_the_author(title, others[title], trust_remote_code=True)
    assert_near_in_8bit(title, others[title], trust_remote_code=True)
    notes = self_check(load_reward_model(spec_of(others[title], trust_remote_code=True)))
    assert not any("beginning-of-sequence" in note for note in notes)  # two are URM's own way
    in_bf16 = scored(load_reward_model(spec_of(others[title], "bf16", trust_remote_code=True)), 4096)
    assert np.abs(in_bf16 - by_author(title, others[title])).max() < 0.1


def test_tokenizer_code_alone_has_to_be_allowed_for_internlm2(others: dict[str, Path], tmp_path: Path) -> None:
    """The class of the model is not run: its file, here as on the hub of another version, raises."""
    folder = tmp_path / "internlm2-1_8b-reward"
    shutil.copytree(others["InternLM2-reward"], folder)
    (folder / "tokenization_internlm2.py").write_text(OWN_TOKENIZER, encoding="utf-8")
    auto_map = {"AutoTokenizer": [None, "tokenization_internlm2.InternLM2Tokenizer"]}
    edit_json(folder / "tokenizer_config.json", auto_map=auto_map, tokenizer_class="InternLM2Tokenizer")
    with pytest.raises(ModelError, match=r"its tokenizer: needs custom code.*model.trust_remote_code=true") as error:
        load_reward_model(spec_of(folder))
    assert "\n" not in str(error.value)
    allowed = load_reward_model(spec_of(folder, trust_remote_code=True))
    np.testing.assert_allclose(scored(allowed), by_author("InternLM2-reward", folder), atol=1e-4)


def test_the_last_step_is_read_where_the_setting_says_so(others: dict[str, Path]) -> None:
    folder = others["Qwen2.5-Math-PRM"]
    product, last = (load_reward_model(spec_of(folder, reads=reads)) for reads in (None, "last_token"))
    (steps,) = [text for text in TEXTS if "\n\n" in text[1]]
    prompts = [user_prompt(steps[0])]
    assert scored(product)[0] == pytest.approx(scored(last)[0])  # of one step
    of_all, of_last = (ClassifierScorer(loaded, 1).score(prompts, [steps[1]])[0] for loaded in (product, last))
    assert 0 < of_all < of_last < 1
    with pytest.raises(ModelError, match=r"model.reads=config.*the last step alone \(last_token\)"):
        load_reward_model(spec_of(folder, reads="config"))
    with pytest.raises(ModelError, match=r"holds no end of a step .<extra_0>.: its first step is cut"):
        ClassifierScorer(product, 1).score(prompts, ["word " * 1200])


def test_a_language_model_gives_the_logit_of_the_token_that_the_setting_names(
    others: dict[str, Path], tmp_path: Path
) -> None:
    """A published name is known; any other name needs the setting, also for a merged model no longer."""
    folder = tmp_path / "mine"
    shutil.copytree(others["Nemotron-70B-Reward"], folder)
    with pytest.raises(ModelError, match=r"is a LlamaForCausalLM.*model.head=TOKEN"):
        load_reward_model(spec_of(folder))
    wanted = by_author("Nemotron-70B-Reward", folder)
    loaded = load_reward_model(spec_of(folder, head=0))
    np.testing.assert_allclose(scored(loaded), wanted, atol=1e-4)
    token = loaded.template.tokenizer.convert_ids_to_tokens(0)
    np.testing.assert_allclose(scored(load_reward_model(spec_of(folder, head=token))), wanted, atol=1e-4)
    other = scored(load_reward_model(spec_of(folder, head="7")))
    beside = Path(shutil.copytree(folder, folder.parent / "beside"))  # a value head is no output token
    tensors = load_file(beside / "model.safetensors")
    tensors["score.weight"] = tensors["lm_head.weight"][7:8].clone()
    save_file(tensors, beside / "model.safetensors", metadata={"format": "pt"})
    np.testing.assert_array_equal(scored(load_reward_model(spec_of(beside, head=0))), scored(loaded))
    assert np.abs(other - wanted).max() > 0.1
    for head, why in (
        ("no such token", "its tokenizer has no such token"),
        (10**6, r"the model has [\d,]+ output tokens; name one of them"),
    ):
        with pytest.raises(ModelError, match=why):
            load_config(spec_of(folder, head=head))


@pytest.mark.parametrize("kind", ["gpt2", "gpt_neox", "bloom"])
def test_the_output_layer_is_found_under_other_names_and_as_the_embedding_table(kind: str, tmp_path: Path) -> None:
    build(kind, tmp_path)
    config = AutoConfig.from_pretrained(tmp_path)
    model = AutoModelForCausalLM.from_config(config).eval()
    model.save_pretrained(tmp_path)
    loaded = load_reward_model(spec_of(tmp_path, head=5))
    texts = [(user_prompt("Why?"), "So it is."), (user_prompt("How much is it?"), "Two.")]
    with torch.inference_mode():
        logits = [model(torch.tensor([loaded.template.encode(*text).ids])).logits[0, -1, 5].item() for text in texts]
    found = ClassifierScorer(loaded, 2).score(*map(list, zip(*texts, strict=True)))
    np.testing.assert_allclose(found, logits, atol=1e-5)


@pytest.mark.parametrize("title", ["InternLM2-reward", "Nemotron-70B-Reward", "SteamSHP"])
def test_a_merged_model_is_read_as_its_family(others: dict[str, Path], tmp_path: Path, title: str) -> None:
    spec = spec_of(others[title])
    pairs = [TrainingExample(Pair(user_prompt(prompt), response, "No.")) for prompt, response in TEXTS[:2]]
    arguments = {"learning_rate": 5e-3, "per_device_train_batch_size": 2, "max_steps": 1, "save_steps": 1}
    lora = Lora(r=2, alpha=4, dropout=0.0, target_modules=["q" if title == "SteamSHP" else "q_proj"])
    adapter = train_adapter(load_reward_model(spec), pairs, [], lora, arguments, tmp_path / "run", 0).adapter
    base = json.loads((adapter / "adapter_config.json").read_text(encoding="utf-8"))["base_model_name_or_path"]
    assert base == str(others[title])
    merge_adapter(spec, adapter, tmp_path / "merged", "fp32")
    trained = scored(load_reward_model(spec, adapter))
    assert np.abs(trained - by_author(title, others[title])).max() > 1e-3
    np.testing.assert_allclose(scored(load_reward_model(spec_of(tmp_path / "merged"))), trained, atol=1e-5)


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_reward_of_a_text_is_refused_with_the_reason(others: dict[str, Path], name: str) -> None:
    for allowed in (False, True):
        with pytest.raises(ModelError, match=REFUSED[name][1]) as error:
            load_config(spec_of(others[name], trust_remote_code=allowed), compares=True)
        assert "\n" not in str(error.value)
        assert "file.py:function" in str(error.value)


COMPARING = """
from pathlib import Path
from evals.reliability.reward_models_reference import pair_rm

def prefer(prompts, first, second):
    folder = Path(__file__).parent / "Better-PairRM"
    found = [pair_rm(folder, prompt[-1]["content"], *both) for prompt, *both in zip(prompts, first, second)]
    return [max(-1.0, min(1.0, value)) for value in found]
"""
WITH_REFERENCES = """
from pathlib import Path
from evals.reliability.reward_models_reference import polar

def reward(prompts, responses):
    folder = Path(__file__).parent / "POLAR-1_8B"
    return [polar(folder, prompt[-1]["content"], response) for prompt, response in zip(prompts, responses)]
"""


def test_the_ways_out_work(others: dict[str, Path], tmp_path: Path) -> None:
    shutil.copytree(others["Better-PairRM"], tmp_path / "Better-PairRM")
    shutil.copytree(others["POLAR-1_8B"], tmp_path / "POLAR-1_8B")
    (tmp_path / "compared.py").write_text(COMPARING, encoding="utf-8")
    (tmp_path / "referenced.py").write_text(WITH_REFERENCES, encoding="utf-8")
    (prompt, first), (_, second) = TEXTS[:2]
    judge = own_scorer(f"{tmp_path}/compared.py:prefer")
    assert isinstance(judge, OwnPairwise)
    wanted = family("PairRM").reference(tmp_path / "Better-PairRM", prompt, first, second)
    assert judge.margin([user_prompt(prompt)], [first], [second])[0] == pytest.approx(max(-1, min(1, wanted)))
    scorer = own_scorer(f"{tmp_path}/referenced.py:reward")
    assert isinstance(scorer, OwnPointwise)
    found = scorer.score([user_prompt(prompt)], [first])[0]
    assert found == pytest.approx(family("POLAR").reference(tmp_path / "POLAR-1_8B", prompt, first))
    plain = shutil.copytree(others["flan-t5-xl"], tmp_path / "mine")
    edit_json(plain / "config.json", reward_family="steamshp")
    np.testing.assert_allclose(scored(load_reward_model(spec_of(plain))), by_author("SteamSHP", plain), atol=1e-4)


class PolarServer(OpenRLHF):
    """A server that knows a reference answer."""

    folder: ClassVar[Path]

    def proxied(self, text: str) -> str:
        return text

    def ids(self, text: str, special: bool = True) -> Any:  # noqa: ARG002
        return [text]

    def reward(self, ids: Any, *_: Any, **__: Any) -> float:
        found = re.search(r"user\n(.*)<\|im_end\|>\n<\|im_start\|>assistant\n(.*)<\|im_end\|>", ids[0], re.DOTALL)
        assert found is not None
        return family("POLAR").reference(self.folder, found[1], found[2])


def test_a_server_gives_the_reward_of_a_model_that_is_refused(
    others: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = others["POLAR-1_8B"]
    monkeypatch.setattr(PolarServer, "folder", folder, raising=False)
    served = Served(routes=PolarServer(None).routes)  # type: ignore[arg-type]
    try:
        said = Rendering(load_template(ModelSpec(str(folder), max_length_tokens=LENGTHY)), folder.name)
        client = ServedClient(f"{served.url}/get_reward", ServedOptions(), retries=1, backoff_s=0.01, rendering=said)
        assert client.check() == []
        found = ServedScorer(client).score([user_prompt(TEXTS[0][0])], [TEXTS[0][1]])
    finally:
        served.stop()
    assert found[0] == pytest.approx(family("POLAR").reference(folder, *TEXTS[0]), abs=1e-5)
