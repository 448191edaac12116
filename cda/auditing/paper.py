"""The release of "Flattery, Fluff, and Fog" about its own models and judges, and its outcome next to that of an audit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import compress

import numpy as np

from cda.arrays import FloatArray
from cda.auditing import report_cells as cells
from cda.auditing.groups import VERDICTS, Group, people_of
from cda.auditing.report_cells import targets
from cda.biases import Bias
from cda.data import release
from cda.data.contrasts import CleanContrasts
from cda.data.release import SOURCE
from cda.embedded.model import EMBEDDED
from cda.preferences.measure import label_rates
from cda.records import Preference, TieRule, prompt_id
from cda.report.numbers import NOT_ESTIMATED, cell, count, decimals, points, share
from cda.report.scoring import accuracy, tenth_points, tenths
from cda.report.tables import Row, Table, table
from cda.resources.sources import AuditInputs
from cda.results.audit import AuditResult, PaperBias, PaperJudge, PaperModel, PaperOutcome, PaperPeople, PaperShare
from cda.results.base import Estimate, Missing
from cda.results.effects import Contingency
from cda.stats.estimators import paired_change
from cda.stats.people import against_people, mean_against_people, people_change
from cda.stats.votes import Majority

PRESET = "paper"
_INDENT = " " * 12
_NO_SCORES = Missing(reason="no scores")


def paper(inputs: AuditInputs, *, only_audit: bool) -> PaperOutcome | None:
    """The release's own outcome for every bias that it has pairs or triples of; None if the recipe names no release. Human
    skew, and skew and miscalibration of the paper's reward models before and after (by size and their mean, on pairs that all
    scored), of its judges (ties left out), and RewardBench as released. An audit alone has the release's labels in its
    analysis, not here."""
    texts = inputs.released()
    if not texts:
        return None
    folder = release.release_folder(str(inputs.audit.release), inputs.names)
    outcomes: dict[str, PaperBias] = {}
    for bias in inputs.biases:
        of_bias = texts[bias.name]
        contrasts = of_bias.contrasts.contrasts
        models = release.released_models(folder, bias.name, contrasts)
        people: PaperPeople | Missing = Missing(reason="the release holds no pairs")
        if contrasts:
            verdicts = release.released_verdicts(folder, bias.name, contrasts)
            people = _against_people(bias, of_bias.contrasts, models, verdicts, inputs.audit.ties)
        sections = release.released_sections(folder, bias.name, models.run)
        labels = None if only_audit else release.released_labels(folder, bias.name)
        rates = None if labels is None else label_rates([bias], {bias.name: labels})[bias.name]
        if contrasts or of_bias.triples.triples or sections or rates:
            outcomes[bias.name] = PaperBias(
                pairs=len(contrasts),
                triples=len(of_bias.triples.triples),
                triples_voted=of_bias.n_triples_voted,
                run=models.run,
                people=people,
                rewardbench={size: {when: dict(each) for when, each in by.items()} for size, by in sections.items()},
                labels=rates,
            )
    missing = {part: tuple(names) for part, names in release.missing_parts(folder, inputs.names).items()}
    return PaperOutcome(missing=missing, parts=tuple(release.PARTS), biases=outcomes)


def _against_people(
    bias: Bias,
    clean: CleanContrasts,
    models: release.ReleasedModels,
    verdicts: Mapping[str, Sequence[Preference | None]],
    rule: TieRule,
) -> PaperPeople | Missing:
    ids = [prompt_id(contrast.prompt) for contrast in clean.contrasts]
    people = people_of(Group(bias, True, clean.contrasts, tuple(ids), {}, "reward", 0), rule)
    if people is None:
        return Missing(reason="no pair has a majority for one side")
    majority = people.majority
    both = tuple(size for size in models.before if size in models.after)
    mean = None
    if len(both) > 1:
        before, after = (np.stack([margins[size] for size in both]) for margins in (models.before, models.after))
        mean = _mean(both, before, after, majority, ids)
    return PaperPeople(
        rule=majority.rule,
        left_out=dict(majority.exclusions.reasons),
        with_majority=int(majority.used.sum()),
        models={
            size: _model(size, models.before.get(size), models.after.get(size), majority, ids)
            for size in dict.fromkeys([*models.before, *models.after])
        },
        mean=mean,
        judges={
            name: _judge(np.array([VERDICTS[word] for word in words]), majority, ids)
            for name, words in verdicts.items()
        },
    )


def _model(
    size: str, before: FloatArray | None, after: FloatArray | None, people: Majority, ids: Sequence[str]
) -> PaperModel:
    """One size: before, after and change on the pairs that have all scores; or the one of the two that there is."""
    given = [values for values in (before, after) if values is not None]
    scored, rows, without = _scored(given, people)
    if not rows.used.any():
        none = Missing(reason="no pair with a majority has a score")
        return PaperModel(of=(size,), without_score=without, skew=none, miscalibration=none)
    if len(scored) == 2:
        change = people_change(scored[0], scored[1], rows, ids)
        skew, missed = (
            PaperShare(**{name: getattr(moved, name) for name in ("before", "after", "change", "unpaired", "test")})
            for moved in (change.skew_on_voted, change.miscalibration)
        )
    else:
        measured = against_people(scored[0], rows, ids)
        skew, missed = (
            PaperShare(before=share, after=_NO_SCORES, change=_NO_SCORES)
            if after is None
            else PaperShare(before=_NO_SCORES, after=share, change=_NO_SCORES)
            for share in (measured.skew, measured.miscalibration)
        )
    return PaperModel(of=(size,), without_score=without, skew=skew, miscalibration=missed)


def _mean(
    sizes: tuple[str, ...], before: FloatArray, after: FloatArray, people: Majority, ids: Sequence[str]
) -> PaperModel:
    """Means over sizes before and after (shape (sizes, n)) and the paired change, rows averaged first; on pairs that all sizes
    scored."""
    scored, rows, without = _scored([*before, *after], people)
    if not rows.used.any():
        none = Missing(reason="no pair with a majority has a score of every size")
        return PaperModel(of=sizes, without_score=without, skew=none, miscalibration=none)
    both = np.split(np.stack(scored), 2)
    was, became = (mean_against_people(margins, rows, ids) for margins in both)
    kept, target = list(compress(ids, rows.used)), rows.target[rows.used]
    hits = [(margins[:, rows.used] > 0).astype(np.float64) for margins in both]
    moved, missed = (
        paired_change(earlier.mean(axis=0), later.mean(axis=0), kept, len(sizes))
        for earlier, later in (hits, [np.abs(hit - target) for hit in hits])
    )
    return PaperModel(
        of=sizes,
        without_score=without,
        skew=PaperShare(before=was.skew, after=became.skew, change=moved),
        miscalibration=PaperShare(before=was.miscalibration, after=became.miscalibration, change=missed),
    )


def _judge(values: FloatArray, people: Majority, ids: Sequence[str]) -> PaperJudge:
    """One LLM judge; its ties are left out, as in the paper, and counted with the unreadable verdicts."""
    (scored,), rows, without = _scored([values], people)
    ties = int((scored[rows.used] == 0).sum())
    if ties == int(rows.used.sum()):
        none = Missing(reason="no pair with a majority has a verdict for one side")
        return PaperJudge(ties=ties, without_verdict=without, skew=none, miscalibration=none)
    measured = against_people(scored, rows, ids, "drop")
    return PaperJudge(ties=ties, without_verdict=without, skew=measured.skew, miscalibration=measured.miscalibration)


def _scored(margins: Sequence[FloatArray], people: Majority) -> tuple[list[FloatArray], Majority, int]:
    """Margins, majorities of the pairs that have all of them (elsewhere a filler of 0), and how many have not."""
    known = ~np.isnan(np.array(margins)).any(axis=0)
    filled = [np.where(known, values, 0.0) for values in margins]
    return filled, replace(people, used=people.used & known), int((~known).sum())


def release_lines(inputs: AuditInputs) -> list[str]:
    """Lines of the plan; none if neither the preset `paper` nor a release is named. DataError: the release is unusable."""
    audit = inputs.audit
    if audit.release is None and audit.preset != PRESET:
        return []
    lines = (
        _with_release(inputs, audit.release)
        if audit.release is not None
        else [
            "audit.release is not set, so that this run will lack the paper's human skew and miscalibration (people's votes), skew "
            "over its triples,",
            f"and its own models and judges next to yours. git clone {release.REPOSITORY}",
            "and add audit.release=Preference-Model-Biases",
        ]
    )
    if audit.quality in (None, EMBEDDED):
        lines.append(
            "RewardBench by section will be missing: the release holds its results and no texts. Give "
            "audit.quality=allenai/reward-bench audit.quality_split=filtered, or a file of it"
        )
    return [f"paper       {lines[0]}", *(f"{_INDENT}{line}" for line in lines[1:])]


def _with_release(inputs: AuditInputs, reference: str) -> list[str]:
    labels = inputs.labels()
    lines = [reference]
    for name, texts in inputs.released().items():
        pairs, triples = texts.contrasts.contrasts, texts.triples.triples
        parts = [
            f"{len(pairs)} pairs with people's votes" if pairs else "",
            f"{len(triples)} triples, of which people voted on {texts.n_triples_voted}" if triples else "",
            f"labels of {len(labels[name])} pairs" if name in labels else "",
        ]
        if any(parts):
            lines.append(f"{name}: {'; '.join(part for part in parts if part)}")
    folder = release.release_folder(reference, inputs.names)
    return [*lines, *missing_lines(release.missing_parts(folder, inputs.names))]


def missing_lines(missing: dict[str, list[str]]) -> list[str]:
    """Files that a release lacks, biases that lack the same ones together.

    >>> missing_lines({"triples": ["length"], "human votes": ["length"], "labels": ["length", "jargon"]})
    ['missing of length: triples, human votes', 'missing of length, jargon: labels']
    """
    parts: dict[tuple[str, ...], list[str]] = {}
    for part, names in missing.items():
        parts.setdefault(tuple(names), []).append(part)
    return [f"missing of {', '.join(names)}: {', '.join(of)}" for names, of in parts.items()]


def paper_sentences(audit: AuditResult, paper: PaperOutcome) -> list[str]:
    """The release's contents, its rule for ties, and its gaps."""
    peoples = _peoples(paper)
    sentences = []
    for name, bias in paper.biases.items():
        voted = f", {peoples[name].with_majority} with a majority for one side" if name in peoples else ""
        sentences.append(
            f"{name}: {bias.pairs} pairs that people voted on{voted}; {bias.triples} triples, of which people voted on "
            f"{bias.triples_voted}."
        )
    sentences += [cells.said("paper", rule) for rule in dict.fromkeys(people.rule for people in peoples.values())]
    sentences += [cells.said("paper", "triples")] if paper.biases else []
    sentences += [f"Missing in the release: {part} of {', '.join(names)}." for part, names in paper.missing.items()]
    if audit.quality_sections is None:
        sentences.append(cells.said("paper", "no sections"))
    return sentences


