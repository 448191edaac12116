"""Scores many texts: each distinct one once, kept as it is found, by this process, workers or a whole launch."""

from __future__ import annotations

import math
import sys
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from cda.errors import ModelError
from cda.launch import rank, world_size
from cda.models.load import RewardModel
from cda.models.template import Template
from cda.records import Prompt
from cda.run import fingerprint
from cda.score.cache import ScoreCache
from cda.score.classifier import ClassifierScorer, TextScore, characters, not_finite, windows
from cda.score.compared import Rewards
from cda.score.distinct import Text, distinct_texts, text_id
from cda.score.protocols import FloatArray, PointwiseScorer
from cda.score.workers import Exchange, Load, WorkerPool, dealt

OverLength = Literal["cut", "drop", "refuse"]
Workers = int | Literal["auto"]

_CHUNK = 256
"""Texts that are asked of other scorers at once, where they are kept: what a kill may lose."""
# Choices: a core multiplies some 50 to 100 GFLOP/s, and a worker imports and loads for some ten seconds.
_FLOP_PER_CORE_S = 5e10
_PAYS_FROM_S = 60.0
_CHARACTERS_A_TOKEN = 4

_Finished = list[tuple[int, TextScore]]
_Found = tuple[str, TextScore, bool]
"""`text_id`, what it scored, and whether that was known before."""


@runtime_checkable
class StreamingScorer(Protocol):
    """A pointwise scorer that hands out rewards as they come, as one that asks a server does."""

    def stream(self, prompts: Sequence[Prompt], responses: Sequence[str]) -> Iterator[tuple[list[int], FloatArray]]:
        """Rows and their rewards, in any order; NaN for a text that it counts as too long to be read."""
        ...


@runtime_checkable
class TextScorer(Protocol):
    """A pointwise scorer that also says which texts it cut and which are too long, as a local model does."""

    def in_batches(
        self, prompts: Sequence[Prompt], responses: Sequence[str], *, skip: frozenset[int], known: Mapping[str, float]
    ) -> Iterator[_Finished]:
        """Rows and their scores, in any order, but for groups of nothing but rows to skip; see ClassifierScorer."""
        ...


@dataclass(frozen=True, slots=True)
class Scores:
    """What the texts scored.

    Attributes:
        rewards: `text_id` to reward, in the order in which the texts were first given.
        read: `text_id` of each scored text that was cut, to a name of what was left of it.
        dropped: `text_id` of each text that was too long, where these are dropped or nothing of the response would be left.
        n_cached: Texts whose reward was found in the cache, here or by the other processes of the launch.
        tokens: `text_id` to a name of all that the model read, where the scorer knows. Texts of the same name have one
            reward.
    """

    rewards: Mapping[str, float]
    read: Mapping[str, str]
    dropped: tuple[str, ...]
    n_cached: int
    tokens: Mapping[str, str] = field(default_factory=dict)

    @property
    def n_texts(self) -> int:
        """Distinct texts, dropped ones included."""
        return len(self.rewards) + len(self.dropped)

    @property
    def n_truncated(self) -> int:
        """Scored texts that were cut."""
        return len(self.read)

    @property
    def n_alike(self) -> int:
        """Texts that the model reads whole, and as the same tokens as one that was given before."""
        whole = [read for name, read in self.tokens.items() if name not in self.read]
        return len(whole) - len(set(whole))

    def times(self, factor: float) -> Scores:
        """The same in another unit, which is so many times finer."""
        return replace(self, rewards={name: factor * reward for name, reward in self.rewards.items()})

    def compared(self) -> Rewards:
        """For margins: a text that was left out has none, and is counted wherever margins are."""
        rewards = dict(self.rewards) | dict.fromkeys(self.dropped, math.nan)
        return Rewards(rewards, self.read, tokens=self.tokens)

    def of(self, prompt: Prompt, response: str) -> float | None:
        """Reward of one text; None where it was dropped. KeyError where it was not among the texts."""
        name = text_id(prompt, response)
        return self.rewards[name] if name not in self.dropped else None


