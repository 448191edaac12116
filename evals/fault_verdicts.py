"""Attempts to earn a word that is not true: by noise, without the adjusted p, past a tie, and by rounding what decides."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
from fault_attempts import Attempt
from verdict_words import WORLDS, audit_of

from cda.auditing.report_verdict import quality_sentence, verdicts

N_AUDITS, MOST = 60, 0.15
"""False words have at most 5%; 10 of 60 and more has a chance of 0.1% then."""


def _often(name: str, *words: str) -> str | None:
    """What a world's audits are called by these words, if that is too often."""
    rng = np.random.default_rng(1)
    found = Counter(verdicts(audit_of(WORLDS[name], rng))[0].word for _ in range(N_AUDITS))
    said = sum(found[word] for word in words)
    return f"{name}: {said} of {N_AUDITS} audits say {' or '.join(words)}" if said > MOST * N_AUDITS else None


def _noise(_: Path) -> str | None:
    names = [name for name in WORLDS if name.startswith("noise") and "people" not in name]
    found = [_often(name, "less biased", "improved") for name in names]
    return "; ".join(one for one in found if one) or None


def _unadjusted(_: Path) -> str | None:
    rng, wrong = np.random.default_rng(2), 0
    for _ in range(N_AUDITS):
        audit = audit_of(WORLDS["fall of 10"], rng)
        good = verdicts(audit)[0].word in ("less biased", "improved")
        wrong += good and audit.skew["target"].of_training().test.holm >= 0.05
    return f"{wrong} of {N_AUDITS} audits have a good word at an adjusted p of 0.05 or more" if wrong else None


def _rounded(_: Path) -> str | None:
    said = set()
    for low in (-0.0496, -0.0504):
        audit = audit_of(WORLDS["null"], np.random.default_rng(3))
        quality = audit.quality
        if quality is None:
            return "quality was not measured"
        change = quality.of_training().change.model_copy(update={"value": -0.015, "low": low, "high": 0.02})
        changed = audit.model_copy(update={"quality": quality.model_copy(update={"change": change})})
        sentence = quality_sentence(changed)
        said.add(sentence.partition("[")[2].partition(",")[0])
    return f"both ends of the interval are printed as {said.pop()}" if len(said) == 1 else None


ATTEMPTS: tuple[Attempt, ...] = (
    Attempt("wrong numbers", "noise in the rewards earns a good word", _noise),
    Attempt("wrong numbers", "a fall that Holm's correction does not leave earns a good word", _unadjusted),
    Attempt(
        "wrong numbers", "skew wholly past 50% is called less biased where ties were the aim",
        lambda _: _often("fall to 30%, ties the aim", "less biased"),
    ),
    Attempt(
        "wrong numbers", "skew that rises to 50% is called worse where ties were the aim",
        lambda _: _often("rise to 50%, ties the aim", "worse"),
    ),
    Attempt("wrong numbers", "a loss excluded and one not excluded print the same interval", _rounded),
)  # fmt: skip
