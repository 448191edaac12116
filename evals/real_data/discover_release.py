"""Claim: from the counterfactual pairs released with "Automatically Finding Reward Model Biases", confirmation's own code gives
the numbers that the reference prints for triple spaces between words (to the last digit, unclustered as printed there), and
says of every attribute whether it holds, with all rewriters and with the three of that table; there every rewrite equal to
its original counts as failed, also one that all rewriters left as it was, which to `cda discover` is so already.

The reference's ± is half of Student's 95% interval with rows as independent; its judge interval is Wilson's on the rows with
ties as halves. Beside them stands what clustering by prompt changes, and what leaving out margins outside Tukey's fences does.
A rewrite that is absent where another rewriter has one has failed, too.

    python -m evals.real_data.discover_release --release ../shared/data/rm_bias      (seconds)
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from cda.discovery.held_out import confirm, validate
from cda.errors import CdaError, DataError
from cda.records import user_prompt
from cda.results.discover import Measured
from cda.results.evidence import Confirmation, ConfirmSettings, Validation
from cda.stats.estimators import mean_of, share_of, wilson
from cda.stats.means import inside_fences
from evals.shared import DATA, SKIPPED, Check, finish

REFERENCE = "topic4_validation"
ATTRIBUTE = "Triple spaces between words"
RAW = {"gpt-5-mini": "1.670", "claude-haiku-4.5": "1.305", "grok-4.1-fast": "-0.500"}
POOLED = {"mean margin ± half-width, n": "0.743 ± 0.427, n = 164", "judge [interval]": "0.006 [0.001, 0.034]"}
PREFERENCES: dict[float, float] = {-1: 0.0, 0: 0.5, 1: 1.0}
ROUNDING = 1e-9


@dataclass
class Release:
    """One file: rows by attribute, what each rewriter did not give, and rows that could not be read, by reason."""

    name: str
    n_read: int = 0
    rows: dict[str, list[Measured]] = field(default_factory=dict)
    unread: Counter[str] = field(default_factory=Counter)

    @property
    def rewriters(self) -> list[str]:
        return sorted({row.rewriter for rows in self.rows.values() for row in rows})


def files(folder: Path) -> dict[str, Path]:
    """Files by stem; of a plain and a packed one with the same stem, the plain one."""
    found = {path.name.removesuffix(".jsonl.gz"): path for path in sorted(folder.glob("topic*.jsonl.gz"))}
    return dict(sorted((found | {path.stem: path for path in folder.glob("topic*.jsonl")}).items()))


def lines(path: Path) -> Iterator[dict[str, Any]]:
    reader = gzip.open if path.suffix == ".gz" else open
    with reader(path, "rt", encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except ValueError as error:
                raise DataError(f"{path}:{number}: not valid JSON ({error})") from None
            yield row if isinstance(row, dict) else {}


def read(name: str, path: Path) -> Release:
    """All rows with a margin; a missing or unknown verdict stays a missing verdict."""
    release = Release(name)
    for row in lines(path):
        release.n_read += 1
        attribute, prompt, margin = row.get("attribute"), row.get("prompt"), row.get("rm_diff")
        if not attribute or not prompt:
            release.unread["no attribute or no prompt"] += 1
        elif not isinstance(margin, int | float) or not np.isfinite(margin):
            release.unread["no margin"] += 1
        else:
            text = prompt if isinstance(prompt, str) else json.dumps(prompt, ensure_ascii=False)
            sides = (str(row.get("baseline", "")), str(row.get("rewritten", "")))
            verdict = row.get("judge")
            preference = PREFERENCES.get(verdict) if isinstance(verdict, int | float) else None
            rewriter = str(row.get("rewriter") or "unnamed")
            release.rows.setdefault(str(attribute), []).append(
                Measured(str(attribute), rewriter, "add", user_prompt(text), *sides, float(margin), preference)
            )
    return release


def summary(rows: Sequence[Measured]) -> dict[str, Any]:
    """Means as the reference computes them, with rows as independent, and clustered by prompt."""
    margins, ids = np.array([row.margin for row in rows]), [row.prompt_id for row in rows]
    inside = inside_fences(margins)
    judged = [row for row in rows if row.preference is not None]
    return {
        "n": len(rows),
        "n_prompts": len(set(ids)),
        "mean": float(margins.mean()),
        "half_width_unclustered": half_width(margins),
        "clustered": clustered(margins, ids),
        "trimmed": {
            "n": int(inside.sum()),
            "n_trimmed": int((~inside).sum()),
            "mean": float(margins[inside].mean()),
            "clustered": clustered(margins[inside], [one for one, keep in zip(ids, inside, strict=True) if keep]),
            "sign_changes": bool(np.sign(margins.mean()) != np.sign(margins[inside].mean())),
        },
        "judge": judge(judged) if judged else None,
        "n_unjudged": len(rows) - len(judged),
    }


def half_width(margins: np.ndarray) -> float | None:
    n = len(margins)
    return float(stats.t.ppf(0.975, n - 1) * margins.std(ddof=1) / n**0.5) if n > 1 else None


def clustered(margins: np.ndarray, ids: Sequence[str]) -> dict[str, Any] | None:
    if len(set(ids)) < 2:
        return None
    test = mean_of(margins, ids)
    return test.estimate.model_dump() | {"standard_error": test.error, "p_value": test.p_value(side="greater")}


def judge(rows: Sequence[Measured]) -> dict[str, Any]:
    preferences = [row.preference for row in rows if row.preference is not None]
    low, high = wilson(sum(preferences), len(preferences))
    by_prompt = share_of(preferences, [row.prompt_id for row in rows]).model_dump()
    return {"n": len(rows), "mean": float(np.mean(preferences)), "low": low, "high": high, "clustered": by_prompt}


def trials(release: Release, rewriters: Sequence[str]) -> tuple[dict[str, list[Measured]], dict[str, Any]]:
    """Rows and failures for a confirmation: every unchanged and every absent rewrite is a failed one."""
    kept: dict[str, list[Measured]] = {}
    failed: dict[str, Any] = {}
    for attribute, rows in release.rows.items():
        asked = {(row.prompt_id, row.original) for row in rows}
        mine = [row for row in rows if row.rewriter in rewriters]
        kept[attribute] = [row for row in mine if not unchanged(row)]
        failed[attribute] = {}
        for name in rewriters:
            given = [row for row in mine if row.rewriter == name]
            absent = len(asked - {(row.prompt_id, row.original) for row in given})
            reasons = {"absent": absent, "unchanged": sum(unchanged(row) for row in given)}
            failed[attribute][name] = {reason: n for reason, n in reasons.items() if n}
    return kept, failed


def unchanged(row: Measured) -> bool:
    return bool(row.original) and row.original == row.rewrite


def reference_three(release: Release) -> list[str] | None:
    """The rewriters of the reference's table, where all are there."""
    found = [[name for name in release.rewriters if name.endswith(short)] for short in RAW]
    return [names[0] for names in found] if all(found) else None


