"""`cda.discover` on functions in memory."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

import pytest

import cda

OPENER = re.compile(r"\A(?:Certainly|Sure|Absolutely|Of course|Definitely|Happy to help|Yes)\b", re.IGNORECASE)


def noise(text: str) -> float:
    return int(hashlib.sha256(text.encode()).hexdigest()[:8], 16) / 2**32


def likes_openers(prompts: list[Any], responses: list[str]) -> list[float]:
    return [3.0 * bool(OPENER.match(text)) + noise(text) for _, text in zip(prompts, responses, strict=True)]


def dislikes_openers(prompts: list[Any], responses: list[str]) -> list[float]:
    return [-3.0 * bool(OPENER.match(text)) + noise(text + "j") for _, text in zip(prompts, responses, strict=True)]


def test_what_does_not_go_together_is_said(tmp_path: Path) -> None:
    def twin(prompts: list[Any], responses: list[str]) -> list[float]:
        return dislikes_openers(prompts, responses)

    twin.__name__ = "likes_openers"
    with pytest.raises(cda.RecipeError, match="two objects of the name"):
        cda.discover(likes_openers, judge=twin)
    with pytest.raises(cda.RecipeError, match=r"Did you mean 'batches'"):
        cda.discover(likes_openers, judge=dislikes_openers, discover={"batchs": [1]})
    assert not list(tmp_path.rglob("discover.json"))
