"""Steps 1 and 2 of a training on rows of the user's own: labels and rewrites, an outcome for each row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from statistics import fmean
from typing import Any, Literal, TypeVar

from cda.counterfactuals.label import label_tokens
from cda.data.load import RowError, prompt_of, side_text
from cda.data.pairs import pair_of
from cda.errors import DataError
from cda.llm.money import request_tokens, tokens_of
from cda.llm.protocol import Request
from cda.recipe.load import LoadedRecipe
from cda.records import Pair, Prompt, Rewrite, RewriteRequest
from cda.resources.llm_access import Planned, llm_access
from cda.resources.sources import rewriter
from cda.rewriting.labels import (
    PairLabel,
    ResponseLabel,
    exhibits,
    label_pairs,
    label_request,
    label_responses,
    measure_of,
    pair_request,
    unheld,
)
from cda.rewriting.rewriter import rewrite_request

T = TypeVar("T")


def labels_of_rows(rows: Sequence[dict[str, object]], loaded: LoadedRecipe) -> list[ResponseLabel] | list[PairLabel]:
    """A label for each row of prompt and response, or of prompt, chosen and rejected. DataError: other columns, or unusable rows."""
    asks = loaded.recipe.labels_by_llm and loaded.biases[0].label_by == "ask"
    if "response" in _columns(rows, ("response",), ("chosen", "rejected")):
        return _response_labels(*_responses(rows), loaded, asks)
    pairs = _each(rows, lambda row: pair_of(row.get("prompt"), row.get("chosen"), row.get("rejected")))
    return _pair_labels(pairs, loaded, asks)


def rewrites_of_rows(
    rows: Sequence[dict[str, object]], direction: Literal["add", "remove"], loaded: LoadedRecipe
) -> list[Rewrite]:
    """An outcome for each row of prompt and response. DataError: other columns, or unusable rows."""
    prompts, responses, references = _responses(rows)
    requests = [
        RewriteRequest(prompt, response, direction, reference)
        for prompt, response, reference in zip(prompts, responses, references, strict=True)
    ]
    recipe = loaded.recipe
    if recipe.rewrites_by_llm:
        _confirm_rewrites(requests, loaded)
    by = rewriter(recipe.synthesize, loaded.biases, recipe.seed, llm_access(loaded))
    return by.rewrite(requests, loaded.biases[0])


def _responses(rows: Sequence[dict[str, object]]) -> tuple[list[Prompt], list[str], list[str | None]]:
    """Prompts, responses, and each response's reference."""
    _columns(rows, ("prompt", "response"))
    read = _each(rows, lambda row: (prompt_of(row.get("prompt")), side_text(row.get("response")), row.get("reference")))
    prompts, responses, references = zip(*read, strict=True)
    return list(prompts), list(responses), list(references)


def _columns(rows: Sequence[dict[str, object]], *forms: tuple[str, ...]) -> set[str]:
    """Columns of the rows, which have to hold one of these forms."""
    present = {name for row in rows[:100] for name in row}
    if not any(present.issuperset(form) for form in forms):
        needed = ", or ".join(" and ".join(form) for form in forms)
        raise DataError(f"data: needs the columns {needed}. Found: {', '.join(sorted(present))}")
    return present


def _each(rows: Sequence[dict[str, Any]], read: Callable[[dict[str, Any]], T]) -> list[T]:
    """Every row read; an outcome belongs to each, so that none may be left out."""
    outcomes, problems = [], []
    for number, row in enumerate(rows, 1):
        try:
            outcomes.append(read(row))
        except RowError as error:
            problems.append(f"data, row {number}: {error}")
    if problems:
        more = [f"and {len(problems) - 10} more rows"] if len(problems) > 10 else []
        raise DataError("\n".join([*problems[:10], *more]))
    return outcomes


def _response_labels(
    prompts: list[Prompt], responses: list[str], references: list[str | None], loaded: LoadedRecipe, asks: bool
) -> list[ResponseLabel]:
    bias, recipe, told = loaded.biases[0], loaded.recipe, loaded.prompts.label
    if not asks:
        if measure_of(bias).relative and None in references:
            raise DataError(
                f"data, row {references.index(None) + 1}: {bias.name} is measured against another response; give that as "
                "`reference`"
            )
        shown = [exhibits(*each) for each in zip(responses, repeat(bias), references, strict=False)]
        return [ResponseLabel(label, reason=unheld(bias) if label is None else None) for label in shown]
    _confirm_labels([label_request(bias, *text, told=told) for text in zip(prompts, responses, strict=True)], loaded)
    return label_responses(prompts, responses, bias, llm_access(loaded).client(), recipe.label.ask_again, told)


def _pair_labels(pairs: list[Pair], loaded: LoadedRecipe, asks: bool) -> list[PairLabel]:
    bias, recipe, told = loaded.biases[0], loaded.recipe, loaded.prompts.label
    if not asks:
        return [PairLabel.measured_of(pair, bias) for pair in pairs]
    _confirm_labels([pair_request(bias, pair, "chosen", told=told) for pair in pairs], loaded)
    return label_pairs(pairs, bias, llm_access(loaded).client(), recipe.seed, recipe.label.ask_again, told)


def _confirm_labels(requests: Sequence[Request], loaded: LoadedRecipe) -> None:
    name, answer = loaded.biases[0].name, label_tokens(loaded.prompts.label)
    llm_access(loaded).confirm(
        Planned(f"labelling {name}", len(requests), fmean(map(request_tokens, requests)), answer)
    )


def _confirm_rewrites(requests: Sequence[RewriteRequest], loaded: LoadedRecipe) -> None:
    bias, section, told = loaded.biases[0], loaded.recipe.synthesize, loaded.prompts.rewrite
    asked = [rewrite_request(request, bias, section.show_prompt, told=told) for request in requests]
    mean_out = fmean(tokens_of(request.response) for request in requests)
    n = len(requests) * (2 if section.gate.on and bias.label_by == "ask" else 1)
    llm_access(loaded).confirm(Planned(f"rewriting for {bias.name}", n, fmean(map(request_tokens, asked)), mean_out))