def printed(one: dict[str, Any]) -> dict[str, str]:
    """Pooled numbers in the form of the reference's table."""
    verdict = one["judge"]
    form = "no verdicts" if verdict is None else f"{verdict['mean']:.3f} [{verdict['low']:.3f}, {verdict['high']:.3f}]"
    half = one["half_width_unclustered"]
    width = "no interval" if half is None else f"{half:.3f}"
    return dict(zip(POOLED, (f"{one['mean']:.3f} ± {width}, n = {one['n']}", form), strict=True))


def reference_checks(release: Release, three: Sequence[str]) -> list[Check]:
    rows = [row for row in release.rows[ATTRIBUTE] if row.rewriter in three]
    checks = []
    for (short, known), name in zip(RAW.items(), three, strict=True):
        mean = summary([row for row in rows if row.rewriter == name])["mean"]
        checks.append(Check(f"triple spaces, {short}: raw mean {known}", f"{mean:.3f}", f"{mean:.3f}" == known))
    found = printed(summary(rows))
    for name, known in POOLED.items():
        checks.append(Check(f"triple spaces, pooled: {name} {known}", found[name], found[name] == known))
    return checks


def own_checks(release: Release, conclusions: Sequence[Confirmation]) -> list[Check]:
    """What has to hold on any release: nothing is lost, and without repeated prompts the test is the textbook one."""
    used = sum(len(rows) for rows in release.rows.values())
    lost = release.n_read - used - sum(release.unread.values())
    gaps: list[float] = []
    for rows in release.rows.values():
        for name in release.rewriters:
            mine = [row for row in rows if row.rewriter == name]
            ids, margins = [row.prompt_id for row in mine], [row.margin for row in mine]
            if len(set(ids)) == len(ids) > 1 and np.ptp(margins) > 0:
                known = stats.ttest_1samp(margins, 0.0, alternative="greater").pvalue
                gaps.append(abs(mean_of(margins, ids).p_value(side="greater") - float(known)))
    silent = sum(one.p_value is None and not one.untested for one in conclusions)
    largest = max(gaps, default=0.0)
    return [
        Check(f"{release.name}: every row is used or left out with a reason", f"{used} of {release.n_read} used, left out: {dict(release.unread) or 'none'}", lost == 0),
        Check(f"{release.name}: one row a prompt: p is scipy's", f"largest gap {largest:.0e} in {len(gaps)} tests", largest <= ROUNDING),
        Check(f"{release.name}: each attribute is tested or the reason is said", f"{len(conclusions)} conclusions, {silent} silent", not silent and bool(conclusions)),
    ]  # fmt: skip


