"""The reward of a model as a function of prompts and completions: for reinforcement learning, and to check one text against a known
number."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from decimal import Decimal
from threading import Lock
from typing import Any

from cda.data.load import RowError, as_messages, prompt_of
from cda.errors import DataError, RunError, refuse
from cda.models.load import free_memory
from cda.resources.named_scorer import has_turns
from cda.results.commands import RewardCheck
from cda.scorers.calibrated import Corrector
from cda.scorers.compared import Text, TextScorer, text_id
from cda.scorers.engine import score_texts
from cda.scorers.reading import reading_lines

Messages = Sequence[Mapping[str, Any]]
_CLOSE, _ROUNDED = (1e-3, 1e-3), (0.05, 0.01)
"""Absolute and relative tolerance of a reward in fp32, and below."""


class RewardFunction:
    """Rewards of completions, in the signature of TRL's `reward_funcs`; `cda.reward_function` makes it.

    The model is loaded and stays on its device until `close`, or the end of a `with` block. Calls from several threads follow
    one another. Pickled, it is made anew where it is read, and loads the model again.
    """

    def __init__(
        self,
        name: str,
        scorer: TextScorer,
        corrector: Corrector | None,
        opened: ExitStack,
        again: Callable[[], RewardFunction],
    ) -> None:
        self.__name__ = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")  # trainers log under it
        self._scorer: TextScorer | None = scorer
        self._corrector, self._opened, self._again, self._lock = corrector, opened, again, Lock()

    def __call__(
        self,
        prompts: Sequence[str | Messages],
        completions: Sequence[str | Messages],
        *,
        log_metric: Callable[[str, float], None] | None = None,
        **_: object,
    ) -> list[float | None]:
        """Rewards as the audit gives them, shape (n,).

        Args:
            prompts: Plain texts, each read as one turn of the user; or lists of messages. Length n.
            completions: Plain texts; or lists of messages that end with the assistant's answer, whose earlier turns are read as
                part of the prompt. An empty answer is scored like any other.
            log_metric: TRL's; gets the shares of completions that were cut, that have no reward, and that hold marks of a chat
                template, prompts included, as those that were rendered beforehand do.
            _: Whatever else a trainer passes on.

        Returns:
            A reward for each completion; None for one that does not end with an answer, or is too long if `score.over_length` is
            `drop`. TRL leaves these out of the group's mean and gives them no advantage.

        Raises:
            DataError: A prompt without words of a user, or a turn without a known role and text, such as a tool call.
            ModelError: A reward is NaN or infinite, or a text too long if `score.over_length` is `refuse`.
        """
        texts = _texts(prompts, completions)
        scored = self._rewards([text for text in texts if text is not None])
        names = [None if text is None else text_id(*text) for text in texts]
        rewards = [None if name is None or math.isnan(scored[0][name]) else scored[0][name] for name in names]
        if log_metric is not None and names:
            log_metric(f"{self.__name__}/cut", sum(name in scored[1] for name in names) / len(names))
            log_metric(f"{self.__name__}/no_reward", rewards.count(None) / len(names))
            marked = sum(text is not None and has_turns(*text) for text in texts)
            log_metric(f"{self.__name__}/turn_marks", marked / len(names))
        return rewards

    def check(self, prompt: str | Messages, response: str, expected: float) -> RewardCheck:
        """Score one text alone, and compare its reward with a number that is known of it, such as its author's.

        Raises:
            DataError: As of a call; or the text has no reward, or `expected` is not finite.
        """
        if not math.isfinite(expected):
            raise DataError(f"expected: {expected}; give a finite number")
        (reward,), (text,) = self([prompt], [response]), _texts([prompt], [response])
        scorer = self._open()
        if reward is None or text is None:
            raise DataError(f"{scorer.name}: the text has no reward; it is too long (score.over_length=drop)")
        absolute, relative = _CLOSE if scorer.precision in (None, "fp32") else _ROUNDED
        last_digit = 10.0 ** min(int(Decimal(repr(float(expected))).as_tuple().exponent), 0)
        tolerance = absolute + relative * abs(expected) + last_digit / 2
        return RewardCheck(
            model=self.__name__,
            reward=reward,
            expected=expected,
            difference=reward - expected,
            tolerance=tolerance,
            passed=abs(reward - expected) <= tolerance,
            read=reading_lines(scorer, text),
        )

    def close(self) -> None:
        """Free the model's memory; a model in memory is left as it was before."""
        self._scorer = None
        self._opened.close()
        free_memory()

    def __enter__(self) -> RewardFunction:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Callable[[], RewardFunction], tuple[()]]:
        return self._again, ()

    def __repr__(self) -> str:
        return f"<RewardFunction {self.__name__}>"

    def _open(self) -> TextScorer:
        if self._scorer is None:
            raise RunError(f"{self.__name__}: this reward function was closed; make another with cda.reward_function")
        return self._scorer

    def _rewards(self, texts: Sequence[Text]) -> tuple[Mapping[str, float], Mapping[str, str]]:
        """Rewards, NaN for none, and what is left of texts that were cut, by `text_id`."""
        scorer = self._open()
        if not texts:
            return {}, {}
        with self._lock:
            rewards = score_texts(scorer, texts)
        if self._corrector is not None:
            rewards = self._corrector.rewards(rewards, texts)
        return rewards.by_text, rewards.read


def check_text(check: RewardCheck) -> str:
    """A check for a terminal."""
    said = "as expected" if check.passed else "not as expected"
    lines = [
        f"reward     {check.reward:.6g}",
        f"expected   {check.expected:.6g}",
        f"difference {check.difference:+.2g}: {said} (tolerance {check.tolerance:.2g})",
    ]
    return "\n".join([*lines, *check.read])


def _texts(prompts: Sequence[str | Messages], completions: Sequence[str | Messages]) -> list[Text | None]:
    """Prompts with responses; None where a completion does not end with an answer. DataError names each that cannot be read."""
    if len(prompts) != len(completions):
        raise DataError(f"prompts and completions: {len(prompts)} and {len(completions)}; give one completion for each")
    texts, problems = [], []
    for number, (prompt, completion) in enumerate(zip(prompts, completions, strict=True), 1):
        try:
            texts.append(_text(prompt, completion))
        except RowError as error:
            problems.append(f"text {number}: {error}")
    refuse(problems, "more texts")
    return texts


def _text(prompt: str | Messages, completion: str | Messages) -> Text | None:
    asked = prompt_of(list(prompt) if isinstance(prompt, Iterable) and not isinstance(prompt, str) else prompt)
    if isinstance(completion, str):
        return asked, completion
    if not isinstance(completion, Iterable):
        raise RowError("completion is neither text nor messages")
    turns = as_messages(completion)
    if not turns or turns[-1].role != "assistant":
        return None
    return (*asked, *turns[:-1]), turns[-1].content
