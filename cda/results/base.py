"""The ground of every result: frozen, checked, the same in memory, in a file and on a page."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Literal, NamedTuple, Self, TypeVar, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, PrivateAttr, ValidationError

from cda.errors import CdaError, DataError, did_you_mean
from cda.files.jsonl import read_json, write_json, write_page
from cda.files.paths import place_for, user_path, writing
from cda.inert import clipped

if TYPE_CHECKING:
    from pandas import DataFrame

    from cda.numbers.views import Numbers
    from cda.report.document import Document

T = TypeVar("T")

Scoring = Literal["model", "before", "after"]
"""Name of a scoring in reports: `model` if one model is measured, else `before` and `after` its training."""


class UnknownNameError(KeyError):
    """A name that a part of a result does not have; the nearest that it has, and all of them."""

    def __str__(self) -> str:
        return str(self.args[0])


class ByName(dict[str, T]):
    """Parts of a result by name. Another name raises UnknownNameError, which is a KeyError."""

    what = "bias"
    are = "measured"

    def __missing__(self, name: object) -> T:
        meant = did_you_mean(str(name), self).replace(" Did", " did")
        raise UnknownNameError(f"'{name}': no such {self.what};{meant} {self.are}: {', '.join(self) or 'none'}")

    def __getattr__(self, name: str) -> Any:
        near = [name] if name in self else did_you_mean(name, self).split("'")[1:2]
        meant = f"; did you mean [{near[0]!r}]?" if near and not name.startswith("_") else ""
        raise AttributeError(f"parts by {self.what} have no attribute '{name}'{meant}")


def by_name(parts: Mapping[str, T], what: str) -> ByName[T]:
    """Parts of which each is a `what`, such as a moment."""
    found = ByName(parts)
    found.what, found.are = what, "known"
    return found


class _Audits(ByName[T]):
    what = "audit"
    are = "compared"


ByBias = Annotated[dict[str, T], AfterValidator(ByName)]
"""Dict of biases as every result has it; an unknown one is said with the nearest."""
ByAudit = Annotated[dict[str, T], AfterValidator(_Audits)]


def public_name(kind: type) -> str:
    """The name of a kind of results in the API, such as `Audit`; of a part of one that of its class."""
    api = import_module("cda.api.results")
    return next((name for name in api.__all__ if getattr(api, name) is kind), kind.__name__)


class Result(BaseModel):
    """A measured result, or a part of one. Values cannot be reassigned, unknown fields and NaN are refused."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True, protected_namespaces=()
    )

    if not TYPE_CHECKING:  # any attribute would be known otherwise

        def __getattr__(self, name: str) -> Any:
            try:
                return super().__getattr__(name)
            except AttributeError:
                if name.startswith("_") or hasattr(type(self), name):
                    raise
            known = [each for each in dir(type(self)) if not each.startswith(("_", "model_"))]
            meant = did_you_mean(name, [*type(self).model_fields, *known]).replace(" Did", "; did")
            raise AttributeError(f"{public_name(type(self))} has no attribute '{name}'{meant}")

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """With other values of some fields; parts by name stay such."""
        named = {name: type(had) for name in update or () if isinstance(had := getattr(self, name, None), ByName)}
        given = {name: named[name](value) if name in named else value for name, value in (update or {}).items()}
        return super().model_copy(update=given, deep=deep)


class Told(Result):
    """A result of a command, which knows what the command says of it on a terminal."""

    _summary: str | None = PrivateAttr(default=None)

    @property
    def summary(self) -> str:
        """Output of the command."""
        return self._summary or ""

    def tell(self, summary: str) -> None:
        self._summary = summary

    def __eq__(self, other: object) -> bool:
        """True for a result of the same content, wherever it lies."""
        return type(self) is type(other) and self.__dict__ == other.__dict__


class Saved(Told):
    """A result with its own file. Each kind has its own `schema_version`, which grows when its shape changes."""

    in_memory: ClassVar[frozenset[str]] = frozenset()
    """Fields that are not written."""

    schema_version: int

    @classmethod
    def current_schema(cls) -> int:
        """The version that this code writes and reads."""
        return int(cls.model_fields["schema_version"].default)


class Missing(Result):
    """No value, and why: the data cannot give it, or it was not asked for."""

    reason: str
    """Why there is no value, as a clause that can follow a colon."""


def or_missing(estimate: Callable[[], T]) -> T | Missing:
    """An estimate; Missing with the reason if the data cannot give it."""
    try:
        return estimate()
    except DataError as error:
        return Missing(reason=str(error))


NOT_TRAINED = Missing(reason="one model was measured, without a training")
"""The `after` and the `change` of one model as it is."""


