"""The tilted policy that `cda best-of` estimates from few samples, against the one that a closed form gives."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np

from cda.arrays import FloatArray
from cda.benchmarks.best_of_n import GRID, Attribute, best_of_n, tilted
from cda.results.base import Estimate
from cda.results.benchmarks import Tilt
from cda.stats.estimators import wilson
from cda.stats.tilt import Padded, Tilted, fewest_effective
from evals.shared import Check, finish

CLAIM = (
    "the tilted policy of `cda best-of` is that of the closed form for a binary attribute under a Gaussian reward: with many samples its "
    "prevalence, reward and KL, and with few samples of a prompt still, as far as it says that they support a tilt: its 95% intervals hold "
    "the truth, those of the paired change between two rewards too, and little of the shift is missing. Plain weights miss far more."
)
# Stated first. Prompts of a run, and the shares of intervals that hold the truth: on average over β, and at the worst β.
N_PROMPTS, N_RESPONSES, RUNS, MANY_RUNS = 100, (4, 8, 16, 64), 300, 2000
MEAN, WORST = 0.935, 0.90
SHORTFALL = {4: 0.15, 8: 0.10, 16: 0.10, 64: 0.10}
"""Share of the shift that may be missing at the strongest supported β, by responses to a prompt."""
EXACT_POINTS, EXACT_KL = 0.005, 0.01
DELTA, SIGMA, SEED = {"before": 1.0, "after": 0.25}, 0.7, 11
RATES = (2.0, 4.0)
"""Beta distribution of the attribute's share over prompts."""


def main() -> int:
    rng = np.random.default_rng(SEED)
    exact = exactness(rng)
    found = {n: coverage(n, rng) for n in N_RESPONSES}
    shifts = {n: shortfall(n, rng) for n in N_RESPONSES}
    checks = [
        Check(f"20,000 samples of each of 200 prompts: prevalence within {100 * EXACT_POINTS:g} points, KL within {EXACT_KL:g} nats, at every β to 0.5 SD",
              f"{100 * exact['prevalence']:.2f} points, {exact['kl']:.4f} nats", exact["prevalence"] <= EXACT_POINTS and exact["kl"] <= EXACT_KL)
    ]  # fmt: skip
    for n, cells in found.items():
        for what, by_beta in cells.items():
            shares = [hits / tried for hits, tried in by_beta.values()]
            checks.append(
                Check(f"{n} responses, {what}: {MEAN:.1%} of intervals on average over β, {WORST:.0%} at the worst",
                      f"{np.mean(shares):.1%}, {min(shares):.1%}; β {', '.join(by_beta)}", bool(np.mean(shares) >= MEAN and min(shares) >= WORST))
            )  # fmt: skip
    checks += [
        Check(f"{n} responses, at the strongest supported β ({at['beta_sd']:.2g} SD): {SHORTFALL[n]:.0%} of the shift is missing at most",
              f"{1 - at['jackknifed']:.1%} [{1 - at['high']:.1%}, {1 - at['low']:.1%}], and {1 - at['kl']:.1%} of the KL; with plain weights {1 - at['plain']:.1%}",
              1 - at["jackknifed"] <= SHORTFALL[n])
        for n, at in shifts.items()
    ]  # fmt: skip
    numbers: dict[str, Any] = {
        "prompts of a run": N_PROMPTS,
        "runs": RUNS,
        "interval of a coverage of 95%": wilson(0.95 * RUNS, RUNS),
        "exact": exact,
        "coverage": found,
        "shift at the strongest supported β": shifts,
    }
    return finish("policy_tilt", CLAIM, checks, numbers)


def deviation(label: str) -> float:
    """The true standard deviation of a reward within prompts."""
    a, b = RATES
    mean_variance = a * b / ((a + b) * (a + b + 1))
    return float(np.sqrt(SIGMA**2 + DELTA[label] ** 2 * mean_variance))


def truth(label: str, beta: float) -> dict[str, float]:
    """Prevalence, reward gained and KL of the tilted policy, as means over prompts, by quadrature over the attribute's share."""
    u = (np.arange(20_000) + 0.5) / 20_000
    density = u ** (RATES[0] - 1) * (1 - u) ** (RATES[1] - 1)
    weights, delta = density / density.sum(), DELTA[label]
    q = u * np.exp(delta / beta) / (1 - u + u * np.exp(delta / beta))
    kl = q * np.log(q / u) + (1 - q) * np.log((1 - q) / (1 - u)) + SIGMA**2 / (2 * beta**2)
    return {
        "prevalence": float(weights @ q),
        "reward": float(weights @ (delta * (q - u))) + SIGMA**2 / beta,
        "kl": float(weights @ kl),
    }


def world(n_prompts: int, n: int, rng: np.random.Generator) -> tuple[FloatArray, dict[str, FloatArray]]:
    """Attribute and rewards of shape (n_prompts · n,): both rewards share their noise, and prompts their own level."""
    shown = (rng.random((n_prompts, n)) < rng.beta(*RATES, size=(n_prompts, 1))).astype(np.float64)
    other = SIGMA * rng.normal(size=shown.shape) + 5 * rng.normal(size=(n_prompts, 1))
    return shown.ravel(), {label: (delta * shown + other).ravel() for label, delta in DELTA.items()}


