"""Models that bring code of their own, tokenizers that are another model's, and texts that name special tokens."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tiny import edit_json, load, message_of, scores_of

from cda.embedded.model import encoder_folder, encoder_tokenizer
from cda.errors import ModelError
from cda.models.causal import load_causal_config
from cda.models.config import ModelSpec, load_config
from cda.models.load import RewardModel, load_reward_model
from cda.models.template import Template
from cda.records import user_prompt
from cda.scorers.classifier import ClassifierScorer
from cda.scorers.engine import scope_of

if TYPE_CHECKING:
    from conftest import Texts

OWN_PARTS = """
from transformers import LlamaConfig, LlamaForSequenceClassification, PreTrainedTokenizerFast

class Failing(LlamaForSequenceClassification):
    def __init__(self, config):
        raise ValueError("boom while it is built")

class Several(LlamaForSequenceClassification):
    def forward(self, *inputs, **named):
        logits = super().forward(*inputs, **named).logits
        return {"rewards": logits.repeat(1, 3) * logits.new_tensor([1.0, 2.0, 3.0])}

class Broken(LlamaForSequenceClassification):
    def forward(self, *inputs, **named):
        raise RuntimeError("boom in its forward pass")

class OwnConfig(LlamaConfig):
    pass

class OwnModel(LlamaForSequenceClassification):
    pass

class OwnTokenizer(PreTrainedTokenizerFast):
    def __call__(self, *texts, **options):
        return super().__call__(*(text[::-1] for text in texts), **options)
