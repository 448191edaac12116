"""Claim: the jargon recipe runs on real human preferences and reports skew and miscalibration against people's votes.

Pairs: 750 Chatbot Arena preferences. Audit: about 100 pairs of answers, one with jargon, on which people voted.
Thresholds: the run ends by itself; skew, human skew and miscalibration are reported before and after, each with n and an
interval. Which way they move is a result, not a condition: the embedded model and rule-based rewriting are far from the
paper's setting. The result holds the numbers of the audit and none of the data set's texts.

    python -m evals.real_data.arena_jargon [--work FOLDER]      (15 to 30 minutes on 2 cores; needs the released data, see CDA_DATA)
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cda.files.jsonl import read_json
from evals.shared import DATA, ROOT, SKIPPED, Check, finish

Json = Mapping[str, Any]
KEPT = ("model", "skew", "votes", "measured", "dose_applied", "stages", "versions", "seed")
"""Parts of the audit that the result keeps; the others hold texts of the data set or do not concern the claim."""


def command(folder: Path) -> list[str]:
    """The launch command, in the form that the README shows for a user's own data."""
    data = DATA / "fff"
    return [
        "accelerate", "launch", "-q", "scripts/train.py", "recipes/jargon.yaml",
        f"data.pairs={data / 'data' / 'chatbot_arena_labeled_data' / 'chatbot_arena_jargon_labeled.jsonl'}",
        "data.columns={prompt: query, chosen: chosen_response, rejected: rejected_response}",
        f"audit.contrasts={data / 'human_annotation_data' / 'jargon' / 'jargon_grouped_human_annotations.json'}",
        "audit.columns={prompt: query, biased: more_jargony_response, preferred: most_frequent_preference}",
        f"run.folder={folder}",
    ]  # fmt: skip


def checks_of(audit: Json) -> list[Check]:
    """The claim's numbers: each is there, before and after, with n and an interval that holds it."""
    jargon = audit["votes"].get("jargon", {})
    numbers = {
        "skew before": audit["skew"]["jargon"].get("before"),
        "skew after": audit["skew"]["jargon"].get("after"),
        "human skew": jargon.get("human_skew"),
        "miscalibration before": jargon.get("measured", {}).get("miscalibration", {}).get("before"),
        "miscalibration after": jargon.get("measured", {}).get("miscalibration", {}).get("after"),
    }
    return [Check(f"{name} with n and interval", _said(number), _whole(number)) for name, number in numbers.items()]


def _whole(number: Json | None) -> bool:
    """True if an estimate is complete: rows, and an interval of some width around its value."""
    if not number:
        return False
    return bool(
        number["n"] > 0 and number["low"] <= number["value"] <= number["high"] and number["low"] < number["high"]
    )


def _said(number: Json | None) -> str:
    if not number:
        return "not reported"
    return f"{number['value']:.0%} [{100 * number['low']:.0f}, {100 * number['high']:.0f}], n = {number['n']}"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--work", type=Path, help="run folder to keep; must not exist, so that everything is made now")
    work: Path | None = parser.parse_args().work
    if not (DATA / "fff").is_dir():
        print(f"skipped: {DATA} holds no fff; set CDA_DATA")
        return SKIPPED
    if work is not None and work.exists():
        print(f"{work}: exists; name a new folder, since a stage that is reused is no evidence")
        return 2
    claim = (__doc__ or "").split("\n\n")[0]
    folder = work or Path(tempfile.mkdtemp()) / "run"
    asked = command(folder)
    try:
        status = subprocess.run(asked, cwd=ROOT).returncode
        audit = read_json(folder / "audit" / "audit.json") if status == 0 else {}
    finally:
        if work is None:
            shutil.rmtree(folder.parent)
    ended = Check("the run ends by itself", f"exit status {status}", status == 0)
    named = [word.replace(str(DATA), "$CDA_DATA").replace(str(folder), "FOLDER") for word in asked]
    numbers = {"command": "python -m evals.real_data.arena_jargon", "launched": named} | {
        name: audit[name] for name in KEPT if name in audit
    }
    return finish("arena_jargon", claim, [ended, *(checks_of(audit) if audit else [])], numbers)


if __name__ == "__main__":
    sys.exit(main())
