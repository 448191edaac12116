"""Stage `material` of a discovery: prompts, responses to them and their rewards, split by prompt."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from cda.data.load import RowError, load_rows, looks_like_path, prompt_of
from cda.data.sampled import load_outputs
from cda.discovery.candidates import PromptSamples, Rated, Reward
from cda.discovery.prompts import PARTS, distinct_prompts, generated_prompts, load_topics, own_topics, split_prompts
from cda.discovery.setup import (
    Setup,
    choose_topics,
    named_topics,
    of_topics,
    split_by_topic,
    topic_material,
    topic_sizes,
)
from cda.embedded.model import EMBEDDED
from cda.embedded.texts import authored_responses
from cda.embedded.topics import broad_topic
from cda.errors import DataError
from cda.files.jsonl import read_jsonl, read_text, write_jsonl
from cda.files.paths import user_path
from cda.inert import without_turns
from cda.launch import say
from cda.llm.protocol import EMPTY, LLM, Completion, Request, without_thoughts
from cda.recipe.sections import DiscoverSection
from cda.records import Exclusions, Prompt, count_reasons, prompt_id, prompt_text, user_prompt
from cda.resources.artifacts import prompt_row
from cda.results.base import load, save
from cda.results.discover import Made, MaterialCounts, Part, Repeated
from cda.results.topics import TopicMaterial
from cda.scorers.compared import distinct_texts, text_id
from cda.stats.draws import drawn

SAMPLES, COUNTS, TOPICS = "samples.jsonl", "material.json", "topics.json"
NARROW = "embedded-narrow"
"""Embedded responses to questions of one topic."""
CUT_OFF_THINKING = "cut off while thinking"
NO_REWARD = "no reward"
_SAMPLED = "sampled"
_CHAT_SYSTEM = "You are the assistant in a chat. Reply to the user's message as you would to anybody's."
_TURNS_SYSTEM = (
    "You are the assistant in a chat. You are shown the conversation so far, each turn after the name of who speaks. Write "
    "the assistant's next turn and nothing else, without a name before it."
)


@dataclass(frozen=True, slots=True)
class Sampling:
    """Unrated responses by distinct prompt, policy by policy; what each source lacks; and the number of unanswered prompts."""

    samples: tuple[PromptSamples, ...]
    exclusions: Mapping[str, Exclusions]
    n_unanswered: int = 0


def sampled_responses(prompts: Sequence[Prompt], policies: Mapping[str, LLM], n_samples: int = 4) -> Sampling:
    """So many responses of every policy to every prompt; a prompt that comes twice is answered once.

    Left out and counted are answers that the server reports as cut off, filtered, refused or empty: a response that is not
    whole, or says nothing, is nothing to rewrite. One that declines in words is a response like any other.
    """
    distinct = list({prompt_id(prompt): prompt for prompt in prompts}.values())
    responses: list[list[Rated]] = [[] for _ in distinct]
    exclusions = {}
    for policy, llm in policies.items():
        requests = (response_request(prompt, sample) for prompt in distinct for sample in range(n_samples))
        answers = [Completion(None, "no answer")] * (len(distinct) * n_samples)
        for position, completion in llm.answers(requests, f"responses of {policy}", len(answers)):
            answers[position] = _response(completion)
        for position, answer in enumerate(answers):
            if answer.text is not None:
                responses[position // n_samples].append(Rated(answer.text, source=policy))
        reasons = [answer.reason or "no answer" for answer in answers if answer.text is None]
        exclusions[policy] = Exclusions(len(answers), count_reasons(reasons))
    samples = [PromptSamples(prompt, tuple(own)) for prompt, own in zip(distinct, responses, strict=True) if own]
    return Sampling(tuple(samples), exclusions, len(distinct) - len(samples))


def responses_in(reference: str, columns: Mapping[str, str] | None = None, split: str = "train") -> Sampling:
    """Responses of a file, folder or hub id; layouts and columns as of `cda.data.sampled`.

    A prompt with one response is kept. Rows that cannot be used at all are counted with the responses, as `row: <reason>`.
    DataError if a column is unknown, missing or ambiguous, or no response can be used.
    """
    own = {name: column for name, column in (columns or {}).items() if name != "topic"}
    outputs = load_outputs(reference, own, split)
    texts = {
        name: tuple(Rated(output.text, source=reference) for output in placed.outputs if output.text is not None)
        for name, placed in outputs.by_prompt.items()
    }
    samples = tuple(PromptSamples(outputs.by_prompt[name].prompt, own) for name, own in texts.items() if own)
    rows = {f"row: {reason}": count for reason, count in outputs.rows.reasons.items()}
    counted = Exclusions(outputs.responses.seen + outputs.rows.dropped, {**outputs.responses.reasons, **rows})
    return Sampling(samples, {reference: counted}, len(texts) - len(samples))


def rated(samples: Sequence[PromptSamples], reward: Reward) -> tuple[list[PromptSamples], Exclusions]:
    """Prompts with their rated responses, and the responses left out because the model gave no finite reward.

    Each distinct text is scored once, and a text that was sampled twice stays twice.
    """
    distinct = distinct_texts((sample.prompt, response.text) for sample in samples for response in sample.responses)
    rewards = dict(zip(distinct, reward(list(distinct.values())).tolist() if distinct else [], strict=True))
    kept = []
    for sample in samples:
        finite = tuple(
            replace(response, reward=value)
            for response in sample.responses
            if math.isfinite(value := rewards[text_id(sample.prompt, response.text)])
        )
        if finite:
            kept.append(PromptSamples(sample.prompt, finite))
    n_seen, n_kept = (sum(len(sample.responses) for sample in some) for some in (samples, kept))
    return kept, Exclusions(n_seen, {NO_REWARD: n_seen - n_kept} if n_kept < n_seen else {})


def response_request(prompt: Prompt, sample: int = 0) -> Request:
    """The request for one response: a single message as it is, a conversation as a transcript to be continued.

    A system message that opens the prompt stands where system messages stand. Marks of turns within texts are broken up.
    """
    system = without_turns(prompt[0].content) if prompt[0].role == "system" and len(prompt) > 1 else ""
    turns = prompt[1:] if system else prompt
    if len(turns) == 1:
        return Request(system or _CHAT_SYSTEM, without_turns(turns[0].content), sample=sample)
    return Request(f"{_TURNS_SYSTEM}\n\n{system}".strip(), without_turns(prompt_text(turns)), sample=sample)


def _response(completion: Completion) -> Completion:
    """The answer without the thoughts before it, or the reason why it is no response."""
    if completion.text is None:
        return completion
    text = without_thoughts(completion.text)
    return Completion(text) if text else Completion(None, CUT_OFF_THINKING if text is None else EMPTY)


@dataclass(frozen=True, slots=True)
class Material:
    """The rated responses that a search works on, by part, and the topics of prompts that were written for one."""

    parts: Mapping[Part, tuple[PromptSamples, ...]]
    topics: Mapping[str, str]

    def everything(self) -> tuple[PromptSamples, ...]:
        return tuple(sample for part in PARTS for sample in self.parts[part])


def make_material(setup: Setup, reward: Reward, folder: Path) -> MaterialCounts:
    """Write samples.jsonl and material.json, and return the counts; CdaError if there is nothing to search in."""
    sampling, topics, made = responses_of(setup)
    wanted: Sequence[PromptSamples] = sampling.samples
    left_out: dict[str, str] = {}
    if setup.section.by_topic:
        wanted, left_out = _searchable(setup, wanted, topics)
    samples, exclusions = rated(wanted, reward)
    if not samples:
        raise DataError(f"no response has a reward; responses: {exclusions}")
    n_rated_prompts = len(samples)
    samples, repeated = _distinct(samples)
    if setup.section.by_topic:
        samples, lacking = _searchable(
            setup, samples, topics, topic_sizes([sample.prompt for sample in wanted], topics)
        )
        split = _split_by_topic(setup, samples, topics, {**left_out, **lacking}, sampling, folder)
    else:
        split, _ = split_prompts([sample.prompt for sample in samples], setup.section.parts, setup.seed)
    by_id = {prompt_id(sample.prompt): sample for sample in samples}
    rows = [
        {
            "part": part,
            "topic": topics.get(prompt_id(prompt)),
            "prompt": prompt_row(prompt),
            "responses": [asdict(response) for response in by_id[prompt_id(prompt)].responses],
        }
        for part, prompts in split.items()
        for prompt in prompts
    ]
    write_jsonl(folder / SAMPLES, rows)
    sizes = [len(by_id[prompt_id(prompt)].responses) for prompts in split.values() for prompt in prompts]
    counts = MaterialCounts(
        made=made,
        prompts={part: len(prompts) for part, prompts in split.items()},
        responses=sum(sizes),
        repeated=repeated,
        single=sizes.count(1),
        unanswered=sampling.n_unanswered,
        unrated=len(wanted) - n_rated_prompts,
        sampled=dict(sampling.exclusions),
        rewards=exclusions,
    )
    save(counts, folder / COUNTS)
    n = counts.prompts
    say(
        f"  {counts.responses} responses to {sum(n.values())} prompts ({n['train']} to search on, "
        f"{n['validation']} to validate, {n['test']} to test); {counts.left_out} responses left out"
        + (f"; {repeated.prompts} prompts say the same as another" if repeated.prompts else "")
        + (f"; {counts.made.not_drawn} prompts not drawn (discover.max_prompts)" if counts.made.not_drawn else "")
    )
    return counts


def _distinct(samples: Sequence[PromptSamples]) -> tuple[list[PromptSamples], Repeated]:
    """One prompt of those that say the same, over all topics: said in two, it would be searched in one and tested in the other. And
    the others' number."""
    kept = {prompt_id(prompt) for prompt in distinct_prompts([sample.prompt for sample in samples])}
    first = [sample for sample in samples if prompt_id(sample.prompt) in kept]
    n_left = sum(len(sample.responses) for sample in samples) - sum(len(sample.responses) for sample in first)
    return first, Repeated(prompts=len(samples) - len(first), responses=n_left)


