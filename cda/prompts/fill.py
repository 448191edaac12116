"""Texts with placeholders in braces: which may stand in them, which have to, and filling them in."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from cda.errors import did_you_mean

_PLACE = re.compile(r"\{\{(\w+)\}\}|\{(\w+)\}")


def check_places(text: str, needed: Collection[str], known: Collection[str]) -> str:
    """The text without white space around it, once its placeholders are the ones that can be filled in.

    Args:
        text: Has placeholders in braces; `{{word}}` stands for `{word}` itself.
        needed: Names without which an answer means nothing.
        known: All names that may stand there.

    Raises:
        ValueError: It is empty, lacks placeholders, or has unknown ones; all of it at once.
    """
    found = places(text)
    problems = [] if text.strip() else ["holds no text"]
    if missing := [name for name in needed if name not in found]:
        problems.append(f"needs {_listed(missing)}")
    for name in dict.fromkeys(found):
        if name not in known:
            problems.append(
                f"unknown placeholder {{{name}}}.{did_you_mean(name, known)} Known here: {_listed(known) or 'none'} "
                f"(write {{{{{name}}}}} for the braces themselves)"
            )
    if problems:
        raise ValueError("; ".join(problems))
    return text.strip()


def places(text: str) -> list[str]:
    """Names of the placeholders, in their order."""
    return [one[2] for one in _PLACE.finditer(text) if one[2]]


def filled(text: str, values: Mapping[str, str]) -> str:
    """The text with its placeholders filled in; a paragraph whose placeholders are all empty is left out.

    Values are put in as they are: braces in them stay braces.

    >>> filled("{message}\\n\\nEdit: {edit} as {{json}}", {"message": "", "edit": "Say {message}."})
    'Edit: Say {message}. as {json}'
    """
    kept = [one for one in text.split("\n\n") if not places(one) or any(values[name] for name in places(one))]
    return _PLACE.sub(lambda found: values[found[2]] if found[2] else f"{{{found[1]}}}", "\n\n".join(kept))


def with_sentences(text: str, values: Mapping[str, str], sentences: Sequence[str]) -> str:
    """The filled text; of `sentences`, those for which it has no placeholder are put at its end."""
    own = places(text)
    return " ".join([filled(text, values), *(values[name] for name in sentences if name not in own)])


def _listed(names: Collection[str]) -> str:
    return ", ".join(f"{{{name}}}" for name in names)
