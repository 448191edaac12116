"""Why a name cannot be loaded as a model, in words for the user."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cda.files.paths import is_there

_WEIGHT_FILES = ("*.safetensors", "*.safetensors.index.json")


def folder_problems(name_or_path: str) -> list[str]:
    """Why a local name cannot be a model folder with safetensors weights; empty for one, and for a hub id."""
    path = Path(name_or_path)
    if not is_there(path):
        if name_or_path.startswith(("/", ".", "~")) or name_or_path.count("/") > 1:
            return [f"{name_or_path}: no such folder"]
        return []
    if not path.is_dir():
        return [f"{name_or_path}: a model is a folder, not a file"]
    problems = []
    if not (path / "config.json").is_file():
        problems.append(f"{name_or_path}: no config.json; not a model folder")
    if not any(True for pattern in _WEIGHT_FILES for _ in path.glob(pattern)):
        pickles = [file.name for file in [*path.glob("*.bin"), *path.glob("*.pt"), *path.glob("*.pth")]]
        if pickles:
            problems.append(
                f"{name_or_path}: only pickle weights ({', '.join(sorted(pickles)[:3])}), which can run code when read. "
                "Convert them to safetensors first"
            )
        else:
            problems.append(f"{name_or_path}: no weights (*.safetensors); was the download or save interrupted?")
    return problems


def own_code_needed(name_or_path: str) -> str:
    """That a model comes with code, which nobody has allowed."""
    return (
        f"{name_or_path}: needs code of its own. That code runs with your rights; read it, "
        "then allow it with model.trust_remote_code=true"
    )


def brings_its_class(config: Any, auto: str) -> bool:
    """Whether a model names code of its own for an auto class.

    Where Transformers knows its `model_type` it would load its own class in silence, which computes other scores.

    Args:
        config: The model's configuration.
        auto: Such as `AutoModelForSequenceClassification`.
    """
    return auto in (getattr(config, "auto_map", None) or {})


def why_not_loadable(name_or_path: str, what: str, error: Exception) -> str:
    """What an error of Transformers means for the user.

    Args:
        name_or_path: The model.
        what: What it was to be loaded as, such as `a sequence classifier`.
        error: As raised.
    """
    text = str(error)
    if "trust_remote_code" in text:
        return own_code_needed(name_or_path)
    if "safetensors" in text and "not" in text:
        return f"{name_or_path}: offers no safetensors weights ({first_line(error)}). Convert them first"
    return f"{name_or_path}: cannot be loaded as {what} ({first_line(error)})"


def first_line(error: Exception) -> str:
    """What an error says, short enough for a message."""
    return (str(error) or type(error).__name__).splitlines()[0][:300]
