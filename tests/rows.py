"""Rows of tests: generators of random numbers, the prompts that rows belong to, estimates, and triples."""

from __future__ import annotations

import numpy as np

from cda.records import Triple, user_prompt
from cda.results.base import Estimate


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def ids(n: int, rows_a_prompt: int = 1, name: str = "p") -> list[str]:
    """Prompt of each of n rows: p0, p1, …; each that many times in a row."""
    return [f"{name}{row // rows_a_prompt}" for row in range(n)]


def estimate(
    value: float, half: float = 0.1, n: int = 100, unit: str = "share", method: str = "Wilson 95%"
) -> Estimate:
    """The value with this much to either side."""
    return Estimate(value=value, low=value - half, high=value + half, n=n, n_prompts=n, unit=unit, method=method)


def triples(n: int) -> list[Triple]:
    """Triples of jargon on q0, q1, …: first, flipped and back; every second original has it."""
    return [
        Triple("jargon", user_prompt(f"q{row}"), f"first {row}", f"flipped {row}", f"back {row}", row % 2 == 0)
        for row in range(n)
    ]
