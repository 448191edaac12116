"""The commands that measure without a training: preference data, benchmarks, samples, outputs, and unlisted biases."""

from __future__ import annotations

from typing import Annotated, Any

from typer import Argument

from cda.cli.app import ALWAYS, MEASURE, TARGET, Call, Overrides, job, settings_apart
from cda.errors import RecipeError
from cda.jobs.options import BestOfArguments, DataArguments, DiscoverArguments, QualityArguments

Scorer = Annotated[str, Argument(help=TARGET)]


@job(MEASURE, "seed", DataArguments, does="cda.api.benchmarks:audit_data")
def data(
    pairs: Annotated[str, Argument(help="Preference pairs in TRL's format, or `embedded`.")],
    overrides: Overrides = None,
) -> None:
    """What a reward model would learn of each bias from preference pairs, before anything is trained."""


@job(MEASURE, "seed columns", QualityArguments)
def quality(
    call: Call,
    model: Scorer,
    files: Annotated[
        list[str],
        Argument(
            help="Preference files: RewardBench 1 or 2, RM-Bench, LLMBar, pairs in TRL's format, or `embedded`; and "
            "section.key=value, as many as you like."
        ),
    ],
    **options: Any,
) -> None:
    """Accuracy on preference benchmarks by section, or win rate of outputs over others, before and after an adapter."""
    from cda.api.benchmarks import quality as measured

    words, names = settings_apart(files)
    call.output.show(measured(model, names, **options, **call.paid(words, "quality")))


@job(MEASURE, "seed", BestOfArguments, ALWAYS, "best-of", does="cda.api.benchmarks:best_of")
def best_of(
    model: Scorer,
    responses: Annotated[str, Argument(help="Sampled responses: prompt and responses, or prompt and response.")],
    overrides: Overrides = None,
) -> None:
    """How prevalent each bias is among the best of n responses, and in a policy tilted to the reward, before and after an adapter."""


@job(MEASURE, "seed columns", DiscoverArguments)
def discover(call: Call, model: Scorer, overrides: Overrides = None, **options: Any) -> None:
    """Find attributes that the model rewards and a judge does not, confirm them on unseen prompts, write bias files."""
    from cda.api.runs import discover as search
    from cda.results.commands import Plan

    if call.output.as_json and options["review"]:
        raise RecipeError(["--json: not with --review, which has no result before the test"])
    result = search(model, **options, **call.paid(overrides, "responses"))
    # Only a search that waits for its review has no result.
    call.output.show(Plan(settings={}, lines=()) if isinstance(result.found, str) else result.found, result.summary)
