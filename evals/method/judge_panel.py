"""Claim: on a real local HTTP server, judges of planted taste are seen as what they are: a rubric shows on which criterion the
bias enters, leaving one judge out names the one that disagrees, and another prompt's effect is measured paired by contrast. A first
run on 60 contrasts a bias and 400 simulated panels missed 3 of the 10 thresholds; this one has all contrasts and 1,200 panels.

The server answers by rule and by chance that is fixed by the texts: overall a judge prefers the biased side of a contrast with the
probability below, on `wording` more often and on `correctness` as often as not; two judges mostly share their chance, the third has
its own. A prompt against bias brings its preference down and leaves quality pairs as they are. Simulated panels, without
a server, then say how often the interval of the change of alpha holds the truth, and how often it accuses a judge of a panel in which
all are alike.

    python -m evals.method.judge_panel      (about three minutes on 1 core)
"""

from __future__ import annotations

import hashlib
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import cda
from cda.arrays import FloatArray
from cda.embedded.texts import EMBEDDED_BIASES, authored_contrasts, authored_pairs
from cda.files.jsonl import read_jsonl
from cda.results.base import Estimate
from cda.stats.estimators import paired_change
from cda.stats.people import alpha_change
from cda.stats.proportions import hits_of
from evals.shared import ROOT, Check, finish

sys.path.insert(0, str(ROOT / "tests"))
from replies import reply
from serving import Served

SEED = 20261124
OVERALL, BLIND, WORDING, CORRECTNESS, QUALITY = 0.75, 0.55, 0.9, 0.5, 0.85
"""Planted shares of comparisons on which a judge prefers the biased side, or the better answer of a quality pair."""
SHARED = 0.9
"""Share of contrasts on which the second judge has the first one's chance."""
N_PANELS, N_CONTRASTS, N_TRUTH = 1200, 100, 400_000
_ACCURACY = 0.85
"""Share of simulated verdicts of a good judge that are as its peers'."""


def chance(*words: str) -> float:
    """A number from 0 to 1 that the words decide."""
    return int(hashlib.sha256("|".join(words).encode()).hexdigest()[:12], 16) / 16**12


