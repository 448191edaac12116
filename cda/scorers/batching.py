"""Batches of texts of similar length within a token budget, tokenized a window ahead; shared out over threads and processes; the bar."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, as_completed, wait
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cda.arrays import FloatArray
from cda.errors import CdaError, ModelError, RunError
from cda.files.jsonl import read_jsonl, write_jsonl
from cda.launch import failure_told, rank, world_size, write_failure
from cda.models.load import RewardModel, without_adapter
from cda.models.template import Encoded, Template
from cda.progress import Bar
from cda.records import Prompt, content_id
from cda.scorers.compared import Finished, Text, TextScore

if TYPE_CHECKING:
    import torch
    from torch import Tensor

WINDOW_CHARACTERS = 2**20
"""Texts that are tokenized ahead; at about 9 bytes of Python objects a character, some 10 MB for each of two windows."""
FIRST_CHARACTERS = 2**15
"""Of the first window on a GPU, which waits for it; each further one holds twice as many, up to the full number."""
ON_CPU_TOKENS, ELSEWHERE_TOKENS = 1024, 4096
"""Default size of a batch. On a CPU a larger one leaves its caches: MiniLM in 8-bit scores half as fast with 8,192. On an H100 the
8B shape in bf16 took 1.30 s with 4,096, 1.33 with 2,048, 1.38 with 8,192 and 2.1 with 65,536; for a log-ratio over 128,000 words
4,096 tokens make 1 GiB of logits in bf16."""
CHARACTERS_A_TOKEN = 4
_LEAST_CHARACTERS = 128
"""Size of a short text in a window: the objects that hold it weigh more than its characters."""

Batch = dict[int, Encoded]
"""Texts that go through the model together, by row, in the order of their tokens."""


class TextBar(Bar):
    """Progress bar over the lengths of texts, in any unit and without the part beyond the model's limit: the longest
    come first. It starts behind the rows in `done`, scored before; without a label there is none.
    """

    def __init__(self, sizes: Sequence[int], done: frozenset[int] = frozenset(), label: str | None = None) -> None:
        self._sizes, self._done, self._seen = sizes, done, len(done)
        known = sum(sizes[row] for row in done)
        super().__init__(label, sum(sizes), "texts", "texts", amount=len(sizes), initial=known)

    @property
    def counts(self) -> str:
        return f"{self._seen}/{len(self._sizes)} texts"

    def scored(self, rows: Sequence[int]) -> None:
        """Advance by rows; known ones that were scored again with their batch-mates count once."""
        new = [row for row in rows if row not in self._done]
        self._seen += len(new)
        self.update(sum(self._sizes[row] for row in new))


class SameTokens:
    """Has the first of all texts with the same tokens computed, and gives its reward to the others. The first by the
    order of tokenizing, not by what is known: a run that was killed makes the batches of one that was not.
    """

    def __init__(self, skip: frozenset[int], known: Mapping[str, float]) -> None:
        self._skip, self._rewards = skip, dict(known)
        self._known, self._seen = frozenset(known), set[str]()
        self._names: dict[int, tuple[str, bool]] = {}
        self._others: list[int] = []

    def first_of_each(self, window: Mapping[int, Encoded]) -> dict[int, Encoded]:
        """The texts of a window that have to be computed."""
        names = {row: content_id("read", text.ids) for row, text in window.items()}
        return {row: text for row, text in window.items() if self.is_first(row, names[row], text.truncated)}

    def is_first(self, row: int, name: str, truncated: bool) -> bool:
        """Decide whether a text has to be computed, by the name of its tokens; if not, it is one of the `others`."""
        self._names[row] = (name, truncated)
        is_new = row not in self._skip
        if name in self._seen or (name in self._known and is_new):
            self._others.append(row)
            return False
        if name in self._known or is_new:  # of a row that is skipped and unknown, no reward may ever come
            self._seen.add(name)
        return True

    def scored(self, rewards: Iterable[tuple[int, float]]) -> Finished:
        """Scores of rows that were computed."""
        rewards = list(rewards)
        self._rewards |= {self._names[row][0]: reward for row, reward in rewards}
        return [self._score(row) for row, _ in rewards]

    def others(self) -> Finished:
        """Scores of the rows that were not, once all others are computed."""
        return [self._score(row) for row in self._others]

    def _score(self, row: int) -> tuple[int, TextScore]:
        name, truncated = self._names[row]
        return row, TextScore(self._rewards[name], name if truncated else None, name)


def batch_budget(batch_tokens: int | None, device: str) -> int:
    """Padded tokens in a batch: the given number, or the default of the device (a torch device type)."""
    return batch_tokens or (ON_CPU_TOKENS if device == "cpu" else ELSEWHERE_TOKENS)


def forward(reward_model: RewardModel, ids: list[list[int]]) -> FloatArray:
    """Rewards of one batch of token ids: packed if the attention takes texts of any lengths, else padded. Shape (B,)."""
    check_known(reward_model, max(map(max, ids)))
    return (packed if packs(reward_model.model) else padded)(reward_model, ids)


def packs(model: Any) -> bool:
    """True of a causal classifier with a flash attention, which computes no product between two texts. Other kinds of attention
    would compute all of them, and mask them."""
    plain = without_adapter(model)
    attention, reading = str(getattr(plain.config, "_attn_implementation", None)), getattr(plain, "reading", None)
    if "flash" not in attention or reading is None or reading.points is not None:
        return False
    from transformers.modeling_layers import GenericForSequenceClassification

    return isinstance(plain, GenericForSequenceClassification)


def packed(reward_model: RewardModel, ids: list[list[int]]) -> FloatArray:
    """Rewards of one batch whose texts follow each other in a single row, told apart by their positions. Shape (B,)."""
    import torch

    model = without_adapter(reward_model.model)
    positions = [position for row in ids for position in range(len(row))]
    both = torch.tensor([[token for row in ids for token in row], positions])
    input_ids, position_ids = _on_device(both, model.device).unsqueeze(1)
    starts = torch.tensor([0, *map(len, ids[:-1])]).cumsum(0)
    read = starts + torch.tensor([model.reading.position(row) % len(row) for row in ids])
    with torch.inference_mode():
        base = getattr(model, model.base_model_prefix)
        hidden = base(input_ids=input_ids, position_ids=position_ids, use_cache=False).last_hidden_state
        rewards = model.score(hidden[0, read.to(hidden.device)])[:, model.reading.output]
        return rewards.float().cpu().numpy().astype(np.float64)  # type: ignore[no-any-return]


def padded(reward_model: RewardModel, ids: list[list[int]]) -> FloatArray:
    """Rewards of one batch, padded on the right to the longest. Shape (B,)."""
    import torch

    model, pad = reward_model.model, reward_model.template.pad_token_id
    if len(ids) > 1 and reward_model.bears_no_padding:
        return np.concatenate([padded(reward_model, [row]) for row in ids])
    width = max(map(len, ids))
    input_ids = torch.tensor([row + [pad] * (width - len(row)) for row in ids])
    mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in ids])
    with torch.inference_mode():
        output = model(input_ids=_on_device(input_ids, model.device), attention_mask=_on_device(mask, model.device))
        return output.logits[:, 0].float().cpu().numpy().astype(np.float64)  # type: ignore[no-any-return]


def _on_device(values: Tensor, device: torch.device) -> Tensor:
    # From pinned memory a GPU copies by itself, while Python goes on.
    return values.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else values.to(device)


def check_known(reward_model: RewardModel, largest: int) -> None:
    """Raise ModelError for a token beyond the model's vocabulary, on which it would fail midway, on a GPU without saying why."""
    known = getattr(reward_model.model.config.get_text_config(), "vocab_size", None)
    if known is not None and largest >= known:
        raise ModelError(
            f"{reward_model.spec.name_or_path}: its tokenizer made token {largest} of a text, and the model knows {known} "
            "(vocab_size in config.json). Is the tokenizer another model's, or were tokens added to it alone?"
        )


