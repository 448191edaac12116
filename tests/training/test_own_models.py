"""Someone's own model trains at first contact: LoRA's layers, head, positions and EOS of many architectures, in fp32 and 8-bit."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForMaskedLM, AutoModelForSequenceClassification

from cda.auditing.model_card import ExportedTraining, model_card
from cda.errors import ModelError, RunError
from cda.models.config import ModelSpec
from cda.models.load import load_reward_model
from cda.pipeline.merge import merge_adapter
from cda.pipeline.plan import check, plan
from cda.recipe.load import load_recipe
from cda.records import Pair, TrainingExample, user_prompt
from cda.scorers.classifier import ClassifierScorer
from cda.training.arguments import Lora
from cda.training.lora import train_adapter
from cda.training.targets import chosen_targets
from evals.reliability.own_models_tiny import build

LONG = " please help" * 300
PAIRS = [
    Pair(user_prompt(f"question {n}"), "the good answer" * (n + 2), f"a bad answer{LONG * (n == 1)}") for n in range(4)
]
PEFTS = "PEFT's choice for "
QUERIES = "its attention's queries and values"
CHOSEN = {
    "bert": f"query, value ({PEFTS}bert)",
    "distilbert": f"q_lin, v_lin ({QUERIES})",
    "deberta-v2": f"query_proj, value_proj ({PEFTS}deberta-v2)",
    "electra": f"query, value ({PEFTS}electra)",
    "roberta": f"query, value ({PEFTS}roberta)",
    "mpnet": f"q, v ({QUERIES})",
    "modernbert": f"Wqkv ({QUERIES})",
    "fnet": "dense (all linear layers of its blocks: none is in attention)",
    "gpt2": f"c_attn ({PEFTS}gpt2)",
    "openai-gpt": "c_proj, c_attn (its attention's linear layers)",
    "gpt_neox": f"query_key_value ({PEFTS}gpt_neox)",
    "falcon": f"query_key_value ({PEFTS}falcon)",
    "mpt": f"Wqkv ({PEFTS}mpt)",
    "phi3": f"qkv_proj ({QUERIES})",
    "gemma2": f"q_proj, v_proj ({PEFTS}gemma2)",
    "qwen3": f"q_proj, v_proj ({PEFTS}qwen3)",
    "deepseek_v3": f"kv_a_proj_with_mqa, kv_b_proj, q_a_proj, q_b_proj ({QUERIES})",
    "t5": f"q, v ({PEFTS}t5)",
    "bart": f"q_proj, v_proj ({PEFTS}bart)",
}


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize(
    ("kind", "precision"), [*((kind, "fp32") for kind in CHOSEN), ("distilbert", "8bit"), ("gpt2", "8bit")]
)
def test_a_first_training_adapts_the_layers_that_suit_the_architecture(
    kind: str, precision: str, tmp_path: Path
) -> None:
    build(kind, tmp_path / "model")
    spec = ModelSpec(str(tmp_path / "model"), precision, 200)  # type: ignore[arg-type]
    model = load_reward_model(spec)
    assert str(chosen_targets(model.model, kind, None)) == CHOSEN[kind]
    arguments = {"max_steps": 2, "per_device_train_batch_size": 2, "logging_steps": 1, "learning_rate": 1e-3}
    result = train_adapter(model, [*map(TrainingExample, PAIRS)], [], Lora(), arguments, tmp_path / "run", 0)
    assert np.isfinite([entry["loss"] for entry in result.history if "loss" in entry]).all()
    assert result.counts.truncated == 1
    saved = load_file(result.adapter / "adapter_model.safetensors")
    updates = [weights for name, weights in saved.items() if "lora_B" in name]
    assert updates and all(weights.abs().max() > 0 for weights in updates)
    assert {name.split(".")[2] for name in saved if "lora_" not in name} == set(model.head_names)
    prompts, texts = [pair.prompt for pair in PAIRS], [pair.chosen for pair in PAIRS]
    model.model.eval()
    trained = ClassifierScorer(model, 1).score(prompts, texts)
    again = ClassifierScorer(load_reward_model(spec, result.adapter), 1).score(prompts, texts)
    assert np.abs(trained - again).max() < (1e-5 if precision == "fp32" else 1e-3)


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("kind", ["roberta", "gpt2"])
def test_the_label_that_is_the_reward_is_trained_and_merged_into_a_model_of_one(kind: str, tmp_path: Path) -> None:
    build(kind, tmp_path / "model", num_labels=2)
    spec = ModelSpec(str(tmp_path / "model"), "fp32", 200, head=1)
    model = load_reward_model(spec)
    prompts, texts = [pair.prompt for pair in PAIRS], [pair.chosen for pair in PAIRS]
    before = ClassifierScorer(model, 1).score(prompts, texts)
    arguments = {"max_steps": 2, "per_device_train_batch_size": 2, "learning_rate": 1e-2}
    result = train_adapter(model, [*map(TrainingExample, PAIRS)], [], Lora(), arguments, tmp_path / "run", 0)
    assert model.model.config.id2label == {0: "LABEL_0", 1: "LABEL_1"}
    trained = ClassifierScorer(load_reward_model(spec, result.adapter), 1).score(prompts, texts)
    assert np.abs(trained - before).max() > 1e-3
    form = "pair" if kind == "roberta" else "plain text"
    card = model_card([ExportedTraining("run", 1.0, form=form)], str(tmp_path / "model"), None, label=1)
    (program,) = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    program = program.replace('"FOLDER"', repr(str(result.adapter))).replace(
        '"FOLDER-OF-THE-BASE"', repr(spec.name_or_path)
    )
    ran: dict[str, object] = {}
    exec(program, ran)
    (own,) = ClassifierScorer(load_reward_model(spec, result.adapter), 1).score(
        [user_prompt(str(ran["prompt"]))], [str(ran["response"])]
    )
    assert ran["reward"] == pytest.approx(own, abs=1e-4)
    merge_adapter(spec, result.adapter, tmp_path / "merged", "fp32")
    merged = load_reward_model(ModelSpec(str(tmp_path / "merged"), "fp32", 200))
    assert np.abs(ClassifierScorer(merged, 1).score(prompts, texts) - trained).max() < 1e-5


def test_a_model_without_a_head_is_refused_before_its_data_are_made(tmp_path: Path) -> None:
    build("bert", tmp_path / "model")
    AutoModelForMaskedLM.from_config(AutoConfig.from_pretrained(tmp_path / "model")).save_pretrained(tmp_path / "model")
    loaded = load_recipe("jargon", [f"model.name_or_path={tmp_path / 'model'}", f"run.folder={tmp_path / 'run'}"])
    with pytest.raises(RunError, match=r"model: its weights hold no score head \(classifier would be random\)"):
        check(loaded)


def test_the_plan_says_how_texts_are_written_without_a_chat_template(tmp_path: Path) -> None:
    build("gpt2", tmp_path / "model")
    loaded = load_recipe("jargon", [f"model.name_or_path={tmp_path / 'model'}"])
    assert "            The tokenizer has no chat template; the prompt, a blank line" in plan(loaded)


def test_layers_that_were_asked_for_are_taken_or_refused_with_names_that_exist(bert: Path) -> None:
    model = load_reward_model(ModelSpec(str(bert), "fp32", 64)).model
    assert chosen_targets(model, "my-bert", ["output.dense", "key"]).names == ("output.dense", "key")
    everything = chosen_targets(model, "my-bert", Lora(target_modules="all-linear").target_modules)
    assert str(everything) == "dense, key, query, value (all linear layers but the head)"
    with pytest.raises(ModelError) as error:
        chosen_targets(model, "my-bert", ["query", "valeu"])
    assert str(error.value) == (
        "lora.target_modules: valeu matches no layer of my-bert outside its head. Did you mean value? Its linear layers are: "
        "dense, key, query, value. Name some of them, or leave lora.target_modules out: it then adapts query, value (PEFT's "
        "choice for bert)"
    )
    with pytest.raises(ModelError, match=r"classifier matches no layer of my-bert outside its head"):
        chosen_targets(model, "my-bert", ["classifier"])  # trained whole


def test_no_layer_that_no_text_passes_is_adapted() -> None:
    config = AutoConfig.for_model("gemma3")
    config.text_config.num_hidden_layers, config.text_config.layer_types = 1, ["full_attention"]
    config.vision_config.num_hidden_layers = 1
    with torch.device("meta"):
        model = AutoModelForSequenceClassification.from_config(config)
    names = chosen_targets(model, "gemma3", None).names
    assert names and all(name.startswith("language_model.layers.0.self_attn.") for name in names)


def test_a_model_that_reads_padding_is_refused_with_its_own_way_out(tmp_path: Path) -> None:
    build("xlnet", tmp_path / "model")
    model = load_reward_model(ModelSpec(str(tmp_path / "model"), "fp32", 64))
    with pytest.raises(ModelError, match=r"where a text is padded.*audited, one text at a time, and not trained here"):
        train_adapter(model, [*map(TrainingExample, PAIRS)], [], Lora(), {}, tmp_path / "run", 0)
    shutil.rmtree(tmp_path / "model")
