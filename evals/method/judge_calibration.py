"""Claim: a judge's planted taste for length and for the first place is at least halved by a calibration on simulated people's
votes, no accuracy is lost, and a judge without such tastes loses nothing.

The judge is a real server that gives the probabilities of a one-token verdict, asked in one order. Every text has a hidden
value; the judge's log odds are the difference of values, plus, if a taste is planted, 1.5 times that of log words, and 0.9
for the first place. Simulated people vote by value alone, with a slight dislike of the longer text. Texts are the embedded
contrasts of length and jargon (no taste for jargon is planted) and quality pairs, whose chosen side has the higher value on
the whole. Numbers are out of fold, over 5 judges with values of their own; then each file is applied by `cda audit` to
contrasts of other prompts than it was fitted on.

Thresholds: distance of skew on length from people's at most half, out of fold and on other prompts; distance of the share for
the first place from 50% at most half; accuracy no lower by more than 1 point in the mean; without a taste, the mean distance
no larger by more than 2 points for either bias and accuracy no lower by more than 1.

    python -m evals.method.judge_calibration      (about two minutes)
"""

from __future__ import annotations

import math
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

import cda
from cda.embedded.texts import audit_contrasts
from cda.features import n_words
from cda.files.jsonl import write_jsonl
from cda.records import Contrast, content_id, prompt_id
from cda.resources.artifacts import prompt_row
from cda.resources.sources import load_quality_source
from cda.results.base import Estimate
from cda.results.dose import CalibrationResult as Calibration
from evals.shared import ROOT, Check, finish

sys.path.insert(0, str(ROOT / "tests"))
from replies import reply
from serving import Served

SEEDS = range(5)
LENGTH_TASTE, FIRST_TASTE, DISLIKE, BETTER = 1.5, 0.9, 0.7, 0.8
BIASES = ("length", "jargon")
_ANSWERS = re.compile(r"<<<ANSWER \d>>>\n(.*?)\n<<<END>>>", re.DOTALL)
CHOSEN = frozenset(pair.chosen for pair in load_quality_source("embedded", "test", {}).pairs)
Row = dict[str, Any]


def value(seed: int, text: str) -> float:
    """Hidden value of a text: standard normal, higher by `BETTER` for the better side of a quality pair."""
    drawn = np.random.default_rng([seed, int(content_id("value", text)[:12], 16)]).standard_normal()
    return float(drawn) + BETTER * (text in CHOSEN)


def judge(seed: int, planted: bool) -> Served:
    """A judge that answers with the probabilities of 1 and 2."""

    def answer(body: Row) -> tuple[int, Row]:
        shown = _ANSWERS.findall(body["messages"][-1]["content"])
        first, second = (value(seed, text) + planted * LENGTH_TASTE * math.log(n_words(text)) for text in shown[:2])
        chance = 1 / (1 + math.exp(second - first - planted * FIRST_TASTE))
        listed = [{"token": "1", "logprob": math.log(chance)}, {"token": "2", "logprob": math.log(1 - chance)}]
        best = max(listed, key=lambda token: token["logprob"])
        return reply(str(best["token"]), "planted", logprobs={"content": [{**best, "top_logprobs": listed}]})

    return Served(answer)


def rows(seed: int, contrasts: Sequence[Contrast]) -> list[Row]:
    """Contrasts with three simulated votes each."""
    made = []
    for number, contrast in enumerate(contrasts):
        longer = contrast.bias == "length"
        odds = 1.5 * (value(seed, contrast.perturbed) - value(seed, contrast.base)) - DISLIKE * longer
        rng = np.random.default_rng([seed, number, 1])
        votes = ["perturbed" if rng.random() < 1 / (1 + math.exp(-odds)) else "base" for _ in range(3)]
        made.append({"id": f"c{number}", "bias": contrast.bias, "prompt": prompt_row(contrast.prompt), "votes": votes,
                     "base": contrast.base, "perturbed": contrast.perturbed})  # fmt: skip
    return made


