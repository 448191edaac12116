"""The release of "Flattery, Fluff, and Fog" about its own models and judges, to stand next to an audit of its pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import compress

import numpy as np

from cda.arrays import FloatArray
from cda.auditing.analysis import label_rates
from cda.auditing.groups import Group, people_of, rng
from cda.biases import Bias
from cda.data.contrasts import CleanContrasts
from cda.data.release import (
    PARTS,
    REPOSITORY,
    ReleasedModels,
    missing_parts,
    release_folder,
    released_labels,
    released_models,
    released_sections,
    released_verdicts,
)
from cda.embedded.model import EMBEDDED
from cda.records import Preference, TieRule, prompt_id
from cda.resources.sources import AuditInputs
from cda.results.audit import PaperBias, PaperJudge, PaperModel, PaperOutcome, PaperPeople, PaperShare
from cda.results.base import Missing, Test
from cda.stats.people import against_people, mean_against_people, people_change
from cda.stats.preference import Change
from cda.stats.proportions import paired_change
from cda.stats.votes import Majority

PRESET = "paper"
_INDENT = " " * 12
_NO_SCORES = Missing(reason="no scores")
_VERDICT: Mapping[Preference | None, float] = {"perturbed": 1.0, "tie": 0.0, "base": -1.0, None: float("nan")}


def paper(inputs: AuditInputs, seed: int, *, only_audit: bool) -> PaperOutcome | None:
    """The release's own outcome for every bias that it has pairs or triples of; None if the recipe names no release.

    Human skew, and with it skew and miscalibration of the paper's reward models before and after its fine-tuning (by size
    and their mean, on the pairs that all of them scored), of its LLM judges (their ties left out), and RewardBench as it was
    released. An audit alone has the release's labels in its analysis, so they are left out here.
    """
    texts = inputs.released()
    if not texts:
        return None
    folder = release_folder(str(inputs.audit.release), inputs.names)
    outcomes: dict[str, PaperBias] = {}
    for bias in inputs.biases:
        of_bias = texts[bias.name]
        contrasts = of_bias.contrasts.contrasts
        models = released_models(folder, bias.name, contrasts)
        people: PaperPeople | Missing = Missing(reason="the release holds no pairs")
        if contrasts:
            verdicts = released_verdicts(folder, bias.name, contrasts)
            people = _against_people(bias, of_bias.contrasts, models, verdicts, inputs.audit.ties, seed)
        sections = released_sections(folder, bias.name, models.run)
        rates = None if only_audit else label_rates(bias, released_labels(folder, bias.name), seed)
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
    missing = {part: tuple(names) for part, names in missing_parts(folder, inputs.names).items()}
    return PaperOutcome(missing=missing, parts=tuple(PARTS), biases=outcomes)


def _against_people(
    bias: Bias,
    clean: CleanContrasts,
    models: ReleasedModels,
    verdicts: Mapping[str, Sequence[Preference | None]],
    rule: TieRule,
    seed: int,
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
            size: _model(size, models.before.get(size), models.after.get(size), majority, ids, seed)
            for size in dict.fromkeys([*models.before, *models.after])
        },
        mean=mean,
        judges={
            name: _judge(np.array([_VERDICT[word] for word in words]), majority, ids)
            for name, words in verdicts.items()
        },
    )


def _model(
    size: str, before: FloatArray | None, after: FloatArray | None, people: Majority, ids: Sequence[str], seed: int
) -> PaperModel:
    """One size: before, after and change on the pairs that have all scores; or the one of the two that there is."""
    given = [values for values in (before, after) if values is not None]
    scored, rows, without = _scored(given, people)
    if not rows.used.any():
        none = Missing(reason="no pair with a majority has a score")
        return PaperModel(of=(size,), without_score=without, skew=none, miscalibration=none)
    if len(scored) == 2:
        change = people_change(scored[0], scored[1], rows, ids, rng(seed))
        skew, missed = map(_changed, (change.skew, change.miscalibration))
    else:
        measured = against_people(scored[0], rows, ids)
        skew, missed = (
            PaperShare(before=share, after=_NO_SCORES, change=_NO_SCORES)
            if after is None
            else PaperShare(before=_NO_SCORES, after=share, change=_NO_SCORES)
            for share in (measured.skew, measured.miscalibration)
        )
    return PaperModel(of=(size,), without_score=without, skew=skew, miscalibration=missed)


def _changed(change: Change) -> PaperShare:
    test = Test(p_value=change.p_value, method=change.p_method)
    return PaperShare(
        before=change.before, after=change.after, change=change.change, unpaired=change.unpaired, test=test
    )


def _mean(
    sizes: tuple[str, ...], before: FloatArray, after: FloatArray, people: Majority, ids: Sequence[str]
) -> PaperModel:
    """Means over sizes before and after (shape (sizes, n)) and the paired change, rows averaged first; on pairs that all sizes
    scored."""
    scored, rows, without = _scored([*before, *after], people)
    if not rows.used.any():
        none = Missing(reason="no pair with a majority has a score of every size")
        return PaperModel(of=sizes, without_score=without, skew=none, miscalibration=none)
    first, second = np.split(np.stack(scored), 2)
    was, became = (mean_against_people(margins, rows, ids) for margins in (first, second))
    kept, target = list(compress(ids, rows.used)), rows.target[rows.used]
    hits = [(margins[:, rows.used] > 0).astype(np.float64) for margins in (first, second)]
    moved, missed = (
        paired_change(earlier.mean(axis=0), later.mean(axis=0), kept, len(before))
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
    """Lines of the plan; none if the recipe names neither the preset `paper` nor a release.

    Raises:
        DataError: The release cannot be used.
    """
    audit = inputs.audit
    if audit.release is None and audit.preset != PRESET:
        return []
    lines = (
        _with_release(inputs, audit.release)
        if audit.release is not None
        else [
            "audit.release is not set, so that this run will lack the paper's human skew and miscalibration (people's votes), skew "
            "over its triples,",
            f"and its own models and judges beside yours. git clone {REPOSITORY}",
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
    return [*lines, *missing_lines(missing_parts(release_folder(reference, inputs.names), inputs.names))]


def missing_lines(missing: dict[str, list[str]]) -> list[str]:
    """Files that a release lacks, biases that lack the same ones together.

    >>> missing_lines({"triples": ["length"], "human votes": ["length"], "labels": ["length", "jargon"]})
    ['missing of length: triples, human votes', 'missing of length, jargon: labels']
    """
    parts: dict[tuple[str, ...], list[str]] = {}
    for part, names in missing.items():
        parts.setdefault(tuple(names), []).append(part)
    return [f"missing of {', '.join(names)}: {', '.join(of)}" for names, of in parts.items()]
