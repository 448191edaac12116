"""Topics of prompts: those that are searched one by one, the split of each, and its folder."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from cda.data.load import RowError, check_columns, load_rows
from cda.discovery.candidates import PromptSamples
from cda.discovery.prompts import PARTS, split_prompts
from cda.errors import DataError, did_you_mean
from cda.files.paths import as_part
from cda.inert import clipped
from cda.recipe.sections import DiscoverSection
from cda.records import Prompt, content_id, prompt_id
from cda.results.discover import Part
from cda.results.topics import TopicMaterial

FOLDER = "topics"
"""Folder of the topics' own searches, in that of the run."""
_NAME, _SHOWN = 40, 60


@dataclass(frozen=True, slots=True)
class ChosenTopics:
    """The topics to be searched, in the order in which they first come, and for each other one the reason why not."""

    topics: tuple[str, ...]
    left_out: Mapping[str, str]


def choose_topics(sizes: Mapping[str, int], section: DiscoverSection, where: str) -> ChosenTopics:
    """The topics that are asked for and have enough prompts; `sizes` maps each to its prompts, `where` names their source.

    DataError: no prompt names a topic, a topic that is asked for is unknown, or none has enough prompts.
    """
    if not sizes:
        raise DataError(
            f"{where}: no prompt names a topic (one that is given two has none), so that there is nothing to search by topic. Give each row a `topic` "
            "(discover.columns={topic: YOUR_COLUMN} for a file of responses), or leave out --by-topic"
        )
    asked, least = section.only_topics, section.min_topic_prompts
    if unknown := [topic for topic in asked if topic not in sizes]:
        listed = ", ".join(clipped(topic, _SHOWN) for topic in sizes)
        named = "; ".join(f"{topic!r} is unknown.{did_you_mean(topic, sizes)}" for topic in unknown)
        raise DataError(f"discover.only_topics: {named} Topics of {where}: {listed}")
    left_out = {
        topic: f"{n} prompts, {least} are needed" if n < least else "not among discover.only_topics"
        for topic, n in sizes.items()
        if n < least or (asked and topic not in asked)
    }
    topics = tuple(topic for topic in sizes if topic not in left_out)
    if not topics:
        most = max(sizes, key=lambda topic: sizes[topic])
        raise DataError(
            f"{where}: no topic has enough prompts to be searched: {least} are needed (discover.min_topic_prompts), and the largest "
            f"of {len(sizes)}, {clipped(most, _SHOWN)}, has {sizes[most]}. Add prompts, merge topics, or leave out --by-topic"
        )
    return ChosenTopics(topics, left_out)


def topic_sizes(prompts: Sequence[Prompt], topic_of: Mapping[str, str]) -> dict[str, int]:
    """The number of prompts of each topic, in the order in which topics first come; `topic_of` maps a `prompt_id` to its topic."""
    return dict(Counter(topic for prompt in prompts if (topic := topic_of.get(prompt_id(prompt)))))


def of_topics(
    samples: Sequence[PromptSamples], topic_of: Mapping[str, str], topics: Sequence[str]
) -> list[PromptSamples]:
    """The prompts of these topics, in their own order."""
    wanted = set(topics)
    return [sample for sample in samples if topic_of.get(prompt_id(sample.prompt)) in wanted]


def split_by_topic(
    prompts: Sequence[Prompt], topic_of: Mapping[str, str], topics: Sequence[str], section: DiscoverSection, seed: int
) -> tuple[dict[Part, list[Prompt]], int]:
    """As `split_prompts`, each topic by itself, so that every topic has its share of every part."""
    parts: dict[Part, list[Prompt]] = {part: [] for part in PARTS}
    n_repeated = 0
    for topic in topics:
        own = [prompt for prompt in prompts if topic_of.get(prompt_id(prompt)) == topic]
        split, n = split_prompts(own, section.parts, seed)
        n_repeated += n
        for part in PARTS:
            parts[part] += split[part]
    return parts, n_repeated


def topic_material(
    split: Mapping[Part, Sequence[Prompt]],
    topic_of: Mapping[str, str],
    topics: Sequence[str],
    left_out: Mapping[str, str],
    seen: Sequence[Prompt],
) -> TopicMaterial:
    """The counts of topics, of the prompts `seen` before any was left out."""
    sizes = topic_sizes(seen, topic_of)
    by_part = {part: topic_sizes(prompts, topic_of) for part, prompts in split.items()}
    return TopicMaterial(
        prompts={topic: {part: by_part[part].get(topic, 0) for part in PARTS} for topic in topics},
        left_out=dict(left_out),
        n_left_out=sum(sizes.get(topic, 0) for topic in left_out),
        n_without=len(seen) - sum(sizes.values()),
    )


def named_topics(
    reference: str, columns: Mapping[str, str], split: str, read: Callable[[object], Prompt]
) -> dict[str, str]:
    """Topics by `prompt_id` that the rows of a file name; a prompt that is given two has none.

    DataError: `columns` names a column for the topic that no row has.
    """
    rows = load_rows(reference, split)
    name = columns.get("topic", "topic")
    if "topic" in columns:
        check_columns(rows, {"topic": name}, reference, "discover.columns.")
    topics: dict[str, str | None] = {}
    for row in rows:
        topic = row.get(name)
        if topic is None or not str(topic).strip():
            continue
        try:
            prompt = prompt_id(read(row.get(columns.get("prompt", "prompt"))))
        except RowError:  # counted where responses are read
            continue
        own = str(topic).strip()
        topics[prompt] = own if topics.get(prompt, own) == own else None
    return {prompt: topic for prompt, topic in topics.items() if topic is not None}


def topic_folder(topic: str) -> str:
    """The name of a topic's folder: its words, and a mark of the whole where they are not all of it.

    >>> topic_folder("home and garden"), topic_folder("Home?")
    ('home-and-garden', 'home-7f9e98')
    """
    plain = re.sub(r"[^a-z0-9]+", "-", topic.lower()).strip("-")[:_NAME].strip("-") or "topic"
    return as_part(plain if topic.replace(" ", "-") == plain else f"{plain}-{content_id(topic)[:6]}")