def windows(template: Template, texts: Sequence[Text], first: int | None = None) -> Iterator[dict[int, Encoded]]:
    """Token ids by row, some thousand texts at a time, longest first by characters.

    A token id in a Python list takes 36 bytes, so the ids of all texts together would outgrow the texts many times over.
    Characters put the texts almost in the order of their tokens, and need no tokenizer; within a window tokens decide.
    The following window is tokenized while this one is scored, so that an accelerator need not wait for it; nor for long for the
    first, if that holds so many characters.
    """

    def encode(rows: list[int]) -> dict[int, Encoded]:
        return {row: template.encode(*texts[row]) for row in rows}

    following: Future[dict[int, Encoded]] | None = None
    ahead = ThreadPoolExecutor(1, "tokenize")
    try:
        for rows in _by_characters(texts, first):
            current, following = following, ahead.submit(encode, rows)
            if current is not None:
                yield current.result()
        if following is not None:
            yield following.result()
    finally:
        # Nothing is waited for: left in the middle, this is closed by the garbage collector, which may run while another thread
        # starts, under the very lock that a join takes.
        ahead.shutdown(wait=False, cancel_futures=True)


def _by_characters(texts: Sequence[Text], first: int | None) -> Iterator[list[int]]:
    most = min(first or WINDOW_CHARACTERS, WINDOW_CHARACTERS)
    sizes = [max(_LEAST_CHARACTERS, characters(*text)) for text in texts]
    window: list[int] = []
    held = 0
    for row in sorted(range(len(sizes)), key=lambda row: (-sizes[row], row)):
        if window and held + sizes[row] > most:
            yield window
            window, held, most = [], 0, min(2 * most, WINDOW_CHARACTERS)
        window.append(row)
        held += sizes[row]
    if window:
        yield window


