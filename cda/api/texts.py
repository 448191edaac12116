"""Labels and rewrites from Python: steps 1 and 2 of a training, on texts of your own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import repeat
from pathlib import Path
from statistics import fmean
from typing import Any, TypeVar, Unpack

from cda.api.arguments import Terms, check_types, declared, loaded_for_model, rows_of
from cda.counterfactuals.label import label_tokens
from cda.data.load import RowError, prompt_of, side_text
from cda.data.pairs import pair_of
from cda.errors import DataError
from cda.jobs.options import Arg, Data, Option, Place, RewriteArguments, TextArguments
from cda.llm.money import request_tokens, tokens_of
from cda.llm.protocol import Request
from cda.llm.purse import Purse
from cda.recipe.load import LoadedRecipe
from cda.records import Pair, Prompt, Rewrite, RewriteRequest
from cda.resources.llm_access import Planned, llm_access, share_purse
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


@declared(TextArguments)
def label(data: Data, bias: str | Path, /, **options: Unpack[TextArguments]) -> list[ResponseLabel] | list[PairLabel]:
    """Label responses, or both sides of pairs, with a bias, by its measured feature or by asking an LLM.

    Args:
        data: Rows of prompt and response, or of prompt, chosen and rejected; a list of dicts, a Dataset, a frame or a file.
        bias: Name or bias file.
        settings: By the recipe's names, such as `label={"prompt": "paper"}`; `llm` is the model to ask, or its section, such as
            `{"model": "gpt-4o", "base_url": …}`, and without it the bias's measure labels.

    Returns:
        A label for each row, in order: `present` for a response (None, with the `reason`, if no answer could be read),
        `labels` by side for a pair.

    Raises:
        RecipeError: A wrong setting, an unknown bias, or a bias without a measure if no LLM is named.
        DataError: Missing columns or unusable rows; all of them are named.
        LLMError: The LLM cannot be asked.
        SpendingError: The cost was not agreed to.

    Example:
        >>> import cda
        >>> rows = [{"prompt": "Tips for sleep?", "response": "- Go to bed early\\n- No coffee"}]
        >>> cda.label(rows, "structure")[0].present
        True
    """
    with _loaded("cda.label", TextArguments, options, data, bias) as (rows, loaded):
        asks = loaded.recipe.labels_by_llm and loaded.biases[0].label_by == "ask"
        if "response" in _columns(rows, ("response",), ("chosen", "rejected")):
            return _response_labels(*_responses(rows), loaded, asks)
        pairs = _each(rows, lambda row: pair_of(row.get("prompt"), row.get("chosen"), row.get("rejected")))
        return _pair_labels(pairs, loaded, asks)


@declared(RewriteArguments)
def rewrite(data: Data, bias: str | Path, /, **options: Unpack[RewriteArguments]) -> list[Rewrite]:
    """Add a bias to responses or remove it, and change nothing else; every rewrite passes the gate.

    Args:
        data: Rows of prompt and response, and `reference` (the other response) if the bias is relative to one, as length is.
        bias: Name or bias file.
        settings: By the recipe's names, such as `synthesize={"gate": {"ask_again": 0}}`; `llm` as for `cda.label`, and without it
            the bias file's offline rules rewrite.

    Returns:
        An outcome for each row, in order: its `text`, or None and the `reason`. Never the unmodified text.

    Raises:
        RecipeError: A wrong setting or direction, an unknown bias, or a bias without rules if no LLM is named.
        DataError: Missing columns or unusable rows; all of them are named.
        LLMError: The LLM cannot be asked.
        SpendingError: The cost was not agreed to.

    Example:
        >>> import cda
        >>> rows = [{"prompt": "What is a cell?", "response": "A cell is the smallest unit of life. It has a wall. It divides."}]
        >>> cda.rewrite(rows, "structure")[0].text.count("\\n- ") > 0
        True
    """
    direction = options["direction"]
    if direction not in ("add", "remove"):
        raise DataError(f"direction: 'add' or 'remove'; found {direction!r}")
    with _loaded("cda.rewrite", RewriteArguments, options, data, bias) as (rows, loaded):
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


@contextmanager
def _loaded(
    function: str, kind: type, options: TextArguments, data: Data, bias: str | Path
) -> Iterator[tuple[list[dict[str, object]], LoadedRecipe]]:
    """The rows, and the settings with the bias."""
    check_types(function, {"bias": Option(Place, Arg("", form="a name or a path"))}, {"bias": bias})
    rows = rows_of(data, "data")
    if isinstance(llm := options.get("llm"), str):
        options["llm"] = {"model": llm}
    terms = Terms.of(function, kind, options)
    with loaded_for_model("embedded", terms.nested() | {"biases": [str(bias)]}, terms) as loaded:
        share_purse(loaded, Purse())  # there is no folder: a budget is for one call
        yield rows, loaded


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
