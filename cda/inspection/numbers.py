"""What is to be said of rewrites: of each by itself, and of all that were made in one direction for one bias."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, TypeVar

import numpy as np

from cda.arrays import FloatArray
from cda.biases import Bias
from cda.errors import DataError
from cda.features import PATTERN_FEATURES
from cda.finetuning.applied import check_subject
from cda.inspection.sources import Lost, Seen
from cda.recipe.load import LoadedRecipe, load_model_audit
from cda.recipe.scoring import kind_of
from cda.records import RewriteRequest, count_reasons, prompt_id, prompt_text
from cda.resources.artifacts import shown_target
from cda.resources.named_scorer import Subject, scorer_settings
from cda.resources.scorers import open_scorer
from cda.results.base import Estimate, Missing
from cda.results.effects import FeatureDrift, Limit
from cda.results.inspect import FeatureChange, LostRewrites, PhraseAdded, RewriteLabel, RewriteShown, RewriteSummary
from cda.rewriting.added_phrases import added_phrases
from cda.rewriting.fidelity import ENFORCED, violations
from cda.scorers.compared import Comparison, Rewards
from cda.stats.bootstrap import bootstrap_mean
from cda.stats.drift import DEFAULT_LIMITS, feature_drift, measured
from cda.stats.proportions import share
from cda.stats.streams import Stream, generator

_OWN = ("markers_per_100_words", *PATTERN_FEATURES)
_RARE = 0.1
"""Share of the rewrites below which a phrase is no habit."""

_Found = TypeVar("_Found")


@dataclass(frozen=True, slots=True)
class Looked:
    """A rewrite with what was found of it.

    Attributes:
        seen: The rewrite.
        before: Whether the original exhibits the bias; None where that cannot be told.
        after: Whether the rewrite does.
        by: Who says so.
        rejected: What the gate rejects in it, the gravest first.
        noticed: What the gate only counts.
        features: Every measured feature of original and rewrite; empty where there is no rewrite.
        rewards: Of original and rewrite; None where there are none.
        difference: Reward of the rewrite minus the original's; of a judge its preference. None where there is none.
    """

    seen: Seen
    before: bool | None
    after: bool | None
    by: str | None
    rejected: tuple[str, ...]
    noticed: tuple[str, ...]
    features: Mapping[str, tuple[float, float]]
    rewards: tuple[float, float] | None = None
    difference: float | None = None

    @property
    def flipped(self) -> bool | None:
        """Whether the label changed as asked for; None where a label is missing."""
        if self.before is None or self.after is None:
            return None
        return self.before != self.after and self.after == (self.seen.direction == "add")


def looked_at(seen: Seen, bias: Bias, biases: Sequence[Bias], words_within: float) -> Looked:
    """Labels, gate and features of one rewrite.

    Args:
        seen: The rewrite.
        bias: Its bias.
        biases: Whose measured labels are to stay.
        words_within: Largest change of the word count that the gate accepts, as a share.
    """
    text = seen.rewrite
    if text is None:
        before = seen.labels[0]
        return Looked(seen, before, None, seen.labelled_by, (), (), {}, seen.rewards)
    before, after, by = _labels(seen, text, bias)
    request = RewriteRequest(seen.prompt, seen.original, seen.direction, seen.reference)
    relabelled: bool | Literal["measure"] | None = after if seen.labelled_by is not None else "measure"
    found = violations(request, text, bias, words_within=words_within, others=biases, relabelled=relabelled)
    features = {
        name: (float(first[0]), float(second[0]))
        for (name, first), second in zip(
            _features([seen.original], bias).items(), _features([text], bias).values(), strict=True
        )
    }
    difference = None if seen.rewards is None else seen.rewards[1] - seen.rewards[0]
    return Looked(
        seen, before, after, by,
        tuple(one.reason for one in found if one.check in ENFORCED),
        tuple(one.reason for one in found if one.check not in ENFORCED),
        features, seen.rewards, difference,
    )  # fmt: skip


def limits_of(bias: Bias) -> dict[str, Limit]:
    """How far a rewrite may be from its original, by feature: the drift report's limits, the bias file's before them."""
    own = {name: Limit(one.ratio, one.difference) for name, one in bias.limits.items() if one is not None}
    lifted = {name for name, one in bias.limits.items() if one is None}
    return {name: limit for name, limit in {**DEFAULT_LIMITS, **own}.items() if name not in lifted}


def shown(one: Looked, bias: Bias, spread: Mapping[str, float]) -> RewriteShown:
    """A rewrite as it is shown; `spread` as for `distance`."""
    seen = one.seen
    return RewriteShown(
        bias=seen.bias,
        source=seen.source,
        direction=seen.direction,
        prompt=prompt_text(seen.prompt),
        original=seen.original,
        rewrite=seen.rewrite,
        failed=seen.failed,
        rejected=one.rejected,
        noticed=one.noticed,
        label=RewriteLabel(before=one.before, after=one.after, by=one.by, flipped=one.flipped),
        rewards=one.rewards,
        difference=one.difference,
        drift=tuple(_changes(one, bias)),
        distance=distance(one, spread, bias.treatment),
    )


def _changes(one: Looked, bias: Bias) -> Iterator[FeatureChange]:
    """Features in which a rewrite differs from its original, and whether the difference is beyond its limit."""
    limits = limits_of(bias)
    for name, (before, after) in one.features.items():
        if before != after:
            limit, treatment = limits.get(name), name in bias.treatment
            beyond = limit is not None and not treatment and not limit.holds(np.array([after]), np.array([before]))[0]
            yield FeatureChange(feature=name, before=before, after=after, is_treatment=treatment, beyond=bool(beyond))


def summary(
    rows: Sequence[Looked],
    lost: Sequence[Lost],
    bias: Bias,
    unit: str,
    seed: int,
    *,
    with_failed: bool,
    available: int,
) -> RewriteSummary:
    """Numbers of all rewrites of one bias in one direction, each with n and a prompt-clustered 95% interval.

    Args:
        rows: One or more rewrites.
        lost: Failures of this direction of which only the number was kept.
        bias: Their bias.
        unit: Of the rewards.
        seed: For the intervals.
        with_failed: Whether failed rewrites are among the rows.
        available: Rewrites before a sample was drawn.
    """
    written = [one for one in rows if one.seen.rewrite is not None]
    labelled = [one for one in written if one.flipped is not None]
    scored = [one for one in rows if one.difference is not None]
    failed = [one.seen.failed for one in rows if one.seen.failed is not None]
    accepted = [one for one in written if one.seen.failed is None]
    return RewriteSummary(
        bias=bias.name,
        direction=rows[0].seen.direction,
        n=len(rows),
        n_prompts=len(set(_prompts(rows))),
        available=available,
        n_written=len(written),
        sources=count_reasons([one.seen.source for one in rows]),
        labelled_by=count_reasons([str(one.by) for one in labelled]),
        flipped=_share([one.flipped is True for one in labelled], labelled),
        had_it_before=sum(one.before == (one.seen.direction == "add") for one in labelled),
        failed=_share([one.seen.failed is not None for one in rows], rows)
        if with_failed
        else Missing(reason="only what succeeded was kept"),
        failed_reasons=count_reasons(failed),
        lost=tuple(LostRewrites(source=one.source, tried=one.tried, reasons=dict(one.reasons)) for one in lost),
        rejected=_share([bool(one.rejected) for one in accepted], accepted),
        rejected_reasons=count_reasons([one.rejected[0] for one in accepted if one.rejected]),
        noticed=count_reasons([reason for one in written for reason in one.noticed]),
        reward=_mean([float(one.difference or 0.0) for one in scored], scored, unit, seed),
        n_without_reward=len(written) - len(scored),
        drift=_attempt(partial(_drift, written, bias, seed)),
        phrases=tuple(_phrases(written)),
    )


def spread_of(rows: Sequence[Looked]) -> dict[str, float]:
    """Standard deviation of each feature over the originals; 1 for a constant one."""
    measured = [one.features for one in rows if one.features]
    names = measured[0] if measured else ()
    return {name: float(np.std([features[name][0] for features in measured])) or 1.0 for name in names}


def distance(one: Looked, spread: Mapping[str, float], treatment: Sequence[str]) -> float:
    """How far a rewrite is from its original in all that is not the bias itself, in standard deviations of originals."""
    steps = [(after - before) / spread[name] for name, (before, after) in one.features.items() if name not in treatment]
    return float(np.linalg.norm(steps))


def _labels(seen: Seen, text: str, bias: Bias) -> tuple[bool | None, bool | None, str | None]:
    if seen.labelled_by is not None:
        return (*seen.labels, seen.labelled_by)
    rule = bias.measure
    if rule is None:
        return None, None, None
    by = f"measured {rule.feature}"
    if rule.relative:
        return bias.shows(seen.original, text), bias.shows(text, seen.original), f"{by}, against each other"
    return bias.shows(seen.original), bias.shows(text), by


def _features(texts: Sequence[str], bias: Bias) -> dict[str, FloatArray]:
    """What is measured of texts, the bias's own phrases and pattern included where it has them."""
    own = [name for name in _OWN if (bias.pattern is not None if name in PATTERN_FEATURES else bool(bias.markers))]
    return measured(texts) | {name: np.array([bias.measured(text, name) for text in texts]) for name in own}


