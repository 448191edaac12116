"""Claim: a killed, starved or crowded run loses nothing. After 20 kills and more, at every stage boundary, in the middle of
writes and at random moments, the same command ends in the artifacts of an unbroken run, to the byte but for times; so it
does after a full disk, a second run in its folder, a folder deleted under way and damaged files, each of which is noticed and
said; every wrong command, recipe or data file is refused with a message and without a traceback; and no attempt to confuse
models, texts, rows or answers ends in a wrong number, a lost answer or a standstill.

    python -m evals.reliability.faults                    (about 20 minutes on 2 cores; as root, to mount small disks)
    python -m evals.reliability.faults --only kills disk  (some parts; nothing is written)
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evals.reliability.fault_inputs import WRONG, Wrong
from evals.reliability.fault_runs import Attempt, Ended, Kind, differences, run, start, words
from evals.shared import Check, finish

SEED = 20261122
N_RANDOM = 8
DISK = "700m"
"""More than the 500 MB that a run asks for at its start."""
Fault = dict[str, Any]
Found = tuple[list[Check], dict[str, Any]]


def kill(event: str, path: str, nth: int = 1) -> Fault:
    """SIGKILL right before a file event."""
    return {"event": event, "path": path, "nth": nth, "do": "kill"}


def cut(event: str, path: str, size: int, nth: int = 1) -> Fault:
    """Killed while a file grows beyond so many bytes, from an event on."""
    return {"event": event, "path": path, "nth": nth, "do": "cut", "bytes": size}


# In the order of a run: each is hit by the command that goes on from the one before.
MOMENTS: tuple[Fault, ...] = (
    kill("open", r"\.label\.partial/\.begun\.json\.partial$"),
    cut("open", r"\.label\.partial/pairs\.jsonl\.partial$", 3_000),
    kill("os.rename", r"\.label\.partial/pairs\.jsonl\.partial$"),
    cut("open", r"\.label\.partial/stage\.json\.partial$", 100),
    kill("os.rename", r"\.label\.partial$"),
    kill("open", r"manifest\.json\.partial$"),
    cut("open", r"\.synthesize\.partial/train\.jsonl\.partial$", 5_000),
    kill("os.rename", r"\.synthesize\.partial$"),
    cut("open", r"manifest\.json\.partial$", 1_000, nth=2),
    kill("os.mkdir", r"checkpoints/checkpoint-2$"),
    cut("os.mkdir", r"checkpoints/checkpoint-2$", 100_000),
    cut("os.mkdir", r"checkpoints/checkpoint-2$", 800_000),
    kill("open", r"checkpoint-2/trainer_state\.json$"),
    cut("os.mkdir", r"checkpoints/checkpoint-4$", 300_000),
    kill("open", r"checkpoint-6/trainer_state\.json$"),
    kill("os.remove", r"(^|/)optimizer\.pt$"),  # an older checkpoint goes
    cut("os.mkdir", r"train\.partial/adapter$", 200_000),
    kill("os.remove", r"(^|/)scheduler\.pt$"),  # all of them go
    kill("os.rename", r"\.train\.partial$"),
    kill("sqlite3.connect", r"score-cache"),
    cut("sqlite3.connect", r"score-cache", 40_000),
    cut("open", r"\.audit\.partial/audit\.json\.partial$", 50_000),
    kill("os.rename", r"\.audit\.partial/margins\.jsonl\.partial$"),
    kill("os.rename", r"\.audit\.partial$"),
    cut("open", r"report/report\.html\.partial$", 30_000),
    kill("open", r"report/report\.md\.partial$"),
    kill("os.rename", r"report/report\.md\.partial$"),
)
# Bytes that are left on the disk when something is about to be written.
FULL: tuple[tuple[str, str, int], ...] = (
    ("open", r"\.label\.partial/pairs\.jsonl\.partial$", 8_192),
    ("open", r"\.synthesize\.partial/train\.jsonl\.partial$", 12_288),
    ("os.mkdir", r"checkpoints/checkpoint-2$", 200_704),
    ("os.mkdir", r"checkpoints/checkpoint-2$", 1_900_544),
    ("os.mkdir", r"train\.partial/adapter$", 200_704),
    ("sqlite3.connect", r"score-cache", 45_056),
    ("open", r"\.audit\.partial/audit\.json\.partial$", 40_960),
    ("open", r"report/report\.html\.partial$", 32_768),
)
GONE: tuple[tuple[str, str], ...] = (
    ("os.rename", r"\.label\.partial/pairs\.jsonl\.partial$"),
    ("os.mkdir", r"checkpoints/checkpoint-4$"),
    ("open", r"\.audit\.partial/audit\.json\.partial$"),
)
REUSED = "done before, reused"
ATTEMPTS: tuple[Attempt, ...] = tuple(
    attempt
    for topic in ("identity", "identities", "rows", "numbers", "seeds", "endpoint", "commands", "languages")
    for attempt in importlib.import_module(f"evals.reliability.fault_{topic}").ATTEMPTS
)


@dataclass(frozen=True, slots=True)
class World:
    """Where the eval works, and the unbroken run it compares with."""

    root: Path
    unbroken: Path
    unbroken_s: float

    def folder(self, name: str) -> Path:
        """A run folder with a score cache of its own beside it."""
        (self.root / name).mkdir()
        return self.root / name / "run"

    def copied(self, name: str) -> Path:
        """The unbroken run once more."""
        shutil.copytree(self.unbroken.parent, self.root / name)
        return self.root / name / "run"


def kills(world: World) -> Found:
    """Killed at every planned moment, one after another, and then let finish."""
    folder, seen = world.folder("kills"), []
    for fault in MOMENTS:
        ended = run(words(folder), fault)
        seen.append({**fault, "status": ended.status, **({} if ended.status < 0 else {"said": ended.said[-600:]})})
        _tell("kill", seen[-1])
    last = run(words(folder))
    differing = differences(world.unbroken, folder)
    n_killed = sum(one["status"] < 0 for one in seen)
    return [
        Check(f"killed at all {len(MOMENTS)} planned moments", f"{n_killed}", n_killed == len(MOMENTS)),
        _same("after them the same command ends in the unbroken run's artifacts", last, differing),
    ], {"moments": seen, "differing": differing}


def random_kills(world: World) -> Found:
    """Killed at seeded random moments after the plan was printed; a run that was faster is compared, and another begun."""
    folder, rng = world.folder("random-0"), random.Random(SEED)
    seen: list[dict[str, Any]] = []
    differing: list[str] = []
    while sum(one["status"] == -9 for one in seen) < N_RANDOM and len(seen) < 3 * N_RANDOM:
        process = start(words(folder))
        assert process.stdout is not None
        process.stdout.readline()
        after_s = rng.uniform(0.1, 0.7) * world.unbroken_s
        # Its output has to be taken meanwhile, or it would wait for its reader.
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=after_s)
        process.kill()
        process.communicate()
        seen.append({"after_s": round(after_s, 2), "status": process.returncode, "there": _there(folder)})
        _tell("random kill", seen[-1])
        if process.returncode == 0:
            differing += differences(world.unbroken, folder)
            folder = world.folder(f"random-{len(seen)}")
    last = run(words(folder))
    differing += differences(world.unbroken, folder)
    n_killed = sum(one["status"] == -9 for one in seen)
    return [
        Check(f"{N_RANDOM} kills at random moments", f"{n_killed} of {len(seen)} runs", n_killed == N_RANDOM),
        _same("after them the same command ends in the unbroken run's artifacts", last, differing),
    ], {"kills": seen, "differing": differing}  # fmt: skip


def full_disk(world: World) -> Found:
    """A disk that fills up under way, at several sizes; then there is space again."""
    seen: list[dict[str, Any]] = []
    with small_disk(world.root / "disk") as disk:
        folder = disk / "run"
        for event, path, left in FULL:
            ended = run(words(folder), {"event": event, "path": path, "do": "fill", "bytes": left, "disk": str(disk)})
            filled = (disk / "filler").exists()
            (disk / "filler").unlink(missing_ok=True)
            fine = filled and ended.refused and str(disk) in ended.message and "space" in ended.message
            seen.append({"path": path, "left": left, "status": ended.status, "message": ended.message, "fine": fine})
            _tell("full disk", seen[-1] | ({} if ended.refused else {"said": ended.said[-1500:]}))
        last = run(words(folder))
        differing = differences(world.unbroken, folder)
    n_fine = sum(one["fine"] for one in seen)
    return [
        Check(f"{len(FULL)} full disks: our message with the folder and what to do", f"{n_fine}", n_fine == len(FULL)),
        _same("with space again the same command ends in the unbroken run's artifacts", last, differing),
    ], {"full": seen, "differing": differing}


def read_only(world: World) -> Found:
    """A folder that nobody can write, root neither."""
    with small_disk(world.root / "ro") as disk:
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        ended = run(words(disk / "run"))
    _tell("read-only", {"status": ended.status, "message": ended.message})
    fine = ended.refused and str(disk) in ended.message and "cannot be written" in ended.message
    return [Check("a read-only folder: said, with its name", ended.message, fine)], {}


def two_runs(world: World) -> Found:
    """A second run in the folder of one that works."""
    folder = world.folder("two")
    first = start(words(folder))
    with ThreadPoolExecutor(1) as reading:
        said = reading.submit(first.communicate)
        while not (folder / "label" / "stage.json").exists() and first.poll() is None:
            time.sleep(0.01)
        second = run(words(folder))
        was_working = first.poll() is None
        ended = Ended(first.wait(), said.result()[0])
    _tell("second run", {"status": second.status, "message": second.message, "first_was_working": was_working})
    fine = was_working and second.refused and str(folder) in second.message and "another run" in second.message
    differing = differences(world.unbroken, folder)
    return [
        Check("a second run in one folder: a clear message", second.message, fine),
        _same("the first one ends in the unbroken run's artifacts", ended, differing),
    ], {"differing": differing}


def deleted(world: World) -> Found:
    """The folder is deleted under way."""
    folder = world.folder("deleted")
    seen: list[dict[str, Any]] = []
    for event, path in GONE:
        ended = run(words(folder), {"event": event, "path": path, "do": "delete", "folder": str(folder)})
        fine = ended.refused and str(folder) in ended.message and "deleted" in ended.message
        seen.append({"path": path, "status": ended.status, "message": ended.message, "fine": fine})
        _tell("deleted", seen[-1] | ({} if fine else {"said": ended.said[-1500:]}))
    for left in [
        *folder.glob("superseded")
    ]:  # what was written into the deleted folder's place is kept aside, and said
        shutil.rmtree(left)
    last = run(words(folder))
    shutil.rmtree(folder / "superseded", ignore_errors=True)
    differing = differences(world.unbroken, folder)
    n_fine = sum(one["fine"] for one in seen)
    return [
        Check(f"{len(GONE)} folders deleted under way: said, with the name", f"{n_fine}", n_fine == len(GONE)),
        _same("the same command then starts anew and ends in the unbroken run's artifacts", last, differing),
    ], {"deleted": seen, "differing": differing}


def _half(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def _flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) * 3 // 4] ^= 0x40
    path.write_bytes(bytes(content))


def _scrambled(path: Path) -> None:
    path.write_bytes(b"\0" * 200 + path.read_bytes()[200:])


@dataclass(frozen=True, slots=True)
class Damage:
    """A file of a finished run, beside its run folder or in it, what is done to it, and what has to be said of it."""

    file: str
    done: Callable[[Path], None]
    said: str
    without: str | None = None
    """A stage that is taken away too, so that the file is needed."""


DAMAGES: tuple[Damage, ...] = (
    Damage("run/label/stage.json", _half, "label: made again"),
    Damage("run/label/pairs.jsonl", _half, "pairs.jsonl: cut, changed or gone"),
    Damage("run/synthesize/train.jsonl", _flipped, "train.jsonl: cut, changed or gone"),
    Damage("run/train/adapter/adapter_model.safetensors", _half, "adapter_model.safetensors: cut, changed or gone"),
    Damage("run/train/adapter/adapter_model.safetensors", _flipped, "adapter_model.safetensors: cut, changed or gone"),
    Damage("run/train/adapter/adapter_config.json", Path.unlink, "adapter_config.json: cut, changed or gone"),
    Damage("run/audit/audit.json", _half, "audit.json: cut, changed or gone"),
    Damage("run/audit/margins.jsonl", _flipped, "margins.jsonl: cut, changed or gone"),
    Damage("run/manifest.json", _half, REUSED),
    Damage("run/report/report.md", _half, REUSED),
    Damage("score-cache.sqlite", _scrambled, "score cache is damaged; moved", without="audit"),
    Damage("score-cache.sqlite", _half, "score cache is damaged; moved", without="audit"),
)


def damaged(world: World) -> Found:
    """One file of a finished run is cut, changed or gone."""
    seen = []
    for number, damage in enumerate(DAMAGES):
        folder = world.copied(f"damaged-{number}")
        if damage.without:
            shutil.rmtree(folder / damage.without)
        damage.done(folder.parent / damage.file)
        ended = run(words(folder))
        seen.append(_mended(world, folder, damage.file, damage.said, ended))
        shutil.rmtree(folder.parent)
    seen.append(_damaged_checkpoint(world))
    n_fine = sum(one["fine"] for one in seen)
    return [
        Check(f"{len(seen)} damaged files: noticed, said, made anew, the same at the end", f"{n_fine}", n_fine == len(seen))
    ], {"damaged": seen}  # fmt: skip


def _mended(world: World, folder: Path, file: str, wanted: str, ended: Ended) -> dict[str, Any]:
    shutil.rmtree(folder / "superseded", ignore_errors=True)  # the damaged stage is kept there
    differing = differences(world.unbroken, folder)
    fine = ended.status == 0 and wanted in ended.said and not differing
    one = {"file": file, "status": ended.status, "said": wanted in ended.said, "differing": differing, "fine": fine}
    _tell("damaged", one | ({} if fine else {"all": ended.said[-1500:]}))
    return one


def _damaged_checkpoint(world: World) -> dict[str, Any]:
    """Killed with two checkpoints, and the newest one's optimizer cut: its state alone would pass."""
    folder = world.folder("checkpoint")
    run(words(folder), kill("open", r"checkpoint-6/trainer_state\.json$"))
    _half(folder / ".train.partial" / "checkpoints" / "checkpoint-4" / "optimizer.pt")
    ended = run(words(folder))
    return _mended(world, folder, "checkpoint-4/optimizer.pt", "checkpoint-4 is not whole", ended)


