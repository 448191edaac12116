"""Counterfactual pairs (the chosen response over the rejected one with the bias added), the unchanged pairs next to them, and
the training examples that the objectives make of them and of contrasts."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from cda.biases import Bias
from cda.features import n_words
from cda.recipe.schema import ObjectiveSection
from cda.records import (
    Contrast,
    Exclusions,
    LabelledPair,
    Pair,
    Rewrite,
    RewriteRequest,
    Split,
    TrainingExample,
    TrainingPair,
    count_reasons,
    prompt_id,
    text_key,
)
from cda.rewriting.fidelity import is_unchanged
from cda.rewriting.labels import exhibits
from cda.rewriting.rewriter import Rewriter

Row = TypeVar("Row", bound=Contrast | LabelledPair)
BATCH = 500
IN_AUDIT = "prompt is in the audit"
_ENOUGH_TO_JUDGE = 50
_MOST_TRIES_PER_PAIR = 3


@dataclass(frozen=True, slots=True)
class Counterfactuals:
    """Counterfactual pairs of one bias, in the order they were drawn; `biased_chosen`: by the id of their source, the chosen response
    rewritten to carry the bias, if that was asked for."""

    pairs: tuple[TrainingPair, ...]
    eligible: int
    """Number of pairs that could become a counterfactual pair."""
    exclusions: Exclusions
    """Number of tried rewrites, and failed ones by reason."""
    biased_chosen: Mapping[str, str] = field(default_factory=dict)


def eligible_pairs(rows: Sequence[LabelledPair], bias: Bias) -> list[LabelledPair]:
    """Pairs that can become counterfactuals of the bias."""
    if bias.eligible == "chosen_longer":
        return [row for row in rows if n_words(row.pair.chosen) > n_words(row.pair.rejected)]
    return [row for row in rows if row.labels[bias.name] == {"chosen": False, "rejected": False}]


def make_counterfactuals(
    rows: Sequence[LabelledPair],
    bias: Bias,
    rewriter: Rewriter,
    requested: int | None,
    rng: np.random.Generator,
    check_measure: bool,
    *,
    specific_chosen: bool = False,
    balanced: bool = False,
    stop_above: float = 1.0,
    batch_size: int | None = BATCH,
) -> Counterfactuals:
    """Draw eligible pairs, rewrite their rejected side, keep the rewrites that carry the bias.

    Failed rewrites are replaced by further eligible pairs, in batches of `batch_size` (None: all that are missing, for
    the Batch API, where each round takes a day), until the pairs run out, three times the requested pairs (None: every
    eligible one) were tried, or more than the share `stop_above` of the tried failed. `check_measure`: a rewrite must
    exhibit the bias as measured (off if an LLM labelled it). `specific_chosen`: also rewrite the chosen side with the
    bias's opposite (vagueness: more specific), so that the sides differ more; `balanced`: also rewrite the chosen side to carry the bias,
    for a pair that prefers it. If either fails, the pair is dropped.
    """
    return _made(
        eligible_pairs(rows, bias), bias, rewriter, requested, rng, check_measure,
        specific_chosen=specific_chosen, balanced=balanced, stop_above=stop_above, batch_size=batch_size,
    )  # fmt: skip


def make_anchors(
    rows: Sequence[LabelledPair],
    bias: Bias,
    rewriter: Rewriter,
    requested: int,
    rng: np.random.Generator,
    *,
    batch_size: int | None = BATCH,
) -> Counterfactuals:
    """Rejected responses, each with the version of it that carries a bias which is not taught, as `make_counterfactuals` draws and checks
    them. Without a label of the bias, one that exhibits it as measured is left out."""
    alone = [replace(row, pair=replace(row.pair, chosen=row.pair.rejected)) for row in rows]
    pool = [
        row for row in alone if bias.measure is None or bias.measure.relative or not exhibits(row.pair.rejected, bias)
    ]
    return _made(pool, bias, rewriter, requested, rng, check_measure=True, batch_size=batch_size)


def _made(
    pool: Sequence[LabelledPair],
    bias: Bias,
    rewriter: Rewriter,
    requested: int | None,
    rng: np.random.Generator,
    check_measure: bool,
    *,
    specific_chosen: bool = False,
    balanced: bool = False,
    stop_above: float = 1.0,
    batch_size: int | None,
) -> Counterfactuals:
    order = [pool[index] for index in rng.permutation(len(pool))]
    most = len(order) if requested is None else min(len(order), _MOST_TRIES_PER_PAIR * requested)
    made: list[TrainingPair] = []
    biased: dict[str, str] = {}
    reasons: list[str] = []
    tried = 0
    while tried < most and (requested is None or len(made) < requested):
        missing = most if requested is None else requested - len(made)
        batch = order[tried : min(tried + min(missing, batch_size or missing), most)]
        tried += len(batch)
        results = _rewritten(batch, bias, rewriter, check_measure)
        if balanced:
            biased |= _chosen_too(batch, results, bias, rewriter, check_measure)
        if specific_chosen:
            _made_specific(results, bias, rewriter, check_measure)
        for row, result in zip(batch, results, strict=True):
            if isinstance(result, str):
                reasons.append(result)
            else:
                made.append(TrainingPair(TrainingExample(result), row.split, "counterfactual", bias.name, row.pair.id))
        if tried >= _ENOUGH_TO_JUDGE and len(reasons) > stop_above * tried:
            break
    kept_ids = {row.source_id for row in made}
    biased = {name: text for name, text in biased.items() if name in kept_ids}
    return Counterfactuals(tuple(made), len(pool), Exclusions(tried, count_reasons(reasons)), biased)


def _rewritten(batch: Sequence[LabelledPair], bias: Bias, rewriter: Rewriter, check_measure: bool) -> list[Pair | str]:
    """The counterfactual of each pair, or the reason why there is none."""
    requests = [RewriteRequest(row.pair.prompt, row.pair.rejected, "add", row.pair.chosen) for row in batch]
    return [
        _counterfactual(row.pair, rewrite, bias, check_measure)
        for row, rewrite in zip(batch, rewriter.rewrite(requests, bias), strict=True)
    ]


def _chosen_too(
    batch: Sequence[LabelledPair], results: list[Pair | str], bias: Bias, rewriter: Rewriter, check_measure: bool
) -> dict[str, str]:
    """The chosen side of each pair with the bias added, by the pair's id; where that fails, its reason takes the place of the counterfactual."""
    swapped = [
        (at, Pair(row.pair.prompt, row.pair.rejected, row.pair.chosen))
        for at, row in enumerate(batch)
        if isinstance(results[at], Pair)
    ]
    requests = [RewriteRequest(pair.prompt, pair.rejected, "add", pair.chosen) for _, pair in swapped]
    found = {}
    for (at, pair), rewrite in zip(swapped, rewriter.rewrite(requests, bias), strict=True):
        made = _counterfactual(pair, rewrite, bias, check_measure)
        if isinstance(made, str):
            results[at] = f"chosen side: {made}"
        else:
            found[batch[at].pair.id] = made.rejected
    return found


