"""Claim: on a real reward model with natural biases, debiasing brings the model nearer to people and keeps its quality. The soft
targets of `paired` were set with people's votes on these contrasts in view, and dose 0.75, where it is quoted, was read off the same curve.

The model: the MiniLM encoder trained on AlpacaEval's preferences (evals/real_data/real_model.py), which learned what that judge
likes. Ways of debiasing jargon, structure and length in one adapter (evals/real_data/real_ways.py): `paper` (chosen over rejected
responses of AlpacaEval, rewritten by rules to carry the bias), `neutral` (GPT-4o's contrasts that nobody voted on, as ties
for jargon and length, structure kept as it is) and `paired` (the same contrasts with soft targets). Beside both, `keep`:
the base model's own preference on AlpacaEval's pairs. Each at dose 1, which is plain CDA
for `paper`, and at the dose that people choose, held out: votes on contrasts and human preferences (Arena, LLMBar, and the
AlpacaEval test pairs alike in length and layout) are split in two by prompt, 50 times; one half chooses, the other is
measured. The gap is that of one half at a time, averaged, of the base model on the same halves. Beside them removals without
training, and the cross-bias matrix: an adapter against one bias at a time.

`neutral` uses nothing of people but that structure, which they like, is left as it is. The soft targets of `paired` were set with
people's shares on these very contrasts in view (21% for jargon, 34% for length, 89% for structure): what it gains is partly selected.

Thresholds, for `neutral` and `paired` at the chosen dose, held out: the mean gap over biases is half the base model's or
less; on no bias does the paired 95% interval of miscalibration allow a rise of more than 3 points; on the pooled human
preferences the paired 95% interval of accuracy excludes a loss of more than 3 points.

Each seed has a base model of its own. Quality that people judged is also told apart by whether both sides are alike in length and
layout; beside it how often the longer one is the better one.

    python -m evals.real_data.real_debias --work FOLDER --seeds 1 2 3 --matrix paired paper

On 2 cores a base model takes 25 minutes, and each of the 9 adapters as long or longer. On an H100 six processes beside each other,
each with adapters of its own in FOLDER, made these and those of real_variants.py in 9 minutes.

What is finished stays in FOLDER, under a name of its settings, and is not done again.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pydantic_core import to_jsonable_python

from cda.biases import load_bias
from cda.dosing.choice import DoseCurve, mean_size, on_halves, out_of_fold
from cda.dosing.held_out import cross_validated_doses
from cda.dosing.stage import removals
from cda.features import n_words
from cda.files.jsonl import read_json, write_json
from cda.models.config import ModelSpec
from cda.numbers.people import measured_against
from cda.records import Contrast, Pair, prompt_id
from cda.results.base import Estimate, Missing
from cda.run import fingerprint
from cda.scorers.compared import text_id
from cda.stats.drift import DEFAULT_LIMITS, measured, overlap_effect, overlap_of
from cda.stats.people import human_skew
from cda.stats.proportions import positive_shares
from cda.stats.votes import Majority, count_votes, majority
from evals.real_data.real_inputs import (
    BIASES,
    Quality,
    alike,
    missing_data,
    quality_sets,
    taught_contrasts,
    voted_contrasts,
)
from evals.real_data.real_model import Scored, as_pairs, base_model
from evals.real_data.real_ways import WAYS, settings, trained, trained_on
from evals.shared import DATA, SKIPPED, Check, finish

DOSES = (0.0, 0.25, 0.5, 0.625, 0.75, 0.875, 1.0)
POST_HOC_CONTRASTS = 150  # of each bias
POOLED = ("Arena", "LLMBar natural", "AlpacaEval matched")
HELD_TO = ("neutral", "paired")
MAX_WORSE = 0.03
GAPS = "of one half at a time"  # how the gaps of a kept result were made; others are made again
Json = dict[str, Any]


def pooled(sets: Sequence[Quality]) -> list[Pair]:
    """Quality pairs that choose the dose and, on the other half, say what it costs."""
    return list({pair.id: pair for one in sets if one.name in POOLED for pair in one.pairs}.values())


def all_voted() -> list[Contrast]:
    return [one for bias in BIASES for one in voted_contrasts(bias)]


def votes_of(contrasts: Sequence[Contrast]) -> Majority:
    return majority(count_votes([one.votes for one in contrasts]), "drop")


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def measured_way(way: str, seed: int, spec: ModelSpec, work: Path, scored: Scored, sets: Sequence[Quality]) -> Json:
    """Everything about one adapter: held out at chosen doses, and as it is at the dose all votes choose and at 1."""
    adapter = trained(way, seed, spec, work)
    contrasts, pairs = all_voted(), pooled(sets)
    curve = dose_curve(
        np.array([scored.margins(adapter, dose, as_pairs(contrasts)) for dose in DOSES]),
        np.array([scored.margins(adapter, dose, pairs) for dose in DOSES]),
        contrasts,
        pairs,
    )
    chosen, held = held_out(curve)
    found: Json = {"chosen": chosen, "held_out": held, "at": {}, "frontier": frontier(curve, contrasts, pairs)}
    for dose in sorted({1.0, chosen}):
        found["at"][f"{dose:g}"] = {
            "people": against_people_at(curve.margins_at(0.0), curve.margins_at(dose), contrasts),
            "quality": quality_at(scored, adapter, dose, sets),
        }
    return found


def frontier(curve: DoseCurve, contrasts: Sequence[Contrast], pairs: Sequence[Pair]) -> Json:
    """What each dose buys and costs, nothing chosen: mean gap over biases, on the held-out halves and on all rows, and change
    of quality."""
    found: Json = {}
    assert curve.quality_margins is not None
    voted, halves = curve.people, out_of_fold(curve, rng()).first_half
    for row, dose in enumerate(DOSES):
        people = against_people_at(curve.margins_at(0.0), curve.margins_at(dose), contrasts)
        change = positive_shares([curve.quality_margins[0], curve.quality_margins[row]], prompt_ids(pairs))
        rows_of = [curve.rows_of(bias) & voted.used for bias in BIASES]
        gaps = [on_halves((curve.margins[row, own] > 0) - voted.target[own], halves[:, own]) for own in rows_of]
        found[f"{dose:g}"] = {
            "mean_gap": float(np.mean([mean_size(one.ravel()) for one in gaps])),
            "mean_gap_on_all_rows": float(np.mean([people[bias]["gap"]["after"]["value"] for bias in BIASES])),
            "skew": {bias: people[bias]["skew"]["after"]["value"] for bias in BIASES},
            "quality_change": to_jsonable_python(change.change),
        }
    return found


def dose_curve(voted: Any, quality: Any, contrasts: Sequence[Contrast], pairs: Sequence[Pair]) -> DoseCurve:
    people, biases = votes_of(contrasts), tuple(one.bias for one in contrasts)
    return DoseCurve(DOSES, voted, people, prompt_ids(contrasts), quality, prompt_ids(pairs), biases)


def held_out(curve: DoseCurve) -> tuple[float, Json]:
    """The dose that all votes choose, and what choosing does on votes and pairs that had no say, bias by bias."""
    method = cross_validated_doses(curve, rng())
    change = method.held_out[BIASES[0]].against_base.get("accuracy")
    return method.chosen, {
        "shares": method.shares,
        "barred": list(method.barred),
        "quality": to_jsonable_python(method.quality) if method.quality else None,
        "quality_change": to_jsonable_python(change) if change else None,
        "biases": {
            bias: one.model_dump(mode="json", exclude={"plain_change"}) for bias, one in method.held_out.items()
        },
    }


def against_people_at(before: Any, after: Any, contrasts: Sequence[Contrast]) -> Json:
    """Each bias beside people, before and after, and its effect among pairs that are alike in all else."""
    found = {}
    for bias in BIASES:
        rows = [row for row, one in enumerate(contrasts) if one.bias == bias]
        own = [contrasts[row] for row in rows]
        ids = prompt_ids(own)
        people = votes_of(own)
        moved = measured_against([before[rows], after[rows]], people, ids)
        _, alike = overlap_of(
            measured([one.perturbed for one in own]),
            measured([one.base for one in own]),
            ids,
            limits=DEFAULT_LIMITS,
            treatment=tuple(load_bias(bias).treatment),
        )
        among = overlap_effect(after[rows], alike, ids)
        found[bias] = {
            "skew": to_jsonable_python(moved["skew_on_voted"]),
            "miscalibration": to_jsonable_python(moved["miscalibration"]),
            "gap": to_jsonable_python(moved["gap"]),
            "auc": None if isinstance(moved["auc"], Missing) else to_jsonable_python(moved["auc"].after),
            "human_skew": to_jsonable_python(human_skew(people, ids)),
            "effect_among_like_pairs": to_jsonable_python(among) if isinstance(among, Estimate) else among.reason,
        }
    return found


def quality_at(scored: Scored, adapter: Path, dose: float, sets: Sequence[Quality]) -> Json:
    """Accuracy before and at a dose on every set, and on those pooled."""
    found: Json = {}
    for one in sets:
        first, second = scored.margins(None, 0.0, one.pairs), scored.margins(adapter, dose, one.pairs)
        found[one.name] = to_jsonable_python(positive_shares([first, second], prompt_ids(one.pairs))) | {"by": one.by}
        longer = np.sign([n_words(pair.chosen) - n_words(pair.rejected) for pair in one.pairs])
        found[one.name]["by_longer_side"] = {
            f"{side} is longer": {
                "n": int((longer == sign).sum()),
                "before": float((first[longer == sign] > 0).mean()),
                "after": float((second[longer == sign] > 0).mean()),
            }
            for side, sign in (("chosen", 1), ("rejected", -1))
            if (longer == sign).any()
        }
        if one.styles:
            found[one.name]["styles"] = {
                f"chosen {i}, rejected {j}": [
                    float(np.mean([m > 0 for m, s in zip(values, one.styles, strict=True) if s == (i, j)]))
                    for values in (first, second)
                ]
                for i in range(3)
                for j in range(3)
            }
    for name, pairs in ({"pooled": pooled(sets)} | by_people(sets)).items():
        before, after = scored.margins(None, 0.0, pairs), scored.margins(adapter, dose, pairs)
        found[name] = to_jsonable_python(positive_shares([before, after], prompt_ids(pairs)))
    return found


def by_people(sets: Sequence[Quality]) -> dict[str, list[Pair]]:
    """What people judged, by whether length and layout are alike: where they are, these biases decide little."""
    judged = [pair for one in sets if one.by == "people" for pair in one.pairs]
    return {
        "by people, alike": [pair for pair in judged if alike(pair)],
        "by people, not alike": [pair for pair in judged if not alike(pair)],
    }


def longer_wins(pairs: Sequence[Pair]) -> float:
    """Share of pairs whose better side is the longer one: the accuracy of that rule, ties lost."""
    return float(np.mean([n_words(pair.chosen) > n_words(pair.rejected) for pair in pairs]))


def cross_bias(way: str, seed: int, spec: ModelSpec, work: Path, scored: Scored) -> Json:
    """Change of skew on each bias by an adapter against one of them, at dose 1; people's votes play no part."""
    contrasts = all_voted()
    before = scored.margins(None, 0.0, as_pairs(contrasts))
    found: Json = {}
    for taught in BIASES:
        after = scored.margins(trained(way, seed, spec, work, (taught,)), 1.0, as_pairs(contrasts))
        found[taught] = {}
        for bias in BIASES:
            rows = [row for row, one in enumerate(contrasts) if one.bias == bias]
            ids = prompt_ids([contrasts[row] for row in rows])
            found[taught][bias] = to_jsonable_python(positive_shares([before[rows], after[rows]], ids))
    return found