def inputs(world: World) -> Found:
    """Wrong commands, recipes and data files."""
    seen = []
    for number, wrong in enumerate(WRONG):
        seen.append(_refused(wrong, world.root / f"inputs-{number}"))
        if not seen[-1]["refused"]:
            _tell("not refused cleanly", seen[-1])
    n_refused = sum(one["refused"] for one in seen)
    return [
        Check(f"{len(WRONG)} wrong inputs refused, with a message that names them", f"{n_refused}", n_refused == len(WRONG))
    ], {"tried": len(seen), "refused": n_refused, "inputs": seen}  # fmt: skip


def _refused(wrong: Wrong, folder: Path) -> dict[str, Any]:
    folder.mkdir()
    for name, content in wrong.files.items():
        (folder / name).write_bytes(content)
    ended = run(wrong.words, cwd=folder)
    named = all(name in ended.said for name in wrong.names)
    one: dict[str, Any] = {"words": " ".join(wrong.words), "status": ended.status, "refused": ended.refused and named}
    return one if one["refused"] else one | {"said": ended.said[-600:]}


def attempts(world: World) -> Found:
    """Attempts to confuse models, texts, rows, answers and commands, each in an empty folder."""
    seen = []
    for number, attempt in enumerate(ATTEMPTS):
        folder = world.root / f"attempt-{number}"
        folder.mkdir()
        try:
            wrong = attempt.attack(folder)
        except Exception as error:  # an attack that breaks down has shown nothing
            wrong = f"breaks down: {error!r}"[:600]
        seen.append(
            {"kind": attempt.kind, "name": attempt.name, "fine": wrong is None} | ({"wrong": wrong} if wrong else {})
        )
        _tell("attempt", seen[-1])
        shutil.rmtree(folder)
    n_fine = sum(row["fine"] for row in seen)
    return [
        Check(f"{len(seen)} attempts at a wrong number, a lost answer or a standstill: survived", f"{n_fine}", n_fine == len(seen))
    ], {"attempts": seen}  # fmt: skip


