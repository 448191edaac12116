"""Rows to triples, and the rule for reading a response's attribute from a column."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from cda.data.load import (
    Row,
    RowError,
    check_agree,
    check_columns,
    covariates,
    message_text,
    number_of,
    prompt_of,
    readable,
    side_text,
)
from cda.errors import DataError
from cda.records import Exclusions, Triple, count_reasons, equal_texts, text_key

Number = Annotated[float, Field(allow_inf_nan=False)]
SETTING = "audit.attribute"
_WORDS = {"1": True, "1.0": True, "true": True, "yes": True, "0": False, "0.0": False, "false": False, "no": False}


class AttributeRule(BaseModel):
    """Rule for reading a response's attribute from a column: as yes or no, or in one of three other ways."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    above: Number | None = None
    """A number above this has it, any other has not."""
    low: Number | None = None
    """A number up to this has it not (with high); rows between the two are left out, and counted."""
    high: Number | None = None
    """A number from this on has it."""
    having: str | None = None
    """The category that has it (with lacking); rows of other categories are left out, and counted."""
    lacking: str | None = None
    """The category that has it not."""

    @model_validator(mode="after")
    def _one_way(self) -> AttributeRule:
        ways = ("above", "low and high", "having and lacking")
        given = [way for way in ways if any(getattr(self, name) is not None for name in way.split(" and "))]
        if len(given) > 1:
            raise ValueError(f"{' together with '.join(given)}: give one of {', '.join(ways)}")
        if given and any(getattr(self, name) is None for name in given[0].split(" and ")):
            raise ValueError(f"{given[0]}: give both")
        if self.low is not None and self.high is not None and not self.low < self.high:
            raise ValueError(f"low={self.low:g} is not below high={self.high:g}")
        if self.having is not None and self.having == self.lacking:
            raise ValueError(f"'{self.having}' cannot be both having and lacking")
        return self

    def read(self, value: object, column: str = "has_attribute") -> bool:
        """True if a cell says that the attribute is there; RowError if it says neither."""
        word = str(value).strip()
        if self.having is not None:
            if word not in (self.having, self.lacking):
                raise RowError(f"{column} is neither '{self.having}' nor '{self.lacking}'")
            return word == self.having
        if self.above is not None:
            return _number(word, column) > self.above
        if self.low is None or self.high is None:
            if word.lower() not in _WORDS:
                raise RowError(f"{column} is neither yes nor no")
            return _WORDS[word.lower()]
        number = _number(word, column)
        if self.low < number < self.high:
            raise RowError(f"{column} lies between {self.low:g} and {self.high:g}")
        return number >= self.high

    def check(self, values: Iterable[object], where: str) -> None:
        """Refuse a category that no row has, which would leave one side without any, with a DataError."""
        present = {str(value).strip() for value in values if value not in (None, "")}
        if missing := [name for name in (self.having, self.lacking) if name is not None and name not in present]:
            raise DataError(
                f"{where}: {SETTING}: no row has the category '{missing[0]}'. Found: {', '.join(sorted(present)[:10]) or 'none'}"
            )


BY_WORDS = AttributeRule()
"""Yes and no."""


def _number(word: str, column: str) -> float:
    number = number_of({"True": "1", "False": "0"}.get(word, word))
    if math.isnan(number):
        raise RowError(f"{column} is no number")
    return number


_TEXTS = ("original", "rewrite", "rewrite_of_rewrite")
COLUMNS = ("prompt", *_TEXTS, "has_attribute", "bias", "flipped", "failed")
_OPTIONAL = ("flipped", "failed")


@dataclass(frozen=True, slots=True)
class FailedTriple:
    """An original that was tried and could not be rewritten to flip the bias and back, as `cda triples` writes it down."""

    bias: str
    has_attribute: bool
    reason: str


@dataclass(frozen=True, slots=True)
class CleanTriples:
    triples: tuple[Triple, ...]
    exclusions: Exclusions
    failed: tuple[FailedTriple, ...] = ()
    """Also counted in `exclusions`."""


