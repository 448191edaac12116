"""Claim: as long responses are more and more often the positive ones, P(long | positive) from .50 to 1.00 with both
margins fixed at one half, the naive effect of length climbs while the double-rewrite effect does not move.

RATE's design (tables 6 and 7), simulated and on real text. Real: AlpacaEval responses, half of them made positive and
half padded by the rules of cda's own bias files (so that both attributes are known and can be combined at will), the
rewrites by the same rules, and as scorer a sentiment classifier on a frozen MiniLM encoder, trained on the responses to
other prompts. Every response is used once, at one level.

    CDA_DATA=../shared/data python -m evals.method.distribution_shift      (about 5 minutes on 2 cores)
"""

from __future__ import annotations

import gzip
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from cda.biases import load_bias
from cda.embedded.model import encode_sentences
from cda.embedded.rules import RuleRewriter
from cda.features import n_words
from cda.records import RewriteRequest, user_prompt
from cda.results.effects import Effect
from cda.stats.rate import Contrasts, Estimator, conditional_effects, effect_slope, from_rewards, pooled_within_group_sd
from evals.method.simulated_world import World, draw
from evals.shared import DATA, Check, finish

FloatArray = NDArray[np.float64]
SEED = 20261121
LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
ESTIMATORS: tuple[Estimator, ...] = ("naive", "single", "double")
SIMULATED_PER_LEVEL, SIMULATED_DRAWS = 400, 500
REAL_PER_LEVEL = 100
MIN_WORDS, MAX_WORDS = 30, 150
TRAIN_SHARE = 1 / 3
MAX_TOKENS = 512
RIDGE = 1e-2
LARGE = 1.0  # SD of the originals' rewards within groups, per unit of P(long | positive)


