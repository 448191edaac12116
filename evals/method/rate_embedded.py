"""Claim: on the embedded triples, RATE finds a planted effect with its right sign and size for all five biases, in both
directions and without being misled by what rewriting adds; and none where none is planted.

Three kinds of rewards. `presence`: 1 for a text that has the bias, 0.7 more for every text that was rewritten, a level for
each prompt, and noise; the truth is 1, and 0 where the bias is worth nothing. `count`: a scorer that counts the bias's
feature, asked by the public command as anybody's function is; the truth is the count's mean difference between the two
rewrites, taken from the file by itself. `nothing`: a hash of the text, asked by the command.

Thresholds: for each bias, and for ATT, ATU and ATE, 92.5 to 97% of the double estimator's intervals cover the planted 1, and
the planted 0 (a normal interval from 40 prompts covers 94.3%); at most 5% of the single
estimator's for ATT and ATU do (in ATE what rewriting adds cancels, with as many triples of either direction). Counted features have
the right sign, with intervals that exclude 0, and the size of the truth to 1e-6; they are at least two thirds of the same
count's difference in the authored contrasts, so that the way back does not water the bias down. The intervals of the hash
hold 0 in at least 13 of 15.

    python -m evals.method.rate_embedded      (about two minutes on 2 cores)
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, get_args

import numpy as np

from cda.auditing.report_cells import effects_in
from cda.embedded.texts import EMBEDDED_BIASES, audit_contrasts, authored_triples
from cda.features import measure, n_list_lines, n_words
from cda.records import Triple, prompt_id
from cda.results.audit import AuditResult
from cda.results.base import load
from cda.stats.rate import Estimand, effect, from_rewards
from evals.shared import Check, finish

SEED, N_DRAWS = 20261123, 2000
REWRITING, LEVEL_SD, NOISE_SD = 0.7, 1.0, 0.5
ESTIMANDS: tuple[Estimand, ...] = get_args(Estimand)
_PRAISE = re.compile(
    r"\b(?:love|admir\w+|impress\w+|brilliant\w*|thoughtful\w*|wonderful\w*|great|excellent|sharp|clever|smart|insight\w*|instincts?|"
    r"taste|keen|wise|wisely|rare|lucky|terrific|superb|fantastic|perceptive|astute|curio\w+|care|caring|credit|bravo|respect|right)\b",
    re.IGNORECASE,
)
_LOOSE = re.compile(
    r"\b(?:some|somewhat|various|several|certain|may|might|can|could|often|usually|generally|perhaps|probably|tends?|depends?|"
    r"various|different|suitable|reasonable|fairly|rather|sort|kind|things?|factors?|circumstances|ways?)\b",
    re.IGNORECASE,
)
COUNTS: dict[str, Callable[[str], float]] = {
    "length": lambda text: n_words(text) / 100,
    "structure": lambda text: float(n_list_lines(text)),
    "jargon": lambda text: 10 * measure(text, "long_word_share"),
    "sycophancy": lambda text: 100 * len(_PRAISE.findall(text)) / max(1, n_words(text)),
    "vagueness": lambda text: 100 * len(_LOOSE.findall(text)) / max(1, n_words(text)),
}


def count_length(prompts: Sequence[str], responses: Sequence[str]) -> list[float]:  # noqa: ARG001
    return [COUNTS["length"](text) for text in responses]


def count_structure(prompts: Sequence[str], responses: Sequence[str]) -> list[float]:  # noqa: ARG001
    return [COUNTS["structure"](text) for text in responses]


def count_jargon(prompts: Sequence[str], responses: Sequence[str]) -> list[float]:  # noqa: ARG001
    return [COUNTS["jargon"](text) for text in responses]


def count_sycophancy(prompts: Sequence[str], responses: Sequence[str]) -> list[float]:  # noqa: ARG001
    return [COUNTS["sycophancy"](text) for text in responses]


def count_vagueness(prompts: Sequence[str], responses: Sequence[str]) -> list[float]:  # noqa: ARG001
    return [COUNTS["vagueness"](text) for text in responses]


def nothing(prompts: Sequence[str], responses: Sequence[str]) -> list[float]:  # noqa: ARG001
    """A number drawn from the text's hash, between 0 and 1."""
    return [int(hashlib.sha256(text.encode()).hexdigest()[:8], 16) / 16**8 for text in responses]


def coverage(triples: Sequence[Triple], planted: float) -> dict[str, dict[str, float]]:
    """Share of 95% intervals that hold the planted effect, by estimator and estimand."""
    rng = np.random.default_rng([SEED, int(planted)])
    w = np.array([triple.has_attribute for triple in triples])
    ids = [prompt_id(triple.prompt) for triple in triples]
    covered = {name: dict.fromkeys(ESTIMANDS, 0) for name in ("double", "single")}
    for _ in range(N_DRAWS):
        levels = dict(zip(dict.fromkeys(ids), rng.normal(0, LEVEL_SD, len(set(ids))), strict=True))
        level = np.array([levels[one] for one in ids])
        original, rewrite, back = (level + planted * has + rewritten + rng.normal(0, NOISE_SD, len(w))
                                   for has, rewritten in ((w, 0.0), (~w, REWRITING), (w, REWRITING)))  # fmt: skip
        contrasts = from_rewards(original, rewrite, back, w, ids)
        for name, found in covered.items():
            for estimand in ESTIMANDS:
                estimate = effect(contrasts, estimand, name).estimate  # type: ignore[arg-type]
                found[estimand] += estimate.low <= planted <= estimate.high
    return {name: {estimand: hits / N_DRAWS for estimand, hits in found.items()} for name, found in covered.items()}


