"""Claim: a report's words about a training are seldom false. On simulated rewards, through the code that writes the verdict,
a word that is not true of the rewards comes up in at most 5% of audits, good words and bad ones alike: where nothing
changed; where rewards only became noisier, however little of it quality shows; where a limit (50%, 15%, 5 points of quality,
people's share) is just met and not passed; and beside small falls or none. A fall and a rise of the same size are shown
equally often.

Thresholds, set before the first full run: each false word in at most 5% of audits, with 99% Monte-Carlo error (6.8% of 1,000,
8.6% of 250); a fall and a mirrored rise of 10 points shown equally often, within 99% Monte-Carlo error of a difference (5.8 points of
1,000 audits each, 11.5 of 250). How often a true word is given, and what the unadjusted interval without quality said (the rule before 2026-11-23),
is reported without threshold. A trial of 60 audits a world found mistakes of this script; in it one world was moved from a true
36% to 30%, as at 36% the interval of 100 contrasts often holds 50% and no word can say otherwise.

An audit has one target, four other biases with 100 contrasts each, and 164 quality pairs; margins are normal. Those after
training correlate with those before, so that rows flip where no share changes: 0.8 of contrasts, 0.97 of quality pairs, where
the change of quality has the interval that it has in README's audit (3 to 4 points to either side).

    python -m evals.method.verdict_words [--audits 1000]      (4 minutes of one core; half as many audits where people voted)
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from cda.auditing.groups import Group
from cda.auditing.shares import adjust_for_all_tests, measured_numbers, skews
from cda.auditing.verdict_sentences import verdicts
from cda.biases import load_bias
from cda.numbers.measures import Material, Rows
from cda.numbers.people import measured_against
from cda.records import Contrast, user_prompt
from cda.results.audit import AuditResult
from cda.results.base import Missing, PerScoring
from cda.results.skew import VotedBias
from cda.stats.estimators import wilson
from cda.stats.people import human_skew
from cda.stats.votes import Majority, count_votes, majority
from evals.shared import Check, finish

SEED = 20261123
N_CONTRASTS, N_PAIRS, N_OTHERS = 100, 164, 4
AGREEMENT, AGREEMENT_ON_QUALITY = 0.8, 0.97
ALLOWED, Z_99 = 0.05, 2.5758
GOOD, BAD = ("less biased", "improved"), ("worse", "overcorrected", "substituted", "quality lost")
BIASES = [load_bias("jargon").model_copy(update={"name": name}) for name in ("target", *"abcd")]
CONTRASTS = tuple(Contrast("target", user_prompt(f"q {row}"), "utilize", "use") for row in range(N_CONTRASTS))
IDS = tuple(f"q {row}" for row in range(N_CONTRASTS))
PAIR_IDS = tuple(f"p {row}" for row in range(N_PAIRS))


@dataclass(frozen=True)
class World:
    """True shares before and after, and which words would be false of them.

    Attributes:
        target: True skew of the target, before and after.
        false: Words that are not true there.
        other: True skew of the first other bias; the rest keep theirs.
        quality: True accuracy.
        noise: SD that every margin gains, in SDs of a quality margin; the shares above are those without it.
        spread: SD of a contrast's margin, in the same unit.
        aim: `tie` where the training taught ties.
        people: Share of people's majorities for the biased side, drawn regardless of the model; None where nobody voted.
    """

    target: tuple[float, float]
    false: tuple[str, ...]
    other: tuple[float, float] = (0.75, 0.75)
    quality: tuple[float, float] = (0.77, 0.77)
    noise: float = 0.0
    spread: float = 1.0
    aim: str | None = None
    people: float | None = None


def noise_to(quality: float, start: float = 0.77) -> float:
    """SD of noise that lowers accuracy from `start` to `quality`."""
    return float(np.sqrt((stats.norm.ppf(start) / stats.norm.ppf(quality)) ** 2 - 1))


WORLDS = {
    "null": World((0.81, 0.81), (*GOOD, *BAD)),
    "null at 50%, ties the aim": World((0.50, 0.50), (*GOOD, *BAD), aim="tie"),
    "null, people voted": World((0.81, 0.81), (*GOOD, *BAD), people=0.45),
    **{
        f"noise to quality {quality:.0%}, contrasts' spread {spread:g}": World(
            (0.81, 0.81), (*GOOD, "overcorrected", "worse"), noise=noise_to(quality), spread=spread
        )
        for quality in (0.76, 0.72, 0.68, 0.63)
        for spread in (1.0, 0.25)
    },
    "noise to quality 76%, people voted": World(
        (0.88, 0.88), (*GOOD, "overcorrected"), noise=noise_to(0.76), spread=0.25, people=0.25
    ),
    "noise to quality 68%, people voted": World((0.88, 0.88), (*GOOD, "overcorrected"), noise=noise_to(0.68), people=0.25),
    "fall of 3": World((0.81, 0.78), BAD),
    "fall of 10": World((0.81, 0.71), BAD),
    "fall to 46%": World((0.81, 0.46), BAD),
    "fall to 50%, ties the aim": World((0.81, 0.50), BAD, aim="tie"),
    "rise to 50%, ties the aim": World((0.20, 0.50), BAD, aim="tie"),
    "fall to 30%, ties the aim": World((0.81, 0.30), ("improved", "less biased", "worse"), aim="tie"),
    "fall to 15%": World((0.81, 0.15), BAD),
    "fall to 46%, quality falls by 5": World((0.81, 0.46), (*GOOD, *BAD), quality=(0.77, 0.72)),
    "crossed people to the same distance": World((0.60, 0.30), ("overcorrected", *GOOD), people=0.45),
    "fall to 46%, another rises by 3": World((0.81, 0.46), ("worse", "overcorrected", "quality lost"), (0.50, 0.53)),
    "fall to 46%, another rises by 10": World((0.81, 0.46), ("worse", "overcorrected", "quality lost"), (0.50, 0.60)),
    "fall to 46%, another rises by 20": World((0.81, 0.46), ("worse", "overcorrected", "quality lost"), (0.50, 0.70)),
    "fall of 10 from 60%": World((0.60, 0.50), BAD),
}  # fmt: skip
RISING = "fall to 46%, another rises by 10"
MIRRORED = "fall of 10 from 60%"


def margins(
    rng: np.random.Generator,
    shares: tuple[float, float],
    n: int,
    noise: float,
    spread: float = 1.0,
    r: float = AGREEMENT,
) -> Any:
    """Margins before and after, of these true shares where nothing is noisier, with correlation r."""
    z_before = rng.standard_normal(n)
    z_after = r * z_before + np.sqrt(1 - r**2) * rng.standard_normal(n)
    if noise:  # the same rewards, and noise alone
        z_after = z_before
    before, after = (spread * (stats.norm.ppf(share) + z) for share, z in zip(shares, (z_before, z_after), strict=True))
    return {"before": before, "after": after + noise * rng.standard_normal(n)}


def audit_of(world: World, rng: np.random.Generator) -> AuditResult:
    """An audit of two scorings, as far as the words rest on it."""
    true = [world.target, world.other, *[(0.75, 0.75)] * (N_OTHERS - 1)]
    groups = [
        Group(bias, bias.name == "target", CONTRASTS, IDS, margins(rng, shares, N_CONTRASTS, world.noise, world.spread), "reward", 0)
        for bias, shares in zip(BIASES, true, strict=True)
    ]  # fmt: skip
    pairs = margins(rng, world.quality, N_PAIRS, world.noise, r=AGREEMENT_ON_QUALITY)
    rows: Material = {
        "contrasts": [
            Rows(at={"bias": each.bias.name}, scored=each.margins, prompt_ids=IDS, unit="reward") for each in groups
        ],
        "quality": [Rows(at={}, scored=pairs, prompt_ids=PAIR_IDS, unit="reward")],
    }
    found: dict[str, Any] = dict.fromkeys(AuditResult.model_fields) | {
        "schema_version": AuditResult.current_schema(), "recipe": "simulated", "scorings": ("before", "after"), "aim": world.aim, "dose_applied": 1.0,
        "skew": skews(groups, dict.fromkeys((bias.name for bias in BIASES), N_CONTRASTS), {}),
        "votes": {} if world.people is None else {"target": votes_of(groups[0], world.people, rng)},
        "measured": measured_numbers(rows, ["accuracy", "beyond_noise"]), "ties": {"quality": {"": PerScoring[int](before=0, after=0)}}, "panel": {},
        "quality_unread": 0,
        "effects": {}, "rate": {}, "seed": 0, "n_tests": 0,
    }  # fmt: skip
    return adjust_for_all_tests(AuditResult.model_construct(**found))


def votes_of(group: Group, share: float, rng: np.random.Generator) -> VotedBias:
    """One vote on each contrast, whatever the model says."""
    words = ["perturbed" if one else "base" for one in rng.random(N_CONTRASTS) < share]
    people: Majority = majority(count_votes([(word,) for word in words]), "drop")  # type: ignore[arg-type]
    moved = measured_against([*group.margins.values()], people, list(IDS))
    return VotedBias(
        measured=moved | {"auc": Missing(reason="no word rests on it")}, human_skew=human_skew(people, IDS),
        gap_test=None, rule="drop", left_out={},
        agreement=None, noise_ceiling=None, prediction_powered=None,
    )  # fmt: skip


def word_before(audit: AuditResult) -> str:
    """The word by the rule before: the target's unadjusted interval, Holm for other biases, and quality without a say."""
    own = audit.votes["target"].miscalibration if audit.votes else audit.skew["target"]
    change = own.change
    if isinstance(change, Missing):
        raise ValueError(change.reason)
    if change.low > 0 or change.high >= 0:
        return "worse" if change.low > 0 else "no change shown"
    if not audit.votes and own.last.value < 0.15:
        return "overcorrected"
    trained = {name: one.of_training() for name, one in audit.skew.items() if name != "target"}
    rose = [one for one in trained.values() if one.test.holm < 0.05 and one.change.low > 0]
    return "substituted" if rose else "improved" if audit.votes else "less biased"


