"""Stage `material` of a discovery: prompts, responses to them, and what the model gives these; split by prompt."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cda.data.load import load_rows, looks_like_path
from cda.data.messages import RowError, prompt_of
from cda.discovery.parts import by_llm, warm_llm
from cda.discovery.prompts import generated_prompts, load_topics, own_topics, split_prompts
from cda.discovery.records import PromptSamples, Rated, Reward
from cda.discovery.sampling import PromptTexts, Sampling, Written, rated, responses_in, sampled_responses
from cda.embedded.model import NAME as EMBEDDED
from cda.embedded.texts import authored_responses
from cda.errors import DataError
from cda.files.jsonl import read_jsonl, read_text, write_jsonl
from cda.files.paths import user_path
from cda.launch import say
from cda.llm.money import tokens_of
from cda.recipe.load import LoadedRecipe
from cda.recipe.schema import LlmSection
from cda.records import Exclusions, Prompt, count_reasons, prompt_id, prompt_text, user_prompt
from cda.resources.artifacts import prompt_row
from cda.resources.spending import Planned
from cda.results.base import load, save
from cda.results.discover import Made, MaterialCounts, Part, Repeated

PARTS: tuple[Part, ...] = ("train", "validation", "test")
SAMPLES, COUNTS = "samples.jsonl", "material.json"
NARROW = "embedded-narrow"
"""Embedded responses to questions of one topic."""
_SAMPLED = "sampled"
_SCENARIO_TOKENS, _PROMPT_TOKENS, _RESPONSE_TOKENS = 300, 250, 350


@dataclass(frozen=True, slots=True)
class Material:
    """What a search works on.

    Attributes:
        parts: Rated responses by part.
        topics: `prompt_id` to the topic it was written for, where there is one.
    """

    parts: Mapping[Part, tuple[PromptSamples, ...]]
    topics: Mapping[str, str]

    def everything(self) -> tuple[PromptSamples, ...]:
        """All parts together."""
        return tuple(one for part in PARTS for one in self.parts[part])


def make_material(loaded: LoadedRecipe, reward: Reward, folder: Path) -> MaterialCounts:
    """Write samples.jsonl and material.json, and return what was counted.

    Raises:
        CdaError: Nothing to search in, or it cannot be made.
    """
    sampling, topics, made = _responses(loaded)
    found = rated(sampling.prompts, reward)
    if not found.samples:
        raise DataError(f"no response has a reward; responses: {found.exclusions}")
    section = loaded.recipe.discover
    split = split_prompts([one.prompt for one in found.samples], section.parts, loaded.recipe.seed)
    by_id = {prompt_id(one.prompt): one for one in found.samples}
    kept = {part: [by_id[prompt_id(one)] for one in getattr(split, part)] for part in PARTS}
    rows = [
        {
            "part": part,
            "topic": topics.get(prompt_id(sample.prompt)),
            "prompt": prompt_row(sample.prompt),
            "responses": [asdict(one) for one in sample.responses],
        }
        for part in PARTS
        for sample in kept[part]
    ]
    write_jsonl(folder / SAMPLES, rows)
    sizes = [len(one.responses) for part in PARTS for one in kept[part]]
    n_rated = sum(len(one.responses) for one in found.samples)
    counts = MaterialCounts(
        made=made,
        prompts={part: len(kept[part]) for part in PARTS},
        responses=sum(sizes),
        repeated=Repeated(prompts=split.n_repeated, responses=n_rated - sum(sizes)),
        single=sizes.count(1),
        unanswered=sampling.n_unanswered,
        unrated=found.n_unrated,
        sampled=dict(sampling.exclusions),
        rewards=found.exclusions,
    )
    save(counts, folder / COUNTS)
    say(f"  {_sentence(counts)}")
    return counts


def read_material(folder: Path) -> Material:
    """What `make_material` wrote."""
    parts: dict[Part, list[PromptSamples]] = {part: [] for part in PARTS}
    topics: dict[str, str] = {}
    for row in read_jsonl(folder / SAMPLES):
        prompt = prompt_of(row["prompt"])
        parts[row["part"]].append(PromptSamples(prompt, tuple(Rated(**one) for one in row["responses"])))
        if row["topic"]:
            topics[prompt_id(prompt)] = row["topic"]
    return Material({part: tuple(found) for part, found in parts.items()}, topics)


def material_counts(folder: Path) -> MaterialCounts:
    """What was counted when it was made."""
    return load(MaterialCounts, folder / COUNTS, "cda discover")


def parts_at_most(loaded: LoadedRecipe) -> dict[Part, int]:
    """Prompts of each part, where none turns out to be unusable, unanswered or said twice.

    Raises:
        DataError: A file that is named cannot be used.
    """
    section = loaded.recipe.discover
    source = _source(loaded)
    if source in (EMBEDDED, NARROW):
        n = len(_embedded(source)[0].prompts)
    elif source is not None:
        n = len(responses_in(source, section.columns, section.split).prompts)
    elif section.prompts is not None:
        n = len(prompts_in(section.prompts)[0])
    else:
        n = len(_topics(loaded)) * section.scenarios * section.prompts_each
    # Parts are cut by largest remainder: none is larger than its share rounded up.
    return {part: math.ceil(n * share - 1e-9) for part, share in zip(PARTS, section.parts, strict=True)}


def planned_material(loaded: LoadedRecipe) -> list[tuple[LlmSection, Planned]]:
    """Model and calls of every step that asks an LLM."""
    section, llm = loaded.recipe.discover, loaded.recipe.llm
    if not by_llm(loaded) or section.responses is not None:
        return []
    planned = []
    if section.prompts is None:
        n_topics = len(_topics(loaded))
        n_scenarios = n_topics * section.scenarios
        n_prompts = n_scenarios * section.prompts_each
        planned += [
            (llm, Planned("writing scenarios", n_topics, 250, _SCENARIO_TOKENS)),
            (llm, Planned("writing prompts", n_scenarios, 300, _PROMPT_TOKENS)),
        ]
        mean = 60.0
    else:
        prompts = prompts_in(section.prompts)[0]
        n_prompts = len(prompts)
        mean = sum(tokens_of(prompt_text(one)) for one in prompts) / n_prompts
    planned += [
        (
            loaded.recipe.llm.named(name),
            Planned(f"responses of {name}", n_prompts * section.samples, mean + 40, _RESPONSE_TOKENS),
        )
        for name in policies(loaded)
    ]
    return planned


def policies(loaded: LoadedRecipe) -> list[str]:
    """Models that answer."""
    return loaded.recipe.discover.policies or [loaded.recipe.llm.model or ""]


def prompts_in(reference: str) -> tuple[list[Prompt], Exclusions]:
    """Prompts of a text file, one a line, or of rows with a column `prompt`; each once.

    Raises:
        DataError: None can be used.
    """
    if looks_like_path(reference) and Path(reference).suffix == ".txt":
        values: list[Any] = [line for line in read_text(user_path(reference)).splitlines() if line.strip()]
    else:
        values = [row.get("prompt") for row in load_rows(reference)]
    found: dict[str, Prompt] = {}
    reasons = []
    for value in values:
        try:
            prompt = user_prompt(value.strip()) if isinstance(value, str) and value.strip() else prompt_of(value)
        except RowError as error:
            reasons.append(str(error))
            continue
        if prompt_id(prompt) in found:
            reasons.append("duplicate")
        found.setdefault(prompt_id(prompt), prompt)
    exclusions = Exclusions(len(values), count_reasons(reasons))
    if not found:
        raise DataError(f"{reference}: no usable prompt; {exclusions}. Write one a line, or rows with `prompt`")
    return list(found.values()), exclusions


def _responses(loaded: LoadedRecipe) -> tuple[Sampling, dict[str, str], Made]:
    """Responses by prompt, the prompts' topics, and how they came about."""
    section = loaded.recipe.discover
    source = _source(loaded)
    if source in (EMBEDDED, NARROW):
        return _embedded(source)
    if source is not None:
        return responses_in(source, section.columns, section.split), {}, Made(responses=source)
    prompts, topics, made = _prompts(loaded)
    llms = {name: warm_llm(loaded, name, section.max_response_tokens) for name in policies(loaded)}
    return sampled_responses(prompts, llms, section.samples), topics, made


