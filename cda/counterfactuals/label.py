"""Stage `label`: load and clean the pairs, split them by prompt, label each side for each bias."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from cda.biases import Bias
from cda.counterfactuals.pairs import label_frequencies, proportional_quota, teachable
from cda.data.pairs import split_by_prompt
from cda.embedded.model import EMBEDDED
from cda.embedded.texts import authored_contrasts, second_turn_names
from cda.errors import DataError
from cda.files.jsonl import write_jsonl
from cda.inert import clipped, inert
from cda.launch import say
from cda.llm.money import request_tokens
from cda.prompts import LabelPrompt
from cda.recipe.load import LoadedRecipe
from cda.recipe.schema import Recipe
from cda.records import Exclusions, LabelledPair, Pair, Side, Split, count_reasons, prompt_id, text_key
from cda.resources.artifacts import labelled_row
from cda.resources.llm_access import LlmAccess, Planned, llm_access, llm_settings
from cda.resources.sources import (
    audit_inputs,
    audited_prompts,
    bias_settings,
    prompt_name,
    prompt_settings,
    source_fingerprint,
    supplementary_pairs,
    training_pairs,
)
from cda.results.stages import LabelAnswers, LabelCounts, LabelTally, Loaded, SecondTurns
from cda.rewriting.labels import SIDES, PairLabel, label_pairs, measure_of, pair_request, unheld
from cda.run import Stage, fingerprint
from cda.stats.draws import Stream, drawn, generator

LABEL_TOKENS = 100
"""Output of one labelling answer, estimated."""
_BARE_LABEL_TOKENS = 25
"""The same without reasons."""
PAIRS = "pairs.jsonl"
SUPPLEMENT = "supplement.jsonl"
SECOND_TURN = "second_turn.jsonl"
Labelled = tuple[list[PairLabel], LabelTally]
"""Labels of pairs, and their counts."""


def stage(loaded: LoadedRecipe) -> Stage:
    """The settings and inputs that determine the labels."""
    recipe = loaded.recipe
    settings = {
        "data": recipe.data.model_dump(
            mode="json", exclude={"preset", "contrasts", "contrast_columns", "max_contrasts", "weights"}
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
        # They decide how many are labelled.
        settings["supplementary"] = recipe.synthesize.supplementary
        inputs["audited prompts"] = fingerprint(sorted(audited_prompts(audit_inputs(loaded))))
    if recipe.data.second_turn == "yes":
        inputs["second turn"] = source_fingerprint(EMBEDDED, "second_turn_train")
    return Stage("label", settings, inputs)


def run(loaded: LoadedRecipe, folder: Path) -> LabelCounts:
    """Write the labelled pairs (and the labelled supplement and conversations) and return the counts."""
    recipe, biases, llm = loaded.recipe, loaded.biases, llm_access(loaded)
    cleaned = training_pairs(recipe.data, loaded.opened)
    say(f"  {len(cleaned.pairs)} pairs ({cleaned.exclusions})")
    pairs = drawn(cleaned.pairs, recipe.data.max_pairs, recipe.seed, Stream.PAIRS)
    if len(pairs) < len(cleaned.pairs):
        say(f"  {len(pairs)} of them drawn (data.max_pairs)")
    rows, labels = _write_labelled(folder / PAIRS, pairs, {}, recipe, partial(_all_labels, pairs, recipe, llm), biases)
    counts = LabelCounts(pairs=_loaded(cleaned.exclusions, len(cleaned.pairs), len(pairs)), labels=labels)
    if recipe.data.second_turn == "yes":
        second_turn = _write_second_turns(folder / SECOND_TURN, pairs, recipe, [bias.name for bias in biases])
        counts = counts.model_copy(update={"second_turn": second_turn})
    if recipe.data.supplement is None:
        return counts
    extra = supplementary_pairs(recipe.data, loaded.opened)
    say(f"  {len(extra.pairs)} supplementary pairs ({extra.exclusions})")
    mixed = list(extra.pairs)
    if any(asks_for(bias, recipe) for bias in biases):  # the first ones are labelled
        order = generator(recipe.seed, Stream.SUPPLEMENT).permutation(len(mixed))
        mixed = [extra.pairs[index] for index in order]
    splits = {prompt_id(row.pair.prompt): row.split for row in rows}
    enough = partial(_enough_labels, mixed, rows, audited_prompts(audit_inputs(loaded)), recipe, llm)
    written, labels = _write_labelled(folder / SUPPLEMENT, mixed, splits, recipe, enough, biases)
    supplement = _loaded(extra.exclusions, len(extra.pairs), len(written))
    return counts.model_copy(update={"supplement": supplement, "supplement_labels": labels})


def _write_labelled(
    file: Path,
    pairs: Sequence[Pair],
    splits: Mapping[str, Split],
    recipe: Recipe,
    labelled: Callable[[Bias], Labelled],
    biases: Sequence[Bias],
) -> tuple[list[LabelledPair], dict[str, LabelTally]]:
    """Split, label and write; a prompt whose side is known already (from the other corpus) stays on it. Pairs without a label, which
    come last, are left out."""
    in_validation = split_by_prompt(
        pairs, recipe.data.validation_share, generator(recipe.seed, Stream.VALIDATION_SPLIT)
    )
    found = {bias.name: labelled(bias) for bias in biases}
    n_labelled = max((len(labels) for labels, _ in found.values()), default=0)
    rows, written = [], []
    for at, (pair, held) in enumerate(zip(pairs[:n_labelled], in_validation, strict=False)):
        own = {name: labels[at] for name, (labels, _) in found.items() if at < len(labels)}
        by_bias = {name: own[name].labels if name in own else dict.fromkeys(SIDES) for name in found}
        side = splits.get(prompt_id(pair.prompt), "validation" if held else "train")
        rows.append(LabelledPair(pair, side, by_bias))
        details = {
            bias.name: own[bias.name].details() for bias in biases if bias.name in own and asks_for(bias, recipe)
        }
        written.append(labelled_row(rows[-1]) | ({"details": details} if details else {}))
    write_jsonl(file, written)
    return rows, {name: tally for name, (_, tally) in found.items()}


def _all_labels(pairs: Sequence[Pair], recipe: Recipe, llm: LlmAccess, bias: Bias) -> Labelled:
    if asks_for(bias, recipe):
        llm.confirm(planned_labels(pairs, bias, llm.prompts.label))
    return labels_of(pairs, bias, recipe, llm)


def _enough_labels(
    pairs: Sequence[Pair], rows: Sequence[LabelledPair], audited: set[str], recipe: Recipe, llm: LlmAccess, bias: Bias
) -> Labelled:
    """Labels of the first pairs, until those that can be taught hold as many of each combination of labels as are asked for. An LLM is
    asked no further; the measure, which costs nothing, labels all. More than was planned is agreed to again."""
    if not asks_for(bias, recipe):
        return labels_of(pairs, bias, recipe, llm)
    own, _ = teachable(rows, audited)
    taken = {text_key(row.pair.prompt, row.pair.chosen, row.pair.rejected) for row in own}
    wanted: Counter[tuple[bool | None, bool | None]] = Counter()
    wanted.update(proportional_quota(label_frequencies(own, bias), (recipe.n_pairs("supplementary", bias.name) or 0)))
    answers: list[PairLabel] = []
    planned = 0
    while (short := (wanted - _usable(pairs, answers, taken, audited)).total()) and len(answers) < len(pairs):
        if len(answers) == planned:
            step = planned_supplement(pairs[planned:], bias, recipe, llm.prompts.label, planned)
            if planned:
                say(f"  {bias.name}: {short} supplementary pairs are still missing after {planned} labels")
            llm.confirm(step)
            planned += step.calls
        at_once = planned if recipe.llm.mode == "batch" else max(short, recipe.llm.asked.concurrency)
        asked = pairs[len(answers) : min(planned, len(answers) + at_once)]
        answers += label_pairs(asked, bias, llm.client(), recipe.seed, llm.label_again, llm.prompts.label)
    return answers, _told(answers, pairs, bias, recipe, llm)


def _usable(
    pairs: Sequence[Pair], answers: Sequence[PairLabel], taken: set[tuple[str, ...]], audited: set[str]
) -> Counter[tuple[bool | None, bool | None]]:
    """Combinations of labels of the pairs that are neither audited nor among the others."""
    return Counter(
        (answer.labels["chosen"], answer.labels["rejected"])
        for pair, answer in zip(pairs, answers, strict=False)
        if prompt_id(pair.prompt) not in audited and text_key(pair.prompt, pair.chosen, pair.rejected) not in taken
    )


def planned_supplement(
    pairs: Sequence[Pair], bias: Bias, recipe: Recipe, prompt: LabelPrompt, more: int = 0
) -> Planned:
    """Calls for twice as many labels as supplementary pairs are asked for, as not every one is of the combination that is still
    missing; or for some `more`."""
    planned = planned_labels(pairs, bias, prompt)
    calls = min(len(pairs), more or 2 * (recipe.n_pairs("supplementary", bias.name) or 0))
    return replace(planned, what=f"labelling {bias.name} for supplementary pairs", calls=calls)


def _write_second_turns(file: Path, pairs: Sequence[Pair], recipe: Recipe, biases: Sequence[str]) -> SecondTurns:
    """Split and write the embedded conversations of the biases, under their authors' labels: the rejected answer alone has it."""
    rows: list[LabelledPair] = []
    tallies = {}
    for number, (bias, name) in enumerate(second_turn_names(biases).items()):
        own = [Pair(row.prompt, row.base, row.perturbed) for row in authored_contrasts("second_turn_train", [name])]
        label: Mapping[Side, bool | None] = {"chosen": False, "rejected": True}
        rng = generator(recipe.seed, Stream.SECOND_TURN_SPLIT, number)
        in_validation = split_by_prompt(own, recipe.data.validation_share, rng)
        rows += [
            LabelledPair(pair, "validation" if held else "train", {bias: label})
            for pair, held in zip(own, in_validation, strict=True)
        ]
        tallies[bias] = _tally(_both([label] * len(own)), "their authors")
        say(f"  {bias}, {len(own)} conversations (data.second_turn): {_sentence(tallies[bias])}")
    in_pairs = sum(any(message.role == "assistant" for message in pair.prompt) for pair in pairs)
    if in_pairs:
        say(
            f"  {in_pairs} of the {len(pairs)} pairs continue a conversation; they are labelled and rewritten like the others"
        )
    write_jsonl(file, map(labelled_row, rows))
    return SecondTurns(labels=tallies, in_pairs=in_pairs)


