"""Attempts to have one thing taken for another: a model, a file, a function, a repository, a judge; and to have files written
where a link leads, or read by anybody."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from evals.reliability.fault_runs import Attempt

LARGE = 70 * 2**20
"""Bytes; files of up to 64 MB were read whole at all times."""
TEXTS = [("How do I boil an egg?", "Put it into boiling water for eight minutes."), ("Name a fruit.", "An apple.")]
ROW = {"prompt": "Name a fruit.", "base": "An apple.", "perturbed": "A pomaceous fruit, to wit an apple."}


def shared_scores(folder: Path) -> str | None:
    """Two checkpoints of one shape, over 64 MB and of one date; the head of the second is the first one's, negated."""
    scores = []
    for name, sign in (("first", 1), ("second", -1)):
        model = _dated(_embedded_copy(folder / name, sign))
        kept, n_cached = _scores(model, folder / "cache.sqlite")
        fresh, _ = _scores(model, None)
        if kept != fresh:
            return f"{name}: rewards {kept} of another model, {n_cached} of {len(TEXTS)} from the cache; its own are {fresh}"
        scores.append(kept)
    return None if scores[0] != scores[1] else "both models score alike"


def same_place(folder: Path) -> str | None:
    """New weights in the place of the old ones, of equal size and date."""
    from cda.run import file_fingerprint

    found = set()
    for content in (b"1", b"2"):
        _large(folder / "model" / "model.safetensors", content)
        found.add(file_fingerprint(folder / "model"))
    return None if len(found) == 2 else "one fingerprint for both"


def damaged_unnoticed(folder: Path) -> str | None:
    """A byte of a large file of a finished stage changes."""
    from cda.run import RunFolder, Stage

    run, stage = RunFolder(folder / "run"), Stage("train", {}, {})
    _large(run.begin(stage) / "adapter.safetensors", b"1")
    run.finish(stage, {}, 0.0)
    output = run.output_of("train")
    _large(run.stage("train") / "adapter.safetensors", b"2")
    if run.is_done(stage):
        return "the stage counts as whole"
    _large(run.begin(stage) / "adapter.safetensors", b"2")
    run.finish(stage, {}, 0.0)
    return "another adapter is the same input to the audit" if run.output_of("train") == output else None


def rows_of_before(folder: Path) -> str | None:
    """The data file of a folder is written anew within its date."""
    from cda.data.load import load_rows

    file = folder / "rows" / "train.jsonl"
    file.parent.mkdir()
    for text in ("first", "other"):
        file.write_text(json.dumps({"text": text}) + "\n", encoding="utf-8")
        os.utime(file, (0, 0))
        if (found := load_rows(str(file.parent))) != [{"text": text}]:
            return f"{found} in place of {text}"
    return None


def helper_of_a_function(folder: Path) -> str | None:
    """What a user's scorer imports from its own folder changes between two runs."""
    code = "import sys; from cda.scorers.own import own_scorer; print(own_scorer(sys.argv[1]).code.settings)"
    mine = folder / "mine.py"
    mine.write_text("from helper import VALUE\ndef score(prompts, responses): return [VALUE for _ in prompts]\n")
    found = set()
    for value in (1, 2):
        (folder / "helper.py").write_text(f"VALUE = {value}\n")
        found.add(_python(code, f"{mine}:score"))
    return None if len(found) == 2 else "its scores are taken for those of before"


def batches_of_before(folder: Path) -> str | None:
    """Each text alone, as the self-check advises where padding moves scores, after a run with batches."""
    n_cached = [_scores(_embedded_copy(folder / "model"), folder / "cache.sqlite", size)[1] for size in (None, 1)]
    return f"{n_cached[1]} scores of padded batches are given for texts scored alone" if n_cached[1] else None


def own_class(part: str, file: str, auto_map: Any) -> Callable[[Path], str | None]:
    """A model whose files name code of their own for a part, while Transformers knows its `model_type`."""

    def attack(folder: Path) -> str | None:
        from cda.errors import ModelError
        from cda.models.config import ModelSpec
        from cda.models.load import load_reward_model

        model = _embedded_copy(folder / "model")
        settings = json.loads((model / file).read_text("utf-8"))
        (model / file).write_text(json.dumps(settings | {"auto_map": auto_map}), "utf-8")
        (model / "own.py").write_text("raise SystemExit('never run without permission')")
        try:
            load_reward_model(ModelSpec(str(model), "fp32", 64))
        except ModelError as error:
            return None if "trust_remote_code" in str(error) else str(error)
        return f"its own {part} is passed over in silence"

    return attack


def enclosing_commit(folder: Path) -> str | None:
    """cda installed into an environment inside somebody's repository."""
    import cda

    theirs = _repository(folder)
    packages = folder / ".venv" / "lib" / "python3" / "site-packages"
    shutil.copytree(Path(cda.__file__).parent, packages / "cda", ignore=shutil.ignore_patterns("__pycache__"))
    found = _python("from cda.provenance import git_commit; print(git_commit())", path=packages)
    return f"the commit of their repository ({theirs[:8]}) as cda's" if theirs in found else None


