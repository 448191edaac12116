"""Claim: no interval that is printed as one of 95% holds the truth in less than 92% of samples, from 3 prompts to 80; where it would,
none is printed.

Every kind of interval, by the function that the package prints it with, on simulated rows whose truth is known, with 3, 5, 10, 20 and 80
prompts in two shapes: `even`, prompts of two rows each and normal values; and `uneven`, prompts of one to six rows and values of heavy
tails (Student's t with 3 degrees of freedom). Rows of a prompt are alike (half of the variance is the prompt's). Shares are 60% (`even`) and
85% (`uneven`). 1,000 samples a cell, 400 with 80 prompts; resampled intervals take 1,000 draws of prompts in place of 10,000. An interval that is Missing, or
refused with its reason, is not printed: `printed` is the share of samples that have one, and a cell with fewer than 100 has no coverage.
A mean over five models has to hold that over all models if its method says so, else that of the five. Means of strongly skewed values
(exponential) are told without a threshold: their t intervals hold the truth less often than they say.

    python -m evals.method.coverage      (about fifteen minutes)
"""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Callable
from functools import cache
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from cda.arrays import FloatArray
from cda.errors import DataError
from cda.records import Exclusions
from cda.results.base import Estimate, Missing
from cda.stats import estimators
from cda.stats.drift import adjusted_effect
from cda.stats.estimators import correlation_of, mean_of, paired_change, share_of
from cda.stats.means import CROSSED
from cda.stats.panel import mean_change, mean_share
from cda.stats.people import absolute, auc, auc_change, gap_change, powered_human_skew
from cda.stats.proportions import beyond_noise
from cda.stats.rate import direct_contrast, effect, effect_slope, from_rewards
from cda.stats.votes import Majority, agreement
from evals.shared import Check, finish

LEAST, FEWEST_PRINTED = 0.92, 100
PROMPTS, DRAWS, SEED = (3, 5, 10, 20, 80), 1000, 3
RUNS = {80: 400}
"""Samples of a cell, by prompts; else 1,000."""
Shape = Literal["even", "uneven", "skewed"]
SHARES = {"even": 0.6, "uneven": 0.85, "skewed": 0.85}


class Rows(NamedTuple):
    """Rows of one sample: the number of each row's prompt, and its name."""

    at: NDArray[np.int64]
    ids: list[str]
    shape: Shape
    rng: np.random.Generator

    def values(self) -> FloatArray:
        """Values of mean 0 and variance 1 (3 if heavy): half of it the prompt's."""
        return np.asarray((self._drawn(int(self.at.max()) + 1)[self.at] + self._drawn(len(self.at))) / np.sqrt(2))

    def _drawn(self, n: int) -> FloatArray:
        if self.shape == "skewed":
            return self.rng.exponential(size=n) - 1
        return self.rng.normal(size=n) if self.shape == "even" else self.rng.standard_t(3, size=n)

    def hits(self, share: float, latent: FloatArray | None = None) -> FloatArray:
        """Hits of this share, alike within prompts; of normal values, whatever the shape."""
        own = self.normal() if latent is None else latent
        return (own < stats.norm.ppf(share)).astype(float)

    def normal(self, alike: float = 0.5) -> FloatArray:
        """Standard normal values; `alike` is the prompt's part of the variance."""
        own, rest = self.rng.normal(size=int(self.at.max()) + 1)[self.at], self.rng.normal(size=len(self.at))
        return np.asarray(np.sqrt(alike) * own + np.sqrt(1 - alike) * rest)


def rows_of(n: int, shape: Shape, rng: np.random.Generator) -> Rows:
    sizes = np.full(n, 2) if shape == "even" else rng.integers(1, 7, n)
    at = np.repeat(np.arange(n), sizes)
    return Rows(at, [f"p{number}" for number in at], shape, rng)


Found = tuple[Estimate | Missing, float]
"""An interval and the truth that it should hold."""


def share(rows: Rows) -> Found:
    return share_of(rows.hits(p := SHARES[rows.shape]), rows.ids), p


def share_change(rows: Rows) -> Found:
    p, kept = SHARES[rows.shape], rows.normal()
    first, second = (np.sqrt(0.6) * kept + np.sqrt(0.4) * rows.normal() for _ in range(2))
    return paired_change(rows.hits(p, first), rows.hits(p - 0.2, second), rows.ids), -0.2


def mean(rows: Rows) -> Found:
    return mean_of(rows.values(), rows.ids).estimate, 0.0


def contrast(rows: Rows) -> Found:
    return direct_contrast(rows.values(), rows.ids).estimate, 0.0


