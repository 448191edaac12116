"""An adapter of another task is refused before its weights are read, and the message says what it is."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cda.errors import ModelError
from cda.models.load import ModelSpec, check_adapter, load_reward_model

if TYPE_CHECKING:
    from conftest import ModelMaker, Trained


@pytest.fixture(scope="module")
def language_model_adapter(llama_maker: ModelMaker, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """LoRA on the same tiny Llama as a language model, saved by PEFT."""
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    base = AutoModelForCausalLM.from_pretrained(llama_maker("language-model", architecture="LlamaForCausalLM"))
    folder = tmp_path_factory.mktemp("adapters") / "language-model"
    get_peft_model(base, LoraConfig(task_type="CAUSAL_LM", target_modules=["q_proj"])).save_pretrained(str(folder))
    return folder


@pytest.fixture
def changed(trained_fp32: Trained, tmp_path: Path) -> Path:
    """A copy of a whole adapter of a reward model, to be changed."""
    folder = tmp_path / "adapter"
    shutil.copytree(trained_fp32.result.adapter, folder)
    return folder


def set_task(folder: Path, task: str | None) -> None:
    file = folder / "adapter_config.json"
    config = json.loads(file.read_text(encoding="utf-8")) | {"task_type": task}
    file.write_text(json.dumps(config), encoding="utf-8")


def test_a_language_model_s_adapter_is_refused(language_model_adapter: Path, llama: Path) -> None:
    with pytest.raises(ModelError) as error:
        load_reward_model(ModelSpec(str(llama), "fp32", 64), language_model_adapter)
    assert str(error.value) == (
        f"{language_model_adapter}: its task_type is CAUSAL_LM: an adapter of a causal language model (text generation). "
        "Needed is one that was trained on a reward model (a sequence classifier with one label), saved with task_type "
        "SEQ_CLS and its score head"
    )


def test_a_head_beside_it_does_not_help(changed: Path) -> None:
    check_adapter(changed, ("score",))
    set_task(changed, "CAUSAL_LM")
    with pytest.raises(ModelError, match="causal language model"):
        check_adapter(changed, ("score",))


def test_other_tasks_are_named(changed: Path) -> None:
    set_task(changed, "TOKEN_CLS")
    with pytest.raises(ModelError, match=r"its task_type is TOKEN_CLS: an adapter of another kind of model\."):
        check_adapter(changed, ("score",))


def test_an_adapter_that_names_no_task_is_judged_by_its_head(changed: Path) -> None:
    set_task(changed, None)
    check_adapter(changed, ("score",))
    with pytest.raises(ModelError, match="no weights for the score head 'classifier'"):
        check_adapter(changed, ("classifier",))


def test_an_unreadable_config_is_said(changed: Path) -> None:
    (changed / "adapter_config.json").write_text("{", encoding="utf-8")
    with pytest.raises(ModelError, match=r"adapter_config\.json: cannot be read .*was it saved completely\?"):
        check_adapter(changed, ("score",))