def commit_by_environment(folder: Path) -> str | None:
    """cda run by a hook of another repository, where git's variables point there."""
    theirs = _repository(folder)
    found = _python("from cda.provenance import git_commit; print(git_commit())", GIT_DIR=str(folder / ".git"))
    return f"the commit of their repository ({theirs[:8]}) as cda's" if theirs in found else None


def model_behind_a_name(folder: Path) -> str | None:
    """The server of a judge changes the model behind its name between two runs that share a cache."""
    rows = [ROW, ROW | {"prompt": "Name another fruit."}]
    seen = []
    with _judge() as (url, served):
        for name, n in (("judge-2024-05-13", 1), ("judge-2024-08-06", 2)):
            served["model"] = name
            pairs = folder / f"{n}.jsonl"
            pairs.write_text("".join(json.dumps(row) + "\n" for row in rows[:n]), "utf-8")
            words = (
                "audit",
                "judge:judge",
                "--bias",
                "jargon",
                "--contrasts",
                pairs,
                "--quality",
                "none",
                "--triples",
                "none",
            )
            status, said = _cda(*words, "--out", folder / name, f"llm.base_url={url}")
            if status:
                return said[-300:]
            page = (folder / name / "report" / "report.html").read_text("utf-8")
            seen.append(
                {"terminal": said, "page": page, "result": (folder / name / "audit" / "audit.json").read_text()}
            )
    # The earlier model's answers are asked for again, so that only the terminal has to name it, and the result must not rest on it.
    old, new = "judge-2024-05-13", "judge-2024-08-06"
    silent = [where for where, text in seen[1].items() if new not in text or (old in text) != (where == "terminal")]
    return f"nothing said of it on {', '.join(silent)}" if silent else None


def planted_link(folder: Path) -> str | None:
    """A link where a file is about to be written leads to a file of the user's."""
    from cda.files.jsonl import write_json, write_jsonl, write_text

    victim = folder / "victim"
    for write in (
        lambda path: write_text(path, "x"),
        lambda path: write_json(path, 1),
        lambda path: write_jsonl(path, [1]),
    ):
        for link in (os.symlink, os.link):
            victim.write_text("theirs")
            with contextlib.suppress(FileNotFoundError):
                (folder / "report.md.partial").unlink()
            link(victim, folder / "report.md.partial")
            write(folder / "report.md")
            if victim.read_text() != "theirs":
                return f"written through a {'symbolic' if link is os.symlink else 'hard'} link"
            (folder / "report.md").unlink()
    return None


def readable_by_all(folder: Path) -> str | None:
    """Caches with SQLite's files beside them, and a study's key, under the usual umask."""
    from cda.llm.cache import Cache
    from cda.llm.protocol import Completion
    from cda.scorers.compared import TextScore
    from cda.scorers.engine import ScoreCache

    (folder / "rows.jsonl").write_text(
        "".join(json.dumps(ROW | {"prompt": f"Fruit {n}?"}) + "\n" for n in range(4)), "utf-8"
    )
    before = os.umask(0o022)
    try:
        with Cache(folder / "llm-cache.sqlite") as answers, ScoreCache(folder / "score-cache.sqlite") as scores:
            answers.put("key", Completion("text"))
            scores.keep("scope", [("text", TextScore(1.0))])
            found = {path: path.stat().st_mode for path in folder.glob("*.sqlite*") if path.suffix != ".lock"}
        status, said = _cda(
            "study", "export", folder / "rows.jsonl", folder / "study", "--bias", "jargon", "--attention", "0"
        )
    finally:
        os.umask(before)
    if status or len(found) != 6:
        return said[-300:] or f"only {[path.name for path in found]}"
    found[folder / "study" / "key.json"] = (folder / "study" / "key.json").stat().st_mode
    open_to_all = [path.name for path, mode in found.items() if mode & 0o077]
    return f"others may read {', '.join(open_to_all)}" if open_to_all else None


def another_s_database(folder: Path) -> str | None:
    """The cache's name leads to a database of another program."""
    from cda.errors import CdaError
    from cda.scorers.engine import ScoreCache

    with contextlib.closing(sqlite3.connect(folder / "theirs.sqlite")) as theirs:
        theirs.execute("CREATE TABLE theirs (value)")
    (folder / "score-cache.sqlite").symlink_to(folder / "theirs.sqlite")
    with contextlib.suppress(CdaError):
        ScoreCache(folder / "score-cache.sqlite").close()
    with contextlib.closing(sqlite3.connect(folder / "theirs.sqlite")) as theirs:
        tables = [name for (name,) in theirs.execute("SELECT name FROM sqlite_master")]
    return None if tables == ["theirs"] else f"it has the tables {tables} now"


