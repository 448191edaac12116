"""What a reward model would learn from preference data, from Python."""

from __future__ import annotations

from typing import Unpack

from cda.api.arguments import RUNS, Terms, declared, loaded_for_model, put, several
from cda.api.results import DataAudit
from cda.api.rows import as_reference
from cda.errors import RecipeError
from cda.jobs.options import Data, DataArguments
from cda.preferences.stage import DataOptions, run_data, without_effect
from cda.resources.artifacts import folder_suffix


@declared(DataArguments)
def audit_data(data: Data, /, **options: Unpack[DataArguments]) -> DataAudit:
    """What a reward model would learn of each bias from preference pairs, as `cda data` measures it; no model is asked.

    Args:
        data: Rows of prompt, chosen and rejected, a file of them, or `embedded`.
        settings: As for `cda.audit`; an LLM labels with `llm={"model": …}`.

    Returns:
        Contingency, correlation and odds of each bias, crude and adjusted for the others and the length.

    Raises:
        CdaError: As `cda.audit`.

    Example:
        >>> import cda
        >>> found = cda.audit_data("embedded", biases=["jargon", "length"])  # doctest: +SKIP
        >>> found.bias("jargon").odds.adjusted  # doctest: +SKIP
    """
    terms = Terms.of("cda.audit_data", DataArguments, options)
    biases, columns, split = options["biases"], options["columns"] or {}, options["split"]
    settled = terms.nested(biases=biases)
    given = [word.partition("=")[0] for word in terms.overrides or ()]
    if problems := without_effect([*given, *settled], terms.where):
        raise RecipeError(problems)
    file = as_reference(data, "pairs", terms.inputs)
    labels, by = (tuple(map(str, several(options[name]))) for name in ("labels", "by"))
    if terms.out is None:
        others = [*terms.words, *several(biases), *(f"{ours}={theirs}" for ours, theirs in columns.items())]
        others += [] if split == "train" else [split]
        inputs = {"of": file, "by": list(by) or None, "labels": list(labels) or None, "limit": terms.limit}
        put(settled, "run.folder", str(RUNS / f"data{folder_suffix('data', inputs, others)}"))
    asked = DataOptions(by, labels, columns, split, terms.limit, options["figures"], biases is not None)
    with loaded_for_model("embedded", settled, terms) as loaded:
        return run_data(file, loaded, asked)
