"""Claim: no interval that is printed as one of 95% holds the truth in less than 92% of samples, from 3 prompts to 80; where it would,
none is printed.

Every kind of interval, by the function that the package prints it with, on simulated rows whose truth is known, with 3, 5, 10, 20 and 80
prompts in two shapes: `even`, prompts of two rows each and normal values; and `uneven`, prompts of one to six rows and values of heavy
tails (Student's t with 3 degrees of freedom). Rows of a prompt are alike (half of the variance is the prompt's). Shares are 60% (`even`) and
85% (`uneven`). 1,000 samples a cell, 400 with 80 prompts; resampled intervals take 1,000 draws of prompts in place of 10,000. An interval that is Missing, or
refused with its reason, is not printed: `printed` is the share of samples that have one, and a cell with fewer than 100 has no coverage.
A mean over five models has to hold that over all models if its method says so, else that of the five. Means of strongly skewed values
(exponential) are told without a threshold: their t intervals hold the truth less often than they say.

Held-out doses have five doses, as many quality pairs, ten splits, and 200 draws of prompts (they are refused with fewer than 20);
ranks have 600 samples (300 with 80 prompts), held-out doses and noise ceilings 1,000 with 80 too. The truth of a held-out number is
its mean over 600 other samples of the same size: what choosing a dose on half of so many prompts leads to on average.

    python -m evals.method.coverage [--kinds rank held-out ...]      (about half an hour; of kinds that open so, the others as they were)
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from collections import Counter
from collections.abc import Callable
from functools import cache, partial
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from cda.arrays import FloatArray
from cda.dosing import held_out
from cda.dosing.choice import DoseCurve, out_of_fold
from cda.dosing.held_out import cross_validated_doses, draw_prompts
from cda.errors import DataError
from cda.files.jsonl import read_json
from cda.records import Exclusions
from cda.results.base import Estimate, Missing
from cda.stats import estimators
from cda.stats.drift import adjusted_effect
from cda.stats.estimators import correlation_of, mean_of, paired_change, share_of
from cda.stats.means import CROSSED
from cda.stats.panel import mean_change, mean_share, ranks
from cda.stats.people import absolute, auc, auc_change, gap_change, powered_human_skew
from cda.stats.proportions import beyond_noise
from cda.stats.rate import direct_contrast, effect, effect_slope, from_rewards
from cda.stats.votes import Majority, agreement, majority, noise_ceiling
from evals.shared import ROOT, Check, finish

LEAST, FEWEST_PRINTED = 0.92, 100
PROMPTS, DRAWS, SEED = (3, 5, 10, 20, 80), 1000, 3
RUNS = {80: 400}
"""Samples of a cell, by prompts; else 1,000."""
Shape = Literal["even", "uneven", "skewed"]
RESULT = ROOT / "evals" / "results" / "coverage.json"
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
Several = dict[str, Found]
"""Of one sample, by kind: what is dear to compute is computed once."""


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


def rank(nearest: bool, apart: float) -> Callable[[Rows], Found]:
    """The place of one of five models, drawn anew each time, whose true shares lie so far apart."""

    def found(rows: Rows) -> Found:
        p, contrasts = SHARES[rows.shape], rows.normal()
        shares = p + apart * (np.arange(5) - (0 if nearest else 2))
        shares = np.clip(shares if p < 0.8 or not nearest else p - apart * np.arange(5), 0.03, 0.97)
        hits = np.stack([rows.hits(each, np.sqrt(0.5) * (contrasts + rows.normal(0.0))) for each in shares])
        at = int(rows.rng.integers(5))
        if not nearest:
            return ranks(hits, rows.ids)[at], 5.0 - at
        people = rows.hits(p, np.sqrt(0.5) * (contrasts + rows.normal(0.0)))
        return ranks(hits, rows.ids, people)[at], at + 1.0

    return found


def ceiling(n_votes: int) -> Callable[[Rows], Found]:
    """Votes of people on items whose chances of the perturbed side are spread by a Beta, alike within prompts: `even` around 50%, else 75%."""

    def found(rows: Rows) -> Found:
        spread = (1.0, 1.0) if rows.shape == "even" else (1.5, 0.5)
        chance = stats.beta.ppf(stats.norm.cdf(rows.normal(0.3)), *spread)
        first = rows.rng.binomial(n_votes, chance)
        counts = np.column_stack([first, n_votes - first, 0 * first])
        return noise_ceiling(counts, majority(counts, "drop"), rows.ids).miscalibration, _true_ceiling(n_votes, spread)

    return found


@cache
def _true_ceiling(n_votes: int, spread: tuple[float, float]) -> float:
    """Chance that two majorities of an odd number of votes differ."""
    chance = stats.beta.ppf((np.arange(200_000) + 0.5) / 200_000, *spread)
    most = np.asarray(stats.binom.sf(n_votes // 2, n_votes, chance))
    return float((2 * most * (1 - most)).mean())


DOSES = (0.0, 0.5, 1.0, 1.5, 2.0)


def dosed(rows: Rows) -> DoseCurve:
    """Margins that fall with the dose, and people who want less of the bias than the base model; as many quality pairs, on other prompts,
    that lose a little with each dose."""
    people, model, pairs = rows.normal(), rows.normal(), rows.normal()
    p, n = SHARES[rows.shape] - 0.2, len(rows.at)
    steps = [0.6 * people + 0.7 * model + np.sqrt(0.15) * rows.normal() for _ in DOSES]
    margins = np.stack([stats.norm.ppf(p + 0.25) - 0.5 * dose - step for dose, step in zip(DOSES, steps, strict=True)])
    quality = np.stack([0.8 - 0.05 * dose - 0.95 * pairs - 0.3 * rows.normal() for dose in DOSES])
    target = rows.hits(p, people)
    majorities = Majority(target, np.ones(n, dtype=bool), "half", Exclusions(n, {}))
    return DoseCurve(DOSES, margins, majorities, rows.ids, quality, [f"q{name}" for name in rows.ids])


def held_out_dose(rows: Rows) -> Several:
    """A dose chosen on one half of the prompts and measured on the other; the truth is what such choices come to on average over samples
    of so many prompts."""
    n, shape = int(rows.at.max()) + 1, rows.shape
    found = cross_validated_doses(dosed(rows), rows.rng, repeats=REPEATS, max_quality_loss=0.05)
    own_bias, true = found.held_out[""], _true_held(n, shape)
    assert found.quality is not None
    keys, gap = ("skew_on_voted", "miscalibration", "signed_gap"), own_bias.sizes["gap"]
    own = {key: own_bias.people[key] for key in keys} | {"accuracy": found.quality}
    own |= {f"change of {key}": change for key, change in own_bias.against_base.items() if key in own}
    own |= {"distance": gap.after, "change of distance": gap.change}  # type: ignore[dict-item]
    return {f"held-out {name}": (found, true[name]) for name, found in own.items()}


@cache
def _true_held(n: int, shape: Shape) -> dict[str, float]:
    rng, sums = np.random.default_rng([SEED, n, len(shape)]), []
    for _ in range(TRUTH_RUNS):
        curve = dosed(rows_of(n, shape, rng))
        held, target, base = out_of_fold(curve, rng, REPEATS, 0.05), curve.people.target, curve.margins[0] > 0
        assert held.quality_margins is not None and curve.quality_margins is not None
        hits = held.margins > 0
        own = [hits.mean(), np.abs(hits - target).mean(), (hits - target).mean(), (held.quality_margins > 0).mean()]
        first = [
            base.mean(),
            np.abs(base - target).mean(),
            (base - target).mean(),
            (curve.quality_margins[0] > 0).mean(),
        ]
        sums.append([*own, *first])
    names = ("skew_on_voted", "miscalibration", "signed_gap", "accuracy")
    own, first = np.mean(sums, axis=0).reshape(2, 4)
    true = dict(zip(names, own.tolist(), strict=True))
    true |= {f"change of {name}": float(own[at] - first[at]) for at, name in enumerate(names)}
    return true | {"distance": abs(float(own[2])), "change of distance": float(abs(own[2]) - abs(first[2]))}


KINDS: dict[str, Callable[[Rows], Found | Several]] = {
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
    "rank by skew, models 10 points apart": rank(nearest=False, apart=0.1),
    "rank by skew, models 3 points apart": rank(nearest=False, apart=0.03),
    "rank by distance, models 8 points apart": rank(nearest=True, apart=0.08),
    "noise ceiling, 3 votes": ceiling(3),
    "noise ceiling, 5 votes": ceiling(5),
    "held-out": held_out_dose,
}
FEWER = {"held-out": (1000, 1000), "noise ceiling": (1000, 1000), "rank": (600, 300)}
"""Samples of a cell of kinds that open so, and of one of 80 prompts."""
REPEATS, TRUTH_RUNS, HELD_DRAWS = 10, 600, 200
"""Splits of the held-out doses in place of 50; samples behind their truth; draws of prompts in place of 1,000."""
SKEWED = ("mean", "direct contrast", "RATE double ATE", "slope of a covariate")


def cell(kind: str, n: int, shape: Shape) -> dict[str, dict[str, float]]:
    """By kind: shares of samples whose interval is printed, and of those that hold the truth."""
    estimators.N_DRAWS = DRAWS
    held_out.draw_prompts = partial(draw_prompts, n_draws=HELD_DRAWS)
    rng = np.random.default_rng([SEED, n, len(kind), sum(map(ord, kind)), sum(map(ord, shape))])
    few, fewest = next((own for name, own in FEWER.items() if kind.startswith(name)), (1000, 1000))
    runs = min(RUNS.get(n, 1000), fewest if n in RUNS else few)
    printed, held = Counter[str](), Counter[str]()
    for _ in range(runs):
        try:
            found = KINDS[kind](rows_of(n, shape, rng))
        except DataError:
            continue
        for name, (own, truth) in (found if isinstance(found, dict) else {kind: found}).items():
            if isinstance(own, Estimate):
                printed[name] += 1
                held[name] += own.low - 1e-9 <= truth <= own.high + 1e-9
    return {
        name: {"printed": printed[name] / runs}
        | ({"held": held[name] / printed[name]} if printed[name] >= FEWEST_PRINTED else {})
        for name in printed or [kind]
    }


Table = dict[str, dict[str, dict[str, dict[str, float]]]]
"""Kind, shape and prompts to the shares of `cell`."""


def cells(kind: str) -> Table:
    """All cells of a kind, or of those that are computed with it."""
    shapes: tuple[Shape, ...] = ("even", "uneven", "skewed") if kind in SKEWED else ("even", "uneven")
    table: Table = {}
    for shape in shapes:
        for n in PROMPTS:
            for name, own in cell(kind, n, shape).items():
                table.setdefault(name, {}).setdefault(shape, {})[str(n)] = own
    return table


def told(table: Table) -> int:
    """Check every kind, and write the result."""
    checks = []
    for kind, by_shape in table.items():
        shown = {
            (own["held"], f"{shape}, {n} prompts")
            for shape, by_n in by_shape.items()
            if shape != "skewed"
            for n, own in by_n.items()
            if "held" in own
        }
        if not shown:
            continue  # printed with no number of prompts
        least, where = min(shown)
        checks.append(
            Check(f"{kind}: {LEAST:.0%} or more, wherever it is printed", f"{least:.1%} ({where})", least >= LEAST)
        )
    numbers = {
        "samples a cell": {str(n): RUNS.get(n, 1000) for n in PROMPTS},
        "fewer samples": FEWER,
        "coverage": table,
    }
    return finish(
        "coverage", (__doc__ or "").partition("\n\n")[0].removeprefix("Claim: ").replace("\n", " "), checks, numbers
    )


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kinds", nargs="+", default=[""], help="first letters of kinds; the others stay as they were")
    wanted = tuple(parser.parse_args().kinds)
    kinds = [kind for kind in KINDS if kind.startswith(wanted)]
    kept = read_json(RESULT)["numbers"]["coverage"] if len(kinds) < len(KINDS) else {}
    table: Table = {name: own for name, own in kept.items() if not name.startswith(wanted)}
    with multiprocessing.get_context("fork").Pool(2) as pool:
        for found in pool.imap(cells, kinds):
            table |= found
            print(found, flush=True)
    return told(table)


if __name__ == "__main__":
    sys.exit(main())
