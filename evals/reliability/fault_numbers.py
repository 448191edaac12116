"""Attempts to get an interval that is too narrow (few prompts, one prompt twice, votes all split alike), or a word that is not true."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np

from cda.auditing.verdict_sentences import quality_sentence, verdicts
from cda.report.numbers import FEW_PROMPTS, few_prompts
from cda.stats.estimators import paired_change, share_of
from cda.stats.votes import agreement, count_votes, majority, noise_ceiling
from evals.method.verdict_words import WORLDS, audit_of
from evals.reliability.fault_runs import Attempt


def _few_prompts(_: Path) -> str | None:
    """Three prompts of five rows, half as alike as they could be; drawing prompts covers 0.5 about three times in four."""
    random, ids, runs = np.random.default_rng(0), np.repeat(np.arange(3), 5), 300
    inside = 0
    for _run in range(runs):
        found = share_of(random.random(15) < random.beta(0.5, 0.5, 3)[ids], ids.astype(str).tolist())
        inside += found.low <= 0.5 <= found.high
    return None if inside / runs >= 0.93 else f"a 95% interval holds the share in {inside / runs:.1%} of {runs} runs"


def _one_prompt_twice(_: Path) -> str | None:
    """One hit in twenty, then one more miss on a prompt that was there: no other method, and no other width."""
    hits, own = np.arange(20) < 1, [str(row) for row in range(20)]
    widths = []
    for values, ids in ((hits, own), (np.append(hits, False), [*own, own[-1]])):
        for found in (share_of(values, ids), paired_change(np.zeros(len(ids)), values, ids)):
            widths.append(found.high - found.low)
    jumps = [abs(widths[2] / widths[0] - 1), abs(widths[3] / widths[1] - 1)]
    return None if max(jumps) < 0.05 else f"one row more changes the width of an interval by {max(jumps):.0%}"


def _split_alike(_: Path) -> str | None:
    counts, ids = count_votes([["perturbed", "perturbed", "base"]] * 12), [str(row) for row in range(12)]
    found = {
        "alpha": agreement(counts, ids).alpha,
        "second majority": noise_ceiling(counts, majority(counts, "drop"), ids).miscalibration,
    }
    sure = [name for name, one in found.items() if one is not None and one.high - one.low < 0.05]
    return f"no width where all items are split alike: {', '.join(sure)}" if sure else None


def _unsaid(_: Path) -> str | None:
    said = few_prompts({"jargon": FEW_PROMPTS - 1, "length": FEW_PROMPTS})
    return (
        None
        if "jargon" in said and "length" not in said
        else "an interval from nine prompts is shown without a warning"
    )


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
    Attempt("wrong numbers", "intervals of three prompts", _few_prompts),
    Attempt("wrong numbers", "one prompt that repeats", _one_prompt_twice),
    Attempt("wrong numbers", "every item split alike", _split_alike),
    Attempt("wrong numbers", "few prompts without a warning", _unsaid),
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
