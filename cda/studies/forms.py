"""The forms of a study: its two files, a spreadsheet, and Label Studio's tasks."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any
from xml.sax.saxutils import quoteattr

from cda.data.load import check_header, delimiter_of
from cda.errors import DataError
from cda.run import fingerprint
from cda.studies.design import CHOICES, KINDS, TITLE, Item, Shown, Study, instructions

COLUMNS = (
    "study",
    "participant",
    "number",
    "item",
    "prompt",
    "answer_a",
    "answer_b",
    "choice",
    "justification",
    "seconds",
)
_NEEDED = ("study", "participant", "item", "choice")
_RISKY = ("=", "+", "-", "@", "\t", "\r", "\n")


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table as text, and how many of its cells got an apostrophe."""

    text: str
    n_guarded: int


def guarded(cell: str) -> str:
    """A cell that no spreadsheet runs: an apostrophe before anything that could open a formula, and before an apostrophe.

    >>> guarded("=1+1"), guarded("'s"), guarded("plain")
    ("'=1+1", "''s", 'plain')
    """
    return f"'{cell}" if cell.startswith((*_RISKY, "'")) else cell


def unguarded(cell: str) -> str:
    """What `guarded` was given; a lone apostrophe of somebody else's stays.

    >>> unguarded("'=1+1"), unguarded("''s"), unguarded("'tis")
    ('=1+1', "'s", "'tis")
    """
    return cell[1:] if cell.startswith("'") and cell[1:].startswith((*_RISKY, "'")) else cell


def sheet(study: Study) -> Sheet:
    """A row for each judgement that is wanted, in each participant's order."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    n_guarded = 0
    for code, given in study.participants.items():
        for number, one in enumerate(given, 1):
            item = study.items[one.item]
            texts = (item.prompt, item.texts[one.a], item.texts[1 - one.a])
            safe = tuple(map(guarded, texts))
            n_guarded += sum(before != after for before, after in zip(texts, safe, strict=True))
            writer.writerow((study.fingerprint, code, number, item.id, *safe, "", "", ""))
    return Sheet(out.getvalue(), n_guarded)


def sheet_rows(text: str, where: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Filled rows with their numbers, apostrophes undone; commas, semicolons or tabs stand between cells.

    Raises:
        DataError: Not such a table, or broken.
    """
    delimiter = delimiter_of(text)
    csv.field_size_limit(2**27)
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    check_header(reader.fieldnames or (), where)
    if "annotation_id" in (reader.fieldnames or ()):
        raise DataError(f"{where}: Label Studio's table of annotations; export as JSON")
    missing = [name for name in _NEEDED if name not in (reader.fieldnames or ())]
    if missing:
        raise DataError(
            f"{where}: no column {', '.join(missing)}. A filled table keeps the columns of items.csv: {', '.join(COLUMNS)}"
        )
    try:
        for number, row in enumerate(reader, 2):
            if None in row or None in row.values():
                raise DataError(f"{where}: row {number} has not as many cells as the header")
            yield number, {name: unguarded(cell) for name, cell in row.items()}
    except csv.Error as error:
        raise DataError(f"{where}:{reader.line_num}: not valid CSV ({error})") from None


_SIDES = {"left": "A", "right": "B"}
_WORDS = {text.lower(): word for word, text in CHOICES.items()}


def tasks(study: Study) -> list[dict[str, object]]:
    """A task an item. Label Studio deals tasks out by itself, so that sides are drawn once an item."""
    return [
        {"data": {"study": study.fingerprint, "item": one.id, "prompt": one.prompt,
                  "answer_a": one.texts[0], "answer_b": one.texts[1]}}
        for one in study.items.values()
    ]  # fmt: skip


def config(study: Study) -> str:
    """The labelling configuration. Label Studio folds spaces and tabs, unless it is told to keep them."""
    told = "\n".join(f'  <Header size="5" value={quoteattr(line)}/>' for line in instructions(study))
    required = str(study.kind == "experts").lower()
    choices = "\n".join(
        f'    <Choice value={quoteattr(text)} hotkey="{at}"/>' for at, text in enumerate(CHOICES.values(), 1)
    )
    return f"""<View>
  <Header value={quoteattr(TITLE)}/>
{told}
  <View style="white-space: pre-wrap"><Text name="prompt" value="$prompt"/></View>
  <View style="white-space: pre-wrap; display: grid; grid-template-columns: 1fr 1fr; gap: 1rem">
    <View><Header size="4" value="A"/><Text name="answer_a" value="$answer_a"/></View>
    <View><Header size="4" value="B"/><Text name="answer_b" value="$answer_b"/></View>
  </View>
  <Choices name="choice" toName="prompt" choice="single" showInLine="true" required="true">
{choices}
  </Choices>
  <TextArea name="justification" toName="prompt" rows="2" maxSubmissions="1" required="{required}"
            placeholder="What decided it?"/>
</View>
"""


