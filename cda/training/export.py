"""Export: an adapter merged into its base as an ordinary model folder, and folders pushed to the hub."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args

from cda.errors import ModelError
from cda.models.load import ModelSpec, load_reward_model, no_bars
from cda.models.refusals import first_line
from cda.training.dose import DosedModel, adapter_config

MergePrecision = Literal["fp32", "bf16"]
_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)


def merge_adapter(
    spec: ModelSpec,
    adapter: Path,
    folder: Path,
    precision: MergePrecision,
    dose: float = 1.0,
    readme: str | None = None,
) -> None:
    """Merge an adapter into a fresh float32 base and save model and tokenizer; the folder appears whole or not at all.

    Args:
        spec: The base; its own precision plays no part.
        adapter: Folder of the adapter, with its head.
        folder: Gets the model; must be new or empty.
        precision: Precision of the saved weights; they are rounded once, after merging.
        dose: Dose of the adapter.
        readme: Content of the folder's README.md.

    Raises:
        ModelError: Precision, adapter or folder cannot be used, or the merged weights are not finite.
    """
    check_precision(precision)
    adapter_config(adapter)
    with new_folder(folder) as partial:
        model, tokenizer = _merged(replace(spec, precision="fp32"), adapter, dose)
        _save(model, precision, partial)
        tokenizer.save_pretrained(str(partial))
        if readme is not None:
            (partial / "README.md").write_text(readme, encoding="utf-8")


def check_precision(precision: str) -> MergePrecision:
    """A precision that a merged model can be saved in; ModelError for another."""
    if precision == "8bit":
        raise ModelError(
            "precision 8bit: merging into 8-bit weights rounds every one of them anew, which moves scores by far more than "
            "8-bit scoring does. Merge into bf16 or fp32; the merged model can be loaded in 8-bit afterwards"
        )
    if precision not in get_args(MergePrecision):
        raise ModelError(f"precision {precision}: a merged model is saved in fp32 or bf16")
    return precision  # type: ignore[return-value]


def check_new_folder(folder: Path) -> None:
    """Raise ModelError if there is a file of that name, or a folder that is not empty."""
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        what = "is a file" if folder.is_file() else "is not empty"
        raise ModelError(f"{folder}: {what}; nothing is written over. Give a new folder")


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """A temporary folder to write into; it becomes the wanted one, which must be new or empty, if the block succeeds."""
    check_new_folder(folder)
    folder = folder.absolute()
    partial = folder.parent / f".{folder.name}.partial"
    if partial.is_symlink() or partial.is_file():
        partial.unlink()  # another's link is not followed
    shutil.rmtree(partial, ignore_errors=True)  # left by a kill
    partial.mkdir(parents=True)
    try:
        yield partial
        partial.replace(folder)  # also over an empty folder
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def check_push(repo_id: str) -> None:
    """Raise ModelError if a repository's name is invalid or no user is logged in, before anything is computed."""
    from huggingface_hub import get_token

    if not _REPOSITORY.fullmatch(repo_id):
        raise ModelError(f"{repo_id!r}: cannot be the name of a repository; it has the form organisation/name")
    if get_token() is None:
        raise ModelError(
            f"{repo_id}: no token of the hub is set. Log in with `hf auth login`, or set HF_TOKEN to a token that may write"
        )


def push(folder: Path, repo_id: str) -> str:
    """Upload a folder to a private repository `organisation/name` of the hub, which is made if missing; returns the commit's address.

    Raises:
        ModelError: No token, no right to write, or no connection; the folder stays as it is.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    check_push(repo_id)
    try:
        api = HfApi()
        api.create_repo(repo_id, private=True, exist_ok=True)
        return str(api.upload_folder(repo_id=repo_id, folder_path=str(folder)))
    except HfHubHTTPError as error:
        status = error.response.status_code
        todo = "the token may not write there; make one that may" if status in (401, 403) else "try again"
        raise ModelError(
            f"{repo_id}: the hub refused ({first_line(error)}): {todo}. {folder} is whole; push it with "
            f"`hf upload {repo_id} {folder}`"
        ) from None
    except Exception as error:  # of whatever HTTP library the hub's client stands on
        raise ModelError(
            f"{repo_id}: the hub cannot be reached ({first_line(error)}). {folder} is whole; push it later with "
            f"`hf upload {repo_id} {folder}`"
        ) from None


def _merged(spec: ModelSpec, adapter: Path, dose: float) -> tuple[Any, Any]:
    """Model and tokenizer, merged in float32."""
    import torch

    try:
        reward_model = load_reward_model(spec, adapter)
        _check_all_used(reward_model.model, adapter)
        DosedModel(reward_model).set(dose)
        return reward_model.model.merge_and_unload(safe_merge=True), reward_model.template.tokenizer
    except torch.cuda.OutOfMemoryError:
        raise ModelError(
            f"{spec.name_or_path}: merging needs the whole model in fp32, 4 bytes a parameter, and the GPU has not enough "
            "memory. Merge in main memory: CUDA_VISIBLE_DEVICES= cda merge ..."
        ) from None
    except ValueError as error:
        if "NaNs" not in str(error):
            raise
        raise ModelError(f"{adapter}: merged at dose {dose}, weights are NaN; the adapter is broken") from None


def _check_all_used(model: object, adapter: Path) -> None:
    """Raise ModelError if PEFT passed silently over weights of layers that the base has not."""
    from peft import get_peft_model_state_dict
    from safetensors import safe_open

    with safe_open(adapter / "adapter_model.safetensors", framework="pt") as opened:
        saved = set(opened.keys())
    loaded = set(get_peft_model_state_dict(model, save_embedding_layers=False))
    if saved != loaded:
        odd = sorted(saved ^ loaded)
        raise ModelError(
            f"{adapter}: does not fit this base: {len(odd)} of its tensors are without a counterpart (first: {odd[0]})"
        )


def _save(model: Any, precision: MergePrecision, folder: Path) -> None:
    import torch

    model = model.to(torch.float32 if precision == "fp32" else torch.bfloat16)
    # The base's path on this machine is private.
    model.config.name_or_path = ""
    with no_bars():
        model.save_pretrained(str(folder))
