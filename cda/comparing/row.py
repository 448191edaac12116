"""An audit as a row that can be shared: its numbers, how it was scored, and the texts it was measured on, by content; read again,
and checked, from anybody's file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cda.auditing.first_screen import bias_verdicts
from cda.auditing.next_step import TOO_FEW, contrasts_needed
from cda.auditing.report_cells import applied, compares, targets
from cda.auditing.report_scoring import prompt_identity
from cda.auditing.verdict_sentences import by_rate, is_held_out, n_ties
from cda.errors import DataError, RunError
from cda.files.jsonl import read_jsonl
from cda.files.paths import as_part, place_for, user_path, writing
from cda.numbers.measures import MEASURES, unknown
from cda.numbers.views import numbers_in
from cda.records import content_id
from cda.resources.artifacts import shown_path, shown_target
from cda.results.audit import AuditResult
from cda.results.base import Estimate, Missing, Number, Test, load, save
from cda.results.comparison import AuditRow, MeasuredTexts, TrainedAs
from cda.results.facts import PanelFacts, RewardModelFacts
from cda.run import RunFolder
from cda.scorers.kinds import scorer_kind
from cda.stats.verdict import mostly_tied

MARGINS, TRIPLES, SAMPLES = "margins.jsonl", "triples.jsonl", "samples.jsonl"
QUALITY = "quality pairs"
_PATH = re.compile(
    r"(?:(?<=^)|(?<=[\s'\"(=,:@]))(?:~?[/\\](?![/\\])|[A-Za-z]:[/\\](?![/\\]))(?:[^\s,;:'\")]*[/\\])?([^\s,;:'\")/\\]+)"
)
"""A path from a root, home or drive; its last part is the group."""
Rows = Sequence[Mapping[str, Any]]


def export_row(audit: AuditResult, folder: Path | None) -> AuditRow:
    """The row of an audit in its run's folder, whose files say which texts were measured; RunError without these."""
    if folder is None:
        raise RunError(
            "an audit that was read from a file alone cannot be exported: its run's folder says which texts were measured. "
            "Load that folder: cda.load(folder).audit"
        )
    if not RunFolder(folder).record("audit") or margins_beside(folder) is None:
        raise RunError(f"{folder}: no finished audit with its {MARGINS} here; run `cda audit` again")
    return audit_row(audit, folder)


def write_audit(audit: AuditResult, place: str | Path) -> Path:
    """Write the row of an audit, whose run's folder says which texts were measured; errors as of `export_row`."""
    return write_row(export_row(audit, audit.folder), place)


def write_row(row: AuditRow, place: str | Path) -> Path:
    """Write a row to a file, or into a folder under a name of its own; return the file."""
    file = place_for(row_file(place, row_name(row)))
    with writing(file):
        save(row, file)
    return file


def row_file(place: str | Path, name: str, several: bool = False) -> Path:
    """The file of a row: `place` itself, or one of this name in a folder: there is one, or `place` has no ending, or a slash at its end.
    RunError: neither a folder nor, for one row, a .json file."""
    path = user_path(place)
    if path.is_dir() or str(place).endswith(("/", "\\")) or not path.suffix:
        return path / name
    if several:
        raise RunError(f"{place}: several audits have a row each; name a folder, with a slash at its end")
    if path.suffix != ".json":
        raise RunError(f"{place}: a row ends in .json; or name a folder, with a slash at its end")
    return path


def row_name(row: AuditRow) -> str:
    """The name of a row's file in a folder, by model and content."""
    return f"{as_part(row.label)[:80]}-{content_id(row.model_dump())[:8]}.json"