"""
TOKENIZER = {"AutoTokenizer": [None, "parts.OwnTokenizer"]}
AUTO_MAPS = {
    "model": ("config.json", {"AutoModelForSequenceClassification": "parts.OwnModel"}),
    "config": ("config.json", {"AutoConfig": "parts.OwnConfig"}),
    "tokenizer": ("tokenizer_config.json", TOKENIZER),
    "tokenizer, in the form of before": ("tokenizer_config.json", [None, "parts.OwnTokenizer"]),
    "tokenizer, in config.json": ("config.json", {"AutoTokenizer": ["parts.OwnTokenizer", None]}),
}


@pytest.fixture
def plain(llama: Path, tmp_path: Path) -> Path:
    """A Llama by its model_type, with code of its own beside it that nothing names yet."""
    folder = tmp_path / "parts"
    shutil.copytree(llama, folder)
    (folder / "parts.py").write_text(OWN_PARTS, encoding="utf-8")
    return folder


def test_code_that_is_not_there_is_named_whether_it_may_run_or_not(llama: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(llama, tmp_path / "model"))
    edit_json(folder / "config.json", auto_map={"AutoModelForSequenceClassification": "parts.OwnModel"})
    for may_run in (False, True):
        with pytest.raises(
            ModelError, match=r"names parts.OwnModel, and the folder holds no parts.py. Put the file there"
        ):
            load_config(ModelSpec(str(folder), "fp32", trust_remote_code=may_run))
    (folder / "parts.py").write_text(OWN_PARTS, encoding="utf-8")  # one remedy
    trusted(folder)
    (folder / "parts.py").unlink()
    edit_json(folder / "config.json", auto_map={})  # the other
    load(folder)


def test_outputs_of_code_that_are_no_reward_end_in_one_line(plain: Path, texts: Texts) -> None:
    wanted = scores_of(load(plain), texts)
    config = plain / "config.json"
    edit_json(config, auto_map={"AutoModelForSequenceClassification": "parts.Several"})
    message = message_of(lambda: scores_of(trusted(plain), texts))
    assert (
        "Several gives no reward: its output has the shape (1, 3), 3 numbers a text; model.head=INDEX says" in message
    )
    second = load_reward_model(ModelSpec(str(plain), "fp32", 64, trust_remote_code=True, head=1))  # the remedy
    np.testing.assert_allclose(scores_of(second, texts), 2 * wanted, atol=1e-5)
    third = load_reward_model(ModelSpec(str(plain), "fp32", 64, trust_remote_code=True, head=3))
    assert "3 numbers a text, and no number 3" in message_of(lambda: scores_of(third, texts))
    edit_json(config, auto_map={"AutoModelForSequenceClassification": "parts.Broken"})
    message = message_of(lambda: scores_of(trusted(plain), texts))
    assert "Broken gives no reward: boom in its forward pass. Two ways always work" in message and "\n" not in message


def trusted(folder: Path) -> RewardModel:
    return load_reward_model(ModelSpec(str(folder), "fp32", trust_remote_code=True))


@pytest.mark.parametrize("part", AUTO_MAPS)
def test_own_code_is_refused_also_where_the_library_knows_the_kind_of_model(plain: Path, part: str) -> None:
    """Transformers would pass over it without a word, and the scores would be others."""
    file, auto_map = AUTO_MAPS[part]
    edit_json(plain / file, auto_map=auto_map)
    with pytest.raises(ModelError, match=r"runs with your rights.*model.trust_remote_code=true"):
        load(plain)


def test_own_code_of_a_language_model_is_refused_too(plain: Path) -> None:
    auto_map = {"AutoModelForCausalLM": "parts.OwnModel"}
    edit_json(plain / "config.json", auto_map=auto_map, architectures=["LlamaForCausalLM"])
    with pytest.raises(ModelError, match=r"runs with your rights.*model.trust_remote_code=true"):
        load_causal_config(ModelSpec(str(plain), "fp32"))


def test_own_code_is_run_where_it_is_allowed_and_fails_with_one_message(plain: Path) -> None:
    edit_json(plain / "config.json", auto_map=AUTO_MAPS["model"][1])
    edit_json(plain / "tokenizer_config.json", auto_map=TOKENIZER)
    found = trusted(plain)
    assert type(found.model).__name__ == "OwnModel"
    assert type(found.template.tokenizer).__name__ == "OwnTokenizer"
    edit_json(plain / "config.json", auto_map=AUTO_MAPS["config"][1])
    assert type(load_config(found.spec)).__name__ == "OwnConfig"
    edit_json(plain / "config.json", auto_map={"AutoModelForSequenceClassification": "parts.Failing"})
    with pytest.raises(ModelError, match=r"cannot be loaded as a sequence classifier .boom while it is built"):
        trusted(plain)


def test_own_code_that_the_library_does_not_run_though_it_is_allowed_is_refused(plain: Path) -> None:
    file, auto_map = AUTO_MAPS["tokenizer, in config.json"]
    edit_json(plain / file, auto_map=auto_map)
    with pytest.raises(ModelError, match=r"its tokenizer has a custom class \(OwnTokenizer\), but Transformers"):
        trusted(plain)


def test_a_class_of_its_own_for_another_use_is_refused(plain: Path) -> None:
    edit_json(plain / "config.json", auto_map={"AutoModel": "parts.OwnReward"}, architectures=["OwnReward"])
    with pytest.raises(ModelError, match=r"runs with your rights.*model.trust_remote_code=true"):
        load_config(ModelSpec(str(plain), "fp32"))
    # The code beside it is for another class: Transformers would load its own for `model_type`.
    edit_json(plain / "config.json", auto_map={"AutoModel": "parts.OwnBase"})
    with pytest.raises(ModelError, match=r"is a OwnReward, a custom class that it names for no auto class"):
        load_config(ModelSpec(str(plain), "fp32"))
    edit_json(plain / "config.json", architectures=["LlamaForSequenceClassification"])
    assert load_config(ModelSpec(str(plain), "fp32")).model_type == "llama"


def test_code_of_another_repository_counts_for_kept_scores(
    plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`owner/name--file.Class` names code that is in no file of the model."""
    edit_json(plain / "tokenizer_config.json", auto_map=TOKENIZER)
    found, code = trusted(plain), tmp_path / "elsewhere" / "parts.py"
    code.parent.mkdir()
    monkeypatch.setattr(sys.modules[type(found.template.tokenizer).__module__], "__file__", str(code))
    scopes = []
    for text in ("a = 1", "a = 2", "a = 1"):
        code.write_text(text, encoding="utf-8")
        scopes.append(scope_of(found))
    assert scopes[0] == scopes[2] != scopes[1]


def test_a_token_that_the_model_does_not_know_is_one_message(llama: Path) -> None:
    reward_model = load(llama)
    reward_model.template.tokenizer.add_tokens(["unheardof"])
    with pytest.raises(ModelError, match=r"its tokenizer made token .* and the model knows"):
        ClassifierScorer(reward_model, 256).score([user_prompt("w1")], ["w2 unheardof"])


def test_the_name_of_a_special_token_in_a_text_is_text() -> None:
    tokenizer = encoder_tokenizer(encoder_folder())
    ids = Template(tokenizer, 128).encode(user_prompt("before [SEP] after"), "one [SEP] two").ids
    assert ids.count(tokenizer.sep_token_id) == 2
    assert "sep" in tokenizer.convert_ids_to_tokens(ids)
