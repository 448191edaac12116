"""Claim: from a paper's released votes and scores, `cda` computes what the paper and its release's notebook print, and what other code
counted from the same files.

Threshold: every expected number below that the release has files for: to the digits that the paper prints, to 0.01 percentage points
elsewhere (correlations 0.001). Each has its source, and they are counted apart (paper_numbers.py): a number that was counted from the
released files says that nothing moved, and nothing of what the paper printed.
Everything else found there (more biases, sizes, runs, judges) is computed and printed too, with labels as released and
with majorities recomputed from the raw votes; differences between the two are results, not conditions.

    python -m evals.real_data.paper_tables --release ../shared/data/fff      (default $CDA_DATA/fff; about ten seconds)
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic_core import to_jsonable_python

from cda.errors import CdaError, DataError
from cda.files.jsonl import write_json
from cda.numbers.people import against_people
from cda.results.base import Estimate
from cda.stats.estimators import correlation_of, paired_change, share_of
from cda.stats.people import panel_margins
from cda.stats.proportions import chosen_correlation, contingency, exact_change_test, unpaired_change
from cda.stats.verdict import cross_bias
from cda.stats.votes import Majority, agreement, count_votes, majority, noise_ceiling
from evals.real_data import release as fff
from evals.real_data.paper_numbers import SIZES, SOURCES, Check, checks
from evals.shared import ROOT, SKIPPED

RESULT = ROOT / "evals" / "results" / "paper_tables.json"


def bias_tables(release: Path, bias: str) -> dict[str, Any]:
    """Every table of one bias, with both kinds of labels."""
    pairs = fff.items(release, bias)
    ids = [pair.query for pair in pairs]
    counts = count_votes([pair.votes for pair in pairs])
    released = majority(counts, "as-released", [pair.side(pair.released) for pair in pairs])
    recomputed = majority(counts, "drop")
    files = fff.score_files(release, bias)
    margins = {run: {size: fff.margins(pairs, path) for size, path in one.items()} for run, one in files.items()}
    verdicts = {name: fff.verdicts(pairs, path) for name, path in fff.judge_files(release, bias).items()}
    labels = fff.labels(release, bias)
    return {
        "items": len(pairs),
        "unreadable_votes": sum(pair.n_unreadable for pair in pairs),
        "labels_that_differ": int((_words(released) != _words(recomputed)).sum()),
        "agreement": _tried(lambda: agreement(counts, ids)),
        "noise_ceiling": _tried(lambda: noise_ceiling(counts, recomputed, ids)),
        "labels": {
            name: {
                "human_skew": to_jsonable_python(share_of(people.target[people.used], _ids(ids, people.used))),
                "not_counted": people.exclusions.reasons,
                "models": model_tables(margins, people, ids),
                "judges": judge_tables(verdicts, people, ids),
                "correlations": correlations(pairs, bias, people.target, people.used),
            }
            for name, people in {"as_released": released, "recomputed": recomputed}.items()
        },
        "correlations_as_in_the_notebook": correlations(
            pairs,
            bias,
            np.array([pair.side(pair.released) == "perturbed" for pair in pairs], float),
            np.array([pair.released != "Tie" for pair in pairs]),
            lower_case_tie_is_response_2=True,
        ),
        "contingency": None if labels is None else contingency_tables(labels),
        "r_train": _tried(lambda: r_train(release, bias, labels)),
    }


def model_tables(margins: dict[str, dict[str, np.ndarray]], people: Majority, ids: list[str]) -> dict[str, Any]:
    """Each run and size against people, means over sizes, and each run's change from the base of the same size."""
    tables: dict[str, Any] = {}
    for run, sizes in margins.items():
        each = {size: _beside(*_scored([values], people), ids) for size, values in sizes.items()}
        table: dict[str, Any] = {"sizes": each}
        for name, chosen in (("mean", tuple(sizes)), ("mean_of_2B_3B_8B", SIZES)):
            if set(chosen) <= set(sizes):
                table[name] = _beside(*_scored([sizes[size] for size in chosen], people, stack=True), ids)
        table["items_without_score"] = {size: int(np.isnan(values).sum()) for size, values in sizes.items()}
        if run != "base":
            both = [size for size in sizes if size in margins.get("base", {})]
            table["change"] = {size: change(margins["base"][size], sizes[size], people, ids) for size in both}
            if len(both) > 1:
                before, after = (np.concatenate([margins[one][size] for size in both]) for one in ("base", run))
                wide = replace(people, target=np.tile(people.target, len(both)), used=np.tile(people.used, len(both)))
                table["change_pooled"] = change(before, after, wide, ids * len(both))
        tables[run] = table
    return tables


