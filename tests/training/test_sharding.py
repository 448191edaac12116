"""FSDP2 over two real processes, as Accelerate prepares it: blocks are shards, and rewards and gradients stay what they are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from devices import on_a_cpu

from cda.models.load import ModelSpec, load_reward_model
from cda.records import Pair, TrainingExample
from cda.training import lora as sharding
from cda.training.arguments import Lora
from cda.training.lora import block_names, shard_blocks, train_adapter

# Accelerate takes FSDP up on accelerators alone, so what its `prepare` calls is called here.
SHARDED = """
import json, sys
from pathlib import Path
from types import SimpleNamespace
import torch
from accelerate import FullyShardedDataParallelPlugin
from accelerate.utils.fsdp_utils import fsdp2_prepare_model
from peft import LoraConfig, get_peft_model
from torch.distributed.fsdp import FSDPModule
from cda.models.load import ModelSpec, load_reward_model
from cda.training.lora import shard_blocks

llama, bert, out = sys.argv[1:]
torch.distributed.init_process_group("gloo")
ids = torch.arange(4, 24).reshape(2, 10)
mask = torch.ones_like(ids)

def adapted(folder, targets):
    base = load_reward_model(ModelSpec(folder, "fp32", 64)).model
    heads = [name for name in ("score", "classifier") if hasattr(base, name)]
    torch.manual_seed(0)
    config = LoraConfig(task_type="SEQ_CLS", r=2, target_modules=targets, modules_to_save=heads)
    return get_peft_model(base, config).eval()

def rewards_and_gradients(model):
    rewards = model(input_ids=ids, attention_mask=mask).logits[:, 0]
    rewards.sum().backward()
    found = [one.grad for one in model.parameters() if one.grad is not None]
    norm = sum(float((one.full_tensor() if hasattr(one, "full_tensor") else one).square().sum()) for one in found)
    model.zero_grad()
    return rewards.tolist(), norm

def sharded(model, ours):
    plugin = FullyShardedDataParallelPlugin(
        fsdp_version=2, auto_wrap_policy="transformer_based_wrap", cpu_ram_efficient_loading=False
    )
    if ours:
        shard_blocks(plugin, model)
    accelerator = SimpleNamespace(
        state=SimpleNamespace(fsdp_plugin=plugin), mixed_precision="no", is_main_process=True,
        device=torch.device("cpu"), parallelism_config=None,
    )
    return fsdp2_prepare_model(accelerator, model)

found = {}
for name, folder, targets in (("llama", llama, ["q_proj", "v_proj"]), ("bert", bert, ["query", "value"])):
    model = adapted(folder, targets)
    alone = rewards_and_gradients(model)
    model = sharded(model, True)
    shards = sorted({type(one).__name__ for one in model.modules() if isinstance(one, FSDPModule)})
    found[name] = {"alone": alone, "together": rewards_and_gradients(model), "shards": shards}
try:
    sharded(adapted(bert, ["query", "value"]), False)
except Exception as error:
    found["as bert names it"] = repr(error)
if torch.distributed.get_rank() == 0:
    Path(out).write_text(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found(llama: Path, bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What the two processes found; the first one wrote it."""
    folder = tmp_path_factory.mktemp("sharded")
    script, out = folder / "sharded.py", folder / "found.json"
    script.write_text(SHARDED, encoding="utf-8")
    command = [str(Path(sys.executable).parent / "torchrun"), "--standalone", "--nproc_per_node", "2", str(script)]
    process = subprocess.run(
        [*command, str(llama), str(bert), str(out)],
        capture_output=True, text=True, timeout=240, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert process.returncode == 0, process.stderr[-2000:]
    return json.loads(out.read_text(encoding="utf-8"))


@on_a_cpu
@pytest.mark.parametrize(("which", "block"), [("llama", "LlamaDecoderLayer"), ("bert", "BertLayer")])
def test_blocks_are_shards_and_change_nothing(which: str, block: str, found: Any) -> None:
    assert any(name.endswith(block) for name in found[which]["shards"])
    (rewards, norm), (sharded, sharded_norm) = found[which]["alone"], found[which]["together"]
    assert sharded == pytest.approx(rewards, abs=1e-5)
    assert sharded_norm == pytest.approx(norm, rel=1e-4) and norm > 0  # reduced as a mean over equal processes


@on_a_cpu
def test_what_an_encoder_names_itself_cannot_be_sharded(found: Any) -> None:
    """Should this begin to fail, Accelerate has mended it, and `block_names` may go."""
    assert found["as bert names it"].startswith("TypeError")


def test_blocks_are_what_the_model_names_without_its_embeddings(llama: Path, bert: Path) -> None:
    def names(folder: Path) -> list[str]:
        return block_names(load_reward_model(ModelSpec(str(folder), "fp32", 64)).model)

    assert names(llama) == ["LlamaDecoderLayer"]
    assert names(bert) == ["BertLayer"]


class StoppedError(Exception):
    """Ends a training once it has come this far."""


def test_every_training_asks_for_its_blocks(
    llama: Path, preference_pairs: list[Pair], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def asked(plugin: Any, model: Any) -> None:
        seen.append((plugin, block_names(model)))
        raise StoppedError

    monkeypatch.setattr(sharding, "shard_blocks", asked)
    examples = [TrainingExample(pair) for pair in preference_pairs]
    with pytest.raises(StoppedError):
        train_adapter(
            load_reward_model(ModelSpec(str(llama), "fp32", 64)), examples, [],
            Lora(r=2, alpha=4, dropout=0.0, target_modules=["q_proj"]), {"max_steps": 1}, tmp_path, 0,
        )  # fmt: skip
    assert seen == [(None, ["LlamaDecoderLayer"])]  # through the adapter's wrapper; no FSDP here


def test_parts_that_somebody_named_stay(llama: Path) -> None:
    model = load_reward_model(ModelSpec(str(llama), "fp32", 64)).model
    named = SimpleNamespace(transformer_cls_names_to_wrap=["LlamaMLP"])
    shard_blocks(named, model)
    assert named.transformer_cls_names_to_wrap == ["LlamaMLP"]
    shard_blocks(None, model)
