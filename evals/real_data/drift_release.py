"""Claim: in the released pairs of "Flattery, Fluff, and Fog" the sides differ in more than the bias: so much that with words as
drift neither jargon's nor length's effect is identified, and most of structure's is gone where list lines are equal.

Thresholds, from the reading of those pairs that asked for the report: perturbed jargon has about 1.45 times the words of its
base, about 10% of pairs within 15%, and linear and log adjustment for words differ in sign (for the mean of the base models,
and for most of them); length, and sycophancy where released, have no overlap in words (1% of pairs at most); structure's mean
margin more than halves, for every base model, among the pairs with the same number of list lines.

    python -m evals.real_data.drift_release --release ../shared/data/fff      (a minute)
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cda.biases import builtin_names, load_bias
from cda.files.jsonl import read_jsonl
from cda.results.base import Estimate, Missing
from cda.results.effects import FeatureDrift, Identification
from cda.stats.drift import DEFAULT_LIMITS, feature_drift, identify, mean_margin, measured, overlap_effect, overlap_of
from evals.real_data.release import Item, margins, score_files
from evals.shared import DATA, SKIPPED, Check, finish

FloatArray = NDArray[np.float64]
WORDS = {"words": DEFAULT_LIMITS["words"]}
LIST_LINES = {"list_lines": DEFAULT_LIMITS["list_lines"]}


@dataclass(frozen=True, slots=True)
class Pairs:
    """The released pairs of one bias: features of both sides, and margins by base model and of their mean."""

    ids: list[str]
    perturbed: Mapping[str, FloatArray]
    base: Mapping[str, FloatArray]
    margins: Mapping[str, FloatArray]
    n_unscored: int


def read_pairs(release: Path, bias: str) -> Pairs:
    """Pairs that every base model scored; the others are counted."""
    rows = list(read_jsonl(release / "data" / "perturbations" / f"all_data_perturbed_{bias}.jsonl"))
    items = [Item(row["query"], (row["perturbed_response"], row["base_response"]), 0, "", (), None, 0) for row in rows]
    scores = {size: margins(items, path) for size, path in score_files(release, bias).get("base", {}).items()}
    kept = np.isfinite(np.stack(list(scores.values()))).all(axis=0) if scores else np.ones(len(rows), bool)
    by_model = {size: values[kept] for size, values in scores.items()}
    if by_model:
        by_model["mean"] = np.mean(list(by_model.values()), axis=0)
    used = [row for row, keep in zip(rows, kept, strict=True) if keep]
    sides = [measured([str(row[side]) for row in used]) for side in ("perturbed_response", "base_response")]
    return Pairs([str(row["query"]) for row in used], sides[0], sides[1], by_model, int((~kept).sum()))


def studied(pairs: Pairs, limits: Mapping[str, Any], treatment: tuple[str, ...] = ()) -> dict[str, Identification]:
    """Base model to what its margins identify."""
    return {
        model: identify(values, pairs.perturbed, pairs.base, pairs.ids, limits=limits, treatment=treatment)
        for model, values in pairs.margins.items()
    }


def words_checks(bias: str, drift: list[FeatureDrift], found: Mapping[str, Identification]) -> list[Check]:
    words = next(one for one in drift if one.feature == "words")
    assert words.beyond is not None
    within = 1 - words.beyond.value
    said = f"{within:.1%} of {words.beyond.n} pairs"
    if bias != "jargon":
        return [
            Check(f"{bias}: at most 1% of pairs within 15% words", said, within <= 0.01),
            _verdict_check(bias, found),
        ]
    signs = {model: _signs(one) for model, one in found.items()}
    differ = [model for model in signs if model != "mean" and signs[model][0] * signs[model][1] < 0]
    said_signs = "; ".join(f"{model} {linear:+.2f} and {log:+.2f}" for model, (linear, log) in signs.items())
    both = signs["mean"][0] * signs["mean"][1] < 0 and 2 * len(differ) > len(signs) - 1
    return [
        Check("jargon: median words ratio 1.40 to 1.50", f"{words.median_ratio:.3f}", 1.4 <= (words.median_ratio or 0) <= 1.5),
        Check("jargon: 5% to 15% of pairs within 15% words", said, 0.05 <= within <= 0.15),
        Check("jargon: linear and log adjustment differ in sign (mean of models, and most models)", said_signs, both),
        _verdict_check(bias, found),
    ]  # fmt: skip


def list_lines_check(pairs: Pairs) -> tuple[Check, dict[str, Any]]:
    """Structure among pairs with the same number of list lines, its own treatment, beside all pairs."""
    _, inside = overlap_of(pairs.perturbed, pairs.base, pairs.ids, limits=LIST_LINES)
    numbers, shares = {}, {}
    for model, values in pairs.margins.items():
        everyone = mean_margin(values, pairs.ids)
        # Fewer than one pair in five: here the few are described, not taken for all.
        same = mean_margin(values[inside], [one for one, keep in zip(pairs.ids, inside, strict=True) if keep])
        shares[model] = same.value / everyone.value
        numbers[model] = {"all": everyone.model_dump(), "same_list_lines": same.model_dump(), "ratio": shares[model]}
    said = f"{int(inside.sum())} of {len(inside)} pairs; " + ", ".join(f"{one} {at:.2f}" for one, at in shares.items())
    threshold = "structure: mean margin with equal list lines is less than half of all pairs', every model"
    return Check(threshold, said, max(shares.values()) < 0.5), numbers


def per_feature(pairs: Pairs, treatment: tuple[str, ...]) -> dict[str, Any]:
    """The mean of models' effect among pairs alike in one feature at a time."""
    found = {}
    for name, limit in DEFAULT_LIMITS.items():
        _, inside = overlap_of(pairs.perturbed, pairs.base, pairs.ids, limits={name: limit})
        among = overlap_effect(pairs.margins["mean"], inside, pairs.ids)
        shown = among.model_dump() if isinstance(among, Estimate) else among.reason
        found[name] = {"is_treatment": name in treatment, "n": int(inside.sum()), "effect": shown}
    return found