def _searchable(
    setup: Setup, samples: Sequence[PromptSamples], topics: Mapping[str, str], before: Collection[str] = ()
) -> tuple[list[PromptSamples], dict[str, str]]:
    """The prompts of the topics that can be searched, and for each other topic the reason why not; `before`: topics that may have no
    prompt left."""
    sizes = dict.fromkeys(before, 0) | topic_sizes([sample.prompt for sample in samples], topics)
    chosen = choose_topics(sizes, setup.section, topics_source(setup))
    return of_topics(samples, topics, chosen.topics), dict(chosen.left_out)


def _split_by_topic(
    setup: Setup,
    samples: Sequence[PromptSamples],
    topics: Mapping[str, str],
    left_out: Mapping[str, str],
    sampling: Sampling,
    folder: Path,
) -> dict[Part, list[Prompt]]:
    """Each topic split by itself; writes and says the topics' counts."""
    prompts = [sample.prompt for sample in samples]
    kept = list(topic_sizes(prompts, topics))
    split, _ = split_by_topic(prompts, topics, kept, setup.section, setup.seed)
    counts = topic_material(split, topics, kept, left_out, [sample.prompt for sample in sampling.samples])
    save(counts, folder / TOPICS)
    for topic, reason in counts.left_out.items():
        say(f"  left out: {topic} ({reason})")
    if counts.n_without:
        say(f"  left out: {counts.n_without} prompts that name no topic, or two")
    return split


