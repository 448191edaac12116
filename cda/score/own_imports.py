"""The files of a user's own that a Python file imports, and those that these import: all of them decide what it computes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

_INSTALLED = ("site-packages", "dist-packages")


def own_files(file: Path, module: str | None = None) -> list[Path]:
    """A file first, and then the files that it imports from its own folder or package, sorted; no installed packages.

    Args:
        file: Python file.
        module: Dotted name under which it was imported; None where it was run as a file.

    Raises:
        OSError: Cannot be read.
    """
    root = file.parent
    if module is not None:
        depth = module.count(".") + (file.name == "__init__.py")
        root = file.parents[depth]
    # Among installed packages everything is a neighbour: there, a package's own files count alone.
    alone = module.partition(".")[0] if module is not None and root.name in _INSTALLED else None
    found, left = {file}, [file]
    while left:
        for path in _imported(left.pop(), root):
            if path not in found and (alone is None or path.relative_to(root).parts[0].removesuffix(".py") == alone):
                found.add(path)
                left.append(path)
    return [file, *sorted(found - {file})]


def _imported(file: Path, root: Path) -> Iterator[Path]:
    """Files below a folder that a file's import statements name, wherever in it they stand."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError, RecursionError):
        return  # running it says what is wrong
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for one in node.names:
                yield from _files_of(root, one.name.split("."))
        elif isinstance(node, ast.ImportFrom):
            start = root if node.level == 0 else file.parents[node.level - 1]
            parts = node.module.split(".") if node.module else []
            for one in node.names:
                yield from _files_of(start, [*parts, one.name])


def _files_of(folder: Path, parts: list[str]) -> Iterator[Path]:
    """The module of a dotted name and the packages that it is in, as far as they are files there."""
    for n in range(len(parts) + 1):
        place = folder.joinpath(*parts[:n])
        if n and (file := place.with_suffix(".py")).is_file():
            yield file
            return
        if (file := place / "__init__.py").is_file():
            yield file
        elif n and not place.is_dir():
            return
