"""The files of `data/`: a line for each object that holds no further one, and what occurs again in a case only once.

A file of JSON is kept as `NAME.leaves`, whose lines are a place and its value, `skew.length.before {value: 0.55, n: 20}`, or a place
and the one that holds the same, `b.after = b.before` or `b = run/other.json.leaves a.c`. In any other file a short line follows
the one before it behind a mark.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from recorded import LEAVES, leaves

WIDTH = 180
"""Characters of a line up to which neighbours share it."""
WIDEST = 320
"""Characters up to which an object or list of numbers and texts stays on one line."""
SHORT = 40
"""Characters up to which a line of text shares that of the one before it."""
MARK = "⏎"
_STRING = r'"(?:[^"\\]|\\.)*"'
_QUOTED_KEY = re.compile(rf"({_STRING})(: )?")
_BARE_KEY = re.compile(rf"{_STRING}|([A-Za-z_][\w-]*)(?=: )")
_WORD = re.compile(r"[A-Za-z_][\w-]*", re.ASCII)
_PLACE = re.compile(rf"({_STRING}|[^\s\"]\S*) ?")


def write(folder: Path, found: Mapping[str, Any]) -> None:
    """Keep a case's files: text, or the JSON of those named `.leaves`."""
    seen: dict[str, tuple[str, str]] = {}
    for file in sorted(found):
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = _lines("", found[file], file, seen) if file.endswith(LEAVES) else _packed(found[file])
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    kept = {name: dict(leaves(value)) if name.endswith(LEAVES) else value for name, value in found.items()}
    # As text, which tells 1 from 1.0 and one NaN from none.
    assert json.dumps(read(folder), sort_keys=True) == json.dumps(kept, sort_keys=True), (
        f"{folder} does not hold what was found"
    )


def read(folder: Path) -> dict[str, Any]:
    """A case's files by name, as they were written: text, or place to value of those named `.leaves`."""
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    files: dict[str, Any] = {}
    for name in names:
        text = (folder / name).read_text(encoding="utf-8")
        if not name.endswith(LEAVES):
            files[name] = text.replace(MARK, "\n")
            continue
        files[name] = {}
        for line in text.split("\n")[:-1]:
            held = _held(line, name, files)
            twice = held.keys() & files[name].keys()
            assert not twice, f"tests/golden/data: {name} holds {', '.join(sorted(twice))} twice"
            files[name].update(held)
    return files


def _packed(text: str) -> list[str]:
    assert MARK not in text, (
        f"{MARK} is the mark of a line's end in tests/golden/data: choose another MARK in data_files.py"
    )
    assert not text or text.endswith("\n")
    lines: list[str] = []
    for line in text.split("\n")[:-1]:
        if lines and len(line) <= SHORT and len(lines[-1]) + 1 + len(line) <= WIDTH:
            lines[-1] += MARK + line
        else:
            lines.append(line)
    return lines


def _lines(place: str, value: Any, file: str, seen: dict[str, tuple[str, str]]) -> Iterator[str]:
    """A value on one line if it is short or has no nested ones, else its short items together and the others after them."""
    text = _shown(value)
    length = len(place) + 1 + len(text)
    if (
        length <= WIDTH
        or _single(value)
        or (length <= WIDEST and all(map(_single, value.values() if isinstance(value, dict) else value)))
    ):
        yield f"{_name(place)} {text}"
        return
    if text in seen:
        other, there = seen[text]
        yield f"{_name(place)} = {'' if other == file else f'{_name(other)} '}{_name(there)}"
        return
    seen[text] = file, place
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from _lines(f"{place}[{number}]", item, file, seen)
        return
    fitting: list[dict[str, Any]] = []
    apart: list[dict[str, Any]] = []
    for key, item in value.items():
        if len(place) + 1 + len(_shown({key: item})) > WIDTH:
            apart.append({key: item})
        elif fitting and len(place) + 1 + len(_shown({**fitting[-1], key: item})) <= WIDTH:
            fitting[-1][key] = item
        else:
            fitting.append({key: item})
    for row in (*fitting, *apart):
        if len(row) > 1:
            yield f"{_name(place)} {_shown(row)}"
            continue
        ((key, item),) = row.items()
        yield from _lines(f"{place}.{key}" if place else key, item, file, seen)


def _single(value: Any) -> bool:
    return not isinstance(value, (dict, list)) or not value


def _held(line: str, file: str, files: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """The places and values that a line of a file stands for; those of other places come from the files and lines before it."""
    place, rest = _first(line)
    if not rest.startswith("= "):
        value = json.loads(_BARE_KEY.sub(lambda match: f'"{match[1]}"' if match[1] else match[0], rest))
        return dict(leaves(value, place))
    there, rest = _first(rest[2:])
    if rest:
        file, (there, _) = there, _first(rest)
    held = {}
    for path, value in files.get(file, {}).items():
        full = path if path.startswith("[") else f".{path}"  # as it would continue another
        whole = there if not there or there.startswith("[") else f".{there}"
        if full.startswith((f"{whole}.", f"{whole}[")):
            moved = f"{place}{full[len(whole) :]}"
            held[moved if place else moved.removeprefix(".")] = value
    assert held, f"tests/golden/data: {file} holds no {there or 'value'}, to which this line refers: {line}"
    return held


def _first(text: str) -> tuple[str, str]:
    """The first place or file name of a line, and what follows it."""
    match = _PLACE.match(text)
    assert match, f"tests/golden/data: this line begins with no place: {text}"
    name = match[1]
    return json.loads(name) if name.startswith('"') else name, text[match.end() :]


def _name(place: str) -> str:
    """A place or a file as it stands in a line: quoted if it has blanks."""
    plain = _PLACE.fullmatch(place) and place[0] != '"' and place[-1] != " "
    return place if plain else json.dumps(place, ensure_ascii=False)


def _shown(value: Any) -> str:
    """JSON on one line, without quotes around keys that are words."""
    text = json.dumps(value, ensure_ascii=False)
    return _QUOTED_KEY.sub(
        lambda match: f"{match[1][1:-1]}: " if match[2] and _WORD.fullmatch(match[1][1:-1]) else match[0], text
    )