def topics_made(folder: Path) -> TopicMaterial:
    return load(TopicMaterial, folder / TOPICS, "cda discover --by-topic")


def make_topic_material(whole: Path, topic: str, folder: Path) -> MaterialCounts:
    """Write the part of a finished material that belongs to one topic, as a material of its own."""
    rows = [row for row in read_jsonl(whole / SAMPLES) if row["topic"] == topic]
    write_jsonl(folder / SAMPLES, rows)
    sizes = [len(row["responses"]) for row in rows]
    parts = Counter(row["part"] for row in rows)
    counts = material_counts(whole).model_copy(
        update={
            "prompts": {part: parts[part] for part in PARTS},
            "responses": sum(sizes),
            "repeated": Repeated(prompts=0, responses=0),
            "single": sizes.count(1),
            "unanswered": 0,
            "unrated": 0,
            # All others are counted with the whole material.
            "sampled": {name: Exclusions(0, {}) for name in material_counts(whole).sampled},
            "rewards": Exclusions(sum(sizes), {}),
        }
    )
    save(counts, folder / COUNTS)
    return counts


def read_material(folder: Path) -> Material:
    parts: dict[Part, list[PromptSamples]] = {part: [] for part in PARTS}
    topics: dict[str, str] = {}
    for row in read_jsonl(folder / SAMPLES):
        prompt = prompt_of(row["prompt"])
        parts[row["part"]].append(PromptSamples(prompt, tuple(Rated(**response) for response in row["responses"])))
        if row["topic"]:
            topics[prompt_id(prompt)] = row["topic"]
    return Material({part: tuple(samples) for part, samples in parts.items()}, topics)


def material_counts(folder: Path) -> MaterialCounts:
    return load(MaterialCounts, folder / COUNTS, "cda discover")


