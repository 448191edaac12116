"""The files that hold a model's weights: safetensors alone, inside the model's folder, all there and whole."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from cda.errors import DataError, ModelError
from cda.files.jsonl import read_json
from cda.models.refusals import first_line

INDEX = "model.safetensors.index.json"
WHOLE = "model.safetensors"
_POINTER = b"version https://git-lfs"


def check_weight_files(name_or_path: str, revision: str | None, config: Any) -> None:
    """Raise ModelError if a model's weights would be read from anything but whole safetensors files of its own.

    An index may name any file for a shard, and Transformers reads one that is no safetensors as a pickle, which can run code; so may
    `transformers_weights` in config.json. On the hub the index is fetched, and shards are checked when they are read.
    """
    folder, named = Path(name_or_path), getattr(config, "transformers_weights", None)
    if named is not None:
        _check_names(f"{name_or_path}: config.json", [named], (".safetensors", ".safetensors.index.json"))
    if not folder.is_dir():
        if (index := _fetched(name_or_path, INDEX if named is None else named, revision)) is not None:
            shards(index)
        return
    first = folder / (named or (WHOLE if (folder / WHOLE).is_file() else INDEX))
    files = shards(first) if first.name.endswith(".json") and first.is_file() else [first.name]
    if absent := [file for file in files if not (folder / file).is_file()]:
        raise ModelError(
            f"{folder}: {len(absent)} of its {len(files)} weight files are missing ({', '.join(absent[:3])}); was the download or save "
            "interrupted?"
        )
    for file in files:
        _check_whole(folder / file)


def shards(index: Path) -> list[str]:
    """Names of the files that an index names, sorted. ModelError: it cannot be read, or names a file of another format or folder."""
    try:
        content = read_json(index)
    except DataError as error:
        raise ModelError(f"{error}; was the download or save interrupted?") from None
    places = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(places, dict) or not places or not isinstance(content.get("metadata"), dict):
        raise ModelError(
            f"{index}: is no index of weights, which has weight_map (tensor to file) and metadata; save the model again"
        )
    files = list(dict.fromkeys(places.values()))
    _check_names(str(index), files)
    return sorted(files)


def _check_names(where: str, files: Sequence[object], ends: tuple[str, ...] = (".safetensors",)) -> None:
    for file in files:
        if not isinstance(file, str) or not file.endswith(ends):
            raise ModelError(
                f"{where} names {str(file)[:80]!r} for weights. Only safetensors are read: a pickle can run code. Convert the weights to "
                "safetensors (save_pretrained does) first"
            )
        path = PurePosixPath(file)
        if path.is_absolute() or ".." in path.parts or "\\" in file or "\0" in file:
            raise ModelError(
                f"{where} names {file[:80]!r}, a file outside of the model's folder; put it in, and name it without a path"
            )


def _check_whole(file: Path) -> None:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="np"):
            return
    except (SafetensorError, OSError) as error:
        with file.open("rb") as opened:
            pointer = opened.read(len(_POINTER)) == _POINTER
        why = (
            "is a pointer of Git LFS, not the weights: run `git lfs pull` in its folder"
            if pointer
            else (f"cannot be read ({first_line(error)}); was the download or save interrupted?")
        )
        raise ModelError(f"{file}: {why}") from None


def _fetched(name: str, file: str, revision: str | None) -> Path | None:
    from transformers.utils import cached_file

    if not file.endswith(".json"):
        return None
    try:
        path = cached_file(name, file, revision=revision, _raise_exceptions_for_missing_entries=False)
    except (OSError, ValueError):  # loading the model fails for the same reason, and says so
        return None
    return None if path is None else Path(path)
