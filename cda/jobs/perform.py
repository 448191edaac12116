"""The steps that every job with a folder of results repeats: plan, dry run, folder, work, files, and the text for a terminal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from cda.recipe.load import LoadedRecipe
from cda.report.document import Document
from cda.resources.artifacts import Form, free_folder, out_folder, publish
from cda.resources.dry_run import stop_if_dry
from cda.resources.llm_access import Step, plan_lines
from cda.results.base import Saved

R = TypeVar("R", bound=Saved)


@dataclass(frozen=True, slots=True)
class Made(Generic[R]):
    """What a job's work found, and the files that hold it; `text`: for a terminal, if it is not that of the document."""

    result: R
    document: Document | None
    files: Mapping[str, Form]
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Job(Generic[R]):
    """A command whose inputs were read and checked, before anything is spent or written.

    Attributes:
        command: Its words, such as `cda data`.
        file: The name of its result, by which its folder is known.
        plan: Steps of a dry run, without the cost; gets the folder for the results.
        work: Does it, in the folder, and says what is to be written there.
        costs: Calls of LLMs, planned.
        unused: Settings, or options of the command, that have no effect on it.
    """

    command: str
    file: str
    plan: Callable[[Path], list[str]]
    work: Callable[[Path], Made[R]]
    costs: Callable[[], Sequence[Step]] = list
    unused: tuple[str, ...] = ("biases", "name")


class Done(NamedTuple, Generic[R]):
    """A job's result, the folder that holds it, and the text for a terminal."""

    result: R
    folder: Path
    summary: str


def perform(job: Job[R], loaded: LoadedRecipe | None, folder: str | Path, figures: str | None = None) -> Done[R]:
    """Do a job and write its files by the main process; a dry run ends with the plan. RunError: the folder holds something else, or
    cannot be written."""

    def steps() -> list[str]:
        return [*job.plan(free_folder(folder, job.file, job.command)), *plan_lines(job.costs())]

    stop_if_dry(loaded, steps, job.unused)
    out = out_folder(folder, job.file, job.command)
    made = job.work(out)
    return Done(made.result, out, publish(made.document, out, made.files, figures, made.text))
