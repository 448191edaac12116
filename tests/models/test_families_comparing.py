"""Published models that are asked about two responses: PairRM, RLHFlow's pair-preference-model and SteamSHP."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from published import LENGTHY, assert_as_the_author, assert_near_in_8bit, built, by_author, family, scored, spec_of
from safetensors.torch import load_file, save_file
from tiny import edit_json

from cda.arrays import FloatArray
from cda.errors import ModelError
from cda.models.config import ModelSpec, load_config
from cda.models.load import RewardModel, load_reward_model, load_template
from cda.models.template import Template
from cda.models.weights import head_names
from cda.pipeline.merge import merge_adapter
from cda.records import Message, Pair, Prompt, TrainingExample, user_prompt
from cda.scorers.classifier import ClassifierScorer, in_order, preferred, self_check
from cda.training.arguments import Lora
from cda.training.lora import train_adapter
from evals.reliability.reward_models import COMPARISONS
from evals.reliability.reward_models_families import TEXTS
from evals.reliability.reward_models_tokenizers import PAIR_CONTEXT

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
def test_rewards_are_the_authors(others: dict[str, Path], title: str) -> None:
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
        (10**6, "has no output token with this id"),
    ):
        with pytest.raises(ModelError, match=why):
            load_reward_model(spec_of(folder, head=head))


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
