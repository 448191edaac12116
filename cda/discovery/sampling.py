"""Responses to rate: sampled from several policies or read from a file, each distinct text then scored once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cda.data.sampled import load_outputs
from cda.discovery.records import PromptSamples, Rated, Reward
from cda.inert import without_turns
from cda.llm.protocol import EMPTY, LLM, Completion, Request, without_thoughts
from cda.records import Exclusions, Prompt, count_reasons, prompt_id, prompt_text
from cda.scorers.compared import distinct_texts, text_id

_CHAT_SYSTEM = "You are the assistant in a chat. Reply to the user's message as you would to anybody's."
_TURNS_SYSTEM = (
    "You are the assistant in a chat. You are shown the conversation so far, each turn after the name of who speaks. Write "
    "the assistant's next turn and nothing else, without a name before it."
)
CUT_OFF_THINKING = "cut off while thinking"
NO_REWARD = "no reward"


@dataclass(frozen=True, slots=True)
class Written:
    """A response and who wrote it: a policy, or the file it stands in."""

    text: str
    source: str


@dataclass(frozen=True, slots=True)
class PromptTexts:
    """A prompt and its responses: policy by policy in the order given, each policy's by number of the sample."""

    prompt: Prompt
    responses: tuple[Written, ...]


@dataclass(frozen=True, slots=True)
class Sampling:
    """Responses by prompt, and what became of the rest.

    Attributes:
        prompts: Each distinct prompt that has a response, in the order given.
        exclusions: Source to the responses asked for or found there, and those left out, by reason.
        n_unanswered: Distinct prompts without any response.
    """

    prompts: tuple[PromptTexts, ...]
    exclusions: Mapping[str, Exclusions]
    n_unanswered: int


@dataclass(frozen=True, slots=True)
class RatedSamples:
    """Rated responses by prompt, and what became of the rest.

    Attributes:
        samples: Prompts with at least one rated response, in the order given.
        exclusions: Responses, and those left out because the model gave no finite reward.
        n_distinct: Distinct texts that were scored.
        n_unrated: Prompts left without a rated response.
        n_single: Prompts in `samples` with one response alone: something to rewrite, nothing to compare.
    """

    samples: tuple[PromptSamples, ...]
    exclusions: Exclusions
    n_distinct: int
    n_unrated: int
    n_single: int


