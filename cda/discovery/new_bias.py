"""`cda bias new`: a bias file from words, tried on pairs and in a few rewrites before it is written."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from cda.biases import Bias
from cda.counterfactuals.label import asks_for, planned_labels
from cda.discovery.asked_drafts import DRAFT_TOKENS, asked_parts, draft_request, with_parts
from cda.discovery.attribute import MAX_CHARACTERS, trouble_with
from cda.discovery.drafts import Draft, Texts, check_name, drafted, known_as
from cda.embedded.model import EMBEDDED
from cda.errors import DataError, RecipeError, RunError
from cda.files.paths import user_path
from cda.inspection.inspect import looked_at
from cda.inspection.sources import Answers, agreed_rewrites
from cda.inspection.tables import gate_sentence
from cda.jobs.perform import Job, Made, OneFile, perform
from cda.llm.money import request_tokens, tokens_of
from cda.prompts import OURS, BiasPrompt, load_prompt
from cda.recipe.load import LoadedRecipe
from cda.records import Pair, RewriteRequest, Side, count_reasons, prompt_id
from cda.report.document import Document
from cda.report.next_step import NextStep
from cda.report.numbers import cell, counted, share
from cda.report.page import TextPair
from cda.resources.artifacts import shown_path
from cda.resources.llm_access import Planned, Step, confirm_all, llm_access
from cda.resources.sources import training_pairs
from cda.results.base import Estimate, Missing, or_missing
from cda.results.commands import CheckedLabels, NewBias
from cda.results.inspect import RewriteShown
from cda.rewriting.labels import SIDES, PairLabel, label_pairs
from cda.rewriting.rewriter import rewrite_request
from cda.rewriting.triples import Original
from cda.stats.draws import Stream, drawn
from cda.stats.estimators import share_of

N_CHECKED, N_REWRITTEN, MOST_READ = 20, 3, 500
"""Pairs that a new bias is labelled on, answers that are rewritten, and other pairs that thresholds and phrases are taken from."""
_COLUMNS, _INDENT = 100, 12


@dataclass(frozen=True, slots=True)
class Asked:
    """What a call of the command asks for."""

    words: str
    name: str | None = None
    out: str | None = None
    prompt: str | None = None
    settings: Sequence[str] = ()
    """Settings as words, for the next commands."""


def new_bias(loaded: LoadedRecipe, asked: Asked) -> NewBias:
    """Draft a bias file, label pairs and rewrite a few answers with it, write it, and say what is missing.

    RecipeError: words that are no description, or a name that no bias can have. RunError: the words are another name of a bias that
    ships, and no name of one's own was given; or the file is there. DataError: no usable pairs. LLMError: the LLM cannot be asked.
    """
    _check(asked)
    told = load_prompt(asked.prompt or OURS, BiasPrompt)
    pairs = training_pairs(loaded.recipe.data, loaded.opened).pairs
    checked, texts = _apart(pairs, loaded.recipe.seed)
    offline = drafted(asked.words, asked.name, texts)
    file = user_path(asked.out or f"{offline.bias.name}.yaml")
    if file.suffix not in (".yaml", ".yml"):
        raise RecipeError([f"--out {asked.out}: a bias file ends in .yaml"])
    llm, where = llm_access(loaded), loaded.recipe.data.pairs
    where = "embedded pairs" if where == EMBEDDED else f"pairs of {shown_path(where)}"
    steps = _steps(loaded, asked, told, offline, checked)

    def plan() -> list[str]:
        by = loaded.recipe.llm.model or "without an LLM"
        rest = "thresholds and phrases from other pairs of the file" if texts.answers else "no other pairs"
        return [
            f"drafts      {by}: {offline.origin}",
            f"checks      {len(checked)} of {len(pairs)} {where}; {rest}",
            f"rewrites    {min(N_REWRITTEN, 2 * len(checked))} of their answers",
        ]

    def work(_: Path) -> Made[NewBias]:
        confirm_all(steps, llm.consent, llm.opened)
        draft = offline
        if loaded.recipe.llm.model is not None:
            by, answer = str(loaded.recipe.llm.model), asked_parts(llm.client(), asked.words, told, llm.label_again)
            if answer.value is not None:
                draft = with_parts(offline, answer.value, asked.words, by, texts)
            else:
                why = f"draft of {by}: {answer.reason}, asked {answer.n_asked} times"
                draft = replace(offline, left_out={**offline.left_out, why: 1})
        own = replace(loaded, biases=(draft.bias,))
        labels, of_pairs = _labels(own, draft.bias, checked, where)
        rewrites = _rewrites(own, draft.bias, checked, of_pairs)
        found = NewBias(
            name=draft.bias.name,
            file=file,
            origin=draft.origin,
            labels=labels,
            rewrites=tuple(rewrites),
            missing=(*draft.missing, *_not_yet(of_pairs, rewrites)),
            left_out=draft.left_out,
        )
        text = draft.yaml(asked.words)
        return Made(found, {file.name: lambda: text}, _told(found, draft, loaded, asked))

    return perform(Job(plan, work, OneFile(file, new=True), lambda: steps, ("model", "name", "biases")), loaded)


def _check(asked: Asked) -> None:
    """Refuse words and names of which no bias can be made, and words for what ships unless it is to have a name of its own."""
    problems = []
    if reason := trouble_with(asked.words):
        problems.append(f"{asked.words[:60]!r}: {reason}; give one sentence of at most {MAX_CHARACTERS} characters")
    if asked.name is not None and (reason := check_name(asked.name)):
        problems.append(f"--name {asked.name}: {reason}")
    if problems:
        raise RecipeError(problems)
    known = known_as(asked.words)
    if known is not None and known.kind == "shipped" and asked.name is None:
        which = f"the other end of '{known.name}'" if known.opposite else f"'{known.name}'"
        raise RunError(
            f"'{asked.words}' is {which}, a bias that ships with cda: `cda audit MODEL --bias {known.name}` measures it. "
            "For a file of your own all the same, give it a name: --name NAME"
        )


def _apart(pairs: Sequence[Pair], seed: int) -> tuple[list[Pair], Texts]:
    """Pairs to check a bias on, 20 or half of them if there are fewer than 40; and answers to other prompts, to draft it from."""
    checked = drawn(pairs, min(N_CHECKED, max(1, len(pairs) // 2)), seed, Stream.INSPECTED)
    own = {prompt_id(pair.prompt) for pair in checked}
    rest = drawn([pair for pair in pairs if prompt_id(pair.prompt) not in own], MOST_READ, seed, Stream.PAIRS)
    numbers = {key: number for number, key in enumerate(dict.fromkeys(prompt_id(pair.prompt) for pair in rest))}
    sides = [(pair, pair.side(side)) for pair in rest for side in SIDES]
    return checked, Texts(
        [pair.prompt for pair, _ in sides],
        [text for _, text in sides],
        [numbers[prompt_id(pair.prompt)] for pair, _ in sides],
    )


def _steps(loaded: LoadedRecipe, asked: Asked, told: BiasPrompt, offline: Draft, checked: Sequence[Pair]) -> list[Step]:
    """The LLM's calls: the draft, a label of each pair, the rewrites and their labels. What is to be drafted counts as it is offline."""
    recipe, bias = loaded.recipe, offline.bias
    if recipe.llm.model is None:
        return []
    planned = [Planned("drafting the bias", 1, request_tokens(draft_request(asked.words, told)), DRAFT_TOKENS)]
    if asks_for(bias, recipe):
        planned.append(planned_labels(checked, bias, loaded.prompts.label))
    if recipe.rewrites_by_llm:
        requests = [RewriteRequest(pair.prompt, pair.rejected, "add", pair.chosen) for pair in checked]
        sent = [
            rewrite_request(each, bias, recipe.synthesize.show_prompt, told=loaded.prompts.rewrite) for each in requests
        ]
        calls = N_REWRITTEN * (3 if asks_for(bias, recipe) else 1)
        written = fmean(tokens_of(each.response) for each in requests)
        planned.append(
            Planned(f"rewriting and labelling for {bias.name}", calls, fmean(map(request_tokens, sent)), written)
        )
    return [(recipe.llm, each) for each in planned]


