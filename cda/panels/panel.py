"""The panel over several audits: each model next to people, means over those that are alike, ranks, and trainings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np

from cda.arrays import BoolArray, FloatArray
from cda.auditing.audit import AUDIT_FILE
from cda.auditing.comparison_result import HOW, JUDGES, NO_VALUE, scored_setup
from cda.auditing.comparison_result import differences as setup_differences
from cda.auditing.groups import People, people_in
from cda.auditing.report_cells import compares, targets
from cda.auditing.row import AuditFolder, margin_in, scored_as
from cda.auditing.verdict_sentences import ties_sentence
from cda.errors import RunError
from cda.files.paths import is_a_file
from cda.jobs.perform import Done
from cda.numbers.measures import MEASURES, of_place
from cda.numbers.views import IN_PANEL
from cda.panels import panel_report as report
from cda.provenance import versions
from cda.records import Preference, TieRule, content_id
from cda.report.numbers import clipped, listed
from cda.report.scoring import scored_line
from cda.resources.artifacts import Form, out_folder, publish, shown_path, shown_target
from cda.results.audit import AuditResult
from cda.results.base import BeforeAfter, Measure, Missing, PerScoring, load
from cda.results.facts import RewardModelFacts, Scorer
from cda.results.panel import (
    ModelBias,
    ModelRanks,
    NextToPeople,
    Over,
    Panel,
    PanelBias,
    PanelKind,
    PanelMean,
    PanelModel,
    PanelResult,
    PanelTraining,
    ScoredAs,
    TrainedBias,
    TrainingMean,
)
from cda.run import RunFolder
from cda.stats.panel import FEW_MODELS, mean_change, mean_share, ranks
from cda.stats.people import human_skew
from cda.stats.proportions import ModelTies, hits_of
from cda.stats.votes import Majority

_LONGEST = 60
"""Characters of a setting in a sentence."""


def differences(members: Sequence[Member]) -> Iterator[str]:
    """Sentences on what differs, with the models; nothing for what is alike."""
    for kind in ("reward models", "judges"):
        models = [member for member in members if member.kind == kind and not member.is_training]
        yield from _texts(models)
        yield from _settings(models)
    trainings = [member for member in members if member.is_training]
    yield from _training_texts(trainings)
    yield from _settings(trainings)
    yield from _without_prompts(members)


def _texts(models: Sequence[Member]) -> Iterator[str]:
    """Biases that some models lack, or were asked about on other contrasts or with other votes."""
    biases = dict.fromkeys(name for member in models for name in member.contrasts)
    by_lacking: dict[tuple[str, ...], list[str]] = {}
    by_sets: dict[str, list[str]] = {}
    for bias in biases:
        if lacking := tuple(member.name for member in models if bias not in member.contrasts):
            by_lacking.setdefault(lacking, []).append(bias)
        if len(sets := _by(models, partial(_text_set, bias))) > 1:
            by_sets.setdefault("; ".join(map(listed, sets.values())), []).append(bias)
        without = [member.name for member in models if bias in member.contrasts and not member.contrasts[bias].people]
        with_people = [member.name for member in models if bias in member.contrasts and member.contrasts[bias].people]
        if without and with_people:
            yield f"{bias}: people's votes are in the audit of {listed(with_people)}, not in that of {listed(without)}."
    for names, lacked in by_lacking.items():
        yield f"{listed(lacked)}: not measured for {listed(names)}."
    for groups, differing in by_sets.items():
        yield (
            f"{listed(differing)}: measured on different contrasts, or with different votes ({groups}); each set has a mean and "
            "ranks of its own, and is never averaged with another."
        )


def _text_set(bias: str, member: Member) -> str | None:
    return member.contrasts[bias].text_set if bias in member.contrasts else None


def _settings(models: Sequence[Member]) -> Iterator[str]:
    """Settings of the scoring, and quality pairs; means are over all of them, next to this sentence."""
    for found in setup_differences({member.name: scored_setup(member.scored) for member in models}):
        values = {name: value for name, value in found.values.items() if value != NO_VALUE}
        groups = _by(models, lambda member, values=values: values.get(member.name))  # type: ignore[misc]
        if len(groups) > 1 and found.what not in (HOW, JUDGES):
            yield f"Not alike in {found.what} ({_each(groups)}); the means are over all of them."
    if len(groups := _by(models, lambda member: member.audit.sources.quality)) > 1:
        yield f"Quality was measured on different pairs ({_each(groups)}), so that its accuracies do not compare."


def _each(groups: dict[str, list[str]]) -> str:
    return "; ".join(f"{clipped(value, _LONGEST)}: {listed(names)}" for value, names in groups.items())


def _training_texts(trainings: Sequence[Member]) -> Iterator[str]:
    biases = dict.fromkeys(name for member in trainings for name in member.contrasts)
    differing = [bias for bias in biases if len(_by(trainings, partial(_text_set, bias))) > 1]
    if differing:
        yield f"{listed(differing)}: the trainings were measured on different contrasts, or with different votes."


def _without_prompts(members: Sequence[Member]) -> Iterator[str]:
    if names := [member.name for member in members if member.n_without_prompt]:
        yield (
            f"The audit of {listed(names)} was written by an earlier version of cda, which left out the prompts of its contrasts: "
            "each contrast counts as a prompt of its own. Audit again in a new folder for intervals by prompt."
        )


def _by(members: Sequence[Member], value: Callable[[Member], str | None]) -> dict[str, list[str]]:
    """Names of the members by a value; those without one are left out."""
    groups: dict[str, list[str]] = {}
    for member in members:
        if (found := value(member)) is not None:
            groups.setdefault(found, []).append(member.name)
    return groups


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


RESULT, PAGE, TABLES, CSV = "panel.json", "report.html", "panel.md", "panel.csv"


def run_panel(
    runs: Sequence[Path],
    out: str | Path,
    seed: int,
    failed: Mapping[str, str] | None = None,
    repeated: Sequence[str] = (),
    figures: str | None = None,
) -> Done[PanelResult]:
    """The panel over the finished audits in these run folders, written into `out`.

    Raises:
        RunError: An audit is damaged, or the folder cannot be used.
        DataError: An audit is of another version of cda.
    """
    result = panel_of(read_members(runs), seed, failed or {}, repeated)
    folder = out_folder(out, RESULT, "cda audit")
    document = report.panel_document(result)
    forms: dict[str, Form] = {
        PAGE: document.page,
        TABLES: document.markdown,
        CSV: partial(report.panel_csv, result),
        RESULT: result,
    }
    return Done(result, folder, publish(document, folder, forms, figures))


def panel_of(
    members: Sequence[Member], seed: int, failed: Mapping[str, str] | None = None, repeated: Sequence[str] = ()
) -> PanelResult:
    """Each model and training, the means over those that are alike, and sentences on what differs."""
    models = [member for member in members if not member.is_training]
    trainings = [member for member in members if member.is_training]
    kinds = dict.fromkeys(member.kind for member in sorted(models, key=lambda member: member.kind, reverse=True))
    return PanelResult(
        models={member.name: _model(member) for member in models},
        panels=tuple(_panel([member for member in models if member.kind == kind]) for kind in kinds),
        trainings={member.name: _training(member) for member in trainings},
        training_means=_training_means(trainings),
        differences=tuple(differences(members)),
        failed=dict(failed or {}),
        repeated=tuple(repeated),
        seed=seed,
        versions=versions(),
    )


def _model(member: Member) -> PanelModel:
    audit = member.audit
    facts = audit.model
    return PanelModel(
        model=facts.name,
        run=shown_path(member.run),
        kind=member.kind,
        how=scored_line(facts),
        precision=facts.precision if isinstance(facts, RewardModelFacts) else None,
        template=_template(facts),
        biases={name: _model_bias(member, name) for name in audit.skew if name in member.contrasts},
        quality=None if audit.quality is None else audit.quality.before,
        quality_pairs=audit.sources.quality,
        notes=(ties,) if (ties := ties_sentence(audit)) else (),
    )


def _template(facts: Scorer) -> str | None:
    if isinstance(facts, RewardModelFacts):
        return facts.form
    return None if facts.prompt is None else f"prompt {facts.prompt}, orders: {facts.orders}"


def _model_bias(member: Member, bias: str) -> ModelBias:
    audit = member.audit
    analysis = audit.analysis.get(bias)
    return ModelBias(
        **_further(audit, bias),
        text_set=member.contrasts[bias].text_set,
        skew=audit.skew[bias].before,
        unread=audit.skew[bias].unread,
        people=_people(audit, bias) if bias in audit.votes else None,
        correlation=analysis.correlation if analysis else None,
    )


def _further(audit: AuditResult, bias: str) -> dict[str, Any]:
    """Numbers of the measures that have no field in a panel's result."""
    measures = {key: measure for key, measure in of_place("panel").items() if measure.of_bias}
    return {
        key: BeforeAfter.model_validate(measure.moments(audit, bias)) if compares(audit) else measure.last(audit, bias)
        for key, measure in measures.items()
        if key not in ("skew", *IN_PANEL)
    }


