"""Rows to RATE triples: a response, its rewrite without (or with) the attribute, and the rewrite rewritten back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cda.data.attribute import BY_WORDS, AttributeRule
from cda.data.load import Row
from cda.data.messages import RowError, check_agree, message_text, prompt_of, side_text
from cda.errors import DataError
from cda.records import Exclusions, Triple, count_reasons, equal_texts, text_key

_TEXTS = ("original", "rewrite", "rewrite_of_rewrite")


@dataclass(frozen=True, slots=True)
class CleanTriples:
    triples: tuple[Triple, ...]
    exclusions: Exclusions


def clean_triples(
    rows: Sequence[Row],
    biases: Sequence[str],
    columns: Mapping[str, str],
    where: str,
    attribute: AttributeRule = BY_WORDS,
) -> CleanTriples:
    """Turn rows of `prompt, original, rewrite, rewrite_of_rewrite, has_attribute` into triples.

    Args:
        rows: Loaded rows; `has_attribute` says whether the original exhibits the bias, and
            `flipped`, if there is such a column, whether somebody found that both rewrites flipped it (empty: nobody asked).
        biases: Names of the audited biases; with several, rows need a column `bias`.
        columns: Our name to the name of the column in the rows.
        where: File named in errors.
        attribute: How `has_attribute` says it; by 1/0, true/false or yes/no unless told otherwise.

    Raises:
        DataError: A column is missing, no row is usable, or one response is said to have the attribute and to lack it.
    """
    names = {name: columns.get(name, name) for name in ("prompt", *_TEXTS, "has_attribute", "bias", "flipped")}
    present = {key for row in rows for key in row}
    needed = [name for name in names if name != "flipped" and (name != "bias" or len(biases) > 1)]
    problems = [
        f"{where}: no column '{names[name]}'. Found: {', '.join(sorted(present))}. "
        f"Map it with audit.triple_columns.{name}=<your column>"
        for name in needed
        if names[name] not in present
    ]
    if problems:
        raise DataError("\n".join(problems))
    attribute.check((row.get(names["has_attribute"]) for row in rows), where)
    found: dict[tuple[str, ...], list[tuple[int, Triple]]] = {}
    reasons: list[str] = []
    for number, row in enumerate(rows, 1):
        values = {ours: row.get(theirs) for ours, theirs in names.items()}
        bias = str(values["bias"]) if names["bias"] in present else biases[0]
        try:
            if bias not in biases:
                raise RowError(f"of another bias ({bias[:40]})")
            triple = _triple(values, bias, attribute)
        except RowError as problem:
            reasons.append(str(problem))
            continue
        same = found.setdefault((bias, *text_key(triple.prompt, *_texts(triple))), [])
        same.append((number, triple))
        reasons += ["duplicate"] if len(same) > 1 else []
    check_agree(_contradictions(found), where)
    triples = [_merged([triple for _, triple in same]) for same in found.values()]
    exclusions = Exclusions(len(rows), count_reasons(reasons))
    if not triples:
        raise DataError(f"{where}: no usable triple; {exclusions}")
    return CleanTriples(tuple(triples), exclusions)


def _contradictions(
    found: Mapping[tuple[str, ...], Sequence[tuple[int, Triple]]],
) -> Iterator[tuple[list[int], str]]:
    """Rows that cannot all be true, and why: of one response the attribute, of one triple whether it was flipped."""
    originals: dict[tuple[str, ...], list[tuple[int, bool]]] = {}
    for same in found.values():
        for number, one in same:
            key = (one.bias, *text_key(one.prompt, one.original))
            originals.setdefault(key, []).append((number, one.has_attribute))
        if {True, False} <= {one.flipped for _, one in same}:
            yield [number for number, _ in same], "the same triple, and flipped says yes and no"
    for (bias, *_), stated in originals.items():
        if len({has for _, has in stated}) > 1:
            yield [number for number, _ in stated], f"the same original, with {bias} and without it"


def _merged(same: Sequence[Triple]) -> Triple:
    """One triple of rows that agree; some of them may leave open whether it was flipped."""
    return replace(same[0], flipped=next((one.flipped for one in same if one.flipped is not None), None))


def _texts(triple: Triple) -> tuple[str, str, str]:
    return triple.original, triple.rewrite, triple.rewrite_of_rewrite


def _triple(values: Mapping[str, Any], bias: str, attribute: AttributeRule) -> Triple:
    texts = [side_text(message_text(values[name])) for name in _TEXTS]
    if equal_texts(texts[0], texts[1]) or equal_texts(texts[1], texts[2]):
        raise RowError("a rewrite that changed nothing")
    has_attribute = attribute.read(values["has_attribute"])
    flipped = None if values["flipped"] in (None, "") else BY_WORDS.read(values["flipped"], "flipped")
    return Triple(bias, prompt_of(values["prompt"]), texts[0], texts[1], texts[2], has_attribute, flipped)
