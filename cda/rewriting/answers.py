"""Reading named yes/no answers out of a model's text, whether it wrote JSON or plain lines."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from cda.llm.protocol import without_thoughts

_TAIL_CHARACTERS = 20_000  # answers are short; what stands before the end is not read
_WORDS = {"yes": True, "no": False}


def parse_answers(text: str | None, names: Sequence[str]) -> dict[str, bool] | None:
    """Every named answer from the end of a model's text; None unless all are there, once each, as yes or no.

    Read are a JSON object that ends the text, or one last line `name: yes` for each name. What stands before may quote
    the material and is not read.

    >>> parse_answers('{"reasoning": "terms", "response": "yes"}', ["response"])
    {'response': True}
    >>> parse_answers("It uses many terms.\\nResponse 1: yes\\nResponse 2: no", ["response_1", "response_2"])
    {'response_1': True, 'response_2': False}
    >>> parse_answers("Response 1: yes, I think.", ["response_1"]) is None
    True
    """
    own = (without_thoughts(text or "") or "")[-_TAIL_CHARACTERS:]
    return _from_json(own, names) if own.rstrip("`").rstrip().endswith("}") else _from_lines(own, names)


def closing_object(text: str) -> dict[str, object] | None:
    """The outermost JSON object that closes the text (a code fence around it is allowed)."""
    body = text.rstrip("`").rstrip()
    if not body.endswith("}"):
        return None
    decoder = json.JSONDecoder(object_pairs_hook=_once)
    for start in (match.start() for match in re.finditer(r"\{", body)):
        try:
            value, end = decoder.raw_decode(body, start)
        except (ValueError, RecursionError):
            continue
        if end == len(body):
            return dict(value)
    return None


def _from_json(text: str, names: Sequence[str]) -> dict[str, bool] | None:
    held = closing_object(text)
    return None if held is None else _complete({key: _yes_or_no(value) for key, value in held.items()}, names)


def _once(items: list[tuple[str, object]]) -> dict[str, object]:
    if len({key for key, _ in items}) < len(items):
        raise ValueError("a key stands twice")
    return dict(items)


def _yes_or_no(value: object) -> bool | None:
    return value if isinstance(value, bool) else _WORDS.get(value.strip().lower()) if isinstance(value, str) else None


def _from_lines(text: str, names: Sequence[str]) -> dict[str, bool] | None:
    """The last lines, one a name in any order; markdown around them is allowed, quotation marks are not."""
    body = "|".join(name.replace("_", r"[\s_]+") for name in sorted(names, key=len, reverse=True))
    line = re.compile(rf"[\s*_#•-]*({body})[\s*_]*[:=-][\s*_\[]*(yes|no)[\s*_\].]*", re.IGNORECASE)
    known = {name.lower(): name for name in names}
    read: dict[str, bool | None] = {}
    for written in reversed([one for one in text.splitlines() if one.strip()]):
        match = line.fullmatch(written)
        name = known.get(re.sub(r"[\s_]+", "_", match[1].lower())) if match else None
        if match is None or name is None or name in read:
            break
        read[name] = _WORDS[match[2].lower()]
    return _complete(read, names)


def _complete(read: Mapping[str, bool | None], names: Sequence[str]) -> dict[str, bool] | None:
    found = {name: value for name in names if (value := read.get(name)) is not None}
    return found if len(found) == len(names) else None
