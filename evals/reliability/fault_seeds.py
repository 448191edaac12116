"""Attempts on several trainings in one run: killed between and within them, damaged afterwards, listed the other way round.

The unbroken run is made once for all attempts.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from evals.reliability.fault_runs import SMALL, Attempt, run, timeless

_SEEDS = "train.seeds=[7,3]"
_SAME = (
    *tuple(
        f"{stage}/adapter_model.safetensors"
        for stage in ("train/adapter", "train-seed-3/adapter", "adapter", "adapter-seed-3")
    ),
    "audit/margins.jsonl",
)
_CHECKPOINT = r"\.train-seed-3\.partial/checkpoints/checkpoint-2/trainer_state\.json$"


def _words(folder: Path, *more: str) -> list[str]:
    return ["train", "jargon", *SMALL, "audit.rate=0", _SEEDS, f"run.folder={folder}", *more]


@cache
def _unbroken() -> Path | str:
    """A finished run, or what it said in place of finishing."""
    folder = Path(tempfile.mkdtemp(prefix="cda-seeds-")) / "run"
    ended = run(_words(folder))
    return folder if ended.status == 0 else ended.message or ended.said[-400:]


def _difference(folder: Path) -> str | None:
    """How a finished folder differs from the unbroken run."""
    unbroken = _unbroken()
    if isinstance(unbroken, str):
        return unbroken
    files = [name for name in _SAME if not _same(unbroken / name, folder / name)]
    audits = [timeless(json.loads((one / "audit" / "audit.json").read_text("utf-8"))) for one in (unbroken, folder)]
    return ", ".join([*files, *(["audit/audit.json"] if audits[0] != audits[1] else [])]) or None


def _same(one: Path, other: Path) -> bool:
    return one.is_file() and other.is_file() and one.read_bytes() == other.read_bytes()


def _killed(fault: Mapping[str, Any]) -> Any:
    def attack(folder: Path) -> str | None:
        if isinstance(unbroken := _unbroken(), str):
            return unbroken
        ended = run(_words(folder / "run"), {"do": "kill", **fault})
        if ended.status != -9:
            return f"the kill did not come: status {ended.status}, {ended.message}"
        ended = run(_words(folder / "run"))
        return _difference(folder / "run") if ended.status == 0 else f"status {ended.status}: {ended.message}"

    return attack


def _copied(folder: Path) -> Path | str:
    unbroken = _unbroken()
    return unbroken if isinstance(unbroken, str) else Path(shutil.copytree(unbroken, folder / "run"))


def _damaged(folder: Path) -> str | None:
    """The second training's weights are cut after the run: noticed, made anew, the first left as it is."""
    copy = _copied(folder)
    if isinstance(copy, str):
        return copy
    weights = copy / "train-seed-3" / "adapter" / "adapter_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    ended = run(_words(copy))
    if ended.status or "train-seed-3: made again" not in ended.said or "train: done before" not in ended.said:
        return f"status {ended.status}, not noticed or too much made again: {ended.said[-300:]}"
    return _difference(copy)


def _other_order(folder: Path) -> str | None:
    """The same seeds in the other order: another adapter is the result, and the means stay."""
    copy = _copied(folder)
    if isinstance(copy, str):
        return copy
    before = json.loads((copy / "audit" / "audit.json").read_text("utf-8"))["seeds"]["measures"]["skew"]
    kept = (copy / "adapter-seed-3" / "adapter_model.safetensors").read_bytes()
    ended = run(_words(copy, "train.seeds=[3,7]"))
    if ended.status:
        return f"status {ended.status}: {ended.message}"
    audit = json.loads((copy / "audit" / "audit.json").read_text("utf-8"))["seeds"]
    if (copy / "adapter" / "adapter_model.safetensors").read_bytes() != kept or audit["seeds"] != [3, 7]:
        return "adapter/ is not that of the seed listed first"
    for bias, measure in audit["measures"]["skew"].items():
        if measure["by_seed"] != before[bias]["by_seed"][::-1]:
            return f"{bias}: another order of seeds gives other skews: {before[bias]['by_seed']}, {measure['by_seed']}"
        if abs(measure["after"]["value"] - before[bias]["after"]["value"]) > 1e-12:
            return f"{bias}: another mean"
    return None


ATTEMPTS: tuple[Attempt, ...] = (
    Attempt("kills", "in the second training, at its checkpoint", _killed({"event": "open", "path": _CHECKPOINT})),
    Attempt(
        "kills",
        "between two trainings, before the first is declared finished",
        _killed({"event": "os.rename", "path": r"/\.train\.partial$"}),
    ),
    Attempt(
        "kills",
        "before the second training is declared finished",
        _killed({"event": "os.rename", "path": r"/\.train-seed-3\.partial$"}),
    ),
    Attempt(
        "kills",
        "while the second training's adapter is written",
        _killed({"event": "open", "path": r"\.adapter-seed-3\.partial/adapter_model\.safetensors"}),
    ),
    Attempt("kills", "weights of the second training cut after the run", _damaged),
    Attempt("wrong numbers", "the same seeds in another order", _other_order),
)


if __name__ == "__main__":
    import sys
    import time

    failed = 0
    for one in ATTEMPTS:
        with tempfile.TemporaryDirectory() as name:
            start = time.monotonic()
            wrong = one.attack(Path(name))
            failed += wrong is not None
            print(
                f"{'survived' if wrong is None else 'FAILED  '}  {one.kind}: {one.name} ({time.monotonic() - start:.0f} s) {wrong or ''}",
                flush=True,
            )
    sys.exit(1 if failed else 0)
