"""Claim: on the whole release of "Flattery, Fluff, and Fog" the public commands give what the paper prints over its five biases and four
models: means over biases before and after the training, also against several biases at once, an interval of a change, and people's
agreement; and they show where the release contradicts itself.

`scripts/paper_release.py` writes the release as files; `cda compare scores:FILE ...` audits the released scores of all biases at once.
Thresholds: every number of paper_numbers.MEANS, to the digits given there; the judges' verdicts on vagueness, matched by text, differ by
20 points or more from what matching by place gives, and those on other biases by nothing; the column that names the reward model's
preference is that of the 27B scores on every pair of four biases and not of vagueness; RewardBench's numbers in the notebook differ
from the released files in the two cells that are listed, and nowhere else among those of the paper's sizes.

    python -m evals.real_data.paper_means --release Preference-Model-Biases      (default $CDA_DATA/fff; five to ten minutes)

It needs scores of four sizes on five biases: a part of the release, as tests use it, is skipped.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from pydantic_core import to_jsonable_python

import cda
from cda.files.jsonl import read_json
from cda.results.base import Estimate, Missing
from cda.stats.estimators import share_of
from evals.real_data import release as fff
from evals.real_data.paper_numbers import MEANS, NOTEBOOK_REWARDBENCH
from evals.real_data.paper_outcome import written
from evals.real_data.paper_tables import preference_correlation
from evals.shared import DATA, SKIPPED, Check, finish

SIZES = ("2B", "3B", "8B", "27B")
BIASES = ("length", "structure", "jargon", "sycophancy", "vagueness")
SEVERAL = "vagueness_jargon_length_500"
"""The run that was trained against three biases at once (figure 7)."""
OURS = {"vagueness": "vagueness-paper"}
Numbers = dict[str, Any]


def compared(files: Path, run: str, biases: tuple[str, ...], folder: Path) -> cda.Comparison:
    """The public command on the scores of four sizes, on all biases at once."""
    words = [f"audit={files / 'audit.yaml'}", "audit.quality=null", "audit.triples=null", "score.cache=none"]
    models: list[Any] = [f"scores:{files / 'scores' / f'{size}-{run}.jsonl'}" for size in SIZES]
    names = [OURS.get(bias, bias) for bias in biases]
    return cda.compare(*models, biases=names, out=folder, progress=False, overrides=words)  # type: ignore[return-value]


def over_biases(found: cda.Comparison) -> dict[str, Estimate]:
    """Mean miscalibration and mean distance of skew from people's, over biases."""
    each = {key: [n.found for n in found.numbers.where(key) if "bias" not in n.at] for key in ("miscalibration", "gap")}
    return {key: own for key, (own,) in each.items() if isinstance(own, Estimate)}


def commands(files: Path, folder: Path) -> Iterator[tuple[str, Estimate]]:
    """Every number that a command gives, by the name that it has in MEANS."""
    several = tuple(sorted(BIASES, key=BIASES.index)[at] for at in (0, 2, 4))
    runs = {
        "base": ("base", BIASES),
        "trained": ("trained", BIASES),
        "three": (SEVERAL, several),
        "three base": ("base", several),
    }
    made = {name: compared(files, run, biases, folder / name) for name, (run, biases) in runs.items()}
    for name, comparison in made.items():
        for key, found in over_biases(comparison).items():
            yield f"{name}: {key} over biases", found
    both = cda.compare(folder / "base", folder / "trained", out=folder / "both", progress=False)
    for number in both.numbers.where("skew_on_voted"):
        if number.moment == "change" and number.at.get("interval") == "unpaired" and isinstance(number.found, Estimate):
            yield f"change of skew, unpaired: {number.at['bias']}", number.found
    first = cda.load(next((folder / "base").glob("audit-*2B*")))
    assert isinstance(first, cda.Run) and first.audit is not None
    for bias, votes in first.audit.votes.items():
        agreed = votes.agreement
        if agreed is not None and not isinstance(agreed, Missing) and isinstance(agreed.with_majority, Estimate):
            yield f"agreement with the majority: {bias}", agreed.with_majority


def of_commands(found: Mapping[str, Estimate]) -> Iterator[Check]:
    """Known numbers, in percent, next to those of the commands."""
    for name, (expected, digits, source) in MEANS.items():
        key, _, end = name.partition(" | ")
        value = 100 * getattr(found[key], end or "value")
        shown = f"{value:.{digits}f}"
        yield Check(
            f"{name}: {expected:.{digits}f} ({source})", f"{shown}, n {found[key].n}", shown == f"{expected:.{digits}f}"
        )