def prompts_in(reference: str) -> tuple[list[Prompt], Exclusions]:
    """Prompts of a text file, one a line, or of rows with a column `prompt`, each once; DataError if none can be used."""
    if looks_like_path(reference) and Path(reference).suffix == ".txt":
        values: list[object] = [line for line in read_text(user_path(reference)).splitlines() if line.strip()]
    else:
        values = [row.get("prompt") for row in load_rows(reference)]
    prompts: dict[str, Prompt] = {}
    reasons = []
    for value in values:
        try:
            prompt = _prompt_in(value)
        except RowError as error:
            reasons.append(str(error))
            continue
        if prompt_id(prompt) in prompts:
            reasons.append("duplicate")
        prompts.setdefault(prompt_id(prompt), prompt)
    exclusions = Exclusions(len(values), count_reasons(reasons))
    if not prompts:
        raise DataError(f"{reference}: no usable prompt; {exclusions}. Write one a line, or rows with `prompt`")
    return list(prompts.values()), exclusions


def _prompt_in(value: object) -> Prompt:
    return user_prompt(value.strip()) if isinstance(value, str) and value.strip() else prompt_of(value)


def prompt_topics(reference: str) -> dict[str, str]:
    """Topics that a file of prompts names; lines of text name none."""
    is_text = looks_like_path(reference) and Path(reference).suffix == ".txt"
    return {} if is_text else named_topics(reference, {}, "train", _prompt_in)


def responses_of(setup: Setup) -> tuple[Sampling, dict[str, str], Made]:
    """Responses by prompt, the prompts' topics, and how they came about; `discover.max_prompts` prompts at most."""
    section, source = setup.section, source_of(setup)
    if source is None:
        return _asked_responses(setup)
    if source in (EMBEDDED, NARROW):
        sampling, topics, made = embedded_samples(source, section.by_topic)
    else:
        topics = named_topics(source, section.columns, section.split, prompt_of)
        sampling, made = responses_in(source, section.columns, section.split), Made(responses=source)
    samples = drawn(sampling.samples, section.max_prompts, setup.seed)
    made = made.model_copy(update={"not_drawn": len(sampling.samples) - len(samples)})
    return replace(sampling, samples=tuple(samples)), topics, made


def _asked_responses(setup: Setup) -> tuple[Sampling, dict[str, str], Made]:
    """The same of responses that policies are asked for."""
    section = setup.section
    topics: dict[str, str] = {}
    if section.prompts is not None:
        prompts, exclusions = prompts_in(section.prompts)
        topics = prompt_topics(section.prompts)
        made = Made(responses=_SAMPLED, prompts=section.prompts, rows=exclusions)
    else:
        names = topics_to_write(section)
        written = generated_prompts(names, setup.warm_llm(), section.scenarios, section.prompts_each)
        prompts = [prompt for prompt, _ in written.prompts]
        topics = {prompt_id(prompt): topic for prompt, topic in written.prompts}
        made = Made(
            responses=_SAMPLED,
            prompts="written",
            topics=len(names),
            scenarios=written.scenarios,
            written=written.written,
        )
    asked = drawn(prompts, section.max_prompts, setup.seed)
    made = made.model_copy(update={"not_drawn": len(prompts) - len(asked)})
    llms = {name: setup.warm_llm(name, section.max_response_tokens) for name in setup.policies}
    return sampled_responses(asked, llms, section.samples), topics, made


def source_of(setup: Setup) -> str | None:
    """The responses' file or embedded set; None if policies are asked for them."""
    return setup.section.responses or (None if setup.by_llm else EMBEDDED)


def topics_source(setup: Setup) -> str:
    """The source of prompts and topics, for messages."""
    return source_of(setup) or setup.section.prompts or setup.section.topics or "the topics that prompts are written on"


def embedded_samples(source: str, broad: bool = False) -> tuple[Sampling, dict[str, str], Made]:
    rows = authored_responses("responses" if source == EMBEDDED else "narrow")
    samples = tuple(
        PromptSamples(row.prompt, tuple(Rated(text, source=EMBEDDED) for text in row.responses)) for row in rows
    )
    n = sum(len(row.responses) for row in rows)
    topics = {prompt_id(row.prompt): broad_topic(row.domain) if broad else row.domain for row in rows}
    return Sampling(samples, {source: Exclusions(n, {})}), topics, Made(responses=source)


def topics_to_write(section: DiscoverSection) -> Sequence[str]:
    return own_topics() if section.topics is None else load_topics(user_path(section.topics))