def score_texts(
    scorer: PointwiseScorer | StreamingScorer,
    texts: Iterable[Text],
    *,
    cache: ScoreCache | None = None,
    scope: str | None = None,
    over_length: OverLength = "cut",
    workers: Workers = 1,
    load: Load | None = None,
    launched: Path | None = None,
) -> Scores:
    """Reward of every distinct text.

    Beyond the texts and a reward for each, memory does not grow with their number.

    Args:
        scorer: A `ClassifierScorer`, for which all of this was made; or any other, which then batches by itself: one that
            hands out scores as they come (`TextScorer`, `StreamingScorer`), or one that only gives rewards.
        texts: Prompt and response; repeats are allowed.
        cache: Keeps each batch before the next one is scored, and is asked first.
        scope: Name of everything else that decides a reward (`scope_of`); needed with `cache` and with `launched`.
        over_length: What becomes of texts beyond max_length_tokens: `cut` at the end and counted; `drop`ped and counted;
            or `refuse`d, all together, before any is scored. Other scorers than classifiers have settings of their own.
        workers: Processes that compute, each with the model in its own memory beside the one given here; see `n_workers`.
        load: Makes the scorer's model in a worker. Without it there are none.
        launched: Folder in which all processes of this launch hand each other what they found, so that each scores its
            share and returns the whole. None: this process scores everything, as it does where it is the only one.

    Raises:
        ModelError: A reward is NaN or infinite (the others are in the cache then), a worker failed, or texts are too long.
        RunError: The cache cannot be used, or another process of the launch failed.
    """
    if scope is None and (cache is not None or launched is not None):
        raise ValueError("a cache and a launch need the scope of the scores")
    if load is None and workers not in (1, "auto"):
        raise ValueError("workers need to know how to load the model")
    distinct = distinct_texts(texts)
    if over_length != "cut":
        _check_lengths(scorer, distinct, over_length)
    work = _Work(scorer, over_length == "drop", workers, load, cache, scope or "")
    if launched is None or world_size() == 1:
        return _whole(distinct, work.done(distinct))
    names = list(distinct)
    # By their lengths and not by what the cache lacks: that may change between the looks of two processes.
    share = dealt([characters(*text) for text in distinct.values()], world_size())[rank()]
    own = {names[row]: distinct[names[row]] for row in share}
    rows = Exchange(launched, fingerprint([scope, over_length, names])).gathered(
        lambda: (
            {"text": name, "reward": one.reward, "read": one.read, "tokens": one.tokens, "known": known}
            for name, one, known in work.done(own)
        )
    )
    return _whole(
        distinct, ((row["text"], TextScore(row["reward"], row["read"], row["tokens"]), row["known"]) for row in rows)
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


@dataclass(frozen=True, slots=True)
class _Work:
    """How texts are scored: see `score_texts`."""

    scorer: PointwiseScorer | StreamingScorer
    drop: bool
    workers: Workers
    load: Load | None
    cache: ScoreCache | None
    scope: str

    def done(self, texts: Mapping[str, Text]) -> Iterator[_Found]:
        """Every text: first the known ones, then the others as they are scored and kept.

        Below fp32 a score moves with the texts it shares a batch with. There only scores of the same set of texts are
        taken from the cache, and what is left is scored in the batches of the whole set: a run that was killed ends with
        the scores of one that was not. For the same reason the size of the batches counts there; in fp32 it counts where
        each text is scored alone, which is what a model needs whose scores depend on padding.
        """
        batch_tokens = getattr(self.scorer, "batch_tokens", None)
        whole_set = _precision(self.scorer) not in (None, "fp32")
        company: list[Any] = []
        if batch_tokens is not None and (whole_set or batch_tokens == 1):
            company.append(f"batches of {batch_tokens}")
        if whole_set:
            company.append(list(texts))
        scope = fingerprint([self.scope, *company]) if company else self.scope
        known = self.cache.lookup(scope, list(texts)) if self.cache is not None else {}
        for name, one in known.items():
            yield name, TextScore(None) if self.drop and one.read is not None else one, True
        left = list(texts) if whole_set else [name for name in texts if name not in known]
        skip = frozenset(row for row, name in enumerate(left) if name in known)
        if len(skip) == len(left):
            return
        broken: list[str] = []
        by_tokens = {one.tokens: one.reward for one in known.values() if one.tokens and one.reward is not None}
        with closing(self._computed([texts[name] for name in left], skip, by_tokens)) as computed:
            for finished in computed:
                named = [(left[row], one) for row, one in finished if row not in skip]
                broken += [name for name, one in named if one.reward is not None and not math.isfinite(one.reward)]
                whole = [(name, one) for name, one in named if one.reward is None or math.isfinite(one.reward)]
                if self.cache is not None:
                    self.cache.keep(scope, whole)
                yield from ((name, one, False) for name, one in whole)
        if broken:
            first = f"response {texts[broken[0]][1][:60]!r}"
            raise not_finite(_name(self.scorer), len(broken), len(left) - len(skip), first)

    def _computed(
        self, texts: Sequence[Text], skip: frozenset[int], known: Mapping[str, float]
    ) -> Generator[_Finished, None, None]:
        prompts, responses = [prompt for prompt, _ in texts], [response for _, response in texts]
        if isinstance(self.scorer, ClassifierScorer):
            yield from self._classified(self.scorer, prompts, responses, skip, known)
        elif isinstance(self.scorer, TextScorer):
            yield from self.scorer.in_batches(prompts, responses, skip=skip, known=known)
        elif isinstance(self.scorer, StreamingScorer):
            for rows, rewards in self.scorer.stream(prompts, responses):
                scores = [TextScore(None if math.isnan(reward) else float(reward)) for reward in rewards]
                yield list(zip(rows, scores, strict=True))
        else:
            size = len(texts) if self.cache is None else _CHUNK
            for start in range(0, len(texts), size):
                if skip.issuperset(range(start, min(start + size, len(texts)))):
                    continue
                rewards = self.scorer.score(prompts[start : start + size], responses[start : start + size])
                yield [(row, TextScore(float(reward))) for row, reward in enumerate(rewards, start)]

    def _classified(
        self,
        scorer: ClassifierScorer,
        prompts: Sequence[Prompt],
        responses: Sequence[str],
        skip: frozenset[int],
        known: Mapping[str, float],
    ) -> Iterator[_Finished]:
        n_characters = sum(map(characters, prompts, responses))
        n = n_workers(self.workers, scorer.reward_model, n_characters) if self.load is not None else 1
        if self.load is None or n == 1:
            yield from scorer.in_batches(prompts, responses, self.drop, skip=skip, known=known)
            return
        import torch

        with WorkerPool(self.load, n, max(1, torch.get_num_threads() // n)) as pool:
            pool.check_same(scorer.reward_model)
            yield from scorer.in_batches(prompts, responses, self.drop, pool.compute, skip, known)


def _whole(distinct: Mapping[str, Text], found: Iterable[_Found]) -> Scores:
    """All that was found, in the order of the texts."""
    by_name: dict[str, TextScore] = {}
    n_cached = 0
    for name, one, known in found:
        by_name[name] = one
        n_cached += known
    rewards = {name: reward for name in distinct if (reward := by_name[name].reward) is not None}
    read = {name: cut for name in rewards if (cut := by_name[name].read) is not None}
    tokens = {name: seen for name in rewards if (seen := by_name[name].tokens) is not None}
    dropped = tuple(name for name in distinct if name not in rewards)
    return Scores(one_reward_each(rewards, tokens), read, dropped, n_cached, tokens)


def one_reward_each(rewards: Mapping[str, float], tokens: Mapping[str, str]) -> dict[str, float]:
    """The rewards, the first one for all texts that are the same to the model: processes and runs score in other batches.

    Args:
        rewards: By `text_id`.
        tokens: `text_id` to a name of what the model read.
    """
    first: dict[str, float] = {}
    return {
        name: first.setdefault(tokens[name], reward) if name in tokens else reward for name, reward in rewards.items()
    }


def _check_lengths(scorer: object, distinct: Mapping[str, Text], over_length: OverLength) -> None:
    """Refuse texts that are too long, where that is asked, before any is scored."""
    if not isinstance(scorer, ClassifierScorer):
        raise ModelError(
            f"over_length={over_length}: {_name(scorer)} does not say how long a text is to it; its own settings decide"
        )
    if over_length != "refuse":
        return
    template, limit = scorer.reward_model.template, scorer.reward_model.template.max_length_tokens
    uncut = Template(template.tokenizer, sys.maxsize, template.pad_token_id)
    prompts, responses = [prompt for prompt, _ in distinct.values()], [response for _, response in distinct.values()]
    # All are tokenized for this and again to be scored: little beside a model, and no ids have to be held.
    found = (len(one.ids) for window in windows(uncut, prompts, responses) for one in window.values())
    long = [n_tokens for n_tokens in found if n_tokens > limit]
    if long:
        raise ModelError(
            f"{_name(scorer)}: {len(long)} of {len(distinct)} texts are longer than {limit} tokens, the longest has "
            f"{max(long)}. Raise model.max_length_tokens where the model reads more, or have such texts cut or dropped"
        )


def _precision(scorer: object) -> str | None:
    """Of a local model's weights; None where there is no such thing."""
    if isinstance(scorer, ClassifierScorer):
        return scorer.reward_model.spec.precision
    return getattr(scorer, "precision", None)


def _name(scorer: object) -> str:
    if isinstance(scorer, ClassifierScorer):
        return scorer.reward_model.spec.name_or_path
    return str(getattr(scorer, "name", type(scorer).__name__))


def _free_bytes() -> int | None:
    """Memory that can be had without swapping; None where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    found = [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    return found[0] if found else None
