"""The audits that are compared: finished runs, files of audits, and shared rows; read, named, and of the same model the newest row."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from cda.arrays import FloatArray
from cda.auditing.audit import AUDIT_FILE
from cda.auditing.groups import People, people_in
from cda.auditing.report_cells import compares
from cda.comparing.row import MARGINS, QUALITY, audit_row, margins_beside, read_row, write_row
from cda.errors import DataError, RunError, refuse
from cda.files.jsonl import read_json, write_json
from cda.files.paths import is_a_file, is_a_folder, is_there, place_for, user_path, writing
from cda.records import Preference, TieRule, content_id
from cda.resources.artifacts import of_this_version, shown_path, shown_target
from cda.results.audit import AuditResult
from cda.results.base import load
from cda.results.comparison import AuditRow, ComparisonResult
from cda.run import RunFolder
from cda.stats.proportions import ModelTies, hits_of

_SIDES = {"contrast": ("perturbed", "base"), "quality": ("chosen", "rejected")}
_RULES: dict[str, TieRule] = {"drop": "drop", "half": "half", "as-released": "as-released"}
_OF_MODELS = ("config.json", "adapter_config.json")
"""Files by which a folder is a model's."""


@dataclass(frozen=True, eq=False)
class Margins:
    """Contrasts of a bias in one audit, or its quality pairs, in the order of their ids, each length n; with the margins of every
    scoring, shape (n,), NaN without one."""

    ids: tuple[str, ...]
    prompt_ids: tuple[str, ...]
    votes: tuple[tuple[Preference, ...], ...]
    preferred: tuple[Preference | None, ...]
    by_scoring: Mapping[str, FloatArray]
    rule: TieRule | None
    """Treatment of people's ties; None if no majority is for a side."""

    @cached_property
    def people(self) -> People | None:
        return None if self.rule is None else people_in(self.votes, self.preferred, self.rule)


@dataclass(frozen=True, eq=False)
class Member:
    """One audit of a comparison; a shared row has no margins and no audit."""

    name: str
    source: str
    """The run's folder or the file, without other folders of this machine."""
    row: AuditRow
    margins: Mapping[str, Margins] = field(default_factory=dict)
    """By bias, and for quality pairs."""
    audit: AuditResult | None = None
    group: str = ""
    """The folder with others that it was given by; empty if it was given by itself."""

    @property
    def scorings(self) -> tuple[str, ...]:
        return ("before", "after") if self.row.training else ("model",)

    @property
    def ties(self) -> ModelTies:
        return "half" if self.audit is not None and self.audit.model.halves_ties else "no-hit"

    def hits(self, bias: str, scoring: str) -> FloatArray:
        """Preferences for the side with the bias, one for each contrast: 1, 0, a judge's tie 0.5, NaN without a margin."""
        margins = self.margins[bias].by_scoring[scoring]
        return np.where(np.isnan(margins), np.nan, hits_of(margins, self.ties))


@dataclass(frozen=True)
class Gathered:
    """Audits that were read."""

    members: tuple[Member, ...]
    refused: Mapping[str, str]
    """Files of folders that are no rows, with the reason."""
    superseded: tuple[str, ...]
    """Sentences on rows that give way to a newer one."""


def audits_at(target: object) -> list[tuple[Path, str]] | None:
    """Runs' folders and files that a target names, each with a name to say: one, or those below a folder; None for a model.

    Raises:
        DataError: A folder of neither a model nor audits.
    """
    path = user_path(str(target))
    if path.parts[:1] == ("runs",) and not is_there(path):  # where runs lie, so that no model on the hub is meant
        raise DataError(f"{target}: no such file or folder")
    if is_a_file(path / "audit" / AUDIT_FILE):
        return [(path, str(target))]
    if is_a_file(path):
        is_of_run = path.name == AUDIT_FILE and path.parent.name == "audit"
        return [(path.parent.parent if is_of_run else path, str(target))] if path.suffix == ".json" else None
    if not is_a_folder(path) or any(is_a_file(path / name) for name in _OF_MODELS):
        return None
    runs = {file.parent.parent for file in path.rglob(f"audit/{AUDIT_FILE}")}
    files = [file for file in path.rglob("*.json") if not runs & set(file.parents) and not _is_own(file)]
    found = sorted([*runs, *files])
    if not found:
        raise DataError(
            f"{target}: a folder without a model, a finished audit, or a row that `cda audit --export` wrote"
        )
    return [(each, each.relative_to(path).as_posix()) for each in found]


