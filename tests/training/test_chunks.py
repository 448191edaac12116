"""Pairs to token ids with the cut ones counted; chunked forward passes, with the rewards and gradients of one pass, also on two processes."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from devices import on_a_cpu
from tiny import load

from cda.models.config import ModelSpec
from cda.models.load import load_reward_model, load_template
from cda.models.template import Template
from cda.records import Pair, TrainingExample, user_prompt
from cda.training import lora as training
from cda.training.arguments import Lora
from cda.training.chunks import chunked_rewards, encode_pairs, partition
from cda.training.lora import block_names, compile_blocks, shard_blocks, train_adapter

UNEVEN = [3, 40, 5, 21, 4, 38, 20, 6]
EVEN = [30] * 8
PAD = {"llama": 3, "bert": 0}
TARGETS = {"llama": ["q_proj", "v_proj"], "bert": ["query", "value"]}
HEAD = {"llama": "score", "bert": "classifier"}


def cost(lengths: Sequence[int], chunks: Sequence[Sequence[int]], overhead: int) -> int:
    return sum(len(rows) * max(lengths[row] for row in rows) + overhead for rows in chunks)


def cheapest_by_trying_all(lengths: Sequence[int], overhead: int) -> int:
    """Over every way to set cuts between rows sorted by length."""
    n, order = len(lengths), np.argsort(lengths).tolist()
    costs = []
    for cuts in itertools.product([False, True], repeat=n - 1):
        bounds = [0, *(place + 1 for place, cut in enumerate(cuts) if cut), n]
        costs.append(cost(lengths, [order[a:b] for a, b in itertools.pairwise(bounds)], overhead))
    return min(costs)


@pytest.mark.parametrize("overhead", [0, 1, 7, 30, 1000])
def test_no_cut_is_cheaper(overhead: int) -> None:
    rng = np.random.default_rng(overhead)
    for n in range(1, 9):
        lengths = rng.integers(1, 60, n).tolist()
        chunks = partition(lengths, overhead)
        assert sorted(row for rows in chunks for row in rows) == list(range(n))
        assert cost(lengths, chunks, overhead) == cheapest_by_trying_all(lengths, overhead)


def test_a_known_cut() -> None:
    # One chunk: 4 × 50 + 10 = 210; two: 2 × 50 + 2 × 6 + 20 = 132; three, with 6 and 5 apart: 141.
    assert partition([5, 50, 6, 49], overhead_tokens=10) == [[1, 3], [0, 2]]


def test_a_chunk_a_length_where_passes_cost_nothing() -> None:
    assert partition([2, 9, 2, 5], overhead_tokens=0) == [[1], [3], [0, 2]]
    assert partition([], overhead_tokens=0) == []


def classifier(kind: str, folder: Path, adapter: bool) -> Any:
    """The tiny model in training mode without dropout; with an adapter whose update is not zero."""
    import torch
    from peft import LoraConfig, TaskType, get_peft_model
    from transformers import AutoModelForSequenceClassification

    model = AutoModelForSequenceClassification.from_pretrained(str(folder), dtype=torch.float32)
    model.config.pad_token_id = PAD[kind]
    if adapter:
        config = LoraConfig(
            task_type=TaskType.SEQ_CLS,
            r=4,
            target_modules=TARGETS[kind],
            modules_to_save=[HEAD[kind]],
            init_lora_weights=False,
        )
        torch.manual_seed(1)
        model = get_peft_model(model, config)
    return model.train()


def batch(kind: str, lengths: Sequence[int], seed: int = 0) -> dict[str, Any]:
    """Random words of these lengths as TRL's collator lays them out: the first half chosen, the second rejected."""
    from trl.trainer.reward_trainer import DataCollatorForPreference

    rng = np.random.default_rng(seed)
    texts = [rng.integers(10, 60, length).tolist() for length in lengths]
    half = len(texts) // 2
    rows = [{"chosen_ids": one, "rejected_ids": two} for one, two in zip(texts[:half], texts[half:], strict=True)]
    made: dict[str, Any] = DataCollatorForPreference(pad_token_id=PAD[kind])(rows)
    return made


def loss_of(rewards: Any) -> Any:
    import torch

    chosen, rejected = rewards.chunk(2)
    return -torch.nn.functional.logsigmoid(chosen - rejected).mean()


def gradients(model: Any, loss: Any) -> dict[str, Any]:
    model.zero_grad(set_to_none=True)
    loss.backward()
    return {name: weights.grad.clone() for name, weights in model.named_parameters() if weights.requires_grad}


def furthest(one: Mapping[str, Any], other: Mapping[str, Any]) -> float:
    assert one.keys() == other.keys() and one
    return max(float((one[name] - other[name]).abs().max()) for name in one)