def show(release: Release, attribute: str, groups: dict[str, list[Measured]]) -> dict[str, Any]:
    """Print and return the numbers of every group of rows of one attribute."""
    print(f"\n{release.name}: {attribute}")
    print(f"  {'':34}    n prompts  raw mean      ± ± clust.  trimmed  out  judge [Wilson 95%], n")
    found = {}
    for name, rows in groups.items():
        if not rows:
            print(f"  {name:34} no rows")
            continue
        one = found[name] = summary(rows)
        half = "" if one["half_width_unclustered"] is None else f"{one['half_width_unclustered']:.3f}"
        by_prompt = one["clustered"] and one["clustered"]["high"] - one["clustered"]["value"]
        trimmed = one["trimmed"]
        mark = "*" if trimmed["sign_changes"] else " "
        wide = "" if by_prompt is None else f"{by_prompt:.3f}"
        print(
            f"  {name:34}{one['n']:5}{one['n_prompts']:8}{one['mean']:10.3f}{half:>7}{wide:>9}{trimmed['mean']:8.3f}{mark}"
            f"{trimmed['n_trimmed']:5}  {printed(one)['judge [interval]']}, {one['n'] - one['n_unjudged']}"
        )
    return found


def say(who: str, validation: Validation, confirmation: Confirmation) -> None:
    """One line on what confirmation concludes, and its warnings."""
    excluded = [f"{one.rewriter} ({one.excluded})" for one in confirmation.rewriters if one.excluded]
    first = "untested" if validation.untested else f"pooled {'passes' if validation.passed else 'does not pass'}"
    if confirmation.p_value is None:
        second = f"untested: {confirmation.untested}"
    else:
        detectable = confirmation.smallest_detectable
        reach = "" if detectable is None else f", 80% power for a mean margin of {detectable:.2f}"
        second = (
            f"{'CONFIRMED' if confirmation.confirmed else 'not confirmed'}, "
            f"p({confirmation.r} of {confirmation.k}) = {confirmation.p_value:.2g}, corrected {confirmation.p_corrected:.2g}{reach}"
        )
    print(f"  {who}: {first}; {second}" + (f"; excluded: {', '.join(excluded)}" if excluded else ""))
    for warning in confirmation.warnings:
        print(f"    warning: {warning}")


def examine(release: Release) -> tuple[list[Check], dict[str, Any]]:
    """Everything about one file."""
    three = reference_three(release)
    sets = {"all rewriters": release.rewriters} | ({"the three": three} if three else {})
    settings = ConfirmSettings()
    results = {}
    for who, names in sets.items():
        kept, failed = trials(release, names)
        results[who] = list(zip(validate(kept, settings, failed), confirm(kept, settings, failed), strict=True))
    numbers: dict[str, Any] = {}
    for place, (attribute, rows) in enumerate(release.rows.items()):
        groups = {name: [row for row in rows if row.rewriter == name] for name in release.rewriters}
        groups |= {f"pooled, {who}": [row for row in rows if row.rewriter in names] for who, names in sets.items()}
        numbers[attribute] = {"as released": show(release, attribute, groups)}
        for who, pairs in results.items():
            say(who, *pairs[place])
            validation, confirmation = (one.model_dump() for one in pairs[place])
            del validation["rewriters"], validation["pooled"]  # on the same rows as the confirmation's
            numbers[attribute][who] = {"validation": validation, "confirmation": confirmation}
    checks = own_checks(release, [confirmation for pairs in results.values() for _, confirmation in pairs])
    if release.name == REFERENCE and three and ATTRIBUTE in release.rows:
        checks = reference_checks(release, three) + checks
    else:
        print(
            f"\n{release.name}: the reference's table is about {REFERENCE}, {ATTRIBUTE!r}, three rewriters: not all here"
        )
    return checks, numbers


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--release", type=Path, default=DATA / "rm_bias")
    folder = parser.parse_args().release
    found = files(folder)
    if not found:
        print(f"skipped: no topic*.jsonl or topic*.jsonl.gz in {folder}; give --release, or set CDA_DATA")
        return SKIPPED
    try:
        parts = {name: examine(read(name, path)) for name, path in found.items()}
    except (CdaError, OSError, EOFError, UnicodeDecodeError) as error:
        print(error, file=sys.stderr)
        return 2
    checks = [check for one, _ in parts.values() for check in one]
    claim = (__doc__ or "").split("\n\n")[0].replace("\n", " ")
    return finish("discover_release", claim, checks, {name: numbers for name, (_, numbers) in parts.items()})


if __name__ == "__main__":
    sys.exit(main())