def annotated(content: list[Mapping[str, object]]) -> Iterator[tuple[Mapping[str, object], Mapping[str, object]]]:
    """Each task's data with each of its annotations that was not cancelled."""
    for task in content:
        data, found = task.get("data"), task.get("annotations")
        for one in found if isinstance(found, list) else ():
            if isinstance(one, Mapping) and not one.get("was_cancelled"):
                yield data if isinstance(data, Mapping) else {}, one


def choice_of(annotation: Mapping[str, object]) -> str | None:
    """A, B or tie; None where nothing or more than one thing was chosen."""
    found = {word for part in _parts(annotation) if (word := _word(part))}
    return found.pop() if len(found) == 1 and found < CHOICES.keys() else None


def justification_of(annotation: Mapping[str, object]) -> str:
    """What was written beside it."""
    texts = [part.get("text") for part in _parts(annotation)]
    return " ".join(str(line) for text in texts if text for line in (text if isinstance(text, list) else [text]))


def annotator(annotation: Mapping[str, object]) -> str | None:
    """A name for whoever annotated, apart from the codes of the study's participants."""
    by = annotation.get("completed_by")
    if isinstance(by, Mapping):
        by = by.get("id", by.get("email"))
    return None if by is None or isinstance(by, bool) or not isinstance(by, int | str) else f"label-studio-{by}"


def _parts(annotation: Mapping[str, object]) -> list[Mapping[str, object]]:
    result = annotation.get("result")
    parts = result if isinstance(result, list) else []
    values = [part.get("value") for part in parts if isinstance(part, Mapping)]
    return [value for value in values if isinstance(value, Mapping)]


def _word(value: Mapping[str, object]) -> str | None:
    if "selected" in value:
        return _SIDES.get(str(value["selected"]))
    choices = value.get("choices")
    if isinstance(choices, list) and len(choices) == 1:
        return _WORDS.get(str(choices[0]).strip().lower())
    return "several" if choices else None


VERSION = 1
KEEP = "Keep this file to yourself: it says which answer is which. Nobody who judges may see it."


def assignments_json(study: Study) -> dict[str, object]:
    """Who sees what: participant to items in order, with the text (0 or 1) that stands as answer A."""
    return {
        "study": study.fingerprint,
        "version": VERSION,
        "kind": study.kind,
        "judgements": study.judgements,
        "seed": study.seed,
        "participants": {code: [asdict(one) for one in given] for code, given in study.participants.items()},
    }


def key_json(study: Study) -> dict[str, object]:
    """Which text is which, for the organiser alone."""
    items = [asdict(one) | {"texts": list(one.texts)} for one in study.items.values()]
    return {
        "note": KEEP,
        "study": study.fingerprint,
        "version": VERSION,
        "checksum": fingerprint(items),
        "items": items,
    }


def study_of(assignments: Any, key: Any, where: str) -> Study:
    """The study that was exported.

    Args:
        assignments: Content of assignments.json.
        key: Content of key.json.
        where: The folder, for messages.

    Raises:
        DataError: Either is no such file, was changed since, or they belong to different studies.
    """
    try:
        items = {one["id"]: _item(one) for one in key["items"]}
        participants = {
            str(code): tuple(Shown(str(one["item"]), _zero_or_one(one["a"])) for one in given)
            for code, given in assignments["participants"].items()
        }
        kind = {name: name for name in KINDS}[assignments["kind"]]
        study = Study(kind, int(assignments["judgements"]), int(assignments["seed"]), items, participants)
        stated, checksum = (assignments["study"], key["study"]), key["checksum"]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(
            f"{where}: assignments.json or key.json is not as `cda study export` wrote it "
            f"({type(error).__name__}: {error}). Take the files of the export"
        ) from None
    if stated[0] != stated[1]:
        raise DataError(f"{where}: assignments.json is of study {stated[0]}, key.json of study {stated[1]}")
    if fingerprint(key["items"]) != checksum or study.fingerprint != stated[0]:
        raise DataError(f"{where}: assignments.json or key.json was changed after the export; take the original files")
    return study


def _item(row: Mapping[str, Any]) -> Item:
    prompt = row["prompt"]
    first, second = row["texts"]
    if not all(isinstance(one, str) for one in (prompt, first, second)):
        raise TypeError("a text is no text")
    perturbed, right = (None if row[name] is None else _zero_or_one(row[name]) for name in ("perturbed", "right"))
    if (perturbed is None) == (right is None):
        raise ValueError("an item is either a contrast or an attention check")
    return Item(
        str(row["id"]), prompt, (first, second), str(row["prompt_id"]), row["contrast"], row["bias"], perturbed, right
    )


def _zero_or_one(value: object) -> int:
    if value not in (0, 1) or isinstance(value, bool):
        raise ValueError(f"0 or 1 expected, found {value!r:.40}")
    return int(value)
