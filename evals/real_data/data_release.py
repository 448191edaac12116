"""Claim: from the labels that the paper "Flattery, Fluff, and Fog" released of its training sample, `cda data` gives the paper's own
selection rates, the correlations that its way of computing them gives on average, and odds that other code finds as well; and on
preferences with texts it finds the length bias that they are known to have.

Thresholds: the share of pairs in which the side with the bias is the chosen one equals what the paper prints (65.5% structure, 54.4%
jargon), to that digit, where labels are read as strictly as there (only the bare word yes is a yes). The paper draws r_train and prints
no number of it; its way, which swaps a random half of the pairs, gives the same r on average over 1,000 swaps, within 0.002, of all
rows and of the first 2,500 as there. The release's 750 preferences of Chatbot Arena were selected by their labels, so that
jargon is on the chosen side alone in 250 of them and on the rejected side alone in none: its odds have no bound, which is said, and
those of the length are given all the same. In AlpacaEval's preferences every adjusted log odds equals that of a general-purpose
optimiser within 1e-4, the share of pairs whose chosen response is the longer one is that of a count of the file's words by other
code, within a point (68%; counted in characters, as the notes on these data do, it is 70%), and length's odds are above 1 with the other
biases held equal.

    python -m evals.real_data.data_release --release ../shared/data/fff      (default $CDA_DATA/fff; two minutes)
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic_core import to_jsonable_python
from scipy import optimize

import cda
from cda.biases import load_bias
from cda.data.pairs import digest, repeated_rows
from cda.features import n_words
from cda.files.jsonl import read_jsonl, write_jsonl
from cda.results.effects import ChoiceOdds, Contingency, LogOdds
from evals.real_data.paper_numbers import EXPECTED_SELECTION
from evals.real_data.release import Labels, labels
from evals.shared import DATA, SKIPPED, Check, finish

CLAIM = "From released labels, `cda data` gives the paper's selection rates, its correlations and odds that other code finds as well."
ALPACA = DATA / "alpaca_eval" / "pairs.jsonl.gz"
ARENA = Path("data") / "chatbot_arena_labeled_data" / "chatbot_arena_jargon_labeled.jsonl"
FIRST = 2500
"""Rows of the sample that the paper's notebook takes r_train from."""
SWAPS = 1000
Sides = tuple[Sequence[bool | None], Sequence[bool | None]]
Floats = NDArray[np.float64]


def audited(sides: Sides, bias: str, folder: Path) -> cda.DataAudit:
    """The command on labels without texts."""
    words = {True: "yes", False: "no", None: ""}
    file = folder / f"{len(list(folder.iterdir()))}.jsonl"
    write_jsonl(file, ({f"chosen_{bias}": words[a], f"rejected_{bias}": words[b]} for a, b in zip(*sides, strict=True)))
    return cda.audit_data(file, labels=file, biases=bias, out=folder / f"{file.stem}-found", progress=False)