def _people(audit: AuditResult, bias: str) -> NextToPeople:
    return NextToPeople.model_validate({name: MEASURES[key].last(audit, bias) for key, name in IN_PANEL.items()})


def _panel(members: Sequence[Member]) -> Panel:
    biases = dict.fromkeys(name for member in members for name in member.audit.skew if name in member.contrasts)
    return Panel(
        kind=members[0].kind,
        models=tuple(member.name for member in members),
        biases={name: _panel_bias(name, members) for name in biases},
    )


def _sets(bias: str, members: Sequence[Member]) -> list[list[Member]]:
    """Members that were asked about the same contrasts of a bias together, the largest set first."""
    sets: dict[str, list[Member]] = {}
    for member in members:
        if bias in member.contrasts:
            sets.setdefault(member.contrasts[bias].text_set, []).append(member)
    return sorted(sets.values(), key=len, reverse=True)


def _panel_bias(bias: str, members: Sequence[Member]) -> PanelBias:
    means: list[PanelMean] = []
    placed: dict[str, ModelRanks | Missing] = {}
    for alike in _sets(bias, members):
        hits = np.stack([member.hits(bias, "model") for member in alike])
        common = _without_gaps(hits)
        if common.any():
            means.append(_mean(bias, alike, hits, common))
        placed |= _ranks(bias, alike, hits, common)
    return PanelBias(
        means=tuple(means), ranks={member.name: placed[member.name] for member in members if member.name in placed}
    )


