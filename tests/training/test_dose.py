"""Dose: the loaded model, the exported adapter and the sum of several all give the scores of the scaled update."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tiny import edit_json, load, scores_of

from cda.errors import ModelError
from cda.models.config import ModelSpec
from cda.models.load import RewardModel
from cda.training.dose import DosedModel, compose_adapters, head_of, read_head

if TYPE_CHECKING:
    from conftest import Texts

# Scores of the same weights: where in memory a matrix lies decides how its products are rounded.
SAME = 2e-6
# Of the spread of the scores: 8-bit rounds activations anew at each layer, so that the same weights in another order of
# sums can move a score by one such step. Measured: less than 1e-7, with one text a batch.
LARGEST_8BIT_SHARE = 0.01
AdapterMaker = Callable[..., Path]


@pytest.fixture(scope="module")
def make_adapter(tmp_path_factory: pytest.TempPathFactory) -> AdapterMaker:
    """Saves an adapter of random weights, large enough to move scores by their own size."""
    root = tmp_path_factory.mktemp("adapters")

    def make(base: Path, name: str, targets: list[str] | str, seed: int, size: float = 0.1, **options: Any) -> Path:
        import torch
        from peft import LoraConfig, get_peft_model

        loaded = load(base)
        options = {"r": 4, "lora_alpha": 8, **options}
        config = LoraConfig(
            task_type="SEQ_CLS", target_modules=targets, modules_to_save=list(loaded.head_names), **options
        )
        model = get_peft_model(loaded.model, config)
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.requires_grad:
                    parameter += size * torch.randn(parameter.shape, generator=generator).to(parameter)
        model.save_pretrained(str(root / name))
        return root / name

    return make


@pytest.fixture(scope="module")
def adapters(make_adapter: AdapterMaker, llama: Path, roberta: Path) -> dict[Path, tuple[Path, Path]]:
    """Two adapters of each base, of other layers and ranks."""
    return {
        llama: (
            make_adapter(llama, "llama-1", ["q_proj", "v_proj"], 1),
            make_adapter(llama, "llama-2", ["v_proj", "down_proj"], 2, r=3, lora_alpha=9, use_rslora=True),
        ),
        roberta: (
            make_adapter(roberta, "roberta-1", ["query", "value"], 1),
            make_adapter(roberta, "roberta-2", ["key"], 2, r=2, rank_pattern={"layer.1.attention.self.key": 5}),
        ),
    }


@pytest.fixture(scope="module", params=["llama", "roberta"])
def base(request: pytest.FixtureRequest) -> Path:
    found: Path = request.getfixturevalue(request.param)
    return found


def test_exported_doses_score_as_the_dosed_model(
    base: Path, adapters: dict[Path, tuple[Path, Path]], texts: Texts, tmp_path: Path
) -> None:
    for adapter, doses in zip(adapters[base], ((0.0, 0.5, 2.0), (1.0, 1.5)), strict=True):
        dosed, head = DosedModel(load(base, adapter)), read_head(ModelSpec(str(base)))
        for dose in doses:
            dosed.set(dose)
            folder = tmp_path / f"{adapter.name}-{dose}"
            compose_adapters([(adapter, dose)], head, folder)
            np.testing.assert_allclose(
                scores_of(load(base, folder), texts), scores_of(dosed.reward_model, texts), atol=1e-5
            )


def test_a_dose_of_0_is_the_base_and_of_1_the_adapter_whatever_was_set_between(
    base: Path, adapters: dict[Path, tuple[Path, Path]], texts: Texts
) -> None:
    adapter, plain = adapters[base][0], scores_of(load(base), texts)
    trained = scores_of(load(base, adapter), texts)
    assert np.abs(trained - plain).max() > 0.2 * np.ptp(plain)  # else the test shows nothing
    dosed = DosedModel(load(base, adapter))
    for dose in (1.7, 0.0, 0.3, 1.0, 2.5, 0.0, 1.0):
        dosed.set(dose)
        found = scores_of(dosed.reward_model, texts)
        if dose in (0.0, 1.0):
            np.testing.assert_allclose(found, trained if dose else plain, rtol=0, atol=SAME)
        else:
            assert np.abs(found - trained).max() > 1e-3 and np.abs(found - plain).max() > 1e-3


def test_composed_adapters_add_their_updates(
    base: Path, adapters: dict[Path, tuple[Path, Path]], texts: Texts, tmp_path: Path
) -> None:
    first, second = adapters[base]
    compose_adapters([(first, 0.5), (second, 1.25)], read_head(ModelSpec(str(base))), tmp_path / "both")
    plain = weights_of(load(base))
    one, two, both = (weights_of(load(base, folder), merge=True) for folder in (first, second, tmp_path / "both"))
    for name, before in plain.items():
        wanted = before + 0.5 * (one[name] - before) + 1.25 * (two[name] - before)
        np.testing.assert_allclose(both[name], wanted, atol=1e-5, err_msg=name)
    unmerged = scores_of(load(base, tmp_path / "both"), texts)
    assert np.ptp(unmerged) > 0 and not np.allclose(unmerged, scores_of(load(base, first), texts), atol=1e-2)


def test_stock_libraries_load_the_result(
    llama: Path, adapters: dict[Path, tuple[Path, Path]], texts: Texts, tmp_path: Path
) -> None:
    import torch
    from peft import PeftModel
    from transformers import AutoModelForSequenceClassification

    compose_adapters([(adapters[llama][0], 1.5)], read_head(ModelSpec(str(llama))), tmp_path / "one")
    compose_adapters([(one, 0.7) for one in adapters[llama]], read_head(ModelSpec(str(llama))), tmp_path / "both")
    for folder in (tmp_path / "one", tmp_path / "both"):
        ours = load(llama, folder)
        stock = AutoModelForSequenceClassification.from_pretrained(str(llama), num_labels=1, dtype=torch.float32)
        model = PeftModel.from_pretrained(stock, str(folder)).eval()
        for prompt, response, score in zip(texts.prompts, texts.responses, scores_of(ours, texts), strict=True):
            ids = torch.tensor([ours.template.encode(prompt, response).ids])
            with torch.inference_mode():
                assert abs(model(input_ids=ids).logits.item() - score) < 1e-5
        config = json.loads((folder / "adapter_config.json").read_text())
        assert (config["task_type"], config["modules_to_save"]) == ("SEQ_CLS", ["score"])
    assert config["r"] == config["lora_alpha"] == 4 + 3


def test_doses_over_an_8bit_base(
    llama: Path, adapters: dict[Path, tuple[Path, Path]], texts: Texts, tmp_path: Path
) -> None:
    adapter = adapters[llama][0]
    plain = scores_of(load(llama, precision="8bit"), texts)
    dosed, head = DosedModel(load(llama, adapter, "8bit")), read_head(ModelSpec(str(llama)))
    for dose in (0.0, 0.7, 1.9):  # powers of two would round nothing
        dosed.set(dose)
        found = scores_of(dosed.reward_model, texts)
        if dose == 0:
            np.testing.assert_allclose(found, plain, rtol=0, atol=SAME)
        compose_adapters([(adapter, dose)], head, tmp_path / str(dose))
        moved = np.abs(scores_of(load(llama, tmp_path / str(dose), "8bit"), texts) - found).max() / np.ptp(found)
        print(f"8bit, dose {dose}: the export's scores differ by {moved:.5%} of the spread")
        assert moved < LARGEST_8BIT_SHARE


def test_the_base_head_is_read_without_loading_the_model(base: Path, adapters: dict[Path, tuple[Path, Path]]) -> None:
    loaded = head_of(load(base))
    read = read_head(ModelSpec(str(base)))
    under_adapter = head_of(load(base, adapters[base][0]))
    assert read.keys() == loaded.keys() == under_adapter.keys() and read
    for name, weights in loaded.items():
        np.testing.assert_array_equal(read[name].numpy(), weights.cpu().numpy())
        np.testing.assert_array_equal(under_adapter[name].cpu().numpy(), weights.cpu().numpy())


def test_the_base_head_is_read_from_shards(llama: Path, tmp_path: Path) -> None:
    model = load(llama).model
    model.save_pretrained(str(tmp_path), max_shard_size="50KB")
    assert (tmp_path / "model.safetensors.index.json").is_file()
    np.testing.assert_array_equal(
        read_head(ModelSpec(str(tmp_path)))["score.weight"].numpy(), model.score.weight.detach().cpu().numpy()
    )


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"peft_type": "IA3"}, "is a IA3 adapter"),
        ({"task_type": "CAUSAL_LM"}, "was made for another kind of model (task_type CAUSAL_LM)"),
        ({"use_dora": True}, "uses use_dora"),
        ({"bias": "lora_only"}, "uses bias lora_only"),
        ({"init_lora_weights": "pissa_niter_16"}, "uses init_lora_weights pissa_niter_16"),
        ({"rank_pattern": {"v_proj": 2}}, "v_proj does not fit its configuration (A (4, 64)"),
        ({"r": 8}, "does not fit its configuration"),
    ],
)
def test_what_a_dose_cannot_represent_is_refused(
    change: Mapping[str, Any], part: str, llama: Path, adapters: dict[Path, tuple[Path, Path]], tmp_path: Path
) -> None:
    folder = tmp_path / "odd"
    shutil.copytree(adapters[llama][0], folder)
    edit_json(folder / "adapter_config.json", **change)
    with pytest.raises(ModelError) as error:
        compose_adapters([(folder, 1.0)], read_head(ModelSpec(str(llama))), tmp_path / "out")
    assert str(error.value).startswith(f"{folder}: ") and part in str(error.value)
    assert not (tmp_path / "out").exists()


def test_other_heads_bases_and_doses_are_refused(
    llama: Path, bert: Path, adapters: dict[Path, tuple[Path, Path]], tmp_path: Path
) -> None:
    head, adapter = read_head(ModelSpec(str(llama))), adapters[llama][0]
    with pytest.raises(ModelError, match="holds no weights for the score head 'classifier'"):
        compose_adapters([(adapter, 1.0)], read_head(ModelSpec(str(bert))), tmp_path / "out")
    with pytest.raises(
        ModelError, match=r"holds score\.weight \(1, 64\), and the base's head is score\.weight \(1, 32\)"
    ):
        compose_adapters([(adapter, 1.0)], {"score.weight": head["score.weight"][:, :32]}, tmp_path / "out")
    for dose in (-0.5, math.nan, math.inf):
        with pytest.raises(ModelError, match="must be a number from 0"):
            compose_adapters([(adapter, dose)], head, tmp_path / "out")
        with pytest.raises(ModelError, match="must be a number from 0"):
            DosedModel(load(llama, adapter)).set(dose)
    with pytest.raises(ModelError, match="was loaded without an adapter"):
        DosedModel(load(llama))


def weights_of(reward_model: RewardModel, merge: bool = False) -> dict[str, Any]:
    model = reward_model.model.merge_and_unload() if merge else reward_model.model
    return {name: weights.detach().cpu().numpy().copy() for name, weights in model.named_parameters()}