def asks_for(bias: Bias, recipe: Recipe) -> bool:
    """True if an LLM is asked for the labels of a bias."""
    return recipe.labels_by_llm and bias.label_by == "ask"


def labels_of(pairs: Sequence[Pair], bias: Bias, recipe: Recipe, llm: LlmAccess) -> Labelled:
    """Labels of both sides of every pair, an LLM's (which has been agreed to) or by the bias's measure, and their counts.
    DataError: more of them than `label.max_unparsed` cannot be read. RecipeError: a bias that cannot be measured, without an LLM."""
    if asks_for(bias, recipe):
        labels = label_pairs(pairs, bias, llm.client(), recipe.seed, llm.label_again, llm.prompts.label)
    else:
        labels = [PairLabel.measured_of(pair, bias) for pair in pairs]
    return labels, _told(labels, pairs, bias, recipe, llm)


def _told(labels: Sequence[PairLabel], pairs: Sequence[Pair], bias: Bias, recipe: Recipe, llm: LlmAccess) -> LabelTally:
    """Counts of labels, which are said; errors as of `labels_of`."""
    sides = [label.labels for label in labels]
    if not asks_for(bias, recipe):
        first = next((at for at, label in enumerate(sides) if None in label.values()), 0)
        return measured_tally(bias, recipe, _both(sides), first, pairs[first].chosen if pairs else "")
    limit, by = recipe.label.max_unparsed, str(recipe.llm.model)
    prompt = prompt_name(recipe.label.prompt, llm.prompts.label)
    tally = _tally(_both(sides), by).model_copy(update={"prompt": prompt, "asked": _asked(labels, bias)})
    if tally.unparsed > limit * tally.n:
        raise DataError(
            f"{bias.name}: {tally.unparsed} of {tally.n} labels could not be parsed, more than label.max_unparsed={limit:g}. "
            f"'{by}' may not follow the answer format; try another llm.model"
        )
    say(f"  {bias.name}: {_sentence(tally)}")
    return tally


