"""Models that bring code of their own, tokenizers that are another model's, and texts that name special tokens."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cda.embedded.model import encoder_folder, encoder_tokenizer
from cda.errors import ModelError
from cda.models.causal import load_causal_config, load_causal_model
from cda.models.load import ModelSpec, load_config, load_reward_model
from cda.models.template import Template
from cda.records import user_prompt
from cda.scorers.cache import scope_of
from cda.scorers.classifier import ClassifierScorer

if TYPE_CHECKING:
    from conftest import ModelMaker

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


OWN_PARTS = """
from transformers import LlamaConfig, LlamaForSequenceClassification, PreTrainedTokenizerFast

class OwnConfig(LlamaConfig):
    pass

class OwnModel(LlamaForSequenceClassification):
    pass

class OwnTokenizer(PreTrainedTokenizerFast):
    def __call__(self, *texts, **options):
        return super().__call__(*(text[::-1] for text in texts), **options)
"""
AUTO_MAPS = {
    "config": ("config.json", {"AutoConfig": "parts.OwnConfig"}),
    "tokenizer": ("tokenizer_config.json", {"AutoTokenizer": [None, "parts.OwnTokenizer"]}),
    "tokenizer, in the form of before": ("tokenizer_config.json", [None, "parts.OwnTokenizer"]),
    "tokenizer, in config.json": ("config.json", {"AutoTokenizer": ["parts.OwnTokenizer", None]}),
}


@pytest.fixture
def plain(llama: Path, tmp_path: Path) -> Path:
    """A Llama with code of its own beside it that nothing names yet."""
    folder = tmp_path / "parts"
    folder.mkdir()
    for file in llama.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    (folder / "parts.py").write_text(OWN_PARTS, encoding="utf-8")
    return folder


@pytest.mark.parametrize("part", AUTO_MAPS)
@pytest.mark.parametrize("load", [load_reward_model, load_causal_model])
def test_own_code_for_a_part_is_refused_where_the_library_knows_the_kind_of_model(
    plain: Path, llama_maker: ModelMaker, part: str, load: Callable[[ModelSpec], object]
) -> None:
    """Transformers would pass over it without a word, and the scores would be others."""
    if load is load_causal_model:
        folder = llama_maker(f"causal {part}", architecture="LlamaForCausalLM")
        (folder / "parts.py").write_text(OWN_PARTS, encoding="utf-8")
    else:
        folder = plain
    file, auto_map = AUTO_MAPS[part]
    _edit(folder / file, auto_map=auto_map)
    with pytest.raises(ModelError, match=r"runs with your rights.*model.trust_remote_code=true"):
        load(ModelSpec(str(folder), "fp32"))


def test_own_code_for_a_part_is_run_where_it_is_allowed(plain: Path) -> None:
    spec = ModelSpec(str(plain), "fp32", trust_remote_code=True)
    _edit(plain / "config.json", auto_map={"AutoModelForSequenceClassification": "parts.OwnModel"})
    _edit(plain / "tokenizer_config.json", auto_map=AUTO_MAPS["tokenizer"][1])
    found = load_reward_model(spec)
    assert type(found.model).__name__ == "OwnModel"
    assert type(found.template.tokenizer).__name__ == "OwnTokenizer"
    _edit(plain / "config.json", auto_map={"AutoConfig": "parts.OwnConfig"})
    assert type(load_config(spec)).__name__ == "OwnConfig"


def test_own_code_that_the_library_does_not_run_though_it_is_allowed_is_refused(plain: Path) -> None:
    file, auto_map = AUTO_MAPS["tokenizer, in config.json"]
    _edit(plain / file, auto_map=auto_map)
    with pytest.raises(
        ModelError, match=r"its tokenizer is of a class of its own \(OwnTokenizer\), but Transformers loaded"
    ):
        load_reward_model(ModelSpec(str(plain), "fp32", trust_remote_code=True))


def test_a_class_of_its_own_for_another_use_is_refused(plain: Path) -> None:
    _edit(plain / "config.json", auto_map={"AutoModel": "parts.OwnReward"}, architectures=["OwnReward"])
    for trusted in (False, True):
        with pytest.raises(
            ModelError, match=r"is a OwnReward.*AutoModel alone.*AutoModelForSequenceClassification in auto_map"
        ):
            load_config(ModelSpec(str(plain), "fp32", trust_remote_code=trusted))


def test_a_class_that_neither_the_model_names_nor_the_library_has_is_refused(plain: Path) -> None:
    """The code beside it is for another class: Transformers would load its own for `model_type`."""
    _edit(plain / "config.json", auto_map={"AutoModel": "parts.OwnBase"}, architectures=["OwnReward"])
    with pytest.raises(ModelError, match=r"is a OwnReward, a class of its own that it names for no auto class"):
        load_config(ModelSpec(str(plain), "fp32"))
    _edit(plain / "config.json", architectures=["LlamaForSequenceClassification"])
    assert load_config(ModelSpec(str(plain), "fp32")).model_type == "llama"


def test_code_of_another_repository_counts_for_kept_scores(
    plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`owner/name--file.Class` names code that is in no file of the model."""
    _edit(plain / "tokenizer_config.json", auto_map=AUTO_MAPS["tokenizer"][1])
    found = load_reward_model(ModelSpec(str(plain), "fp32", trust_remote_code=True))
    code = tmp_path / "elsewhere" / "parts.py"
    code.parent.mkdir()
    monkeypatch.setattr(sys.modules[type(found.template.tokenizer).__module__], "__file__", str(code))
    scopes = []
    for text in ("a = 1", "a = 2", "a = 1"):
        code.write_text(text, encoding="utf-8")
        scopes.append(scope_of(found))
    assert scopes[0] == scopes[2] != scopes[1]


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
