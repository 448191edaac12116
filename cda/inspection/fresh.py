"""A few rewrites made for looking at them, in both directions, those that failed among them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from cda.biases import Bias
from cda.counterfactuals.label import LABEL_TOKENS
from cda.counterfactuals.triples import read_responses
from cda.data.load import load_rows, looks_like_path
from cda.embedded.model import NAME as EMBEDDED
from cda.embedded.rules import rules_of
from cda.embedded.texts import authored_contrasts
from cda.errors import DataError, RecipeError
from cda.inspection.sources import FRESH, UNGATED, Material, Seen
from cda.inspection.targets import InspectOptions, recipe_of
from cda.llm.money import request_tokens, tokens_of
from cda.llm.protocol import Request
from cda.recipe.load import LoadedRecipe
from cda.records import Direction, Pair, Prompt, Rewrite, RewriteRequest
from cda.resources.artifacts import shown_path
from cda.resources.llm_access import llm_access
from cda.resources.sources import load_pairs, prompt_name, rewriter, training_pairs
from cda.resources.spending import Planned
from cda.rewriting.labels import pair_request, response_request
from cda.rewriting.rewriter import Gated, Labeller, Resampling, Rewriter, rewrite_request
from cda.scorers.judge import judge_request, token_request
from cda.stats.streams import drawn

Answer = tuple[Prompt, str, bool | None]
"""A prompt, a response, and whether it exhibits the bias, where that is known."""
_BACK = "made now, rewritten back"


@dataclass(frozen=True)
class _Watched:
    """A rewriter of which the texts are kept, whatever becomes of them behind it.

    Attributes:
        rewriter: Writes.
        said: Request to its last text; shared with the rewriters that give further answers.
    """

    rewriter: Rewriter
    said: dict[RewriteRequest, str]

    @property
    def name(self) -> str:
        return self.rewriter.name

    def rewrite(self, requests: Sequence[RewriteRequest], bias: Bias) -> list[Rewrite]:
        outcomes = self.rewriter.rewrite(requests, bias)
        for request, outcome in zip(requests, outcomes, strict=True):
            if outcome.text is not None:
                self.said[request] = outcome.text
        return outcomes

    def resampled(self, sample: int) -> Rewriter:
        again = self.rewriter.resampled(sample) if isinstance(self.rewriter, Resampling) else self.rewriter
        return _Watched(again, self.said)


def fresh_rewrites(loaded: LoadedRecipe, n: int, seed: int, responses: str | None = None) -> Material:
    """Rewrite answers with the recipe's rewriter, in both directions.

    Embedded answers are without the bias or, where there are texts of it, with it. Where there are none, and with answers
    of a file, each rewrite is rewritten back, so that both directions are seen.

    Args:
        loaded: Says who rewrites, labels and checks.
        n: Answers of each kind for each bias.
        seed: Draws them.
        responses: File of `prompt`, `response` and, where known, `has_attribute`; None: embedded answers.

    Raises:
        RecipeError: Rules are to rewrite, and a bias has none.
        RunError: Spending was not agreed to.
        DataError: The file cannot be used.
    """
    by_llm = loaded.recipe.rewrites_by_llm
    notes, texts = [], {}
    if responses is not None:
        rows, exclusions = read_responses(load_rows(responses), responses, loaded.recipe.audit)
        if not rows:
            raise DataError(f"{responses}: no usable response; {exclusions}")
        if exclusions.dropped:
            notes.append(f"{responses}: {exclusions}")
        own: list[Answer] = [(one.prompt, one.response, label) for one, label in drawn(rows, n, seed)]
        texts = {bias.name: own for bias in loaded.biases}
    for bias in loaded.biases:
        if not by_llm:
            rules_of(bias)
        texts.setdefault(bias.name, _embedded(bias, n, seed))
    back = {name: responses is not None or not any(label for _, _, label in answers) for name, answers in texts.items()}
    if by_llm:
        for bias in loaded.biases:
            llm_access(loaded).confirm(_planned(texts[bias.name], bias, loaded, back[bias.name]))
    rewrites = [one for bias in loaded.biases for one in _of_bias(texts[bias.name], bias, loaded, back[bias.name])]
    if not loaded.recipe.synthesize.gate.on:
        notes.append(UNGATED)
    where = "embedded answers" if responses is None else shown_path(responses)
    biases = {bias.name: bias for bias in loaded.biases}
    return Material(
        where,
        rewriter(loaded.recipe.synthesize, loaded.biases, loaded.recipe.seed, llm_access(loaded)).name,
        biases,
        tuple(rewrites),
        (),
        tuple(notes),
        words_within=loaded.recipe.synthesize.gate.words_within,
        with_failed=True,
    )


def _labeller(bias: Bias, loaded: LoadedRecipe) -> Labeller | None:
    """The LLM that labels responses of a bias; None where its measure does."""
    asks = loaded.recipe.labels_by_llm and bias.label_by == "ask"
    return llm_access(loaded).labeller() if asks else None


def _embedded(bias: Bias, n: int, seed: int) -> list[Answer]:
    """Answers written without the bias and, where there are such texts, answers written with it."""
    without = authored_contrasts("audit", [bias.name]) or authored_contrasts("audit", ["jargon"])
    having = authored_contrasts("shown", [bias.name])
    return [
        *((one.prompt, one.base, False) for one in drawn(without, n, seed)),
        *((one.prompt, one.perturbed, True) for one in drawn(having, n, seed)),
    ]


def _of_bias(texts: Sequence[Answer], bias: Bias, loaded: LoadedRecipe, back: bool) -> list[Seen]:
    by, said = _watched(loaded)
    labeller = _labeller(bias, loaded)
    known = _labels(texts, bias, labeller)
    first = [
        RewriteRequest(prompt, text, _flip(label is True))
        for (prompt, text, _), label in zip(texts, known, strict=True)
    ]
    found = _rewritten(first, bias, by, said, FRESH)
    if back:
        again = [
            RewriteRequest(one.prompt, one.rewrite, _flip(one.direction == "add"))
            for one in found
            if one.rewrite is not None and one.failed is None
        ]
        found += _rewritten(again, bias, by, said, _BACK)
    return _with_labels(found, bias, labeller, loaded.recipe.llm.model)


def _watched(loaded: LoadedRecipe) -> tuple[Rewriter, dict[RewriteRequest, str]]:
    """The recipe's rewriter, and what it wrote before its gate looked at it."""
    by, said = (
        rewriter(loaded.recipe.synthesize, loaded.biases, loaded.recipe.seed, llm_access(loaded)),
        dict[RewriteRequest, str](),
    )
    if isinstance(by, Gated):
        return replace(by, rewriter=_Watched(by.rewriter, said)), said
    return by, said