class Estimate(Result):
    """A value that never travels without its 95% interval and its n."""

    value: float
    """The estimate, in `unit`."""
    low: float
    """Lower end of the 95% interval."""
    high: float
    """Upper end of the 95% interval."""
    n: int
    """Observations behind it."""
    n_prompts: int
    """Distinct prompts behind it (the clusters)."""
    unit: str
    """`share` (0 to 1), `share difference` (−1 to 1), `reward`, `preference` (−1 to 1), `AUC`, `AUC difference`,
    `correlation`, `alpha`, `cosine`, `standard deviations`, `nats`, `log odds`, or the name of a feature in its own unit."""
    method: str
    """Method of the interval."""

    @classmethod
    def symmetric(
        cls, value: float, half: float, *, n: int, n_prompts: int, unit: str, method: str, bound: float = math.inf
    ) -> Estimate:
        """`value` ± `half`, within ±`bound`."""
        low, high = max(-bound, value - half), min(bound, value + half)
        return cls(value=value, low=low, high=high, n=n, n_prompts=n_prompts, unit=unit, method=method)

    def over(self, divisor: float, unit: str) -> Estimate:
        """The same, divided by a positive number that is taken as known."""
        ends = {name: getattr(self, name) / divisor for name in ("value", "low", "high")}
        return self.model_copy(update={**ends, "unit": unit})


class Test(Result):
    """A test of one hypothesis, with its p-value adjusted for all tests of the result that it belongs to."""

    __test__ = False  # no test class of pytest

    p_value: float
    """Two-sided, before any adjustment."""
    method: str
    """The test, such as `exact McNemar`."""
    p_holm: float | None = None
    """After Holm; None if the test is outside the family that is adjusted."""
    p_bh: float | None = None
    """After Benjamini and Hochberg; None as for `p_holm`."""

    @property
    def holm(self) -> float:
        """Holm's p of a test that belongs to a family; ValueError if it belongs to none."""
        if self.p_holm is None:
            raise ValueError("this test is outside the family of tests that is adjusted")
        return self.p_holm


Moment = Literal["model", "before", "after", "change"]
"""`model` if one model is measured as it is; else before and after its training, and the paired change."""


class Number(Result):
    """One number of a result."""

    measure: str
    """A key of the table of measures."""
    moment: Moment
    at: dict[str, str]
    """Level, such as `bias` or `audit`, to the one of it."""
    found: Estimate | Missing
    test: Test | None = None

    @classmethod
    def of(
        cls, measure: str, moment: str, at: dict[str, str], found: Estimate | Missing, test: Test | None = None
    ) -> Number:
        """The same, by place."""
        return cls.model_validate({"measure": measure, "moment": moment, "at": at, "found": found, "test": test})

    def value_of(self, name: str) -> str:
        """Its measure, its moment, or one of a level; empty if it is of none."""
        return str(getattr(self, name)) if name in ("measure", "moment") else self.at.get(name, "")


class Trained(NamedTuple):
    """A share before and after a training."""

    before: Estimate
    after: Estimate
    change: Estimate
    test: Test


class PerScoring(Result, Generic[T]):
    """Something of a model as it is, or before and after its training."""

    before: T
    """The model as it is; of a training, the model before it."""
    after: T | Missing = NOT_TRAINED
    """After the training, where it can be `Missing` for its own reason; `NOT_TRAINED` if one model is measured."""

    @property
    def is_trained(self) -> bool:
        """True for before and after a training, whether or not there is a value after it."""
        return self.after != NOT_TRAINED

    def items(self) -> Iterator[tuple[Scoring, T]]:
        """The scorings with their values, in the order of a report."""
        if self.is_trained:
            yield from (("before", self.before), ("after", self.last))
        else:
            yield "model", self.before

    @property
    def last(self) -> T:
        """After the training; of a model as it is, its own."""
        # A value that can be missing after the training is one of T, such as `Estimate | Missing`.
        return cast(T, self.after) if self.is_trained else self.before

    def of(self, scoring: str) -> T:
        """The value under one scoring; UnknownNameError if this was not measured under it."""
        return by_name(dict[str, T](self.items()), "scoring")[scoring]


class BeforeAfter(PerScoring[Estimate | Missing]):
    """A number of a model as it is, or before and after its training, with the paired change."""

    change: Estimate | Missing = NOT_TRAINED
    """After − before, paired and clustered by prompt."""


class Measure(PerScoring[Estimate]):
    """A share of a model as it is, or before and after its training, with the paired change and its test."""

    change: Estimate | Missing = NOT_TRAINED
    """After − before, paired, in shares; its interval clusters by prompt."""
    unpaired: Estimate | Missing = NOT_TRAINED
    """The same change as if both sides came from different rows, as papers print it."""
    test: Test | Missing = NOT_TRAINED
    """Exact test that the change is 0."""
    ties: PerScoring[int] | Missing = Missing(reason="not counted")
    """Margins of exactly 0."""

    def of_training(self) -> Trained:
        """Before, after, the change and its test; ValueError if one model was measured, without a training."""
        match self.after, self.change, self.test:
            case Estimate() as after, Estimate() as change, Test() as test:
                return Trained(self.before, after, change, test)
        raise ValueError("one model was measured, without a training")


