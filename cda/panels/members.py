"""The audits of a panel, read from their run folders: results, and the margin of every contrast."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from cda.arrays import FloatArray
from cda.auditing.audit import AUDIT_FILE
from cda.auditing.groups import People, people_in
from cda.auditing.report_cells import compares
from cda.auditing.row import AuditFolder, margin_in, scored_as
from cda.errors import RunError
from cda.files.paths import is_a_file
from cda.records import Preference, TieRule, content_id
from cda.resources.artifacts import shown_path, shown_target
from cda.results.audit import AuditResult
from cda.results.base import load
from cda.results.facts import RewardModelFacts
from cda.results.leaderboard import ScoredAs
from cda.results.panel import PanelKind
from cda.run import RunFolder
from cda.stats.proportions import ModelTies, hits_of

_RULES: dict[str, TieRule] = {"drop": "drop", "half": "half", "as-released": "as-released"}


@dataclass(frozen=True, eq=False)
class Contrasts:
    """The contrasts of one bias in one audit, in the order of their ids, with the margins of every scoring (NaN: none)."""

    ids: tuple[str, ...]
    prompt_ids: tuple[str, ...]
    votes: tuple[tuple[Preference, ...], ...]
    preferred: tuple[Preference | None, ...]
    margins: Mapping[str, FloatArray]
    rule: TieRule | None
    """Treatment of people's ties; None if no majority is for a side."""

    @cached_property
    def text_set(self) -> str:
        """Equal for the same texts with the same votes on them."""
        return content_id("text set", self.ids, [sorted(own) for own in self.votes], self.preferred, self.rule)

    @cached_property
    def people(self) -> People | None:
        return None if self.rule is None else people_in(self.votes, self.preferred, self.rule)


@dataclass(frozen=True, eq=False)
class Member:
    """A finished audit, by its name in the panel."""

    name: str
    run: Path
    audit: AuditResult
    contrasts: Mapping[str, Contrasts]
    """By bias."""
    n_without_prompt: int
    """Contrasts whose prompt no audit of the panel names: each counts as its own."""
    calibration: str | None = None
    """Fingerprint of the calibration that corrected its scores."""

    @property
    def scored(self) -> ScoredAs:
        return scored_as(self.audit, self.calibration)

    @property
    def kind(self) -> PanelKind:
        return "reward models" if isinstance(self.audit.model, RewardModelFacts) else "judges"

    @property
    def is_training(self) -> bool:
        return compares(self.audit)

    @property
    def ties(self) -> ModelTies:
        return "half" if self.audit.model.halves_ties else "no-hit"

    def hits(self, bias: str, scoring: str) -> FloatArray:
        """Preferences for the side with the bias, one for each contrast: 1, 0, a judge's tie 0.5, NaN without a margin."""
        margins = self.contrasts[bias].margins[scoring]
        return np.where(np.isnan(margins), np.nan, hits_of(margins, self.ties))


def is_finished_audit(target: str) -> bool:
    """True for the folder of a run that holds a finished audit."""
    return is_a_file(Path(target).expanduser() / "audit" / AUDIT_FILE)


def read_members(runs: Sequence[Path]) -> list[Member]:
    """Audits by their run folders, under distinct names; RunError lists every one that is damaged or not finished, and
    DataError one of another version of cda."""
    damaged = {run: RunFolder(run).damaged("audit") for run in runs}
    problems = [
        f"{run}: {', '.join(files)} of its audit: cut, changed or gone since it was finished; audit the model again"
        for run, files in damaged.items()
        if files
    ]
    if problems:
        raise RunError("\n".join(problems))
    audits = [load(AuditResult, run / "audit" / AUDIT_FILE, "cda audit") for run in runs]
    found = [AuditFolder.read(audit, run) for audit, run in zip(audits, runs, strict=True)]
    rows = [[row for row in each.rows or () if row["kind"] == "contrast"] for each in found]
    # An audit of an earlier version names no prompts; another one of the same contrasts may.
    prompts = {str(row["id"]): str(row["prompt_id"]) for own in rows for row in own if "prompt_id" in row}
    names = _names(runs, audits)
    return [
        Member(
            name, run, each.audit, _by_bias(own, each.audit, prompts), sum(str(row["id"]) not in prompts for row in own),
            each.record.settings.get("calibration"),
        )
        for name, run, each, own in zip(names, runs, found, rows, strict=True)
    ]  # fmt: skip


def _names(runs: Sequence[Path], audits: Sequence[AuditResult]) -> list[str]:
    """A model by its own name, a training by its folder; those that are not distinct with their folder, and then a number."""
    folders = [shown_path(run) for run in runs]
    first = [
        folder if compares(audit) else shown_target(audit.model.name)
        for folder, audit in zip(folders, audits, strict=True)
    ]
    named = [
        f"{name} ({folder})" if first.count(name) > 1 and name != folder else name
        for name, folder in zip(first, folders, strict=True)
    ]
    return [f"{name} {named[:at].count(name) + 1}" if named.count(name) > 1 else name for at, name in enumerate(named)]


def _by_bias(rows: Iterable[Mapping[str, Any]], audit: AuditResult, prompts: Mapping[str, str]) -> dict[str, Contrasts]:
    by_bias: dict[str, dict[str, Mapping[str, Any]]] = {name: {} for name in audit.skew}
    for row in rows:
        by_bias.setdefault(str(row["bias"]), {})[str(row["id"])] = row
    return {name: _contrasts(name, own, audit, prompts) for name, own in by_bias.items() if own}


def _contrasts(
    bias: str, by_id: Mapping[str, Mapping[str, Any]], audit: AuditResult, prompts: Mapping[str, str]
) -> Contrasts:
    ids = tuple(sorted(by_id))
    rows = [by_id[name] for name in ids]
    return Contrasts(
        ids=ids,
        prompt_ids=tuple(prompts.get(name, name) for name in ids),
        votes=tuple(tuple(row.get("votes") or ()) for row in rows),
        preferred=tuple(row.get("preferred") for row in rows),
        margins={
            scoring: np.array([margin_in(row, scoring) for row in rows], dtype=np.float64) for scoring in audit.scorings
        },
        rule=_RULES.get(audit.votes[bias].rule) if bias in audit.votes else None,
    )
