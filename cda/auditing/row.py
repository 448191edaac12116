"""An audit as a row that can be shared: its numbers, how it was scored, and the texts it was measured on, by content."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cda.auditing.report_cells import applied, compares, targets
from cda.errors import RunError
from cda.files.jsonl import read_jsonl
from cda.files.paths import as_part, user_path
from cda.numbers.measures import MEASURES, of_place
from cda.records import content_id
from cda.resources.artifacts import shown_path, shown_target
from cda.results.audit import AuditResult
from cda.results.base import Estimate, Missing
from cda.results.facts import PanelFacts, RewardModelFacts
from cda.results.panel import BiasRow, LeaderboardRow, MeasuredTexts, ScoredAs, TrainedAs
from cda.run import RunFolder, StageRecord
from cda.scorers.kinds import scorer_kind

NO_ROW = "a row ends in .json; or name a folder, with a slash at its end"
MARGINS, TRIPLES = "margins.jsonl", "triples.jsonl"
_SIDES = {"contrast": ("perturbed", "base"), "quality": ("chosen", "rejected")}
_PATH = re.compile(
    r"(?:(?<=^)|(?<=[\s'\"(=,:@]))(?:~?[/\\](?![/\\])|[A-Za-z]:[/\\](?![/\\]))(?:[^\s,;:'\")]*[/\\])?([^\s,;:'\")/\\]+)"
)
"""A path from a root, home or drive; its last part is the group."""


@dataclass(frozen=True, slots=True)
class AuditFolder:
    """An audit with the files of its run; `rows` and `triples` are None if there is no such file."""

    audit: AuditResult
    record: StageRecord = field(default_factory=StageRecord)
    rows: tuple[dict[str, Any], ...] | None = None
    triples: tuple[dict[str, Any], ...] | None = None
    adapter: str | None = None
    """Fingerprint of the training's output."""

    @classmethod
    def read(cls, audit: AuditResult, folder: Path) -> AuditFolder:
        """The files next to an audit; DataError: one of them cannot be read."""
        run = RunFolder(folder)
        rows, triples = (_rows_of(run.stage("audit") / name) for name in (MARGINS, TRIPLES))
        return cls(audit, run.record("audit"), rows, triples, run.record("train").output)


def margin_in(row: Mapping[str, Any], scoring: str) -> float | None:
    """Margin of a row of margins.jsonl: a difference of rewards, or a judge's preference; None if there is none."""
    if f"margin_{scoring}" in row:
        margin = row[f"margin_{scoring}"]
        return None if margin is None else float(margin)
    better, worse = (row[f"{side}_{scoring}"] for side in _SIDES[row["kind"]])
    return None if better is None or worse is None else float(better) - float(worse)


def _rows_of(file: Path) -> tuple[dict[str, Any], ...] | None:
    return tuple(read_jsonl(file)) if file.is_file() else None


def export_row(audit: AuditResult, folder: Path | None) -> LeaderboardRow:
    """The row of an audit in its run's folder, whose files say which texts were measured; RunError without these."""
    if folder is None:
        raise RunError(
            "an audit that was read from a file alone cannot be exported: its run's folder says which texts were measured. "
            "Load that folder: cda.load(folder).audit"
        )
    found = AuditFolder.read(audit, folder)
    if not found.record or found.rows is None:
        raise RunError(f"{folder}: no finished audit with its {MARGINS} here; run `cda audit` again")
    return leaderboard_row(found)


def names_folder(place: str | Path) -> bool:
    """True for a place of rows that is a folder: there is one, or the name has no ending, or a slash at its end."""
    path = user_path(place)
    return path.is_dir() or str(place).endswith(("/", "\\")) or not path.suffix


def row_file(place: str | Path, row: LeaderboardRow) -> Path:
    """The file of a row: `place` itself, or in a folder one named by model and content. RunError: neither a folder nor a .json
    file."""
    path = user_path(place)
    if names_folder(place):
        return path / f"{as_part(row.label)[:80]}-{content_id(row.model_dump())[:8]}.json"
    if path.suffix != ".json":
        raise RunError(f"{place}: {NO_ROW}")
    return path


def leaderboard_row(found: AuditFolder) -> LeaderboardRow:
    """The row of an audit; of a training, of the model after it."""
    audit = found.audit
    biases = {name: _bias(found, name) for name in audit.skew}
    pairs = None
    if audit.quality is not None:
        n = audit.quality.before.n + audit.quality.unread
        pairs = MeasuredTexts(
            name=shown_path(str(audit.sources.quality)), n=n, content=_content(found, "quality", None)
        )
    name = audit.model.name
    section = found.record.settings.get("model", {})
    return LeaderboardRow(
        cda_version=audit.versions.get("cda", "unknown"),
        date=found.record.finished[:10] or None,
        model=without_paths(shown_target(name)),
        revision=audit.versions.get(f"{name}@{section.get('revision') or 'main'}") or section.get("revision"),
        content=found.record.inputs.get("model") if scorer_kind(name).trainable else None,
        scored=scored_as(audit, found.record.settings.get("calibration")),
        training=_training(audit, found.adapter),
        text_set=_version(biases, pairs, _votes(found)),
        biases=biases,
        quality=MEASURES["accuracy"].last(audit, ""),
        quality_pairs=pairs,
    )


