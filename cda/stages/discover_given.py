"""Attributes of the command line as candidates: in words, as bias files, or the shipped set of formats."""

from __future__ import annotations

from collections.abc import Sequence

from cda.biases import Bias, builtin_names, load_bias
from cda.discovery.attribute import described, distinct_names, trouble_with
from cda.discovery.formats import format_biases
from cda.discovery.records import Candidate
from cda.errors import RecipeError


def given_candidates(attributes: Sequence[str], formats: bool, llm: bool) -> list[Candidate]:
    """Each once, in the order given, the formats first.

    Args:
        attributes: Sentences, built-in names, or paths of bias files.
        formats: Whether the shipped format attributes are wanted.
        llm: Whether an LLM rewrites.

    Raises:
        RecipeError: One cannot be an attribute, or has no rules where rules have to write it; all of them are listed.
    """
    problems: list[str] = []
    biases: list[Bias] = list(format_biases()) if formats else []
    for text in attributes:
        try:
            biases.append(_bias(text))
        except RecipeError as error:
            problems += error.problems
    if not llm:
        problems += [
            f"--attribute {bias.description[:80]!r}: needs an LLM to write it (llm.model=...); without one, give a bias file with "
            "`offline:` rules"
            for bias in biases
            if bias.offline is None
        ]
    if problems:
        raise RecipeError(problems)
    candidates = [Candidate(bias, "given") for bias in distinct_names(biases)]
    return list({one.id: one for one in candidates}.values())


def _bias(text: str) -> Bias:
    if text.endswith((".yaml", ".yml")) or text in builtin_names():
        return load_bias(text)
    if reason := trouble_with(text):
        raise RecipeError([f"--attribute {text[:80]!r}: {reason}; one sentence is needed"])
    return described(text)
