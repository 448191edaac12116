"""The prompts and the calls of LLMs that a discovery takes at most, before anything is asked."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

from cda.discovery.grouping import CHUNK, MAX_ROUNDS
from cda.discovery.material import (
    NARROW,
    embedded_samples,
    material_counts,
    prompt_topics,
    prompts_in,
    responses_in,
    responses_of,
    source_of,
    topics_made,
    topics_source,
    topics_to_write,
)
from cda.discovery.pair_quality import N_GUESSES
from cda.discovery.prompts import PARTS
from cda.discovery.proposals import N_NAMED
from cda.discovery.search import PROPOSED_FOR_EACH
from cda.discovery.setup import Discovery, Setup
from cda.discovery.topics import choose_topics, topic_sizes
from cda.embedded.model import EMBEDDED
from cda.llm.money import tokens_of
from cda.recipe.schema import LlmSection
from cda.records import prompt_text
from cda.resources.llm_access import Planned
from cda.results.discover import Part, SearchSettings

_SCENARIO_TOKENS, _PROMPT_TOKENS, _RESPONSE_TOKENS = 300, 250, 350
"""Tokens of a response whose length is not known yet are the last."""
_REWRITE_TOKENS, _VERDICT_TOKENS, _CRITERION_TOKENS, _LOOK_TOKENS = 450, 80, 30, 80


def planned_calls(asked: Discovery, n_given: int) -> list[tuple[LlmSection, Planned]]:
    """LLM and most calls of every step, without retries of unreadable answers; `n_given` is 0 for a search.

    If the material is made already, its prompts are counted; of a search by topic, those of each topic. Nothing is counted out that is only likely, such as candidates let
    go before the judge is asked.
    """
    setup, folder, judge = asked.setup, asked.folder, asked.judge
    section, llm, is_judge = setup.section, setup.llm.settings, judge.subject.section.is_judge
    if not setup.by_llm and not is_judge:
        return []
    is_made = folder.is_done(asked.material_stage())
    searches = _parts_made(folder.stage("material"), section.by_topic) if is_made else parts_at_most(setup)
    searched, validated, tested = (
        sum(step) for step in zip(*(_rewrites(setup, n_given, prompts) for prompts in searches), strict=True)
    )
    carried = 0 if n_given else sum(_carried(setup, len(searches), prompts) for prompts in searches)
    held_out, n_rewriters = validated + tested + carried, len(setup.rewriter_names)
    steps = planned_material(setup)
    if setup.by_llm:
        if not n_given:
            questions = len(searches) * _questions(setup.search)
            steps.append((llm, Planned("proposing, mutating, grouping", questions, 1600, 250)))
        for place, name in enumerate(section.rewriters):
            calls = held_out + (searched if place == 0 else 0)
            what = f"rewriting by {name}"
            steps.append((llm.named(name), Planned(what, calls, 2 * _RESPONSE_TOKENS, _REWRITE_TOKENS)))
    if is_judge:
        calls = 2 * (searched + n_rewriters * held_out)
        verdict_tokens = _VERDICT_TOKENS + _CRITERION_TOKENS * len(judge.loaded.prompts.judge.criteria)
        judging = Planned("judging in both orders", calls, 3 * _RESPONSE_TOKENS, verdict_tokens)
        steps.append((judge.loaded.recipe.llm, judging))
    if setup.asks_about_pairs:
        # Both sides of each pair are labelled and its edit is graded; for each candidate, guesses are made and compared with it.
        n_candidates = len(searches) * (n_given or setup.search.populations[-1])
        calls = 3 * n_rewriters * tested + 2 * N_GUESSES * n_candidates
        steps.append((llm, Planned("looking at the rewrites", calls, 2 * _RESPONSE_TOKENS, _LOOK_TOKENS)))
    return steps


def _rewrites(setup: Setup, n_given: int, prompts: Mapping[Part, int]) -> tuple[int, int, int]:
    """Rewrites by one rewriter for the search, the validation and the test."""
    section, settings = setup.section, setup.search

    def held_out(n_candidates: int, most: int | None, n_prompts: int) -> int:
        return _held_out(setup, n_candidates, most, n_prompts)

    if n_given:
        return 0, 0, held_out(n_given, section.max_test, sum(prompts.values()))
    first, *survivors, finalists = settings.populations
    sizes = [first * (1 + settings.variations), *(n * (1 + settings.mutations) for n in survivors)]
    searched = sum(n * min(batch, prompts["train"]) for n, batch in zip(sizes, settings.prompts, strict=True))
    return (
        searched * len(settings.directions),
        held_out(finalists, section.max_validation, prompts["validation"]),
        held_out(finalists, section.max_test, prompts["test"]),
    )


def _held_out(setup: Setup, n_candidates: int, most: int | None, n_prompts: int) -> int:
    drawn = n_prompts if most is None else min(most, n_prompts)
    return n_candidates * drawn * setup.responses_each * len(setup.search.directions)


def _carried(setup: Setup, n_topics: int, prompts: Mapping[Part, int]) -> int:
    """Rewrites of a topic's test responses by one rewriter, for attributes of the other topics."""
    each = min(setup.section.carried, setup.search.populations[-1])
    return _held_out(setup, (n_topics - 1) * each, setup.section.max_test, prompts["test"])


