"""Dry runs: a command checks everything that it reads, and ends before anything is spent or written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import yaml

from cda.recipe.load import LoadedRecipe
from cda.results.commands import Plan

_IN_WORDS = "# settings that differ from the defaults (--full prints all)\n"
_full: ContextVar[bool | None] = ContextVar("full", default=None)
"""All settings are wanted; None: this is no dry run."""


class _Planned(Exception):  # noqa: N818 (no error: it ends the work)
    """The end of a dry run."""

    def __init__(self, plan: Plan, text: str) -> None:
        super().__init__()
        self.plan, self.text = plan, text


@contextmanager
def planning(full: bool, show: Callable[[Plan, str], None]) -> Iterator[None]:
    """Make what runs inside a dry run: it ends at its first `stop_if_dry`, and its plan and the plan's text are shown."""
    token = _full.set(full)
    try:
        yield
    except _Planned as planned:
        show(planned.plan, planned.text)
    finally:
        _full.reset(token)


def stop_if_dry(loaded: LoadedRecipe, lines: Callable[[], list[str]], unused: tuple[str, ...] = ()) -> None:
    """End a dry run here, where everything is checked; `lines` makes the steps of its plan. Otherwise do nothing. Sections that
    are `unused` have no effect on the command."""
    if (full := _full.get()) is not None:
        plan = plan_of(loaded, lines(), full, unused)
        raise _Planned(plan, plan_text(plan, full))


def plan_of(loaded: LoadedRecipe, lines: list[str], full: bool, unused: tuple[str, ...] = ()) -> Plan:
    """The plan of settings, with those that differ from the defaults, or all of them."""
    recipe = loaded.recipe
    settings = recipe.model_dump(mode="json", exclude_none=full, exclude_defaults=not full)
    for section in () if full else (*unused, *(("data",) if loaded.only_audit else ())):
        settings.pop(section, None)
    return Plan(settings=settings, lines=tuple(lines))


def plan_text(plan: Plan, full: bool) -> str:
    settings = yaml.safe_dump(plan.settings, sort_keys=False, allow_unicode=True).rstrip()
    return "\n".join([f"{'' if full else _IN_WORDS}{settings}", "", *plan.lines])