def paper_tables(audit: AuditResult, paper: PaperOutcome) -> list[Table | None]:
    """This run's outcome first; then the paper's models, its judges, RewardBench as released, labels."""
    return [
        outcome_table(audit),
        table(
            "The paper's own reward models on the same pairs, before and after its fine-tuning, from its released scores, with 95% "
            "intervals", ("the paper's model", "before", "after", "change (points)", "n", "pairs without a score"),
            _model_rows(paper)),
        table(
            "The paper's LLM judges on the same pairs, their ties left out as there, with 95% intervals",
            ("LLM judge", "skew", "miscalibration", "n", "its ties", "pairs without a verdict"), _judge_rows(paper)),
        table(
            "RewardBench of the paper's models as released: sections' accuracies and no items, so that no interval can be given",
            ("section", "before", "after", "change (points)"), _rewardbench_rows(paper)),
        table(
            "The paper's labels of its training sample, with 95% intervals",
            ("bias", "chosen where one side has it", "of all chosen", "of all rejected", "r with being chosen", "pairs"),
            _label_rows(paper)),
    ]  # fmt: skip


def outcome_table(audit: AuditResult) -> Table | None:
    """Human skew, skew and miscalibration of each target, skew over its triples, RewardBench by section."""
    rows: list[Row] = []
    for name in targets(audit):
        if name in audit.votes:
            rows += [
                (f"{name} human skew", *cells.number_cells(audit, "human_skew", name)),
                (f"{name} skew, where people have a majority", *cells.number_cells(audit, "skew_on_voted", name)),
                (f"{name} miscalibration", *cells.number_cells(audit, "miscalibration", name)),
            ]
        if name in audit.triple_skew and name in audit.rate and audit.rate[name].flips.by == SOURCE:
            rows.append((f"{name} skew (triples)", *cells.number_cells(audit, "triple_skew", name)))
    if (sections := audit.quality_sections) is not None:
        by_plain = audit.plain.quality_sections if audit.plain else None
        after = {group.name: accuracy(group.scores["after"].estimate) for group in (by_plain.shown if by_plain else ())}
        for group in sections.shown:
            scores = [score.estimate for score in group.scores.values()]
            moved = (tenth_points(group.shift.estimate),) if group.shift is not None else ()
            other = (after[group.name],) if by_plain else cells.blank_of_plain(audit)
            rows.append((f"{sections.name}: {group.name}", *map(accuracy, scores), *moved, count(scores[0]), *other))
    return table("The paper's outcome, of this run, with 95% intervals", ("measure", *cells.estimates(audit)), rows)