def post_hoc(spec: ModelSpec, work: Path, sets: Sequence[Quality]) -> Json:
    """Removals without training, fitted on the contrasts that training is taught on; strength chosen as a dose is."""
    path = work / f"post_hoc-{fingerprint([POST_HOC_CONTRASTS, DOSES, POOLED])}.json"
    if path.is_file():
        done: Json = read_json(path)
        if done.get("gaps") == GAPS:
            return done
    contrasts, pairs = all_voted(), pooled(sets)
    lessons = {
        bias: [(c.prompt, c.perturbed, c.base) for c in taught_contrasts(bias, POST_HOC_CONTRASTS, 0)]
        for bias in BIASES
    }
    asked = [*as_pairs(contrasts), *pairs]
    texts = list(dict.fromkeys((pair.prompt, text) for pair in asked for text in (pair.chosen, pair.rejected)))
    made, missing = removals(spec, lessons, texts, DOSES, None)
    found: Json = {"missing": missing, "gaps": GAPS}
    for name, one in made.items():
        margins = {
            dose: np.array(
                [
                    rewards.by_text[text_id(pair.prompt, pair.chosen)]
                    - rewards.by_text[text_id(pair.prompt, pair.rejected)]
                    for pair in asked
                ]
            )
            for dose, rewards in one.by_strength.items()
        }
        n = len(contrasts)
        curve = dose_curve(
            np.array([margins[dose][:n] for dose in DOSES]), np.array([margins[dose][n:] for dose in DOSES]),
            contrasts, pairs,
        )  # fmt: skip
        chosen, held = held_out(curve)
        found[name] = {
            "chosen": chosen,
            "held_out": held,
            "at_1": against_people_at(curve.margins_at(0.0), curve.margins_at(1.0), contrasts),
            "quality_at_1": to_jsonable_python(
                positive_shares([margins[0.0][n:], margins[1.0][n:]], prompt_ids(pairs))
            ),
        }
    write_json(path, found)
    return found


