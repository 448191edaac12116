"""The run folder: one folder a stage, finished or not there at all, and never reused for other settings.

    runs/jargon/
        manifest.json          the resolved recipe, versions, git commit, and the counts of each stage
        label/stage.json       fingerprint of the settings and inputs it was made from, counts, hashes of its files
        label/...              the stage's outputs
        superseded/            stages made from earlier settings, kept

A stage writes into `.<stage>.partial` and is renamed when done, so a kill at any moment leaves either the finished
stage or a partial one that the same command takes up again. A finished stage with a file that is cut, changed or gone
since counts as not made.
"""

from __future__ import annotations

import hashlib
import json
import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from cda.errors import DataError, RunError
from cda.files.hub import commits
from cda.files.jsonl import read_json, write_json
from cda.files.paths import is_a_file, own_folder, refuse_link
from cda.files.reads import changed, changed_reads, contents, sha256_of
from cda.provenance import git_commit, versions

MANIFEST = "manifest.json"
SUPERSEDED = "superseded"
"""Folder in a run for stages of earlier settings."""
_BEGUN, _RECORD = ".begun.json", "stage.json"


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage to be made: its name and everything that determines its contents."""

    name: str
    settings: Mapping[str, Any]
    inputs: Mapping[str, str]
    """Name of each earlier stage or outside file to its fingerprint."""

    @property
    def fingerprint(self) -> str:
        return fingerprint({"name": self.name, "settings": self.settings, "inputs": self.inputs})

    @property
    def json_settings(self) -> dict[str, Any]:
        """The settings as `stage.json` holds them."""
        return dict(json.loads(json.dumps(self.settings, default=str)))


def fingerprint(content: object) -> str:
    """Sixteen hex digits of a JSON content."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()[:16]


def file_fingerprint(path: Path) -> str:
    """Sixteen hex digits of a file's bytes, or of the names and bytes of all files in a folder; never of their times."""
    digest = hashlib.sha256()
    is_folder = path.is_dir()
    try:
        files = _files_below(path) if is_folder else [path]
        for file in files:
            digest.update(f"{file.relative_to(path) if is_folder else ''}:{file.stat().st_size}".encode())
            digest.update(bytes.fromhex(sha256_of(file)))
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from None
    return digest.hexdigest()[:16]


def _files_below(folder: Path) -> list[Path]:
    """Every file in a folder, sorted, in linked folders too, since loaders follow links; each folder once."""
    files: list[Path] = []
    left, seen = [folder], {folder.resolve()}
    while left:
        for path in left.pop().iterdir():
            if path.is_file():
                files.append(path)
            elif path.is_dir() and (target := path.resolve()) not in seen:
                seen.add(target)
                left.append(path)
    return sorted(files)


class StageRecord(BaseModel):
    """Content of `stage.json`, the record of a finished stage. One of another version may hold less."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    stage: str = ""
    fingerprint: str | None = None
    """Digest of its settings and inputs."""
    output: str | None = None
    """Fingerprint of its contents."""
    settings: dict[str, Any] = {}
    """Those that determine its contents."""
    inputs: dict[str, Any] = {}
    """Name to the fingerprint of its inputs."""
    counts: dict[str, Any] = {}
    """See `cda.results.stages`."""
    contents: dict[str, str] = {}
    """File to its size and fingerprint."""
    reads: dict[str, str] = {}
    """What code of the user's read while it was made, and its state: see `cda.files.reads`."""
    finished: str = ""
    """UTC."""
    seconds: float = 0.0

    def __bool__(self) -> bool:
        return bool(self.model_fields_set)


class Manifest(BaseModel):
    """Content of `manifest.json`: the inputs of a run. One of another version may hold less."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    recipe: dict[str, Any] = {}
    """The resolved recipe."""
    command: list[str] = []
    """Of a quick look at a training: the command without `--limit`."""
    versions: dict[str, str] = {}
    git: str | None = None
    """Commit of this package's checkout."""
    python: str | None = None
    platform: str | None = None
    hub: dict[str, str] = {}
    """Commit of each model and data set from the hub, by its id and revision."""
    stages: dict[str, StageRecord] = {}