def exactness(rng: np.random.Generator) -> dict[str, float]:
    """Largest distance of the mean over prompts from that of the same prompts' closed form, over β from 4 to 0.5 SD."""
    n_prompts, n, distance = 200, 20_000, {"prevalence": 0.0, "kl": 0.0}
    rates = rng.beta(*RATES, size=(n_prompts, 1))
    shown = (rng.random((n_prompts, n)) < rates).astype(np.float64)
    rewards = DELTA["before"] * shown + SIGMA * rng.normal(size=shown.shape)
    samples = Padded.of(list(np.arange(n_prompts * n).reshape(n_prompts, n)))
    for beta_sd in GRID[:7]:
        beta = beta_sd * deviation("before")
        tilt, raised = Tilted(rewards.ravel(), beta, samples), rates * np.exp(DELTA["before"] / beta)
        q = raised / (1 - rates + raised)
        kl = q * np.log(q / rates) + (1 - q) * np.log((1 - q) / (1 - rates)) + SIGMA**2 / (2 * beta**2)
        distance["prevalence"] = max(distance["prevalence"], abs(float(tilt.means(shown.ravel()).mean() - q.mean())))
        distance["kl"] = max(distance["kl"], abs(float(tilt.kl_nats().mean() - kl.mean())))
    return distance


def coverage(n: int, rng: np.random.Generator) -> dict[str, dict[str, tuple[int, int]]]:
    """Intervals that hold the truth, and intervals made, by number and β: those that were supported in half of the runs, and the
    strongest that each run supports, which chance takes beyond these."""
    betas = [beta_sd * deviation("before") for beta_sd in GRID]
    true = {label: {beta: truth(label, beta) for beta in betas} for label in DELTA}
    hits: dict[str, dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    ids = np.repeat(np.arange(N_PROMPTS), n).astype(str).tolist()
    for _ in range(RUNS):
        strongest: dict[str, bool] = {}
        shown, rewards = world(N_PROMPTS, n, rng)
        attribute = Attribute("planted", "share", shown)
        curves = best_of_n(rewards, [attribute], ids, sizes=[2])
        for beta, held in _held(tilted(rewards, [attribute], ids, curves, betas), true).items():
            for what, holds in held.items():
                hits[what][f"{beta / deviation('before'):.2g}"].append(holds)
                strongest[what] = holds
        for what, holds in strongest.items():
            hits[what]["each run's strongest"].append(holds)
    return {
        what: {beta: (sum(holds), len(holds)) for beta, holds in by_beta.items() if 2 * len(holds) >= RUNS}
        for what, by_beta in hits.items()
    }


def _held(tilt: Tilt, true: Mapping[str, Mapping[float, Mapping[str, float]]]) -> dict[float, dict[str, bool]]:
    """By β of those asked for: whether each interval that was made holds the truth."""
    held: dict[float, dict[str, bool]] = {}
    asked = slice(len(GRID), None)
    for policies, at in zip(tilt.policies[asked], tilt.attributes[0].at[asked], strict=True):
        before, after = policies["before"], policies["after"]
        known, other = true["before"][before.beta], true["after"][after.beta]
        made = {
            "prevalence": (at.scorings["before"], known["prevalence"]),
            "KL": (before.kl_nats, known["kl"]),
            "reward gained": (before.reward_gained, known["reward"] / tilt.reward_sd["before"]),
            "paired change": (at.change, other["prevalence"] - known["prevalence"]),
        }
        held[before.beta] = {
            what: number.low <= value <= number.high
            for what, (number, value) in made.items()
            if isinstance(number, Estimate)
        }
    return held


def shortfall(n: int, rng: np.random.Generator) -> dict[str, float]:
    """Share of the true shift of prevalence that is found at the strongest β that is supported: jackknifed, with the interval
    of the simulation's error, and by plain weights."""
    shown, rewards = world(40 * MANY_RUNS // n + 4000, n, rng)
    samples = Padded.of(list(np.arange(len(shown)).reshape(-1, n)))
    weak, strong = 0.1, 8.0  # of exp(reward · t): the strongest t by halving
    for _ in range(30):
        middle = float(np.sqrt(weak * strong))
        enough = Tilted(rewards["before"], 1 / middle, samples).effective.mean() >= fewest_effective(samples.n)
        weak, strong = (middle, strong) if enough else (weak, middle)
    tilt = Tilted(rewards["before"], 1 / weak, samples)
    shift = truth("before", 1 / weak)["prevalence"] - RATES[0] / sum(RATES)
    gains, plain = (
        tilt.gains(shown) / shift,
        (tilt.weights * shown[samples.at]).sum(axis=1) - shown[samples.at].mean(axis=1),
    )
    error = 1.96 * float(gains.std(ddof=1)) / np.sqrt(len(gains))
    found = float(gains.mean())
    return {
        "beta_sd": 1 / weak / deviation("before"), "jackknifed": found, "low": found - error, "high": found + error,
        "plain": float(plain.mean() / shift), "kl": float(tilt.kl_nats().mean() / truth("before", 1 / weak)["kl"]),
    }  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