def measured_tally(
    bias: Bias, recipe: Recipe, sides: Iterable[tuple[bool | None, bool | None]], first: int, text: str
) -> LabelTally:
    """Counts of measured labels, which are said; `first` is the place of the first pair without one on both sides, and `text` its chosen one.
    DataError: more than `label.max_unparsed` are without."""
    tally = _tally(sides, f"measured {measure_of(bias).feature.replace('_', ' ')}")
    if tally.unparsed > (limit := recipe.label.max_unparsed) * tally.n:
        way_out = "Have an LLM label them: llm.model=NAME" if bias.label_by == "ask" else "Leave them out of data.pairs"
        raise DataError(
            f"{bias.name}: {unheld(bias)}, and {tally.unparsed} of {tally.n} pairs have a text that is not, more than "
            f"label.max_unparsed={limit:g}; the first is pair {first + 1} "
            f"('{clipped(inert(text), 30)}'). {way_out}"
        )
    say(f"  {bias.name}: {_sentence(tally)}")
    return tally


def _both(labels: Iterable[Mapping[Side, bool | None]]) -> Iterator[tuple[bool | None, bool | None]]:
    return ((label["chosen"], label["rejected"]) for label in labels)


def planned_labels(pairs: Sequence[Pair], bias: Bias, prompt: LabelPrompt) -> Planned:
    """One call a pair; tokens from an even sample of them."""
    sample = pairs[:: max(1, len(pairs) // 200)]
    mean = sum(request_tokens(pair_request(bias, pair, "chosen", told=prompt)) for pair in sample) / len(sample)
    return Planned(f"labelling {bias.name}", len(pairs), mean, label_tokens(prompt))


def label_tokens(prompt: LabelPrompt) -> int:
    """Output of one labelling answer, estimated."""
    return _BARE_LABEL_TOKENS if prompt.reasons == "none" else LABEL_TOKENS


def _asked(answers: Sequence[PairLabel], bias: Bias) -> LabelAnswers:
    """Facts about an LLM's answers: position, repeats, agreement with the bias's measure."""
    first = [answer.labels[answer.shown_first] for answer in answers]
    second = [answer.labels["rejected" if answer.shown_first == "chosen" else "chosen"] for answer in answers]
    alike = [
        answer.labels[side] == answer.measured[side]
        for answer in answers
        if answer.measured is not None
        for side in SIDES
        if answer.labels[side] is not None
    ]
    return LabelAnswers(
        chosen_shown_first=sum(answer.shown_first == "chosen" for answer in answers),
        first_labelled=first.count(True),
        second_labelled=second.count(True),
        asked_again=sum(answer.n_asked > 1 for answer in answers),
        query_asked=bias.query_question is not None,
        query_calls_for_it=sum(answer.query is True for answer in answers),
        query_answered=sum(answer.query is not None for answer in answers),
        unparsed_reasons=count_reasons([answer.reason for answer in answers if answer.reason is not None]),
        sides_measured_too=len(alike),
        sides_measured_alike=sum(alike),
    )


def _tally(sides: Iterable[tuple[bool | None, bool | None]], by: str) -> LabelTally:
    found = Counter(sides)
    return LabelTally(
        by=by,
        n=found.total(),
        both=found[True, True],
        chosen_only=found[True, False],
        rejected_only=found[False, True],
        neither=found[False, False],
        unparsed=sum(n for pair, n in found.items() if None in pair),
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


def _loaded(exclusions: Exclusions, kept: int, used: int | None = None) -> Loaded:
    return Loaded(seen=exclusions.seen, kept=kept, dropped=dict(exclusions.reasons), used=used)
