"""Rewards on disk, keyed by everything that determines them: a text is scored once for all runs of a folder."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from cda.errors import ModelError, RunError
from cda.files.paths import user_path
from cda.files.sqlite_file import SqliteFile, transaction
from cda.inert import visible
from cda.models.causal import CausalModel
from cda.models.load import ModelSpec, RewardModel
from cda.provenance import versions
from cda.run import file_fingerprint, fingerprint
from cda.scorers.compared import TextScore

_TABLE = """CREATE TABLE IF NOT EXISTS scores (
    scope TEXT NOT NULL, text TEXT NOT NULL, reward REAL NOT NULL, read TEXT, tokens TEXT, PRIMARY KEY (scope, text)
) WITHOUT ROWID"""
"""Not `rewards`, the table of earlier versions: it has no column for tokens, and they can go on with it."""
_ASKED_AT_ONCE = 5000
_SCHEME = 3
"""Raised when the same settings come to mean another score."""
_DECIDING = ("torch", "transformers", "tokenizers", "peft", "bitsandbytes")


def scope_of(loaded: RewardModel | CausalModel, adapter: Path | None = None, dose: float = 1.0) -> str:
    """Name of everything but the text that decides a reward: model and adapter content, precision, template,
    truncation; not batches, which `score_texts` adds if a score depends on them. ModelError for a hub model whose
    commit is unknown, as the same name may hold other weights tomorrow; DataError if a folder cannot be read.
    """
    spec, template = loaded.spec, loaded.template
    tokenizer = template.tokenizer
    return fingerprint(
        {
            "scheme": _SCHEME,
            "model": _content(spec),
            "own code": spec.trust_remote_code and _own_code(loaded),  # the same files may be another class with it
            "adapter": None if adapter is None else [file_fingerprint(adapter), dose],
            "precision": [spec.precision, str(loaded.model.dtype), loaded.model.device.type],
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
            "extra": {},  # of earlier versions, whose scores are still found
        }
    )


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
            say=say or (lambda message: print(visible(message), file=sys.stderr)),
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


def _content(spec: ModelSpec) -> str:
    """Fingerprint of a model folder; name and commit of a model from a hub."""
    from transformers.utils.hub import cached_file, extract_commit_hash

    path = Path(spec.name_or_path)
    if path.is_dir():
        return file_fingerprint(path)
    config = cached_file(
        spec.name_or_path, "config.json", revision=spec.revision, _raise_exceptions_for_missing_entries=False
    )
    commit = extract_commit_hash(config, None)
    if commit is None:
        raise ModelError(
            f"{spec.name_or_path}: its commit on the hub is unknown, so that kept scores could be of other weights. "
            "Give a commit as model.revision, or a folder"
        )
    return f"{spec.name_or_path}@{commit}"


def _own_code(loaded: RewardModel | CausalModel) -> str | bool:
    """Fingerprint of the code that the model brought along, which may be another repository's; True if none was run."""
    model = loaded.model.get_base_model() if hasattr(loaded.model, "get_base_model") else loaded.model
    modules = {type(part).__module__ for part in (model, model.config, loaded.template.tokenizer)}
    folders = {
        Path(str(sys.modules[name].__file__)).parent for name in modules if name.startswith("transformers_modules.")
    }
    code = {file.name: file_fingerprint(file) for folder in folders for file in folder.glob("*.py")}
    return fingerprint(code) if code else True
