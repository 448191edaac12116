"""Methods that every result of the API shares: shown, saved, drawn, and as a frame of all its estimates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, PrivateAttr

from cda.errors import DataError
from cda.files.jsonl import write_page
from cda.files.paths import place_for, user_path, writing
from cda.results.base import NOT_TRAINED, Estimate, Missing, Saved, Test, save

if TYPE_CHECKING:
    from pandas import DataFrame

_MOMENTS = ("before", "after", "change", "unpaired")


def to_frame(result: Saved) -> DataFrame:
    """Every estimate of a result as a row of a pandas frame.

    Columns: measure, of, scoring (before, after, change, unpaired or empty), value, low, high (95% interval), n, n_prompts, unit,
    method, p_value and p_holm of a change, and reason if there is no value.

    Raises:
        DataError: pandas is not installed.
    """
    try:
        import pandas
    except ImportError:
        raise DataError("to_frame needs pandas: pip install 'cda-debias[pandas]'") from None
    return pandas.DataFrame(list(_rows(result)))


def _rows(result: BaseModel) -> Iterator[dict[str, object]]:
    """Every estimate of a result, in its order; `measure` is a field of it, `of` the parts within parts, joined by dots.

    Values that need a training are left out if there was none.
    """
    for path, number, test in _walked(result, ()):
        if number == NOT_TRAINED:
            continue
        moment = path[-1] if path[-1] in _MOMENTS else ""
        of_change = test if moment == "change" else None
        yield {
            "measure": path[0],
            "of": ".".join(path[1:-1] if moment else path[1:]),
            "scoring": moment,
            **dict.fromkeys(Estimate.model_fields),
            "p_value": None if of_change is None else of_change.p_value,
            "p_holm": None if of_change is None else of_change.p_holm,
            "reason": None,
            **number.model_dump(),
        }


def _walked(value: object, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Estimate | Missing, Test | None]]:
    if isinstance(value, Estimate | Missing):
        yield path, value, None
    elif isinstance(value, BaseModel):
        test = getattr(value, "test", None)
        for name in type(value).model_fields:
            for inner, number, own in _walked(getattr(value, name), (*path, name)):
                of_this = inner == (*path, "change") and isinstance(test, Test)
                yield inner, number, test if of_this else own
    else:
        parts: Iterable[tuple[object, object]] = value.items() if isinstance(value, Mapping) else ()
        if isinstance(value, tuple | list):
            parts = enumerate(value)
        for key, part in parts:
            yield from _walked(part, (*path, str(key)))


class Shown(Saved):
    """Methods that every result of the API has. `str()` returns the output of the command."""

    _folder: Path | None = PrivateAttr(default=None)
    _summary: str | None = PrivateAttr(default=None)

    @property
    def folder(self) -> Path | None:
        """Output folder of the call; None if the result was read from a file."""
        return self._folder

    @property
    def summary(self) -> str:
        """Output of the command: `str()` of the result, and the files that the call wrote."""
        return self._summary or str(self)

    def save(self, path: str | Path) -> None:
        """Write it as JSON; `cda.load` reads it again.

        Raises:
            RunError: The file cannot be written.
        """
        file = place_for(user_path(path))
        with writing(file):
            save(self, file)

    def report(self, path: str | Path) -> None:
        """Write the report: a page (.html) or Markdown (.md), by the ending of the path.

        Raises:
            DataError: The path has another ending, or this result has no report.
            RunError: The file cannot be written.
        """
        if not hasattr(self, "_page"):
            raise DataError(f"{path}: {type(self).__name__} has no report; str() of it says all that there is")
        drawn_by = {".html": "_page", ".md": "_markdown"}
        file = user_path(path)
        if file.suffix not in drawn_by:
            raise DataError(f"{path}: a report is a page (.html) or Markdown (.md)")
        page = getattr(self, drawn_by[file.suffix])()
        with writing(place_for(file)):
            write_page(file, page)

    def to_frame(self) -> DataFrame:
        """Every estimate as a row of a pandas frame; see `cda.api.shown.to_frame`."""
        return to_frame(self)
