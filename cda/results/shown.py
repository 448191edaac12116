"""Results that commands make: how each is shown, saved, and drawn as a page."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from pydantic import PrivateAttr

from cda.errors import DataError
from cda.files.jsonl import write_page
from cda.files.paths import place_for, user_path, writing
from cda.results.base import Saved, save

if TYPE_CHECKING:
    from pandas import DataFrame

    from cda.numbers.views import Numbers
    from cda.report.document import Document


class MadeBy(NamedTuple):
    """How a kind of result is made and shown; a new kind is declared by this alone, and an entry of `cda.results.kinds`."""

    command: str
    """The command that makes it, such as `cda quality`."""
    file: str
    """Its name in the folder of the command, by which the folder is known; Markdown next to it has the same stem."""
    document: str
    """Module and function of its page, imported when it is shown: results know nothing of the rooms that make them."""
    report: str = ""
    """The same of the page that is written, if it has more, which is read from the folder of the result."""


class Shown(Saved):
    """A result with methods for its page, its file and its numbers. `str()` returns the output of the command."""

    made_by: ClassVar[MadeBy]
    _folder: Path | None = PrivateAttr(default=None)
    _summary: str | None = PrivateAttr(default=None)

    def __str__(self) -> str:
        return self.document().text()

    def __eq__(self, other: object) -> bool:
        """True for a result of the same content, wherever it lies."""
        return type(self) is type(other) and self.__dict__ == other.__dict__

    @property
    def folder(self) -> Path | None:
        """Output folder of the call; None if the result was read from a file."""
        return self._folder

    @property
    def summary(self) -> str:
        """Output of the command: `str()` of the result, and the files that the call wrote."""
        return self._summary or str(self)

    def placed(self, folder: Path, summary: str | None = None) -> None:
        """Say where it lies, and what the command prints of it."""
        self._folder, self._summary = folder, summary

    def document(self) -> Document:
        """Its page: headlines, tables and figures."""
        found: Document = of_room(self.made_by.document)(self)
        return found

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
            DataError: The path has another ending.
            RunError: The file cannot be written.
        """
        file = user_path(path)
        if file.suffix not in (".html", ".md"):
            raise DataError(f"{path}: a report is a page (.html) or Markdown (.md)")
        document: Document = of_room(self.made_by.report or self.made_by.document)(self)
        page = document.page() if file.suffix == ".html" else document.markdown()
        with writing(place_for(file)):
            write_page(file, page)

    @property
    def numbers(self) -> Numbers:
        """Its measures by moment, bias and model, for `where` and `pivot`; empty if it is no audit, and not made of audits."""
        found: Numbers = of_room("cda.numbers.views:numbers_in")(self)
        return found

    def to_frame(self) -> DataFrame:
        """Every estimate as a row of a pandas frame.

        Columns: measure, of, scoring (before, after, change, unpaired or empty), key (of a number in the table of measures), value,
        low, high (95% interval), n, n_prompts, unit, method, p_value and p_holm of a change, and reason if there is no value.

        Raises:
            DataError: pandas is not installed.
        """
        try:
            import pandas
        except ImportError:
            raise DataError("to_frame needs pandas: pip install 'cda-debias[pandas]'") from None
        return pandas.DataFrame(list(of_room("cda.numbers.views:rows_of")(self)))


def of_room(place: str) -> Any:
    """A function of a higher room, `module:function`, imported when it is called."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)
