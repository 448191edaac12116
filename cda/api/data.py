"""What a reward model would learn from preference data, from Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path

from cda.api.arguments import (
    RUNS,
    Biases,
    Confirm,
    Terms,
    bias_names,
    check_types,
    loaded_for_model,
    put,
)
from cda.api.results import DataAudit
from cda.api.rows import Data, as_reference
from cda.errors import RecipeError
from cda.preferences.stage import DataOptions, run_data, without_effect
from cda.resources.artifacts import folder_suffix


def audit_data(
    data: Data,
    /,
    *,
    biases: Biases | None = None,
    labels: str | Path | Sequence[str | Path] | None = None,
    by: str | Sequence[str] | None = None,
    columns: Mapping[str, str] | None = None,
    split: str = "train",
    limit: int | None = None,
    figures: str | None = None,
    out: str | Path | None = None,
    budget_usd: float | None = None,
    confirm: Confirm = False,
    progress: bool = True,
    overrides: Sequence[str] | None = None,
    **settings: object,
) -> DataAudit:
    """What a reward model would learn of each bias from preference pairs, as `cda data` measures it; no model is asked.

    Args:
        data: Rows of prompt, chosen and rejected, a file of them, or `embedded`.
        biases: Names or bias files; None for all five, or those that `labels` has labels of.
        labels: Files that say which sides have each bias; None: labelled by each bias's measure, or by an LLM if `llm` names one.
        by: Columns by whose values the pairs are measured too, such as `source`.
        columns: Our column names to the file's, such as `{"prompt": "question"}`.
        split: Split of a folder or hub id with several.
        limit: Take at most so many pairs, drawn with the seed.
        figures: Also write the page's figures as files of this format: svg or pdf.
        out: Output folder; None for `runs/data-<pairs>`.
        budget_usd, confirm, progress, overrides, settings: As for `cda.audit`; an LLM labels with `llm={"model": …}`.

    Returns:
        Contingency, correlation and odds of each bias, crude and adjusted for the others and the length.

    Raises:
        CdaError: As `cda.audit`.

    Example:
        >>> import cda
        >>> found = cda.audit_data("embedded", biases=["jargon", "length"])  # doctest: +SKIP
        >>> found.bias("jargon").odds.adjusted  # doctest: +SKIP
    """
    terms = Terms("cda.audit_data", settings, overrides, out, budget_usd, confirm, progress, limit)
    check_types(terms.function, biases=biases, columns=columns, split=split, by=by, labels=labels)
    settled = terms.nested(biases=biases)
    given = [word.partition("=")[0] for word in terms.overrides or ()]
    if problems := without_effect([*given, *settled], terms.where):
        raise RecipeError(problems)
    file = as_reference(data, "pairs", terms.inputs)
    files = [str(labels)] if isinstance(labels, str | PathLike) else [str(path) for path in labels or ()]
    columns_by = [by] if isinstance(by, str) else list(by or ())
    if out is None:
        others = [
            *terms.words,
            *(bias_names(biases) or ()),
            *(f"{ours}={theirs}" for ours, theirs in (columns or {}).items()),
        ]
        others += [] if split == "train" else [split]
        inputs = {"of": file, "by": columns_by or None, "labels": files or None, "limit": limit}
        put(settled, "run.folder", str(RUNS / f"data{folder_suffix('data', inputs, others)}"))
    options = DataOptions(tuple(columns_by), tuple(files), columns or {}, split, limit, figures, biases is not None)
    with loaded_for_model("embedded", settled, terms) as loaded:
        result, summary = run_data(file, loaded, options)
        found = DataAudit(**dict(result))
        found._folder, found._summary = loaded.recipe.run_path, summary
        return found
