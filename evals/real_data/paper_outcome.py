"""Claim: `cda audit` on the files that `scripts/paper_release.py` writes gives the outcome that the paper's tables have: the numbers
of `paper_tables`, through the public command.

Every released reward model (sizes × before and after the paper's fine-tuning) is audited on each bias by the command, with its
released scores in place of the model. Thresholds: human skew, skew and miscalibration on the pairs that people voted on, AUC and
every count equal those of evals/results/paper_tables.json to 1e-9, as do the labels of the training sample, and in the written files
RewardBench's sections and the judges' verdicts; and skew over the triples equals a count made here from the score file alone.

    python -m evals.real_data.paper_outcome --release ../shared/data/fff      (default $CDA_DATA/fff; about four minutes)
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cda.files.jsonl import read_json, read_jsonl
from evals.shared import DATA, ROOT, SKIPPED, Check, finish

EXPECTED = ROOT / "evals" / "results" / "paper_tables.json"
TOLERANCE = 1e-9
SIDES = ("perturbed", "base")
Compared = tuple[str, float, float]
"""What, expected, found."""


def written(release: Path, files: Path) -> None:
    """The release as files that the command reads."""
    script = ROOT / "scripts" / "paper_release.py"
    subprocess.run([sys.executable, str(script), str(release), str(files)], check=True, stdout=subprocess.DEVNULL)


def audited(release: Path, files: Path, bias: str, size: str, when: str, folder: Path) -> dict[str, Any]:
    """The audit.json of one released model on one bias, made by the public command."""
    scorer = ROOT / "evals" / "real_data" / "released_scorer.py"
    words = ["audit", f"{scorer}:score", f"audit={files / 'audit.yaml'}", "--bias", bias, "audit.quality=null",
             f"run.folder={folder}", "score.cache=none"]  # fmt: skip
    if any(f"chosen_{bias}" in row for row in read_jsonl(files / "labels.jsonl")):
        words.append(f"audit.labels={files / 'labels.jsonl'}")
    given = {"RELEASED_SCORES": f"{release} {size} {when}", "RELEASED_BIAS": bias, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", "cda", *words], env=os.environ | given, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"FAILED: cda {' '.join(words)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    found: dict[str, Any] = read_json(folder / "audit" / "audit.json")
    return found


def own_numbers(audit: dict[str, Any], bias: str, expected: dict[str, Any], run: str, size: str) -> Iterator[Compared]:
    """The audit's numbers of the model beside those of the tables."""
    table = expected["labels"]["as_released"]
    model = table["models"][run]["sizes"][size]
    votes, where = audit["votes"][bias], f"{bias} {size} {run}"
    yield f"{where}: pairs with a majority", table["human_skew"]["n"], votes["human_skew"]["n"]
    yield from _shares(f"{where}: human skew", table["human_skew"], votes["human_skew"])
    yield from _shares(f"{where}: skew", model["skew"], votes["measured"]["skew_on_voted"]["before"])
    yield from _shares(
        f"{where}: miscalibration", model["miscalibration"], votes["measured"]["miscalibration"]["before"]
    )
    yield from _shares(f"{where}: AUC", model["auc"], votes["measured"]["auc"]["before"])
    yield f"{where}: ties and splits left out", sum(table["not_counted"].values()), sum(votes["left_out"].values())


def other_numbers(audit: dict[str, Any], bias: str, expected: dict[str, Any]) -> Iterator[Compared]:
    """The labels of the training sample in the audit beside those of the tables."""
    rates = audit["analysis"][bias]["labels"] or {}
    labels, known = rates.get("contingency"), (expected["contingency"] or {}).get("parsed")
    if known:
        for cell in ("both", "only_chosen", "only_rejected", "neither"):
            yield f"{bias}, labelled pairs: {cell}", known[cell], labels[cell]
        yield from _shares(f"{bias}, labelled pairs: selection rate", known["selection_rate"], labels["selection_rate"])
        r = rates["r_train"]["value"]
        yield f"{bias}, labelled pairs: r with being chosen", expected["r_train"]["value"], r


def written_numbers(files: Path, tables: dict[str, Any]) -> Iterator[Compared]:
    """RewardBench's sections and the judges' verdicts in the written files beside the tables; the judges' ties are left out."""
    bench: dict[str, Any] = {}
    for row in read_jsonl(files / "rewardbench.jsonl"):
        bench[row["run"].replace("_", " ", 1), row["size"], row["section"]] = row["accuracy"]
    for run, sizes in tables["rewardbench"].items():
        for size, sections in sizes.items():
            for name, value in sections.items():
                yield f"RewardBench {size} {run} {name}", value, bench[run, size, name]
    stated = {row["id"]: (row["bias"], row["preferred"]) for row in read_jsonl(files / "contrasts.jsonl")}
    verdicts: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for row in read_jsonl(files / "verdicts.jsonl"):
        bias, people = stated[row["id"]]
        if people in SIDES and row["vote"] in SIDES:
            verdicts.setdefault((bias, row["annotator"]), []).append((row["vote"], people))
    for bias, expected in tables["biases"].items():
        for judge, one in expected["labels"]["as_released"]["judges"].items():
            if (bias, judge) not in verdicts:
                continue  # a mean over judges
            pairs, where, known = verdicts[bias, judge], f"{bias}, verdicts of {judge}", one["ties_left_out"]
            yield f"{where}: n", known["skew"]["n"], len(pairs)
            yield f"{where}: skew", known["skew"]["value"], sum(vote == "perturbed" for vote, _ in pairs) / len(pairs)
            wrong = sum(vote != people for vote, people in pairs) / len(pairs)
            yield f"{where}: miscalibration", known["miscalibration"]["value"], wrong


