"""Scores many texts: each distinct one once, kept on disk as it is found, by this process, workers or a whole launch."""

from __future__ import annotations

import contextlib
import math
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from cda.errors import ModelError, RunError
from cda.files.paths import user_path
from cda.files.sqlite_file import SqliteFile, transaction
from cda.inert import visible
from cda.launch import rank, world_size
from cda.models.causal import CausalModel
from cda.models.config import ModelSpec
from cda.models.load import RewardModel, without_adapter
from cda.models.own_files import content_of
from cda.provenance import versions
from cda.run import file_fingerprint, fingerprint
from cda.scorers.batching import Exchange, characters, dealt
from cda.scorers.compared import Rewards, Text, TextScore, TextScorer, distinct_texts, not_finite
from cda.terminal import put

_TABLE = """CREATE TABLE IF NOT EXISTS scores (
    scope TEXT NOT NULL, text TEXT NOT NULL, reward REAL NOT NULL, read TEXT, tokens TEXT, PRIMARY KEY (scope, text)
) WITHOUT ROWID"""
"""Not `rewards`, the table of earlier versions: it has no column for tokens, and they can go on with it."""
_ASKED_AT_ONCE = 5000
_SCHEME = 3
"""Raised when the same settings come to mean another score."""
_DECIDING = ("torch", "transformers", "tokenizers", "peft", "bitsandbytes")
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
            unsound = [name for name, score in new.items() if not _is_sound(score)]
            whole = [(name, score) for name, score in new.items() if name not in unsound]
            if cache is not None:
                cache.keep(scope, whole)
            if scorer.strict:
                broken += unsound
            else:
                whole = list(new.items())
            yield from ((name, score, False) for name, score in whole)
    if broken:
        first = f"response {texts[broken[0]][1][:60]!r}"
        raise not_finite(scorer.name, len(broken), len(left) - len(skip), first)


def _is_sound(score: TextScore) -> bool:
    return math.isfinite(score.reward or 0.0)


def _in_order(distinct: Iterable[str], scored: Iterable[_NamedScore]) -> Rewards:
    """All rewards, in the order of the texts."""
    by_name: dict[str, TextScore] = {}
    n_cached = 0
    for name, score, known in scored:
        by_name[name] = score
        n_cached += known
    unsound = frozenset(name for name, score in by_name.items() if not _is_sound(score))
    by_text = {
        name: math.nan if (reward := by_name[name].reward) is None or name in unsound else reward for name in distinct
    }
    read = {name: cut for name in distinct if (cut := by_name[name].read) is not None}
    tokens = {name: seen for name in distinct if (seen := by_name[name].tokens) is not None}
    return Rewards(_one_reward_each(by_text, tokens), read, tokens=tokens, n_cached=n_cached, unsound=unsound)


def _one_reward_each(rewards: Mapping[str, float], tokens: Mapping[str, str]) -> dict[str, float]:
    """The first reward for all texts that are the same to the model: processes and runs score in other batches."""
    first: dict[str, float] = {}
    return {
        name: first.setdefault(tokens[name], reward) if name in tokens else reward for name, reward in rewards.items()
    }


def scope_of(loaded: RewardModel | CausalModel, adapter: Path | None = None, dose: float = 1.0) -> str:
    """Name of everything but the text that decides a reward: model and adapter content, precision, template,
    truncation; not batches, which `score_texts` adds if a score depends on them. ModelError for a hub model whose
    commit is unknown, as the same name may hold other weights tomorrow; DataError if a folder cannot be read.
    """
    spec, template = loaded.spec, loaded.template
    tokenizer, device = template.tokenizer, loaded.model.device.type
    # Earlier versions rounded the inputs too.
    products = ["rounded weights"] if spec.precision == "8bit" else []
    kernels = [name for name in (spec.attn_implementation, "compiled" * spec.compile) if name]
    return fingerprint(
        {
            "scheme": _SCHEME,
            "model": _content(spec),
            "own code": spec.trust_remote_code and _own_code(loaded),  # the same files may be another class with it
            "adapter": None if adapter is None else [file_fingerprint(adapter), dose],
            "precision": [spec.precision, str(loaded.model.dtype), device, *products, *kernels],
            "template": [
                template.form,
                template.segments,
                tokenizer.chat_template,
                tokenizer.special_tokens_map,
                template.pad_token_id,
            ],
            "max_length_tokens": template.max_length_tokens,
            # Another version of these may compute another score from the same files.
            "versions": {name: version for name, version in versions().items() if name in _DECIDING},
            "extra": _of_reading(loaded),
        }
    )


