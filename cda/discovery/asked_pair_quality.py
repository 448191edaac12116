"""Grades of rewritten pairs by an LLM, and how near it comes to an attribute that it was not told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from cda.biases import Bias
from cda.discovery.pair_questions import (
    EDIT_GRADES,
    EDIT_SCALE,
    SIMILARITY_SCALE,
    asked,
    edit_request,
    guess_request,
    parse_difference,
    parse_grades,
    similarity_request,
)
from cda.llm.protocol import LLM, Request
from cda.results.base import Estimate
from cda.results.discover import Measured
from cda.results.rewrite_quality import EditGrades, Guess, Guesses
from cda.stats.bootstrap import bootstrap_mean
from cda.stats.proportions import wilson

_FEW_CLUSTERS = 10  # a percentile interval of fewer is too narrow


def edit_grades(
    rows: Sequence[Measured], bias: Bias, llm: LLM, rng: np.random.Generator, n_repeats: int = 2
) -> EditGrades:
    """Have every rewrite graded: was the attribute changed and nothing else, and does it read well?

    Raises:
        LLMError: Nothing can be answered.
    """

    def request(place: int, sample: int) -> Request:
        return edit_request(bias, rows[place], sample)

    parse = partial(parse_grades, names=EDIT_GRADES, scale=EDIT_SCALE)
    answers, exclusions = asked(llm, len(rows), request, parse, f"grading edits for {bias.name}", n_repeats)
    read = [(row, one) for row, one in zip(rows, answers, strict=True) if one is not None]

    def mean(of: Callable[[dict[str, int]], int], rewriter: str | None = None) -> Estimate | None:
        kept = [(row.prompt_id, of(one)) for row, one in read if rewriter in (None, row.rewriter)]
        return _mean_score(kept, EDIT_SCALE, rng)

    by_rewriter = {
        name: mean(lambda one: min(one.values()), name) for name in dict.fromkeys(row.rewriter for row in rows)
    }
    return EditGrades(
        score=mean(lambda one: min(one.values())),
        edit=mean(lambda one: one["edit"]),
        fluency=mean(lambda one: one["fluency"]),
        by_rewriter={name: one for name, one in by_rewriter.items() if one is not None},
        exclusions=exclusions,
    )


def guessed_attribute(
    rows: Sequence[Measured],
    bias: Bias,
    llm: LLM,
    rng: np.random.Generator,
    n_guesses: int = 5,
    n_pairs: int = 4,
    n_repeats: int = 2,
) -> Guesses:
    """Have the attribute guessed from pairs, and each guess compared with what it should have been.

    Args:
        rows: Pairs; one of each prompt is drawn.
        bias: Its description is what the guesses are compared with.
        llm: Guesses and compares, in separate questions.
        rng: Draws prompts and pairs.
        n_guesses: At most so many guesses; fewer where there are too few prompts.
        n_pairs: Pairs shown for one guess; fewer only where all prompts together are fewer.
        n_repeats: How often an unreadable answer is asked for again.

    Raises:
        LLMError: Nothing can be answered.
        ValueError: A number below 1.
    """
    if n_guesses < 1 or n_pairs < 1:
        raise ValueError(f"{n_guesses} guesses from {n_pairs} pairs: 1 or more of each is needed")
    groups = _groups(rows, n_guesses, n_pairs, rng)

    def guess(place: int, sample: int) -> Request:
        return guess_request(groups[place], sample)

    texts, guessing = asked(llm, len(groups), guess, parse_difference, "guessing the attribute", n_repeats)
    read = [(text, len(group)) for text, group in zip(texts, groups, strict=True) if text is not None]

    def similarity(place: int, sample: int) -> Request:
        return similarity_request(bias.description, read[place][0], sample)

    parse = partial(parse_grades, names=("similarity",), scale=SIMILARITY_SCALE)
    rated, rating = asked(llm, len(read), similarity, parse, "comparing guesses", n_repeats)
    guesses = tuple(
        Guess(text=text, similarity=None if one is None else one["similarity"], n_pairs=n)
        for (text, n), one in zip(read, rated, strict=True)
    )
    scores = [(str(at), one.similarity) for at, one in enumerate(guesses) if one.similarity is not None]
    return Guesses(
        similarity=_mean_score(scores, SIMILARITY_SCALE, rng), guesses=guesses, guessing=guessing, rating=rating
    )


def _mean_score(scores: Sequence[tuple[str, int]], scale: tuple[int, int], rng: np.random.Generator) -> Estimate | None:
    """Mean of scores, with an interval from resampled clusters, or Wilson's where these are few or do not differ.

    Wilson's is that of the place on the scale as a share: a graded score varies no more than one that is low or high.
    """
    if not scores:
        return None
    clusters, values = [cluster for cluster, _ in scores], np.array([value for _, value in scores], dtype=np.float64)
    low, high = scale
    unit, n_clusters = f"score {low} to {high}", len(set(clusters))
    if n_clusters >= _FEW_CLUSTERS:
        drawn = bootstrap_mean(values, clusters, rng)
        if drawn.low < drawn.high:
            return drawn.estimate(unit)
    mean, width = float(values.mean()), high - low
    bottom, top = wilson((mean - low) / width * n_clusters, n_clusters)
    return Estimate(
        value=mean,
        low=low + width * bottom,
        high=low + width * top,
        n=len(values),
        n_prompts=n_clusters,
        unit=unit,
        method="Wilson 95% on the scale",
    )


def _groups(rows: Sequence[Measured], n_groups: int, size: int, rng: np.random.Generator) -> list[list[Measured]]:
    """Groups of pairs of different prompts, no prompt in two; a smaller group only where it is the only one."""
    by_prompt: dict[str, list[Measured]] = {}
    for row in rows:
        by_prompt.setdefault(row.prompt_id, []).append(row)
    names = sorted(by_prompt)
    shuffled = [by_prompt[names[at]] for at in rng.permutation(len(names))]
    drawn = [some[int(rng.integers(len(some)))] for some in shuffled]
    whole = [drawn[start : start + size] for start in range(0, len(drawn) - size + 1, size)]
    return whole[:n_groups] or ([drawn] if drawn else [])
