"""A few rewrites made to look at, in both directions, those that failed among them; and the prompts that an LLM would get."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from cda.biases import Bias
from cda.counterfactuals.label import LABEL_TOKENS
from cda.counterfactuals.triples import read_responses
from cda.data.load import load_rows, looks_like_path
from cda.embedded.model import EMBEDDED
from cda.embedded.rules import rules_of
from cda.embedded.texts import authored_contrasts
from cda.errors import DataError, RecipeError
from cda.inspection.sources import FRESH, UNGATED, Seen, SourcedRewrites, recipe_of
from cda.jobs.options import InspectOptions
from cda.llm.money import request_tokens, tokens_of
from cda.llm.protocol import Request
from cda.prompts import Prompts, RewritePrompt
from cda.recipe.load import LoadedRecipe
from cda.recipe.schema import Recipe
from cda.records import Direction, Pair, Rewrite, RewriteRequest
from cda.resources.artifacts import shown_path
from cda.resources.llm_access import Planned, Step, confirm_all, llm_access
from cda.resources.named_scorer import Subject, scorer_settings
from cda.resources.scorers import open_scorer
from cda.resources.sources import load_pairs, prompt_name, rewriter, training_pairs
from cda.rewriting.labels import label_request, pair_request
from cda.rewriting.rewriter import GatedRewriter, Labeller, ResamplingRewriter, Rewriter, rewrite_request
from cda.rewriting.triples import Original
from cda.stats.draws import drawn

_BACK = "made now, rewritten back"


@dataclass(frozen=True)
class _Watched:
    """A rewriter whose texts are kept, whatever the gate makes of them; `written` is shared by its further samples."""

    rewriter: Rewriter
    written: dict[RewriteRequest, str]

    @property
    def name(self) -> str:
        return self.rewriter.name

    def rewrite(self, requests: Sequence[RewriteRequest], bias: Bias) -> list[Rewrite]:
        outcomes = self.rewriter.rewrite(requests, bias)
        texts = zip(requests, outcomes, strict=True)
        self.written.update({request: outcome.text for request, outcome in texts if outcome.text is not None})
        return outcomes

    def resampled(self, sample: int) -> Rewriter:
        again = self.rewriter.resampled(sample) if isinstance(self.rewriter, ResamplingRewriter) else self.rewriter
        return _Watched(again, self.written)


@dataclass(frozen=True, slots=True)
class Answers:
    """Answers to rewrite, by bias; biases whose rewrites are rewritten back, and those that an LLM labels; and notes on the file."""

    texts: Mapping[str, Sequence[Original]]
    back: frozenset[str]
    labelled: frozenset[str]
    notes: tuple[str, ...] = ()


def answers_to_rewrite(loaded: LoadedRecipe, n: int, seed: int, responses: str | None = None) -> Answers:
    """At most n answers of each kind for each bias.

    Embedded answers are without the bias or, if there are texts of it, with it. If there are none, and with answers of a
    file (`prompt`, `response` and, if known, `has_attribute`), each rewrite is rewritten back, so that both directions are seen.
    """
    recipe, notes, texts = loaded.recipe, list[str](), dict[str, list[Original]]()
    if responses is not None:
        rows, exclusions = read_responses(load_rows(responses), responses, recipe.audit)
        if not rows:
            raise DataError(f"{responses}: no usable response; {exclusions}")
        if exclusions.dropped:
            notes.append(f"{responses}: {exclusions}")
        texts = {bias.name: drawn(rows, n, seed) for bias in loaded.biases}
    for bias in loaded.biases:
        if not recipe.rewrites_by_llm:
            rules_of(bias)
        texts.setdefault(bias.name, _embedded(bias, n, seed))
    alone = {name for name, own in texts.items() if responses is not None or not any(row.has_attribute for row in own)}
    labelled = {bias.name for bias in loaded.biases if recipe.labels_by_llm and bias.label_by == "ask"}
    return Answers(texts, frozenset(alone), frozenset(labelled), tuple(notes))


def fresh_calls(loaded: LoadedRecipe, answers: Answers) -> list[Step]:
    """The LLM's calls; none if rules rewrite."""
    recipe, told = loaded.recipe, loaded.prompts.rewrite
    if not recipe.rewrites_by_llm:
        return []
    show = recipe.synthesize.show_prompt
    return [
        (
            recipe.llm,
            _planned(answers.texts[name], bias, show, told, name in answers.back, name in answers.labelled),
        )
        for name, bias in ((bias.name, bias) for bias in loaded.biases)
    ]