def _peoples(paper: PaperOutcome) -> dict[str, PaperPeople]:
    return {name: bias.people for name, bias in paper.biases.items() if isinstance(bias.people, PaperPeople)}


def _model_rows(paper: PaperOutcome) -> Iterator[Row]:
    for name, people in _peoples(paper).items():
        means = {f"mean of {', '.join(people.mean.of)}": people.mean} if people.mean else {}
        for label, model in {**people.models, **means}.items():
            without = str(model.without_score)
            for what, measure in (("skew", model.skew), ("miscalibration", model.miscalibration)):
                if isinstance(measure, Missing):
                    yield (f"{name}, {label}", measure.reason, "", "", "", without)
                    break
                both = (measure.before, measure.after)
                n = next((count(found) for found in both if isinstance(found, Estimate)), "")
                moved = cell(measure.change, lambda change: points(change, ""), "")
                values = (cell(found, share, None) for found in both)
                yield (f"{name}, {label}: {what}", *values, moved, n, without)


def _judge_rows(paper: PaperOutcome) -> Iterator[Row]:
    for name, people in _peoples(paper).items():
        for judge, found in people.judges.items():
            left_out = (str(found.ties), str(found.without_verdict))
            if isinstance(found.skew, Missing) or isinstance(found.miscalibration, Missing):
                reason = found.skew.reason if isinstance(found.skew, Missing) else ""
                yield (f"{name}, {judge}", NOT_ESTIMATED, reason, "0", *left_out)
            else:
                yield (f"{name}, {judge}", share(found.skew), share(found.miscalibration), count(found.skew), *left_out)


def _rewardbench_rows(paper: PaperOutcome) -> Iterator[Row]:
    for name, bias in paper.biases.items():
        for size, found in bias.rewardbench.items():
            for section in dict.fromkeys(section for scores in found.values() for section in scores):
                before, after = (found.get(when, {}).get(section) for when in ("before", "after"))
                shares = ["" if value is None else f"{tenths(value)}%" for value in (before, after)]
                moved = "" if before is None or after is None else tenths(after - before)
                yield (f"{name}, {size}: {section}", *shares, moved)


def _label_rows(paper: PaperOutcome) -> Iterator[Row]:
    for name, bias in paper.biases.items():
        if bias.labels and isinstance(bias.labels.contingency, Contingency):
            rates = bias.labels.contingency
            shares = [share(rate) for rate in (rates.selection_rate, rates.chosen_rate, rates.rejected_rate)]
            yield (name, *shares, cell(bias.labels.r_train, decimals), count(rates.chosen_rate))
