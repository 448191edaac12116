"""Finished audits compared: the row of each, how they differ in their making, and each paired with the first, row by row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from cda.auditing.audit import AUDIT_FILE
from cda.auditing.comparison import short_names
from cda.auditing.report_scoring import prompt_identity
from cda.auditing.row import MARGINS, AuditFolder, leaderboard_row, margin_in
from cda.errors import DataError, RunError
from cda.files.paths import user_path
from cda.resources.artifacts import of_this_version, shown_path
from cda.results.audit import AuditResult
from cda.results.base import Estimate, Missing, load
from cda.results.panel import (
    ComparisonResult,
    LeaderboardRow,
    MeasuredTexts,
    PairedAudits,
    PairedMargins,
    ScoredAs,
    SetupDifference,
)
from cda.stats.multiplicity import benjamini_hochberg, holm
from cda.stats.paired import compare_margins
from cda.stats.proportions import ModelTies

_LONGEST_NAME = 60
NO_VALUE = "none"
"""The value of an audit to which a part of the setup does not apply."""
HOW, JUDGES = "how it was asked", "judges"
"""Parts of the setup that name the model itself."""
_NOT_MEASURED = Missing(reason="not measured by both")
Margins = dict[str, float]
"""Name of a row's texts to its margin."""


def compare_audits(folders: Mapping[str, AuditFolder]) -> ComparisonResult:
    """The comparison of two audits or more, by name; the first is held against each of the others."""
    rows = {name: leaderboard_row(found) for name, found in folders.items()}
    first, *others = folders
    pairs = adjusted([_paired(first, other, folders, rows) for other in others])
    return ComparisonResult(
        audits=rows,
        differences=tuple(differences({name: _setup(row) for name, row in rows.items()})),
        pairs=tuple(pairs),
        n_tests=sum(1 for _ in _tested(pairs)),
        whole={name: found.audit for name, found in folders.items()},
    )


def read_audits(folders: Sequence[str | Path]) -> dict[str, AuditFolder]:
    """Finished audits by a short name of their run's folder, each folder once. RunError lists all: fewer than two, a folder
    without a finished audit, or one of another version or that cannot be read."""
    once: dict[Path, str] = {}
    for folder in folders:
        once.setdefault((user_path(folder) / "audit" / AUDIT_FILE).resolve(), str(folder))
    problems = [
        f"{folder}: no finished audit here ({Path('audit') / AUDIT_FILE}); give the folders of finished runs"
        for file, folder in once.items()
        if not file.is_file()
    ]
    if problems:
        raise RunError("\n".join(problems))
    if len(once) < 2:
        twice = " (given twice)" if len(folders) > 1 else ""
        raise RunError(
            f"--compare: two finished runs or more are compared, and {folders[0]} is one{twice}; its own report: "
            f"cda report {folders[0]}"
        )
    found: dict[str, AuditFolder] = {}
    for (file, folder), name in zip(once.items(), short_names(list(once.values()), _LONGEST_NAME), strict=True):
        try:
            audit = load(AuditResult, file, "cda audit")
            with of_this_version(file):
                found[name] = AuditFolder.read(audit, user_path(folder))
        except DataError as error:
            problems.append(str(error))
    if problems:
        raise RunError("\n".join(problems))
    return found


def _paired(
    first: str, other: str, folders: Mapping[str, AuditFolder], rows: Mapping[str, LeaderboardRow]
) -> PairedAudits:
    one, two = folders[first], folders[other]
    lacking = [name for name in (first, other) if folders[name].rows is None]
    # An audit of an earlier version names no prompts; the other one of the same texts may.
    prompts = {row["id"]: row["prompt_id"] for found in (one, two) for row in found.rows or () if "prompt_id" in row}
    shared = [bias for bias in rows[first].biases if bias in rows[other].biases]
    ties: tuple[ModelTies, ModelTies] = tuple(  # type: ignore[assignment]  # of two names
        "half" if found.audit.model.halves_ties else "no-hit" for found in (one, two)
    )

    def side_by_side(kind: str, bias: str | None) -> PairedMargins | Missing:
        if lacking:
            return Missing(reason=f"{', '.join(lacking)}: no {MARGINS} next to the audit")
        return paired_margins(_margins(one, kind, bias), _margins(two, kind, bias), prompts, ties)

    both = all(rows[name].quality_pairs for name in (first, other))
    return PairedAudits(
        first=first,
        other=other,
        contrasts={bias: side_by_side("contrast", bias) for bias in shared},
        quality=side_by_side("quality", None) if both else _NOT_MEASURED,
    )