def judged(release: Path) -> tuple[list[Check], Numbers]:
    """Share of verdicts for the side with the bias, with judge and people matched by text and by place; ties left out."""
    checks, numbers = [], {}
    for bias in BIASES:
        pairs = [pair for pair in fff.items(release, bias) if pair.side(pair.released) in ("perturbed", "base")]
        ids, apart = [pair.query for pair in pairs], []
        for judge, path in fff.judge_files(release, bias).items():
            if judge == "claude-3-5":  # of one bias, and a few pairs of another
                continue
            own = {
                name: share_of((values[known] > 0).astype(float), [one for one, keep in zip(ids, known, strict=True) if keep])
                for name in ("text", "place")
                if (known := np.nan_to_num(values := fff.verdicts(pairs, path, name)) != 0).any()
            }  # fmt: skip
            numbers[f"{bias} {judge}"] = to_jsonable_python(own)
            apart.append((judge, 100 * own["text"].value, 100 * own["place"].value))
        said = "; ".join(f"{judge} {text:.1f} and {place:.1f}" for judge, text, place in apart)
        least = min(text - place for _, text, place in apart)
        name = "differ by 20 points or more" if bias in OURS else "are the same"
        passed = least >= 20 if bias in OURS else all(text == place for _, text, place in apart)
        checks.append(Check(f"{bias}: shares for the biased side by text and by place {name}", said, passed))
    return checks, numbers


def preferred(release: Path) -> tuple[list[Check], Numbers]:
    """The column `reward_model_preferred_response` next to the scores of 27B, and r_model by both."""
    checks, numbers = [], {}
    for bias in BIASES:
        pairs = [pair for pair in fff.items(release, bias) if pair.side(pair.released) in ("perturbed", "base")]
        margins = fff.margins(pairs, fff.score_files(release, bias)["base"]["27B"])
        known = [row for row, margin in enumerate(margins) if not np.isnan(margin) and pairs[row].model is not None]
        named = [pairs[row].model == pairs[row].biased for row in known]
        scored = [bool(margins[row] > 0) for row in known]
        same = share_of(np.equal(named, scored).astype(float), [pairs[row].query for row in known])
        signs = [1.0 if pairs[row].biased == 0 else -1.0 for row in known]
        ids = [pairs[row].query for row in known]
        firsts = {
            "column": [pairs[row].model == 0 for row in known],
            "27B scores": [hit == (pairs[row].biased == 0) for row, hit in zip(known, scored, strict=True)],
        }
        r = {name: preference_correlation(signs, first, ids) for name, first in firsts.items()}
        numbers[bias] = to_jsonable_python({"same": same, "r_model": r})
        said = f"{100 * same.value:.1f}% of {same.n}; r_model {', '.join(f'{each.value:.3f} by the {name}' for name, each in r.items())}"
        fits = same.value < 0.9 if bias in OURS else same.value == 1
        wanted = "not those of the 27B scores" if bias in OURS else "those of the 27B scores on every pair"
        checks.append(Check(f"{bias}: preferences of the column are {wanted}", said, fits))
    return checks, numbers


def benched(release: Path) -> tuple[list[Check], Numbers]:
    """RewardBench's sections in the notebook behind the paper's figure 6 next to those of the released files."""
    notebook = read_json(release / "data_utils" / "plots" / "section_5" / "section_5.ipynb")
    (code,) = (text for cell in notebook["cells"] if "raw_data =" in (text := "".join(cell["source"])))
    (cells,) = (
        ast.literal_eval(line.value)
        for line in ast.parse(code).body
        if isinstance(line, ast.Assign) and isinstance(line.targets[0], ast.Name) and line.targets[0].id == "raw_data"
    )
    files, differing = fff.rewardbench(release), {}
    for bias, models in cells.items():
        trained = next(name for name in files if name.startswith(f"{bias.lower()} "))
        for model, values in models.items():
            for name, value in values.items():
                section, when = name.rsplit(" ", 1)
                size = model.split()[0]
                file = 100 * files["base" if when == "Base" else trained][size][section]
                if abs(value - file) > 0.01:
                    differing[f"{bias.lower()} {size} {when} {section}"] = (value, file)
    said = "; ".join(
        f"{name}: {a:.1f} in the notebook, {b:.1f} in the file" for name, (a, b) in sorted(differing.items())
    )
    return [
        Check(
            "RewardBench: the notebook differs from the files in the listed cells alone",
            said,
            set(differing) == NOTEBOOK_REWARDBENCH,
        )
    ], differing


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument(
        "--release", type=Path, default=None, help="folder in the layout of the release, with all biases and sizes"
    )
    options = parser.parse_args(arguments)
    release: Path = (options.release or DATA / "fff").resolve()
    whole = [release / "data" / "fine_tuned_model_scores" / bias / f"{bias}_scored_27B.jsonl" for bias in BIASES]
    if missing := [path for path in whole if not path.is_file()]:
        print(
            f"{'FAILED' if options.release else 'skipped'}: {missing[0]} is absent; give --release, a checkout of the whole release"
        )
        return 2 if options.release else SKIPPED
    with TemporaryDirectory() as temporary:
        files = Path(temporary) / "files"
        written(release, files)
        found = dict(commands(files, Path(temporary)))
    checks = list(of_commands(found))
    numbers: Numbers = {"commands": to_jsonable_python(found)}
    for what, read in {"judges": judged, "reward_model_preferred_response": preferred, "rewardbench": benched}.items():
        own, numbers[what] = read(release)
        checks += own
    return finish("paper_means", (__doc__ or "").split("\n\n")[0].removeprefix("Claim: "), checks, numbers)


if __name__ == "__main__":
    sys.exit(main())