def read_row(file: Path) -> AuditRow:
    """A row from a file; DataError: it is none, or holds a measure that is unknown, or a number that no audit has."""
    row = load(AuditRow, file, "cda audit --export")
    for number in row.numbers:
        of = " of ".join([number.measure, *number.at.values()])
        if number.measure not in MEASURES:
            raise DataError(f"{file}: {unknown(number.measure, MEASURES, 'measure')}")
        if isinstance(found := number.found, Estimate):
            low, high = MEASURES[number.measure].bounds(number.moment)
            if not (found.low <= found.value <= found.high and 0 < found.n_prompts <= found.n):
                said = f"{found.value:g} [{found.low:g}, {found.high:g}], n = {found.n} of {found.n_prompts} prompts"
                raise DataError(f"{file}: {of}: {said}, is no estimate")
            if not low <= found.low <= found.high <= high:
                raise DataError(f"{file}: {of}: {found.low:g} to {found.high:g} is outside of {low:g} to {high:g}")
    return row


def margins_beside(folder: Path | None, name: str = MARGINS) -> list[dict[str, Any]] | None:
    """Rows of a file next to an audit; None if there is none. DataError: it cannot be read."""
    file = None if folder is None else RunFolder(folder).stage("audit") / name
    return list(read_jsonl(file)) if file is not None and file.is_file() else None


def audit_row(audit: AuditResult, folder: Path | None) -> AuditRow:
    """The row of an audit; without its run's folder the content of the texts is unknown."""
    rows, triples, samples = (margins_beside(folder, name) for name in (MARGINS, TRIPLES, SAMPLES))
    run = None if folder is None else RunFolder(folder)
    record = run.record("audit") if run else None
    settings = record.settings if record else {}
    name, section = audit.model.name, settings.get("model", {})
    return AuditRow(
        cda_version=audit.versions.get("cda", "unknown"),
        date=(record.finished[:10] or None) if record else None,
        model=without_paths(shown_target(name)),
        unnamed=audit.model.unnamed,
        revision=audit.versions.get(f"{name}@{section.get('revision') or 'main'}") or section.get("revision"),
        content=record.inputs.get("model") if record and scorer_kind(section.get("name_or_path", name)).trainable else None,
        kind="reward model" if isinstance(audit.model, RewardModelFacts) else "judge",
        scored=scored_as(audit, settings.get("calibration")),
        training=_training(audit, run.record("train").output if run else None),
        texts=_texts(audit, rows, triples, samples),
        numbers=(
            *(each.model_copy(update={"found": _public(each.found), "test": _plain(each.test)}) for each in numbers_in(audit)),
            *_sections(audit),
        ),
        verdicts={each.bias: each.word for each in bias_verdicts(audit)},
        needed={each.bias: contrasts_needed(each.bias, audit) for each in bias_verdicts(audit) if each.word in TOO_FEW},
        short_names={bias.name: bias.short_name for bias in audit.biases if bias.short_name},
        quality_ties=_quality_ties(audit),
        tied=tuple(_tied(audit)),
    )  # fmt: skip


def _quality_ties(audit: AuditResult) -> dict[str, int]:
    moments = {"before": "before", "after": "after"} if compares(audit) else {"model": "before"}
    return {shown: ties for shown, own in moments.items() if audit.quality and (ties := n_ties(audit.quality, own))}


def _tied(audit: AuditResult) -> Iterator[str]:
    """Biases that under a scoring at least have no skew to compare, by the rules of the verdicts."""
    for name, skew in audit.skew.items():
        if isinstance(ties := skew.ties, Missing):
            continue
        by_ties = name not in audit.votes and not by_rate(name, audit)
        for n, share in ((ties.before, skew.before), (ties.after, skew.after)):
            if (
                isinstance(n, int)
                and isinstance(share, Estimate)
                and (n == share.n or (by_ties and mostly_tied(n, share)))
            ):
                yield name
                break


def _plain(test: Test | None) -> Test | None:
    """The test alone, without the parts that a kind of test adds."""
    return test and Test(**{name: getattr(test, name) for name in Test.model_fields})


def _sections(audit: AuditResult) -> list[Number]:
    """Quality accuracy by section, such as RewardBench's."""
    return [
        Number.of("accuracy", moment, {"section": level.name}, found)
        for level in (audit.quality_sections.shown if audit.quality_sections else ())
        for moment, found in level.found["accuracy"].items()
    ]


