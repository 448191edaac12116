"""RATE triples from responses: each rewritten to flip the attribute, and the rewrite rewritten back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cda.biases import Bias
from cda.llm.protocol import LLM
from cda.records import Direction, Exclusions, Prompt, RewriteRequest, Triple, count_reasons
from cda.results.rate import Flips
from cda.rewriting.asked import Labeller, Rewriter
from cda.rewriting.fidelity import is_unchanged, not_flipped
from cda.rewriting.gate import Gated
from cda.rewriting.questions import Answered, baseline_responses


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
    checked = True if isinstance(rewriter, Gated) and rewriter.checks_flips(bias) else None
    second = [RewriteRequest(one.prompt, text, _flip(not one.has_attribute)) for one, text in left]
    back = rewriter.rewrite(second, bias)
    reasons += [f"rewrite of the rewrite: {one.reason}" for one in back if one.text is None]
    triples = tuple(
        Triple(bias.name, one.prompt, one.response, text, done.text, one.has_attribute, checked)
        for (one, text), done in zip(left, back, strict=True)
        if done.text is not None
    )
    return triples, Exclusions(len(originals), count_reasons(reasons))


def checked_triples(triples: Sequence[Triple], bias: Bias) -> tuple[list[Triple], list[str]]:
    """Triples whose two rewrites changed the text and flipped the bias, and why the others did not.

    Readers' and labellers' word (`Triple.flipped`) goes before the bias's measure; a triple that neither can tell anything
    about is kept.

    Args:
        triples: Of one bias.
        bias: The bias.

    Returns:
        The triples kept, in order, and one reason for each of the others.
    """
    kept: list[Triple] = []
    reasons: list[str] = []
    for triple in triples:
        reason = _why_not(triple, bias)
        if reason is None:
            kept.append(triple)
        else:
            reasons.append(reason)
    return kept, reasons


def _why_not(triple: Triple, bias: Bias) -> str | None:
    steps = (
        ("rewrite", triple.original, triple.rewrite, triple.has_attribute),
        ("rewrite of the rewrite", triple.rewrite, triple.rewrite_of_rewrite, not triple.has_attribute),
    )
    for name, before, after, had_it in steps:
        if is_unchanged(after, before, bias):
            return f"{name}: unchanged"
        if triple.flipped is None and (
            reason := not_flipped(RewriteRequest(triple.prompt, before, _flip(had_it)), after, bias)
        ):
            return f"{name}: {reason}"
    return "readers or labels found the attribute not flipped" if triple.flipped is False else None


def flips_of(
    tried: Sequence[bool], triples: Sequence[Triple], by: str, checked_by: str | None, made: bool = False
) -> Flips:
    """Count originals and triples by whether the original has the bias.

    Args:
        tried: Of every original, whether it has the bias.
        triples: Those of them that are left.
        by: Who rewrote.
        checked_by: Who or what says that the bias flipped.
        made: Whether the audit made the triples.
    """
    n_with = int(sum(triple.has_attribute for triple in triples))
    return Flips(
        by=by,
        checked_by=checked_by,
        tried_with=int(sum(tried)),
        flipped_with=n_with,
        tried_without=int(len(tried) - sum(tried)),
        flipped_without=len(triples) - n_with,
        made=made,
    )


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
