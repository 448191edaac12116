"""`cda inspect --prompts`: everything that an LLM would be told of one example, without asking any."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cda.biases import Bias
from cda.config.load import LoadedRecipe
from cda.config.scoring import kind_of
from cda.data.load import looks_like_path
from cda.embedded.model import NAME as EMBEDDED
from cda.errors import RecipeError
from cda.llm.protocol import Request
from cda.records import Pair, RewriteRequest
from cda.rewriting.asked import rewrite_request
from cda.rewriting.labels import pair_request, response_request
from cda.score.judge import judge_request, token_request
from cda.stages.inspect_targets import InspectOptions, recipe_of
from cda.stages.sources import load_pairs, prompt_name, training_pairs, uses_llm
from cda.stats.streams import drawn


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
    judged = kind_of(loaded.recipe.model.name_or_path) == "judge"
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
        pairs, where = training_pairs(loaded).pairs, data.pairs
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
    return bias.label_by == "ask" and (by == "auto" or uses_llm(by, loaded.recipe.llm))


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