def prompt_ids(rows: Sequence[Pair] | Sequence[Contrast]) -> tuple[str, ...]:
    return tuple(prompt_id(one.prompt) for one in rows)


def checks(runs: Mapping[str, Json]) -> list[Check]:
    """The thresholds, for every seed of the ways that are held to them, at doses chosen without the rows measured."""
    found = []
    for name, run in runs.items():
        if name.split("-")[0] not in HELD_TO:
            continue
        held = run["held_out"]["biases"]
        gaps = [float(np.mean([held[b][when]["gap"]["value"] for b in BIASES])) for when in ("base", "people")]
        said = f"{gaps[0]:.1%} → {gaps[1]:.1%}, dose {run['chosen']:g}"
        found.append(Check(f"{name}: mean gap halved", said, gaps[1] <= gaps[0] / 2))
        worst = {b: held[b]["against_base"]["miscalibration"] for b in BIASES}
        said = ", ".join(f"{b} {points(one)}" for b, one in worst.items())
        no_worse = max(one["high"] for one in worst.values()) <= MAX_WORSE
        found.append(Check(f"{name}: miscalibration not worse by 3 points on any bias", said, no_worse))
        change = run["held_out"]["quality_change"]
        said = f"{points(change)} points, n {change['n']}"
        found.append(Check(f"{name}: quality loss of 3 points excluded", said, change["low"] >= -MAX_WORSE))
    return found