def places_of(targets: Sequence[object], inputs: Path) -> list[Any]:
    """Targets with results in memory as the folders of their runs, or as files in `inputs` if they have none; a comparison as all of
    its audits. Names, paths, functions and models stay as they are.

    Raises:
        DataError: A dict or result that is neither an audit nor a row.
    """
    return [place for target in targets for place in _places_of(target, inputs)]


def _places_of(target: object, inputs: Path) -> list[object]:
    if isinstance(target, ComparisonResult):
        return [_place_of_row(row, target.sources[name], inputs) for name, row in target.audits.items()]
    if isinstance(target, str | PathLike | tuple):
        return [target]
    if isinstance(folder := getattr(target, "folder", None), Path):
        return [str(folder)]
    if isinstance(target, AuditRow):
        return [str(write_row(target, f"{inputs}/"))]
    if isinstance(target, AuditResult | Mapping):
        content = target.model_dump(exclude=set(target.in_memory)) if isinstance(target, AuditResult) else dict(target)
        if not {"numbers", "scorings"} & content.keys():
            raise DataError(
                f"cda.compare: a dict with {', '.join(map(str, list(content)[:5])) or 'nothing'}: no row: a row, such as "
                "`cda audit --export` writes, has the field numbers"
            )
        file = place_for(inputs / f"row-{content_id(content)}.json")
        with writing(file):
            write_json(file, content)
        return [str(file)]
    return [target]


def _place_of_row(row: AuditRow, source: str, inputs: Path) -> str:
    """The run of an audit that was compared, if it still lies there as it was, since it has the margins; else its row."""
    try:
        if audits_at(source) and gather([source]).members[0].row == row:
            return source
    except (DataError, RunError):
        pass
    return str(write_row(row, f"{inputs}/"))


def _is_own(file: Path) -> bool:
    """True for the numbers of a comparison, which may lie in the same folder."""
    try:
        content = read_json(file)
    except DataError:
        return False
    return isinstance(content, dict) and {"audits", "means", "paired"} <= content.keys()


def gather(targets: Sequence[str | Path], runs: Sequence[Path] = ()) -> Gathered:
    """The audits that targets name, and those in the folders of `runs`, each once and by a name of its own.

    Raises:
        RunError: A run is damaged, or a file that was named is no audit or row; all at once.
        DataError: No row or audit is left in a folder; with the reasons.
    """
    problems: list[str] = []
    refused: dict[str, str] = {}
    members: dict[Path, Member] = {}
    for target in [*targets, *runs]:
        places = audits_at(target) or []
        for path, said in places:
            try:
                group = "" if said == str(target) else shown_path(str(target))
                members.setdefault(path.resolve(), replace(_member(path, shown_path(said)), group=group))
            except (DataError, RunError) as error:
                if len(places) == 1 and path == user_path(str(target)):
                    problems.append(str(error))
                else:  # the page is shared: it says nothing of folders on this machine
                    reason = str(error).replace(str(path), "", 1).removeprefix(": ")
                    refused[said] = re.sub(r"^:(\d+): ", r"line \1: ", reason)
    if problems:
        raise RunError("\n".join(problems))
    if not members:
        where = ", ".join(map(str, targets))
        listed = [f"{name}: {reason}" for name, reason in refused.items()]
        refuse([f"{where}: no row that `cda audit --export {where}/NAME.json` wrote", *listed], "more files")
    kept, superseded = _newest(list(members.values()))
    return Gathered(tuple(_named(kept)), refused, tuple(superseded))


def _member(path: Path, source: str) -> Member:
    if is_a_folder(path):
        return _of_run(path, source)
    content = read_json(path)
    if isinstance(content, dict) and "scorings" in content:
        audit = load(AuditResult, path, "cda audit")
        return Member("", source, audit_row(audit, None), audit=audit)
    if isinstance(content, dict) and "numbers" not in content:
        raise DataError(f"{path}: no row: a row has the field numbers")
    return Member("", source, read_row(path))


