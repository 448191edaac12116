"""Rows of tests: generators of random numbers, the prompts that rows belong to, and triples."""

from __future__ import annotations

import numpy as np

from cda.records import Triple, user_prompt


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def ids(n: int, rows_a_prompt: int = 1, name: str = "p") -> list[str]:
    """Prompt of each of n rows: p0, p1, …; each that many times in a row."""
    return [f"{name}{row // rows_a_prompt}" for row in range(n)]


def triples(n: int) -> list[Triple]:
    """Triples of jargon on q0, q1, …: first, flipped and back; every second original has it."""
    return [
        Triple("jargon", user_prompt(f"q{row}"), f"first {row}", f"flipped {row}", f"back {row}", row % 2 == 0)
        for row in range(n)
    ]
