"""Prompts for a search: topics to scenarios to user messages by an LLM, and their split into train, validation, test."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cda.discovery.asked_prompts import parse_items, prompt_request, scenario_request, why_not
from cda.errors import DataError, LLMError
from cda.llm.protocol import LLM, Completion, Request
from cda.records import Exclusions, Prompt, content_id, count_reasons, prompt_id, prompt_text, user_prompt
from cda.results.discover import WritingCounts

_UNREADABLE = "no list in the asked form"


@dataclass(frozen=True, slots=True)
class TopicPrompt:
    """A user's message, with the topic and the scenario that it was written for."""

    prompt: Prompt
    topic: str
    scenario: str


@dataclass(frozen=True, slots=True)
class GeneratedPrompts:
    """Distinct prompts in the order of the topics, and what became of the scenarios and of the prompts."""

    prompts: tuple[TopicPrompt, ...]
    scenarios: WritingCounts
    written: WritingCounts


@dataclass(frozen=True, slots=True)
class PromptSplit:
    """Prompts for the search, for choosing what to confirm, and for confirming; no prompt is in two of them.

    Attributes:
        train: Search.
        validation: Choice.
        test: Looked at once.
        n_repeated: Prompts left out because they say the same as another but for case, spaces and final marks.
    """

    train: tuple[Prompt, ...]
    validation: tuple[Prompt, ...]
    test: tuple[Prompt, ...]
    n_repeated: int


def generated_prompts(
    topics: Sequence[str], llm: LLM, n_scenarios: int = 4, n_prompts: int = 4, n_repeats: int = 2
) -> GeneratedPrompts:
    """Ask for scenarios of every topic, then for prompts of every scenario; what falls short is asked for again.

    Two levels, as in "Automatically Finding Reward Model Biases", because a model that is asked for many prompts of one
    topic at once repeats itself.

    Args:
        topics: Topics that are named twice are asked about once.
        llm: Writes.
        n_scenarios: Wanted of each topic, 1 or more.
        n_prompts: Wanted of each scenario, 1 or more.
        n_repeats: How often a topic or scenario that fell short is asked about again.

    Raises:
        LLMError: Nothing can be answered, or no answer held a prompt.
        ValueError: A number below 1, or no topic.
    """
    names = list(dict.fromkeys(topic.strip() for topic in topics if topic.strip()))
    if not names or n_scenarios < 1 or n_prompts < 1:
        raise ValueError(
            f"{len(names)} topics, {n_scenarios} scenarios, {n_prompts} prompts: 1 or more of each is needed"
        )

    def ask_scenarios(row: int, n: int, sample: int, there: Sequence[str]) -> Request:
        return scenario_request(names[row], n, sample, there)

    by_topic, scenarios = _collected(llm, len(names), ask_scenarios, "scenarios", n_scenarios, n_repeats)
    pairs = [(topic, scenario) for topic, found in zip(names, by_topic, strict=True) for scenario in found]

    def ask_prompts(row: int, n: int, sample: int, there: Sequence[str]) -> Request:
        return prompt_request(*pairs[row], n, sample, there)

    by_scenario, written = _collected(llm, len(pairs), ask_prompts, "prompts", n_prompts, n_repeats)
    prompts = tuple(
        TopicPrompt(user_prompt(text), *pair) for pair, found in zip(pairs, by_scenario, strict=True) for text in found
    )
    if not prompts:
        raise LLMError(
            f"{llm.name}: wrote no usable prompt for {len(names)} topics; scenario calls: {scenarios.calls}; "
            f"prompt calls: {written.calls}; prompts: {written.items}. Try another model, or give prompts of your own"
        )
    return GeneratedPrompts(prompts, scenarios, written)


