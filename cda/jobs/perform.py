"""The steps that every job with a folder of results repeats: plan, dry run, folder, work, files, and the text for a terminal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from cda.recipe.load import LoadedRecipe
from cda.resources.artifacts import PAGE, Form, free_folder, out_folder, publish
from cda.resources.dry_run import stop_if_dry
from cda.resources.llm_access import Step, plan_lines
from cda.results.shown import Shown

R = TypeVar("R", bound=Shown)


@dataclass(frozen=True, slots=True)
class Made(Generic[R]):
    """What a job's work found; `files`: what it writes besides the page, Markdown and JSON; `remark`: a last line for a terminal."""

    result: R
    files: Mapping[str, Form] = field(default_factory=dict)
    remark: str | None = None


@dataclass(frozen=True, slots=True)
class Job(Generic[R]):
    """A command whose inputs were read and checked, before anything is spent or written.

    Attributes:
        kind: Its result, which names the command, and the file by which its folder is known.
        plan: Steps of a dry run, without the cost and the report.
        work: Does it, in the folder, and says what is to be written there.
        costs: Calls of LLMs, planned.
        unused: Settings, or options of the command, that have no effect on it.
    """

    kind: type[R]
    plan: Callable[[], list[str]]
    work: Callable[[Path], Made[R]]
    costs: Callable[[], Sequence[Step]] = list
    unused: tuple[str, ...] = ("biases", "name")


def perform(job: Job[R], loaded: LoadedRecipe | None, folder: str | Path, figures: str | None = None) -> R:
    """Do a job and write its files by the main process; a dry run ends with the plan. The result knows its folder, and what it says
    on a terminal. RunError: the folder holds something else, or cannot be written."""
    command, file, *_ = job.kind.made_by

    def steps() -> list[str]:
        out = free_folder(folder, file, command)
        return [*job.plan(), f"report      {out / PAGE}", *plan_lines(job.costs())]

    stop_if_dry(loaded, steps, job.unused)
    out = out_folder(folder, file, command)
    made = job.work(out)
    publish(made.result, out, made.files, figures, made.remark)
    return made.result
