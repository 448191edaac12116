"""Completions of names and settings in a shell; see `cda completion`. Names are read from folders, so that nothing heavy loads."""

from __future__ import annotations

from collections.abc import Iterable

from cda.files.shipped import FOLDERS, names_in


def _starting(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def biases(incomplete: str) -> list[str]:
    return _starting(names_in(FOLDERS["biases"]), incomplete)


def recipes(incomplete: str) -> list[str]:
    return _starting(names_in(FOLDERS["recipes"]), incomplete)


def kinds(incomplete: str) -> list[str]:
    return _starting(FOLDERS, incomplete)


def models(incomplete: str) -> list[str]:
    """Models and recipes that can be audited by a name alone."""
    return _starting(
        ("embedded", "embedded-judge", "judge:", "grade:", "served:", "dpo:", "scores:"), incomplete
    ) + recipes(incomplete)


def setting_names(incomplete: str) -> list[str]:
    """Keys of a recipe."""
    from cda.recipe.explain import every_setting

    return _starting(every_setting(), incomplete)


def settings(incomplete: str) -> list[str]:
    """Keys of a recipe as overrides; nothing behind the equals sign."""
    return [] if "=" in incomplete else [f"{name}=" for name in setting_names(incomplete)]
