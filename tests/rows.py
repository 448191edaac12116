"""Rows of tests: generators of random numbers, and the prompts that rows belong to."""

from __future__ import annotations

import numpy as np


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def ids(n: int, rows_a_prompt: int = 1, name: str = "p") -> list[str]:
    """Prompt of each of n rows: p0, p1, …; each that many times in a row."""
    return [f"{name}{row // rows_a_prompt}" for row in range(n)]
