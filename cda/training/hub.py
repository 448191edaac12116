"""Uploads to the Hugging Face hub: checks before any work, the repository, and a folder as a commit there."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any

from cda.errors import ModelError
from cda.models.refusals import first_line

HUB_KEYS = ("push_to_hub", "hub_model_id", "hub_strategy", "hub_private_repo", "hub_always_push", "hub_revision")
"""Settings of `train:` that decide where and when a training is uploaded, and nothing of the adapter."""
NOT_UPLOADED = ("stage.json", "training_args.bin")
"""Files of an adapter's folder that speak of this machine: the run's record, and the trainer's own dump of its settings."""
_MESSAGE = "Model with its card, by cda"
_NAME = r"[A-Za-z0-9][\w.-]*"
_REPOSITORY = re.compile(rf"{_NAME}/{_NAME}", re.ASCII)
_OWN_REPOSITORY = re.compile(rf"({_NAME}/)?{_NAME}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Repository:
    """A model repository of the hub: `organisation/name`, or the name of one of the user's own; if it is new, private, public, or
    (None) as its owner's default is; a branch, None for the main one."""

    name: str
    private: bool | None = True
    branch: str | None = None


def asked_repository(train: Mapping[str, Any]) -> Repository | None:
    """The repository of a recipe's `train:`; None if it pushes nothing."""
    if not train.get("push_to_hub"):
        return None
    return Repository(str(train["hub_model_id"]), train.get("hub_private_repo"), train.get("hub_revision"))


def hub_problems(train: Mapping[str, Any]) -> list[str]:
    """What a push of `train:` lacks on this machine, a sentence each."""
    from huggingface_hub import get_token

    if not train.get("push_to_hub"):
        return []
    problems = []
    if get_token() is None:
        problems.append("train.push_to_hub: no token of the Hugging Face hub is here; `hf auth login`, or set HF_TOKEN")
    name = train.get("hub_model_id")
    if name is not None and not _OWN_REPOSITORY.fullmatch(str(name)):
        problems.append(
            f"train.hub_model_id: {str(name)!r} cannot be the name of a repository; it has the form organisation/name"
        )
    return problems


def only_here(base: str, is_embedded: bool) -> str:
    """Why an adapter of a base in a folder of this machine is not pushed."""
    return f"the adapter's base is {'the embedded model' if is_embedded else f'a folder here ({base})'}, which only this machine has"


def check_push(repo_id: str) -> None:
    """Raise ModelError if a repository's name is invalid or no user is logged in, before anything is computed."""
    from huggingface_hub import get_token

    if not _REPOSITORY.fullmatch(repo_id):
        raise ModelError(f"{repo_id!r}: cannot be the name of a repository; it has the form organisation/name")
    if get_token() is None:
        raise ModelError(
            f"{repo_id}: no token of the hub is set. Log in with `hf auth login`, or set HF_TOKEN to a token that may write"
        )


def made_repository(repository: Repository) -> str:
    """Make a repository and its branch if they are missing; its `organisation/name`. ModelError: no right to write, or no connection."""
    try:
        return _made(repository)
    except Exception as error:  # of whatever HTTP library the hub's client stands on
        raise ModelError(f"{repository.name}: {_why(error)}") from None


def push(folder: Path, repository: Repository) -> str:
    """Upload a folder to a repository, made if missing; the commit's address. ModelError: no right to write, or no connection; the
    folder stays as it is."""
    from huggingface_hub import HfApi

    try:
        uploaded = HfApi().upload_folder(
            repo_id=_made(repository),
            folder_path=str(folder),
            revision=repository.branch,
            commit_message=_MESSAGE,
            ignore_patterns=list(NOT_UPLOADED),
        )
        return str(uploaded)
    except Exception as error:
        raise ModelError(
            f"{repository.name}: {_why(error)}. {folder} is whole; push it with `{by_hand(folder, repository)}`"
        ) from None


def by_hand(folder: Path, repository: Repository) -> str:
    """The command that uploads a folder as `push` does."""
    left_out = [f"--exclude {name}" for name in NOT_UPLOADED if (folder / name).is_file()]
    branch = [] if repository.branch is None else [f"--revision {repository.branch}"]
    private = ["--private"] if repository.private else []
    return " ".join(["hf upload", repository.name, quote(str(folder)), *left_out, *branch, *private])


def _made(repository: Repository) -> str:
    from huggingface_hub import HfApi

    api = HfApi()
    name = str(api.create_repo(repository.name, private=repository.private, exist_ok=True).repo_id)
    if repository.branch is not None:
        api.create_branch(name, branch=repository.branch, exist_ok=True)
    return name


def _why(error: Exception) -> str:
    from huggingface_hub.errors import HfHubHTTPError

    if not isinstance(error, HfHubHTTPError):
        return f"the hub cannot be reached ({first_line(error)})"
    is_denied = error.response.status_code in (401, 403)
    todo = "the token may not write there; make one that may" if is_denied else "try again"
    return f"the hub refused ({first_line(error)}): {todo}"
