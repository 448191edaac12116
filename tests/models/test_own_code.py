"""Models that bring code of their own, tokenizers that are another model's, and texts that name special tokens."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from cda.embedded.model import encoder_folder, encoder_tokenizer
from cda.errors import ModelError
from cda.models.causal import load_causal_config
from cda.models.load import ModelSpec, load_config, load_reward_model
from cda.models.template import Template
from cda.records import user_prompt
from cda.score.cache import scope_of
from cda.score.classifier import ClassifierScorer

CODE = """
from transformers import LlamaForSequenceClassification

class Own(LlamaForSequenceClassification):
    def __init__(self, config):
        raise ValueError("boom while it is built")
"""


@pytest.fixture
def own(llama: Path, tmp_path: Path) -> Path:
    """A Llama by its model_type, whose config.json names a class of its own for either auto class."""
    folder = tmp_path / "own"
    folder.mkdir()
    for file in llama.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    auto_map = dict.fromkeys(("AutoModelForSequenceClassification", "AutoModelForCausalLM"), "code.Own")
    _edit(folder / "config.json", auto_map=auto_map)
    (folder / "code.py").write_text(CODE, encoding="utf-8")
    return folder


def _edit(file: Path, **settings: object) -> None:
    file.write_text(json.dumps(json.loads(file.read_text(encoding="utf-8")) | settings), encoding="utf-8")


def test_own_code_is_refused_also_where_the_library_knows_the_kind_of_model(own: Path) -> None:
    """Transformers would load its own class without a word, whose scores are others."""
    with pytest.raises(ModelError, match=r"runs with your rights.*model.trust_remote_code=true"):
        load_config(ModelSpec(str(own), "fp32"))
    _edit(own / "config.json", architectures=["LlamaForCausalLM"])
    with pytest.raises(ModelError, match=r"model.trust_remote_code=true"):
        load_causal_config(ModelSpec(str(own), "fp32"))


def test_own_code_that_fails_is_one_message(own: Path) -> None:
    with pytest.raises(ModelError, match=r"cannot be loaded as a sequence classifier .boom while it is built"):
        load_reward_model(ModelSpec(str(own), "fp32", trust_remote_code=True))


def test_scores_of_own_code_are_kept_apart(llama: Path) -> None:
    reward_model = load_reward_model(ModelSpec(str(llama), "fp32", 64))
    allowed = replace(reward_model, spec=replace(reward_model.spec, trust_remote_code=True))
    assert scope_of(allowed) != scope_of(reward_model)


def test_a_token_that_the_model_does_not_know_is_one_message(llama: Path) -> None:
    reward_model = load_reward_model(ModelSpec(str(llama), "fp32", 64))
    reward_model.template.tokenizer.add_tokens(["unheardof"])
    with pytest.raises(ModelError, match=r"its tokenizer made token .* and the model knows"):
        ClassifierScorer(reward_model, 256).score([user_prompt("w1")], ["w2 unheardof"])


def test_the_name_of_a_special_token_in_a_text_is_text() -> None:
    tokenizer = encoder_tokenizer(encoder_folder())
    ids = Template(tokenizer, 128).encode(user_prompt("before [SEP] after"), "one [SEP] two").ids
    assert ids.count(tokenizer.sep_token_id) == 2
    assert "sep" in tokenizer.convert_ids_to_tokens(ids)