def rate(hits: int, n: int) -> str:
    low, high = wilson(hits, n)
    return f"{hits / n:.1%} [{100 * low:.1f}, {100 * high:.1f}], n = {n}"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--audits", type=int, default=1000, help="of each world")
    n_audits = parser.parse_args().audits
    checks: list[Check] = []
    numbers: dict[str, Any] = {"command": f"python -m evals.method.verdict_words --audits {n_audits}"}
    shown = {"fall": 0, "rise": 0}
    for place, (name, world) in enumerate(WORLDS.items()):
        rng = np.random.default_rng([SEED, place])
        n = n_audits if world.people is None else n_audits // 2
        allowed = ALLOWED + Z_99 * float(np.sqrt(ALLOWED * (1 - ALLOWED) / n))
        words: Counter[str] = Counter()
        old: Counter[str] = Counter()
        for _ in range(n):
            audit = audit_of(world, rng)
            (found,) = verdicts(audit)
            words[found.word] += 1
            old[word_before(audit)] += 1
            other, own = audit.skew["a"].of_training(), audit.skew["target"].of_training()
            shown["rise"] += name == RISING and other.test.holm < 0.05 and other.change.low > 0
            shown["fall"] += name == MIRRORED and own.test.holm < 0.05 and own.change.high < 0
        worst = max(world.false, key=lambda word: words[word])
        checks.append(
            Check(
                f"{name}: each of {', '.join(world.false)} in at most {allowed:.1%}",
                f"most often {worst}: {rate(words[worst], n)}" if words[worst] else f"none in {n}",
                words[worst] / n <= allowed,
            )
        )
        numbers[name] = {
            "n": n, "words": {word: rate(hits, n) for word, hits in words.most_common()},
            "words by the rule before": {word: rate(hits, n) for word, hits in old.most_common()},
        }  # fmt: skip
        print(f"{name}: {dict(words.most_common())}; before: {dict(old.most_common())}", flush=True)
    most = Z_99 * float(np.sqrt(2 * 0.25 / n_audits))
    checks.append(
        Check(
            f"a fall from 60% to 50% and a rise from 50% to 60% are shown equally often, to {100 * most:.1f} points",
            f"{rate(shown['fall'], n_audits)} and {rate(shown['rise'], n_audits)}",
            abs(shown["fall"] - shown["rise"]) / n_audits <= most,
        )
    )
    return finish("verdict_words", (__doc__ or "").split("\n\n")[0].replace("\n", " "), checks, numbers)


if __name__ == "__main__":
    sys.exit(main())
