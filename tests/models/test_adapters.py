"""Adapters next to the base that they were trained on, next to one of another shape, and next to one of another name."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cda.errors import ModelError
from cda.models.adapters import check_base
from cda.models.config import ModelSpec, load_config

if TYPE_CHECKING:
    from conftest import ModelMaker, Trained


def checked(adapter: Path, model: Path, revision: str | None = None) -> str | None:
    spec = ModelSpec(str(model), revision=revision)
    return check_base(adapter, spec, load_config(ModelSpec(str(model))))


def of_base(adapter: Path, folder: Path, **named: object) -> Path:
    shutil.copytree(adapter, folder)
    config = json.loads((folder / "adapter_config.json").read_text())
    (folder / "adapter_config.json").write_text(json.dumps(config | named))
    return folder


def test_an_adapter_fits_its_base_wherever_that_lies(trained_fp32: Trained, llama: Path, tmp_path: Path) -> None:
    adapter = trained_fp32.result.adapter
    assert checked(adapter, llama) is None and not (adapter / "README.md").exists()
    moved = Path(shutil.copytree(llama, tmp_path / "elsewhere" / llama.name))
    assert checked(adapter, moved) is None


def test_a_base_of_another_shape_is_refused_in_one_sentence(
    trained_fp32: Trained, llama: Path, llama_maker: ModelMaker
) -> None:
    adapter = trained_fp32.result.adapter
    wide = llama_maker("wide", config={"hidden_size": 32, "intermediate_size": 64})
    shallow = llama_maker("shallow", config={"num_hidden_layers": 1})
    for base, why in (
        (
            wide,
            "model.layers.0.self_attn.q_proj.lora_A.weight is 64 in the adapter and 32 in this model. Give the model",
        ),
        (
            shallow,
            "4 of its tensors are without a counterpart there (first: model.layers.1.self_attn.q_proj.lora_A.weight)",
        ),
    ):
        with pytest.raises(ModelError) as refused:
            checked(adapter, base)
        assert f"{adapter}, which was trained on {llama}, does not fit {base}: {why}" in str(refused.value)
        assert "\n" not in str(refused.value)


def test_another_name_or_revision_is_said(trained_fp32: Trained, llama: Path, tmp_path: Path) -> None:
    adapter = trained_fp32.result.adapter
    other = of_base(adapter, tmp_path / "other", base_model_name_or_path="my-org/other")
    assert checked(other, llama) == (
        f"{other}: was trained on my-org/other; on {llama} its scores mean something only if the weights are the same"
    )
    revised = of_base(adapter, tmp_path / "revised", base_model_name_or_path=f"my-org/{llama.name}", revision="v1")
    assert checked(revised, llama, "v1") is None and checked(revised, llama) is None
    said = checked(revised, llama, "v2")
    assert said and said.startswith(
        f"{revised}: was trained on revision v1 of my-org/{llama.name}; at revision v2 its scores"
    )
    nameless = of_base(adapter, tmp_path / "nameless", base_model_name_or_path=None)
    assert checked(nameless, llama) is None