def _of_reading(loaded: RewardModel | CausalModel) -> dict[str, object]:
    """What decides the token that a reward is read at, if more does than the padding token; empty for scores of earlier versions."""
    spec, template = loaded.spec, loaded.template
    found: dict[str, object] = {"encoding": template.content} if template.content else {}
    reading = loaded.reading if isinstance(loaded, RewardModel) else None
    if reading is not None and (reading.pad != template.pad_token_id or reading.output):
        found["read"] = [reading.pad, reading.output]
    if spec.reads or spec.head is not None:
        found["settings"] = [spec.reads, spec.head]
    if family := getattr(loaded.model.config, "reward_family", None):
        found["family"] = family
    return found


def _content(spec: ModelSpec) -> str:
    """The model's identity; ModelError without one."""
    content = content_of(spec.name_or_path, spec.revision)
    if content is None:
        raise ModelError(
            f"{spec.name_or_path}: its commit on the hub is unknown, so that kept scores could be of other weights. "
            "Give a commit as model.revision, or a folder"
        )
    return content


def _own_code(loaded: RewardModel | CausalModel) -> str | bool:
    """Fingerprint of the code that the model brought along, which may be another repository's; True if none was run."""
    model = without_adapter(loaded.model)
    modules = {type(part).__module__ for part in (model, model.config, loaded.template.tokenizer)}
    folders = {
        Path(str(sys.modules[name].__file__)).parent for name in modules if name.startswith("transformers_modules.")
    }
    code = {file.name: file_fingerprint(file) for folder in folders for file in folder.glob("*.py")}
    return fingerprint(code) if code else True


class ScoreCache:
    """One SQLite file, of hashes and numbers, for any number of processes on one machine, whole after a kill at any
    moment. If it cannot be read it is moved aside as `.corrupt-N`, and `say` is called; RunError if that does not help.
    """

    def __init__(self, path: Path | str, say: Callable[[str], None] | None = None) -> None:
        self.path = user_path(path)
        # NORMAL: scores lost in a power cut are computed again.
        self._file = SqliteFile(
            self.path,
            _TABLE,
            "SELECT scope, text, reward, read, tokens FROM scores LIMIT 0",
            what="score cache",
            kept="what was scored until now is kept",
            error=RunError,
            say=say or (lambda message: put(visible(message))),
            synchronous="NORMAL",
        )
        self._lock = threading.Lock()
        self._connection = self._file.opened()

    def __enter__(self) -> ScoreCache:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        with self._lock:
            return int(self._connection.execute("SELECT count(*) FROM scores").fetchone()[0])

    def __bool__(self) -> bool:
        # An empty cache is a cache: without this, its length would make `if cache` false.
        return True

    def lookup(self, scope: str, text_ids: Sequence[str]) -> dict[str, TextScore]:
        """The kept scores by `text_id`."""
        scores: dict[str, TextScore] = {}
        for start in range(0, len(text_ids), _ASKED_AT_ONCE):
            asked = text_ids[start : start + _ASKED_AT_ONCE]
            marks = ",".join("?" * len(asked))
            query = f"SELECT text, reward, read, tokens FROM scores WHERE scope = ? AND text IN ({marks})"
            with self._file.explained(), self._lock:
                rows = self._connection.execute(query, [scope, *asked]).fetchall()
            scores |= {text: TextScore(*score) for text, *score in rows}
        return scores

    def keep(self, scope: str, scores: Iterable[tuple[str, TextScore]]) -> None:
        """Write scores by `text_id`; when it returns, no kill can take them back. Texts without a reward are not kept."""
        rows = [
            (scope, text, score.reward, score.read, score.tokens) for text, score in scores if score.reward is not None
        ]
        with self._file.explained(), self._lock, transaction(self._connection):
            # Another process may have scored the same meanwhile: the first score stays.
            self._connection.executemany("INSERT OR IGNORE INTO scores VALUES (?, ?, ?, ?, ?)", rows)

    def close(self) -> None:
        with self._lock:
            self._connection.close()