def _source(loaded: LoadedRecipe) -> str | None:
    """Where the responses stand; None where policies are asked for them."""
    return loaded.recipe.discover.responses or (None if by_llm(loaded) else EMBEDDED)


def _embedded(source: str) -> tuple[Sampling, dict[str, str], Made]:
    rows = authored_responses("responses" if source == EMBEDDED else "narrow")
    prompts = tuple(PromptTexts(row.prompt, tuple(Written(text, EMBEDDED) for text in row.responses)) for row in rows)
    n = sum(len(row.responses) for row in rows)
    topics = {prompt_id(row.prompt): row.domain for row in rows}
    return Sampling(prompts, {source: Exclusions(n, {})}, 0), topics, Made(responses=source)


def _prompts(loaded: LoadedRecipe) -> tuple[list[Prompt], dict[str, str], Made]:
    section = loaded.recipe.discover
    if section.prompts is not None:
        prompts, exclusions = prompts_in(section.prompts)
        return prompts, {}, Made(responses=_SAMPLED, prompts=section.prompts, rows=exclusions)
    topics = _topics(loaded)
    made = generated_prompts(topics, warm_llm(loaded), section.scenarios, section.prompts_each)
    written = Made(
        responses=_SAMPLED, prompts="written", topics=len(topics), scenarios=made.scenarios, written=made.written
    )
    of = {prompt_id(one.prompt): one.topic for one in made.prompts}
    return [one.prompt for one in made.prompts], of, written


def _topics(loaded: LoadedRecipe) -> Sequence[str]:
    named = loaded.recipe.discover.topics
    return own_topics() if named is None else load_topics(user_path(named))


def _sentence(counts: MaterialCounts) -> str:
    prompts = counts.prompts
    return (
        f"{counts.responses} responses to {sum(prompts.values())} prompts ({prompts['train']} to search on, "
        f"{prompts['validation']} to validate, {prompts['test']} to test); {counts.left_out} responses left out"
    )
