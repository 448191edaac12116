"""Claim: the loop closes. On the embedded default, offline, `cda discover` finds a bias that nobody told it of and writes it as a
file, with contrasts of it from the validation prompts; `cda train` on that file (taught as a tie, since nobody has voted on
it) removes it, at a dose chosen for a tie; quality stays.

Of the confirmed attributes the one with the highest reward on the validation prompts is taken. It is measured before and
after by rewriting responses and taking the difference of the rewards, on the test prompts alone: the search chose among
attributes on the others. Training saw none of these responses.

A reward that ends as far on the other side of 0 is no success either.

    python evals/discover_loop.py [--work FOLDER]      (about 15 minutes on 2 cores)
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from outcome import Check, finish

from cda.files.jsonl import read_json, read_jsonl, write_jsonl

MOST_MINUTES = 10
MOST_LOSS = 0.05
"""Accuracy on the held-out pairs: a larger loss has to be excluded."""
LEAST_CUT = 0.5
"""Share of the reward for the attribute that training has to take away."""


def command(*words: str) -> None:
    """Run `cda`; stages that an earlier run has finished are reused."""
    subprocess.run([sys.executable, "-P", "-m", "cda", *words], check=True)


def reward_of(folder: Path) -> dict[str, Any]:
    """The one attribute that was measured there."""
    (found,) = read_json(folder / "discover.json")["tested"]
    return {"reward": found["pooled"]["reward"], "judge": found["pooled"]["judge"], "confirmed": found["confirmed"]}


def test_prompts(discovered: Path, file: Path) -> int:
    """Write the responses to the test prompts of a discovery as a file to measure on; how many prompts."""
    rows = [row for row in read_jsonl(discovered / "material" / "samples.jsonl") if row["part"] == "test"]
    write_jsonl(
        file, ({"prompt": row["prompt"], "responses": [one["text"] for one in row["responses"]]} for row in rows)
    )
    return len(rows)


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", type=Path, default=Path("runs/discover-loop"))
    work: Path = parser.parse_args(words).work
    command("discover", "embedded", "--out", str(work / "discover"))
    found = read_json(work / "discover" / "discover.json")
    seconds = sum(found["seconds"].values())
    confirmed = [one for one in found["tested"] if one["confirmed"]]
    if not confirmed:
        return finish(
            "discover_loop",
            __doc__ or "",
            [Check("something is confirmed", "nothing", False)],
            {"tested": found["tested"]},
        )
    validated = {one["candidate"]: one["pooled"] for one in found["validation"]["results"] if one["pooled"]}
    best = max(confirmed, key=lambda one: validated[one["candidate"]]["reward"]["value"])
    file = str(work / "discover" / best["file"])
    command("train", file, f"run.folder={work / 'train'}")
    untouched = work / "test-prompts.jsonl"
    n_prompts = test_prompts(work / "discover", untouched)
    dose = read_json(work / "train" / "dose" / "dose.json")
    trained = ("--adapter", str(work / "train"), "--judge", "embedded-judge")
    measured = {}
    for label, extra in {
        "before": (),
        "after": (*trained, "--dose", str(dose["chosen"])),
        "at dose 1": trained,
    }.items():
        command(
            "discover",
            "embedded",
            "--attribute",
            file,
            "--responses",
            str(untouched),
            "--out",
            str(work / label.replace(" ", "-")),
            *extra,
        )
        measured[label] = reward_of(work / label.replace(" ", "-"))
    audit = read_json(work / "train" / "audit" / "audit.json")
    # At the chosen dose held out: on halves other than those that choose it.
    change = dose["methods"]["dose"]["held_out"][best["name"]]["against_base"]["quality"]
    before, after = (measured[label]["reward"] for label in ("before", "after"))
    cut = 1 - after["value"] / before["value"]
    checks = [
        Check(f"found offline in at most {MOST_MINUTES} minutes", f"{seconds / 60:.1f} minutes", seconds <= 60 * MOST_MINUTES),
        Check(
            f"reward for it falls by {LEAST_CUT:.0%} or more, intervals apart",
            f"{before['value']:+.2f} [{before['low']:.2f}, {before['high']:.2f}] to {after['value']:+.2f} "
            f"[{after['low']:.2f}, {after['high']:.2f}] ({best['attribute']})",
            cut >= LEAST_CUT and after["high"] < before["low"],
        ),
        Check(
            f"nor does it turn round: at most {1 - LEAST_CUT:.0%} of what it was, on either side of 0",
            f"{after['value'] / before['value']:+.0%}",
            abs(after["value"]) <= (1 - LEAST_CUT) * before["value"],
        ),
        Check("it is no longer confirmed", str(measured["after"]["confirmed"]), not measured["after"]["confirmed"]),
        Check(
            f"a loss of more than {MOST_LOSS:.0%} of quality is excluded",
            f"{change['value']:+.3f} [{change['low']:.3f}, {change['high']:.3f}], n = {change['n']}",
            change["low"] > -MOST_LOSS,
        ),
    ]  # fmt: skip
    numbers = {
        "seconds_to_discover": round(seconds),
        "confirmed": [
            {"attribute": one["attribute"], "reward": one["pooled"]["reward"], "judge": one["pooled"]["judge"], "p": one["p_value"]}
            for one in confirmed
        ],
        "measured": measured,
        "test_prompts": n_prompts,
        "dose": {name: dose[name] for name in ("chosen", "aim")} | {"chosen by halves": dose["methods"]["dose"]["shares"]},
        "skew_at_dose_1": audit["skew"][best["name"]],
        "quality_at_dose_1": audit["quality"],
        "change_of_quality_held_out": change,
    }  # fmt: skip
    return finish("discover_loop", __doc__ or "", checks, numbers)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
