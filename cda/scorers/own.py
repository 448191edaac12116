"""Scorers of the user: a model that is already in memory, or a function that rewards or compares."""

from __future__ import annotations

import inspect
import re
import sys
import uuid
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from cda.arrays import LARGEST, FloatArray
from cda.data.scores import StoredScores
from cda.errors import DataError, ModelError, type_in_words
from cda.files.paths import refuse_prose
from cda.inert import clipped, inert
from cda.models.config import ModelSpec
from cda.models.load import RewardModel, reading_of, template_of, without_adapter
from cda.models.reading import as_it_was, read_by_mask
from cda.models.template import add_segments
from cda.records import Prompt, prompt_text, text_key
from cda.scorers.batching import row_groups
from cda.scorers.classifier import ClassifierScorer
from cda.scorers.compared import BothOrders, Finished, Text, TextScore, TextScorer
from cda.scorers.judge import of_both_orders
from cda.scorers.own_code import MEMORY, OwnCode, checked_code, load_code

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

BATCH_ROWS = 256
"""Texts in a call of the user's function."""


@dataclass
class InMemoryModel(ClassifierScorer):
    """A scorer over a model that the caller has loaded, at its precision."""

    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    """Nothing tells its weights from those of another object, so no two take each other's scores."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """Settings that decide its answers."""
        return {"scorer": self.name, "in memory": self.mark}

    @property
    def how(self) -> str:
        """Sentence for reports."""
        template, dtype = self.reward_model.template, self.reward_model.model.dtype
        return (
            f"Scored by {self.name} as it was in memory, in {str(dtype).removeprefix('torch.')}; {template.form}, at most "
            f"{template.max_length_tokens} tokens"
        )


@contextmanager
def model_in_memory(
    model: Any, tokenizer: PreTrainedTokenizerBase, name: str, max_length_tokens: int
) -> Iterator[InMemoryModel]:
    """Have a sequence classifier, on any device, score as one that is loaded from its folder does; leave it as it was.
    ModelError if it has not exactly one label, or the tokenizer cannot be used.
    """
    config = getattr(model, "config", None)
    labels = getattr(config, "num_labels", None)
    if config is None or labels != 1:
        raise ModelError(
            f"{name}: has {'no config' if config is None else f'{labels} labels'}; a reward model is a sequence classifier of "
            "Transformers with num_labels=1. Anything else can be given as a function (prompts, responses) -> rewards"
        )
    template = template_of(tokenizer, config.get_text_config(), max_length_tokens)
    spec, base = ModelSpec(name, "fp32", template.max_length_tokens), without_adapter(model)
    reading = reading_of(spec, base, template, in_memory=True)
    was_training, cached = model.training, getattr(config.get_text_config(), "use_cache", None)
    hooks = add_segments(model, tokenizer.sep_token_id) if template.segments else []
    is_new = reading is not None and not hasattr(base, "reading")
    if is_new and reading is not None:
        read_by_mask(base, reading)
    if cached is not None:
        config.get_text_config().use_cache = False
    model.eval()
    try:
        yield InMemoryModel(RewardModel(model, template, spec, (), reading), label="  scoring")
    finally:
        for hook in hooks:
            hook.remove()
        if is_new:
            as_it_was(base)
        if cached is not None:
            config.get_text_config().use_cache = cached
        model.train(was_training)


@dataclass
class _Own:
    """A user's function, by its name."""

    code: OwnCode

    @property
    def name(self) -> str:
        return self.code.name

    @property
    def settings(self) -> Mapping[str, object]:
        """Settings that decide its answers."""
        return self.code.settings


@dataclass
class OwnPointwise(_Own, TextScorer):
    """A scorer over a user's function."""

    @property
    def how(self) -> str:
        """Sentence for reports."""
        return f"Scored by {f'the Python function ‘{self.name}’' if 'in memory' in self.settings else self.name}"

    def in_batches(
        self,
        texts: Sequence[Text],
        skip: frozenset[int] = frozenset(),  # noqa: ARG002
        known: Mapping[str, float] | None = None,  # noqa: ARG002
    ) -> Generator[Finished, None, None]:
        """Scores call by call; ModelError if the function fails, or, if it is `strict`, a reward is NaN, infinite or beyond `LARGEST`."""
        for rows in row_groups(len(texts), self.code.batch_rows or BATCH_ROWS):
            prompts, responses = zip(*texts[rows.start : rows.stop], strict=True)
            rewards = self.code.numbers(rows, prompts, responses)
            broken = np.flatnonzero(~(np.abs(rewards) <= LARGEST))
            if not self.strict:
                rewards = np.where(np.abs(rewards) <= LARGEST, rewards, np.nan)
            elif broken.size:
                raise ModelError(
                    f"{self.name}: {broken.size} of {len(rows)} rewards are NaN, infinite or beyond {LARGEST:g} (first: text "
                    f"{rows[broken[0]] + 1:,}); every text needs a reward"
                )
            yield [(row, TextScore(float(reward))) for row, reward in zip(rows, rewards, strict=True)]


