"""Label, gate and drift of a rewrite, and the numbers of all that were made in one direction for one bias."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

import numpy as np

from cda.arrays import FloatArray
from cda.biases import Bias
from cda.features import PATTERN_FEATURES
from cda.inspection.sources import Seen
from cda.records import RewriteRequest, count_reasons, prompt_id, prompt_text
from cda.results.base import Estimate, Missing, or_missing
from cda.results.effects import FeatureDrift, Limit
from cda.results.inspect import FeatureChange, LostRewrites, PhraseAdded, RewriteLabel, RewriteShown, RewriteSummary
from cda.rewriting.added_phrases import added_phrases
from cda.rewriting.fidelity import ENFORCED, violations
from cda.scorers.compared import Compared, Comparison, Rewards
from cda.stats.bootstrap import bootstrap_mean
from cda.stats.drift import DEFAULT_LIMITS, feature_drift, measured
from cda.stats.proportions import wilson_share
from cda.stats.streams import Stream, generator

_OWN = ("markers_per_100_words", *PATTERN_FEATURES)
_RARE = 0.1  # share of the rewrites from which a phrase counts as a habit


@dataclass(frozen=True, slots=True)
class Looked:
    """A rewrite with its label, violations that the gate rejects (gravest first) or only notes, and features of both texts."""

    seen: Seen
    label: RewriteLabel
    rejected: tuple[str, ...] = ()
    noticed: tuple[str, ...] = ()
    features: Mapping[str, tuple[float, float]] = field(default_factory=dict)


def comparisons_of(rewrites: Sequence[Seen]) -> list[Comparison]:
    """Each rewrite that has a text against its original."""
    return [(row.prompt, row.rewrite, row.original) for row in rewrites if row.rewrite is not None]


def with_rewards(rewrites: Sequence[Seen], compared: Compared) -> list[Seen]:
    """Rewrites with a model's rewards in place of those that were kept; a judge gives differences alone."""
    scored = []
    for rewrite in rewrites:
        rewards, difference = None, None
        for comparison in comparisons_of([rewrite]):
            margin = float(compared.margins([comparison])[0])
            difference = None if np.isnan(margin) else margin
            if isinstance(compared, Rewards):
                prompt, after, before = comparison
                both = (compared.of(prompt, before), compared.of(prompt, after))
                rewards = None if np.isnan(both).any() else both
        scored.append(replace(rewrite, rewards=rewards, difference=difference))
    return scored


def looked_at(seen: Seen, bias: Bias, biases: Sequence[Bias], words_within: float) -> Looked:
    """Label, gate and features of one rewrite; the measured labels of `biases` are to stay."""
    text = seen.rewrite
    if text is None:
        return Looked(seen, RewriteLabel(before=seen.labels[0], after=None, by=seen.labelled_by, flipped=None))
    label = _label(seen, text, bias)
    request = RewriteRequest(seen.prompt, seen.original, seen.direction, seen.reference)
    relabelled: bool | Literal["measure"] | None = label.after if seen.labelled_by is not None else "measure"
    found = violations(request, text, bias, words_within=words_within, others=biases, relabelled=relabelled)
    return Looked(
        seen,
        label,
        tuple(violation.reason for violation in found if violation.check in ENFORCED),
        tuple(violation.reason for violation in found if violation.check not in ENFORCED),
        {
            name: (float(before), float(after))
            for name, (before, after) in _features([seen.original, text], bias).items()
        },
    )


def _label(seen: Seen, text: str, bias: Bias) -> RewriteLabel:
    (before, after), by, rule = seen.labels, seen.labelled_by, bias.measure
    if by is None and rule is not None:
        by = f"measured {rule.feature}{', against each other' if rule.relative else ''}"
        others = (text, seen.original) if rule.relative else (None, None)
        before, after = bias.shows(seen.original, others[0]), bias.shows(text, others[1])
    elif by is None:
        before = after = None
    known = before is not None and after is not None
    flipped = before != after and after == (seen.direction == "add") if known else None
    return RewriteLabel(before=before, after=after, by=by, flipped=flipped)


def _features(texts: Sequence[str], bias: Bias) -> dict[str, FloatArray]:
    own = [name for name in _OWN if (bias.pattern is not None if name in PATTERN_FEATURES else bool(bias.markers))]
    return measured(texts) | {name: np.array([bias.measured(text, name) for text in texts]) for name in own}


def _limits(bias: Bias) -> dict[str, Limit]:
    """Limits by feature for the difference of a rewrite from its original: the bias file's before the drift report's."""
    own = {name: Limit(limit.ratio, limit.difference) for name, limit in bias.limits.items() if limit is not None}
    lifted = {name for name, limit in bias.limits.items() if limit is None}
    return {name: limit for name, limit in {**DEFAULT_LIMITS, **own}.items() if name not in lifted}


