"""Valid files and answers made hostile: types swapped, keys lost or twice, nesting, huge numbers, control characters, bad bytes."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from typing import Any

CONTROLS = "\x00\x1b[31m\x9d8;;x\x07\u202e\u2066\ud800\x7f\x85"
"""NUL, a colour, the start of a link, direction overrides, a lone surrogate: none may reach a terminal as it is."""
FORMULA = "=cmd|' /C calc'!A0"
MARKUP = "<script>alert(1)</script> [a](javascript:x) ![i](http://x/y.png) | `c` # h www.example.com"
_RAW = {
    "@huge@": "1" + "0" * 400,
    "@digits@": "9" * 6000,
    "@float@": "1e999",
    "@nan@": "NaN",
    "@infinity@": "-Infinity",
    "@deep@": "[" * 5000 + "]" * 5000,
    "@deeper@": '{"a":' * 20_000 + "1" + "}" * 20_000,
    "@nearly@": "[" * 600 + "]" * 600,
    "@unclosed@": "[" * 3000,
}
"""What Python would not write as JSON, by the string that stands for it until the text is made."""
_VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 1.5, "", " ", "x", "1", "[", "[1", "{}", CONTROLS, FORMULA, MARKUP, "x" * 100_000, "9" * 6000,
    [], {}, [[]], [None], [[["x"]]], [{"role": "user", "content": CONTROLS}], [{"role": [], "content": {}}], {"content": 1},
    {"a": {"b": []}}, "[" * 5000, "../../x", "/etc/passwd", "a" * 300, *_RAW,
)  # fmt: skip


def mutated(value: Any, rng: random.Random, times: int = 1) -> Any:
    """A copy of a JSON value with something wrong at so many places."""
    whole = {"": copy.deepcopy(value)}
    for _ in range(times):
        places = list(_places(whole))
        holder, key = rng.choice(places)
        _mutate(holder, key, rng)
    return whole[""]


def as_json(value: Any, rng: random.Random | None = None) -> bytes:
    """JSON as bytes, with what Python itself would not write in it; with `rng`, sometimes broken as bytes too."""
    text = json.dumps(value)
    for mark, raw in _RAW.items():
        text = text.replace(f'"{mark}"', raw)
    content = text.encode()
    return content if rng is None or rng.random() < 0.7 else broken(content, rng)


def broken(content: bytes, rng: random.Random) -> bytes:
    """The bytes with one thing wrong that no parser of values sees."""
    at = rng.randrange(len(content) + 1)
    changes: tuple[Callable[[], bytes], ...] = (
        lambda: b"\xef\xbb\xbf" + content,
        lambda: content[:at],
        lambda: content[:at] + b"\x00" + content[at:],
        lambda: content[:at] + b"\xff\xfe" + content[at:],
        lambda: content.replace(b"\n", b"\r\n") + b"\r\n",
        lambda: content[:at] + content[at // 2 :],
        lambda: content.decode().encode("utf-16"),
        lambda: content[:at] + b"\x1b]8;;http://x\x07" + content[at:],
        lambda: content + content,
        lambda: b"",
    )
    return rng.choice(changes)()


def _places(value: Any) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inside:
        found += [(value, key), *_places(one)]
    return found


def _mutate(holder: Any, key: Any, rng: random.Random) -> None:
    kind = rng.random()
    if kind < 0.15 and key != "":
        del holder[key]
    elif kind < 0.25 and isinstance(holder, dict) and key != "":
        holder[rng.choice(["", CONTROLS, "x" * 1000, key.upper(), f"{key}2"])] = holder.pop(key)
    elif kind < 0.35:
        holder[key] = [holder[key]]
    elif kind < 0.4:
        holder[key] = {"value": holder[key]}
    else:
        holder[key] = copy.deepcopy(rng.choice(_VALUES))
