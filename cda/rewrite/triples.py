"""RATE triples from responses: each rewritten to flip the attribute, and the rewrite rewritten back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cda.biases import Bias
from cda.llm.protocol import LLM
from cda.records import Direction, Exclusions, Prompt, RewriteRequest, Triple, count_reasons
from cda.rewrite.protocol import Labeller, Rewriter
from cda.rewrite.questions import Answered, baseline_responses


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


def triples_of_responses(
    responses: Sequence[Answered], bias: Bias, labeller: Labeller, rewriter: Rewriter
) -> tuple[tuple[Triple, ...], Exclusions]:
    """Label responses (w), rewrite each to 1 − w, and the rewrite back to w; both directions occur as w falls.

    Args:
        responses: Responses as they are, with their prompts.
        bias: The attribute.
        labeller: Says w of each; a response whose label could not be read makes no triple.
        rewriter: Flips it. Behind a gate, a triple is only made of rewrites that passed it.

    Returns:
        The triples, in order, and what failed on the way, by reason.
    """
    labels = labeller([one.prompt for one in responses], [one.response for one in responses], bias)
    labelled = list(zip(responses, labels, strict=True))
    originals = [Original(one.prompt, one.response, label) for one, label in labelled if label is not None]
    triples, failed = make_triples(originals, bias, rewriter)
    n_unread = len(responses) - len(originals)
    reasons = {"its label could not be read": n_unread} if n_unread else {}
    return triples, Exclusions(len(responses), {**reasons, **failed.reasons})


def triples_of_queries(
    queries: Sequence[str] | Sequence[Prompt], bias: Bias, llm: LLM, labeller: Labeller, rewriter: Rewriter
) -> tuple[tuple[Triple, ...], Exclusions]:
    """Triples from queries alone: a baseline response by the LLM first, then as in `triples_of_responses`.

    Raises:
        LLMError: Nothing can be answered.
    """
    answered, unanswered = baseline_responses(queries, llm)
    triples, failed = triples_of_responses(answered, bias, labeller, rewriter)
    return triples, Exclusions(len(queries), {**unanswered.reasons, **failed.reasons})


def _flip(has_attribute: bool) -> Direction:
    return "remove" if has_attribute else "add"