def _beside(
    margins: np.ndarray, people: Majority, ids: list[str], ties: Literal["no-hit", "drop"] = "no-hit"
) -> dict[str, Any]:
    """Every measure against people, skew under its short name."""
    found = against_people(margins, people, ids, ties)
    return {"skew": to_jsonable_python(found.pop("skew_on_voted")), "auc": None, **to_jsonable_python(found)}


def change(before: np.ndarray, after: np.ndarray, people: Majority, ids: list[str]) -> dict[str, Any]:
    """Change of skew and miscalibration on the same rows: paired interval, and the unpaired z one beside it."""
    rows = people.used & ~np.isnan(before) & ~np.isnan(after)
    hits, target = ((before > 0)[rows], (after > 0)[rows]), people.target[rows]
    kept = _ids(ids, rows)
    misses = tuple((one != target).astype(float) for one in hits)
    return {
        name: {
            "paired": to_jsonable_python(paired_change(first, second, kept)),
            "unpaired": to_jsonable_python(unpaired_change(first, second)),
            "exact_p": exact_change_test(first, second, kept).p_value,  # McNemar's where each prompt occurs once
        }
        for name, (first, second) in {"skew": hits, "miscalibration": misses}.items()
    }


def matrix(tables: dict[str, Any]) -> list[dict[str, Any]]:
    """Cross-bias matrix of the release: change of skew and miscalibration by every training, pooled over sizes."""
    changes: dict[str, dict[str, tuple[Estimate, float]]] = {}
    targets: dict[str, list[str]] = {}
    for bias, table in tables.items():
        for run, one in table["labels"]["as_released"]["models"].items():
            found = one.get("change_pooled") or next(iter(one.get("change", {}).values()), None)
            if found is None:
                continue
            joint = run.split(" ")[0] if " " in run else None
            training = run if joint else f"{bias} {run}"
            trained = joint.split("_") if joint else [bias]
            for what, value in found.items():
                changes.setdefault(f"{training}: {what}", {})[bias] = (Estimate(**value["paired"]), value["exact_p"])
                targets[f"{training}: {what}"] = trained
    return [to_jsonable_python(cell) for cell in cross_bias(changes, targets)] if changes else []


def judge_tables(verdicts: dict[str, np.ndarray], people: Majority, ids: list[str]) -> dict[str, Any]:
    """Each judge, and all of them as a panel, against people; a judge's ties as margin 0, and left out."""
    if not verdicts:
        return {}
    panel, exclusions = panel_margins(np.stack(list(verdicts.values())))
    tables: dict[str, Any] = {"panel_without_verdict": exclusions.dropped}
    for name, values in {**verdicts, "panel": panel}.items():
        known, scored = _scored([values], people)
        tables[name] = {
            "ties_as_margin_0": _beside(known, scored, ids),
            "ties_left_out": _tried(lambda m=known, p=scored: _beside(m, p, ids, "drop")),
        }
    return tables


def correlations(
    pairs: list[fff.Item],
    bias: str,
    target: np.ndarray,
    used: np.ndarray,
    lower_case_tie_is_response_2: bool = False,
) -> dict[str, Any]:
    """r_human and r_model: ±1 for which response carries the bias; for length, the difference in words."""
    rows = [row for row in np.flatnonzero(used) if pairs[row].model is not None]
    words = [[len(text.split()) for text in pairs[row].responses] for row in rows]
    signs = [1.0 if pairs[row].biased == 0 else -1.0 for row in rows]
    x = [float(first - second) for first, second in words] if bias == "length" else signs
    people = [(target[row] == 1) == (pairs[row].biased == 0) for row in rows]
    if lower_case_tie_is_response_2:
        people = [pairs[row].released == "response_1" for row in rows]
    model = [pairs[row].model == 0 for row in rows]
    ids = [pairs[row].query for row in rows]
    return {
        name: _tried(lambda y=y: preference_correlation(x, y, ids))
        for name, y in {"r_human": people, "r_model": model}.items()
    }


