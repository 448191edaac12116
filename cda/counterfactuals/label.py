"""Stage `label`: load and clean the pairs, split them by prompt, label each side for each bias."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cda.biases import Bias
from cda.data.pairs import split_by_prompt
from cda.errors import DataError
from cda.files.jsonl import write_jsonl
from cda.launch import say
from cda.llm.money import request_tokens
from cda.prompts import LabelPrompt
from cda.recipe.load import LoadedRecipe
from cda.records import Exclusions, LabelledPair, Pair, Side, Split, count_reasons, prompt_id
from cda.resources.artifacts import labelled_row
from cda.resources.llm_access import llm_access, llm_settings
from cda.resources.sources import (
    bias_settings,
    prompt_name,
    prompt_settings,
    source_fingerprint,
    supplementary_pairs,
    training_pairs,
)
from cda.resources.spending import Planned
from cda.results.facts import Asked, LabelCounts, LabelTally, Loaded
from cda.rewriting.labels import SIDES, PairLabel, label_pair, label_pairs, pair_request
from cda.run import Stage
from cda.stats.streams import Stream, drawn, generator

LABEL_TOKENS = 100
"""Output of one labelling answer, estimated."""
_BARE_LABEL_TOKENS = 25
"""The same where no reasons are asked for."""
PAIRS = "pairs.jsonl"
SUPPLEMENT = "supplement.jsonl"
Labels = list[dict[Side, bool | None]]
Details = list[dict[str, PairLabel]]
"""Of each pair, by bias: what an LLM was asked beside the label."""


def stage(loaded: LoadedRecipe) -> Stage:
    """What decides the labels."""
    recipe = loaded.recipe
    settings = {
        "data": recipe.data.model_dump(
            mode="json", exclude={"preset", "contrasts", "contrast_columns", "max_contrasts"}
        ),
        "label": recipe.label.model_dump(mode="json", exclude={"prompt"}),
        "biases": bias_settings(loaded.biases),
        "seed": recipe.seed,
    }
    if recipe.labels_by_llm:
        settings |= {"llm": llm_settings(recipe.llm), "prompts": prompt_settings(loaded.prompts, "label")}
    inputs = {"pairs": source_fingerprint(recipe.data.pairs, "train")}
    if recipe.data.supplement is not None:
        inputs["supplement"] = source_fingerprint(recipe.data.supplement, "train")
    return Stage("label", settings, inputs)


def run(loaded: LoadedRecipe, folder: Path) -> LabelCounts:
    """Write the labelled pairs (and the labelled supplement) and return what was counted."""
    recipe = loaded.recipe
    cleaned = training_pairs(loaded.recipe.data, loaded.opened)
    say(f"  {len(cleaned.pairs)} pairs ({cleaned.exclusions})")
    pairs = tuple(drawn(cleaned.pairs, recipe.data.max_pairs, recipe.seed, Stream.PAIRS))
    if len(pairs) < len(cleaned.pairs):
        say(f"  {len(pairs)} of them drawn (data.max_pairs)")
    rows, details, labels = _labelled(pairs, loaded, {})
    write_jsonl(folder / PAIRS, map(_row, rows, details))
    counts = LabelCounts(pairs=_count(cleaned.exclusions, len(cleaned.pairs), len(pairs)), labels=labels)
    if recipe.data.supplement is None:
        return counts
    extra = supplementary_pairs(loaded.recipe.data, loaded.opened)
    say(f"  {len(extra.pairs)} supplementary pairs ({extra.exclusions})")
    extra_rows, details, labels = _labelled(
        extra.pairs, loaded, {prompt_id(row.pair.prompt): row.split for row in rows}
    )
    write_jsonl(folder / SUPPLEMENT, map(_row, extra_rows, details))
    loaded_too = _count(extra.exclusions, len(extra.pairs))
    return counts.model_copy(update={"supplement": loaded_too, "supplement_labels": labels})


def _labelled(
    pairs: tuple[Pair, ...], loaded: LoadedRecipe, known: Mapping[str, Split]
) -> tuple[list[LabelledPair], Details, dict[str, LabelTally]]:
    """Split and label; a prompt whose side is known already (from the other corpus) stays on it."""
    recipe = loaded.recipe
    in_validation = split_by_prompt(
        pairs, recipe.data.validation_share, generator(recipe.seed, Stream.VALIDATION_SPLIT)
    )
    labels: list[dict[str, dict[Side, bool | None]]] = [{} for _ in pairs]
    details: Details = [{} for _ in pairs]
    counts: dict[str, LabelTally] = {}
    for bias in loaded.biases:
        if recipe.labels_by_llm and bias.label_by == "ask":
            told = loaded.prompts.label
            llm_access(loaded).confirm(planned_calls(pairs, bias, told))
            asked = label_pairs(pairs, bias, llm_access(loaded).client(), recipe.seed, recipe.label.ask_again, told)
            found = [one.labels for one in asked]
            counts[bias.name] = _tally(found, bias, recipe.llm.model).model_copy(
                update={"prompt": prompt_name(recipe.label.prompt, told), "asked": _asked(asked, bias)}
            )
            for detail, one in zip(details, asked, strict=True):
                detail[bias.name] = one
        else:
            found = [label_pair(pair, bias) for pair in pairs]
            counts[bias.name] = _tally(found, bias, None)
        _check_unparsed(counts[bias.name], bias.name, recipe.label.max_unparsed)
        say(f"  {bias.name}: {_sentence(counts[bias.name])}")
        for row, label in zip(labels, found, strict=True):
            row[bias.name] = label
    rows = [
        LabelledPair(pair, known.get(prompt_id(pair.prompt), "validation" if held else "train"), label)
        for pair, held, label in zip(pairs, in_validation, labels, strict=True)
    ]
    return rows, details, counts


def planned_calls(pairs: tuple[Pair, ...], bias: Bias, told: LabelPrompt) -> Planned:
    """One call a pair; tokens from an even sample of them."""
    sample = pairs[:: max(1, len(pairs) // 200)]
    mean = sum(request_tokens(pair_request(bias, pair, "chosen", told=told)) for pair in sample) / len(sample)
    return Planned(f"labelling {bias.name}", len(pairs), mean, label_tokens(told))


def label_tokens(told: LabelPrompt) -> int:
    """Output of one labelling answer, estimated."""
    return _BARE_LABEL_TOKENS if told.reasons == "none" else LABEL_TOKENS


def _row(row: LabelledPair, details: dict[str, PairLabel]) -> dict[str, Any]:
    if not details:
        return labelled_row(row)
    return {**labelled_row(row), "details": {name: one.details() for name, one in details.items()}}


def _asked(labels: list[PairLabel], bias: Bias) -> Asked:
    """What an LLM's answers say about themselves: position, repeats, agreement with the bias's measure."""
    sides = [
        (one.labels[side], one.measured[side])
        for one in labels
        if one.measured is not None
        for side in SIDES
        if one.labels[side] is not None
    ]
    return Asked(
        chosen_shown_first=sum(one.shown_first == "chosen" for one in labels),
        first_labelled=sum(one.labels[one.shown_first] is True for one in labels),
        second_labelled=sum(one.labels[_other(one.shown_first)] is True for one in labels),
        asked_again=sum(one.n_asked > 1 for one in labels),
        query_asked=bias.query_question is not None,
        query_calls_for_it=sum(one.query is True for one in labels),
        query_answered=sum(one.query is not None for one in labels),
        unparsed_reasons=count_reasons([one.reason for one in labels if one.reason is not None]),
        sides_measured_too=len(sides),
        sides_measured_alike=sum(asked == measured for asked, measured in sides),
    )


def _other(side: Side) -> Side:
    return "rejected" if side == "chosen" else "chosen"


def _tally(labels: Labels, bias: Bias, llm: str | None) -> LabelTally:
    def count(chosen: bool, rejected: bool) -> int:
        return sum(label == {"chosen": chosen, "rejected": rejected} for label in labels)

    rule = bias.measure
    by = llm or (f"measured {rule.feature}" if rule else "rules")
    return LabelTally(
        by=by,
        n=len(labels),
        both=count(True, True),
        chosen_only=count(True, False),
        rejected_only=count(False, True),
        neither=count(False, False),
        unparsed=sum(None in label.values() for label in labels),
    )


def _sentence(tally: LabelTally) -> str:
    text = (
        f"in both sides {tally.both}, only chosen {tally.chosen_only}, only rejected {tally.rejected_only}, "
        f"neither {tally.neither}"
    )
    if tally.unparsed:
        text += f", unparsed {tally.unparsed}"
    if (asked := tally.asked) and asked.query_asked:
        text += f"; {asked.query_calls_for_it} of {asked.query_answered} messages call for it"
    return f"{text} (by {tally.by})"


def _check_unparsed(tally: LabelTally, name: str, limit: float) -> None:
    if tally.unparsed > limit * tally.n:
        raise DataError(
            f"{name}: {tally.unparsed} of {tally.n} labels could not be parsed, more than label.max_unparsed={limit:g}. "
            f"'{tally.by}' may not follow the answer format; try another llm.model"
        )


def _count(exclusions: Exclusions, kept: int, used: int | None = None) -> Loaded:
    return Loaded(seen=exclusions.seen, kept=kept, dropped=dict(exclusions.reasons), used=used)