def _of_run(run: Path, source: str) -> Member:
    if files := RunFolder(run).damaged("audit"):
        raise RunError(
            f"{run}: {', '.join(files)} of its audit: cut, changed or gone since it was finished; audit the model again"
        )
    file = run / "audit" / AUDIT_FILE
    audit = load(AuditResult, file, "cda audit")
    with of_this_version(file):
        rows: dict[str, dict[str, Mapping[str, Any]]] = {}
        for row in margins_beside(run) or ():
            rows.setdefault(str(row.get("bias") or QUALITY), {})[str(row["id"])] = row
        margins = {name: _margins(name, own, audit) for name, own in rows.items()}
        return Member("", source, audit_row(audit, run), margins, audit)


def _margins(name: str, by_id: Mapping[str, Mapping[str, Any]], audit: AuditResult) -> Margins:
    ids = tuple(sorted(by_id))
    rows = [by_id[each] for each in ids]
    if any("prompt_id" not in row for row in rows):
        raise DataError(
            f"its {MARGINS} names no prompts, as that of an earlier version: run `cda audit` again in a new folder"
        )
    return Margins(
        ids=ids,
        prompt_ids=tuple(str(row["prompt_id"]) for row in rows),
        votes=tuple(tuple(row.get("votes") or ()) for row in rows),
        preferred=tuple(row.get("preferred") for row in rows),
        by_scoring={when: np.array([_margin(row, when) for row in rows], dtype=np.float64) for when in audit.scorings},
        rule=_RULES.get(audit.votes[name].rule) if name in audit.votes else None,
    )


def _margin(row: Mapping[str, Any], scoring: str) -> float | None:
    """A difference of rewards, or a judge's preference; None if there is none."""
    if f"margin_{scoring}" in row:
        return row[f"margin_{scoring}"]  # type: ignore[no-any-return]
    better, worse = (row[f"{side}_{scoring}"] for side in _SIDES[row["kind"]])
    return None if better is None or worse is None else float(better) - float(worse)


def _newest(members: Sequence[Member]) -> tuple[list[Member], list[str]]:
    """Shared rows on one model, scored alike on the same texts, give way to its run or to the newest of them, of equal dates the first."""
    by_subject: dict[str, list[Member]] = {}
    for member in members:
        row, texts = member.row, {name: each.content for name, each in member.row.texts.items()}
        scored = {what: value for what, value in row.scored.items() if what != "cut"}
        training = row.training.model_dump() if row.training else None
        of_file = (
            member.source if member.audit is not None and not member.margins else None
        )  # it says too little of its texts
        subject = content_id(row.model, row.revision, row.content, row.kind, scored, training, texts, of_file)
        by_subject.setdefault(subject, []).append(member)
    superseded: dict[int, str] = {}
    for own in by_subject.values():
        stays = max(own, key=lambda each: (each.audit is not None, each.row.date or ""))
        for member in own:
            if member is not stays and member.audit is None:
                same = (
                    "a copy of"
                    if member.row.numbers == stays.row.numbers
                    else "the same model and texts, with other numbers, as"
                )
                superseded[id(member)] = f"{member.source}: {same} {stays.source}, which is shown."
    return [member for member in members if id(member) not in superseded], list(superseded.values())


def _named(members: Sequence[Member]) -> list[Member]:
    """A model by its own name, a training by its folder, a row by model and training; those that are not distinct with their
    source, and then a number."""
    first = [_name(member) for member in members]
    named = [
        f"{name} ({member.source})" if first.count(name) > 1 and name != member.source else name
        for name, member in zip(first, members, strict=True)
    ]
    names = [f"{name} {named[:at].count(name) + 1}" if named.count(name) > 1 else name for at, name in enumerate(named)]
    return [replace(member, name=name) for member, name in zip(members, names, strict=True)]


def _name(member: Member) -> str:
    if member.audit is None:
        return member.row.label
    return member.source if compares(member.audit) else shown_target(member.audit.model.name)