def _mean(bias: str, alike: Sequence[Member], hits: FloatArray, common: BoolArray) -> PanelMean:
    contrasts = alike[0].contrasts[bias]
    ids = list(compress(contrasts.prompt_ids, common))
    sd = float(hits[:, common].mean(axis=1).std(ddof=1)) if len(alike) > 1 else None
    people = _majority(alike[0], bias, common)
    return PanelMean(
        models=tuple(member.name for member in alike),
        text_set=contrasts.text_set,
        interval_over=_over(len(alike)),
        left_out=int((~common).sum()),
        skew=mean_share(hits[:, common], ids),
        sd=sd,
        people=None if people is None else _next_to_people(hits, people, contrasts.prompt_ids),
    )


def _without_gaps(hits: FloatArray) -> BoolArray:
    """Contrasts that every row has a margin of; hits of shape (k, n)."""
    return np.asarray(~np.isnan(hits).any(axis=0))


def _over(n_models: int) -> Over:
    return "prompts" if n_models < FEW_MODELS else "models and prompts"


def _majority(member: Member, bias: str, common: BoolArray) -> Majority | None:
    """People's majorities on the common contrasts; None if there are none."""
    people = member.contrasts[bias].people
    if people is None or not (people.majority.used & common).any():
        return None
    return replace(people.majority, used=people.majority.used & common)


def _next_to_people(hits: FloatArray, people: Majority, prompt_ids: Sequence[str]) -> NextToPeople:
    rows, target, ids = hits[:, people.used], people.target[people.used], list(compress(prompt_ids, people.used))
    return NextToPeople(
        human_skew=human_skew(people, prompt_ids),
        skew=mean_share(rows, ids),
        distance=mean_change(target, rows, ids),
        miscalibration=mean_share(np.abs(rows - target), ids),
    )