@pytest.fixture(params=["llama", "bert"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def folder(kind: str, llama: Path, bert: Path) -> Path:
    return {"llama": llama, "bert": bert}[kind]


@pytest.fixture
def widths() -> Callable[[Any], list[tuple[int, ...]]]:
    """Shapes of every batch that reaches a model's embedding from now on."""

    def watch(model: Any) -> list[tuple[int, ...]]:
        shapes: list[tuple[int, ...]] = []
        model.get_input_embeddings().register_forward_hook(lambda _, ids, __: shapes.append(tuple(ids[0].shape)))
        return shapes

    return watch


@pytest.mark.parametrize("adapter", [False, True], ids=["plain", "lora"])
def test_rewards_and_gradients_are_those_of_one_pass(kind: str, folder: Path, adapter: bool, widths: Any) -> None:
    import torch

    model, inputs = classifier(kind, folder, adapter), batch(kind, UNEVEN)
    whole = model(**inputs).logits.squeeze(-1)
    expected = gradients(model, loss_of(whole))
    shapes = widths(model)
    rewards = chunked_rewards(model, **inputs, overhead_tokens=10)
    assert shapes == [(2, 40), (2, 21), (4, 6)]
    torch.testing.assert_close(rewards, whole, rtol=0, atol=1e-5)
    assert rewards.std() > 1e-2  # an order that is wrong would show
    assert max(float(one.abs().max()) for one in expected.values()) > 1e-2
    assert furthest(gradients(model, loss_of(rewards)), expected) < 1e-5


def test_rows_padded_on_the_left_are_scored_right(llama: Path) -> None:
    import torch

    model = classifier("llama", llama, adapter=False)
    inputs = {name: values.flip(1) for name, values in batch("llama", UNEVEN).items()}
    rewards = chunked_rewards(model, **inputs, overhead_tokens=0)
    torch.testing.assert_close(rewards, model(**inputs).logits.squeeze(-1), rtol=0, atol=1e-5)


@pytest.fixture(scope="module")
def two_processes(tmp_path_factory: pytest.TempPathFactory, llama: Path, bert: Path) -> list[dict[str, Any]]:
    """What `one_of_two` found, of each process."""
    import torch

    folder = tmp_path_factory.mktemp("two")
    for rank, lengths in enumerate((UNEVEN, EVEN)):
        # Made here, so that neither process has to load TRL for it.
        torch.save({kind: batch(kind, lengths, seed=rank) for kind in PAD}, folder / f"{rank}.pt")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    started = [
        subprocess.Popen(
            [sys.executable, __file__, str(rank), str(folder), str(llama), str(bert)],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for rank in range(2)
    ]  # fmt: skip
    try:
        said = [process.communicate(timeout=300)[0] for process in started]
    finally:
        for process in started:  # one that waits for the other for ever
            process.kill()
    assert [process.returncode for process in started] == [0, 0], "\n".join(said)
    return [json.loads((folder / f"{rank}.json").read_text(encoding="utf-8")) for rank in range(2)]


def test_gradients_on_two_processes_are_those_of_one_pass_each(two_processes: list[dict[str, Any]]) -> None:
    """The processes cut their batches into different numbers of chunks."""
    first, second = (found["ddp"] for found in two_processes)
    assert len(first) == len(second) == len(DDP_CASES)
    for one, other in zip(first, second, strict=True):
        assert (one["passes"], other["passes"]) == (3, 1), one["name"]
        assert one["furthest"] < 1e-5 and other["furthest"] < 1e-5, one["name"]
        assert one["largest"] > 1e-2, one["name"]
        # Reduced, not each its own.
        assert one["checksum"] == pytest.approx(other["checksum"], abs=1e-6), one["name"]


@pytest.mark.parametrize("case", ["sharded", "DDP inside"])
def test_a_model_that_waits_in_every_pass_gets_its_batch_in_one(two_processes: list[dict[str, Any]], case: str) -> None:
    for found in two_processes:
        assert found[case]["passes"] == 1
        assert found[case]["furthest"] < 1e-5


@on_a_cpu
@pytest.mark.parametrize(("which", "block"), [("llama", "LlamaDecoderLayer"), ("bert", "BertLayer")])
def test_blocks_are_shards_and_change_nothing(which: str, block: str, two_processes: list[dict[str, Any]]) -> None:
    found = two_processes[0]["fsdp"]
    assert any(name.endswith(block) for name in found[which]["shards"])
    (rewards, norm), (sharded, sharded_norm) = found[which]["alone"], found[which]["together"]
    assert sharded == pytest.approx(rewards, abs=1e-5)
    assert sharded_norm == pytest.approx(norm, rel=1e-4) and norm > 0  # reduced as a mean over equal processes


def test_blocks_are_what_the_model_names_without_its_embeddings_unless_parts_are_named(llama: Path, bert: Path) -> None:
    for folder, blocks in ((llama, ["LlamaDecoderLayer"]), (bert, ["BertLayer"])):
        model = load(folder).model
        assert block_names(model) == blocks
        named = SimpleNamespace(transformer_cls_names_to_wrap=["LlamaMLP"])
        shard_blocks(named, model)
        assert named.transformer_cls_names_to_wrap == ["LlamaMLP"]
        shard_blocks(None, model)


def test_compiled_blocks_give_the_same_rewards_and_gradients(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    # Traced as for a GPU, pass back and checkpoints too, without the minutes that a C++ compiler takes.
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="aot_eager"))
    model, given = classifier("llama", llama, adapter=True), batch("llama", [9, 30, 9, 30])  # two shapes
    model.enable_input_require_grads()
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    rewards = chunked_rewards(model, **given, overhead_tokens=0)
    expected = gradients(model, loss_of(rewards))
    compile_blocks(model)
    compiled = {type(part).__name__ for part in model.modules() if part._compiled_call_impl is not None}
    assert compiled == {"LlamaDecoderLayer"}
    again = chunked_rewards(model, **given, overhead_tokens=0)
    assert again.tolist() == pytest.approx(rewards.tolist(), abs=1e-5)
    assert furthest(gradients(model, loss_of(again)), expected) < 1e-4


class StoppedError(Exception):
    """Ends a training once it has come this far."""


@pytest.mark.parametrize("compiles", [True, False])
def test_every_training_asks_for_its_blocks_and_they_are_compiled_where_the_recipe_compiles(
    compiles: bool, llama: Path, preference_pairs: list[Pair], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[Any, list[str]]] = []

    def stop() -> None:
        raise StoppedError

    monkeypatch.setattr(training, "shard_blocks", lambda plugin, model: seen.append((plugin, block_names(model))))
    monkeypatch.setattr(training, "compile_blocks", lambda model: seen.append(("compiled", block_names(model))))
    monkeypatch.setattr("cda.training.trainer.Progress", stop)
    lora, examples = Lora(r=2, alpha=4, target_modules=["q_proj"]), [*map(TrainingExample, preference_pairs)]
    reward_model = load_reward_model(ModelSpec(str(llama), "fp32", compile=compiles))
    with pytest.raises(StoppedError):
        train_adapter(reward_model, examples, [], lora, {"max_steps": 1}, tmp_path, 0)
    # Through the adapter's wrapper; no FSDP here.
    assert seen == [(None, ["LlamaDecoderLayer"]), ("compiled", ["LlamaDecoderLayer"])][: 1 + compiles]


DDP_CASES: tuple[tuple[str, bool, str, dict[str, Any]], ...] = (
    ("llama", True, "default", {}),
    ("llama", True, "static", {"static_graph": True}),
    ("llama", True, "checkpointing", {}),
    ("bert", False, "default", {}),
)


def one_of_two(rank: int, folder: Path, models: Mapping[str, Path]) -> None:
    """One process: gradients of chunks against those of one pass through the same wrapper."""
    import torch

    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    assert torch.distributed.get_world_size() == 2
    batches = torch.load(folder / f"{rank}.pt")
    ddp = [
        ddp_case(kind, models[kind], adapter, name, options, batches[kind])
        for kind, adapter, name, options in DDP_CASES
    ]
    found: dict[str, Any] = {"ddp": ddp, "fsdp": fsdp_case(models)}
    for wrapper in ("sharded", "DDP inside"):
        found[wrapper] = one_pass_case(wrapper, models["llama"], batches["llama"])
    (folder / f"{rank}.json").write_text(json.dumps(found), encoding="utf-8")
    torch.distributed.destroy_process_group()


def ddp_case(
    kind: str, path: Path, adapter: bool, name: str, options: dict[str, Any], inputs: dict[str, Any]
) -> dict[str, Any]:
    from torch.nn.parallel import DistributedDataParallel

    def wrapped() -> tuple[Any, Any]:
        model = classifier(kind, path, adapter)
        if name == "checkpointing":
            model.enable_input_require_grads()
            model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        return model, DistributedDataParallel(model, **options)

    model, ddp = wrapped()
    expected = gradients(model, loss_of(ddp(**inputs).logits.squeeze(-1)))
    model, ddp = wrapped()
    passes = []
    model.get_input_embeddings().register_forward_hook(lambda *_: passes.append(1))
    for _ in range(2):  # the reducer arranges its buckets anew after the first step
        passes.clear()
        found = gradients(model, loss_of(chunked_rewards(ddp, **inputs, overhead_tokens=10)))
    return {
        "name": f"{kind}, {'lora' if adapter else 'plain'}, {name}",
        "passes": len(passes),
        "furthest": furthest(found, expected),
        "largest": max(float(one.abs().max()) for one in expected.values()),
        "checksum": sum(float(one.double().abs().sum()) for one in found.values()),
    }


def one_pass_case(wrapper: str, path: Path, inputs: dict[str, Any]) -> dict[str, Any]:
    import torch
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.nn.parallel import DistributedDataParallel

    model = classifier("llama", path, adapter=False)
    passes: list[int] = []
    model.get_input_embeddings().register_forward_hook(lambda *_: passes.append(1))
    if wrapper == "sharded":
        wrapped = fully_shard(model, mesh=init_device_mesh("cpu", (2,)))
    else:

        class Around(torch.nn.Module):
            """As torch.compile's module, which accelerate puts around DDP."""

            def __init__(self) -> None:
                super().__init__()
                self.inside = DistributedDataParallel(model)

            def forward(self, **inputs: Any) -> Any:
                return self.inside(**inputs)

        wrapped = Around()
    with torch.no_grad():
        rewards = chunked_rewards(wrapped, **inputs, overhead_tokens=10)
        n_passes = len(passes)
        expected = wrapped(**inputs).logits.squeeze(-1)
    return {"passes": n_passes, "furthest": float((rewards - expected).abs().max())}


def fsdp_case(models: Mapping[str, Path]) -> dict[str, Any]:
    """Adapters over models that Accelerate shards by our blocks."""
    import torch
    from torch.distributed.fsdp import FSDPModule

    ids = torch.arange(4, 24).reshape(2, 10)

    def adapted(kind: str) -> Any:
        return classifier(kind, models[kind], adapter=True).eval()

    def rewards_and_norm(model: Any) -> tuple[list[float], float]:
        rewards = model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits[:, 0]
        rewards.sum().backward()
        found = [weights.grad for weights in model.parameters() if weights.grad is not None]
        whole = [grad.full_tensor() if hasattr(grad, "full_tensor") else grad for grad in found]
        model.zero_grad()
        return rewards.tolist(), sum(float(grad.square().sum()) for grad in whole)

    found: dict[str, Any] = {}
    for kind in models:
        model = adapted(kind)
        alone = rewards_and_norm(model)
        model = sharded(model)
        shards = sorted({type(part).__name__ for part in model.modules() if isinstance(part, FSDPModule)})
        found[kind] = {"alone": alone, "together": rewards_and_norm(model), "shards": shards}
    return found


def sharded(model: Any) -> Any:
    # Accelerate takes FSDP up on accelerators alone, so what its `prepare` calls is called here.
    import torch
    from accelerate import FullyShardedDataParallelPlugin
    from accelerate.utils.fsdp_utils import fsdp2_prepare_model

    plugin = FullyShardedDataParallelPlugin(
        fsdp_version=2, auto_wrap_policy="transformer_based_wrap", cpu_ram_efficient_loading=False
    )
    shard_blocks(plugin, model)
    accelerator = SimpleNamespace(
        state=SimpleNamespace(fsdp_plugin=plugin), mixed_precision="no", is_main_process=True,
        device=torch.device("cpu"), parallelism_config=None,
    )  # fmt: skip
    return fsdp2_prepare_model(accelerator, model)


LIMIT = 12  # BOS and four marks leave seven words


@pytest.fixture(scope="module")
def template(llama: Path) -> Template:
    return load_template(ModelSpec(str(llama), "fp32", LIMIT))


def test_cut_and_identical_pairs_are_counted_and_the_rest_keeps_its_order(
    template: Template, words: Callable[..., str]
) -> None:
    prompt = user_prompt(words(2))
    pairs = [
        Pair(prompt, words(5), words(3, start=20)),  # exactly twelve tokens: not cut
        Pair(prompt, words(6), words(3, start=20)),  # one side cut
        Pair(prompt, words(3, start=20), words(9)),  # the other side cut
        Pair(prompt, words(8), words(9)),  # both cut, different only past the cut
        Pair(prompt, words(8), words(8, start=30)),  # both cut, still different
        Pair(prompt, words(4), words(4)),  # the same from the start
    ]
    encoded = encode_pairs([TrainingExample(pair) for pair in pairs], template)
    assert encoded.n_truncated == 4
    assert encoded.n_identical == 2
    assert encoded.dataset["length"] == [12, 12, 12, 12]
    for side in ("chosen", "rejected"):  # as scoring reads them
        read = [template.encode(prompt, getattr(pairs[row], side)).ids for row in (0, 1, 2, 4)]
        assert encoded.dataset[f"{side}_ids"] == read


if __name__ == "__main__":
    one_of_two(int(sys.argv[1]), Path(sys.argv[2]), {"llama": Path(sys.argv[3]), "bert": Path(sys.argv[4])})