def cells(per_level: int) -> Iterator[tuple[float, bool, bool]]:
    """(level, long, positive) of every response: half of each level long, half positive."""
    for level in LEVELS:
        for positive in (True, False):
            n_long = round((level if positive else 1 - level) * per_level / 2)
            for number in range(per_level // 2):
                yield level, number < n_long, positive


def simulated(rng: np.random.Generator) -> tuple[Contrasts, FloatArray]:
    """One data set: Z is ±1 for positive and negative, the effect of length is the same everywhere."""
    rows = list(cells(SIMULATED_PER_LEVEL))
    level, long, positive = (np.array(column) for column in zip(*rows, strict=True))
    world = World(effect_by_z=0.0)
    z = np.where(positive, 1.0, -1.0)
    return draw(world, rng, len(rows), 1, z, long.astype(bool)).contrasts(), level.astype(float)


def short_responses(path: Path) -> dict[str, list[str]]:
    """Distinct responses of some words without code, by prompt, in the order of the file."""
    found: dict[str, dict[str, None]] = {}
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for row in map(json.loads, file):
            for text in (row["chosen"], row["rejected"]):
                if MIN_WORDS <= n_words(text) <= MAX_WORDS and "`" not in text:
                    found.setdefault(row["prompt"], {})[text] = None
    return {prompt: list(texts) for prompt, texts in found.items()}


def rewritten(prompt: str, text: str, name: str, direction: str, seed: int) -> tuple[str | None, str]:
    """Text with a bias added or removed by rules, or None and the reason."""
    request = RewriteRequest(user_prompt(prompt), text, direction, text)  # type: ignore[arg-type]
    done = RuleRewriter(seed).rewrite([request], load_bias(name))[0]
    return done.text, f"{name} {direction}: {done.reason}"


def triple(prompt: str, text: str, long: bool, positive: bool) -> tuple[list[str] | None, str]:
    """Original, rewrite and rewrite of rewrite of a response in the wanted cell, or why there are none."""
    steps = [("sentiment", "add", 1)] if positive else []
    steps += [("length", "add", 1), ("length", "remove", 2), ("length", "add", 3)]
    steps = steps if long else steps[:-1]
    versions: list[str] = [text]
    for name, direction, seed in steps:
        done, reason = rewritten(prompt, versions[-1], name, direction, seed)
        if done is None:
            return None, reason
        versions.append(done)
    return versions[-3:], ""


def logistic(features: FloatArray, labels: NDArray[np.bool_]) -> tuple[FloatArray, float]:
    """Ridge logistic regression: weights and intercept of the log-odds."""
    sign = np.where(labels, 1.0, -1.0)

    def loss(point: FloatArray) -> tuple[float, FloatArray]:
        weights, intercept = point[:-1], point[-1]
        margin = sign * (features @ weights + intercept)
        pull = -sign / (1 + np.exp(margin)) / len(sign)
        gradient = np.append(features.T @ pull + RIDGE * weights, pull.sum())
        return float(np.logaddexp(0, -margin).mean() + RIDGE / 2 * weights @ weights), gradient

    point = optimize.minimize(loss, np.zeros(features.shape[1] + 1), jac=True, method="L-BFGS-B").x
    return point[:-1], float(point[-1])


def real(path: Path, rng: np.random.Generator) -> tuple[Contrasts, FloatArray, dict[str, Any]]:
    """The triples on real text, scored; the level of each; and how many were made and dropped."""
    responses = short_responses(path)
    prompts = [list(responses)[row] for row in rng.permutation(len(responses))]
    cut = round(TRAIN_SHARE * len(prompts))
    dropped: Counter[str] = Counter()
    train: list[tuple[str, bool]] = []
    for prompt in prompts[:cut]:
        for text in responses[prompt]:
            done, reason = rewritten(prompt, text, "sentiment", "add", 1)
            if done is None:
                dropped["classifier, " + reason] += 1
            else:
                train += [(text, False), (done, True)]
    queue = [(prompt, text) for prompt in prompts[cut:] for text in responses[prompt]]
    queue = [queue[row] for row in rng.permutation(len(queue))]
    wanted = list(cells(REAL_PER_LEVEL))
    wanted = [wanted[row] for row in rng.permutation(len(wanted))]
    made: list[tuple[str, list[str], float, bool, bool]] = []
    for prompt, text in queue:
        if len(made) == len(wanted):
            break
        level, long, positive = wanted[len(made)]
        versions, reason = triple(prompt, text, long, positive)
        if versions is None:
            dropped[reason] += 1
        else:
            made.append((prompt, versions, level, long, positive))
    if len(made) < len(wanted):
        raise SystemExit(f"only {len(made)} of {len(wanted)} triples could be made; dropped: {dict(dropped)}")
    texts = [text for text, _ in train] + [text for _, versions, *_ in made for text in versions]
    features = encode_sentences(texts, MAX_TOKENS)
    labels = np.array([label for _, label in train])
    centre, spread = features[: len(train)].mean(0), features[: len(train)].std(0)
    features = (features - centre) / spread
    weights, intercept = logistic(features[: len(train)], labels)
    scores = (features[len(train) :] @ weights + intercept).reshape(-1, 3)
    positive = np.array([row[4] for row in made])
    long = np.array([row[3] for row in made])
    contrasts = from_rewards(*scores.T, long, [row[0] for row in made], "log-odds of positive")
    words = np.array([[n_words(text) for text in row[1]] for row in made])
    facts = {
        "n_train_texts": len(train),
        "n_train_prompts": cut,
        "n_triples": len(made),
        "n_prompts": len(set(contrasts.prompt_ids)),
        "dropped": dict(dropped),
        "classifier_accuracy_on_unseen_prompts": float(((scores[:, 0] > 0) == positive).mean()),
        "mean_words_long_short": [float(words[long, 0].mean()), float(words[~long, 0].mean())],
    }
    return contrasts, np.array([row[2] for row in made]), facts


def slopes(contrasts: Contrasts, level: FloatArray) -> dict[str, Effect]:
    """Change of each estimate for one unit of P(long | positive)."""
    return {estimator: effect_slope(contrasts, level, estimator) for estimator in ESTIMATORS}


def judge(found: dict[str, Effect], sd: float, where: str) -> list[Check]:
    """The thresholds on one data set."""
    naive, double = found["naive"].estimate, found["double"].estimate
    half = naive.value / 2
    text = f"{double.value:+.3f} [{double.low:+.3f}, {double.high:+.3f}]"
    return [
        Check(
            f"{where}: naive slope large: at least {LARGE:g} SD, interval above 0",
            f"{naive.value / sd:+.2f} SD ({naive.value:+.3f} [{naive.low:+.3f}, {naive.high:+.3f}])",
            naive.value >= LARGE * sd and naive.low > 0,
        ),
        Check(f"{where}: double-rewrite slope not distinguishable from 0", text, double.low <= 0 <= double.high),
        Check(
            f"{where}: and known well enough to say so: its interval within ± half the naive slope ({half:.3f})",
            text,
            -half < double.low and double.high < half,
        ),
    ]


def _spread(contrasts: Contrasts) -> float:
    """SD of the originals within their groups; 0 where there is none."""
    found = pooled_within_group_sd(_originals(contrasts), contrasts.attribute)
    return found if isinstance(found, float) else 0.0


def table(contrasts: Contrasts, level: FloatArray) -> dict[str, dict[str, Any]]:
    """Every estimate at every level."""
    groups = [f"{one:.2f}" for one in level]
    return {
        estimator: {
            name: one.estimate.model_dump()
            for name, one in conditional_effects(contrasts, groups, estimator).items()
            if isinstance(one, Effect)
        }
        for estimator in ESTIMATORS
    }


def main() -> int:
    rng = np.random.default_rng(SEED)
    first, level = simulated(rng)
    checks = judge(slopes(first, level), _spread(first), "simulated")
    rejected = np.mean([effect_slope(simulated(rng)[0], level).p_value <= 0.05 for _ in range(SIMULATED_DRAWS)])
    allowed = 2.5758 * np.sqrt(0.05 * 0.95 / SIMULATED_DRAWS)
    checks.append(
        Check(
            f"simulated: in {SIMULATED_DRAWS} data sets the double-rewrite slope is found different from 0 in 5% ± {allowed:.1%}",
            f"{rejected:.1%}",
            bool(abs(rejected - 0.05) <= allowed),
        )
    )
    numbers: dict[str, Any] = {
        "seed": SEED,
        "simulated": {
            "n_per_level": SIMULATED_PER_LEVEL,
            "by_level": table(first, level),
            "slopes": {name: one.estimate.model_dump() for name, one in slopes(first, level).items()},
        },
    }
    path = DATA / "alpaca_eval" / "pairs.jsonl.gz"
    if path.is_file():
        contrasts, level, facts = real(path, rng)
        found = slopes(contrasts, level)
        sd = _spread(contrasts)
        checks += judge(found, sd, "real text")
        numbers["real"] = {
            **facts,
            "sd_of_originals_within_groups": sd,
            "by_level": table(contrasts, level),
            "slopes": {name: one.estimate.model_dump() for name, one in found.items()},
        }
    else:
        print("real text skipped: alpaca_eval/pairs.jsonl.gz is absent; set CDA_DATA")
        numbers["real"] = None
    return finish("distribution_shift", (__doc__ or "").split("\n\n")[0].replace("\n", " "), checks, numbers)


def _originals(contrasts: Contrasts) -> FloatArray:
    assert contrasts.originals is not None
    return contrasts.originals


if __name__ == "__main__":
    sys.exit(main())