S = TypeVar("S", bound=Saved)


def save(result: Saved, path: Path) -> None:
    """Write a result as JSON, atomically. Fields that exist only in memory are left out."""
    write_json(path, result.model_dump(exclude=set(result.in_memory)))


def load(kind: type[S], path: Path, again: str) -> S:
    """Read a result that `save` wrote; `again` is the command that makes it anew, such as `cda audit`.

    A DataError names the file, the problem and the remedy: no such file, no JSON (cut, for one), a result of another command or
    of another version of cda, or one that was changed by hand.
    """
    content = read_json(path)
    current = kind.current_schema()
    schema = content.get("schema_version", 1) if isinstance(content, dict) else None
    if isinstance(schema, int) and schema != current:
        age, todo = ("a newer", "update cda, or run") if schema > current else ("an earlier", "run")
        raise DataError(
            f"{path}: written by {age} version of cda (schema {schema}, this version reads {current}); {todo} `{again}` again"
        )
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        first, *others = error.errors(include_url=False)
        place = ".".join(map(str, first["loc"])) or "the whole"
        more = f", and {len(others)} more" if others else ""
        raise DataError(
            f"{path}: no {public_name(kind)} as this version of cda writes it (at {clipped(place, 80)}: {first['msg']}{more}). It is of "
            f"another command, or was changed: run `{again}` again"
        ) from None


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


class Documented:
    """Something with a page: its figures, and what a notebook shows of it."""

    def document(self) -> Document:
        """Its page: headlines, tables and figures."""
        raise NotImplementedError

    def plot(self, which: str = "", column: Literal["single", "double"] = "single") -> Any:
        """Draw a figure of its page, as `--figures` writes it; a notebook shows it.

        Args:
            which: Id of the figure, the name of its file; by default the first.
            column: Width, of a paper's column or of two.

        Returns:
            Matplotlib's axes; of a figure with several panels an array of them, in reading order. Shape (n,).

        Raises:
            DataError: It has no such figure, or none; or Matplotlib or every font is missing.

        Example:
            >>> axes = audit.plot("skew")  # doctest: +SKIP
            >>> axes.figure.savefig("skew.pdf")  # doctest: +SKIP
        """
        return of_room("cda.report.drawing:plotted")(self.document().plots, which, column)

    def _repr_html_(self) -> str | None:
        """The first screen of its page, its first table and figure, without script or style."""
        try:
            return self.document().notebook()
        except CdaError:  # nothing to show yet: a notebook then has the `repr`
            return None


class Shown(Saved, Documented):
    """A result with methods for its page, its figures, its file and its numbers. `str()` returns the output of the command."""

    made_by: ClassVar[MadeBy]
    _folder: Path | None = PrivateAttr(default=None)

    def __str__(self) -> str:
        return self.document().text(python=True)

    @property
    def folder(self) -> Path | None:
        """Output folder of the call; None if the result was read from a file."""
        return self._folder

    @property
    def summary(self) -> str:
        """Output of the command: `str()` of the result, and the files that the call wrote."""
        return super().summary or str(self)

    def placed(self, folder: Path, summary: str = "") -> None:
        """Say where it lies, and what the command prints of it."""
        self._folder = folder
        self.tell(summary)

    def document(self) -> Document:
        """Its page: headlines, tables and figures."""
        found: Document = of_room(self.made_by.document)(self)
        return found

    def save(self, path: str | Path) -> None:
        """Write it as JSON (.json); `cda.load` reads it again.

        Raises:
            DataError: The path has another ending.
            RunError: The file cannot be written.
        """
        file = user_path(path)
        if file.suffix != ".json":
            raise DataError(
                f"{path}: a result is saved as JSON (.json); report() writes a page (.html) or Markdown (.md), to_frame() gives a table"
            )
        with writing(place_for(file)):
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

        Columns: measure, bias, moment (`model` as it is, or before, after, change, unpaired), value, low, high (95% interval) and n;
        what else the numbers are of, such as topic, audit, judge or a column of the data, each a column, empty in rows of none of it;
        n_prompts, unit, method, p_value and p_holm of a test, and reason if there is no value.

        Raises:
            DataError: pandas is not installed.
        """
        made: DataFrame = of_room("cda.numbers.frames:frame")(of_room("cda.numbers.frames:rows_of")(self))
        return made


def of_room(place: str) -> Any:
    """A function of a higher room, `module:function`, imported when it is called."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)