def token_batches(tokenized: Iterable[dict[int, Encoded]], batch_tokens: int) -> Iterator[Batch]:
    """Batches of similar length out of windows; an incomplete batch at the end of a window waits for the next."""
    waiting: Batch = {}
    for window in tokenized:
        *full, waiting = list(batches(waiting | window, batch_tokens)) or [{}]
        yield from full
    if waiting:
        yield waiting


def batches(encoded: Mapping[int, Encoded], batch_tokens: int) -> Iterator[Batch]:
    """Texts in batches of similar length, longest first, so that a batch too large for memory fails at once.
    `batch_tokens` is a budget of padded tokens (rows times longest row); a single longer text is a batch by itself.
    """
    batch: Batch = {}
    longest = 0
    for row, text in sorted(encoded.items(), key=lambda item: (-len(item[1].ids), item[0])):
        if batch and longest * (len(batch) + 1) > batch_tokens:
            yield batch
            batch = {}
        longest = longest if batch else len(text.ids)
        batch[row] = text
    if batch:
        yield batch


def row_groups(n: int, size: int) -> Iterator[range]:
    """The rows from 0 to n − 1, so many at a time."""
    return (range(start, min(start + size, n)) for start in range(0, n, size))


def token_ids(batch: Batch) -> list[list[int]]:
    """The token ids of a batch, text by text."""
    return [text.ids for text in batch.values()]


def characters(prompt: Prompt, response: str) -> int:
    """Length of a text before its template."""
    return sum(len(message.content) for message in prompt) + len(response)


def in_threads(
    compute: Callable[[Batch], FloatArray], batches: Iterable[Batch], n: int
) -> Iterator[tuple[Batch, FloatArray]]:
    """Every batch with its rewards, as they come; n threads compute one batch each, with their share of torch's threads.

    Products of matrices leave Python to the other threads, so that n cores work; together on one product they would wait for
    each other, and burn their time in it where other programs use the cores. No batch is fetched before a thread is free.
    """
    import torch

    total = torch.get_num_threads()
    each = partial(torch.set_num_threads, max(1, total // n))  # for the thread that calls it
    with ThreadPoolExecutor(n, "cda-score", each) as pool:
        running: dict[Future[FloatArray], Batch] = {}
        try:
            for batch in batches:
                running[pool.submit(compute, batch)] = batch
                if len(running) == n:
                    for done in wait(running, return_when=FIRST_COMPLETED).done:
                        yield running.pop(done), done.result()
            for done in as_completed(running):
                yield running[done], done.result()
        finally:
            pool.shutdown(cancel_futures=True)
            torch.set_num_threads(total)


def dealt(sizes: Sequence[int], n: int) -> list[list[int]]:
    """Rows for each of n processes, even in number and in size; every process finds the same shares by itself. Sorted
    by size and dealt to and fro, so that sums differ by no more than the largest size, also by any other measure that
    rises with `sizes`: characters stand for tokens here, cut texts included.
    """
    order = sorted(range(len(sizes)), key=lambda row: (-sizes[row], row))
    shares: list[list[int]] = [[] for _ in range(n)]
    for at, row in enumerate(order):
        lap, seat = divmod(at, n)
        shares[seat if lap % 2 == 0 else n - 1 - seat].append(row)
    return shares


@dataclass(frozen=True, slots=True)
class Exchange:
    """Rows of each process of a launch, shared by files in a `folder` that all see: no collective that would wait for a
    failed process. The files stay, by their content (`name`: fingerprint of all that determines the rows): a process
    that finds its own from an earlier launch need not work again.
    """

    folder: Path
    name: str
    poll_s: float = 0.2
    """Pause between two looks."""

    def gathered(self, own: Callable[[], Iterable[object]]) -> Iterator[dict[str, Any]]:
        """Rows of all processes in the order of their ranks; `own` computes those of this one. RunError if another one failed."""
        part = self._file("rows.jsonl")
        self._file("failed.json").unlink(missing_ok=True)
        if not part.is_file():
            part.parent.mkdir(parents=True, exist_ok=True)
            try:
                write_jsonl(part, own())
            except BaseException as error:
                with contextlib.suppress(OSError):
                    write_failure(self._file("failed.json"), error_line(error))
                raise
        parts = [self._file("rows.jsonl", number) for number in range(world_size())]
        for number, path in enumerate(parts):
            while not path.is_file():
                self._check(number)
                time.sleep(self.poll_s)
        return (row for path in parts for row in read_jsonl(path))

    def _check(self, waited_for: int) -> None:
        for number in range(world_size()):
            if (error := failure_told(self._file("failed.json", number))) is not None:
                raise RunError(
                    f"process {number} of {world_size()} failed while process {rank()} waited for process {waited_for}: {error}"
                )

    def _file(self, ending: str, number: int | None = None) -> Path:
        which = rank() if number is None else number
        return self.folder / self.name / f"{which}-of-{world_size()}.{ending}"


def error_line(error: BaseException) -> str:
    """An error in one line: our own as it stands, others with their class."""
    text = str(error)
    return text if isinstance(error, CdaError) else f"{type(error).__name__}: {text}".removesuffix(": ")
