"""Dry runs: a command checks everything that it reads, and ends before anything is spent or written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

import yaml
from pydantic import JsonValue

from cda.recipe.load import LoadedRecipe
from cda.results.commands import Plan

NOTHING_DONE = "Dry run: nothing was done."
_dry: ContextVar[tuple[bool, Mapping[str, JsonValue]] | None] = ContextVar("dry", default=None)
"""True if all settings are wanted, and the command's options, for one without settings of a recipe; None: this is no dry run."""
_notes: ContextVar[list[str] | None] = ContextVar("notes", default=None)
"""What only the work itself needs; None: it is needed now."""


class _Planned(Exception):  # noqa: N818 (no error: it ends the work)
    """The end of a dry run."""

    def __init__(self, plan: Plan, text: str) -> None:
        super().__init__()
        self.plan, self.text = plan, text


@contextmanager
def noting() -> Iterator[list[str]]:
    """Plan inside: keys that are missing, and servers that are not asked, become lines of the plan."""
    notes: list[str] = []
    token = _notes.set(notes)
    try:
        yield notes
    finally:
        _notes.reset(token)


def only_noted(problem: str) -> bool:
    """True in a plan, which notes this once as what the work itself needs."""
    if (notes := _notes.get()) is None:
        return False
    line = f"note        {problem}"
    notes += [] if line in notes else [line]
    return True


@contextmanager
def planning(full: bool, options: Mapping[str, JsonValue], show: Callable[[Plan, str], None]) -> Iterator[None]:
    """Make what runs inside a dry run: it ends at its first `stop_if_dry`, and its plan and the plan's text are shown."""
    token = _dry.set((full, options))
    try:
        with noting():
            yield
    except _Planned as planned:
        show(planned.plan, f"{planned.text}\n\n{NOTHING_DONE}")
    finally:
        _dry.reset(token)


def planned(work: Callable[[], object], full: bool = False) -> Plan:
    """The plan of what some work would do."""
    plans: list[Plan] = []
    with planning(full, {}, lambda plan, _: plans.append(plan)):
        work()
    return plans[0]


def stop_if_dry(loaded: LoadedRecipe | None, lines: Callable[[], list[str]], unused: tuple[str, ...] = ()) -> None:
    """End a dry run here, where everything is checked; `lines` makes the steps of its plan. Otherwise do nothing. Without settings
    of a recipe (None), the command's own options are shown. Sections or options that are `unused` have no effect here."""
    if (dry := _dry.get()) is None:
        return
    full, given = dry
    steps = [*lines(), *(_notes.get() or ())]
    if loaded is not None:
        plan = plan_of(loaded, steps, full, unused)
        raise _Planned(plan, plan_text(plan, full))
    options = {name: value for name, value in given.items() if name not in unused}
    plan = Plan(settings=options, lines=tuple(steps))
    raise _Planned(plan, plan_text(plan, full, "options"))


def plan_of(loaded: LoadedRecipe, lines: list[str], full: bool, unused: tuple[str, ...] = ()) -> Plan:
    """The plan of settings, with those that differ from the defaults, or all of them."""
    recipe = loaded.recipe
    settings = recipe.model_dump(mode="json", exclude_none=full, exclude_defaults=not full)
    for section in () if full else (*unused, *(("data",) if loaded.only_audit else ())):
        settings.pop(section, None)
    return Plan(settings=settings, lines=tuple(lines))


def plan_text(plan: Plan, full: bool, what: str = "settings") -> str:
    """Settings, or `what` else the command goes by, and the steps after an empty line."""
    head = "" if full else f"# {what} that differ from the defaults (--full prints all)\n"
    if not plan.settings:
        return "\n".join([f"# all {what} are as by default{'' if full else ' (--full prints them)'}", "", *plan.lines])
    settings = yaml.safe_dump(plan.settings, sort_keys=False, allow_unicode=True).rstrip()
    return "\n".join([f"{head}{settings}", "", *plan.lines])