ATTEMPTS: tuple[Attempt, ...] = (
    Attempt("wrong numbers", "two large checkpoints of one shape and date", shared_scores),
    Attempt("wrong numbers", "new weights of equal size and date in the same place", same_place),
    Attempt("wrong numbers", "a changed byte in a large file of a finished stage", damaged_unnoticed),
    Attempt("wrong numbers", "a folder's data file written anew within its date", rows_of_before),
    Attempt("wrong numbers", "a helper of an own scorer changed between runs", helper_of_a_function),
    Attempt("wrong numbers", "texts scored alone after a run with batches", batches_of_before),
    Attempt(
        "wrong numbers",
        "own code of a tokenizer with a known model_type",
        own_class("tokenizer", "tokenizer_config.json", {"AutoTokenizer": [None, "own.Tokenizer"]}),
    ),
    Attempt(
        "wrong numbers",
        "own code of a configuration with a known model_type",
        own_class("configuration", "config.json", {"AutoConfig": "own.Config"}),
    ),
    Attempt(
        "wrong numbers",
        "own code of a tokenizer that only config.json names",
        own_class("tokenizer", "config.json", {"AutoTokenizer": ["own.Tokenizer", None]}),
    ),
    Attempt("wrong numbers", "a repository around the environment", enclosing_commit),
    Attempt("wrong numbers", "a hook of another repository", commit_by_environment),
    Attempt("endpoint faults", "another model behind a judge's name", model_behind_a_name),
    Attempt("hostile text", "a planted link where a file is written", planted_link),
    Attempt("hostile text", "caches and keys that others may read", readable_by_all),
    Attempt("hostile text", "a cache's name that leads to another program's database", another_s_database),
)


def _embedded_copy(folder: Path, sign: int = 1) -> Path:
    """The embedded reward model (90 MB) in a folder, its score head times a sign."""
    from safetensors.numpy import load_file, save_file

    from cda.embedded.model import embedded_model_folder

    shutil.copytree(embedded_model_folder(), folder, dirs_exist_ok=True)
    if sign != 1:
        weights = load_file(folder / "model.safetensors")
        for name in ("classifier.weight", "classifier.bias"):
            weights[name] = sign * weights[name]
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def _dated(folder: Path) -> Path:
    for file in folder.rglob("*"):
        os.utime(file, (0, 0))
    return folder


def _scores(model: Path, cache: Path | None, batch_tokens: int | None = None) -> tuple[list[float], int]:
    """Rewards of the texts, rounded, and how many came from the cache."""
    from cda.models.config import ModelSpec
    from cda.models.load import load_reward_model
    from cda.records import user_prompt
    from cda.scorers.classifier import ClassifierScorer
    from cda.scorers.engine import ScoreCache, scope_of, score_texts

    loaded = load_reward_model(ModelSpec(str(model), "fp32", 64))
    texts = [(user_prompt(prompt), response) for prompt, response in TEXTS]
    with ScoreCache(cache) if cache else contextlib.nullcontext() as kept:
        scope = scope_of(loaded) if cache else None
        scores = score_texts(ClassifierScorer(loaded, batch_tokens), texts, cache=kept, scope=scope)
    return [round(reward, 4) for reward in scores.by_text.values()], scores.n_cached


def _large(file: Path, content: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("wb") as opened:
        opened.truncate(LARGE)
        opened.seek(LARGE // 2)
        opened.write(content)
    os.utime(file, (0, 0))


def _repository(folder: Path) -> str:
    """Makes somebody's repository with one commit; its hash."""
    who = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    for words in (("init", "-q"), ("commit", "-q", "--allow-empty", "-m", "theirs")):
        subprocess.run(["git", *who, *words], cwd=folder, check=True)
    said = subprocess.run(["git", "rev-parse", "HEAD"], cwd=folder, check=True, capture_output=True, text=True)
    return said.stdout.strip()


def _python(code: str, *words: str, path: Path | None = None, **environment: str) -> str:
    """What a fresh Python prints; `path` is searched first."""
    import cda

    found = str(path or Path(cda.__file__).parents[1])
    env = os.environ | {"PYTHONPATH": found, "PYTHONDONTWRITEBYTECODE": "1"} | environment
    said = subprocess.run([sys.executable, "-c", code, *words], env=env, capture_output=True, text=True, cwd="/")
    return said.stdout + said.stderr


def _cda(*words: object) -> tuple[int, str]:
    """A command in this process: its status and all that it said."""
    from typer.testing import CliRunner

    from cda.cli import app

    done = CliRunner().invoke(app, list(map(str, words)))
    return done.exit_code, done.output


@contextlib.contextmanager
def _judge() -> Iterator[tuple[str, dict[str, str]]]:
    """A server that prefers the first answer; its address, and the name of the model that it says has answered."""
    served = {"model": ""}

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            choice = {"message": {"content": "Better.\nVerdict: 1"}, "finish_reason": "stop"}
            payload = json.dumps({"model": served["model"], "choices": [choice]}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", served
    finally:
        server.shutdown()
        server.server_close()