def _parts_made(material: Path, by_topic: bool) -> list[Mapping[Part, int]]:
    """Prompts of each part in each search, of a material that is made."""
    return list(topics_made(material).prompts.values()) if by_topic else [material_counts(material).prompts]


def _questions(settings: SearchSettings) -> int:
    """Questions for attributes, for their variations, and for their groups in every generation."""
    first, *survivors, _ = settings.populations
    proposing = math.ceil(PROPOSED_FOR_EACH * first / N_NAMED)
    varying = first if settings.variations else 0
    to_group = [proposing * N_NAMED, varying * (1 + settings.variations)]
    to_group += [n * (1 + settings.mutations) for n in survivors]
    chunks = [math.ceil(n / CHUNK) for n in to_group]
    grouping = sum(n if n == 1 else n * MAX_ROUNDS for n in chunks)
    return proposing + varying + sum(survivors) + grouping


def parts_at_most(setup: Setup) -> list[Mapping[Part, int]]:
    """Prompts of each part, in each search, if none turns out to be unusable, unanswered or said twice: one search, or one for
    each topic. DataError for an unusable file, and for topics that cannot be searched."""
    section = setup.section
    return [
        # Parts are cut by largest remainder: none is larger than its share rounded up.
        {part: math.ceil(n * share - 1e-9) for part, share in zip(PARTS, section.parts, strict=True)}
        for n in (_topic_prompts(setup).values() if section.by_topic else [_n_prompts(setup)])
    ]


def _topic_prompts(setup: Setup) -> dict[str, int]:
    """Topics that can be searched, as far as it is known beforehand, with their prompts; errors as of `choose_topics`."""
    section, source = setup.section, source_of(setup)
    if source is None and section.prompts is None:
        sizes = dict.fromkeys(topics_to_write(section), section.scenarios * section.prompts_each)
    elif source is None:
        sizes = topic_sizes(prompts_in(str(section.prompts))[0], prompt_topics(str(section.prompts)))
    else:
        sampling, topics, _ = responses_of(setup)
        sizes = topic_sizes([sample.prompt for sample in sampling.samples], topics)
    return {topic: sizes[topic] for topic in choose_topics(sizes, section, topics_source(setup)).topics}


def _n_prompts(setup: Setup) -> int:
    n, most = _n_known(setup), setup.section.max_prompts
    return n if most is None else min(n, most)


def _n_known(setup: Setup) -> int:
    section, source = setup.section, source_of(setup)
    if source in (EMBEDDED, NARROW):
        return len(embedded_samples(source)[0].samples)
    if source is not None:
        return len(responses_in(source, section.columns, section.split).samples)
    if section.prompts is not None:
        return len(prompts_in(section.prompts)[0])
    return len(topics_to_write(section)) * section.scenarios * section.prompts_each


def planned_material(setup: Setup) -> list[tuple[LlmSection, Planned]]:
    """Model and calls of every step that asks an LLM."""
    section, llm = setup.section, setup.llm.settings
    if not setup.by_llm or section.responses is not None:
        return []
    planned = []
    if section.prompts is None:
        n_scenarios = len(topics_to_write(section)) * section.scenarios
        n_prompts, tokens = n_scenarios * section.prompts_each, 60.0
        planned += [
            (llm, Planned("writing scenarios", len(topics_to_write(section)), 250, _SCENARIO_TOKENS)),
            (llm, Planned("writing prompts", n_scenarios, 300, _PROMPT_TOKENS)),
        ]
    else:
        prompts = prompts_in(section.prompts)[0]
        n_prompts, tokens = len(prompts), sum(tokens_of(prompt_text(prompt)) for prompt in prompts) / len(prompts)
    n_calls = min(n_prompts, section.max_prompts or n_prompts) * section.samples
    return planned + [
        (llm.named(name), Planned(f"responses of {name}", n_calls, tokens + 40, _RESPONSE_TOKENS))
        for name in setup.policies
    ]