def sampled_responses(prompts: Sequence[Prompt], policies: Mapping[str, LLM], n_samples: int = 4) -> Sampling:
    """So many responses of every policy to every prompt; how freely they are drawn is set at the policy's LLM.

    Left out and counted are answers that the server reports as cut off, filtered, refused or empty: a response that is not
    whole, or says nothing, is nothing to rewrite. One that declines in words is a response like any other.

    Args:
        prompts: Single messages or conversations; a prompt that comes twice is answered once.
        policies: Name to LLM, one or more.
        n_samples: Of each policy and prompt, 1 or more.

    Raises:
        LLMError: A policy cannot be asked.
        ValueError: No policy, or n_samples below 1.
    """
    if not policies or n_samples < 1:
        raise ValueError(f"{len(policies)} policies and {n_samples} samples: 1 or more of each is needed")
    distinct = list({prompt_id(prompt): prompt for prompt in prompts}.values())
    texts: list[list[Written]] = [[] for _ in distinct]
    exclusions = {}
    for name, llm in policies.items():
        answers = _answers(distinct, llm, n_samples, name)
        for position, (text, _) in enumerate(answers):
            if text is not None:
                texts[position // n_samples].append(Written(text, name))
        exclusions[name] = Exclusions(len(answers), count_reasons([reason for _, reason in answers if reason]))
    found = [PromptTexts(prompt, tuple(some)) for prompt, some in zip(distinct, texts, strict=True) if some]
    return Sampling(tuple(found), exclusions, len(distinct) - len(found))


def responses_in(reference: str, columns: Mapping[str, str] | None = None, split: str = "train") -> Sampling:
    """Responses that stand in a file, folder or hub id; layouts and columns as of `cda.data.sampled`.

    A prompt with one response is kept. Rows that cannot be used at all are counted with the responses, as `row: <reason>`.

    Raises:
        DataError: A column is unknown, missing or ambiguous, or no response can be used.
    """
    outputs = load_outputs(reference, columns, split)
    found = []
    for placed in outputs.by_prompt.values():
        texts = [Written(one.text, reference) for one in placed.outputs if one.text is not None]
        if texts:
            found.append(PromptTexts(placed.prompt, tuple(texts)))
    rows = {f"row: {reason}": count for reason, count in outputs.rows.reasons.items()}
    counted = Exclusions(outputs.responses.seen + outputs.rows.dropped, {**outputs.responses.reasons, **rows})
    return Sampling(tuple(found), {reference: counted}, len(outputs.by_prompt) - len(found))


def rated(prompts: Sequence[PromptTexts], reward: Reward) -> RatedSamples:
    """Score every distinct text once; a text that was sampled twice stays twice, with the same reward.

    Args:
        prompts: `Sampling.prompts`.
        reward: The searched model.

    Raises:
        ValueError: The number of rewards is not that of the texts.
    """
    distinct = distinct_texts((one.prompt, written.text) for one in prompts for written in one.responses)
    values = np.asarray(reward(list(distinct.values())) if distinct else [], dtype=np.float64)
    if values.shape != (len(distinct),):
        raise ValueError(f"rewards of shape {values.shape} for {len(distinct)} texts: one each is needed")
    rewards = dict(zip(distinct, values.tolist(), strict=True))
    samples = []
    for one in prompts:
        scored = [(written, rewards[text_id(one.prompt, written.text)]) for written in one.responses]
        kept = [Rated(written.text, value, written.source) for written, value in scored if np.isfinite(value)]
        if kept:
            samples.append(PromptSamples(one.prompt, tuple(kept)))
    n_seen = sum(len(one.responses) for one in prompts)
    n_lost = n_seen - sum(len(one.responses) for one in samples)
    return RatedSamples(
        tuple(samples),
        Exclusions(n_seen, {NO_REWARD: n_lost} if n_lost else {}),
        len(distinct),
        len(prompts) - len(samples),
        sum(len(one.responses) == 1 for one in samples),
    )


def response_request(prompt: Prompt, sample: int = 0) -> Request:
    """The request for one response: a single message as it is, a conversation as a transcript to be continued.

    A system message that opens the prompt stands where system messages stand. Marks of turns within texts are broken up.
    """
    system = without_turns(prompt[0].content) if prompt[0].role == "system" and len(prompt) > 1 else ""
    turns = prompt[1:] if system else prompt
    if len(turns) == 1:
        return Request(system or _CHAT_SYSTEM, without_turns(turns[0].content), sample=sample)
    return Request(f"{_TURNS_SYSTEM}\n\n{system}".strip(), without_turns(prompt_text(turns)), sample=sample)


def _answers(prompts: Sequence[Prompt], llm: LLM, n_samples: int, name: str) -> list[tuple[str | None, str | None]]:
    """Text or reason of every sample, those of one prompt together, in the order of the prompts."""
    found: list[tuple[str | None, str | None]] = [(None, "no answer")] * (len(prompts) * n_samples)
    for position, completion in llm.answers(_requests(prompts, n_samples), f"responses of {name}", len(found)):
        found[position] = _read(completion)
    return found


def _requests(prompts: Sequence[Prompt], n_samples: int) -> Iterator[Request]:
    for prompt in prompts:
        for sample in range(n_samples):
            yield response_request(prompt, sample)


def _read(completion: Completion) -> tuple[str | None, str | None]:
    if completion.text is None:
        return None, completion.reason or "no answer"
    text = without_thoughts(completion.text)
    if text is None:
        return None, CUT_OFF_THINKING
    return (text, None) if text else (None, EMPTY)