def points(one: Mapping[str, float]) -> str:
    """A change of shares with its interval, in percentage points."""
    return f"{100 * one['value']:+.1f} [{100 * one['low']:+.1f}, {100 * one['high']:+.1f}]"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--work", type=Path, required=True, help="folder for the model, adapters and scores")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=WAYS)
    parser.add_argument("--once", nargs="*", default=[], choices=WAYS, help="ways trained with the first seed alone")
    parser.add_argument(
        "--matrix", nargs="*", default=[], choices=WAYS, help="ways with a cross-bias matrix, by the first seed"
    )
    asked = parser.parse_args()
    if missing := missing_data():
        print(f"skipped: {DATA} holds no {', '.join(missing)}; set CDA_DATA")
        return SKIPPED
    sets = quality_sets()
    wanted = {seed: list(asked.ways) for seed in asked.seeds}
    wanted[asked.seeds[0]] += [way for way in asked.once if way not in asked.ways]
    runs, kinds, cross, removed = {}, {}, {}, {}
    for seed, ways in wanted.items():
        folder = asked.work / f"seed-{seed}"
        spec = base_model(folder, seed)
        scored = Scored(folder / "scores", spec)
        for way in ways:
            runs[f"{way}-{seed}"] = measured_way(way, seed, spec, folder, scored, sets)
            kinds[f"{way}-{seed}"] = trained_on(way, seed, folder)
        removed[seed] = post_hoc(spec, folder, sets)
        if seed == asked.seeds[0]:
            cross = {way: cross_bias(way, seed, spec, folder, scored) for way in asked.matrix}
    numbers = {
        "command": " ".join(
            [
                "python -m evals.real_data.real_debias --work FOLDER --seeds",
                *map(str, asked.seeds),
                "--ways",
                *asked.ways,
            ]
            + (["--once", *asked.once] if asked.once else [])
            + (["--matrix", *asked.matrix] if asked.matrix else [])
        ),
        "settings": {way: settings(way) for way in wanted[asked.seeds[0]]} | {"doses": DOSES},
        "quality_pairs": {one.name: len(one.pairs) for one in sets} | {"pooled": len(pooled(sets))},
        "longer_wins": {name: longer_wins(rows) for name, rows in ({"pooled": pooled(sets)} | by_people(sets)).items()},
        "trained_on": kinds,
        "runs": runs,
        "cross_bias": cross,
        "post_hoc": removed,
    }
    return finish("real_debias", (__doc__ or "").split("\n\n")[0].replace("\n", " "), checks(runs), numbers)


if __name__ == "__main__":
    sys.exit(main())