def fresh_rewrites(loaded: LoadedRecipe, answers: Answers, responses: str | None = None) -> SourcedRewrites:
    """Rewrite answers with the recipe's rewriter, in both directions; `responses` is the file that they are of, if any."""
    recipe, llm, gate, texts = loaded.recipe, llm_access(loaded), loaded.recipe.synthesize.gate, answers.texts
    notes = list(answers.notes)
    confirm_all(fresh_calls(loaded, answers), llm.consent, llm.opened)
    by, written = rewriter(recipe.synthesize, loaded.biases, recipe.seed, llm), dict[RewriteRequest, str]()
    if isinstance(by, GatedRewriter):
        by = replace(by, rewriter=_Watched(by.rewriter, written))
    if not gate.on:
        notes.append(UNGATED)
    where = "embedded answers" if responses is None else shown_path(responses)
    material = SourcedRewrites(
        where, {bias.name: bias for bias in loaded.biases}, [by.name], notes=notes, words_within=gate.words_within,
        with_failed=True,
    )  # fmt: skip
    for bias in loaded.biases:
        labeller = llm.labeller() if bias.name in answers.labelled else None
        rewrites = _rewritten(_away(texts[bias.name], bias, labeller), bias, by, written, FRESH)
        if bias.name in answers.back:
            again = [
                RewriteRequest(row.prompt, row.rewrite, _flip(row.direction == "add"))
                for row in rewrites
                if row.rewrite is not None and row.failed is None
            ]
            rewrites += _rewritten(again, bias, by, written, _BACK)
        material.rewrites += rewrites if labeller is None else _labelled(rewrites, bias, labeller, recipe.llm.model)
    return material


def _embedded(bias: Bias, n: int, seed: int) -> list[Original]:
    without = authored_contrasts("audit", [bias.name]) or authored_contrasts("audit", ["jargon"])
    having = authored_contrasts("shown", [bias.name])
    return [
        *(Original(contrast.prompt, contrast.base, False) for contrast in drawn(without, n, seed)),
        *(Original(contrast.prompt, contrast.perturbed, True) for contrast in drawn(having, n, seed)),
    ]


def _away(answers: Sequence[Original], bias: Bias, labeller: Labeller | None) -> list[RewriteRequest]:
    """Requests to flip each answer: as its file says, else as labelled; by itself none has a relative bias (length)."""
    unknown = [row for row in answers if row.has_attribute is None]
    if bias.measure is not None and bias.measure.relative:
        unknown = []
    texts = [row.response for row in unknown]
    shows: Sequence[bool | None] = [bias.shows(text) for text in texts]
    if unknown and labeller is not None:
        shows = labeller([row.prompt for row in unknown], texts, bias)
    labels = dict(zip(unknown, shows, strict=True))
    return [
        RewriteRequest(row.prompt, row.response, _flip(labels.get(row, row.has_attribute) is True)) for row in answers
    ]


def _rewritten(
    requests: Sequence[RewriteRequest], bias: Bias, by: Rewriter, written: dict[RewriteRequest, str], source: str
) -> list[Seen]:
    return [
        Seen(
            bias.name, source, request.prompt, request.response, outcome.text or written.get(request), request.direction,
            failed=outcome.reason,
        )
        for request, outcome in zip(requests, by.rewrite(requests, bias), strict=True)
    ]  # fmt: skip


def _labelled(rewrites: Sequence[Seen], bias: Bias, labeller: Labeller, name: str | None) -> list[Seen]:
    """An LLM's labels of both texts; those that the gate has asked for come out of the cache."""
    rows = [row for row, rewrite in enumerate(rewrites) if rewrite.rewrite is not None]
    if not rows:
        return list(rewrites)
    prompts = [rewrites[row].prompt for row in rows]
    before = labeller(prompts, [rewrites[row].original for row in rows], bias)
    after = labeller(prompts, [str(rewrites[row].rewrite) for row in rows], bias)
    labels = dict(zip(rows, zip(before, after, strict=True), strict=True))
    return [
        replace(rewrite, labels=labels[row], labelled_by=name) if row in labels else rewrite
        for row, rewrite in enumerate(rewrites)
    ]