def paired_margins(
    first: Margins, other: Margins, prompts: Mapping[str, str], ties: tuple[ModelTies, ModelTies]
) -> PairedMargins | Missing:
    """Two sets of margins on the texts that both have, in clusters by `prompts`; Missing if there are none, or a prompt is
    unknown."""
    shared = sorted(first.keys() & other.keys())
    if not shared:
        return Missing(reason=f"no text of the {len(first)} of the first is among the {len(other)} of the other")
    if unknown := sum(name not in prompts for name in shared):
        return Missing(
            reason=f"neither {MARGINS} names the prompts of {unknown} of {len(shared)} texts; run `cda audit` again"
        )
    return compare_margins(
        np.array([first[name] for name in shared]),
        np.array([other[name] for name in shared]),
        [prompts[name] for name in shared],
        ties,
        (len(first) - len(shared), len(other) - len(shared)),
    )


def _margins(found: AuditFolder, kind: str, bias: str | None) -> Margins:
    """Margins under the audit's last scoring, of the rows that have one."""
    scoring = found.audit.scorings[-1]
    own = [row for row in found.rows or () if row["kind"] == kind and row.get("bias") == bias]
    margins = {row["id"]: margin_in(row, scoring) for row in own}
    return {name: margin for name, margin in margins.items() if margin is not None}


def _tested(pairs: Sequence[PairedAudits]) -> Iterator[PairedMargins]:
    for pair in pairs:
        yield from (found for found in (*pair.contrasts.values(), pair.quality) if isinstance(found, PairedMargins))


def adjusted(pairs: Sequence[PairedAudits]) -> list[PairedAudits]:
    """The pairs with p-values adjusted over all of their tests."""
    p_values = [found.test.p_value for found in _tested(pairs)]
    found_p = iter(zip(holm(p_values), benjamini_hochberg(p_values), strict=True) if p_values else ())

    def with_p(found: PairedMargins | Missing) -> PairedMargins | Missing:
        if isinstance(found, Missing):
            return found
        p_holm, p_bh = next(found_p)
        return found.model_copy(update={"test": found.test.model_copy(update={"p_holm": p_holm, "p_bh": p_bh})})

    return [
        pair.model_copy(
            update={
                "contrasts": {bias: with_p(found) for bias, found in pair.contrasts.items()},
                "quality": with_p(pair.quality),
            }
        )
        for pair in pairs
    ]


def differences(setups: Mapping[str, Mapping[str, str]]) -> list[SetupDifference]:
    """Everything in which audits were not made alike, from the setup of each by name."""
    found = []
    for what in dict.fromkeys(key for setup in setups.values() for key in setup):
        values = {name: setup.get(what, NO_VALUE) for name, setup in setups.items()}
        if len(set(values.values())) > 1:
            found.append(SetupDifference(what=what, values=values))
    return found


def _setup(row: LeaderboardRow) -> dict[str, str]:
    """Model, scoring, training, and the texts of each measure, in words."""
    training = row.training
    facts: dict[str, object] = {
        "model": row.model, "revision": row.revision, "weights or precision": row.content, **scored_setup(row.scored),
        "training": training and f"{training.recipe} against {', '.join(training.against)}, dose {training.dose:g}",
        "adapter": training and training.adapter, "cda": row.cda_version,
    }  # fmt: skip
    for name, bias in row.biases.items():
        facts[f"contrasts of {name}"] = texts_words(bias.contrasts)
        facts[f"triples of {name}"] = bias.triples and texts_words(bias.triples)
        facts[f"people's votes on {name}"] = _voted(bias.people)
    facts["quality pairs"] = row.quality_pairs and texts_words(row.quality_pairs)
    return _said(facts)


def scored_setup(scored: ScoredAs) -> dict[str, str]:
    """The way in which a model or judge was asked, in words."""
    return _said({
        "kind": scored.kind, "precision": scored.precision, "template": scored.template,
        "max length (tokens)": scored.max_length_tokens, HOW: scored.how, JUDGES: ", ".join(scored.judges) or None,
        "judge's prompt": prompt_identity(scored),
        "criteria": ", ".join(scored.criteria) or None, "calibration": scored.calibration, "orders": scored.orders,
        "verdicts": scored.verdicts, "reasons": scored.reasons,
    })  # fmt: skip


def _said(facts: Mapping[str, object]) -> dict[str, str]:
    """Facts as text; those without a value are left out."""
    return {what: str(value) for what, value in facts.items() if value is not None}


def _voted(people: Estimate | Missing) -> str | None:
    return None if isinstance(people, Missing) else f"{people.n} majorities"


def texts_words(texts: MeasuredTexts) -> str:
    """Source, number and content of texts."""
    return f"{shown_path(texts.name)}, {texts.n} ({texts.content[:8] if texts.content else 'content unknown'})"