def preference_correlation(differences: list[float], prefers_first: list[bool], ids: list[str]) -> Estimate:
    """r between the attribute's difference and preference, first response − second, in the order in which they were shown.

    The audit takes each pair in both orders (`chosen_correlation`) and so does not move with that order; papers do.

    Raises:
        DataError: The attribute or the preference is the same in all pairs.
    """
    x, y = np.asarray(differences, dtype=np.float64), np.asarray(prefers_first, dtype=np.float64)
    for values, name in ((x, "attribute"), (y, "preference")):
        if len(values) and np.ptp(values) == 0:
            raise DataError(f"the {name} is the same in all {len(values)} pairs: a correlation is undefined")
    return correlation_of(x, y, ids)


def contingency_tables(labels: fff.Labels) -> dict[str, Any]:
    """The 2 × 2 table of the training sample, read strictly (as the paper did) and as meant."""
    ids = [str(row) for row in range(len(labels.parsed[0]))]
    readings = {"strict": labels.strict, "parsed": labels.parsed}
    return {name: _tried(lambda t=table: contingency(*t, ids)) for name, table in readings.items()}


def r_train(release: Path, bias: str, labels: fff.Labels | None) -> Estimate:
    """r between the bias and being chosen in the training sample, from labels, or from words for length."""
    if bias == "length" and (words := fff.training_lengths(release)) is not None:
        return chosen_correlation(words, [str(row) for row in range(len(words))])
    if labels is None:
        raise DataError("the release has no labels of the training sample for this bias")
    both = [(a, b) for a, b in zip(*labels.parsed, strict=True) if a is not None and b is not None]
    return chosen_correlation([float(a) - float(b) for a, b in both], [str(row) for row in range(len(both))])


def show(bias: str, table: dict[str, Any]) -> None:
    """One bias as text."""
    print(f"\n{bias}: {table['items']} pairs, {table['labels_that_differ']} labels differ from the raw votes' majority")
    for name in ("agreement", "noise_ceiling", "r_train"):
        print(f"  {name}: {_line(table[name])}")
    for labels, found in table["labels"].items():
        print(f"  {labels} human skew: {_line(found['human_skew'])}")
        for run, one in found["models"].items():
            mean = one.get("mean", {})
            print(f"  {labels} {run} ({', '.join(one['sizes'])}): {_line(mean)}")
            aucs = [f"{size} {_line(values['auc'])}" for size, values in one["sizes"].items() if values["auc"]]
            print(f"    AUC: {'; '.join(aucs)}")
            for what, both in one.get("change_pooled", {}).items():
                print(f"    change of {what}: paired {_line(both['paired'])}; unpaired z {_line(both['unpaired'])}")
        for judge, one in found["judges"].items():
            if isinstance(one, dict):
                print(f"  {labels} {judge}, ties margin 0: {_line(one['ties_as_margin_0'])}")
        print(f"  {labels} {_line(found['correlations'])}")
    for reading, one in (table["contingency"] or {}).items():
        cells = [one.get(cell) for cell in ("both", "only_chosen", "only_rejected", "neither")]
        print(f"  contingency, {reading}: both, only chosen, only rejected, neither = {cells}; {_line(one)}")