def _drift(rows: Sequence[Looked], bias: Bias, seed: int) -> tuple[FeatureDrift, ...]:
    """Rewrite minus original, feature by feature."""
    names = list(rows[0].features) if rows else []
    before, after = ({name: np.array([one.features[name][at] for one in rows]) for name in names} for at in (0, 1))
    limits = limits_of(bias)
    return tuple(feature_drift(after, before, _prompts(rows), _rng(seed), limits=limits, treatment=bias.treatment))


def _phrases(rows: Sequence[Looked]) -> Iterator[PhraseAdded]:
    """Phrases that at least two rewrites and a tenth of all hold, and no original."""
    least = max(2, int(np.ceil(_RARE * len(rows))))
    for phrase in added_phrases([one.seen.original for one in rows], [str(one.seen.rewrite) for one in rows], least):
        held = set(phrase.rows)
        yield PhraseAdded(words=phrase.words, share=_share([row in held for row in range(len(rows))], rows))


def _share(hits: Sequence[bool], rows: Sequence[Looked]) -> Estimate | Missing:
    return _attempt(lambda: share(hits, _prompts(rows))) if rows else Missing(reason="none")


def _mean(values: Sequence[float], rows: Sequence[Looked], unit: str, seed: int) -> Estimate | Missing:
    if not rows:
        return Missing(reason="no rewards")
    return _attempt(lambda: bootstrap_mean(values, _prompts(rows), _rng(seed)).estimate(unit))


