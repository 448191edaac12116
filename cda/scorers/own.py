"""A model and its tokenizer that are in memory already, as a scorer."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cda.arrays import FloatArray
from cda.errors import ModelError
from cda.models.load import ModelSpec, RewardModel
from cda.models.template import Template, add_segments, wants_segments
from cda.records import Prompt
from cda.scorers.classifier import ClassifierScorer
from cda.scorers.judge import BothOrders, of_both_orders
from cda.scorers.own_code import OwnCode, code_in_memory, load_code
from cda.scorers.protocols import StreamingScorer


@dataclass
class InMemoryModel(ClassifierScorer):
    """A scorer over a model that somebody else has loaded, at the precision that it has."""

    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    """Nothing tells its weights from those of another object, so no two take each other's scores."""

    @property
    def name(self) -> str:
        """For artifacts."""
        return self.reward_model.spec.name_or_path

    @property
    def settings(self) -> Mapping[str, Any]:
        """What decides its answers."""
        return {"scorer": self.name, "in memory": self.mark}

    @property
    def how(self) -> str:
        """How it scores, for reports."""
        template, dtype = self.reward_model.template, self.reward_model.model.dtype
        return (
            f"Scored by {self.name} as it was in memory, in {str(dtype).removeprefix('torch.')}; {template.form}, at most "
            f"{template.max_length_tokens} tokens"
        )


@contextmanager
def model_in_memory(model: Any, tokenizer: Any, name: str, max_length_tokens: int) -> Iterator[InMemoryModel]:
    """Have a model score as one that is loaded from its folder does, and leave it as it was.

    Args:
        model: Sequence classifier with one label, on any device.
        tokenizer: Its tokenizer.
        name: For messages and reports.
        max_length_tokens: Prompt and response together; longer texts are cut and counted.

    Raises:
        ModelError: It has several labels, or the tokenizer cannot be used.
    """
    config = getattr(model, "config", None)
    labels = getattr(config, "num_labels", None)
    if config is None or labels != 1:
        raise ModelError(
            f"{name}: has {'no config' if config is None else f'{labels} labels'}; a reward model is a sequence classifier of "
            "Transformers with num_labels=1. Anything else can be given as a function (prompts, responses) -> rewards"
        )
    text_config = config.get_text_config()
    limits = [max_length_tokens, int(getattr(text_config, "max_position_embeddings", None) or max_length_tokens)]
    limits.append(int(min(tokenizer.model_max_length, max_length_tokens)))
    template = Template(tokenizer, min(limits), text_config.pad_token_id, wants_segments(tokenizer, text_config))
    was_training, before = model.training, [(one, one.pad_token_id) for one in (config, text_config)]
    use_cache = getattr(text_config, "use_cache", None)
    hooks = add_segments(model, tokenizer.sep_token_id) if template.segments else []
    for one, _ in before:
        one.pad_token_id = template.pad_token_id  # sequence classifiers find the last real token by this id
    if use_cache is not None:
        text_config.use_cache = False
    model.eval()
    try:
        spec = ModelSpec(name, "fp32", template.max_length_tokens)
        yield InMemoryModel(RewardModel(model, template, spec, ()), label="  scoring")
    finally:
        for hook in hooks:
            hook.remove()
        for one, pad in before:
            one.pad_token_id = pad
        if use_cache is not None:
            text_config.use_cache = use_cache
        model.train(was_training)


Scored = tuple[list[int], FloatArray]
"""Rows, and the number of each."""


