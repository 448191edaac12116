"""The forms of a study: its two files, a spreadsheet, and Label Studio's tasks."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any
from xml.sax.saxutils import quoteattr

from pydantic import TypeAdapter, ValidationError

from cda.data.tables import check_header, delimiter_of
from cda.errors import DataError
from cda.inert import RISKY, guarded
from cda.run import fingerprint
from cda.studies.design import CHOICES, TITLE, Study, instructions

_COLUMNS = ("study", "participant", "number", "item", "prompt", "answer_a", "answer_b", "choice", "justification",
            "seconds")  # fmt: skip
_NEEDED = ("study", "participant", "item", "choice")


def unguarded(cell: str) -> str:
    """The cell before `guarded`; a single apostrophe from elsewhere stays.

    >>> unguarded("'=1+1"), unguarded("''s"), unguarded("'tis")
    ('=1+1', "'s", "'tis")
    """
    return cell[1:] if cell.startswith("'") and cell[1:].startswith((*RISKY, "'")) else cell


def sheet(study: Study) -> tuple[str, int]:
    """A table with a row for each judgement that is wanted, in each participant's order; and its number of guarded cells."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\r\n")
    writer.writerow(_COLUMNS)
    n_guarded = 0
    for code, given in study.participants.items():
        for number, shown in enumerate(given, 1):
            item = study.items[shown.item]
            texts = (item.prompt, item.texts[shown.a], item.texts[1 - shown.a])
            safe = tuple(map(guarded, texts))
            n_guarded += sum(before != after for before, after in zip(texts, safe, strict=True))
            writer.writerow((study.fingerprint, code, number, item.id, *safe, "", "", ""))
    return out.getvalue(), n_guarded


def sheet_rows(text: str, where: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Filled rows with their numbers, apostrophes undone; commas, semicolons or tabs stand between cells."""
    csv.field_size_limit(2**27)
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter_of(text), strict=True)
    names = reader.fieldnames or ()
    check_header(names, where)
    if "annotation_id" in names:
        raise DataError(f"{where}: Label Studio's table of annotations; export as JSON")
    if missing := [name for name in _NEEDED if name not in names]:
        raise DataError(
            f"{where}: no column {', '.join(missing)}. A filled table keeps the columns of items.csv: {', '.join(_COLUMNS)}"
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
    """A task per item. Label Studio deals tasks out by itself, so that sides are drawn once per item."""
    return [
        {"data": {"study": study.fingerprint, "item": item.id, "prompt": item.prompt,
                  "answer_a": item.texts[0], "answer_b": item.texts[1]}}
        for item in study.items.values()
    ]  # fmt: skip


def config(study: Study) -> str:
    """The labelling configuration. Label Studio folds spaces and tabs unless it is configured to keep them."""
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
        data, annotations = task.get("data"), task.get("annotations")
        for annotation in annotations if isinstance(annotations, list) else ():
            if isinstance(annotation, Mapping) and not annotation.get("was_cancelled"):
                yield data if isinstance(data, Mapping) else {}, annotation


def choice_of(annotation: Mapping[str, object]) -> str | None:
    """A, B or tie; None if nothing or more than one thing was chosen."""
    chosen = {word for value in _values(annotation) if (word := _word(value))}
    return chosen.pop() if len(chosen) == 1 and chosen < CHOICES.keys() else None


def justification_of(annotation: Mapping[str, object]) -> str:
    """The text that was written with it."""
    texts = [value.get("text") for value in _values(annotation)]
    return " ".join(str(line) for text in texts if text for line in (text if isinstance(text, list) else [text]))


def annotator(annotation: Mapping[str, object]) -> str | None:
    """A name for an annotator, distinct from the codes of the study's participants."""
    by = annotation.get("completed_by")
    if isinstance(by, Mapping):
        by = by.get("id", by.get("email"))
    return None if by is None or isinstance(by, bool) or not isinstance(by, int | str) else f"label-studio-{by}"


def _values(annotation: Mapping[str, object]) -> list[Mapping[str, object]]:
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


_VERSION = 1
_KEEP = "Keep this file to yourself: it says which answer is which. No participant may see it."


def assignments_json(study: Study) -> dict[str, object]:
    """The assignments: participant to items in order, with the text (0 or 1) that stands as answer A."""
    return {
        "study": study.fingerprint,
        "version": _VERSION,
        "kind": study.kind,
        "judgements": study.judgements,
        "seed": study.seed,
        "participants": {code: [asdict(shown) for shown in given] for code, given in study.participants.items()},
    }


def key_json(study: Study) -> dict[str, object]:
    """Which text is which, for the organiser alone."""
    items = [asdict(item) | {"texts": list(item.texts)} for item in study.items.values()]
    checksum = fingerprint(items)
    return {"note": _KEEP, "study": study.fingerprint, "version": _VERSION, "checksum": checksum, "items": items}


def study_of(assignments: Any, key: Any, where: str) -> Study:
    """The study that was exported, from the content of its two files; DataError if they were changed, or are of two studies."""
    try:
        items = {row["id"]: row for row in key["items"]}
        study = TypeAdapter(Study).validate_python({**assignments, "items": items})
        stated, of_key, checksum = assignments["study"], key["study"], key["checksum"]
    except (KeyError, TypeError, ValueError) as error:
        why = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
        raise DataError(
            f"{where}: assignments.json or key.json is not as `cda study export` wrote it "
            f"({type(error).__name__}: {why}). Take the files of the export"
        ) from None
    if stated != of_key:
        raise DataError(f"{where}: assignments.json is of study {stated}, key.json of study {of_key}")
    if fingerprint(key["items"]) != checksum or study.fingerprint != stated:
        raise DataError(f"{where}: assignments.json or key.json was changed after the export; take the original files")
    return study