def _rewritten(
    requests: Sequence[RewriteRequest], bias: Bias, by: Rewriter, said: dict[RewriteRequest, str], source: str
) -> list[Seen]:
    return [
        Seen(
            bias.name, source, request.prompt, request.response, outcome.text or said.get(request), request.direction,
            failed=outcome.reason,
        )
        for request, outcome in zip(requests, by.rewrite(requests, bias), strict=True)
    ]  # fmt: skip


def _labels(texts: Sequence[Answer], bias: Bias, labeller: Labeller | None) -> list[bool | None]:
    """Whether each answer has the bias: as its file says, else as labelled; a relative one (length) none has by itself."""
    found = [label for _, _, label in texts]
    missing = [row for row, label in enumerate(found) if label is None]
    if not missing or (bias.measure is not None and bias.measure.relative):
        return found
    if labeller is not None:
        told = labeller([texts[row][0] for row in missing], [texts[row][1] for row in missing], bias)
    else:
        told = [bias.shows(texts[row][1]) for row in missing]
    for row, label in zip(missing, told, strict=True):
        found[row] = label
    return found


def _with_labels(found: Sequence[Seen], bias: Bias, labeller: Labeller | None, name: str | None) -> list[Seen]:
    """An LLM's labels of both texts; those that the gate has asked for come out of the cache."""
    if labeller is None:
        return list(found)
    written = [one for one in found if one.rewrite is not None]
    prompts = [one.prompt for one in written]
    before = labeller(prompts, [one.original for one in written], bias) if written else []
    after = labeller(prompts, [str(one.rewrite) for one in written], bias) if written else []
    labelled = {
        id(one): replace(one, labels=(first, second), labelled_by=name)
        for one, first, second in zip(written, before, after, strict=True)
    }
    return [labelled.get(id(one), one) for one in found]


def _planned(texts: Sequence[Answer], bias: Bias, loaded: LoadedRecipe, back: bool) -> Planned:
    """A rewrite of each, and one of the rewrite, and where an LLM labels a label of every text."""
    requests = [RewriteRequest(prompt, text, "add") for prompt, text, _ in texts]
    n = len(texts) * (2 if back else 1)
    told, show = loaded.prompts.rewrite, loaded.recipe.synthesize.show_prompt
    mean_in = sum(request_tokens(rewrite_request(one, bias, show, told=told)) for one in requests) / max(
        1, len(requests)
    )
    mean_out = sum(tokens_of(one.response) for one in requests) / max(1, len(requests))
    if loaded.recipe.labels_by_llm and bias.label_by == "ask":
        return Planned(f"rewriting and labelling for {bias.name}", 3 * n, mean_in, (mean_out + 2 * LABEL_TOKENS) / 3)
    return Planned(f"rewriting for {bias.name}", n, mean_in, mean_out)


