"""Labels by a measurable feature: what a bias file's `measure` says, applied to both sides of a pair."""

from __future__ import annotations

from cda.biases import Bias
from cda.biases.load import Measure
from cda.errors import RecipeError
from cda.records import Pair, Side


def exhibits(text: str, bias: Bias, other: str | None = None) -> bool:
    """Whether a response exhibits the bias, as measured.

    Args:
        text: The response.
        bias: Its `measure` decides.
        other: The response it stands beside, for a relative measure.

    Raises:
        RecipeError: The bias cannot be measured.
    """
    measure_of(bias)
    return bool(bias.shows(text, other))


def label_pair(pair: Pair, bias: Bias) -> dict[Side, bool | None]:
    """Label both sides of a pair."""
    return {
        "chosen": exhibits(pair.chosen, bias, pair.rejected),
        "rejected": exhibits(pair.rejected, bias, pair.chosen),
    }


def measure_of(bias: Bias) -> Measure:
    """The measure of a bias.

    Raises:
        RecipeError: It has none.
    """
    if bias.measure is None:
        raise RecipeError(
            [
                f"bias '{bias.name}' cannot be measured, so labelling it needs an LLM: set llm.model, or add `measure:` to its bias file"
            ]
        )
    return bias.measure
