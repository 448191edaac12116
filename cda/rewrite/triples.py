"""RATE triples from responses: each rewritten to flip the attribute, and the rewrite rewritten back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cda.biases import Bias
from cda.records import Direction, Exclusions, Prompt, RewriteRequest, Triple, count_reasons
from cda.rewrite.protocol import Rewriter


@dataclass(frozen=True, slots=True)
class Original:
    """A response as it is, and whether it exhibits the bias."""

    prompt: Prompt
    response: str
    has_attribute: bool


def make_triples(
    originals: Sequence[Original], bias: Bias, rewriter: Rewriter
) -> tuple[tuple[Triple, ...], Exclusions]:
    """Rewrite twice, in both directions at once; a response of which either rewrite failed makes no triple.

    Returns:
        The triples, in order, and what failed: the reason, with the rewrite that it befell.
    """
    first = [RewriteRequest(one.prompt, one.response, _flip(one.has_attribute)) for one in originals]
    flipped = rewriter.rewrite(first, bias)
    reasons = [f"rewrite: {one.reason}" for one in flipped if one.text is None]
    left = [(one, done.text) for one, done in zip(originals, flipped, strict=True) if done.text is not None]
    second = [RewriteRequest(one.prompt, text, _flip(not one.has_attribute)) for one, text in left]
    back = rewriter.rewrite(second, bias)
    reasons += [f"rewrite of the rewrite: {one.reason}" for one in back if one.text is None]
    triples = tuple(
        Triple(bias.name, one.prompt, one.response, text, done.text, one.has_attribute)
        for (one, text), done in zip(left, back, strict=True)
        if done.text is not None
    )
    return triples, Exclusions(len(originals), count_reasons(reasons))


def _flip(has_attribute: bool) -> Direction:
    return "remove" if has_attribute else "add"