def _made_specific(results: list[Pair | str], bias: Bias, rewriter: Rewriter, check_measure: bool) -> None:
    """Rewrite the chosen sides with the bias's opposite, in place."""
    kept = [(number, pair) for number, pair in enumerate(results) if isinstance(pair, Pair)]
    chosen = [RewriteRequest(pair.prompt, pair.chosen, "remove", flips=False) for _, pair in kept]
    for (number, pair), rewrite in zip(kept, rewriter.rewrite(chosen, bias), strict=True):
        if rewrite.text is None:
            results[number] = f"chosen side: {rewrite.reason}"
        elif any(is_unchanged(rewrite.text, side, bias) for side in (pair.chosen, pair.rejected)):
            results[number] = "chosen side: unchanged"
        elif check_measure and bias.shows(rewrite.text, pair.rejected):
            results[number] = "chosen side: exhibits the bias"
        else:
            results[number] = Pair(pair.prompt, rewrite.text, pair.rejected)


def _counterfactual(pair: Pair, rewrite: Rewrite, bias: Bias, check_measure: bool) -> Pair | str:
    """The pair with its rejected side rewritten, or the reason why the rewrite cannot be used."""
    if rewrite.text is None:
        return rewrite.reason or "no text"
    if any(is_unchanged(rewrite.text, side, bias) for side in (pair.rejected, pair.chosen)):
        return "unchanged"
    ratio = bias.min_words_of_chosen
    if ratio is not None and n_words(rewrite.text) < ratio * n_words(pair.chosen):
        return f"shorter than {ratio:g} times the chosen side"
    if check_measure and bias.measure is not None and exhibits(rewrite.text, bias, pair.chosen) is False:
        return "bias not measurable in the rewrite"
    return Pair(pair.prompt, pair.chosen, rewrite.text)