def _flip(has_attribute: bool) -> Direction:
    return "remove" if has_attribute else "add"


@dataclass(frozen=True, slots=True)
class Shown:
    """A request and what it is for."""

    what: str
    request: Request


def prompts_text(target: str, overrides: Sequence[str], options: InspectOptions) -> str:
    """What a user reads: each request's system and user text, and the form of its answer.

    Args:
        target: A recipe, a bias, or `judge:NAME`.
        overrides: `section.key=value` words.
        options: `bias` and `seed` alone.

    Raises:
        CdaError: The target is none, or an option says nothing here.
    """
    default = InspectOptions()
    unused = [
        f"--{name}: says nothing beside --prompts, which rewrites and scores nothing; leave one of them out"
        for name in ("n", "worst", "model", "responses", "fresh", "most", "html")
        if getattr(options, name) != getattr(default, name)
    ]
    if unused:
        raise RecipeError(unused)
    loaded = recipe_of(target, overrides, options)
    pair, where = _example(loaded, options.seed)
    parts = [f"What an LLM would be told, with a pair of {where} as the example. Nothing was asked."]
    judged = loaded.recipe.model.is_judge
    if loaded.recipe.llm.model is None:
        parts.append("llm.model is not set: as it stands no LLM is asked, and none of this is sent.")
    for one in [*([] if judged else _of_biases(loaded, pair)), *(_of_judge(loaded, pair) if judged else [])]:
        parts.append(_section(one))
    return "\n\n".join(parts)


def _example(loaded: LoadedRecipe, seed: int) -> tuple[Pair, str]:
    data = loaded.recipe.data
    if data.pairs == EMBEDDED or not looks_like_path(data.pairs):
        pairs, where = load_pairs(EMBEDDED, "", {}, "").pairs, "the embedded training pairs"
    else:
        pairs, where = training_pairs(loaded.recipe.data, loaded.opened).pairs, data.pairs
    return drawn(pairs, 1, seed)[0], where


def _of_biases(loaded: LoadedRecipe, pair: Pair) -> Iterator[Shown]:
    recipe, prompts = loaded.recipe, loaded.prompts
    by_label = prompt_name(recipe.label.prompt, prompts.label)
    by_rewrite = prompt_name(recipe.rewrite.prompt, prompts.rewrite)
    for bias in loaded.biases:
        if _is_asked(bias, loaded):
            yield Shown(
                f"{bias.name}: labels of a pair (label.prompt={by_label})",
                pair_request(bias, pair, "chosen", told=prompts.label),
            )
            yield Shown(
                f"{bias.name}: label of one response, as the gate asks (label.prompt={by_label})",
                response_request(bias, pair.prompt, pair.rejected, told=prompts.label),
            )
        if recipe.synthesize.by == "rules":
            continue
        for direction in ("add", "remove"):
            asked = RewriteRequest(pair.prompt, pair.rejected, direction, pair.chosen)
            yield Shown(
                f"{bias.name}: rewrite, {direction} (rewrite.prompt={by_rewrite})",
                rewrite_request(asked, bias, recipe.synthesize.show_prompt, told=prompts.rewrite),
            )


def _is_asked(bias: Bias, loaded: LoadedRecipe) -> bool:
    """Whether an LLM, once one is set, labels the bias."""
    by = loaded.recipe.label.by
    return bias.label_by == "ask" and (by == "auto" or loaded.recipe.llm.used_for(by))


def _of_judge(loaded: LoadedRecipe, pair: Pair) -> Iterator[Shown]:
    options, told = loaded.recipe.score.judge, loaded.prompts.judge
    texts = (pair.prompt, pair.chosen, pair.rejected)
    request = (
        token_request(*texts, options.ties, told=told)
        if options.by_token
        else judge_request(*texts, options.ties, told)
    )
    name = prompt_name(options.prompt, told)
    orders = "and once more in the other order" if told.orders == "both" else "in one order, drawn"
    yield Shown(f"a comparison, {orders} (score.judge.prompt={name})", request)


def _section(shown: Shown) -> str:
    request = shown.request
    parts = [f"══ {shown.what}", f"── system\n{request.system}", f"── user\n{request.user}"]
    if request.schema is not None:
        names = ", ".join(request.schema["properties"])
        parts.append(
            f"── answer\nJSON of {names}, where the server holds a model to a schema; otherwise the system text goes on with:\n"
            f"{request.plain}"
        )
    return "\n\n".join(parts)