def _labels(
    loaded: LoadedRecipe, bias: Bias, pairs: Sequence[Pair], where: str
) -> tuple[CheckedLabels | Missing, list[PairLabel]]:
    """Labels of the pairs, by the LLM or else the measure, and what they say together."""
    recipe, llm = loaded.recipe, llm_access(loaded)
    if asks_for(bias, recipe):
        labels = label_pairs(pairs, bias, llm.client(), recipe.seed, llm.label_again, llm.prompts.label)
        by = str(recipe.llm.model)
    elif bias.measure is not None:
        labels, by = (
            [PairLabel.measured_of(pair, bias) for pair in pairs],
            f"measured {bias.measure.feature.replace('_', ' ')}",
        )
    else:
        return Missing(reason="nothing can label yet: no measure, no LLM"), []
    rows = [(prompt_id(pair.prompt), label, side) for pair, label in zip(pairs, labels, strict=True) for side in SIDES]
    read = [(key, label.labels[side]) for key, label, side in rows if label.labels[side] is not None]
    alike = [
        (key, label.labels[side] == label.measured[side])
        for key, label, side in rows
        if label.n_asked and label.measured is not None and None not in (label.labels[side], label.measured[side])
    ]
    why = (
        "no LLM labelled"
        if not asks_for(bias, recipe)
        else "the bias has no measure, or it does not hold for these texts"
    )
    return CheckedLabels(
        n_pairs=len(pairs),
        where=where,
        by=by,
        present=_share(read, "no answer has a label"),
        chosen=sum(label.labels["chosen"] is True for label in labels),
        rejected=sum(label.labels["rejected"] is True for label in labels),
        unread=len(rows) - len(read),
        agreement=_share(alike, why),
    ), labels