def _planned(
    answers: Sequence[Original], bias: Bias, show_prompt: bool, told: RewritePrompt, back: bool, labelled: bool
) -> Planned:
    """A rewrite of each answer, one of the rewrite if it is rewritten back, and the labels of all texts if an LLM labels."""
    requests = [RewriteRequest(row.prompt, row.response, "add") for row in answers]
    n, n_requests = len(answers) * (2 if back else 1), max(1, len(requests))
    sent = sum(request_tokens(rewrite_request(request, bias, show_prompt, told=told)) for request in requests)
    mean_in, mean_out = sent / n_requests, sum(tokens_of(request.response) for request in requests) / n_requests
    if labelled:
        return Planned(f"rewriting and labelling for {bias.name}", 3 * n, mean_in, (mean_out + 2 * LABEL_TOKENS) / 3)
    return Planned(f"rewriting for {bias.name}", n, mean_in, mean_out)


def _flip(has_attribute: bool) -> Direction:
    return "remove" if has_attribute else "add"


def prompts_text(target: str, overrides: Sequence[str], options: InspectOptions) -> str:
    """Every request that an LLM would get of one example: system and user text, and the form of its answer."""
    default = InspectOptions()
    unused = [
        f"--{name}: has no effect with --prompts, which rewrites and scores nothing; leave one of them out"
        for name in ("n", "worst", "model", "responses", "fresh", "limit", "html")
        if getattr(options, name) != getattr(default, name)
    ]
    if unused:
        raise RecipeError(unused)
    loaded = recipe_of(target, overrides, options)
    recipe, prompts = loaded.recipe, loaded.prompts
    pairs, where = load_pairs(EMBEDDED, "", {}, "").pairs, "the embedded training pairs"
    if recipe.data.pairs != EMBEDDED and looks_like_path(recipe.data.pairs):
        pairs, where = training_pairs(recipe.data, loaded.opened).pairs, recipe.data.pairs
    pair = drawn(pairs, 1, options.seed)[0]
    parts = [f"What an LLM would be told, with a pair of {where} as the example. Nothing was asked."]
    if recipe.llm.model is None:
        parts.append("llm.model is not set: no LLM is asked, and none of this is sent.")
    if recipe.model.kind.asks_llm:
        requests = open_scorer(Subject("model", recipe.model), scorer_settings(loaded)).told(pair)
    else:
        requests = (request for bias in loaded.biases for request in _for_bias(bias, pair, recipe, prompts))
    return "\n\n".join([*parts, *(_section(*request) for request in requests)])


def _for_bias(bias: Bias, pair: Pair, recipe: Recipe, prompts: Prompts) -> Iterator[tuple[str, Request]]:
    label_name = prompt_name(recipe.label.prompt, prompts.label)
    rewrite_name = prompt_name(recipe.rewrite.prompt, prompts.rewrite)
    by = recipe.label.by
    if bias.label_by == "ask" and (by == "auto" or recipe.llm.used_for(by)):  # once an LLM is set
        of_pair = pair_request(bias, pair, "chosen", told=prompts.label)
        yield f"{bias.name}: labels of a pair (label.prompt={label_name})", of_pair
        of_response = label_request(bias, pair.prompt, pair.rejected, told=prompts.label)
        yield f"{bias.name}: label of one response, as the gate asks (label.prompt={label_name})", of_response
    directions: tuple[Direction, ...] = () if recipe.synthesize.by == "rules" else ("add", "remove")
    for direction in directions:
        rewrite = RewriteRequest(pair.prompt, pair.rejected, direction, pair.chosen)
        request = rewrite_request(rewrite, bias, recipe.synthesize.show_prompt, told=prompts.rewrite)
        yield f"{bias.name}: rewrite, {direction} (rewrite.prompt={rewrite_name})", request


def _section(purpose: str, request: Request) -> str:
    parts = [f"══ {purpose}", f"── system\n{request.system}", f"── user\n{request.user}"]
    if request.schema is not None:
        names = ", ".join(request.schema["properties"])
        parts.append(
            f"── answer\nJSON of {names}, where the server holds a model to a schema; otherwise the system text goes on with:\n"
            f"{request.plain}"
        )
    return "\n\n".join(parts)
