"""A classifier that scores many texts: long ones cut, dropped or refused, by this process or by workers."""

from __future__ import annotations

import sys
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from cda.errors import ModelError
from cda.launch import world_size
from cda.models.load import RewardModel
from cda.models.template import Template
from cda.records import Prompt
from cda.scorers.classifier import ClassifierScorer, Compute, characters, windows
from cda.scorers.protocols import Finished, OverLength
from cda.scorers.workers import Load, WorkerPool

Workers = int | Literal["auto"]
# Choices: a core multiplies some 50 to 100 GFLOP/s, and a worker imports and loads for some ten seconds.
_FLOP_PER_CORE_S = 5e10
_PAYS_FROM_S = 60.0
_CHARACTERS_A_TOKEN = 4


@dataclass
class ManyTextsScorer(ClassifierScorer):
    """A classifier as `score.*` of a recipe says.

    Args:
        over_length: What becomes of texts beyond max_length_tokens.
        workers: Processes that compute, each with the model in its own memory beside the one given here; see `n_workers`.
        load: Makes the model in a worker. Without it there are none.
    """

    over_length: OverLength = "cut"
    workers: Workers = 1
    load: Load | None = None

    def __post_init__(self) -> None:
        if self.load is None and self.workers not in (1, "auto"):
            raise ValueError("workers need to know how to load the model")

    def in_batches(
        self,
        prompts: Sequence[Prompt],
        responses: Sequence[str],
        skip: frozenset[int] = frozenset(),
        known: Mapping[str, float] | None = None,
        *,
        compute: Compute | None = None,
    ) -> Generator[Finished, None, None]:
        """As of any classifier; where it pays, workers compute."""
        n_characters = sum(map(characters, prompts, responses))
        n = n_workers(self.workers, self.reward_model, n_characters) if self.load is not None else 1
        if self.load is None or n == 1:
            yield from super().in_batches(prompts, responses, skip, known, compute=compute)
            return
        import torch

        with WorkerPool(self.load, n, max(1, torch.get_num_threads() // n)) as pool:
            pool.check_same(self.reward_model)
            yield from super().in_batches(prompts, responses, skip, known, compute=pool.compute)

    def refuse_long(self, texts: Sequence[tuple[Prompt, str]]) -> None:
        """Raise where a text is longer than the model reads, before any is scored.

        Raises:
            ModelError: Says how many are.
        """
        template, limit = self.reward_model.template, self.reward_model.template.max_length_tokens
        uncut = Template(template.tokenizer, sys.maxsize, template.pad_token_id)
        # All are tokenized for this and again to be scored: little beside a model, and no ids have to be held.
        found = windows(uncut, [prompt for prompt, _ in texts], [response for _, response in texts])
        sizes = (len(one.ids) for window in found for one in window.values())
        long = [n_tokens for n_tokens in sizes if n_tokens > limit]
        if long:
            raise ModelError(
                f"{self.name}: {len(long)} of {len(texts)} texts are longer than {limit} tokens, the longest has "
                f"{max(long)}. Raise model.max_length_tokens where the model reads more, or have such texts cut or dropped"
            )


def n_workers(asked: Workers, reward_model: RewardModel, n_characters: int) -> int:
    """How many workers to start; 1 stands for none beside this process.

    Args:
        asked: A number, or `auto`: as many as torch would use threads here, where the texts are worth the loading, each has
            room for the model in half of the free memory, and this is the only process of the launch.
        reward_model: As loaded.
        n_characters: Of all texts to be scored.

    Raises:
        ModelError: Several were asked for on a GPU.
    """
    import torch

    on_cpu = reward_model.model.device.type == "cpu"
    if asked != "auto":
        if asked > 1 and not on_cpu:
            raise ModelError(
                f"workers={asked}: the model is on a GPU, where several processes only wait for each other; leave it at auto"
            )
        return max(1, asked)
    if not on_cpu or world_size() > 1:
        return 1
    n, free = torch.get_num_threads(), _free_bytes()
    weights = list(reward_model.model.parameters())
    if free is not None:
        n = min(n, int(free / 2 / sum(one.numel() * one.element_size() for one in weights)))
    # Two for each weight and token; the embeddings are looked up and not multiplied.
    multiplied = sum(one.numel() for one in weights) - reward_model.model.get_input_embeddings().weight.numel()
    seconds = 2 * multiplied * n_characters / _CHARACTERS_A_TOKEN / (_FLOP_PER_CORE_S * max(1, n))
    return n if n > 1 and seconds > _PAYS_FROM_S else 1


def _free_bytes() -> int | None:
    """Memory that can be had without swapping; None where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    found = [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    return found[0] if found else None