def _share(rows: Sequence[tuple[str, bool | None]], why_not: str) -> Estimate | Missing:
    if not rows:
        return Missing(reason=why_not)
    return or_missing(lambda: share_of([bool(hit) for _, hit in rows], [key for key, _ in rows]))


def _rewrites(
    loaded: LoadedRecipe, bias: Bias, pairs: Sequence[Pair], labels: Sequence[PairLabel]
) -> list[RewriteShown]:
    """Rewrites of checked answers: two to which it is added, one from which it is taken, as far as there are such."""
    if not loaded.recipe.rewrites_by_llm and bias.offline is None:
        return []
    known = [label.labels for label in labels] or [dict[Side, bool | None].fromkeys(SIDES, False)] * len(pairs)
    sides = {
        present: [
            Original(pair.prompt, pair.side(side), present)
            for side in ("rejected", "chosen")  # all of one side first, so that the prompts differ
            for pair, label in zip(pairs, known, strict=True)
            if label[side] is present
        ]
        for present in (True, False)
    }
    plain = sides[False][: N_REWRITTEN - bool(sides[True])]
    having = sides[True][: N_REWRITTEN - len(plain)]
    if not plain and not having:
        return []
    asked = frozenset([bias.name] if asks_for(bias, loaded.recipe) else [])
    try:
        made = agreed_rewrites(loaded, Answers({bias.name: [*plain, *having]}, frozenset(), asked), "checked pairs")
    except DataError:  # rules in another language than the texts
        return []
    return looked_at(made)


def _not_yet(labels: Sequence[PairLabel], rewrites: Sequence[RewriteShown]) -> list[str]:
    """What keeps a bias that can be labelled and rewritten from being trained on."""
    lacks = []
    if labels and not any(set(label.labels.values()) == {False} for label in labels):
        lacks.append(f"pairs to train on: of these {len(labels)} none is without it on both sides; try other pairs")
    if rewrites and not any(map(_passed, rewrites)):
        lacks.append("rewrites that pass the gate: edit the file, or train without it (synthesize.gate.on=false)")
    return lacks


