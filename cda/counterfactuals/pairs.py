"""Counterfactual pairs (the chosen response over the rejected one with the bias added), the unchanged pairs next to them, and
the training examples that the objectives make of them and of contrasts."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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
    """Counterfactual pairs of one bias, in the order they were drawn."""

    pairs: tuple[TrainingPair, ...]
    eligible: int
    """Number of pairs that could become a counterfactual pair."""
    exclusions: Exclusions
    """Number of tried rewrites, and failed ones by reason."""


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
    stop_above: float = 1.0,
    batch_size: int | None = BATCH,
) -> Counterfactuals:
    """Draw eligible pairs, rewrite their rejected side, keep the rewrites that carry the bias.

    Failed rewrites are replaced by further eligible pairs, in batches of `batch_size` (None: all that are missing, for
    the Batch API, where each round takes a day), until the pairs run out, three times the requested pairs (None: every
    eligible one) were tried, or more than the share `stop_above` of the tried failed. `check_measure`: a rewrite must
    exhibit the bias as measured (off if an LLM labelled it). `specific_chosen`: also rewrite the chosen side with the
    bias's opposite (vagueness: more specific), so that the sides differ more; if that fails, the pair is dropped.
    """
    pool = eligible_pairs(rows, bias)
    order = [pool[index] for index in rng.permutation(len(pool))]
    most = len(order) if requested is None else min(len(order), _MOST_TRIES_PER_PAIR * requested)
    made: list[TrainingPair] = []
    reasons: list[str] = []
    tried = 0
    while tried < most and (requested is None or len(made) < requested):
        missing = most if requested is None else requested - len(made)
        batch = order[tried : min(tried + min(missing, batch_size or missing), most)]
        tried += len(batch)
        for row, result in zip(batch, _rewritten(batch, bias, rewriter, check_measure, specific_chosen), strict=True):
            if isinstance(result, str):
                reasons.append(result)
            else:
                made.append(TrainingPair(TrainingExample(result), row.split, "counterfactual", bias.name, row.pair.id))
        if tried >= _ENOUGH_TO_JUDGE and len(reasons) > stop_above * tried:
            break
    return Counterfactuals(tuple(made), len(pool), Exclusions(tried, count_reasons(reasons)))


def _rewritten(
    batch: Sequence[LabelledPair], bias: Bias, rewriter: Rewriter, check_measure: bool, specific_chosen: bool
) -> list[Pair | str]:
    """The counterfactual of each pair, or the reason why there is none."""
    requests = [RewriteRequest(row.pair.prompt, row.pair.rejected, "add", row.pair.chosen) for row in batch]
    results = [
        _counterfactual(row.pair, rewrite, bias, check_measure)
        for row, rewrite in zip(batch, rewriter.rewrite(requests, bias), strict=True)
    ]
    if not specific_chosen:
        return results
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
    return results


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
    counterfactuals: Iterable[TrainingPair], rows: Sequence[LabelledPair], objectives: Sequence[ObjectiveSection]
) -> Iterator[TrainingPair]:
    """Each counterfactual of `rows` under every objective: against the chosen response, and against its original."""
    originals = {row.pair.id: row.pair for row in rows}
    for made in counterfactuals:
        same_response = Pair(made.pair.prompt, originals[made.source_id].rejected, made.pair.rejected)
        for objective in objectives:
            if objective.kind == "pairs":
                yield replace(made, example=objective.example(made.pair, str(made.bias)))
            elif objective.kind != "keep":
                yield replace(made, example=objective.example(same_response, str(made.bias)), kind=objective.kind)


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
            if contrast.bias in biases and objective.kind in ("paired", "neutral"):
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