def scored_as(audit: AuditResult, calibration: str | None = None) -> dict[str, str]:
    """How an audit's model was asked, in words, without paths."""
    facts = audit.model
    if isinstance(facts, RewardModelFacts):
        cut = f"{100 * facts.truncated / facts.texts:.0f}% of texts" if facts.truncated and facts.texts else None
        said: dict[str, object] = {
            "how": facts.how, "precision": facts.precision, "template": facts.form, "max length (tokens)": facts.max_length_tokens,
            "cut": cut,
        }  # fmt: skip
    else:
        panel = facts if isinstance(facts, PanelFacts) else None
        said = {
            "judges": panel and ", ".join(panel.judges), "how": panel and f"by the {panel.rule} of its judges", "judge's prompt": prompt_identity(facts),
            "criteria": ", ".join(facts.criteria) or None, "orders": facts.orders, "repeats": facts.repeats if facts.repeats > 1 else None, "verdicts": facts.verdicts,
            "reasons": facts.verdict_reasons,
        }  # fmt: skip
    said["calibration"] = calibration
    return {what: without_paths(str(value)) for what, value in said.items() if value is not None}


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
        recipe=shown_path(audit.recipe),
        against=tuple(targets(audit)),
        dose=applied(audit),
        adapter=adapter,
        chosen_on=(*chosen.biases, *([QUALITY] if is_held_out(audit) else [])) if (chosen := audit.in_sample) else (),
    )


def _public(found: Estimate | Missing) -> Estimate | Missing:
    return Missing(reason=without_paths(found.reason)) if isinstance(found, Missing) else found


def _texts(
    audit: AuditResult, rows: Rows | None, triples: Rows | None, samples: Rows | None
) -> dict[str, MeasuredTexts]:
    """Contrasts, votes and triples of every bias, quality pairs, and samples, each by source, number and content."""
    texts: dict[str, MeasuredTexts] = {}

    def add(name: str, source: str | None, n: int, content: str | None) -> None:
        texts[name] = MeasuredTexts(name=without_paths(shown_path(str(source))), n=n, content=content)

    for name, skew in audit.skew.items():
        source = audit.sources.contrasts if skew.source == "file" else skew.source
        add(f"contrasts of {name}", source, audit.n_measured(name) + skew.unread, _content(rows, "contrast", name))
        if (votes := audit.votes.get(name)) is not None:
            add(f"votes on {name}", audit.sources.votes or source, votes.human_skew.n, _votes(rows, name, votes.rule))
        rate = audit.rate.get(name)
        if rate is not None and (rate.n or rate.unread):
            add(f"triples of {name}", rate.flips.by, rate.n + rate.unread, _triples(triples, name))
    if audit.quality is not None:
        n = audit.n_measured() + audit.quality_unread
        add(QUALITY, audit.sources.quality, n, _content(rows, "quality", None))
    if samples:
        content = content_id("samples", *sorted(row["response_id"] for row in samples))
        add("samples", audit.sources.samples, len(samples), content)
    return texts


def _content(rows: Rows | None, kind: str, bias: str | None) -> str | None:
    if rows is None:
        return None
    return content_id(kind, *sorted(row["id"] for row in rows if row["kind"] == kind and row.get("bias") == bias))


def _votes(rows: Rows | None, bias: str, rule: str) -> str | None:
    """Fingerprint of people's votes on the contrasts of a bias, with the rule for their ties."""
    if rows is None:
        return None
    own = [row for row in rows if row.get("bias") == bias and (row.get("preferred") or row.get("votes"))]
    voted = sorted([row["id"], row.get("preferred") or "", *sorted(row.get("votes") or ())] for row in own)
    return content_id("votes", *voted, rule)


def _triples(rows: Rows | None, bias: str) -> str | None:
    """Fingerprint of the texts of triples, and whether the original has the bias."""
    if rows is None:
        return None
    own = [{key: row[key] for key in row if not key.startswith("rewards_")} for row in rows if row["bias"] == bias]
    return content_id("triple", *sorted(content_id("triple", row) for row in own))
