"""Files that come with the package: recipes, presets, biases and prompts, by name. Imports nothing heavy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

_PACKAGE = Path(__file__).parent.parent


def recipes_folder() -> Path:
    """Folder of the shipped recipes: next to the package in a checkout, inside it in a wheel."""
    inside = _PACKAGE / "_recipes"
    return inside if inside.is_dir() else _PACKAGE.parent / "recipes"


FOLDERS = {
    "biases": _PACKAGE / "biases",
    "recipes": recipes_folder(),
    "models": recipes_folder() / "models",
    "prompts": _PACKAGE / "prompts",
}
"""Kinds of names to the folder of their files; prompts lie in a folder for each use."""


def names_in(folder: Path) -> list[str]:
    """Names of the YAML files in a folder."""
    return sorted(path.stem for path in folder.glob("*.yaml"))


def shipped(kind: str) -> Iterator[tuple[str, str, Path]]:
    """Name, first sentence and file of everything of a kind of `FOLDERS`, in order of the names."""
    for path in sorted(FOLDERS[kind].rglob("*.yaml") if kind == "prompts" else FOLDERS[kind].glob("*.yaml")):
        name = path.relative_to(FOLDERS[kind]).with_suffix("").as_posix()
        yield name, _sentence(path.read_text(encoding="utf-8")), path


def _sentence(text: str) -> str:
    """First sentence of a file: of its description, else of the comment that it opens with."""
    lines = text.splitlines()
    start = next((number for number, line in enumerate(lines) if line.startswith("description:")), None)
    if start is not None:
        words = [lines[start].removeprefix("description:").strip(" >-'\"")]
        for line in lines[start + 1 :]:
            if line[:1].strip():
                break
            words.append(line.strip())
    else:
        words = []
        for line in lines:
            if not line.startswith("#") or not line.strip("# "):
                break
            words.append(line.strip("# "))
    first, stop, _ = " ".join(filter(None, words)).partition(". ")
    return f"{first}." if stop else first