class RunFolder:
    """Stages on disk. Reading is free; writing is for the holder of `lock`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the folder for this process; RunError if it is held or cannot be written, or was deleted meanwhile."""
        from filelock import FileLock, Timeout

        another = "choose another with --out (run.folder=...)"
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = FileLock(self.path / ".lock", timeout=0)
            lock.acquire()
        except Timeout:
            raise RunError(f"{self.path}: another run is working in this folder. Wait for it, or {another}") from None
        except OSError as error:
            why = f"cannot be written: {error.strerror or error}"
            raise RunError(f"{self.path}: {why}. {another.capitalize()}") from None
        try:
            yield
            self._check_there()
        except Exception:
            # Whatever went wrong in a folder that is gone went wrong because of that.
            self._check_there()
            raise
        finally:
            lock.release()

    def _check_there(self) -> None:
        if not (self.path / ".lock").exists():
            raise RunError(
                f"{self.path}: was deleted or moved while the run was working in it. The same command starts again"
            ) from None

    def stage(self, name: str) -> Path:
        """Folder of a finished stage."""
        return self.path / name

    def record(self, name: str) -> StageRecord:
        """Record of a finished stage; an empty one, which is false, if it has not finished."""
        return _record(self.path / name)

    def manifest(self) -> Manifest:
        """The run's manifest; an empty one if there is none, or if it is damaged."""
        try:
            return Manifest.model_validate(read_json(self.path / MANIFEST))
        except (DataError, ValidationError):
            return Manifest()

    def is_done(self, stage: Stage) -> bool:
        """True if the stage is there whole, made from exactly these settings and inputs, and what it read is as it was."""
        record = self.record(stage.name)
        is_same = record.fingerprint == stage.fingerprint and not changed_reads(record.reads)
        return is_same and not self.damaged(stage.name)

    def damaged(self, name: str) -> list[str]:
        """Files of a finished stage that are cut, changed or gone since it was finished; its record may be one of them."""
        if self.stage(name).is_dir() and not self.record(name):
            return [_RECORD]
        return changed(self.stage(name), self.record(name).contents)

    def why_redo(self, stage: Stage) -> str | None:
        """Changes since a stage was finished, or begun if it never was; None if there is neither, or nothing changed."""
        if damaged := self.damaged(stage.name):
            return f"{', '.join(damaged[:6])}: cut, changed or gone since it was finished"
        old = self.record(stage.name) or _record(self.partial(stage.name), _BEGUN)
        read = [f"{name} has changed" for name in changed_reads(old.reads)]
        if not old or old.fingerprint == stage.fingerprint:
            return "; ".join(read[:6]) or None
        changes = read + _differences(old.settings, stage.json_settings)
        for name, value in stage.inputs.items():
            if (before := old.inputs.get(name)) != value:
                changes.append(f"{name} {'is new' if before is None else 'has changed'}")
        return "; ".join(changes[:6]) or "its definition changed"

    def begin(self, stage: Stage) -> Path:
        """Folder to write a stage into. Files of an interrupted run are kept only if they were made from the same settings
        and inputs. A finished stage stays in place until this one is finished too; see `finish`.
        """
        partial = self.partial(stage.name)
        refuse_link(partial)
        refuse_link(self.path / SUPERSEDED)
        if partial.exists() and _record(partial, _BEGUN).fingerprint != stage.fingerprint:
            self._set_aside(partial, stage.name + "-partial")
        partial.mkdir(parents=True, exist_ok=True)
        (partial / _RECORD).unlink(missing_ok=True)  # of files that have changed since: see `complete`
        begun = {"fingerprint": stage.fingerprint, "settings": stage.json_settings, "inputs": dict(stage.inputs)}
        write_json(partial / _BEGUN, begun)
        return partial

    def complete(self, stage: Stage) -> bool:
        """Take the last step of a stage whose run was killed right before it; return True if that was the case."""
        partial = self.partial(stage.name)
        record = _record(partial)
        (self.stage(stage.name) / _BEGUN).unlink(missing_ok=True)
        if self.is_done(stage) or record.fingerprint != stage.fingerprint:
            return False
        if not record.contents or changed(partial, record.contents):
            return False
        self._declare(stage.name)
        return True

    def partial(self, name: str) -> Path:
        """Folder of a stage that is being written."""
        return self.path / f".{name}.partial"

    def has_begun(self, stage: Stage) -> bool:
        """True if the stage is being written from exactly these settings and inputs, and lacks more than the last step."""
        partial = self.partial(stage.name)
        return _record(partial, _BEGUN).fingerprint == stage.fingerprint and not (partial / _RECORD).exists()

    def finish(
        self, stage: Stage, counts: Mapping[str, object], seconds: float, reads: Mapping[str, str] | None = None
    ) -> Path:
        """Declare the partial folder finished; the stage that it replaces is moved to `superseded/` now.

        RunError if it is no longer the folder that `begin` made: earlier files in it are lost.
        """
        partial = self.partial(stage.name)
        if not self.has_begun(stage):
            raise RunError(f"{partial}: was deleted or replaced while the run was working in it. Start again")
        for half in [path for path in partial.rglob("*.partial") if path.is_file()]:
            half.unlink()  # a kill left it half written
        listed = contents(partial, leave_out=(_BEGUN, _RECORD))
        record = StageRecord(
            stage=stage.name,
            fingerprint=stage.fingerprint,
            output=fingerprint(listed),
            settings=stage.json_settings,
            inputs=dict(stage.inputs),
            counts=dict(counts),
            contents=listed,
            reads=dict(reads or {}),
            finished=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            seconds=round(seconds, 1),
        )
        write_json(partial / _RECORD, record.model_dump())
        return self._declare(stage.name)

    def output_of(self, name: str) -> str:
        """Fingerprint of a finished stage's content; RunError if it has not finished."""
        output = self.record(name).output
        if not output:
            raise RunError(f"{self.path}: stage '{name}' has not been run; start with `cda {name} <recipe>`")
        return output

    def write_manifest(self, recipe: Mapping[str, Any], stages: list[str], command: Sequence[str] = ()) -> None:
        """Write manifest.json, with the records of those of the stages that have finished."""
        manifest = Manifest(
            recipe=dict(recipe),
            command=[*command],
            versions=versions(),
            git=git_commit(),
            python=platform.python_version(),
            platform=platform.platform(),
            hub=commits(json.dumps(recipe)),
            stages={name: record for name in stages if (record := self.record(name))},
        )
        write_json(self.path / MANIFEST, manifest.model_dump())

    def retire(self, name: str) -> None:
        """Move a finished stage, if there is one, to `superseded/`: nothing takes its place."""
        # One behind a link is read; it is the link that goes, and a link to nothing counts.
        if self.stage(name).exists() or self.stage(name).is_symlink():
            self._set_aside(self.stage(name), name)

    def _declare(self, name: str) -> Path:
        final = self.stage(name)
        self.retire(name)
        self.partial(name).replace(final)
        # Afterwards: a kill in between would leave an orphaned folder.
        (final / _BEGUN).unlink(missing_ok=True)
        return final

    def _set_aside(self, folder: Path, name: str) -> None:
        aside = own_folder(self.path / SUPERSEDED)
        places = (aside / f"{name}-{number}" for number in count(1))
        folder.replace(next(place for place in places if not (place.exists() or place.is_symlink())))