def scored_as(audit: AuditResult, calibration: str | None = None) -> ScoredAs:
    """The way in which an audit's model was asked, without paths."""
    facts = audit.model
    if isinstance(facts, RewardModelFacts):
        return ScoredAs(
            kind="reward model",
            precision=facts.precision,
            template=facts.form,
            max_length_tokens=facts.max_length_tokens,
            truncated=facts.truncated / facts.texts if facts.texts else None,
            how=None if facts.how is None else without_paths(facts.how),
            calibration=calibration,
        )
    return ScoredAs(
        kind="judge",
        judges=tuple(facts.judges) if isinstance(facts, PanelFacts) else (),
        how="by the majority of its judges" if isinstance(facts, PanelFacts) and facts.rule == "majority" else None,
        prompt=None if facts.prompt is None else without_paths(facts.prompt),
        orders=facts.orders,
        verdicts=facts.verdicts,
        reasons=facts.verdict_reasons,
        prompt_content=facts.prompt_content,
        criteria=facts.criteria,
        calibration=calibration,
    )


def without_paths(text: str) -> str:
    """A text in which every path from a root, home or drive is its last part.

    >>> without_paths("Scored by /home/me/scorers.py:reward"), without_paths("served:http://host:8000/v1")
    ('Scored by scorers.py:reward', 'served:http://host:8000/v1')
    """
    return _PATH.sub(r"\1", text)


def _training(audit: AuditResult, adapter: str | None) -> TrainedAs | None:
    if not compares(audit):
        return None
    return TrainedAs(
        recipe=shown_path(audit.recipe), against=tuple(targets(audit)), dose=applied(audit), adapter=adapter
    )


def _bias(found: AuditFolder, name: str) -> BiasRow:
    audit, skew = found.audit, found.audit.skew[name]
    source = audit.sources.contrasts if skew.source == "file" else skew.source
    n = skew.before.n + skew.unread
    rate = audit.rate.get(name)
    triples = None
    if rate is not None and (rate.n or rate.unread):
        content = _content(found, "triple", name)
        triples = MeasuredTexts(name=without_paths(rate.flips.by), n=rate.n + rate.unread, content=content)
    measured = {
        measure.shown_as.get("row", key): _public(measure.last(audit, name))
        for key, measure in of_place("row").items()
        if measure.of_bias
    }
    contrasts = MeasuredTexts(name=without_paths(shown_path(source)), n=n, content=_content(found, "contrast", name))
    return BiasRow.model_validate({"contrasts": contrasts, "triples": triples, **measured})


def _public(found: Estimate | Missing) -> Estimate | Missing:
    return Missing(reason=without_paths(found.reason)) if isinstance(found, Missing) else found


def _content(found: AuditFolder, kind: str, bias: str | None) -> str | None:
    """Fingerprint of the texts of one kind; of triples, of the texts and whether the original has the bias."""
    rows = found.triples if kind == "triple" else found.rows
    if rows is None:
        return None
    if kind == "triple":
        names = [content_id("triple", {key: row[key] for key in row if not key.startswith("rewards_")}) for row in rows
                 if row["bias"] == bias]  # fmt: skip
    else:
        names = [row["id"] for row in rows if row["kind"] == kind and row.get("bias") == bias]
    return content_id(kind, *sorted(names))


def _votes(found: AuditFolder) -> str | None:
    """Fingerprint of people's votes, with the rules for their ties."""
    if found.rows is None:
        return None
    voted = sorted(
        [row["id"], row.get("preferred") or "", *sorted(row.get("votes") or ())]
        for row in found.rows
        if row.get("preferred") or row.get("votes")
    )
    rules = {name: votes.rule for name, votes in found.audit.votes.items()}
    return content_id("votes", *voted, sorted(rules.items())) if voted else ""


def _version(biases: Mapping[str, BiasRow], pairs: MeasuredTexts | None, votes: str | None) -> str | None:
    """Version of all texts and votes together; None if the content of any is unknown."""
    parts: list[tuple[str, MeasuredTexts | None]] = [("quality", pairs)]
    for name, row in sorted(biases.items()):
        parts += [(name, row.contrasts), (f"triples of {name}", row.triples)]
    known: Sequence[tuple[str, str | None]] = [(name, texts.content if texts else "") for name, texts in parts]
    if votes is None or any(content is None for _, content in known):
        return None
    return content_id("texts", votes, *map(list, known))