def audited(function: str, biases: Sequence[str], folder: Path) -> dict[str, Any]:
    """RATE effects of a function of this file by `cda audit`, by bias and estimand (double)."""
    named = [part for bias in biases for part in ("--bias", bias)]
    command = [sys.executable, "-m", "cda", "audit", f"{Path(__file__).resolve()}:{function}", *named, "audit.quality=null",
               "audit.max_contrasts=5", "--out", str(folder / function)]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True)
    audit = load(AuditResult, folder / function / "audit" / "audit.json", "cda audit")
    return {
        bias: {
            effect.estimand: effect.estimate.model_dump()
            for effect in effects_in(found.under()["model"])
            if effect.estimator == "double" and effect.estimand in ESTIMANDS
        }
        for bias, found in audit.rate.items()
    }


def counted(folder: Path) -> dict[str, Any]:
    """Effects on counted features, the truth from the triples' file, and the difference in the authored contrasts."""
    found = {}
    for bias, count in COUNTS.items():
        added: dict[bool, list[float]] = {True: [], False: []}
        for triple in (one.triple for one in authored_triples([bias]) if one.triple.flipped):
            step = count(triple.rewrite_of_rewrite) - count(triple.rewrite)
            added[triple.has_attribute].append(step if triple.has_attribute else -step)
        with_it, without = float(np.mean(added[True])), float(np.mean(added[False]))
        contrasts = audit_contrasts([bias])
        found[bias] = {
            "effects": audited(f"count_{bias}", [bias], folder)[bias],
            "truth": {"ATT": with_it, "ATU": without, "ATE": float(np.mean([*added[True], *added[False]]))},
            "authored contrasts": {
                estimand: float(
                    np.mean(
                        [count(one.perturbed) - count(one.base) for one in contrasts if one.tags["direction"] == way]
                    )
                )
                for estimand, way in (("ATT", "removed"), ("ATU", "added"))
            },
        }
    return found


def main() -> int:
    triples = {bias: [one.triple for one in authored_triples([bias])] for bias in EMBEDDED_BIASES}
    planted = {bias: {str(size): coverage(own, size) for size in (1.0, 0.0)} for bias, own in triples.items()}
    with tempfile.TemporaryDirectory() as folder:
        counts = counted(Path(folder))
        hashed = audited("nothing", EMBEDDED_BIASES, Path(folder))
    double = [value for found in planted.values() for size in found.values() for value in size["double"].values()]
    single = [found["1.0"]["single"][estimand] for found in planted.values() for estimand in ("ATT", "ATU")]
    signs = [one["effects"][estimand]["low"] > 0 for one in counts.values() for estimand in ESTIMANDS]
    off = [
        abs(one["effects"][estimand]["value"] - one["truth"][estimand])
        for one in counts.values()
        for estimand in ESTIMANDS
    ]
    sizes = {
        f"{bias} {estimand}": one["effects"][estimand]["value"] / contrast
        for bias, one in counts.items()
        for estimand, contrast in one["authored contrasts"].items()
    }
    zero = [one["low"] <= 0 <= one["high"] for found in hashed.values() for one in found.values()]
    n_each = sorted({(sum(one.has_attribute for one in own), len(own)) for own in triples.values()})
    checks = [
        Check("40 triples of either direction for each bias", str(n_each), n_each == [(40, 80)]),
        Check("92.5–97% of the double intervals cover the planted 1 and 0, each bias and estimand",
              f"{min(double):.1%} to {max(double):.1%} ({len(double)} cells)", min(double) >= 0.925 and max(double) <= 0.97),
        Check("at most 5% of the single intervals for ATT and ATU do", f"at most {max(single):.1%}", max(single) <= 0.05),
        Check("counted features: sign right, interval above 0", f"{sum(signs)} of {len(signs)}", all(signs)),
        Check("counted features: the size of the truth to 1e-6", f"at most {max(off):.1g} off", max(off) <= 1e-6),
        Check("counted features: at least two thirds of the authored contrasts' difference",
              f"{min(sizes.values()):.2f} to {max(sizes.values()):.2f} times", min(sizes.values()) >= 2 / 3),
        Check("a hash of the text: 0 in at least 13 of 15 intervals", f"{sum(zero)} of {len(zero)}", len(zero) == 15 and sum(zero) >= 13),
    ]  # fmt: skip
    numbers = {
        "command": "python -m evals.method.rate_embedded",
        "draws": N_DRAWS,
        "presence": planted,
        "counts": counts,
        "sizes": sizes,
        "nothing": hashed,
    }
    return finish("rate_embedded", (__doc__ or "").split("\n\n")[0], checks, numbers)


if __name__ == "__main__":
    sys.exit(main())
