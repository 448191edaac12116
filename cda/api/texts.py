"""Labels and rewrites from Python: steps 1 and 2 of a training, on texts of your own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Unpack

from cda.counterfactuals.own_rows import labels_of_rows, rewrites_of_rows
from cda.errors import DataError
from cda.jobs.options import Arg, Data, Option, Place, RewriteArguments, TextArguments
from cda.jobs.terms import Terms, check_types, declared, loaded_for_model, rows_of
from cda.llm.purse import Purse
from cda.recipe.load import LoadedRecipe
from cda.records import Rewrite
from cda.resources.llm_access import share_purse
from cda.rewriting.labels import PairLabel, ResponseLabel


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
        return labels_of_rows(rows, loaded)


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
        return rewrites_of_rows(rows, direction, loaded)


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