def _attempt(make: Callable[[], _Found]) -> _Found | Missing:
    try:
        return make()
    except DataError as error:
        return Missing(reason=str(error))


def _prompts(rows: Sequence[Looked]) -> list[str]:
    return [prompt_id(one.seen.prompt) for one in rows]


def _rng(seed: int) -> np.random.Generator:
    return generator(seed, Stream.INTERVALS)


@dataclass(frozen=True, slots=True)
class Asked:
    """A model to be asked.

    Attributes:
        loaded: How.
        subject: It.
    """

    loaded: LoadedRecipe
    subject: Subject

    @property
    def name(self) -> str:
        return shown_target(self.subject.name)


def asked_of_recipe(loaded: LoadedRecipe) -> Asked:
    """A recipe's model, before its training."""
    return Asked(loaded, Subject("model", loaded.recipe.model))


def asked_target(target: str, folder: str, overrides: Sequence[str], confirmed: bool) -> Asked:
    """A model by name, with what of the overrides is about models.

    Args:
        target: As for `cda audit`.
        folder: Run folder beside which scores are kept.
        overrides: `section.key=value` words; those of other sections are somebody else's.
        confirmed: Spending was agreed to beforehand.

    Raises:
        RecipeError: A setting is wrong.
    """
    judges = kind_of(target) == "judge"
    own = [
        word
        for word in overrides
        if word.startswith(("score.", "llm.")) and not (judges and word.startswith("llm.model="))
    ]
    # What a recipe's model is called is not what this one is called.
    own += [word for word in overrides if word.startswith("model.") and not word.startswith("model.name_or_path=")]
    loaded = replace(load_model_audit(target, {"run": {"folder": folder}}, own), confirmed=confirmed)
    return Asked(loaded, Subject("model", loaded.recipe.model))


def check_asked(asked: Asked) -> None:
    """Find what can be found wrong before anything is rewritten or scored.

    Raises:
        CdaError: The model cannot be used.
    """
    check_subject(asked.subject, asked.loaded)


def with_rewards(rows: Sequence[Looked], asked: Asked) -> tuple[list[Looked], str]:
    """Rows with rewards of both texts, and the unit of the differences; a judge gives differences alone.

    Raises:
        CdaError: The model cannot be opened or asked.
    """
    written = [one for one in rows if one.seen.rewrite is not None]
    comparisons: list[Comparison] = [(one.seen.prompt, str(one.seen.rewrite), one.seen.original) for one in written]
    if not comparisons:
        return list(rows), "reward"
    asked.loaded.recipe.run_path.parent.mkdir(parents=True, exist_ok=True)
    compared, _ = open_scorer(asked.subject, scorer_settings(asked.loaded)).compare(comparisons)
    scored = {}
    for one, (prompt, rewrite, original), margin in zip(
        written, comparisons, compared.margins(comparisons), strict=True
    ):
        both = (compared.of(prompt, original), compared.of(prompt, rewrite)) if isinstance(compared, Rewards) else None
        told = None if both is None or np.isnan(both).any() else both
        scored[id(one)] = replace(one, rewards=told, difference=None if np.isnan(margin) else float(margin))
    return [scored.get(id(one), replace(one, rewards=None, difference=None)) for one in rows], compared.unit