def slope(rows: Rows) -> Found:
    x = rows.normal()
    triples = from_rewards(*_triple(rows, 0.5 * x + rows.values()), rows.ids)
    return effect_slope(triples, x).estimate, 0.5


def adjusted(rows: Rows) -> Found:
    words, hedges = rows.normal() + 0.3, rows.normal()
    features = {"words": 10 + words, "hedges": 10 + hedges}
    alike = {name: np.full(len(rows.at), 10.0) for name in features}
    return adjusted_effect(1 + 0.5 * words - 0.3 * hedges + rows.values(), features, alike, rows.ids), 1.0


def _triple(rows: Rows, margins: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Rewards of original, rewrite and rewrite of rewrite with these double contrasts, and the attribute."""
    w = rows.at % 2 == 0
    original = rows.values() + w
    back = original + 0.3 + 0.3 * rows.normal()
    return original, back - np.where(w, 1, -1) * margins, back, w


def rate(
    estimand: Literal["ATE", "ATT", "ATU"], estimator: Literal["double", "naive"] = "double"
) -> Callable[[Rows], Found]:
    def found(rows: Rows) -> Found:
        triples = from_rewards(*_triple(rows, 0.5 + rows.values()), rows.ids)
        return effect(triples, estimand, estimator).estimate, 0.5 if estimator == "double" else 1.0

    return found


def correlation(rows: Rows) -> Found:
    x = rows.values()
    return correlation_of(x, (x + rows.values()) / np.sqrt(2), rows.ids), float(np.sqrt(0.5))


def area(rows: Rows) -> Found:
    margins = rows.normal(0.3)
    up = margins + rows.normal(0.3) > 0
    return auc(margins, up.astype(float), rows.ids), _true_auc(1.0)


def area_change(rows: Rows) -> Found:
    margins, noise = rows.normal(0.3), rows.normal(0.3)
    up = margins + noise > 0
    after = margins + 0.7 * rows.normal(0.3)
    return auc_change(margins, after, up.astype(float), rows.ids), _true_auc(1 / np.sqrt(1.49)) - _true_auc(1.0)


@cache
def _true_auc(followed: float) -> float:
    """Area of a margin whose correlation with the value that decides people is `followed` · √½."""
    rng = np.random.default_rng(0)
    value = rng.normal(size=2_000_000)
    r = followed * np.sqrt(0.5)
    margin = r * value + np.sqrt(1 - r * r) * rng.normal(size=len(value))
    ranks = stats.rankdata(margin)
    up = value > 0
    return float((ranks[up].sum() - up.sum() * (up.sum() + 1) / 2) / (up.sum() * (~up).sum()))


def alpha(rows: Rows) -> Found:
    """Three votes an item, each for the perturbed side with the item's own chance, 20% or 80%: alpha 0.36."""
    chance = np.where(rows.normal(0.3) > 0, 0.8, 0.2)
    first = rows.rng.binomial(3, chance)
    found = agreement(np.column_stack([first, 3 - first, 0 * first]), rows.ids)
    return found.alpha, 0.36


def gap(rows: Rows) -> Found:
    people, model = rows.normal(), rows.normal()
    p = SHARES[rows.shape]
    return absolute(paired_change(rows.hits(p - 0.2, people), rows.hits(p, 0.6 * people + 0.8 * model), rows.ids)), 0.2


def distance_change(rows: Rows) -> Found:
    people, model = rows.normal(), rows.normal()
    p = SHARES[rows.shape]
    target = rows.hits(0.5, people)
    before, after = (rows.hits(share, 0.6 * people + 0.8 * model) for share in (p, 0.55))
    return gap_change(before, after, target, rows.ids), 0.05 - (p - 0.5)


def panel(share: float, differ: float = 0.2) -> Callable[[Rows], Found]:
    """The mean of five models: over all models where the interval says so, else of these five."""

    def found(rows: Rows) -> Found:
        hits, _, of_these = _panel(rows, share, differ=differ)
        mean = mean_share(hits, rows.ids)
        return mean, share if mean.method == CROSSED else of_these

    return found


def panel_change(rows: Rows) -> Found:
    hits, after, _ = _panel(rows, SHARES[rows.shape], 0.2)
    return mean_change(hits, after, rows.ids), -0.2


def _panel(rows: Rows, share: float, fall: float = 0.0, differ: float = 0.2) -> tuple[FloatArray, FloatArray, float]:
    """Hits of five models that differ, on contrasts that they share, after a fall of the mean share; and these models' own mean."""
    contrasts, rest = rows.normal(), np.stack([rows.normal(0.0) for _ in range(5)])
    models = np.sqrt(differ) * rows.rng.normal(size=(5, 1))
    latent = models + np.sqrt((1 - differ) / 2) * (contrasts + rest)
    own = stats.norm.cdf((stats.norm.ppf(share) - models) / np.sqrt(1 - differ)).mean()
    return rows.hits(share, latent), rows.hits(share - fall, latent), float(own)


def noise_apart(rows: Rows) -> Found:
    """Rewards that are stretched by 1.5 and made noisier: 0 beyond that. Quality pairs are of as many other prompts."""
    before, pairs = 1 + rows.values(), 1.5 + rows.normal()
    after, later = (1.5 * side + rows.normal() for side in (before, pairs))
    return beyond_noise(before, after, rows.ids, pairs, later, [f"q{name}" for name in rows.ids]), 0.0


def powered(rows: Rows) -> Found:
    """People voted on the rows of the prompts; a judge on those and on three times as many others."""
    more = rows_of(3 * (int(rows.at.max()) + 1), rows.shape, rows.rng)
    p, n = SHARES[rows.shape], len(rows.at)
    latent = np.concatenate([rows.normal(), more.normal()])
    judge = np.sqrt(0.6) * latent + np.sqrt(0.4) * rows.rng.normal(size=len(latent))
    target, used = rows.hits(p, latent), np.arange(len(latent)) < n
    people = Majority(target, used, "half", Exclusions(len(latent), {"no votes": len(latent) - n}))
    verdicts = np.where(judge < stats.norm.ppf(p), 1.0, -1.0)
    return powered_human_skew(people, verdicts, [*rows.ids, *(f"m{name}" for name in more.ids)]).estimate, p


KINDS: dict[str, Callable[[Rows], Found]] = {
    "share": share,
    "paired change of a share": share_change,
    "mean": mean,
    "direct contrast": contrast,
    "RATE double ATE": rate("ATE"),
    "RATE double ATT": rate("ATT"),
    "RATE double ATU": rate("ATU"),
    "RATE naive": rate("ATE", "naive"),
    "slope of a covariate": slope,
    "adjusted margin": adjusted,
    "correlation": correlation,
    "AUC": area,
    "change of AUC": area_change,
    "alpha": alpha,
    "gap": gap,
    "change of a gap": distance_change,
    "panel of five, 60%": panel(0.6),
    "panel of five, 92%": panel(0.92),
    "panel of five that differ much, 92%": panel(0.92, 0.6),
    "change of a panel of five": panel_change,
    "beyond noise": noise_apart,
    "prediction-powered share": powered,
}
SKEWED = ("mean", "direct contrast", "RATE double ATE", "slope of a covariate")


def cell(kind: str, n: int, shape: Shape) -> dict[str, float]:
    """Shares of samples whose interval is printed, and of those that hold the truth."""
    estimators.N_DRAWS = DRAWS
    rng = np.random.default_rng([SEED, n, len(kind), sum(map(ord, kind)), sum(map(ord, shape))])
    runs = RUNS.get(n, 1000)
    printed = held = 0
    for _ in range(runs):
        try:
            found, truth = KINDS[kind](rows_of(n, shape, rng))
        except DataError:
            continue
        if isinstance(found, Estimate):
            printed += 1
            held += found.low - 1e-9 <= truth <= found.high + 1e-9
    return {"printed": printed / runs} | ({"held": held / printed} if printed >= FEWEST_PRINTED else {})


def cells(kind: str) -> dict[str, dict[str, dict[str, float]]]:
    """All cells of a kind, by shape and prompts."""
    shapes: tuple[Shape, ...] = ("even", "uneven", "skewed") if kind in SKEWED else ("even", "uneven")
    return {shape: {str(n): cell(kind, n, shape) for n in PROMPTS} for shape in shapes}


def main() -> int:
    table = {}
    with multiprocessing.get_context("fork").Pool(2) as pool:
        for kind, by_shape in zip(KINDS, pool.imap(cells, KINDS), strict=True):
            table[kind] = by_shape
            print(kind, by_shape, flush=True)
    checks = []
    for kind, by_shape in table.items():
        told = {
            (own["held"], f"{shape}, {n} prompts")
            for shape, by_n in by_shape.items()
            if shape != "skewed"
            for n, own in by_n.items()
            if "held" in own
        }
        least, where = min(told)
        checks.append(
            Check(f"{kind}: {LEAST:.0%} or more, wherever it is printed", f"{least:.1%} ({where})", least >= LEAST)
        )
    numbers = {"samples a cell": {str(n): RUNS.get(n, 1000) for n in PROMPTS}, "coverage": table}
    return finish(
        "coverage", (__doc__ or "").partition("\n\n")[0].removeprefix("Claim: ").replace("\n", " "), checks, numbers
    )


if __name__ == "__main__":
    sys.exit(main())