def by_source(compared: Sequence[Check]) -> dict[str, dict[str, int]]:
    """How many numbers of each source were compared, and how many are equal."""
    return {
        source: {"compared": len(of_source), "equal": sum(one.passed for one in of_source)}
        for source in SOURCES
        if (of_source := [one for one in compared if one.source == source])
    }


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    default = Path(os.environ.get("CDA_DATA", ROOT.parent / "shared" / "data")) / "fff"
    parser.add_argument("--release", type=Path, default=None, help="folder in the layout of the release")
    parser.add_argument("--result", type=Path, default=RESULT, help="where the JSON goes")
    options = parser.parse_args(arguments)
    release: Path = options.release or default
    if not release.is_dir():
        print(f"{'FAILED' if options.release else 'skipped'}: {release} is absent; give --release or set CDA_DATA")
        return 2 if options.release else SKIPPED
    try:
        found = fff.biases(release)
        if not found:
            raise DataError(f"{release}: no human_annotation_data/<bias>/<bias>_grouped_human_annotations.json")
        tables = {bias: bias_tables(release, bias) for bias in found}
        headline = {bias: fff.headline_run(release, bias) for bias in found}
    except CdaError as problem:
        print(f"FAILED: {problem}")
        return 1
    print(__doc__)
    for bias, table in tables.items():
        show(bias, table)
    benches = fff.rewardbench(release)
    for run, sizes in benches.items():
        for size, sections in sizes.items():
            before = benches.get("base", {}).get(size, {})
            moved = [f"{name} {100 * before.get(name, np.nan):.1f} -> {100 * sections[name]:.1f}" for name in sections]
            print(f"RewardBench {run} {size}: {', '.join(moved)}" if run != "base" else "", end="\n" * (run != "base"))
    cells = matrix(tables)
    if cells:
        print("\ncross-bias matrix (pooled over sizes, Holm over all cells)")
    for cell in cells:
        own = " (trained against)" if cell["is_target"] else ""
        print(f"  {cell['training']} of {cell['bias']}{own}: {_line(cell['change'])}, p Holm {cell['p_holm']:.3f}")
    compared = list(checks(tables, headline))
    print(f"\n{'expected':>9} {'found':>9}")
    for one in compared:
        print(f"{one.expected:9.3f} {one.found:9.3f}  {'ok    ' if one.passed else 'FAILED'} {one.name} ({one.source})")
    passed = bool(compared) and all(one.passed for one in compared)
    options.result.parent.mkdir(parents=True, exist_ok=True)
    write_json(
        options.result,
        {
            "claim": " ".join((__doc__ or "").split("\n\n")[0].split()),
            "passed": passed,
            "date": date.today().isoformat(),
            "by_source": by_source(compared),
            "checks": [{**to_jsonable_python(one), "passed": one.passed} for one in compared],
            "headline_runs": headline,
            "rewardbench": benches,
            "biases": tables,
            "cross_bias": cells,
        },
    )
    print(f"{'passed' if passed else 'FAILED'}: {sum(one.passed for one in compared)} of {len(compared)} numbers")
    return 0 if passed else 1


def _scored(values: list[np.ndarray], people: Majority, stack: bool = False) -> tuple[np.ndarray, Majority]:
    """Margins with the rows that a model lacks taken out of the majorities; the filler 0 there is never read."""
    known = ~np.isnan(values).any(axis=0)
    margins = np.where(known, values, 0.0)
    return margins if stack else margins[0], replace(people, used=people.used & known)


def _ids(ids: list[str], rows: np.ndarray) -> list[str]:
    return [one for one, keep in zip(ids, rows, strict=True) if keep]


def _words(people: Majority) -> np.ndarray:
    return np.where(people.used, people.target, 0.5)


def _tried(estimate: Any) -> dict[str, Any]:
    """The result as JSON, or why there is none: what cannot be estimated is said, not skipped."""
    try:
        return to_jsonable_python(estimate())
    except DataError as problem:
        return {"not_estimated": str(problem)}


def _line(value: Any, name: str = "") -> str:
    """Every estimate inside a result, on one line."""
    if not isinstance(value, dict):
        return ""
    if "not_estimated" in value:
        return f"{name} not estimated ({value['not_estimated']})"
    if "low" in value:
        scale, digits = (100, 2) if value["unit"].startswith("share") else (1, 3)
        low, centre, high = (f"{scale * value[key]:.{digits}f}" for key in ("low", "value", "high"))
        return f"{name} {centre} [{low}, {high}] n={value['n']}".strip()
    return ", ".join(text for key, one in value.items() if (text := _line(one, key)))


if __name__ == "__main__":
    sys.exit(main())
