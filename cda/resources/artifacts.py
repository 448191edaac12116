"""Artifacts of a run: rows as JSON, earlier results, counts of stages, and output folders."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from cda.errors import CdaError, DataError, RunError
from cda.files.jsonl import read_jsonl
from cda.files.paths import is_a_file, is_there, user_path
from cda.records import LabelledPair, Message, Pair, Prompt, TrainingExample, TrainingPair
from cda.results.base import Result
from cda.results.stages import LabelCounts, SynthesizeCounts, TrainCounts, TrainingStages
from cda.run import RunFolder, fingerprint
from cda.scorers.kinds import scorer_kind


def prompt_row(prompt: Prompt) -> list[dict[str, str]]:
    return [{"role": message.role, "content": message.content} for message in prompt]


def pair_row(pair: Pair) -> dict[str, Any]:
    """A pair in TRL's conversational preference format, so that artifacts load anywhere."""
    return {
        "prompt": prompt_row(pair.prompt),
        "chosen": [{"role": "assistant", "content": pair.chosen}],
        "rejected": [{"role": "assistant", "content": pair.rejected}],
    }


def labelled_row(row: LabelledPair) -> dict[str, object]:
    return {"id": row.pair.id, "split": row.split, "labels": row.labels, **pair_row(row.pair)}


def training_row(row: TrainingPair) -> dict[str, object]:
    taught = {name: getattr(row.example, name) for name in ("target", "margin", "weight")}
    return {name: getattr(row, name) for name in ("kind", "bias", "split", "source_id")} | taught | pair_row(row.pair)


def read_labelled(path: Path) -> Iterator[LabelledPair]:
    for row in read_jsonl(path):
        yield LabelledPair(_pair(row), row["split"], row["labels"])


def read_training(path: Path) -> Iterator[TrainingPair]:
    for row in read_jsonl(path):
        example = TrainingExample(_pair(row), row["target"], row["margin"], row["weight"])
        yield TrainingPair(example, row["split"], row["kind"], row["bias"], row["source_id"])


def _pair(row: dict[str, Any]) -> Pair:
    prompt = tuple(Message(turn["role"], turn["content"]) for turn in row["prompt"])
    return Pair(prompt, row["chosen"][0]["content"], row["rejected"][0]["content"])


@contextmanager
def of_this_version(path: Path, again: str = "cda audit") -> Iterator[None]:
    """Context for work on a saved result: a value that this version does not write so is a DataError that names the file and the
    command that makes it `again`; and the place in the source that needs it, which tells a bug from a changed file.
    """
    try:
        yield
    except (CdaError, OSError, MemoryError):
        raise
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        missing = f"no {error}" if isinstance(error, KeyError) else f"{type(error).__name__}: {str(error)[:200]}"
        raise DataError(
            f"{path}: cannot be read as this version of cda writes it ({missing}; {Path(place.filename).name}:{place.lineno}). "
            f"It is of another version, or was changed: run `{again}` again. If neither is so, please report this"
        ) from error


R = TypeVar("R", bound=Result)


def training_stages(run_folder: RunFolder) -> TrainingStages:
    """Counts of the stages that lead to the run's training, as far as they are finished; errors as of `stage_counts`."""
    return TrainingStages(
        label=stage_counts(run_folder, "label", LabelCounts),
        synthesize=stage_counts(run_folder, "synthesize", SynthesizeCounts),
        train=stage_counts(run_folder, "train", TrainCounts),
    )


def stage_counts(run_folder: RunFolder, name: str, kind: type[R]) -> R | None:
    """Counts of one stage; None if it has not finished. RunError: it was made by another version of cda."""
    record = run_folder.record(name)
    if not record:
        return None
    try:
        # Requests to LLMs are counted for every stage alike.
        return kind.model_validate({key: count for key, count in record.counts.items() if key != "llm"})
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        place = ".".join(map(str, problem["loc"]))
        raise RunError(
            f"{run_folder.stage(name) / 'stage.json'}: its counts are not as this version of cda writes them ({place}: "
            f"{problem['msg']}). Run `cda {name}` with its recipe again"
        ) from None


_LONGEST_WORD = 24


def shown_path(given: str | Path) -> str:
    """A file or folder as it stands in results: as it was given, but of a path from the root, home or above its end alone.

    Hub ids and other names stay as they are.

    >>> shown_path("org/model"), shown_path("runs/a"), shown_path("/home/me/pairs.jsonl"), shown_path("/x/run/train/adapter")
    ('org/model', 'runs/a', 'pairs.jsonl', 'run/train/adapter')
    """
    text = str(given)
    path = user_path(text)
    if not (path.is_absolute() or text.startswith("~") or ".." in path.parts):
        return text
    known = path.resolve()
    # The adapter of a run is named `adapter` in every run.
    return "/".join(known.parts[-3:]) if known.parent.name == "train" else known.name


def shown_target(target: str) -> str:
    """A model's name with its kind, as given, without paths of this machine.

    >>> shown_target("dpo:/m/policy,org/base"), shown_target("/home/me/mine.py:reward"), shown_target("judge:org/m")
    ('dpo:policy,org/base', 'mine.py:reward', 'judge:org/m')
    """
    kind = scorer_kind(target)
    bare = kind.bare(target)
    return target.removesuffix(bare) + kind.written(bare, shown_path)


def as_given(*given: object) -> dict[str, str]:
    """Files and models as a call named them (None left out), by the names that results have for them."""
    known = [str(each) for each in given if each is not None]
    return {shown(each): each for each in known for shown in (shown_path, shown_target)}


def folder_suffix(target: str, inputs: Mapping[str, object], settings: Sequence[str] = ()) -> str:
    """The end of a folder's name, after the model: further inputs (None left out), each after its word, and a fingerprint of
    them and `settings`, words of the command line; empty if nothing is left."""
    given = {
        word: value if isinstance(value, list) else str(value) for word, value in inputs.items() if value is not None
    }
    if not given and not settings:
        return ""
    parts = [f"-{word}-{_short(value)}" for word, value in given.items()]
    return f"{''.join(parts)}-{fingerprint([target, given, *([sorted(settings)] if settings else [])])[:6]}"


def _short(value: str | list[object]) -> str:
    """A file or folder by its last part, anything else as a whole; as it can stand in a name."""
    if isinstance(value, list):
        return "-".join(_short(str(file)) for file in value)[:_LONGEST_WORD].strip("-.")
    path = Path(value)
    known = (path.stem if is_a_file(path) else path.name) if is_there(path) else value
    return re.sub(r"[^A-Za-z0-9._-]+", "-", known).strip("-.")[-_LONGEST_WORD:] or "x"
