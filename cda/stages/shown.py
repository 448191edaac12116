"""Models, files and options by name: in results without a path of this machine, and in the names of folders."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from cda.config.scoring import bare_name, kind_of, policy_and_reference
from cda.files.paths import is_a_file, is_there, user_path
from cda.run import fingerprint

_LONGEST_WORD = 24


def shown_path(given: str | Path) -> str:
    """A file or folder as it stands in results: as it was given, but of a path from the root, home or above its end alone.

    Hub ids and other names stay as they are.

    >>> shown_path("org/model"), shown_path("runs/a"), shown_path("/home/me/pairs.jsonl"), shown_path("/x/run/train/adapter")
    ('org/model', 'runs/a', 'pairs.jsonl', 'run/train/adapter')
    """
    text = str(given)
    path = user_path(text)
    if not (path.is_absolute() or text.startswith("~") or ".." in path.parts):
        return text
    known = path.resolve()
    # The adapter of a run is named `adapter` in every run.
    return "/".join(known.parts[-3:]) if known.parent.name == "train" else known.name


def shown_target(target: str) -> str:
    """A model's name with its kind, as it was given but for paths of this machine.

    >>> shown_target("dpo:/m/policy,org/base"), shown_target("/home/me/mine.py:reward"), shown_target("judge:org/m")
    ('dpo:policy,org/base', 'mine.py:reward', 'judge:org/m')
    """
    kind, bare = kind_of(target), bare_name(target)
    prefix = target.removesuffix(bare)
    if kind in ("judge", "served"):
        return target
    if kind == "function":
        file, _, function = target.rpartition(":")
        return f"{shown_path(file)}:{function}"
    if kind == "classifier":
        return shown_path(target)
    policy, reference = policy_and_reference(target)
    return prefix + ",".join(shown_path(one) for one in (policy, reference) if one is not None)


def told_apart(target: str, beside: Mapping[str, object], settings: Sequence[str] = ()) -> str:
    """The end of a folder's name: what else was asked for, in words as far as they are short, and as a fingerprint of all.

    Args:
        target: The model, which stands before it in the name.
        beside: What else was asked for, such as an adapter or files, each under a word that stands before it. None is left
            out; empty where nothing is left. A list is of files.
        settings: What else decides the answer, in words of the command line; for the fingerprint alone.
    """
    given = {word: value for word, value in beside.items() if value is not None}
    if not given and not settings:
        return ""
    parts = [f"-{word}-{_short(value)}" for word, value in given.items()]
    told = {word: value if isinstance(value, list) else str(value) for word, value in given.items()}
    return f"{''.join(parts)}-{fingerprint([target, told, sorted(settings)] if settings else [target, told])[:6]}"


def _short(given: object) -> str:
    """A file or folder by its last part, anything else as a whole; as it can stand in a name."""
    if isinstance(given, list):
        return "-".join(map(_short, given))[:_LONGEST_WORD].strip("-.")
    value = str(given)
    path = Path(value)
    known = (path.stem if is_a_file(path) else path.name) if is_there(path) else value
    return re.sub(r"[^A-Za-z0-9._-]+", "-", known).strip("-.")[-_LONGEST_WORD:] or "x"
