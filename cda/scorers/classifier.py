"""Scores with a sequence classifier: batches of similar length, padded on the right, within a token budget."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from cda.arrays import FloatArray
from cda.errors import ModelError
from cda.models.load import RewardModel
from cda.models.template import Encoded, Template
from cda.records import Prompt, content_id
from cda.scorers.progress import TextBar
from cda.scorers.protocols import Finished, TextScore, TextScorer

WINDOW_CHARACTERS = 2**20
"""Texts that are tokenized ahead; at about 9 bytes of Python objects a character, some 10 MB for each of two windows."""
ON_CPU_TOKENS, ELSEWHERE_TOKENS = 1024, 8192
"""What a batch holds by default. On a CPU a larger one leaves its caches: MiniLM in 8-bit scores half as fast with 8,192."""
_CHARACTERS_A_TOKEN = 4
_LEAST_CHARACTERS = 128
"""What a short text counts for in a window: the objects that hold it weigh more than its characters."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Texts that go through the model together.

    Attributes:
        rows: Which of the texts.
        encoded: Their tokens, in the order of `rows`.
    """

    rows: list[int]
    encoded: list[Encoded]

    @property
    def ids(self) -> list[list[int]]:
        return [one.ids for one in self.encoded]


Compute = Callable[[Iterable[Batch]], Iterator[tuple[Batch, FloatArray]]]
"""Turns batches into rewards, each of shape (rows of the batch,), in any order of batches."""


@dataclass
class ClassifierScorer(TextScorer):
    """A scorer over a loaded reward model.

    Args:
        reward_model: Loaded model, with its template.
        batch_tokens: Padded tokens in a batch at most; None for what suits the model's device.
        label: Shown beside the progress bar; None for no bar.
    """

    reward_model: RewardModel
    batch_tokens: int | None = None
    label: str | None = None
    n_truncated: int = field(default=0, init=False)
    """How many of the texts scored last were cut at max_length_tokens."""
    read: list[str | None] = field(default_factory=list, init=False)
    """Of each text scored last: a name of the tokens that were left of it, where it was cut."""

    @property
    def name(self) -> str:
        """For artifacts."""
        return self.reward_model.spec.name_or_path

    @property
    def precision(self) -> str | None:
        return self.reward_model.spec.precision

    def score(self, prompts: Sequence[Prompt], responses: Sequence[str]) -> FloatArray:
        """Rewards, shape (n,). Padding is always on the right, whatever side the tokenizer pads on.

        Raises:
            ModelError: A reward is NaN or infinite.
        """
        rewards = np.full(len(prompts), np.nan)
        read: list[str | None] = [None] * len(prompts)
        for finished in self.in_batches(prompts, responses):
            for row, one in finished:
                rewards[row], read[row] = one.reward, one.read
        self.n_truncated, self.read = sum(name is not None for name in read), read
        broken = np.flatnonzero(~np.isfinite(rewards))
        if broken.size:
            raise not_finite(self.name, int(broken.size), len(rewards), f"text {broken[0]}")
        return rewards

    def in_batches(
        self,
        prompts: Sequence[Prompt],
        responses: Sequence[str],
        skip: frozenset[int] = frozenset(),
        known: Mapping[str, float] | None = None,
        *,
        compute: Compute | None = None,
    ) -> Generator[Finished, None, None]:
        """Rewards as the batches come, about the longest first; NaN and infinity are handed on as they are.

        Texts that are the same token ids go through the model once: below fp32 a score moves with its batch, and a model
        has no preference between two texts that are one to it.

        Args:
            prompts: Length n.
            responses: Length n.
            skip: Rows that are known. A batch of nothing else is left out; the others keep all of their texts.
            known: Rewards by `TextScore.tokens`, of texts scored before.
            compute: What computes the batches in place of the model held here, as a pool of workers does.

        Yields:
            Row and score of every text of a finished batch; texts that are left out as too long come last, without a reward.
        """
        too_long: list[int] = []
        same = SameTokens(skip, known or {})
        budget = batch_budget(self.batch_tokens, self.reward_model.model.device.type)
        found = windows(self.reward_model.template, prompts, responses)
        kept = _without_long(found, too_long) if self.over_length == "drop" else found
        most = _CHARACTERS_A_TOKEN * self.reward_model.template.max_length_tokens
        sizes = [min(characters(*text), most) for text in zip(prompts, responses, strict=True)]
        with TextBar(sizes, skip, self.label) as bar:
            asked = (
                one for one in token_batches(map(same.first_of_each, kept), budget) if not skip.issuperset(one.rows)
            )
            for batch, rewards in (compute or self._compute)(asked):
                finished = same.finished(zip(batch.rows, map(float, rewards), strict=True))
                yield finished
                bar.scored([row for row, _ in finished])
            if left := same.finished(()):
                yield left
                bar.scored([row for row, _ in left])
            if too_long:
                yield [(row, TextScore(None)) for row in too_long]
                bar.scored(too_long)

    def _compute(self, batches: Iterable[Batch]) -> Iterator[tuple[Batch, FloatArray]]:
        for batch in batches:
            yield batch, self._forward(batch.ids)

    def _forward(self, ids: list[list[int]]) -> FloatArray:
        return forward(self.reward_model, ids)


class SameTokens:
    """Texts that are the same to the model, in the order in which they are tokenized: the first of each is computed.

    Which text is the first depends on the texts alone, not on what is known: a run that was killed makes the batches of
    one that was not.
    """

    def __init__(self, skip: frozenset[int], known: Mapping[str, float]) -> None:
        self._skip, self._known = skip, known
        self._rewards: dict[str, float] = {}
        self._names: dict[int, tuple[str, bool]] = {}
        self._waiting: dict[str, list[tuple[int, bool]]] = {}
        self._ready: list[tuple[int, TextScore]] = []

    def first_of_each(self, window: Mapping[int, Encoded]) -> dict[int, Encoded]:
        """The texts of a window that have to be in a batch; the others get the reward of the one they are the same as."""
        return {
            row: one for row, one in window.items() if self.is_first(row, content_id("read", one.ids), one.truncated)
        }

    def is_first(self, row: int, name: str, truncated: bool) -> bool:
        """Whether the text has to be in a batch; one that has not is handed out by `finished`.

        Args:
            row: Of the text.
            name: Of what the model reads of it (`TextScore.tokens`).
            truncated: Whether it was cut.
        """
        is_known = name in self._known
        if name in self._waiting or (is_known and row not in self._skip):
            reward = self._rewards.get(name, self._known.get(name))
            if reward is None:
                self._waiting[name].append((row, truncated))
            else:
                self._ready.append((row, text_score(reward, name, truncated)))
            return False
        self._names[row] = (name, truncated)
        if is_known or row not in self._skip:  # of a row that is skipped and unknown, no reward may ever come
            self._waiting[name] = []
        return True

    def finished(self, rewards: Iterable[tuple[int, float]]) -> list[tuple[int, TextScore]]:
        """Rows of a batch with their scores, and all other rows that are known by now."""
        found, self._ready = self._ready, []
        for row, reward in rewards:
            name, truncated = self._names.pop(row)
            self._rewards[name] = reward
            others, self._waiting[name] = self._waiting.get(name, []), []
            found += [(one, text_score(reward, name, cut)) for one, cut in [(row, truncated), *others]]
        return found


def text_score(reward: float, name: str, truncated: bool) -> TextScore:
    """The score of a text whose tokens have a name."""
    return TextScore(reward, name if truncated else None, name)


def batch_budget(asked: int | None, device: str, elsewhere: int = ELSEWHERE_TOKENS) -> int:
    """Padded tokens in a batch: what was asked for, or what suits the device (a torch device type)."""
    return asked or (ON_CPU_TOKENS if device == "cpu" else elsewhere)


def forward(reward_model: RewardModel, ids: list[list[int]]) -> FloatArray:
    """Rewards of one batch of token ids, padded to the longest. Shape (B,)."""
    import torch

    model, pad = reward_model.model, reward_model.template.pad_token_id
    check_known(reward_model, max(map(max, ids)))
    width = max(map(len, ids))
    input_ids = torch.tensor([row + [pad] * (width - len(row)) for row in ids])
    mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in ids])
    with torch.inference_mode():
        output = model(input_ids=input_ids.to(model.device), attention_mask=mask.to(model.device))
        return output.logits[:, 0].float().cpu().numpy().astype(np.float64)  # type: ignore[no-any-return]


def check_known(reward_model: RewardModel, largest: int) -> None:
    """A tokenizer with more tokens than the model was made for fails in the middle, on a GPU without saying why.

    Raises:
        ModelError: A token that the model does not know.
    """
    known = getattr(reward_model.model.config.get_text_config(), "vocab_size", None)
    if known is not None and largest >= known:
        raise ModelError(
            f"{reward_model.spec.name_or_path}: its tokenizer made token {largest} of a text, and the model knows {known} "
            "(vocab_size in config.json). Is the tokenizer another model's, or were tokens added to it alone?"
        )


def not_finite(name: str, n_broken: int, n: int, first: str) -> ModelError:
    """What to tell of rewards that are no numbers."""
    return ModelError(
        f"{name}: {n_broken} of {n} rewards are NaN or infinite (first: {first}). Try model.precision=fp32"
    )


def windows(template: Template, prompts: Sequence[Prompt], responses: Sequence[str]) -> Iterator[dict[int, Encoded]]:
    """Token ids by row, some thousand texts at a time, longest first by characters.

    A token id in a Python list takes 36 bytes, so the ids of all texts together would outgrow the texts many times over.
    Characters put the texts almost in the order of their tokens, and need no tokenizer; within a window tokens decide.
    The following window is tokenized while this one is scored, so that an accelerator need not wait for it.
    """

    def encode(rows: list[int]) -> dict[int, Encoded]:
        return {row: template.encode(prompts[row], responses[row]) for row in rows}

    following: Future[dict[int, Encoded]] | None = None
    with ThreadPoolExecutor(1, "tokenize") as ahead:
        for rows in _by_characters(prompts, responses):
            current, following = following, ahead.submit(encode, rows)
            if current is not None:
                yield current.result()
        if following is not None:
            yield following.result()


def token_batches(found: Iterable[dict[int, Encoded]], batch_tokens: int) -> Iterator[Batch]:
    """Batches of similar length out of windows; what fills no batch at the end of a window waits for the next."""
    waiting: dict[int, Encoded] = {}
    for window in found:
        *full, last = _grouped(waiting | window, batch_tokens) or [Batch([], [])]
        yield from full
        waiting = dict(zip(last.rows, last.encoded, strict=True))
    yield from _grouped(waiting, batch_tokens)


def batches(encoded: Sequence[Encoded], batch_tokens: int) -> Iterator[list[int]]:
    """Rows in batches of similar length, longest first, so that a batch too large for memory fails at once.

    Args:
        encoded: Texts.
        batch_tokens: Budget of padded tokens (rows times longest row); a single longer text is a batch by itself.
    """
    order = sorted(range(len(encoded)), key=lambda row: (-len(encoded[row].ids), row))
    batch: list[int] = []
    for row in order:
        width = len(encoded[batch[0]].ids) if batch else len(encoded[row].ids)
        if batch and width * (len(batch) + 1) > batch_tokens:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


def characters(prompt: Prompt, response: str) -> int:
    """Length of a text before its template."""
    return sum(len(message.content) for message in prompt) + len(response)


def _grouped(encoded: dict[int, Encoded], batch_tokens: int) -> list[Batch]:
    rows = sorted(encoded)  # texts of one length stay in the order they were given in
    groups = batches([encoded[row] for row in rows], batch_tokens)
    return [Batch([rows[at] for at in group], [encoded[rows[at]] for at in group]) for group in groups]


def _by_characters(prompts: Sequence[Prompt], responses: Sequence[str]) -> Iterator[list[int]]:
    """Rows of each window."""
    sizes = [max(_LEAST_CHARACTERS, characters(*text)) for text in zip(prompts, responses, strict=True)]
    window: list[int] = []
    held = 0
    for row in sorted(range(len(sizes)), key=lambda row: (-sizes[row], row)):
        if window and held + sizes[row] > WINDOW_CHARACTERS:
            yield window
            window, held = [], 0
        window.append(row)
        held += sizes[row]
    if window:
        yield window


def _without_long(found: Iterable[dict[int, Encoded]], too_long: list[int]) -> Iterator[dict[int, Encoded]]:
    """Windows without the texts that had to be cut; their rows are added to `too_long`."""
    for window in found:
        too_long += [row for row, one in window.items() if one.truncated]
        yield {row: one for row, one in window.items() if not one.truncated}