@dataclass
class OwnPairwise(_Own):
    """A PairwiseScorer over a user's function, which is asked in both orders as an LLM judge is; see `LLMJudge`."""

    both_orders: bool = False
    orders: BothOrders = field(default=BothOrders(), init=False)
    reasons: dict[str, int] = field(default_factory=dict, init=False)
    """As those of an LLM judge; a function gives none."""

    def margin(self, prompts: Sequence[Prompt], first: Sequence[str], second: Sequence[str]) -> FloatArray:
        """Preference for the first text, (f(first, second) − f(second, first)) / 2; NaN without a verdict in either
        order. ModelError if the function fails, or a preference is outside −1 to 1.
        """
        values = np.full((len(prompts), 2), np.nan)
        for rows in row_groups(len(prompts), self.code.batch_rows or BATCH_ROWS):
            part = slice(rows.start, rows.stop)
            for order, (shown, other) in enumerate(((first, second), (second, first))):
                values[rows, order] = preferences = self.code.numbers(rows, prompts[part], shown[part], other[part])
                outside = np.flatnonzero(np.abs(preferences) > 1)
                if outside.size:
                    at = outside[0]
                    raise ModelError(
                        f"{self.name}: the preference of comparison {rows[at] + 1:,} is {preferences[at]:g}; it must lie between "
                        "−1 (the second) and 1 (the first). For rewards take the two parameters (prompts, responses)"
                    )
        margins, self.orders = of_both_orders(values, self.both_orders)
        return margins


OwnScorer = OwnPointwise | OwnPairwise | InMemoryModel


@dataclass(frozen=True, slots=True)
class StoredCode(OwnCode):
    """In place of a function: scores that are in a file."""

    scores: StoredScores = field(default_factory=lambda: StoredScores({}, {}))

    def numbers(self, rows: range, prompts: Sequence[Prompt], *texts: Sequence[str]) -> FloatArray:
        """Rewards of texts, shape (len(rows),); of comparisons the preferences in this order, NaN if the file has the other one alone.
        DataError: some have no score, also in the other order; how many, and the first of them."""
        known = self.scores.preferences or self.scores.rewards
        given = list(zip(prompts, *texts, strict=True))
        found = [known.get(text_key(*each)) for each in given]
        missing = [
            each
            for each, score in zip(given, found, strict=True)
            if score is None and text_key(each[0], *each[:0:-1]) not in known
        ]
        if missing:
            first = " against ".join(f"'{clipped(inert(text), 60)}'" for text in missing[0][1:])
            what = "comparisons" if self.n_columns == 3 else "texts"
            raise DataError(
                f"{self.name}: has no score of {len(missing)} of {len(given)} {what} (first: {first}, to "
                f"'{clipped(inert(prompt_text(missing[0][0])), 60)}'). Add them to the file, or measure on what it scores: name its "
                "own contrasts, triples and quality pairs, or `none` for triples and quality (and audit.second_turn=no)"
            )
        return np.array(found, dtype=np.float64).reshape(len(rows))


def stored_scorer(name: str, scores: StoredScores) -> OwnPointwise | OwnPairwise:
    """The scores of a file as a scorer, which needs no cache, and is asked for all texts at once, so as to name all that it lacks."""
    columns = 3 if scores.preferences else 2
    return _scorer(StoredCode(name, len, None, columns, "a file", batch_rows=sys.maxsize, scores=scores))


def own_scorer(name: str) -> OwnPointwise | OwnPairwise:
    """Load and check a user's scorer by its name; this runs its module, see `load_code`."""
    return _scorer(load_code(name))


def scorer_in_memory(function: Callable[..., object], name: str) -> OwnPointwise | OwnPairwise:
    """A function in memory as a scorer; ModelError if it takes neither two nor three parameters."""
    # Its code may change unseen, so that no two calls take each other's scores.
    return _scorer(checked_code(name, function, inspect.getmodule(function), uuid.uuid4().hex))


def _scorer(code: OwnCode) -> OwnPointwise | OwnPairwise:
    return OwnPointwise(code) if code.n_columns == 2 else OwnPairwise(code)


@contextmanager
def opened_model(model: object, max_length_tokens: int) -> Iterator[tuple[str, OwnScorer | None]]:
    """The name of a model, and its scorer if it is in memory; ModelError if it is nothing that scores."""
    refuse_prose(model, "model", "a name, folder or function")
    if isinstance(model, str | PathLike):
        yield str(model), None
        return
    if isinstance(model, tuple):
        if len(model) != 2:
            raise ModelError(f"model: a tuple of {len(model)}; give (model, tokenizer)")
        name = _identifier(type(model[0]).__name__)
        with model_in_memory(*model, name, max_length_tokens) as scorer:
            yield f"{MEMORY}{name}", scorer
        return
    if hasattr(model, "config") and hasattr(model, "forward"):
        raise ModelError(f"model: {type_in_words(model)} without its tokenizer; give (model, tokenizer)")
    if not callable(model):
        raise ModelError(
            f"model: found {type_in_words(model)}; give a name or folder, a function (prompts, responses) -> rewards, or "
            "(model, tokenizer)"
        )
    name = _identifier(_called(model))
    yield f"{MEMORY}{name}", scorer_in_memory(model, name)


def _called(function: object) -> str:
    """A function's `__name__`, of a partial that of its function, of another callable object that of its class."""
    while isinstance(function, partial):
        function = function.func
    return str(getattr(function, "__name__", type(function).__name__))


def _identifier(name: str) -> str:
    """A name that `scorer_kind` takes for a function.

    >>> _identifier("<lambda>"), _identifier("score"), _identifier("2x")
    ('lambda', 'score', '_2x')
    """
    kept = re.sub(r"\W", "", name) or "function"
    return kept if kept.isidentifier() else f"_{kept}" if not kept[0].isalpha() else f"{kept}_"
