"""Claim: the loop closes. On the embedded default, offline, `cda discover` finds a bias that nobody told it of and writes it as a
file, with contrasts of it from the validation prompts; `cda train` on that file (taught as a tie, since nobody has voted on
it) removes it, at a dose chosen for a tie; quality stays.

Of the confirmed attributes the one with the highest reward on the validation prompts is taken. It is measured before and
after by rewriting responses and taking the difference of the rewards, on the test prompts alone: the search chose among
attributes on the others. Training saw none of these responses.

A reward that ends as far on the other side of 0 is no success either.

    python -m evals.method.discover_loop [--work FOLDER]      (about 15 minutes on 2 cores)
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cda.files.jsonl import read_json, read_jsonl, write_jsonl
from evals.shared import Check, finish

Json = dict[str, Any]

MOST_MINUTES = 10
MOST_LOSS = 0.05
"""Accuracy on the held-out pairs: a larger loss has to be excluded."""
LEAST_CUT = 0.5
"""Share of the reward for the attribute that training has to take away."""


def command(*words: str) -> None:
    """Run `cda`; stages that an earlier run has finished are reused."""
    subprocess.run([sys.executable, "-P", "-m", "cda", *words], check=True)


def strongest(found: Json) -> Json | None:
    """Of the confirmed attributes the one with the highest reward on the validation prompts; None without any."""
    validated = {one["candidate"]: one["pooled"] for one in found["validation"]["results"] if one["pooled"]}
    confirmed = [one for one in found["tested"] if one["confirmed"]]
    return max(confirmed, key=lambda one: validated[one["candidate"]]["reward"]["value"], default=None)


def tested_rows(tested: Sequence[Json]) -> list[Json]:
    """Every attribute tested on the test prompts, confirmed or not, with its p as it is and as corrected for all of them."""
    return [
        {"attribute": one["attribute"], "confirmed": one["confirmed"], "p": one["p_value"], "p_corrected": one["p_corrected"]}
        | {name: (one["pooled"] or {}).get(name) for name in ("reward", "judge")}
        for one in tested
    ]  # fmt: skip


def write_test_prompts(discovered: Path, file: Path) -> int:
    """Write the responses to the test prompts of a discovery as a file to measure on; how many prompts."""
    rows = [row for row in read_jsonl(discovered / "material" / "samples.jsonl") if row["part"] == "test"]
    write_jsonl(
        file, ({"prompt": row["prompt"], "responses": [one["text"] for one in row["responses"]]} for row in rows)
    )
    return len(rows)


def reward_of(bias_file: str, responses: Path, out: Path, *words: str) -> Json:
    """Reward, judge and verdict of the one attribute, measured on these responses."""
    given = ("--attribute", bias_file, "--responses", str(responses), "--out", str(out))
    command("discover", "embedded", *given, *words)
    (found,) = read_json(out / "discover.json")["tested"]
    return {"reward": found["pooled"]["reward"], "judge": found["pooled"]["judge"], "confirmed": found["confirmed"]}


def checks_of(attribute: str, seconds: float, before: Json, after: Json, quality: Json) -> list[Check]:
    """What has to hold before and after training; `quality` is its change, as a share."""
    old, new = before["reward"], after["reward"]
    left = new["value"] / old["value"]
    return [
        Check(f"found offline in at most {MOST_MINUTES} minutes", f"{seconds / 60:.1f} minutes", seconds <= 60 * MOST_MINUTES),
        Check(
            f"reward for it falls by {LEAST_CUT:.0%} or more, intervals apart",
            f"{old['value']:+.2f} [{old['low']:.2f}, {old['high']:.2f}] to {new['value']:+.2f} "
            f"[{new['low']:.2f}, {new['high']:.2f}] ({attribute})",
            left <= 1 - LEAST_CUT and new["high"] < old["low"],
        ),
        Check(
            f"nor does it turn round: at most {1 - LEAST_CUT:.0%} of what it was, on either side of 0",
            f"{left:+.0%}",
            abs(left) <= 1 - LEAST_CUT,
        ),
        Check("it is no longer confirmed", str(after["confirmed"]), not after["confirmed"]),
        Check(
            f"a loss of more than {MOST_LOSS:.0%} of quality is excluded",
            f"{quality['value']:+.3f} [{quality['low']:.3f}, {quality['high']:.3f}], n = {quality['n']}",
            quality["low"] > -MOST_LOSS,
        ),
    ]  # fmt: skip


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", type=Path, default=Path("runs/discover-loop"))
    work: Path = parser.parse_args(words).work
    claim = __doc__ or ""
    command("discover", "embedded", "--out", str(work / "discover"))
    found = read_json(work / "discover" / "discover.json")
    best = strongest(found)
    if best is None:
        nothing = Check("something is confirmed", "nothing", False)
        return finish("discover_loop", claim, [nothing], {"tested": tested_rows(found["tested"])})
    file, train = str(work / "discover" / best["file"]), work / "train"
    command("train", file, f"run.folder={train}")
    dose, audit = read_json(train / "dose" / "dose.json"), read_json(train / "audit" / "audit.json")
    untouched = work / "test-prompts.jsonl"
    n_prompts = write_test_prompts(work / "discover", untouched)
    trained = ("--adapter", str(train), "--judge", "embedded-judge")
    measured = {
        "before": reward_of(file, untouched, work / "before"),
        "after": reward_of(file, untouched, work / "after", *trained, "--dose", str(dose["chosen"])),
        "at dose 1": reward_of(file, untouched, work / "after-at-1", *trained, "--dose", "1"),
    }
    # At the chosen dose held out: on halves other than those that choose it.
    quality = dose["methods"]["dose"]["held_out"][best["name"]]["against_base"]["quality"]
    seconds = sum(found["seconds"].values())
    checks = checks_of(best["attribute"], seconds, measured["before"], measured["after"], quality)
    numbers = {
        "command": "python -m evals.method.discover_loop",
        "chosen": best["attribute"],
        "seconds_to_discover": round(seconds),
        "tested": tested_rows(found["tested"]),
        "measured": measured,
        "test_prompts": n_prompts,
        "dose": {name: dose[name] for name in ("chosen", "aim")} | {"chosen by halves": dose["methods"]["dose"]["shares"]},
        "change_of_quality_held_out": quality,
        "skew": audit["skew"][best["name"]],
        "quality": [each for each in audit["measured"] if each["measure"] == "accuracy"],
        "at_dose_1": audit["plain"] and audit["plain"]["numbers"],
    }  # fmt: skip
    return finish("discover_loop", claim, checks, numbers)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