def clean_triples(
    rows: Sequence[Row],
    biases: Sequence[str],
    columns: Mapping[str, str],
    where: str,
    attribute: AttributeRule = BY_WORDS,
    by: Sequence[str] = (),
) -> CleanTriples:
    """Turn rows of `prompt, original, rewrite, rewrite_of_rewrite, has_attribute` into triples, counting unusable rows.

    `has_attribute`, read by `attribute`, says if the original exhibits the bias; `flipped` may say if a check found that both
    rewrites flipped it (empty: no check), `failed` why an original that was tried has no triple, which counts when flips are
    counted; with several biases rows need a column `bias`. `columns` maps our name to the rows'.
    `by` are columns whose values each triple keeps; of rows of the same triple, those of the first.

    Raises:
        DataError: A column is missing, no row is usable, or one response is said to have the attribute and to lack it.
    """
    names = {name: columns.get(name, name) for name in COLUMNS}
    present = {key for row in rows for key in row}
    needed = [name for name in names if name not in _OPTIONAL and (name != "bias" or len(biases) > 1)]
    check_columns(
        rows,
        {name: names[name] for name in needed},
        where,
        "audit.triple_columns.",
        {"bias": ", or name one bias with --bias NAME"},
    )
    attribute.check((row.get(names["has_attribute"]) for row in rows), where)

    failed: list[FailedTriple] = []

    def read(row: Row) -> Triple:
        values = {ours: row.get(theirs) for ours, theirs in names.items()}
        bias = str(values["bias"]) if names["bias"] in present else biases[0]
        if bias not in biases:
            raise RowError(f"of another bias ({bias[:40]})")
        if reason := str(values["failed"] or ""):
            if values["has_attribute"] not in (None, ""):
                failed.append(FailedTriple(bias, attribute.read(values["has_attribute"]), reason))
            raise RowError(f"no triple: {reason}")
        return replace(_triple(values, bias, attribute), by=tuple(covariates(row, by).items()))

    numbered, unusable = readable(rows, read)
    groups: dict[tuple[str, ...], list[tuple[int, Triple]]] = {}
    for number, triple in numbered:
        texts = triple.original, triple.rewrite, triple.rewrite_of_rewrite
        groups.setdefault((triple.bias, *text_key(triple.prompt, *texts)), []).append((number, triple))
    check_agree(_contradictions(groups.values()), where)
    reasons = [reason for _, reason in unusable] + ["duplicate"] * (len(numbered) - len(groups))
    exclusions = Exclusions(len(rows), count_reasons(reasons))
    if not groups:
        raise DataError(f"{where}: no usable triple; {exclusions}")
    # Some rows of a triple may lack `flipped`.
    triples = [
        replace(same[0][1], flipped=next((row.flipped for _, row in same if row.flipped is not None), None))
        for same in groups.values()
    ]
    return CleanTriples(tuple(triples), exclusions, tuple(failed))


def _contradictions(groups: Collection[Sequence[tuple[int, Triple]]]) -> Iterator[tuple[list[int], str]]:
    originals: dict[tuple[str, ...], list[tuple[int, bool]]] = {}
    for same in groups:
        for number, triple in same:
            key = (triple.bias, *text_key(triple.prompt, triple.original))
            originals.setdefault(key, []).append((number, triple.has_attribute))
        if {True, False} <= {triple.flipped for _, triple in same}:
            yield [number for number, _ in same], "the same triple, and flipped says yes and no"
    for (bias, *_), stated in originals.items():
        if len({has for _, has in stated}) > 1:
            yield [number for number, _ in stated], f"the same original, with {bias} and without it"


def _triple(values: Mapping[str, Any], bias: str, attribute: AttributeRule) -> Triple:
    texts = [side_text(message_text(values[name])) for name in _TEXTS]
    if equal_texts(texts[0], texts[1]) or equal_texts(texts[1], texts[2]):
        raise RowError("a rewrite that changed nothing")
    has_attribute = attribute.read(values["has_attribute"])
    flipped = None if values["flipped"] in (None, "") else BY_WORDS.read(values["flipped"], "flipped")
    return Triple(bias, prompt_of(values["prompt"]), texts[0], texts[1], texts[2], has_attribute, flipped)