def run(seed: int, planted: bool, folder: Path) -> Row:
    """One judge: calibrated out of fold; and, if tastes are planted, calibrated on some prompts and audited on the others."""
    contrasts = [contrast for contrast in audit_contrasts() if contrast.bias in BIASES]
    server = judge(seed, planted)
    settings = {"llm.base_url": f"{server.url}/v1", "llm.api_key_env": "CDA_NO_KEY", "score.judge.by_token": True,
                "score.judge.ties": False, "score.judge.orders": "one", "seed": seed}  # fmt: skip
    common: Row = {"biases": list(BIASES), "confirm": True, "progress": False}

    def given(name: str, own: Sequence[Contrast]) -> str:
        write_jsonl(folder / f"{name}.jsonl", rows(seed, own))
        return str(folder / f"{name}.jsonl")

    try:
        every = given("every", contrasts)
        found = cda.calibrate("judge:planted", contrasts=every, out=folder / "found", **common, **settings)
        numbers = _numbers(found)
        if planted:
            fits = [contrast for contrast in contrasts if int(prompt_id(contrast.prompt), 16) % 2]
            others = [contrast for contrast in contrasts if not int(prompt_id(contrast.prompt), 16) % 2]
            cda.calibrate("judge:planted", contrasts=given("fits", fits), out=folder / "half", **common, **settings)
            applied = {"score.calibration": str(folder / "half" / "calibration.json")}
            for name, more in (("as it is", {}), ("calibrated", applied)):
                audit = cda.audit("judge:planted", contrasts=given("others", others), triples="none",
                                  out=folder / name.replace(" ", "-"), **common, **settings, **more)  # fmt: skip
                gap = audit.votes["length"].gap.before
                assert isinstance(gap, Estimate)
                numbers[f"others, {name}"] = gap.value
    finally:
        server.stop()
    return numbers


def _numbers(found: Calibration) -> Row:
    assert found.quality is not None and isinstance(found.quality.change, Estimate)
    assert not isinstance(found.order, cda.Missing)
    first = found.order.prefers_first
    assert isinstance(first.before, Estimate) and isinstance(first.after, Estimate)
    return {
        "strength": found.strength,
        "gaps": {name: [own.base["gap"].value, own.calibrated["gap"].value] for name, own in found.biases.items()},
        "skew of length": [found.biases["length"].base["skew_on_voted"].value, found.biases["length"].calibrated["skew_on_voted"].value],
        "miscalibration of length": [
            found.biases["length"].base["miscalibration"].value, found.biases["length"].calibrated["miscalibration"].value
        ],
        "first": [first.before.value, first.after.value],
        "accuracy change": found.quality.change.value,
    }  # fmt: skip


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        found = {
            name: [run(seed, name == "planted", _made(Path(folder) / name / str(seed))) for seed in SEEDS]
            for name in ("planted", "none")
        }
    planted, none = found["planted"], found["none"]
    length = [mean(numbers["gaps"]["length"][at] for numbers in planted) for at in (0, 1)]
    others = [mean(numbers[f"others, {name}"] for numbers in planted) for name in ("as it is", "calibrated")]
    first = [mean(abs(numbers["first"][at] - 0.5) for numbers in planted) for at in (0, 1)]
    lost = {name: mean(numbers["accuracy change"] for numbers in own) for name, own in found.items()}
    more = {bias: mean(numbers["gaps"][bias][1] - numbers["gaps"][bias][0] for numbers in none) for bias in BIASES}
    checks = [
        _halved("distance on length, out of fold", length),
        _halved("distance on length, on other prompts by `cda audit`", others),
        _halved("distance of the first place from 50%", first),
        *(
            Check(f"accuracy ({name} tastes): no lower by more than 1 point", f"{100 * change:+.1f}", change >= -0.01)
            for name, change in lost.items()
        ),
        *(
            Check(f"no taste, {bias}: distance no larger by more than 2 points", f"{100 * change:+.1f}", change <= 0.02)
            for bias, change in more.items()
        ),
    ]
    return finish("judge_calibration", (__doc__ or "").partition("\n\n")[0].removeprefix("Claim: "), checks, found)


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


def _halved(what: str, sizes: Sequence[float]) -> Check:
    before, after = sizes
    return Check(f"{what}: at most half", f"{100 * before:.1f} → {100 * after:.1f} points", after <= before / 2)


if __name__ == "__main__":
    sys.exit(main())
