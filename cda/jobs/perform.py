"""The steps that every command repeats: plan, dry run, place, work, files, and the text for a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from shutil import rmtree
from typing import Generic, Protocol, TypeVar

from cda.errors import DataError, RunError
from cda.files.jsonl import write_json, write_jsonl, write_page
from cda.files.paths import free_place, place_for, refuse_link, unwritable, user_path, writing
from cda.jobs.given import from_python
from cda.launch import check_processes, is_main
from cda.llm.purse import FOLDER as FOLDER_OF_PURSE
from cda.recipe.load import LoadedRecipe
from cda.recipe.schema import Recipe
from cda.recipe.words import JUDGED, given_words
from cda.report.next_step import NextStep, as_called, of_model
from cda.resources.dry_run import stop_if_dry
from cda.resources.llm_access import Step, plan_lines
from cda.results.base import MadeBy, Saved, Shown, Told, save
from cda.run import RunFolder
from cda.scorers.own_code import bare_name

R = TypeVar("R", covariant=True)
PAGE = "report.html"
Form = Callable[[], str] | Saved | Iterable[object] | Mapping[str, object] | None
"""Content of a file: a text that is made when it is written, a result as JSON, rows as JSON lines; of a folder: its files by their
paths in it, each of rows or a JSON object; None: it is there already."""


@dataclass(frozen=True, slots=True)
class Made(Generic[R]):
    """What a job's work found; `files`: what it writes besides the page, Markdown and JSON of a result that has them; `remark`: a last
    line for a terminal, or all of its text if the result has no page."""

    result: R
    files: Mapping[str, Form] = field(default_factory=dict)
    remark: str | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    """Files and models as the call named them, by the names that the result has for them."""
    elsewhere: tuple[str, ...] = ()
    """Files that the work wrote outside the folder, where the call wanted them."""


class Place(Protocol):
    """Where the files of a job go."""

    def planned(self) -> list[str]:
        """Check it before anything is spent or written; its lines of a dry run. RunError: nothing can be written there."""

    def opened(self) -> AbstractContextManager[Path]:
        """The folder that the work may write into, made if missing; errors as of `planned`."""


@dataclass(frozen=True, slots=True)
class ResultsFolder:
    """A folder that the user named for results of one kind, known by their file; those of an earlier call are replaced."""

    path: str | Path
    made_by: MadeBy

    def planned(self) -> list[str]:
        return [f"report      {self._free() / PAGE}"]

    @contextmanager
    def opened(self) -> Iterator[Path]:
        out = self._free()
        try:
            out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._refused(error.strerror) from None
        try:
            yield out
        except BaseException:
            with suppress(OSError):
                out.rmdir()  # unless it holds something
            raise

    def _free(self) -> Path:
        command, file, *_ = self.made_by
        try:
            out = user_path(self.path)
            names = {path.name for path in out.iterdir()} - {FOLDER_OF_PURSE} if out.exists() else set()
            problem = unwritable(out)
        except (OSError, DataError) as error:  # DataError: no such home folder, or a name that no folder has
            raise self._refused(error.strerror if isinstance(error, OSError) else error) from None
        if names and not names & {file, f"{file}.partial"}:
            raise RunError(
                f"{out}: holds something other than results of `{command}`. Choose another folder with --out"
            )
        if problem and out.exists():
            raise RunError(f"{problem}. Choose another folder with --out")
        if problem:
            raise self._refused(problem)
        return out

    def _refused(self, why: object) -> RunError:
        return RunError(f"{self.path}: no folder for results can be made there ({why}). Choose another with --out")


@dataclass(frozen=True, slots=True)
class NewFolder:
    """A folder, new or empty, that appears whole or not at all; `holds`: what it will hold, in words."""

    path: Path
    holds: str = ""

    def planned(self) -> list[str]:
        with writing(self.path):
            is_file = self.path.exists() and not self.path.is_dir()
            if is_file or (self.path.exists() and any(self.path.iterdir())):
                what = "is a file" if is_file else "is not empty"
                raise RunError(f"{self.path}: {what}; nothing is written over. Give a new folder")
            problem = unwritable(self.path.absolute().parent)
        if problem:
            raise RunError(f"{problem}. Give a folder elsewhere")
        return [f"writes      {self.path}: {self.holds}"]

    @contextmanager
    def opened(self) -> Iterator[Path]:
        self.planned()
        folder = self.path.absolute()
        new = folder.parent / f".{folder.name}.partial"
        if new.is_symlink() or new.is_file():
            new.unlink()  # another's link is not followed
        rmtree(new, ignore_errors=True)  # left by a kill
        with writing(self.path):
            new.mkdir(parents=True)
        try:
            yield new
            new.replace(folder)  # also over an empty folder
        except BaseException:
            rmtree(new, ignore_errors=True)
            raise


@dataclass(frozen=True, slots=True)
class OneFile:
    """A file that the user named, in a folder with others; `more`: names of files that are written next to it. One that has to be
    `new` is not written over."""

    path: Path
    more: tuple[str, ...] = ()
    new: bool = False

    def planned(self) -> list[str]:
        if self.new and self.path.is_file():
            raise RunError(f"{self.path}: is there, and nothing is written over. Give another file with --out")
        return [f"writes      {', '.join([str(free_place(self.path)), *self.more])}"]

    @contextmanager
    def opened(self) -> Iterator[Path]:
        self.planned()
        yield place_for(self.path).parent


@dataclass(frozen=True, slots=True)
class LockedRun:
    """The folder of a run, which its stages fill and its plan names; nobody else works in it meanwhile."""

    run: RunFolder

    def planned(self) -> list[str]:
        return []

    @contextmanager
    def opened(self) -> Iterator[Path]:
        with self.run.lock():
            yield self.run.path


@dataclass(frozen=True, slots=True)
class Within:
    """A folder that another job holds, or none: of a job that writes no file, or whose work opens its place by itself."""

    path: Path = Path()

    def planned(self) -> list[str]:
        return []

    @contextmanager
    def opened(self) -> Iterator[Path]:
        yield self.path


@dataclass(frozen=True, slots=True)
class Job(Generic[R]):
    """A command whose inputs were read and checked, before anything is spent or written.

    Attributes:
        plan: Steps of a dry run, without the place and the cost.
        work: Does it, in the folder, and says what is to be written there.
        place: Where its files go.
        costs: Calls of LLMs, planned.
        unused: Settings, or options of the command, that have no effect on it.
    """

    plan: Callable[[], Sequence[str]]
    work: Callable[[Path], Made[R]]
    place: Place = Within()
    costs: Callable[[], Sequence[Step]] = list
    unused: tuple[str, ...] = ("biases", "name")


def perform(job: Job[R], loaded: LoadedRecipe | None, figures: str | None = None) -> R:
    """Do a job and write its files by the main process; a dry run ends with the plan. A result knows its folder, and what it says on a
    terminal. RunError: the place holds something else, or cannot be written."""

    def steps() -> list[str]:
        place = job.place.planned()  # first: a folder that holds something else is refused before any reading
        return [*job.plan(), *place, *plan_lines(job.costs())]

    if not isinstance(job.place, Within):  # copies that each take themselves for the main process would write one place
        check_processes()
    stop_if_dry(loaded, steps, job.unused)
    with job.place.opened() as folder:
        made = job.work(folder)
        if isinstance(made.result, Shown):
            _publish(made.result, folder, made, figures, loaded)
        else:
            for name, content in made.files.items() if is_main() else ():
                with writing(folder / name):
                    _write_form(folder / name, content)
            if isinstance(made.result, Told):
                made.result.tell(made.remark or "")
    return made.result


def _publish(result: Shown, folder: Path, made: Made[R], figures: str | None, loaded: LoadedRecipe | None) -> None:
    """Write a result by the main process, all its files together: its page, Markdown and JSON, more files and, with `figures` (svg,
    pdf), every figure. Then the result knows its folder, and its summary: its text, the remark, and what was written."""
    document, file = result.document(), result.made_by.file
    if loaded is not None and document.next is not None:
        document = replace(document, next=_kept(document.next, loaded.recipe))
    files: dict[str, Form] = {
        PAGE: document.page,
        f"{Path(file).stem}.md": document.markdown,
        **made.files,
        file: result,
    }
    names = [name for name, content in files.items() if content != {}]
    beside = ", ".join([str(folder / names[0]), *names[1:]])
    elsewhere = (f"./{file}" if Path(file).name == file else file for file in made.elsewhere)
    said = [*([made.remark] if made.remark else []), f"Written: {'; '.join([beside, *elsewhere])}"]
    if is_main():
        _write_together(folder, files)
        if figures is not None:
            said.append(document.write_figures(folder, figures))
    result.placed(folder, document.text(said, as_called(made.names, folder), from_python()))


def _kept(step: NextStep, recipe: Recipe) -> NextStep:
    """A next command on the same model with the settings by which it was read, asked and audited, unless the step says them."""
    sections = {"audit": (*JUDGED, "audit"), "train": ("model",)}.get(step.words[0] if step.words else "", JUDGED)
    model = bare_name(recipe.model.name_or_path)
    if not {model, *of_model(model)} & {*step.words} or model != recipe.model.name_or_path:
        return step
    said = {word.partition("=")[0].replace("--", "audit.") for word in step.words}
    seed = [] if recipe.seed == Recipe.model_fields["seed"].default else [f"seed={recipe.seed}"]
    more = [word for word in [*given_words(recipe, sections), *seed] if word.partition("=")[0] not in said]
    return replace(step, words=(*step.words, *more))


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
            write_page(file, content())


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