@dataclass
class OwnPointwise(StreamingScorer):
    """A scorer over a user's function.

    Args:
        code: The function.
        batch_rows: Rows in a call.
    """

    code: OwnCode
    batch_rows: int = 256

    @property
    def name(self) -> str:
        """For artifacts."""
        return self.code.name

    @property
    def settings(self) -> Mapping[str, object]:
        """What decides its answers."""
        return self.code.settings

    @property
    def how(self) -> str:
        """How it scores, for reports."""
        return f"Scored by {self.name}"

    def stream(self, prompts: Sequence[Prompt], responses: Sequence[str]) -> Iterator[Scored]:
        """Rows and their rewards, call by call, so that they can be kept before a later call fails.

        Raises:
            ModelError: The function fails, or a reward is NaN or infinite.
        """
        for rows in _batches(len(prompts), self.batch_rows):
            found = self.code.numbers(rows, prompts, responses)
            broken = np.flatnonzero(~np.isfinite(found))
            if broken.size:
                raise ModelError(
                    f"{self.name}: {broken.size} of {len(rows)} rewards are NaN or infinite (first: text "
                    f"{rows[broken[0]] + 1:,}); every text needs a reward"
                )
            yield list(rows), found


@dataclass
class OwnPairwise:
    """A PairwiseScorer over a user's function, which is asked in both orders as an LLM judge is.

    Args:
        code: The function.
        batch_rows: Comparisons in a call; those in the other order are another call.
        both_orders: A comparison with a verdict in one order only has no margin; otherwise that order alone counts.
        orders: What the two orders of the last comparisons came to; unread is where the function gave NaN.
        reasons: As those of an LLM judge; a function gives none.
    """

    code: OwnCode
    batch_rows: int = 256
    both_orders: bool = False
    orders: BothOrders = field(default=BothOrders(), init=False)
    reasons: dict[str, int] = field(default_factory=dict, init=False)

    @property
    def name(self) -> str:
        """For artifacts."""
        return self.code.name

    @property
    def settings(self) -> Mapping[str, Any]:
        """What decides its answers."""
        return self.code.settings

    def margin(self, prompts: Sequence[Prompt], first: Sequence[str], second: Sequence[str]) -> FloatArray:
        """Preference for the first text, (f(first, second) − f(second, first)) / 2, −1 to 1.

        Returns:
            Shape (n,); NaN where the function has no verdict in either order.

        Raises:
            ModelError: The function fails, or a preference is outside −1 to 1.
        """
        values = np.full((len(prompts), 2), np.nan)
        for rows in _batches(len(prompts), self.batch_rows):
            for order, texts in enumerate(((first, second), (second, first))):
                values[rows, order] = self._asked(rows, prompts, *texts)
        margins, self.orders = of_both_orders(values, self.both_orders)
        return margins

    def _asked(self, rows: range, prompts: Sequence[Prompt], shown: Sequence[str], beside: Sequence[str]) -> FloatArray:
        """Preference for what is shown first, of some rows in one order."""
        found = self.code.numbers(rows, prompts, shown, beside)
        outside = np.flatnonzero(np.abs(found) > 1)
        if outside.size:
            at = outside[0]
            raise ModelError(
                f"{self.name}: the preference of comparison {rows[at] + 1:,} is {found[at]:g}; it must lie between "
                "−1 (the second) and 1 (the first). For rewards take the two parameters (prompts, responses)"
            )
        return found


OwnScorer = OwnPointwise | OwnPairwise | InMemoryModel


def own_scorer(name: str, batch_rows: int = 256) -> OwnPointwise | OwnPairwise:
    """Load and check a user's scorer; this runs its module, see `load_code`.

    Args:
        name: `package.module:function` or `path/to/file.py:function`.
        batch_rows: Rows in a call of the function.

    Raises:
        ModelError: As `load_code`.
    """
    return _scorer(load_code(name), batch_rows)


def scorer_in_memory(function: Callable[..., object], name: str, batch_rows: int = 256) -> OwnPointwise | OwnPairwise:
    """A function that is already there as a scorer.

    Args:
        function: Of two or three parameters, see above.
        name: For messages and reports.
        batch_rows: Rows in a call of the function.

    Raises:
        ModelError: It takes neither two nor three parameters.
    """
    return _scorer(code_in_memory(function, name), batch_rows)


def _scorer(code: OwnCode, batch_rows: int) -> OwnPointwise | OwnPairwise:
    return OwnPointwise(code, batch_rows) if code.n_columns == 2 else OwnPairwise(code, batch_rows)


def _batches(count: int, size: int) -> Iterator[range]:
    return (range(start, min(start + size, count)) for start in range(0, count, size))
