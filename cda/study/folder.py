"""A study as its two files, assignments.json and key.json, and back, with every sign of damage noticed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from cda.errors import DataError
from cda.run import fingerprint
from cda.study.records import KINDS, Item, Shown, Study

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