def _record(folder: Path, name: str = _RECORD) -> StageRecord:
    path = folder / name
    try:
        record = StageRecord.model_validate(read_json(path)) if is_a_file(path) else StageRecord()
        json.dumps(record.model_dump(), allow_nan=False)  # it is copied into the manifest
    except (DataError, ValueError):
        return StageRecord()
    return record


def _differences(old: object, new: object, path: str = "") -> list[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        inside = ((key, f"{path}.{key}" if path else key) for key in sorted({*old, *new}))
        return [line for key, below in inside for line in _differences(old.get(key), new.get(key), below)]
    if _by_name(old) and _by_name(new):
        return _differences(_by_name(old), _by_name(new), path)
    before, after = (text if len(text) <= 40 else text[:39] + "…" for text in map(_in_words, (old, new)))
    return [] if old == new else [f"{path}: {before} → {after}"]


def _by_name(value: object) -> dict[str, object]:
    """A list of settings that carry a name each, such as bias files and objectives, as a mapping; else empty."""
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        return {}
    names = [str(item.get("name") or item.get("kind") or "") for item in value]
    return dict(zip(names, value, strict=True)) if all(names) and len(set(names)) == len(names) else {}


def _in_words(value: object) -> str:
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(_in_words, value)) or "none"
    if isinstance(value, dict):
        name = value.get("name") or value.get("kind")
        return str(name) if name else ", ".join(f"{key} {_in_words(item)}" for key, item in value.items()) or "none"
    return str(value) or "empty"