Combination = tuple[bool, bool]


def _combination(row: LabelledPair, bias: Bias) -> tuple[bool | None, bool | None]:
    labels = row.labels[bias.name]
    return labels["chosen"], labels["rejected"]


def label_frequencies(rows: Sequence[LabelledPair], bias: Bias) -> dict[Combination, int]:
    """Count of each (chosen exhibits, rejected exhibits); unparsed labels are left out."""
    counts = Counter(_combination(row, bias) for row in rows)
    return {(a, b): counts[a, b] for a in (True, False) for b in (True, False)}


def proportional_quota(frequencies: dict[Combination, int], total: int) -> dict[Combination, int]:
    """Whole numbers that sum to `total` in the given proportions (largest remainders; ties by combination).

    >>> proportional_quota({(True, True): 1, (True, False): 1, (False, True): 0, (False, False): 2}, 5)
    {(True, True): 1, (True, False): 1, (False, True): 0, (False, False): 3}
    """
    observed = sum(frequencies.values())
    if not observed:
        return dict.fromkeys(frequencies, 0)
    exact = {key: total * count / observed for key, count in frequencies.items()}
    quota = {key: int(value) for key, value in exact.items()}
    by_remainder = sorted(exact, key=lambda key: (quota[key] - exact[key], key))
    for key in by_remainder[: total - sum(quota.values())]:
        quota[key] += 1
    return quota


def draw_supplementary(
    source: Sequence[LabelledPair],
    bias: Bias,
    frequencies: dict[Combination, int],
    requested: int,
    taken: set[tuple[str, ...]],
    rng: np.random.Generator,
) -> list[TrainingPair]:
    """Draw unchanged pairs so that label combinations occur as often as in `frequencies`; fewer if one runs short.
    `taken`: `text_key` of prompt, chosen and rejected of pairs used as counterfactuals; they are not drawn again.
    """
    drawn: list[TrainingPair] = []
    for combination, quota in proportional_quota(frequencies, requested).items():
        pool = [
            row
            for row in source
            if _combination(row, bias) == combination
            and text_key(row.pair.prompt, row.pair.chosen, row.pair.rejected) not in taken
        ]
        for index in rng.permutation(len(pool))[:quota]:
            row = pool[index]
            drawn.append(TrainingPair(TrainingExample(row.pair), row.split, "supplementary", bias.name, row.pair.id))
    return drawn


def counterfactual_examples(
    counterfactuals: Counterfactuals, rows: Sequence[LabelledPair], objectives: Sequence[ObjectiveSection]
) -> Iterator[TrainingPair]:
    """Each counterfactual of `rows` under every objective: against the chosen response, against its original, and the chosen response with
    the bias against the original."""
    originals = {row.pair.id: row.pair for row in rows}
    for made in counterfactuals.pairs:
        original, prompt, bias = originals[made.source_id], made.pair.prompt, str(made.bias)
        for objective in objectives:
            if objective.kind == "pairs":
                yield replace(made, example=objective.example(made.pair, bias))
            elif objective.kind == "balanced":
                better = Pair(prompt, counterfactuals.biased_chosen[made.source_id], original.rejected)
                yield replace(made, example=objective.example(better, bias), kind="balanced")
            elif objective.kind != "keep":
                same_response = Pair(prompt, original.rejected, made.pair.rejected)
                yield replace(made, example=objective.example(same_response, bias), kind=objective.kind)


