"""The files of a model: what tells how its reward is read (config.json, names and shapes of tensors), and what tells it from others."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

from cda.errors import DataError, ModelError
from cda.files.hub import commit_of
from cda.files.jsonl import read_json
from cda.models.agreement import INDEX, WHOLE
from cda.models.refusals import first_line
from cda.run import file_fingerprint


class ModelFiles:
    """The files of a folder or hub id. Weights on a hub are downloaded when a tensor's shape is asked for."""

    def __init__(self, name_or_path: str, revision: str | None = None) -> None:
        self.name_or_path, self.revision = name_or_path, revision

    @cached_property
    def config(self) -> dict[str, Any]:
        """config.json as it stands; empty if there is none."""
        return self._json("config.json")

    @property
    def architectures(self) -> tuple[str, ...]:
        """Classes that config.json names."""
        named = self.config.get("architectures")
        return tuple(map(str, named)) if isinstance(named, list) else ()

    @property
    def auto_map(self) -> dict[str, Any]:
        """Classes of the model's own code by auto class; empty if they are not named so, which loading refuses."""
        named = self.config.get("auto_map")
        return named if isinstance(named, dict) else {}

    @cached_property
    def chat_template(self) -> str:
        """The tokenizer's chat template; empty if there is none."""
        file = self.path("chat_template.jinja")
        return (
            str(self._json("tokenizer_config.json").get("chat_template") or "")
            if file is None
            else file.read_text("utf-8")
        )

    @cached_property
    def tensors(self) -> dict[str, str]:
        """File of each tensor, by the tensor's name; empty if no weights can be read."""
        if named := self._json(INDEX).get("weight_map"):
            return dict(named) if isinstance(named, dict) else {}  # loading refuses it
        file = self.path(WHOLE)
        return {} if file is None else dict.fromkeys(_names(file), WHOLE)

    def has(self, *prefixes: str) -> bool:
        """True if the weights hold a tensor of each prefix."""
        return all(any(name.startswith(prefix) for name in self.tensors) for prefix in prefixes)

    def shape(self, tensor: str) -> tuple[int, ...] | None:
        """Shape of a tensor; None if there is none."""
        from safetensors import SafetensorError, safe_open

        file = self.path(self.tensors[tensor]) if tensor in self.tensors else None
        if file is None:
            return None
        try:
            with safe_open(file, framework="np") as opened:
                return tuple(opened.get_slice(tensor).get_shape())
        except SafetensorError:  # loading says so
            return None

    def token(self, text: str) -> int:
        """Id of the first token of a text. ModelError: the tokenizer cannot be loaded."""
        from transformers import AutoTokenizer

        try:
            tokenizer = AutoTokenizer.from_pretrained(self.name_or_path, revision=self.revision)
        except Exception as error:  # transformers raises many kinds here
            raise ModelError(f"{self.name_or_path}: its tokenizer cannot be loaded ({first_line(error)})") from None
        return int(tokenizer(text, add_special_tokens=False)["input_ids"][0])

    def _json(self, name: str) -> dict[str, Any]:
        file = self.path(name)
        try:
            content = {} if file is None else read_json(file)
        except DataError as error:
            raise ModelError(str(error)) from None
        return content if isinstance(content, dict) else {}

    def path(self, name: str) -> Path | None:
        """A file's place on this machine; None if there is none."""
        folder = Path(self.name_or_path)
        if folder.is_dir():
            return folder / name if (folder / name).is_file() else None
        from transformers.utils.hub import cached_file

        try:
            found = cached_file(self.name_or_path, name, revision=self.revision)
        except Exception:  # not there, or out of reach: loading says which
            return None
        return None if found is None else Path(found)


def content_of(name_or_path: str, revision: str | None) -> str | None:
    """Fingerprint of all files of a folder; name and commit of a hub model, None if the commit is unknown. DataError: the folder
    cannot be read."""
    if Path(name_or_path).is_dir():
        return file_fingerprint(Path(name_or_path))
    commit = commit_of("model", name_or_path, revision)
    return None if commit is None else f"{name_or_path}@{commit}"


def is_cached(name: str, revision: str | None) -> bool:
    """True if config.json and weights of a hub id are on this machine already, so that reading them downloads nothing large."""
    from huggingface_hub import constants, try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    def is_here(file: str) -> bool:
        return isinstance(try_to_load_from_cache(name, file, constants.HF_HUB_CACHE, revision), str)

    try:
        return is_here("config.json") and (is_here(WHOLE) or is_here(INDEX))
    except HFValidationError:  # no hub id; loading says so
        return False


def _names(file: Path) -> list[str]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="np") as opened:
            return list(opened.keys())
    except SafetensorError:  # loading says so
        return []
