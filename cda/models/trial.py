"""A trial of a model's chat template and tokenizer patterns in a process of its own, under limits of time and memory.

Both come with a model and may never end, or eat all memory. Neither can be stopped in this process: a template may build a text
of gigabytes in one step of C code, and patterns run in Rust. The child imports jinja2 and tokenizers alone and takes some 0.15 s.
It finds what grows with any conversation; a template that waits for one text in a thousand is not found.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from cda.errors import ModelError, type_in_words

CPU_S = 3
"""Processor time of a trial; a usual one takes 0.2 s."""
MEMORY_BYTES = 1 << 30
"""Memory of a trial; a usual one takes 0.05 GB."""
_WALL_S = 120
_PATTERN = re.compile(r'"Regex"\s*:\s*("(?:[^"\\]|\\.)*")')


def try_template(name_or_path: str, tokenizer: Any) -> None:
    """Raise ModelError if a tokenizer's chat template is not one, or it or a pattern of the tokenizer does not end in a trial."""
    template = tokenizer.chat_template
    if isinstance(template, Mapping):
        if template and "default" not in template:
            raise ModelError(
                f"{name_or_path}: has the chat templates {', '.join(sorted(map(str, template)))} and none named default; name one so in "
                "tokenizer_config.json"
            )
        template = template.get("default")
    if template is not None and not isinstance(template, str):
        raise ModelError(
            f"{name_or_path}: its chat template is {type_in_words(template)}, not text; put it as text into chat_template.jinja"
        )
    special = {key: str(token) for key, token in tokenizer.special_tokens_map.items() if not isinstance(token, list)}
    found = _verdict(template or "", tuple(sorted(special.items())), _patterns(tokenizer))
    if found:
        raise ModelError(f"{name_or_path}: {found}")


def _patterns(tokenizer: Any) -> tuple[str, ...]:
    """Regular expressions that a tokenizer splits or replaces by."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    parts = [getattr(backend, part, None) for part in ("normalizer", "pre_tokenizer")]
    states = [part.__getstate__().decode() for part in parts if part is not None]
    return tuple(json.loads(pattern) for state in states for pattern in _PATTERN.findall(state))


@lru_cache(maxsize=256)
def _verdict(template: str, special: tuple[tuple[str, str], ...], patterns: tuple[str, ...]) -> str | None:
    """Problem found by a trial, with its remedy; None if there is none, nothing to try, or no way to try it here."""
    if not (template or patterns) or not sys.executable:
        return None
    task = {
        "template": template,
        "special": dict(special),
        "patterns": patterns,
        "cpu_s": CPU_S,
        "memory_bytes": MEMORY_BYTES,
    }
    child = [sys.executable, "-P", str(Path(__file__).with_name("trial_process.py"))]
    try:
        done = subprocess.run(child, input=json.dumps(task).encode(), capture_output=True, timeout=_WALL_S, check=False)
    except subprocess.TimeoutExpired as late:
        said = late.stdout or b""
    except OSError:
        return None
    else:
        said = done.stdout
    *_, at = said.decode().splitlines() or [""]
    if at in ("", "ended"):  # an empty answer: the child could not start
        return None
    if at.startswith("wrong "):
        return f"its chat template cannot be used ({json.loads(at.removeprefix('wrong '))}); correct chat_template"
    if at.startswith("pattern "):
        return f"its tokenizer's {at}, comes to no end. Correct it in tokenizer.json"
    return (
        f"its chat template needs over {CPU_S} s or {MEMORY_BYTES >> 30} GiB of memory for a short conversation: it loops or grows "
        "without end. Correct chat_template"
    )
