"""Scores many texts: each distinct one once, kept as it is found, by this process, workers or a whole launch."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path

from cda.launch import rank, world_size
from cda.run import fingerprint
from cda.scorers.batching import characters
from cda.scorers.cache import ScoreCache
from cda.scorers.compared import Rewards, Text, TextScore, TextScorer, distinct_texts, not_finite
from cda.scorers.workers import Exchange, dealt

_NamedScore = tuple[str, TextScore, bool]
"""`text_id`, its score, and True if the score was known before."""


def joined_rewards(parts: Iterable[Rewards]) -> Rewards:
    """Rewards of several sets of texts as those of one; texts of the same tokens get the first one's reward."""
    by_text: dict[str, float] = {}
    read: dict[str, str] = {}
    tokens: dict[str, str] = {}
    n_cached = 0
    for part in parts:
        by_text |= part.by_text
        read |= part.read
        tokens |= part.tokens
        n_cached += part.n_cached
    return Rewards(_one_reward_each(by_text, tokens), read, tokens=tokens, n_cached=n_cached)


def score_texts(
    scorer: TextScorer,
    texts: Iterable[Text],
    *,
    cache: ScoreCache | None = None,
    scope: str | None = None,
    launched: Path | None = None,
) -> Rewards:
    """Reward of every distinct text; beyond the texts and a reward for each, memory does not grow with their number.

    `scope` names everything else that decides a reward (`scope_of`). With a `cache`, each batch is kept before the next
    one is scored. In the folder `launched` all processes of this launch share their scores, so that each scores its
    share and returns the whole. ModelError: a reward is NaN or infinite (the others are in the cache then), a worker
    failed, or texts are too long; RunError: the cache cannot be used, or another process of the launch failed.
    """
    if scope is None and (cache is not None or launched is not None):
        raise ValueError("a cache and a launch need the scope of the scores")
    distinct = distinct_texts(texts)
    if scorer.over_length == "refuse":
        scorer.refuse_long(list(distinct.values()))
    if launched is None or world_size() == 1:
        return _in_order(distinct, _scored(scorer, distinct, cache, scope or ""))
    names = list(distinct)
    # By their lengths and not by the misses of the cache, which may differ between two processes.
    share = dealt([characters(*text) for text in distinct.values()], world_size())[rank()]
    own = {names[row]: distinct[names[row]] for row in share}
    rows = Exchange(launched, fingerprint([scope, scorer.over_length, names])).gathered(
        lambda: (
            {"text": name, **asdict(score), "known": known}
            for name, score, known in _scored(scorer, own, cache, scope or "")
        )
    )
    return _in_order(
        distinct, ((row["text"], TextScore(row["reward"], row["read"], row["tokens"]), row["known"]) for row in rows)
    )


def _scored(
    scorer: TextScorer, texts: Mapping[str, Text], cache: ScoreCache | None, scope: str
) -> Iterator[_NamedScore]:
    """Every text: first the known ones, then the others as they are scored and kept.

    Below fp32 a score moves with the texts it shares a batch with. There only scores of the same set of texts are
    taken from the cache, and the rest is scored in the batches of the whole set: a run that was killed ends with
    the scores of one that was not. For the same reason the size of the batches counts there; in fp32 it counts if
    each text is scored alone, as a model needs whose scores depend on padding.
    """
    batch_tokens, drops = scorer.batch_tokens, scorer.over_length == "drop"
    whole_set = scorer.precision not in (None, "fp32")
    company: list[object] = []
    if batch_tokens is not None and (whole_set or batch_tokens == 1):
        company.append(f"batches of {batch_tokens}")
    if whole_set:
        company.append(list(texts))
    scope = fingerprint([scope, *company]) if company else scope
    known = cache.lookup(scope, list(texts)) if cache is not None else {}
    for name, score in known.items():
        yield name, TextScore(None) if drops and score.read is not None else score, True
    left = list(texts) if whole_set else [name for name in texts if name not in known]
    skip = frozenset(row for row, name in enumerate(left) if name in known)
    if len(skip) == len(left):
        return
    broken: list[str] = []
    by_tokens = {score.tokens: score.reward for score in known.values() if score.tokens and score.reward is not None}
    with contextlib.closing(scorer.in_batches([texts[name] for name in left], skip, by_tokens)) as computed:
        for finished in computed:
            new = {left[row]: score for row, score in finished if row not in skip}
            unsound = [name for name, score in new.items() if not math.isfinite(score.reward or 0.0)]
            whole = [(name, score) for name, score in new.items() if name not in unsound]
            broken += unsound
            if cache is not None:
                cache.keep(scope, whole)
            yield from ((name, score, False) for name, score in whole)
    if broken:
        first = f"response {texts[broken[0]][1][:60]!r}"
        raise not_finite(scorer.name, len(broken), len(left) - len(skip), first)


def _in_order(distinct: Iterable[str], scored: Iterable[_NamedScore]) -> Rewards:
    """All rewards, in the order of the texts."""
    by_name: dict[str, TextScore] = {}
    n_cached = 0
    for name, score, known in scored:
        by_name[name] = score
        n_cached += known
    by_text = {name: math.nan if (reward := by_name[name].reward) is None else reward for name in distinct}
    read = {name: cut for name in distinct if (cut := by_name[name].read) is not None}
    tokens = {name: seen for name in distinct if (seen := by_name[name].tokens) is not None}
    return Rewards(_one_reward_each(by_text, tokens), read, tokens=tokens, n_cached=n_cached)


def _one_reward_each(rewards: Mapping[str, float], tokens: Mapping[str, str]) -> dict[str, float]:
    """The first reward for all texts that are the same to the model: processes and runs score in other batches."""
    first: dict[str, float] = {}
    return {
        name: first.setdefault(tokens[name], reward) if name in tokens else reward for name, reward in rewards.items()
    }
