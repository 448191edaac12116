"""Published models that Transformers' classes do not read: InternLM2, logits of a token, step rewards, and those with code of their own."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from published import assert_as_the_author, assert_near_in_8bit, built, by_author, family, scored, spec_of
from safetensors.torch import load_file, save_file
from tiny import edit_json

from cda.errors import ModelError
from cda.models.config import load_config
from cda.models.load import load_reward_model
from cda.pipeline.merge import merge_adapter
from cda.records import Pair, TrainingExample, user_prompt
from cda.scorers.classifier import ClassifierScorer, self_check
from cda.scorers.own import OwnPairwise, OwnPointwise, own_scorer
from cda.training.arguments import Lora
from cda.training.lora import train_adapter
from evals.reliability.reward_models_families import TEXTS

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


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("other")
    made = {title: built(title, folder / str(n)) for n, title in enumerate((*DECLARED, *OWN_CODE, "SteamSHP"))}
    return made | {name: built(title, folder, name) for name, (title, _) in REFUSED.items()}


@pytest.mark.parametrize("title", DECLARED)
def test_rewards_are_the_authors(folders: dict[str, Path], title: str) -> None:
    assert_as_the_author(title, folders[title])
    assert_near_in_8bit(title, folders[title])


@pytest.mark.parametrize("title", OWN_CODE)
def test_code_of_its_own_gives_the_authors_reward_once_it_is_allowed(folders: dict[str, Path], title: str) -> None:
    with pytest.raises(ModelError, match=r"needs custom code.*model.trust_remote_code=true"):
        load_reward_model(spec_of(folders[title]))
    assert_as_the_author(title, folders[title], trust_remote_code=True)
    assert_near_in_8bit(title, folders[title], trust_remote_code=True)
    notes = self_check(load_reward_model(spec_of(folders[title], trust_remote_code=True)))
    assert not any("beginning-of-sequence" in note for note in notes)  # two are URM's own way
    in_bf16 = scored(load_reward_model(spec_of(folders[title], "bf16", trust_remote_code=True)), 4096)
    assert np.abs(in_bf16 - by_author(title, folders[title])).max() < 0.1


def test_tokenizer_code_alone_has_to_be_allowed_for_internlm2(folders: dict[str, Path], tmp_path: Path) -> None:
    """The class of the model is not run: its file, here as on the hub of another version, raises."""
    folder = tmp_path / "internlm2-1_8b-reward"
    shutil.copytree(folders["InternLM2-reward"], folder)
    (folder / "tokenization_internlm2.py").write_text(OWN_TOKENIZER, encoding="utf-8")
    auto_map = {"AutoTokenizer": [None, "tokenization_internlm2.InternLM2Tokenizer"]}
    edit_json(folder / "tokenizer_config.json", auto_map=auto_map, tokenizer_class="InternLM2Tokenizer")
    with pytest.raises(ModelError, match=r"its tokenizer: needs custom code.*model.trust_remote_code=true") as error:
        load_reward_model(spec_of(folder))
    assert "\n" not in str(error.value)
    allowed = load_reward_model(spec_of(folder, trust_remote_code=True))
    np.testing.assert_allclose(scored(allowed), by_author("InternLM2-reward", folder), atol=1e-4)


def test_the_last_step_is_read_where_the_setting_says_so(folders: dict[str, Path]) -> None:
    folder = folders["Qwen2.5-Math-PRM"]
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
    folders: dict[str, Path], tmp_path: Path
) -> None:
    """A published name is known; any other name needs the setting, also for a merged model no longer."""
    folder = tmp_path / "mine"
    shutil.copytree(folders["Nemotron-70B-Reward"], folder)
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
def test_a_merged_model_is_read_as_its_family(folders: dict[str, Path], tmp_path: Path, title: str) -> None:
    spec = spec_of(folders[title])
    pairs = [TrainingExample(Pair(user_prompt(prompt), response, "No.")) for prompt, response in TEXTS[:2]]
    arguments = {"learning_rate": 5e-3, "per_device_train_batch_size": 2, "max_steps": 1, "save_steps": 1}
    lora = Lora(r=2, alpha=4, dropout=0.0, target_modules=["q" if title == "SteamSHP" else "q_proj"])
    adapter = train_adapter(load_reward_model(spec), pairs, [], lora, arguments, tmp_path / "run", 0).adapter
    base = json.loads((adapter / "adapter_config.json").read_text(encoding="utf-8"))["base_model_name_or_path"]
    assert base == str(folders[title])
    merge_adapter(spec, adapter, tmp_path / "merged", "fp32")
    trained = scored(load_reward_model(spec, adapter))
    assert np.abs(trained - by_author(title, folders[title])).max() > 1e-3
    np.testing.assert_allclose(scored(load_reward_model(spec_of(tmp_path / "merged"))), trained, atol=1e-5)


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_reward_of_a_text_is_refused_with_the_reason(folders: dict[str, Path], name: str) -> None:
    for allowed in (False, True):
        with pytest.raises(ModelError, match=REFUSED[name][1]) as error:
            load_config(spec_of(folders[name], trust_remote_code=allowed), compares=True)
        assert "\n" not in str(error.value)
        assert "file.py:function" in str(error.value)


def test_the_ways_out_work(folders: dict[str, Path], tmp_path: Path) -> None:
    shutil.copytree(folders["Better-PairRM"], tmp_path / "Better-PairRM")
    shutil.copytree(folders["POLAR-1_8B"], tmp_path / "POLAR-1_8B")
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
    plain = shutil.copytree(folders["flan-t5-xl"], tmp_path / "mine")
    edit_json(plain / "config.json", reward_family="steamshp")
    np.testing.assert_allclose(scored(load_reward_model(spec_of(plain))), by_author("SteamSHP", plain), atol=1e-4)