def _ranks(bias: str, alike: Sequence[Member], hits: FloatArray, common: BoolArray) -> dict[str, ModelRanks | Missing]:
    contrasts, names = alike[0].contrasts[bias], [member.name for member in alike]
    ids = list(compress(contrasts.prompt_ids, common))
    if len(alike) < 2 or len(set(ids)) < 2:
        why = "no other model was asked about the same contrasts" if len(alike) < 2 else "fewer than two common prompts"
        return dict.fromkeys(names, Missing(reason=why))
    by_skew = ranks(hits[:, common], ids)
    people = _majority(alike[0], bias, common)
    nearest = None
    if people is not None and len(set(voted := list(compress(contrasts.prompt_ids, people.used)))) > 1:
        nearest = ranks(hits[:, people.used], voted, people.target[people.used])
    return {
        name: ModelRanks(skew=rank, distance=None if nearest is None else nearest[at])
        for at, (name, rank) in enumerate(zip(names, by_skew, strict=True))
    }


def _training(member: Member) -> PanelTraining:
    audit = member.audit
    return PanelTraining(
        recipe=audit.recipe,
        model=audit.model.name,
        run=shown_path(member.run),
        biases={name: _trained_bias(member, name) for name in audit.skew if name in member.contrasts},
        quality=None if audit.quality is None else _as_measure(audit.quality),
        quality_set=audit.quality_sections.name if audit.quality_sections else audit.sources.quality,
        sections=audit.quality_sections.shown if audit.quality_sections else (),
    )


def _trained_bias(member: Member, bias: str) -> TrainedBias:
    audit = member.audit
    voted = audit.votes.get(bias)
    return TrainedBias(
        **_further(audit, bias),
        target=audit.skew[bias].target,
        text_set=member.contrasts[bias].text_set,
        skew=_as_measure(audit.skew[bias]),
        human_skew=voted.human_skew if voted else None,
        distance=voted.signed_gap if voted else None,
        miscalibration=voted.miscalibration if voted else None,
    )


def _as_measure(measure: Measure) -> Measure:
    """The share alone, without the parts that a kind of measure adds."""
    return Measure(**{name: getattr(measure, name) for name in Measure.model_fields})


def _training_means(trainings: Sequence[Member]) -> dict[str, tuple[TrainingMean, ...]]:
    """By bias, over the trainings against it; of a single one there is no mean."""
    biases = dict.fromkeys(name for member in trainings for name in targets(member.audit))
    found = {
        bias: tuple(
            mean
            for alike in _sets(bias, [member for member in trainings if bias in targets(member.audit)])
            if len(alike) > 1
            for mean in _training_mean(bias, alike)
        )
        for bias in biases
    }
    return {bias: means for bias, means in found.items() if means}


def _training_mean(bias: str, alike: Sequence[Member]) -> Iterator[TrainingMean]:
    """One mean; none if no contrast has a margin under every scoring."""
    hits = np.stack([[member.hits(bias, scoring) for member in alike] for scoring in ("before", "after")])
    common = _without_gaps(np.concatenate(hits))
    if not common.any():
        return
    contrasts = alike[0].contrasts[bias]
    people = _majority(alike[0], bias, common)
    voted = None
    if people is not None:
        voted = [_next_to_people(own, people, contrasts.prompt_ids) for own in hits]
        missed, voters = np.abs(hits[:, :, people.used] - people.target[people.used]), people.used
    yield TrainingMean(
        trainings=tuple(member.name for member in alike),
        text_set=contrasts.text_set,
        interval_over=_over(len(alike)),
        left_out=int((~common).sum()),
        skew=_before_after(hits[:, :, common], list(compress(contrasts.prompt_ids, common))),
        human_skew=voted[0].human_skew if voted else None,
        distance=PerScoring(before=voted[0].distance, after=voted[1].distance) if voted else None,
        miscalibration=_before_after(missed, list(compress(contrasts.prompt_ids, voters))) if voted else None,
    )


def _before_after(rows: FloatArray, ids: Sequence[str]) -> BeforeAfter:
    """Mean share before, after and change; rows of shape (2, trainings, n)."""
    before, after = (mean_share(own, ids) for own in rows)
    return BeforeAfter(before=before, after=after, change=mean_change(rows[0], rows[1], ids))