def contrast_examples(
    contrasts: Iterable[Contrast],
    splits: Mapping[str, Split],
    biases: Sequence[str],
    objectives: Sequence[ObjectiveSection],
) -> Iterator[TrainingPair]:
    """Contrasts under the objectives that are about one response and its biased version; `splits` by `prompt_id`. Those
    not of the debiased `biases` are taught only by `keep`: there the base model's preference is to stay.
    """
    for contrast in contrasts:
        pair, split = Pair(contrast.prompt, contrast.base, contrast.perturbed), splits[prompt_id(contrast.prompt)]
        for objective in objectives:
            example = objective.example(pair, contrast.bias)
            if contrast.bias in biases and objective.kind in ("paired", "neutral", "shift"):
                yield TrainingPair(example, split, objective.kind, contrast.bias, contrast.id)
            elif contrast.bias not in biases and objective.kind == "keep":
                yield TrainingPair(example, split, "contrast", contrast.bias, contrast.id)


def second_turn_examples(
    rows: Iterable[LabelledPair], objectives: Sequence[ObjectiveSection]
) -> Iterator[TrainingPair]:
    """Conversations, each labelled for one bias, under the first of `pairs` and `paired` that the recipe has: their two answers are
    a response and its own biased version, so that both objectives would teach the same. None under other objectives."""
    preferring = [objective for objective in objectives if objective.kind in ("pairs", "paired")][:1]
    for row in rows:
        for bias, objective in itertools.product(row.labels, preferring):
            yield TrainingPair(objective.example(row.pair, bias), row.split, "second_turn", bias, row.pair.id)


def unchanged_examples(pairs: Iterable[TrainingPair], objectives: Sequence[ObjectiveSection]) -> list[TrainingPair]:
    """Supplementary pairs: taught as labelled, or kept as the base model has them if the recipe asks for `keep`."""
    keep = next((objective for objective in objectives if objective.kind == "keep"), None)
    if keep is None:
        return list(pairs)
    return [replace(row, example=keep.example(row.pair, str(row.bias))) for row in pairs]


def weighted_examples(mix: Iterable[TrainingPair], weights: Mapping[str, float]) -> list[TrainingPair]:
    """The training mix with the weights of its unchanged pairs, by the id of their source, times that of their objective.

    They are scaled to a mean of 1 over the unchanged pairs of the training part (of the whole mix, if it has none), so that these
    weigh as much beside all other examples, which keep their weights, as without weights. No weight may be 0.
    """
    rows = list(mix)
    unchanged = [row for row in rows if row.kind == "supplementary"]
    own = [weights[row.source_id] for row in unchanged if row.split == "train"]
    own = own or [weights[row.source_id] for row in unchanged]
    mean = sum(own) / len(own) if own else 1.0

    def weighted(row: TrainingPair) -> TrainingPair:
        weight = row.example.weight * weights[row.source_id] / mean
        return replace(row, example=replace(row.example, weight=weight))

    return [weighted(row) if row.kind == "supplementary" else row for row in rows]


def teachable(rows: Sequence[Row], audited_prompts: set[str]) -> tuple[list[Row], Exclusions]:
    """Rows whose prompt (`prompt_id`) the audit does not measure on, and a count of the others, never trained on."""
    prompts = [row.pair.prompt if isinstance(row, LabelledPair) else row.prompt for row in rows]
    kept = [row for row, prompt in zip(rows, prompts, strict=True) if prompt_id(prompt) not in audited_prompts]
    return kept, Exclusions(len(rows), count_reasons([IN_AUDIT] * (len(rows) - len(kept))))


def assign_splits(
    contrasts: Sequence[Contrast], known: Mapping[str, Split], validation_share: float, rng: np.random.Generator
) -> dict[str, Split]:
    """Side of every contrast's prompt: one that has a side, as the preference pairs do, keeps it; of the others a share
    is drawn for validation, rounded to the nearest whole prompt.
    """
    ids = sorted({prompt_id(contrast.prompt) for contrast in contrasts})
    free = [name for name in ids if name not in known]
    held = set(rng.choice(free, size=round(validation_share * len(free)), replace=False).tolist()) if free else set()
    return {name: known.get(name, "validation" if name in held else "train") for name in ids}