def split_prompts(
    prompts: Sequence[Prompt], shares: tuple[float, float, float] = (0.5, 0.25, 0.25), seed: int = 42
) -> PromptSplit:
    """Train, validation and test prompts, fixed by seed and by what the prompts say, never by their order.

    Prompts are ranked by a hash of seed and `prompt_id` and cut at the shares, so that the parts, and the order within
    them, stay the same when a file is reordered.

    Args:
        prompts: object number; of those that say the same one is kept.
        shares: Of train, validation and test; above 0, with sum 1.
        seed: Another seed is another split.

    Raises:
        DataError: Too few prompts for one in each part.
        ValueError: Shares that are not.
    """
    if min(shares) <= 0 or abs(sum(shares) - 1) > 1e-6:
        raise ValueError(f"shares are {shares}: three numbers above 0 with sum 1 are needed")
    distinct: dict[str, Prompt] = {}
    # In the order of their ids, so that which of two like prompts stays does not depend on the file's order.
    for prompt in sorted(prompts, key=prompt_id):
        distinct.setdefault(_key(prompt_text(prompt)), prompt)
    ranked = sorted(distinct.values(), key=lambda one: content_id("discover split", seed, prompt_id(one)))
    sizes = _sizes(len(ranked), shares)
    if min(sizes) == 0:
        needed = next(n for n in range(3, 10**9) if min(_sizes(n, shares)) > 0)
        raise DataError(
            f"{len(ranked)} distinct prompts cannot be split {_percent(shares)} into train, validation and test with one "
            f"in each: at least {needed} are needed; add prompts or change the shares"
        )
    first, second = sizes[0], sizes[0] + sizes[1]
    repeated = len(prompts) - len(ranked)
    return PromptSplit(tuple(ranked[:first]), tuple(ranked[first:second]), tuple(ranked[second:]), repeated)


def _collected(
    llm: LLM,
    n_rows: int,
    ask: Callable[[int, int, int, Sequence[str]], Request],
    key: str,
    n_wanted: int,
    n_repeats: int,
) -> tuple[list[list[str]], WritingCounts]:
    """So many items for each row; `ask` makes a request from row, number, sample and the items there are already."""
    found: list[list[str]] = [[] for _ in range(n_rows)]
    seen: set[str] = set()
    dropped: list[str] = []
    failed: list[str] = []
    n_calls = 0
    for sample in range(n_repeats + 1):
        short = [row for row in range(n_rows) if len(found[row]) < n_wanted]
        if not short:
            break
        requests = (ask(row, n_wanted - len(found[row]), sample, found[row]) for row in short)
        # Answers come in any order; which of two like items stays must not depend on it.
        answers = [Completion(None, "no answer")] * len(short)
        for position, completion in llm.answers(requests, f"writing {key}", len(short)):
            answers[position] = completion
        n_calls += len(short)
        for row, completion in zip(short, answers, strict=True):
            read = None if completion.text is None else parse_items(completion.text, key)
            if read is None or not read[0]:
                failed.append(_UNREADABLE if completion.text is not None else completion.reason or "no answer")
            if read is not None:
                dropped += read[1] + _taken(read[0], found[row], seen, n_wanted)
    kept = sum(map(len, found))
    calls, items = (
        Exclusions(n_calls, count_reasons(failed)),
        Exclusions(kept + len(dropped), count_reasons(dropped)),
    )
    return found, WritingCounts(requested=n_rows * n_wanted, kept=kept, calls=calls, items=items)


def _taken(offered: Sequence[str], kept: list[str], seen: set[str], n_wanted: int) -> list[str]:
    """Add what is new and usable to `kept`; reasons for the rest."""
    reasons = []
    for item in offered:
        if len(kept) == n_wanted:
            break
        key = _key(item)
        flaw = "duplicate" if key in seen else why_not(item)
        if flaw is None:
            seen.add(key)
            kept.append(item)
        else:
            reasons.append(flaw)
    return reasons


def _key(text: str) -> str:
    """What a text says, for telling duplicates: case, spaces, forms of letters and final marks left out."""
    plain = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    return plain.rstrip(" .?!…") or plain


def _sizes(n: int, shares: Sequence[float]) -> list[int]:
    """Whole parts of n by largest remainder; the first of equal remainders goes before."""
    sizes = [int(n * share + 1e-9) for share in shares]
    by_remainder = sorted(range(len(shares)), key=lambda at: (-round(n * shares[at] - sizes[at], 9), at))
    for at in by_remainder[: n - sum(sizes)]:
        sizes[at] += 1
    return sizes


def _percent(shares: Sequence[float]) -> str:
    return " / ".join(f"{share:.0%}" for share in shares)