def by_kind(parts: dict[str, dict[str, Any]]) -> dict[str, dict[str, int]]:
    """Attempts of each kind: how many were tried, and how many survived. A kill has survived with its part's artifacts."""
    tried: Counter[str] = Counter()
    survived: Counter[str] = Counter()

    def count(kind: Kind, fine: list[bool]) -> None:
        tried[kind] += len(fine)
        survived[kind] += sum(fine)

    for part, kills in (("kills", "moments"), ("random", "kills")):
        if part in parts:
            count("kills", [not parts[part]["differing"]] * len(parts[part][kills]))
    for part, rows in (("disk", "full"), ("damaged", "damaged"), ("deleted", "deleted")):
        count("disks and files", [row["fine"] for row in parts.get(part, {}).get(rows, ())])
    count("commands", [row["refused"] for row in parts.get("inputs", {}).get("inputs", ())])
    for row in parts.get("attempts", {}).get("attempts", ()):
        count(row["kind"], [row["fine"]])
    return {kind: {"survived": survived[kind], "tried": tried[kind]} for kind in sorted(tried)}


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A file system of its own, as large as DISK."""
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(folder)], capture_output=True, text=True
    )
    if made.returncode:
        raise RuntimeError(f"{made.stderr.strip()}: this part needs the right to mount")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False)


def _attempted(part: str, world: World) -> Found:
    """A part's checks; one that breaks down has failed, and the others go on."""
    try:
        return PARTS[part](world)
    except Exception as error:
        return [Check(f"{part}: runs to its end", repr(error)[:300], False)], {}