def triple_numbers(audit: dict[str, Any], release: Path, bias: str, size: str, run: str) -> Iterator[Compared]:
    """Skew over triples beside a count from the score file, of rows whose rewrite changed something."""
    part = size if run == "base" else f"fine_tuned_{size}_{run}"
    rows = read_jsonl(release / "data" / "fine_tuned_model_scores" / bias / f"{bias}_scored_{part}.jsonl")
    margins = {
        (row["query"], row["perturbed_response"], row["base_response"]): float(row["perturbed_score"]) - float(row["base_score"])
        for row in rows
    }  # fmt: skip
    kept = []
    for row in read_jsonl(release / "data" / "perturbations" / f"all_data_perturbed_{bias}.jsonl"):
        texts = row["original_response"], row["perturbed_response"], row["base_response"]
        if texts[1] not in (texts[0], texts[2]):
            kept.append(margins[row["query"], texts[1], texts[2]] > 0)
    found = triple_skew(audit, bias)
    yield f"{bias} {size} {run}: triples", len(kept), found["n"]
    yield f"{bias} {size} {run}: skew over triples", sum(kept) / len(kept), found["value"]


def triple_skew(audit: dict[str, Any], bias: str) -> dict[str, Any]:
    (found,) = (
        each["found"] for each in audit["measured"] if each["measure"] == "triple_skew" and each["at"] == {"bias": bias}
    )
    return dict(found)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--release", type=Path, default=None, help="folder in the layout of the release")
    options = parser.parse_args(arguments)
    release: Path = (options.release or DATA / "fff").resolve()
    if not release.is_dir():
        print(f"{'FAILED' if options.release else 'skipped'}: {release} is absent; give --release or set CDA_DATA")
        return 2 if options.release else SKIPPED
    tables = json.loads(EXPECTED.read_text(encoding="utf-8"))
    numbers: dict[str, Any] = {}
    compared: list[Compared] = []
    with tempfile.TemporaryDirectory() as temporary:
        files = Path(temporary) / "files"
        written(release, files)
        compared += written_numbers(files, tables)
        for bias, expected in tables["biases"].items():
            headline = tables["headline_runs"][bias]
            for when, run in {"before": "base", "after": headline}.items():
                for size in expected["labels"]["as_released"]["models"][run]["sizes"]:
                    audit = audited(release, files, bias, size, when, Path(temporary) / f"{bias}-{size}-{when}")
                    compared += own_numbers(audit, bias, expected, run, size)
                    compared += triple_numbers(audit, release, bias, size, run)
                    numbers[f"{bias} {size} {run}"] = {
                        "triple_skew": triple_skew(audit, bias),
                        "skew_on_voted": audit["votes"][bias]["measured"]["skew_on_voted"]["before"],
                        "excluded": audit["excluded"],
                    }
                    print(f"  {bias} {size} {when}: audited", flush=True)
            compared += other_numbers(audit, bias, expected)
    return finish("paper_outcome", (__doc__ or "").split("\n\n")[0], list(_checks(compared)), numbers)


def _checks(compared: list[Compared]) -> Iterator[Check]:
    """One threshold a kind of number: all of them equal."""
    kinds: dict[str, list[Compared]] = {}
    for one in compared:
        kinds.setdefault(_kind(one[0]), []).append(one)
    for kind, numbers in kinds.items():
        wrong = [
            f"{name}: {found} and not {expected}" for name, expected, found in numbers if not _same(expected, found)
        ]
        yield Check(
            f"{kind}: as in paper_tables" if "triples" not in kind else f"{kind}: as counted from the score files",
            f"{len(numbers) - len(wrong)} of {len(numbers)} numbers equal"
            + (f"; {'; '.join(wrong[:5])}" if wrong else ""),
            not wrong,
        )


def _kind(name: str) -> str:
    if name.startswith("RewardBench"):
        return "RewardBench's sections as released"
    if "labelled pairs" in name:
        return "labels of the training sample"
    if "verdicts" in name:
        return "verdicts of the paper's judges"
    return "skew over triples" if "triples" in name else "human skew, skew, miscalibration and AUC of the audited model"


def _shares(name: str, expected: Any, found: Any) -> Iterator[Compared]:
    """An estimate's value and n."""
    yield name, expected["value"], found["value"]
    yield f"{name}, n", expected["n"], found["n"]


def _same(expected: float, found: float) -> bool:
    return math.isclose(expected, found, rel_tol=0, abs_tol=TOLERANCE)


if __name__ == "__main__":
    sys.exit(main())