class Judges:
    """The server's answers."""

    def __init__(self) -> None:
        contrasts = [one for kind in ("audit", "shown") for one in authored_contrasts(kind, list(EMBEDDED_BIASES))]
        self.biased = {one.perturbed for one in contrasts}
        self.better = {one.pair.chosen for one in authored_pairs("quality")}

    def __call__(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        system, user = (message["content"] for message in body["messages"])
        first, second = re.findall(r"<<<ANSWER \d>>>\n(.*?)\n<<<END>>>", user, re.DOTALL)
        by = {"wording": WORDING, "correctness": CORRECTNESS}
        lines = re.findall(r"'(Verdict[^']*?)(?: on (\w+))?: X'", system) or [
            (re.findall(r"'(Verdict[^':]*): 1'", system)[0], "")
        ]
        overall = BLIND if "do not let style decide" in system else OVERALL
        said = [
            f"{start}{f' on {name}' if name else ''}: {self._choice(body['model'], name, by.get(name, overall), first, second)}"
            for start, name in lines
        ]
        return reply("\n".join(["By rule.", *said]), body["model"])

    def _choice(self, model: str, criterion: str, share: float, first: str, second: str) -> int:
        texts = sorted((first, second))
        if any(text in self.better for text in texts):
            share, marked = QUALITY, first in self.better
        else:
            marked = first in self.biased
        own = model == "odd" or (model == "second" and chance("own", *texts) > SHARED)
        wants = chance(model if own else "first", criterion, *texts) < share
        return 1 if wants == marked else 2


def audited(url: str, out: Path, *settings: str, judges: str = "first") -> cda.Audit:
    """An audit of judges on the embedded contrasts, in its own folder."""
    words = [f"llm.base_url={url}", "audit.triples=null", "audit.second_turn=no", *settings]
    return cda.audit(f"judge:{judges}", out=out, overrides=words, progress=False)


def served_checks(folder: Path) -> tuple[list[Check], dict[str, Any]]:
    """Checks of audits over HTTP, and their numbers."""
    server = Served(Judges())
    try:
        url = f"{server.url}/v1"
        rubric = "score.judge.criteria=[wording, correctness]"
        of_rubric = audited(url, folder / "rubric", rubric)
        panel = audited(url, folder / "panel", judges="first,second,odd")
        for name, words in (("ours", ()), ("blind", ("score.judge.prompt=style-blind",))):
            audited(url, folder / name, *words)
    finally:
        server.stop()
    planted = {"wording": WORDING, "correctness": CORRECTNESS}
    found = {f"{bias}, {name}": own[name].skew for bias, own in of_rubric.criteria.items() for name in planted}
    covered = [
        isinstance(skew, Estimate) and skew.low <= planted[name.split(", ")[1]] <= skew.high
        for name, skew in found.items()
    ]
    above = [own["wording"].against_overall for own in of_rubric.criteria.values()]
    without = {bias: own.without for bias, own in panel.panel.items()}
    changes = {bias: {name: one.alpha_change for name, one in own.items()} for bias, own in without.items()}
    named = [bias for bias, own in changes.items() if rises(own["odd"])]
    wrongly = [f"{bias}, {name}" for bias, own in changes.items() for name in ("first", "second") if rises(own[name])]
    moved = paired_changes(folder / "ours", folder / "blind")
    quality = moved.pop("quality")
    fell = [bias for bias, change in moved.items() if change.low <= BLIND - OVERALL <= change.high]
    n = len(EMBEDDED_BIASES)
    checks = [
        Check("the interval of a criterion's skew holds the planted one, 9 of 10 times or more",
              f"{sum(covered)} of {len(covered)}", len(covered) == 2 * n and sum(covered) >= 9),
        Check("on wording every bias has a skew above the one overall (interval above 0), at least 4 of 5",
              f"{sum(rises(one) for one in above)} of {n}", sum(rises(one) for one in above) >= n - 1),
        Check("without the odd judge alpha rises (interval above 0), for every bias", f"{len(named)} of {n}", len(named) == n),
        Check("and without another judge for none", ", ".join(wrongly) or "none", not wrongly),
        Check("the paired change by another prompt holds the planted one, 4 of 5 biases or more",
              f"{len(fell)} of {n}", len(fell) >= n - 1),
        Check("and that of quality holds 0", f"{quality.value:+.3f} [{quality.low:+.3f}, {quality.high:+.3f}]",
              quality.low <= 0 <= quality.high),
    ]  # fmt: skip
    numbers = {
        "skew by criterion": {name: skew.model_dump() for name, skew in found.items()},
        "change of alpha": {
            bias: {name: one.model_dump() for name, one in own.items()} for bias, own in changes.items()
        },
        "change of skew by the prompt": {bias: change.model_dump() for bias, change in moved.items()},
    }
    return checks, numbers


def paired_changes(before: Path, after: Path) -> dict[str, Estimate]:
    """Change of skew by bias, and of accuracy on quality pairs, paired by contrast, from the margins of two runs. Quality pairs have a
    prompt each."""
    rows = [
        {(row.get("bias", "quality"), row["id"]): row for row in read_jsonl(run / "audit" / "margins.jsonl")}
        for run in (before, after)
    ]
    found: dict[str, Estimate] = {}
    for bias in dict.fromkeys(bias for bias, _ in rows[0]):
        shared = [key for key in rows[0] if key[0] == bias and key in rows[1]]
        first, second = (hits_of(np.array([run[key]["margin_model"] for key in shared]), "half") for run in rows)
        found[bias] = paired_change(first, second, [rows[0][key].get("prompt_id", key[1]) for key in shared])
    return found


def rises(change: object) -> bool:
    return isinstance(change, Estimate) and change.low > 0


def simulated(rng: np.random.Generator, n: int, accuracies: Sequence[float]) -> FloatArray:
    """Verdicts of judges who see the same side of a contrast with these probabilities, and the other one otherwise."""
    truth = rng.choice([-1.0, 1.0], n)
    return np.stack([np.where(rng.random(n) < accuracy, truth, -truth) for accuracy in accuracies])


def simulation(rng: np.random.Generator) -> tuple[list[Check], dict[str, Any]]:
    """Coverage of the change of alpha without the last judge, alike or at odds with the others."""
    checks, numbers = [], {}
    ids = [str(row // 2) for row in range(N_CONTRASTS)]
    for name, last in (("all alike", _ACCURACY), ("the last one throws coins", 0.5)):
        accuracies = (_ACCURACY, _ACCURACY, last)
        large = simulated(rng, N_TRUTH, accuracies)
        truth = 0.0 if last == _ACCURACY else exact_change(large)
        found = [changed(simulated(rng, N_CONTRASTS, accuracies), ids) for _ in range(N_PANELS)]
        covered = sum(one.low <= truth <= one.high for one in found) / N_PANELS
        accused = sum(one.low > 0 for one in found) / N_PANELS
        numbers[name] = {"truth": truth, "covered": covered, "accused": accused}
        checks.append(
            Check(f"{name}: the interval holds the truth in 92–98%", f"{covered:.1%}", 0.92 <= covered <= 0.98)
        )
        alike = last == _ACCURACY
        words = "at most 5% of such judges are accused" if alike else "at least 90% of such judges are named"
        checks.append(Check(f"{name}: {words}", f"{accused:.1%}", accused <= 0.05 if alike else accused >= 0.9))
    return checks, numbers


def changed(verdicts: FloatArray, ids: Sequence[str]) -> Estimate:
    return alpha_change(verdicts, verdicts[:-1], ids)


def exact_change(verdicts: FloatArray) -> float:
    """The change of alpha in a population, from shares of pairs of judges that agree and of verdicts."""

    def alpha(judged: FloatArray) -> float:
        n = len(judged)
        differ = np.mean([np.mean(judged[a] != judged[b]) for a in range(n) for b in range(a)])
        share = float(np.mean(judged > 0))
        return float(1 - differ / (2 * share * (1 - share)))

    return alpha(verdicts[:-1]) - alpha(verdicts)


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        checks, numbers = served_checks(Path(folder))
    more, simulations = simulation(np.random.default_rng(SEED))
    claim = " ".join((__doc__ or "").split("\n\n")[0].removeprefix("Claim: ").split())
    return finish("judge_panel", claim, [*checks, *more], numbers | {"simulated": simulations})


if __name__ == "__main__":
    sys.exit(main())