def _same(what: str, ended: Ended, differing: list[str]) -> Check:
    found = f"status {ended.status}; {', '.join(differing) or 'nothing differs'}"
    return Check(what, found, ended.status == 0 and not differing)


def _there(folder: Path) -> list[str]:
    """Stages that are finished or begun."""
    return sorted(path.name for path in folder.glob("*") if path.is_dir())


def _tell(what: str, content: dict[str, Any]) -> None:
    print(f"  {what}: {content}", flush=True)


PARTS: dict[str, Callable[[World], Found]] = {
    "kills": kills,
    "damaged": damaged,
    "disk": full_disk,
    "random": random_kills,
    "inputs": inputs,
    "attempts": attempts,
    "deleted": deleted,
    "two": two_runs,
    "read-only": read_only,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--only", nargs="+", choices=list(PARTS), help="some parts; nothing is written then")
    parser.add_argument("--lanes", type=int, default=2, help="parts at a time, one core each")
    options = parser.parse_args()
    names = options.only or list(PARTS)
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(options.lanes) as lanes:
        root = Path(name)
        (root / "unbroken").mkdir()
        began = time.monotonic()
        ended = run(words(root / "unbroken" / "run"))
        if ended.status:
            raise SystemExit(f"the unbroken run failed:\n{ended.said[-2000:]}")
        world = World(root, root / "unbroken" / "run", time.monotonic() - began)
        print(f"  unbroken run: {world.unbroken_s:.1f} s", flush=True)
        apart = [name for name in names if name != "attempts"]
        under_way = [lanes.submit(_attempted, name, world) for name in apart]
        # Attempts interrupt processes and set alarms, which the main thread alone may.
        found = {"attempts": _attempted("attempts", world)} if "attempts" in names else {}
        found |= {name: part.result() for name, part in zip(apart, under_way, strict=True)}
    checks = [check for part in found.values() for check in part[0]]
    parts = {part: seen for part, (_, seen) in found.items()}
    numbers = {"seed": SEED, "unbroken_s": round(world.unbroken_s, 1), "by_kind": by_kind(parts)} | parts
    if options.only:
        for check in checks:
            print(f"  {'passed' if check.passed else 'FAILED'}  {check.threshold}\n          found {check.found}")
        return 0 if all(check.passed for check in checks) else 1
    checks = [Check(one.threshold, one.found.replace(str(root), "FOLDER"), one.passed) for one in checks]
    numbers = json.loads(json.dumps(numbers).replace(str(root), "FOLDER"))  # a chance name, which says nothing
    return finish("faults", (__doc__ or "").split("\n\n")[0].replace("\n", " "), checks, numbers)


if __name__ == "__main__":
    sys.exit(main())
