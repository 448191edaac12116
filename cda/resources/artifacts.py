"""Artifacts of a run: rows as JSON, earlier results, counts of stages, output folders and figures."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from typing import Any, TypeVar

from pydantic import ValidationError

from cda.errors import CdaError, DataError, RecipeError, RunError
from cda.files.jsonl import read_jsonl, write_json, write_jsonl, write_text
from cda.files.paths import is_a_file, is_there, refuse_link, unwritable, user_path
from cda.launch import is_main
from cda.llm.purse import FOLDER as FOLDER_OF_PURSE
from cda.records import LabelledPair, Message, Pair, Prompt, TrainingExample, TrainingPair
from cda.results.base import Result, Saved, save
from cda.results.shown import Shown
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


def free_folder(given: str | Path, result: str, command: str) -> Path:
    """The folder for results that a user named, as `out_folder` checks it before it is made; RunError likewise."""
    try:
        out = user_path(given)
        names = {path.name for path in out.iterdir()} - {FOLDER_OF_PURSE} if out.exists() else set()
        problem = unwritable(out)
    except (OSError, DataError) as error:  # DataError: no such home folder, or a name that no folder has
        reason = error.strerror if isinstance(error, OSError) else error
        raise RunError(
            f"{given}: no folder for results can be made there ({reason}). Choose another with --out"
        ) from None
    if names and not names & {result, f"{result}.partial"}:
        raise RunError(f"{out}: holds something other than results of `{command}`. Choose another folder with --out")
    if problem:
        where = problem if out.exists() else f"{given}: no folder for results can be made there ({problem})"
        raise RunError(f"{where}. Choose another folder with --out")
    return out


def out_folder(given: str | Path, result: str, command: str) -> Path:
    """The folder that a user named, created if missing; RunError if it is a file, holds something else, or cannot be written.
    Earlier files of the same command, known by the file `result`, are replaced."""
    out = free_folder(given, result, command)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(
            f"{given}: no folder for results can be made there ({error.strerror}). Choose another with --out"
        ) from None
    return out


PAGE = "report.html"
_FIGURES = ("svg", "pdf")


def check_form(form: str | None) -> None:
    """Raise RecipeError for a format in which no figures are written; None: they are not to be written."""
    if form is not None and form not in _FIGURES:
        raise RecipeError([f"--figures {form}: figures are written as {' or '.join(_FIGURES)}"])


Form = Callable[[], str] | Saved | Iterable[object] | Mapping[str, object] | None
"""Content of a file: a text that is made when it is written, a result as JSON, rows as JSON lines; of a folder: its files by their
paths in it, each of rows or a JSON object; None: it is there already."""


def _write_form(file: Path, content: Form) -> None:
    match content:
        case None:
            return
        case Saved():
            save(content, file)
        case Mapping():
            for path, inner in content.items():
                (file / path).parent.mkdir(parents=True, exist_ok=True)
                if isinstance(inner, list):
                    write_jsonl(file / path, inner)
                else:
                    write_json(file / path, inner)
        case Iterable():
            write_jsonl(file, content)
        case _:
            write_text(file, content())


def _write_together(folder: Path, files: Mapping[str, Form]) -> None:
    """Write the files of a result. All are built before the first takes its place, so that a full disk, or a kill while they are
    written, leaves those of an earlier call as they were; the result comes last, since the others are known by it."""
    result = next(name for name, content in files.items() if isinstance(content, Saved))
    new = folder / f"{result}.partial"
    _remove(new)  # a kill left it
    new.mkdir()
    try:
        for name, content in files.items():
            _write_form(new / name, content)
        for name in sorted(files, key=lambda name: name == result):
            if isinstance(files[name], Mapping):
                _remove(folder / name)  # of an earlier call, perhaps on other files
            if (new / name).exists():
                (new / name).replace(folder / name)
    finally:
        _remove(new)


def _remove(path: Path) -> None:
    """Remove a file or folder, if it is there; RunError for a link."""
    refuse_link(path)
    if path.is_dir():
        rmtree(path)
    else:
        path.unlink(missing_ok=True)


def publish(
    result: Shown, folder: Path, more: Mapping[str, Form], figures: str | None, remark: str | None = None
) -> None:
    """Write a result by the main process, all its files together: its page, Markdown and JSON, `more` files and, with `figures` (svg,
    pdf), every figure. Then the result knows its folder, and its summary: its text, a `remark`, and what was written."""
    document, file = result.document(), result.made_by.file
    files: dict[str, Form] = {PAGE: document.page, f"{Path(file).stem}.md": document.markdown, **more, file: result}
    names = [name for name, content in files.items() if content != {}]
    said = [document.text(), *([remark] if remark else [])]
    said.append(f"Written: {', '.join([str(folder / names[0]), *names[1:]])}")
    if is_main():
        _write_together(folder, files)
        if figures is not None:
            said.append(document.write_figures(folder, figures))
    result.placed(folder, "\n".join(said))


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
