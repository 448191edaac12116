"""Attempts of a user's own: texts and patterns that stall, settings that fail late, results that lie in each other's way."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from cda.biases import load_bias
from cda.data.queries import why_not
from cda.embedded.rules import RuleRewriter
from cda.features import FEATURE_NAMES, HEDGES, measure
from cda.languages import same_language
from cda.records import RewriteRequest, user_prompt
from cda.rewriting.fidelity import added_phrases
from evals.reliability.fault_runs import Attempt, Ended, run

LENGTH, LIMIT_S = 40_000, 5.0
"""Characters of a text, and processor time over it; what is linear takes a hundredth, what is quadratic in one sign more."""
PUMPS = (
    "a", "A", "1", "é", " ", "\t", "\n", "?", "!", "?!", ".", ":", ";", "-", "*", "_", "`", "```", "#", "1. ", "- ", "'", "[", "[a",
    "]", "{", "<", "|", "a ", "A ", "A. ", "a-", "a.", "A.", "**a", "as far as i ", "\n- ", "\n# ", "\u200d", "\U0001f600", "\u00a0",
)  # fmt: skip
SCORER = "def reward(prompts, responses):\n    return [float(len(one)) for one in responses]\n"
PAIRS = "id,prompt,base,perturbed\n" + "".join(
    f"{n},What is {n}?,It is {n}.,It is utilized as {n}.\n" for n in range(12)
)
BIAS = "name: mine\ndescription: d\nquestion: q?\nkeep: [a]\n"


class _LateError(Exception):
    """The time is over."""


@contextmanager
def _limited() -> Iterator[None]:
    def ring(*_: object) -> None:
        raise _LateError

    before = signal.signal(signal.SIGVTALRM, ring)
    signal.setitimer(signal.ITIMER_VIRTUAL, LIMIT_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _stalled(name: str, work: Callable[[str], object]) -> str | None:
    """The first text over which a function of a text takes longer than LIMIT_S."""
    for pump in PUMPS:
        for before, behind in (("", ""), ("a", "x"), ("- ", " "), ("", "\n")):
            try:
                with _limited():
                    work(before + pump * (LENGTH // len(pump)) + behind)
            except _LateError:
                return f"{name} takes more than {LIMIT_S:g} s over {before!r} + {pump!r} × {LENGTH // len(pump)} + {behind!r}"
    return None


def _first(found: Iterable[str | None]) -> str | None:
    return next(filter(None, found), None)


def _features(_: Path) -> str | None:
    phrases = (*HEDGES, " so ", "a  b", "by a  ")
    pattern = r"\b\w+ing\b"
    return _first(
        _stalled(name, partial(measure, feature=name, markers=phrases, pattern=pattern)) for name in FEATURE_NAMES
    )


def _readers(_: Path) -> str | None:
    readers: dict[str, Callable[[str], object]] = {
        "the language": lambda text: same_language(text, "Plain."),
        "the filter of requests": lambda text: why_not(text),
        "the search for added phrases": lambda text: added_phrases(["a"], [text]),
    }
    return _first(_stalled(name, reader) for name, reader in readers.items())


def _rules(_: Path) -> str | None:
    bias, rewrites = load_bias("sycophancy"), RuleRewriter()

    def rewrite(text: str) -> object:
        both = [RewriteRequest(user_prompt("p"), text, direction) for direction in ("add", "remove")]
        return rewrites.rewrite(both, bias)

    return _stalled("the embedded rules", rewrite)


def _cda(folder: Path, *words: str, **files: str) -> Ended:
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_text(content, encoding="utf-8")
    return run(words, cwd=folder)


def _audit(folder: Path, *words: str, **files: str) -> Ended:
    given = {"rm__py": SCORER, "pairs__csv": PAIRS} | files
    asked = ["audit", "rm.py:reward", "--contrasts", "pairs.csv", "--quality", "none", "--triples", "none"]
    return _cda(folder, *asked, *words, **given)


def _refused(words: Sequence[str], *names: str, **files: str) -> Callable[[Path], str | None]:
    """A command that has to end in a message with these names in it."""

    def attack(folder: Path) -> str | None:
        ended = _cda(folder, *words, **files)
        missing = [name for name in names if name not in ended.said]
        return (
            None if ended.refused and not missing else f"status {ended.status}, without {missing}: {ended.said[-300:]}"
        )

    return attack


def _slow_pattern(folder: Path) -> str | None:
    own = "instructions: {add: a, remove: r}\nmeasure: {feature: pattern_count, present_above: 0}\npattern: '(?:a|aa)+$'\n"
    long = PAIRS + f"90,What?,{'a' * 60_000}b,{'a' * 50_000}c\n"
    ended = _audit(folder, "--bias", "mine.yaml", pairs__csv=long, mine__yaml=BIAS + own)
    named = "mine.yaml: pattern: '(?:a|aa)+$' was stopped" in ended.said
    return None if ended.refused and named else ended.said[-300:]


def _wrong_votes(votes: str) -> Callable[[Path], str | None]:
    def attack(folder: Path) -> str | None:
        if (first := _audit(folder, "--bias", "jargon")).status:
            return f"the audit itself failed: {first.said[-300:]}"
        result = folder / "runs" / "audit-rm.py-reward" / "audit" / "audit.json"
        before = result.read_bytes()
        ended = _audit(folder, "--bias", "jargon", "--votes", "votes.csv", votes__csv=votes)
        if not ended.refused or "votes.csv" not in ended.said:
            return f"not refused: {ended.said[-300:]}"
        return None if result.is_file() and result.read_bytes() == before else "the finished audit is gone"

    return attack


def _quality(folder: Path) -> str | None:
    row = {"prompt": "p", "chosen": "a longer answer", "rejected": "short"}
    for name in "abc":
        ended = _cda(
            folder, "quality", "rm.py:reward", f"{name}.jsonl", rm__py=SCORER, **{f"{name}__jsonl": json.dumps(row)}
        )
        if ended.status:
            return ended.said[-300:]
    n = len(list(folder.glob("runs/*/quality.json")))
    return None if n == 3 else f"three files left {n} results"


def _left_behind(folder: Path) -> str | None:
    broken = "def reward(prompts, responses):\n    raise ValueError('no')\n"
    _audit(folder, "--bias", "jargon", rm__py=broken)
    left = [path.name for path in (folder / "runs").glob(".*")]
    return f"left behind: {', '.join(left)}" if left else None


def _preset(folder: Path) -> str | None:
    ended = _cda(folder, "train", "jargon", "model.name_or_path=my-org/my-model", "--dry-run")
    if "learning_rate: 0.0005" in ended.said or "learning rate 0.0005" in ended.said:
        return "another model is trained at the embedded model's learning rate"
    return None if "made for embedded, not for my-org/my-model" in ended.said else f"not said: {ended.said[-300:]}"


def _report(folder: Path) -> str | None:
    _audit(folder, "--bias", "jargon")
    ended = _cda(folder, "report", "runs/audit-rm.py-reward")
    return None if ended.status == 0 else ended.said[-300:]


_TRAIN = ("train", "jargon", "--dry-run")
ATTEMPTS: tuple[Attempt, ...] = (
    Attempt("limits", "texts of one sign: every feature", _features),
    Attempt("limits", "texts of one sign: language, requests and added phrases", _readers),
    Attempt("limits", "texts of one sign: embedded rules", _rules),
    Attempt("limits", "a bias file's pattern with two ways through each text", _slow_pattern),
    *(
        Attempt("commands", f"{setting} in a dry run", _refused([*_TRAIN, setting], *names))
        for setting, names in (
            ("train.report_to=tensorbord", ("Did you mean 'tensorboard'",)),
            ("train.metric_for_best_model=eval_acuracy", ("Did you mean 'eval_accuracy'",)),
            ("train.gradient_accumulation_steps=1.5", ("whole number",)),
            ("train.dataloader_num_workers=-1", ("num_workers",)),
        )
    ),
    Attempt("commands", "a schedule without its argument in a dry run", _refused([*_TRAIN, "train.lr_scheduler_type=cosine_with_min_lr"], "min_lr")),
    Attempt("commands", "votes of which none can be read, after a finished audit", _wrong_votes("id,vote\n1,A\n2,B\n")),
    Attempt("commands", "votes of other contrasts, after a finished audit", _wrong_votes("id,vote\n91,base\n92,tie\n")),
    Attempt("commands", "quality of three files, one after another", _quality),
    Attempt("commands", "an audit that fails leaves no hidden file", _left_behind),
    Attempt("commands", "a recipe's preset for another model", _preset),
    Attempt("commands", "a preset of another model than the recipe's", _refused(["train", "faithful", "model=gemma-2b", "--dry-run"], "model=gemma-2b")),
    Attempt("commands", "a misspelt model", _refused(["audit", "embeded"], "Did you mean 'embedded'")),
    Attempt("commands", "a misspelt file", _refused(["quality", "embedded", "pairs.jsnl"], "Did you mean 'pairs.jsonl'", pairs__jsonl="{}\n")),
    Attempt("commands", "an incomplete bias file", _refused(["train", "mine.yaml"], "read as a bias file", "instructions: missing", mine__yaml=BIAS)),
    Attempt("commands", "the report of a run's folder", _report),
)  # fmt: skip