def _passed(row: RewriteShown) -> bool:
    return row.failed is None and not row.rejected


def _told(found: NewBias, draft: Draft, loaded: LoadedRecipe, asked: Asked) -> str:
    """The rewrites, then at most twelve lines: the file, the check, the gate, what is missing, the next commands."""
    lines = [("written", str(found.file)), ("made of", found.origin), *_checked(found.labels, draft.bias)]
    if found.rewrites:
        passed, by = (
            sum(map(_passed, found.rewrites)),
            loaded.recipe.llm.model if loaded.recipe.rewrites_by_llm else "rules",
        )
        why = count_reasons([row.failed or row.rejected[0] for row in found.rewrites if not _passed(row)])
        lines.append(
            (
                "rewrites",
                f"{passed} of {len(found.rewrites)} passed the gate, by {by}{f' ({counted(why)})' if why else ''}",
            )
        )
    lines += [("missing", each) for each in found.missing] or [
        ("missing", "nothing: it trains and audits without an LLM")
    ]
    if found.left_out:
        lines.append(("left out", counted(found.left_out)))
    shown = [part for name, text in lines for part in _line(name, text)]
    return "\n".join([*_texts(found.rewrites), *shown, *_next(found, draft, loaded, asked).lines()])


def _checked(labels: CheckedLabels | Missing, bias: Bias) -> list[tuple[str, str]]:
    """The measure, and what the labels of the checked pairs say."""
    lines, rule = [], bias.measure
    if rule is not None:
        limit = f"above {rule.present_above:g}" if rule.present_above is not None else f"below {rule.present_below:g}"
        lines.append(("measured", f"{rule.feature.replace('_', ' ')} {limit}"))
    if isinstance(labels, Missing):
        return [*lines, ("check", labels.reason)]
    has = cell(labels.present, lambda each: f"{share(each)} of {each.n} answers have it")
    sides = f"{labels.chosen} chosen, {labels.rejected} rejected"
    unread = f"; {labels.unread} without a label" if labels.unread else ""
    lines.append(("check", f"{labels.n_pairs} {labels.where}: {has} ({sides}), by {labels.by}{unread}"))
    if not isinstance(labels.agreement, Missing):
        same = f"{share(labels.agreement)} of {labels.agreement.n} answers"
        lines.append(("agreement", f"{labels.by} and the measure say the same of {same}"))
    return lines


def _next(found: NewBias, draft: Draft, loaded: LoadedRecipe, asked: Asked) -> NextStep:
    """A training on the file."""
    recipe = loaded.recipe
    llm = [word for word in asked.settings if word.startswith("llm.")] or (
        [f"llm.model={recipe.llm.model}"] if recipe.llm.model else []
    )
    llm = llm or (["llm.model=NAME"] if draft.missing else [])
    data = [] if recipe.data.pairs == EMBEDDED else [f"data.pairs={recipe.data.pairs}"]
    return NextStep("train against it", ("train", str(found.file), *data, *llm))


def _line(name: str, text: str) -> list[str]:
    """A named line, wrapped, with the name before its first part."""
    parts = textwrap.wrap(text, _COLUMNS - _INDENT, break_long_words=False, break_on_hyphens=False)
    return [f"{each:{_INDENT}}{part}" for each, part in zip([name, *[""] * (len(parts) - 1)], parts, strict=True)]


def _texts(rewrites: Sequence[RewriteShown]) -> list[str]:
    """Each rewrite as `cda inspect` shows it, wrapped."""
    lines = []
    for row in rewrites:
        way = "added" if row.direction == "add" else "removed"
        pair = TextPair(f"{row.bias}, {way}", row.prompt, row.original, row.rewrite, (gate_sentence(row),))
        text = Document("", "", (), (), terminal=(pair,)).text()
        lines += [
            part for line in text.split("\n") for part in textwrap.wrap(line, _COLUMNS, break_long_words=False) or [""]
        ]
        lines.append("")
    return lines
