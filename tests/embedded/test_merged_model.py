"""The folder of a merged embedded model is that of its adapter and its encoder, whichever changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from cda.embedded import model
from cda.embedded.model import embedded_model_folder


def test_another_encoder_or_adapter_is_merged_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder, adapter = tmp_path / "encoder", tmp_path / "adapter"
    for folder in (encoder, adapter):
        folder.mkdir()
        (folder / "weights").write_text("one", encoding="utf-8")
    monkeypatch.setenv("CDA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(model, "encoder_folder", lambda: encoder)
    monkeypatch.setattr(model, "ADAPTERS", {"embedded": adapter})
    merged = lambda _, __, folder: (folder / "model.safetensors").write_text("merged", encoding="utf-8")  # noqa: E731
    monkeypatch.setattr(model, "save_merged", merged)
    first = embedded_model_folder()
    assert first == embedded_model_folder() and (first / "model.safetensors").is_file()
    (encoder / "weights").write_text("two", encoding="utf-8")
    second = embedded_model_folder()
    (adapter / "adapter_config.json").write_text("{}", encoding="utf-8")
    assert len({first, second, embedded_model_folder()}) == 3
