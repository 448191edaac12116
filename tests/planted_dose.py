"""A dose chosen from planted rewards: people want the biased side once in four."""

from __future__ import annotations

from typing import Any

from cda.biases import load_bias
from cda.dosing.stage import dose_result
from cda.recipe.sections import DoseSection
from cda.records import Contrast, Pair, user_prompt
from cda.results.dose import DoseResult
from cda.scorers.compared import Rewards, text_id

N = 40
DOSES = (0.0, 0.5, 1.0)
CONTRASTS = [
    # Of every four, people prefer the biased side once.
    Contrast("jargon", user_prompt(f"q{row}"), f"biased {row}", f"plain {row}", "perturbed" if row % 4 == 0 else "base")
    for row in range(N)
]
PAIRS = [Pair(user_prompt(f"p{row}"), f"better {row}", f"worse {row}") for row in range(N)]


def rewards(hit: Any, right: Any) -> Rewards:
    """The biased side wins where `hit(row)`, the better one where `right(row)`."""
    by_text: dict[str, float] = {}
    for row, one in enumerate(CONTRASTS):
        by_text |= {text_id(one.prompt, one.perturbed): float(hit(row)), text_id(one.prompt, one.base): 0.5}
    for row, pair in enumerate(PAIRS):
        by_text |= {text_id(pair.prompt, pair.chosen): float(right(row)), text_id(pair.prompt, pair.rejected): 0.5}
    return Rewards(by_text)


ALWAYS, NEVER = rewards(lambda _: True, lambda row: row % 5), rewards(lambda _: False, lambda row: row % 5)
AS_PEOPLE = rewards(lambda row: row % 4 == 0, lambda row: row % 5)
WORSE = rewards(lambda row: row % 4 == 0, lambda row: row % 2)
"""As people do, and with a third of the quality lost."""


REST: dict[str, Any] = {"too_few": {}, "missing": {}, "fitted": {}, "available_quality": N}


def planted_dose(pairs: list[Pair] = PAIRS, aim: Any = "votes", **curves: tuple[Rewards, ...]) -> DoseResult:
    by_dose = {name: dict(zip(DOSES, curve, strict=True)) for name, curve in curves.items()}
    settings = DoseSection(doses=list(DOSES), repeats=4)
    rest = REST | {"missing": {"direction": "its head is not given hidden states"}}
    return dose_result(by_dose, CONTRASTS, [load_bias("jargon")], pairs, "drop", settings, 0, aim, **rest)