def shown(row: Looked, bias: Bias, spread: Mapping[str, float]) -> RewriteShown:
    """A rewrite as it is shown; `spread` as for `off_target_distance`."""
    seen = row.seen
    return RewriteShown(
        bias=seen.bias,
        source=seen.source,
        direction=seen.direction,
        prompt=prompt_text(seen.prompt),
        original=seen.original,
        rewrite=seen.rewrite,
        failed=seen.failed,
        rejected=row.rejected,
        noticed=row.noticed,
        label=row.label,
        rewards=seen.rewards,
        difference=seen.difference,
        drift=tuple(_changes(row, bias)),
        distance=off_target_distance(row, spread, bias.treatment),
    )


def _changes(row: Looked, bias: Bias) -> Iterator[FeatureChange]:
    limits = _limits(bias)
    for name, (before, after) in row.features.items():
        if before != after:
            limit, treatment = limits.get(name), name in bias.treatment
            beyond = limit is not None and not treatment and not limit.holds(np.array([after]), np.array([before]))[0]
            yield FeatureChange(feature=name, before=before, after=after, is_treatment=treatment, beyond=bool(beyond))


def spread_of(rows: Sequence[Looked]) -> dict[str, float]:
    """Standard deviation of each feature over the originals; 1 for a constant one."""
    features = [row.features for row in rows if row.features]
    names = features[0] if features else ()
    return {name: float(np.std([by_name[name][0] for by_name in features])) or 1.0 for name in names}


def off_target_distance(row: Looked, spread: Mapping[str, float], treatment: Sequence[str]) -> float:
    """Distance of a rewrite from its original in all that is not the bias itself, in standard deviations of originals."""
    steps = [(after - before) / spread[name] for name, (before, after) in row.features.items() if name not in treatment]
    return float(np.linalg.norm(steps))


def summarize_rewrites(
    rows: Sequence[Looked],
    lost: Sequence[LostRewrites],
    bias: Bias,
    unit: str,
    seed: int,
    *,
    with_failed: bool,
    available: int,
) -> RewriteSummary:
    """Numbers of all rewrites of one bias in one direction, each with n and a prompt-clustered 95% interval.

    `lost` are failures of which only the number was kept, `available` the rewrites before a sample was drawn, and
    `with_failed` says that failed rewrites are among the rows.
    """
    written = [row for row in rows if row.seen.rewrite is not None]
    labelled = [row for row in written if row.label.flipped is not None]
    scored = [row for row in rows if row.seen.difference is not None]
    accepted = [row for row in written if row.seen.failed is None]
    direction = rows[0].seen.direction
    failures = [row.seen.failed for row in rows if row.seen.failed is not None]
    failed = _share([row.seen.failed is not None for row in rows], rows)
    differences = [row.seen.difference or 0.0 for row in scored]
    return RewriteSummary(
        bias=bias.name,
        direction=direction,
        n=len(rows),
        n_prompts=len(set(_prompts(rows))),
        available=available,
        n_written=len(written),
        sources=count_reasons([row.seen.source for row in rows]),
        labelled_by=count_reasons([str(row.label.by) for row in labelled]),
        flipped=_share([row.label.flipped is True for row in labelled], labelled),
        had_it_before=sum(row.label.before == (direction == "add") for row in labelled),
        failed=failed if with_failed else Missing(reason="only what succeeded was kept"),
        failed_reasons=count_reasons(failures),
        lost=tuple(lost),
        rejected=_share([bool(row.rejected) for row in accepted], accepted),
        rejected_reasons=count_reasons([row.rejected[0] for row in accepted if row.rejected]),
        noticed=count_reasons([reason for row in written for reason in row.noticed]),
        reward=or_missing(lambda: bootstrap_mean(differences, _prompts(scored), _rng(seed)).estimate(unit))
        if scored
        else Missing(reason="no rewards"),
        n_without_reward=len(written) - len(scored),
        drift=or_missing(partial(_drift, written, bias, seed)),
        phrases=tuple(_phrases(written)),
    )


def _drift(rows: Sequence[Looked], bias: Bias, seed: int) -> tuple[FeatureDrift, ...]:
    names = list(rows[0].features) if rows else []
    before, after = ({name: np.array([row.features[name][at] for row in rows]) for name in names} for at in (0, 1))
    drift = feature_drift(after, before, _prompts(rows), _rng(seed), limits=_limits(bias), treatment=bias.treatment)
    return tuple(drift)


def _phrases(rows: Sequence[Looked]) -> Iterator[PhraseAdded]:
    """Phrases that at least two rewrites and a tenth of all hold, and no original."""
    least = max(2, int(np.ceil(_RARE * len(rows))))
    for phrase in added_phrases([row.seen.original for row in rows], [str(row.seen.rewrite) for row in rows], least):
        held = set(phrase.rows)
        yield PhraseAdded(words=phrase.words, share=_share([at in held for at in range(len(rows))], rows))


def _share(hits: Sequence[bool], rows: Sequence[Looked]) -> Estimate | Missing:
    return or_missing(lambda: wilson_share(hits, _prompts(rows))) if rows else Missing(reason="none")


def _prompts(rows: Sequence[Looked]) -> list[str]:
    return [prompt_id(row.seen.prompt) for row in rows]


def _rng(seed: int) -> np.random.Generator:
    return generator(seed, Stream.INTERVALS)