def swapped_r(sides: Sides) -> float:
    """The paper's r_train, on average: Pearson's r of label differences with the choice, a random half of the pairs swapped."""
    rng = np.random.default_rng(0)
    pairs = [(a, b) for a, b in zip(*sides, strict=True) if a is not None and b is not None]
    difference = np.array([float(a) - float(b) for a, b in pairs])
    found = []
    for _ in range(SWAPS):
        sign = np.ones(len(difference))
        sign[rng.choice(len(sign), len(sign) // 2, replace=False)] = -1
        found.append(np.corrcoef(sign, sign * difference)[0, 1])
    return float(np.mean(found))


def released(bias: str, of: Labels, folder: Path) -> tuple[list[Check], dict[str, Any]]:
    """Selection rate and r_train of one bias of the release."""
    strict, parsed = audited(of.strict, bias, folder), audited(of.parsed, bias, folder)
    table = strict.bias(bias).contingency
    assert isinstance(table, Contingency)
    rate = 100 * table.selection_rate.value
    expected = EXPECTED_SELECTION[bias]
    checks = [
        Check(f"{bias}: selection rate {expected}%, labels read strictly", f"{rate:.2f}%", abs(rate - expected) <= 0.05)
    ]
    for name, sides in (
        ("all rows", of.parsed),
        (f"the first {FIRST:,} rows, strictly", (of.strict[0][:FIRST], of.strict[1][:FIRST])),
    ):
        r, theirs = audited(sides, bias, folder).bias(bias).r_train, swapped_r(sides)
        assert isinstance(r, cda.Estimate)
        checks.append(
            Check(
                f"{bias}, {name}: r_train as the paper's way on average",
                f"{r.value:.4f} and {theirs:.4f}",
                abs(r.value - theirs) <= 0.002,
            )
        )
    return checks, {"strict": to_jsonable_python(strict.bias(bias)), "as meant": to_jsonable_python(parsed.bias(bias))}


def optimised(x: Floats) -> Floats:
    """Coefficients of greatest likelihood by a general-purpose optimiser."""
    found = optimize.minimize(
        lambda beta: float(np.logaddexp(0, -(x @ beta)).sum()),
        np.zeros(x.shape[1]),
        method="BFGS",
        options={"gtol": 1e-8},
    )
    return np.asarray(found.x)


def arena(release: Path, folder: Path) -> tuple[list[Check], dict[str, Any]]:
    """Preferences that were selected by their labels."""
    file = folder / "arena.jsonl"
    write_jsonl(file, (
        {"prompt": row["query"], "chosen": row["chosen_response"], "rejected": row["rejected_response"],
         "chosen_jargon": row["chosen_jargon"], "rejected_jargon": row["rejected_jargon"]}
        for row in read_jsonl(release / ARENA)
    ))  # fmt: skip
    found = cda.audit_data(file, labels=file, biases="jargon", out=folder / "arena", progress=False)
    jargon = found.bias("jargon")
    assert isinstance(jargon.odds, ChoiceOdds) and isinstance(found.words, ChoiceOdds)
    crude, length = jargon.odds.crude, found.words.crude
    named = isinstance(crude, cda.Missing) and "in all 250 pairs" in crude.reason and isinstance(length, LogOdds)
    said = crude.reason if isinstance(crude, cda.Missing) else "an estimate"
    return [Check("Chatbot Arena: unbounded odds of jargon are named, and length's are given", said, named)], {
        "jargon": to_jsonable_python(jargon), "words": to_jsonable_python(found.words),
    }  # fmt: skip


def alpaca(folder: Path) -> tuple[list[Check], dict[str, Any]]:
    """The length bias of AlpacaEval's preferences, next to the other measured biases."""
    file = folder / "alpaca.jsonl"
    with gzip.open(ALPACA, "rt", encoding="utf-8") as packed:
        rows = list(map(json.loads, packed))
    write_jsonl(file, rows)
    found = cda.audit_data(file, out=folder / "alpaca", progress=False)
    length = found.bias("length")
    assert isinstance(length.contingency, Contingency) and not isinstance(length.odds, cda.Missing)
    share, adjusted = length.contingency.selection_rate, length.odds.adjusted
    assert isinstance(adjusted, LogOdds)
    assert not isinstance(found.regression, cda.Missing)
    biases = [load_bias(name) for name in found.regression.terms if name in [bias.name for bias in found.biases]]
    x = np.array([
        [*(float(chosen) - float(rejected) for chosen, rejected in shown),
         np.log2(max(1, n_words(row["chosen"])) / max(1, n_words(row["rejected"])))]
        for row in used(rows)
        # A side that a measure does not hold for, such as a text without words, has no label.
        if None not in chain(*(shown := [(bias.shows(row["chosen"]), bias.shows(row["rejected"])) for bias in biases]))
    ])  # fmt: skip
    theirs = optimised(x)
    more = np.array([len(row["chosen"].split()) - len(row["rejected"].split()) for row in rows])
    longer = float((more > 0).sum() / (more != 0).sum())
    ours = [found.bias(bias.name).odds for bias in biases]
    values = [
        odds.adjusted.estimate.value
        for odds in (*ours, length.odds)
        if isinstance(odds, ChoiceOdds) and isinstance(odds.adjusted, LogOdds)
    ]
    close = len(values) == len(theirs) and bool(np.allclose(values, theirs, atol=1e-4))
    return [
        Check("AlpacaEval: adjusted log odds as another optimiser's, within 1e-4", ", ".join(f"{a:.4f} and {b:.4f}" for a, b in zip(values, theirs, strict=False)), close),
        Check("AlpacaEval: the longer response is chosen as often as counted by other code, within a point", f"{share.value:.1%} [{share.low:.1%}, {share.high:.1%}] of {share.n}, and {longer:.1%}", abs(share.value - longer) <= 0.01),
        Check("AlpacaEval: the adjusted log odds of length lie above 0", f"{adjusted.estimate.value:.2f} [{adjusted.estimate.low:.2f}, {adjusted.estimate.high:.2f}] a doubling", adjusted.estimate.low > 0),
    ], to_jsonable_python(found.biases)  # fmt: skip


def used(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows that state a preference, each once."""
    return [
        row
        for row, keep in zip(rows, repeated_rows(np.array([_key(row) for row in rows], dtype=np.uint64)), strict=True)
        if keep is None and _key(row)[1] != _key(row)[2]
    ]


def _key(row: dict[str, Any]) -> list[int]:
    return [digest(str(row[name]).strip()) for name in ("prompt", "chosen", "rejected")]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=CLAIM)
    parser.add_argument("--release", type=Path, default=None, help="folder in the layout of the release")
    options = parser.parse_args(arguments)
    release: Path = options.release or DATA / "fff"
    if missing := [str(path) for path in (release, ALPACA) if not path.exists()]:
        failed = options.release is not None and not release.exists()
        print(f"{'FAILED' if failed else 'skipped'}: {', '.join(missing)} absent; give --release or set CDA_DATA")
        return 2 if failed else SKIPPED
    checks: list[Check] = []
    numbers: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for bias in EXPECTED_SELECTION:
            of = labels(release, bias)
            assert of is not None, f"the release has no labels of {bias}"
            found, numbers[bias] = released(bias, of, folder)
            checks += found
        for what, read in {"arena": partial(arena, release), "alpaca": alpaca}.items():
            found, numbers[what] = read(folder)
            checks += found
    return finish("data_release", CLAIM, checks, numbers)


if __name__ == "__main__":
    sys.exit(main())
