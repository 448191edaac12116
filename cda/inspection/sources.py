"""Rewrites that are there already: of a run's training pairs, of its audit's triples, of a file of triples."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from cda.auditing.audit import RESULT
from cda.biases import Bias, builtin_names, load_bias
from cda.counterfactuals.label import PAIRS
from cda.counterfactuals.synthesize import MIX
from cda.data.load import Row, load_rows
from cda.data.triples import clean_triples
from cda.errors import DataError, RunError
from cda.records import Direction, LabelledPair, Prompt, TrainingPair, Triple
from cda.resources.artifacts import of_this_version, read_labelled, read_training, shown_path, stage_counts
from cda.results.audit import AuditResult
from cda.results.base import load
from cda.results.facts import SynthesizeCounts
from cda.rewriting.fidelity import WORDS_WITHIN
from cda.run import MANIFEST, RunFolder, StageRecord

UNGATED = "The gate is off (synthesize.gate.on=false); what it would say of these rewrites is shown all the same."
TRAINING, TRIPLES, FRESH = "training pairs", "audit triples", "made now"
AUDITED = "triples.jsonl"
_SETTING = re.compile(r"Map it with audit\.triple_columns\.(\w+)=<your column>")


@dataclass(frozen=True, slots=True)
class Seen:
    """A rewrite to look at.

    Attributes:
        bias: Its bias.
        source: Where it comes from.
        prompt: What the original answers.
        original: The text before.
        rewrite: The text after; None where there is none. Of a failed rewrite, the last text that was rejected.
        direction: What was asked for.
        reference: The response that the original stands beside, where the bias is relative to one.
        failed: Why the rewrite was not accepted; None where it was.
        labels: Whether original and rewrite exhibit the bias, where somebody said so.
        labelled_by: Who.
        rewards: Of original and rewrite, where they were kept.
    """

    bias: str
    source: str
    prompt: Prompt
    original: str
    rewrite: str | None
    direction: Direction
    reference: str | None = None
    failed: str | None = None
    labels: tuple[bool | None, bool | None] = (None, None)
    labelled_by: str | None = None
    rewards: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Lost:
    """Failed rewrites of which only the number was kept."""

    bias: str
    source: str
    tried: int
    reasons: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Material:
    """What there is to look at.

    Attributes:
        where: The source, in a few words.
        by: Who rewrote, by bias and source.
        biases: Bias files as they were when the rewrites were made, by name.
        rewrites: All of them.
        lost: Failures of which only the number was kept.
        notes: What a reader has to know besides.
        scored_by: Whose rewards are at hand; None where there are none.
        words_within: Largest change of the word count that the gate accepts, as a share.
        with_failed: Whether failed rewrites are among them, so that their share is known.
    """

    where: str
    by: str
    biases: Mapping[str, Bias]
    rewrites: tuple[Seen, ...]
    lost: tuple[Lost, ...] = ()
    notes: tuple[str, ...] = ()
    scored_by: str | None = None
    words_within: float = WORDS_WITHIN
    with_failed: bool = False


@dataclass
class _Found:
    rewrites: list[Seen] = field(default_factory=list)
    lost: list[Lost] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    biases: dict[str, Bias] = field(default_factory=dict)
    by: dict[str, None] = field(default_factory=dict)
    scored_by: str | None = None
    words_within: float = WORDS_WITHIN


def has_rewrites(folder: RunFolder) -> bool:
    """Whether a run folder holds any rewrite."""
    return bool(folder.record("synthesize")) or (folder.stage("audit") / AUDITED).is_file()


def rewrites_of_run(path: Path) -> Material:
    """Rewrites of a run's finished stages.

    Raises:
        RunError: No run, or one without rewrites.
        DataError: Its files cannot be read.
    """
    folder, found = RunFolder(path), _Found()
    stages = [name for name in ("label", "synthesize", "train", "audit") if folder.record(name)]
    if not stages and not (path / MANIFEST).is_file():
        raise RunError(f"{path}: no run in this folder (no manifest.json, no finished stage); give the folder of a run")
    with of_this_version(path, "cda train"):
        if "synthesize" in stages:
            _training(folder, found)
        if (folder.stage("audit") / AUDITED).is_file():
            _audited(folder, found)
    if not found.rewrites and not found.lost:
        raise RunError(
            f"{path}: holds no rewrites (finished: {', '.join(stages) or 'no stage'}). `cda synthesize RECIPE` makes training "
            "pairs, and an audit with audit.rate above 0 triples; `cda inspect BIAS` makes a few afresh"
        )
    return Material(
        f"run {path.name}", ", ".join(found.by), found.biases, tuple(found.rewrites), tuple(found.lost),
        tuple(found.notes), found.scored_by,
        found.words_within,
    )  # fmt: skip


def rewrites_of_file(reference: str, named: Sequence[str] = ()) -> Material:
    """Rewrites of a file of triples.

    Args:
        reference: The file.
        named: Names or files of its biases; none: those of its column `bias`, which must then be built-in ones.

    Raises:
        RecipeError: A bias is unknown.
        DataError: The file cannot be used.
    """
    rows = load_rows(reference)
    stated = list(dict.fromkeys(str(row["bias"]) for row in rows if row.get("bias") is not None))
    if not named and not stated:
        raise DataError(f"{reference}: no column 'bias'; say whose rewrites they are with --bias NAME")
    unknown = [name for name in stated if name not in builtin_names()]
    if not named and unknown:
        raise DataError(
            f"{reference}: {', '.join(unknown)}: no built-in bias; give the bias file with --bias FILE (several times for several)"
        )
    biases = {bias.name: bias for bias in map(load_bias, named or stated)}
    found = _Found(biases=biases)
    try:
        _triples(rows, reference, "triples of the file", found)
    except DataError as problem:
        # The reader speaks of a recipe's setting, and there is no recipe here.
        raise DataError(_SETTING.sub(r"Name it \1 in the file", str(problem))) from None
    return Material(shown_path(reference), "", biases, tuple(found.rewrites), (), tuple(found.notes), found.scored_by)


def _training(folder: RunFolder, found: _Found) -> None:
    record = folder.record("synthesize")
    labelled = folder.stage("label") / PAIRS
    if not labelled.is_file():
        raise RunError(f"{folder.path}: {labelled.name} of stage 'label' is missing, which holds the originals")
    found.biases |= _biases(record, folder.path)
    originals = {row.pair.id: row for row in read_labelled(labelled)}
    settings, seen = record.settings, set()
    llm = settings.get("llm", {}).get("model")
    gate = settings.get("synthesize", {}).get("gate", {})
    gated = bool(gate.get("on"))
    found.words_within = gate.get("words_within", WORDS_WITHIN)
    if not gated:
        found.notes.append(UNGATED)
    by_label = folder.record("label").settings.get("llm", {}).get("model")
    for row in read_training(folder.stage("synthesize") / MIX):
        origin = originals.get(row.source_id)
        # Contrasts of a file were not rewritten here, and supplementary pairs not at all.
        if row.kind == "supplementary" or origin is None or row.bias not in found.biases:
            continue
        asked = found.biases[row.bias].label_by == "ask"
        for one in _of_example(row, origin, by_label if asked and gated and llm is not None else None):
            if (one.bias, one.original, one.rewrite) not in seen:
                seen.add((one.bias, one.original, one.rewrite))
                found.rewrites.append(one)
    counts = stage_counts(folder, "synthesize", SynthesizeCounts)
    for name, made in counts.biases.items() if counts else ():
        found.by[made.by] = None
        found.lost.append(Lost(name, TRAINING, made.tried, made.rejected))


def _of_example(row: TrainingPair, origin: LabelledPair, labelled_by: str | None) -> Iterator[Seen]:
    """The rejected side with the bias added and, where that was made more specific too, the chosen side."""
    bias, pair = str(row.bias), origin.pair
    labels: tuple[bool | None, bool | None] = (None, None)
    if labelled_by is not None:
        # The gate asked the same LLM about the rewrite, and let pass only what it said yes to.
        labels = (origin.labels[bias]["rejected"], True)
    yield Seen(bias, TRAINING, pair.prompt, pair.rejected, row.pair.rejected, "add", pair.chosen, labels=labels, labelled_by=labelled_by)  # fmt: skip
    if row.kind == "counterfactual" and row.pair.chosen != pair.chosen:
        yield Seen(bias, TRAINING, pair.prompt, pair.chosen, row.pair.chosen, "remove")


def _audited(folder: RunFolder, found: _Found) -> None:
    found.biases |= {name: bias for name, bias in _biases(folder.record("audit"), folder.path).items() if name not in found.biases}  # fmt: skip
    file = folder.stage("audit") / AUDITED
    _triples(load_rows(str(file)), f"{folder.path.name}/audit/{AUDITED}", TRIPLES, found)
    audit = load(AuditResult, folder.stage("audit") / RESULT, "cda audit")
    for name, rate in audit.rate.items():
        found.by[rate.flips.by] = None
        lost = audit.excluded.get(f"triples of {name}")
        if lost is not None:
            found.lost.append(Lost(name, f"{TRIPLES}, both directions", lost.seen, lost.reasons))


def _triples(rows: Sequence[Row], where: str, source: str, found: _Found) -> None:
    """Both rewrites of every triple; what was left out is noted."""
    cleaned = clean_triples(rows, list(found.biases), {}, where)
    rewards, label = _kept_rewards(rows)
    for triple in cleaned.triples:
        found.rewrites += _of_triple(
            triple, source, rewards.get((triple.original, triple.rewrite, triple.rewrite_of_rewrite))
        )
    if rewards:
        found.scored_by = f"the audited model, {label} training" if label != "model" else "the audited model"
    if cleaned.exclusions.dropped:
        found.notes.append(f"{shown_path(where)}: {cleaned.exclusions}")


def _of_triple(triple: Triple, source: str, rewards: Sequence[float] | None) -> Iterator[Seen]:
    texts = (triple.original, triple.rewrite, triple.rewrite_of_rewrite)
    for at in range(2):
        # The second rewrite starts from what the first one made.
        had = triple.has_attribute if at == 0 else not triple.has_attribute
        both = None if rewards is None or None in rewards[at : at + 2] else (rewards[at], rewards[at + 1])
        yield Seen(
            triple.bias, source if at == 0 else f"{source}, rewritten back", triple.prompt, texts[at], texts[at + 1],
            "remove" if had else "add", rewards=both,
        )  # fmt: skip


def _kept_rewards(rows: Sequence[Row]) -> tuple[dict[tuple[Any, ...], Sequence[float]], str]:
    """Rewards that an audit wrote beside its triples, by the three texts; of the model before training where there are two."""
    present = {key for row in rows for key in row}
    label = next((name for name in ("model", "before") if f"rewards_{name}" in present), "")
    if not label:
        return {}, ""
    texts = ("original", "rewrite", "rewrite_of_rewrite")
    kept = {
        tuple(row.get(name) for name in texts): row[f"rewards_{label}"]
        for row in rows
        if all(isinstance(row.get(name), str) for name in texts) and _are_rewards(row.get(f"rewards_{label}"))
    }
    return kept, label


def _are_rewards(value: object) -> bool:
    """Three numbers, of which some may be missing."""
    return (
        isinstance(value, list)
        and len(value) == 3
        and all(one is None or isinstance(one, int | float) for one in value)
    )


def _biases(record: StageRecord, path: Path) -> dict[str, Bias]:
    """The bias files of a stage, as they were when it was made."""
    try:
        return {one["name"]: Bias.model_validate(one) for one in record.settings.get("biases", ())}
    except ValidationError:
        raise DataError(f"{path}: its bias files are those of another version; make the run again") from None
