"""What the release of "Flattery, Fluff, and Fog" says of its own models and judges, to stand beside an audit of its pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from cda.arrays import FloatArray
from cda.auditing.analysis import label_rates
from cda.auditing.groups import Group, people_of
from cda.auditing.result import rng
from cda.auditing.sources import given_labels, released
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
from cda.embedded.model import NAME as EMBEDDED
from cda.recipe.load import LoadedRecipe
from cda.records import Preference, TieRule, prompt_id
from cda.results.audit import PaperBias, PaperJudge, PaperModel, PaperOutcome, PaperPeople, PaperShare
from cda.results.base import Estimate, Missing, Test
from cda.stats.people import against_people, mean_against_people, people_change
from cda.stats.preference import Change
from cda.stats.proportions import paired_change
from cda.stats.votes import Majority

_NO_SCORES = Missing(reason="no scores")
_VERDICT: Mapping[Preference | None, float] = {"perturbed": 1.0, "tie": 0.0, "base": -1.0, None: float("nan")}


def paper(loaded: LoadedRecipe, seed: int) -> PaperOutcome | None:
    """The release's own outcome for every bias that it has pairs or triples of; None where the recipe names no release.

    Human skew, and beside it skew and miscalibration of the paper's reward models before and after its fine-tuning (by size
    and their mean, on the pairs that all of them scored), of its LLM judges (their ties left out), and RewardBench as it was
    released.
    """
    texts = released(loaded)
    if not texts:
        return None
    names = [bias.name for bias in loaded.biases]
    folder = release_folder(str(loaded.recipe.audit.release), names)
    found: dict[str, PaperBias] = {}
    for bias in loaded.biases:
        one = texts[bias.name]
        contrasts = one.contrasts.contrasts
        models = released_models(folder, bias.name, contrasts)
        people: PaperPeople | Missing = Missing(reason="the release holds no pairs")
        if contrasts:
            verdicts = released_verdicts(folder, bias.name, contrasts)
            people = _beside_people(bias, one.contrasts, models, verdicts, loaded.recipe.audit.ties, seed)
        sections = released_sections(folder, bias.name, models.run)
        # An audit alone has these labels in its analysis.
        rates = None if loaded.only_audit else label_rates(bias, released_labels(folder, bias.name), seed)
        if contrasts or one.triples.triples or sections or rates:
            found[bias.name] = PaperBias(
                pairs=len(contrasts),
                triples=len(one.triples.triples),
                triples_voted=one.n_triples_voted,
                run=models.run,
                people=people,
                rewardbench={size: {when: dict(each) for when, each in by.items()} for size, by in sections.items()},
                labels=rates,
            )
    missing = {part: tuple(of) for part, of in missing_parts(folder, names).items()}
    return PaperOutcome(missing=missing, parts=tuple(PARTS), biases=found)


def _beside_people(
    bias: Bias,
    clean: CleanContrasts,
    models: ReleasedModels,
    verdicts: Mapping[str, Sequence[Preference | None]],
    rule: TieRule,
    seed: int,
) -> PaperPeople | Missing:
    ids = [prompt_id(one.prompt) for one in clean.contrasts]
    people = people_of(Group(bias, True, clean.contrasts, tuple(ids), {}, "reward", 0), rule)
    if people is None:
        return Missing(reason="no pair has a majority for one side")
    majority = people.majority
    both = tuple(size for size in models.before if size in models.after)
    mean = None
    if len(both) > 1:
        before, after = (np.stack([one[size] for size in both]) for one in (models.before, models.after))
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
            name: _judge(np.array([_VERDICT[one] for one in said]), majority, ids) for name, said in verdicts.items()
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
    if before is None or after is None:
        one = against_people(scored[0], rows, ids)
        skew, missed = (_alone(share, is_before=after is None) for share in (one.skew, one.miscalibration))
        return PaperModel(of=(size,), without_score=without, skew=skew, miscalibration=missed)
    change = people_change(scored[0], scored[1], rows, ids, rng(seed))
    skew, missed = (_changed(one) for one in (change.skew, change.miscalibration))
    return PaperModel(of=(size,), without_score=without, skew=skew, miscalibration=missed)


def _alone(share: Estimate, *, is_before: bool) -> PaperShare:
    return PaperShare(
        before=share if is_before else _NO_SCORES, after=_NO_SCORES if is_before else share, change=_NO_SCORES
    )


def _changed(change: Change) -> PaperShare:
    test = Test(p_value=change.p_value, method=change.p_method)
    return PaperShare(
        before=change.before, after=change.after, change=change.change, unpaired=change.unpaired, test=test
    )


def _mean(
    sizes: tuple[str, ...], before: FloatArray, after: FloatArray, people: Majority, ids: Sequence[str]
) -> PaperModel:
    """Means over sizes before and after, and the paired change, rows averaged first; on pairs that all sizes scored.

    Args:
        sizes: Of the models.
        before: Margins before. Shape (sizes, n).
        after: Margins after. Shape (sizes, n).
        people: Majorities of the n pairs.
        ids: Cluster of each pair.
    """
    scored, rows, without = _scored([*before, *after], people)
    if not rows.used.any():
        none = Missing(reason="no pair with a majority has a score of every size")
        return PaperModel(of=sizes, without_score=without, skew=none, miscalibration=none)
    first, second = np.stack(scored[: len(before)]), np.stack(scored[len(before) :])
    was, became = (mean_against_people(one, rows, ids) for one in (first, second))
    kept = [one for one, keep in zip(ids, rows.used, strict=True) if keep]
    target = rows.target[rows.used]
    hits = [(one[:, rows.used] > 0).astype(np.float64) for one in (first, second)]
    moved, missed = (
        paired_change(earlier.mean(axis=0), later.mean(axis=0), kept, len(before))
        for earlier, later in (hits, [np.abs(one - target) for one in hits])
    )
    return PaperModel(
        of=sizes,
        without_score=without,
        skew=PaperShare(before=was.skew, after=became.skew, change=moved),
        miscalibration=PaperShare(before=was.miscalibration, after=became.miscalibration, change=missed),
    )


def _judge(values: FloatArray, people: Majority, ids: Sequence[str]) -> PaperJudge:
    """One LLM judge; its ties are left out, as in the paper, and counted with what could not be read."""
    (scored,), rows, without = _scored([values], people)
    ties = int((scored[rows.used] == 0).sum())
    if ties == int(rows.used.sum()):
        none = Missing(reason="no pair with a majority has a verdict for one side")
        return PaperJudge(ties=ties, without_verdict=without, skew=none, miscalibration=none)
    one = against_people(scored, rows, ids, "drop")
    return PaperJudge(ties=ties, without_verdict=without, skew=one.skew, miscalibration=one.miscalibration)


def _scored(margins: Sequence[FloatArray], people: Majority) -> tuple[list[FloatArray], Majority, int]:
    """Margins, majorities of the pairs that have all of them (elsewhere a filler of 0), and how many have not."""
    known = ~np.isnan(np.array(margins)).any(axis=0)
    filled = [np.where(known, values, 0.0) for values in margins]
    return filled, replace(people, used=people.used & known), int((~known).sum())


PRESET = "paper"
_INDENT = " " * 12


def release_lines(loaded: LoadedRecipe) -> list[str]:
    """Lines of the plan; none where the recipe names neither the preset `paper` nor a release.

    Raises:
        DataError: The release cannot be used.
    """
    audit = loaded.recipe.audit
    if audit.release is None and audit.preset != PRESET:
        return []
    found = _without() if audit.release is None else _with(loaded)
    if audit.quality in (None, EMBEDDED):
        found.append(
            "RewardBench by section will be missing: the release holds its results and no texts. Give "
            "audit.quality=allenai/reward-bench audit.quality_split=filtered, or a file of it"
        )
    return [f"paper       {found[0]}", *(f"{_INDENT}{line}" for line in found[1:])]


def _without() -> list[str]:
    return [
        "audit.release is not set, so that this run will lack the paper's human skew and miscalibration (people's votes), skew "
        "over its triples,",
        f"and its own models and judges beside yours. git clone {REPOSITORY}",
        "and add audit.release=Preference-Model-Biases",
    ]


def _with(loaded: LoadedRecipe) -> list[str]:
    names = [bias.name for bias in loaded.biases]
    reference = str(loaded.recipe.audit.release)
    labels = given_labels(loaded)
    lines = [reference]
    for name, texts in released(loaded).items():
        pairs, triples = texts.contrasts.contrasts, texts.triples.triples
        parts = [
            f"{len(pairs)} pairs with people's votes" if pairs else "",
            f"{len(triples)} triples, of which people voted on {texts.n_triples_voted}" if triples else "",
            f"labels of {len(labels[name])} pairs" if name in labels else "",
        ]
        if any(parts):
            lines.append(f"{name}: {'; '.join(part for part in parts if part)}")
    return [*lines, *missing_lines(missing_parts(release_folder(reference, names), names))]


def missing_lines(missing: dict[str, list[str]]) -> list[str]:
    """Files that a release lacks, biases that lack the same ones together.

    >>> missing_lines({"triples": ["length"], "human votes": ["length"], "labels": ["length", "jargon"]})
    ['missing of length: triples, human votes', 'missing of length, jargon: labels']
    """
    parts: dict[tuple[str, ...], list[str]] = {}
    for part, names in missing.items():
        parts.setdefault(tuple(names), []).append(part)
    return [f"missing of {', '.join(names)}: {', '.join(of)}" for names, of in parts.items()]