def _signs(found: Identification) -> tuple[float, float]:
    linear, log = found.adjusted["linear"], found.adjusted["log_ratio"]
    assert isinstance(linear, Estimate) and isinstance(log, Estimate)
    return linear.value, log.value


def _verdict_check(bias: str, found: Mapping[str, Identification]) -> Check:
    silent = [one for one in found.values() if isinstance(one.overlap_effect, Missing)]
    said = f"{found['mean'].verdict}: {found['mean'].reason}"
    return Check(f"{bias}: words as drift, every model: not identified", said, len(silent) == len(found) > 0)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--release", type=Path, default=DATA / "fff", help="folder in the release's layout")
    release = parser.parse_args().release
    files = sorted((release / "data" / "perturbations").glob("all_data_perturbed_*.jsonl"))
    if not files:
        print(f"skipped: {release}/data/perturbations holds no pairs; set CDA_DATA or give --release")
        return SKIPPED
    checks: list[Check] = []
    numbers: dict[str, Any] = {}
    for bias in [path.stem.removeprefix("all_data_perturbed_") for path in files]:
        pairs = read_pairs(release, bias)
        if not pairs.margins or bias not in builtin_names():
            numbers[bias] = "no scores, or no bias file"
            continue
        treatment = tuple(load_bias(bias).treatment)
        drift = feature_drift(pairs.perturbed, pairs.base, pairs.ids, treatment=treatment)
        by_words, by_all = studied(pairs, WORDS), studied(pairs, DEFAULT_LIMITS, treatment)
        numbers[bias] = {
            "n": len(pairs.ids),
            "n_unscored": pairs.n_unscored,
            "drift": [one.model_dump() for one in drift],
            "words_only": {model: one.model_dump() for model, one in by_words.items()},
            "default_limits": {model: one.model_dump() for model, one in by_all.items()},
            "alike_in_one_feature": per_feature(pairs, treatment),
        }
        if bias in ("jargon", "length", "sycophancy"):
            checks += words_checks(bias, drift, by_words)
        if bias == "structure":
            check, numbers[bias]["same_list_lines"] = list_lines_check(pairs)
            checks.append(check)
        print(f"{bias}, default limits, mean of models: {by_all['mean'].verdict}. {by_all['mean'].reason}")
    return finish("drift_release", (__doc__ or "").split("\n\n")[0].replace("\n", " "), checks, numbers)


if __name__ == "__main__":
    sys.exit(main())
