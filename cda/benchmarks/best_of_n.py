"""`cda best-of`: score sampled responses, follow attributes (biases by their measures, features, a reference
quality) through the best of n in closed form, write the result."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cda.arrays import FloatArray
from cda.biases import Bias, load_bias
from cda.errors import DataError, RecipeError, did_you_mean
from cda.features import TEXT_FEATURES, measure, scope_in_words
from cda.finetuning.applied import check_subject
from cda.inert import clipped, inert
from cda.jobs.perform import Job, Made, ResultsFolder, perform
from cda.provenance import versions
from cda.recipe.load import LoadedRecipe
from cda.records import Exclusions, prompt_id
from cda.resources.artifacts import as_given, shown_path, shown_target
from cda.resources.named_scorer import Subject, scorer_settings
from cda.resources.scorers import open_scorer, planned_verdicts
from cda.resources.sources import sampled_responses
from cda.results.base import Missing, or_missing
from cda.results.benchmarks import (
    AskedModel,
    AtSize,
    AtTilt,
    BestOfResult,
    Curve,
    Curves,
    Followed,
    Measured,
    NoSpread,
    Tilt,
    TiltedAttribute,
    TiltedPolicy,
)
from cda.results.effects import T_TEST
from cda.results.facts import Scorer
from cda.rewriting.labels import exhibits, measure_of
from cda.run import file_fingerprint
from cda.scorers.compared import Rewards, Text, text_id, with_rewards
from cda.stats.draws import drawn
from cda.stats.means import without_traces
from cda.stats.multiplicity import holm
from cda.stats.picks import kl_at_most, pick_probabilities
from cda.stats.tilt import Padded, Tilted, fewest_effective, mean_over_prompts, share_over_prompts


@dataclass(frozen=True, slots=True, eq=False)
class Attribute:
    """A property of responses, with its definition: the share that exhibits a bias (1 or 0), or the mean of a feature or
    quality in its own unit. Values (n_responses,); NaN is unknown, and leaves its prompt out of this attribute."""

    name: str
    kind: Followed
    values: FloatArray
    definition: str = ""

    @property
    def unit(self) -> str:
        return "share" if self.kind == "share" else self.name


def followed_attributes(
    names: Sequence[str], features: Sequence[str], betas: Sequence[float] = ()
) -> tuple[list[Bias], list[str]]:
    """Biases that a response exhibits or not by itself, and names of the features to average; each once. RecipeError (all
    listed): a bias that is unknown or cannot be measured, an unknown feature, a β that is not above 0."""
    problems = [f"β {beta:g}: give a finite number above 0, in reward units" for beta in betas if not 0 < beta < np.inf]
    shares, relative, own = [], [], []
    for name in dict.fromkeys(names):
        try:
            bias = load_bias(name)
            measure = measure_of(bias)
        except RecipeError as error:
            problems += error.problems
            continue
        own.append(bias.name)
        if measure.relative:
            relative.append(measure.feature)
        else:
            shares.append(bias)
    means = list(dict.fromkeys([*relative, *features]))
    problems += [
        f"feature '{name}' is not one of a text alone.{did_you_mean(name, TEXT_FEATURES)} Known: {', '.join(TEXT_FEATURES)}"
        for name in means
        if name not in TEXT_FEATURES
    ]
    problems += [
        f"two things are called '{name}': rename one of the biases"
        for name in sorted({name for name in own if own.count(name) > 1 or name in {*means, "quality"}})
    ]
    if not (shares or means):
        problems.append("nothing to follow: name a bias or a feature")
    if problems:
        raise RecipeError(problems)
    return shares, means


def attributes_of(shares: Sequence[Bias], means: Sequence[str], texts: Sequence[str]) -> list[Attribute]:
    """Shares of biases, then means of features; each is measured once per distinct text."""

    def values(name: str, feature: str, measure: Callable[[str], float | None]) -> FloatArray:
        by_text = {text: measure(text) for text in dict.fromkeys(texts)}
        found = np.array([by_text[text] for text in texts], dtype=np.float64)  # None becomes NaN
        if n := int(np.isnan(found).sum()):
            first = clipped(inert(texts[int(np.isnan(found).argmax())]), 30)
            raise DataError(
                f"{name}: {feature.replace('_', ' ')} holds in {scope_in_words(feature)} only, and {n} of {len(texts)} responses are "
                f"not; the first begins '{first}'. Follow another bias or feature, such as characters, or leave these out"
            )
        return found

    attributes = []
    for bias in shares:
        rule = measure_of(bias)
        limit = f"below {rule.present_below:g}" if rule.present_above is None else f"above {rule.present_above:g}"
        words = f"share of picks that exhibit it, that is {rule.feature.replace('_', ' ')} {limit}"
        attributes.append(
            Attribute(bias.name, "share", values(bias.name, rule.feature, partial(exhibits, bias=bias)), words)
        )
    for name in means:
        words = f"mean of {name.replace('_', ' ')} among the picks"
        attributes.append(Attribute(name, "mean", values(name, name, partial(measure, feature=name)), words))
    return attributes


GRID = tuple(2.0 ** (half / 2) for half in range(4, -5, -1))
"""β in standard deviations of rewards within prompts, from weak to strong: 4 to ¼."""

Tilts = Sequence[Mapping[str, Tilted | None]]
"""For each β, by scoring; None if the samples do not support it."""


def tilted(
    rewards: Mapping[str, ArrayLike],
    attributes: Sequence[Attribute],
    prompt_ids: Sequence[str],
    curves: Curves,
    betas: Sequence[float] = (),
    quality: Attribute | None = None,
) -> Tilt:
    """Attributes in the policy tilted to each scoring, on the prompts that reach the largest n of `curves`.

    Rewards have shape (n_responses,). β are `GRID`, in standard deviations of each scoring's own rewards within prompts, so that
    a reward that was only stretched is optimised as far; then `betas`, in reward units. Intervals and tests are over prompts, as
    those of best-of-n; the test of the change is at the strongest β of `GRID` that the samples support under every scoring.

    Raises:
        DataError: Rewards that do not differ within any prompt, or no β that the samples support.
    """
    scored = {label: np.asarray(values, dtype=np.float64) for label, values in rewards.items()}
    samples = Padded.by_prompt(prompt_ids, curves.sizes[-1])
    deviations = {label: samples.spread(values) for label, values in scored.items()}
    if alike := [label for label, deviation in deviations.items() if not deviation]:
        raise DataError(f"the rewards ({' and '.join(alike)}) are the same for all responses of a prompt")
    steps = [{label: beta * deviation for label, deviation in deviations.items()} for beta in GRID]
    steps += [dict.fromkeys(scored, beta) for beta in sorted(betas, reverse=True)]
    needed = fewest_effective(samples.n)
    policies, tilts = [], []
    for step in steps:
        made = {label: Tilted(values, step[label], samples) for label, values in scored.items()}
        kept = {label: tilt if tilt.effective.mean() >= needed else None for label, tilt in made.items()}
        policies.append({
            label: _policy(tilt, kept[label] is not None, scored[label], step[label], deviations[label])
            for label, tilt in made.items()
        })  # fmt: skip
        tilts.append(kept)
    supported = [place for place, tilt in enumerate(tilts[: len(GRID)]) if None not in tilt.values()]
    if not supported:
        raise DataError(f"{samples.n.mean():g} responses to a prompt are too few for any β")
    strongest, kept_names = max(supported), {curve.name for curve in curves.attributes}
    found = [_attribute(each, tilts, samples, strongest) for each in attributes if each.name in kept_names]
    if tested := [each.p_value for each in found if each.p_value is not None]:
        found = [each.model_copy(update={"p_holm": p}) for each, p in zip(found, holm(tested), strict=True)]
    reference: TiltedAttribute | Missing = Missing(reason="no response has a quality that can be used")
    if quality is not None:
        reference = or_missing(partial(_attribute, quality, tilts, samples, strongest))
    return Tilt(
        n_prompts=len(samples.n),
        n_responses=int(samples.n.sum()),
        fewest_effective=needed,
        reward_sd=deviations,
        policies=tuple(policies),
        n_asked=len(betas),
        strongest=strongest,
        attributes=tuple(found),
        quality=reference,
    )


def _policy(tilt: Tilted, supported: bool, rewards: FloatArray, beta: float, deviation: float) -> TiltedPolicy:
    effective, n = float(tilt.effective.mean()), int(tilt.samples.n.sum())
    kl: Measured | Missing = _unsupported(effective)
    gained: Measured | Missing = kl
    if supported:
        kl = _mean(tilt.kl_nats(), "nats", n)
        gained = _mean(tilt.gains(rewards) / deviation, "standard deviations", n)
    return TiltedPolicy(beta=beta, beta_sd=beta / deviation, effective=effective, kl_nats=kl, reward_gained=gained)


def _mean(values: FloatArray, unit: str, n: int) -> Measured:
    """Mean over prompts, shape (n_prompts,), of n responses."""
    found = mean_over_prompts(values, unit)
    if not found.error:
        reason = f"the same in each of {len(values)} prompts, so that nothing is known of how far others differ"
        return NoSpread(value=found.estimate.value, reason=reason)
    return found.estimate.model_copy(update={"n": n})


def _unsupported(effective: float | None = None) -> Missing:
    of = "" if effective is None else f": {effective:.1f} effective responses to a prompt"
    return Missing(reason=f"not supported by these samples{of}")


def _attribute(attribute: Attribute, tilts: Tilts, samples: Padded, strongest: int) -> TiltedAttribute:
    """An attribute at each β. DataError if it is known for fewer than two prompts."""
    sampled = samples.means(attribute.values)
    known = ~np.isnan(sampled)
    if known.sum() < 2:
        raise DataError(f"{attribute.name}: known for {int(known.sum())} prompts with enough responses; two are needed")
    n = int(samples.n[known].sum())
    level = share_over_prompts if attribute.kind == "share" else _mean
    means = [
        {label: None if tilt is None else tilt.means(attribute.values)[known] for label, tilt in step.items()}
        for step in tilts
    ]

    def at_tilt(step: Mapping[str, FloatArray | None]) -> AtTilt:
        levels = {
            label: _unsupported() if values is None else level(values, attribute.unit, n)
            for label, values in step.items()
        }
        return AtTilt(scorings=levels, change=_change(step, attribute, n))

    difference = _difference(means[strongest])
    p_value = None if difference is None else mean_over_prompts(difference, "").p_value()
    return TiltedAttribute(
        name=attribute.name,
        kind=attribute.kind,
        unit=attribute.unit,
        sampled=level(sampled[known], attribute.unit, n),
        at=tuple(at_tilt(step) for step in means),
        p_value=p_value,
        p_holm=None,
        p_method=None if p_value is None else T_TEST,
    )


def _change(step: Mapping[str, FloatArray | None], attribute: Attribute, n: int) -> Measured | Missing | None:
    """Second scoring − first, paired by prompt; None with one scoring."""
    if len(step) < 2:
        return None
    difference = _difference(step)
    unit = "share difference" if attribute.kind == "share" else attribute.unit
    return _unsupported() if difference is None else _mean(difference, unit, n)


def _difference(step: Mapping[str, FloatArray | None]) -> FloatArray | None:
    match tuple(step.values()):
        case (np.ndarray() as first, np.ndarray() as second):
            return without_traces(second - first, first)
    return None


BIASES = ("jargon", "length", "structure", "sycophancy", "vagueness")
FEATURES = ("words", "list_lines", "long_word_share")
SCORES = "scores.jsonl"


def run_best_of_n(
    responses: str,
    subjects: Sequence[Subject],
    loaded: LoadedRecipe,
    *,
    out: Path,
    biases: Sequence[str] = BIASES,
    features: Sequence[str] = FEATURES,
    sizes: Sequence[int] | None = None,
    betas: Sequence[float] = (),
    columns: Mapping[str, str] | None = None,
    split: str = "train",
    figures: str | None = None,
    limit: int | None = None,
) -> BestOfResult:
    """Prevalence of each attribute among the best of n as n grows, and in the policy tilted to the reward as β falls, of one
    model or of two that are compared, written into `out`. A bias with an absolute measure is
    followed as a share of picks, a relative one (length) and a feature by its mean. `betas` (reward units) are tilts to look at
    besides the usual ones. RecipeError (all listed): a bias that is unknown or cannot be measured, an unknown feature, a β that
    is not above 0; or another format of figures. DataError: the file cannot be used, or too few prompts reach an n. ModelError: a model cannot be
    loaded, or a reward is not finite."""
    shares, means = followed_attributes(biases, features, betas)
    sampled, settings = sampled_responses(responses, columns, split), scorer_settings(loaded)
    prompts_read = drawn(sampled.prompts, limit, loaded.recipe.seed)
    for subject in subjects:
        check_subject(subject, settings, singly=True)
    texts = [(row.prompt, text) for row in prompts_read for text in row.responses]
    n_read, n_all = len(prompts_read), len(sampled.prompts)
    of = f"{n_read}" if n_read == n_all else f"{n_read} of {n_all}"

    def plan() -> list[str]:
        n = sum(len(row.responses) for row in prompts_read)
        return [
            *(subject.planned for subject in subjects),
            f"responses   {responses}: {n} responses to {of} prompts (rows: {sampled.rows})",
            f"follows     {', '.join([*(bias.name for bias in shares), *means])}",
        ]

    def work(_: Path) -> Made[BestOfResult]:
        scored: dict[str, Rewards] = {}
        models = {}
        for subject in subjects:
            scores, facts = open_scorer(subject, settings, settings.shared_folder).score(texts)
            scored[subject.label], models[subject.label] = scores, _asked(subject, facts)
        kept, unscored = with_rewards(texts, scored)
        if not kept:
            raise DataError(f"{responses}: no response has a reward by every scoring; responses: {unscored}")
        quality = None
        if sampled.has_quality:
            grades = [grade for row in prompts_read for grade in row.quality]
            values = np.array([grades[row] for row in kept], dtype=np.float64)  # None becomes NaN
            quality = Attribute("quality", "mean", values, "the reference quality in the file")
        read = [texts[row] for row in kept]
        rewards = {label: [scores.of(*text) for text in read] for label, scores in scored.items()}
        attributes, prompts = (
            attributes_of(shares, means, [text for _, text in read]),
            [prompt_id(prompt) for prompt, _ in read],
        )
        curves = best_of_n(rewards, attributes, prompts, sizes, quality)
        if not curves.curves:
            raise DataError(
                f"{responses}: no prompt has responses that differ in {', '.join(curves.unvaried)}; nothing to follow"
            )
        left_out = {"rows": sampled.rows, "responses": sampled.responses, "quality": sampled.quality}
        if n_more := len(sampled.prompts) - len(prompts_read):
            left_out["prompts"] = Exclusions(len(sampled.prompts), {"not drawn (--limit)": n_more})
        result = BestOfResult(
            **dict(curves),
            tilt=or_missing(partial(tilted, rewards, attributes, prompts, curves, betas, quality)),
            responses=shown_path(responses),
            scorings=tuple(scored),
            models=models,
            n_repeated=sampled.n_repeated,
            excluded={**left_out, "scored responses": unscored},
            versions=versions(),
        )
        names = as_given(responses, *(each for subject in subjects for each in (subject.name, subject.adapter)))
        return Made(result, {SCORES: _rows(read, rewards, attributes, quality)}, names=names)

    costs = partial(planned_verdicts, subjects, settings, [(prompt, text, text) for prompt, text in texts])
    return perform(Job(plan, work, ResultsFolder(out, BestOfResult.made_by), costs), loaded, figures)


def _asked(subject: Subject, facts: Scorer) -> AskedModel:
    name, adapter = shown_target(subject.name), subject.adapter
    return AskedModel(
        model=name,
        adapter=None if adapter is None else shown_path(adapter),
        adapter_content=None if adapter is None else file_fingerprint(adapter),
        dose=subject.dose,
        facts=facts.model_copy(update={"name": name}),
    )


def _rows(
    texts: Sequence[Text],
    rewards: Mapping[str, Sequence[float]],
    attributes: Sequence[Attribute],
    quality: Attribute | None,
) -> Iterator[dict[str, object]]:
    for at, (prompt, text) in enumerate(texts):
        row = {"prompt_id": prompt_id(prompt), "response_id": text_id(prompt, text)}
        by_scoring = {f"reward_{label}": values[at] for label, values in rewards.items()}
        own = {attribute.name: float(attribute.values[at]) for attribute in attributes}
        grade = {} if quality is None else {"quality": None if np.isnan(quality.values[at]) else quality.values[at]}
        yield {**row, **by_scoring, "attributes": own, **grade}


def usual_sizes(n_responses: Sequence[int]) -> tuple[int, ...]:
    """1, 2, 4, 8, … as far as half of the prompts, and at least two, have so many responses; `n_responses` is per prompt."""
    needed = max(2, math.ceil(len(n_responses) / 2))
    powers = [2**exponent for exponent in range(max(n_responses).bit_length())]
    return tuple(n for n in powers if n == 1 or sum(own >= n for own in n_responses) >= needed)


def best_of_n(
    rewards: Mapping[str, ArrayLike],
    attributes: Sequence[Attribute],
    prompt_ids: Sequence[str],
    sizes: Sequence[int] | None = None,
    quality: Attribute | None = None,
) -> Curves:
    """Attributes of the highest-reward response among n, as n grows, under one or two scorings (rewards of shape (n_responses,)).

    Prompts are the unit: intervals and tests are over prompts, each of which counts once at every n that it reaches. Shares
    have Wilson's interval with an effective n (`share_over_prompts`), all else Student's t over prompts; the test of the change
    at the largest n is the paired t test, with Holm's correction over the attributes, to which the quality does not belong.
    Sizes are `usual_sizes` if none are given, else 1 and those.

    Raises:
        DataError: Fewer than two prompts with two responses, or an n that fewer than two prompts reach.
    """
    scored = {label: np.asarray(values, dtype=np.float64) for label, values in rewards.items()}
    codes, n_each = np.unique(np.asarray(prompt_ids, dtype=str), return_inverse=True, return_counts=True)[1:]
    prompts = np.split(np.argsort(codes, kind="stable"), np.cumsum(n_each)[:-1])
    chosen = usual_sizes(n_each.tolist()) if sizes is None else tuple(sorted({1, *sizes}))
    short = [str(n) for n in chosen if n < 1 or (n_each >= n).sum() < 2]
    if short or len(chosen) < 2:
        raise DataError(
            f"best of n = {', '.join(short) or 'more than 1'}: two prompts at least need so many responses; of {len(n_each)} "
            f"prompts, the largest has {n_each.max(initial=0)}, the median one {np.median(n_each) if len(n_each) else 0:g}"
        )
    weights = {
        label: [pick_probabilities(values[rows], [n for n in chosen if n <= len(rows)]) for rows in prompts]
        for label, values in scored.items()
    }

    def curve(attribute: Attribute) -> Curve:
        picks = _expected_picks(attribute.values, weights, prompts, len(chosen))
        return _curve(attribute, picks, n_each, chosen)

    varied = [each for each in attributes if any(np.ptp(each.values[rows]) > 0 for rows in prompts)]  # NaN is no spread
    curves = [curve(attribute) for attribute in varied]
    if tested := [followed.p_value for followed in curves if followed.p_value is not None]:
        curves = [followed.model_copy(update={"p_holm": p}) for followed, p in zip(curves, holm(tested), strict=True)]
    reference: Curve | Missing = Missing(reason="no response has a quality that can be used")
    if quality is not None:
        reference = or_missing(partial(curve, quality))
    return Curves(
        attributes=tuple(curves),
        quality=reference,
        unvaried=tuple(attribute.name for attribute in attributes if attribute not in varied),
        sizes=chosen,
        n_prompts=len(prompts),
        n_responses=len(prompt_ids),
        responses_per_prompt=(int(n_each.min()), float(np.median(n_each)), int(n_each.max())),
    )


def _expected_picks(
    values: FloatArray, weights: Mapping[str, Sequence[FloatArray]], prompts: Sequence[NDArray[np.intp]], n_sizes: int
) -> dict[str, FloatArray]:
    """Expected value of the pick, shape (n_prompts, n_sizes) per scoring; NaN if n is not reached or a value unknown."""
    picks = {label: np.full((len(prompts), n_sizes), np.nan) for label in weights}
    for at, rows in enumerate(prompts):
        if np.isnan(values[rows]).any():
            continue  # a matrix product may take 0 · NaN for 0
        for label, probabilities in weights.items():
            picks[label][at, : len(probabilities[at])] = probabilities[at] @ values[rows]
    return picks


def _curve(
    attribute: Attribute, picks: Mapping[str, FloatArray], n_each: NDArray[np.int64], sizes: Sequence[int]
) -> Curve:
    """An attribute's curve from its expectation by prompt, shape (n_prompts, n_sizes) per scoring."""
    first, *others = picks.values()
    difference = without_traces(others[0] - first, first) if others else None
    known = ~np.isnan(first[:, 0])
    level = share_over_prompts if attribute.kind == "share" else _mean
    unit = "share difference" if attribute.kind == "share" else attribute.unit
    complete = np.flatnonzero(known & (n_each >= sizes[-1]))
    if len(complete) < 2:
        raise DataError(
            f"{attribute.name}: known for {len(complete)} prompts with {sizes[-1]} responses: two at least are needed to say "
            "how far prompts differ"
        )

    def levels(kept: NDArray[np.intp], position: int) -> dict[str, Measured]:
        total = int(n_each[kept].sum())
        return {label: level(values[kept, position], attribute.unit, total) for label, values in picks.items()}

    def at_size(position: int, n: int) -> AtSize:
        kept, change = np.flatnonzero(known & (n_each >= n)), None
        if difference is not None and n > 1:
            change = _mean(difference[kept, position], unit, int(n_each[kept].sum()))
        return AtSize(
            n=n,
            kl_nats=kl_at_most(n),
            n_prompts=len(kept),
            n_too_few=int((known & (n_each < n)).sum()),
            scorings=levels(kept, position),
            complete=levels(complete, position),
            change=change,
        )

    doublings = np.log2(sizes) - np.log2(sizes).mean()
    contrast = doublings / (doublings @ doublings)

    def slope(values: FloatArray, traces_of: FloatArray) -> Measured:
        added = without_traces(values[complete] @ contrast, traces_of[complete])
        return _mean(added, f"{unit} per doubling of n", int(n_each[complete].sum()))

    p_value = None if difference is None else mean_over_prompts(difference[complete, -1], "").p_value()
    return Curve(
        name=attribute.name,
        kind=attribute.kind,
        unit=attribute.unit,
        definition=attribute.definition,
        at=tuple(at_size(position, n) for position, n in enumerate(sizes)),
        slope={label: slope(values, values) for label, values in picks.items()},
        slope_change=None if difference is None else slope(difference, first),
        p_value=p_value,
        p_holm=None,
        p_method=None if p_value is None else T_TEST,
        n_unknown=int((~known).sum()),
    )
