"""The embedded texts as files that need no `cda`: JSON Lines, or folders saved by `datasets`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from cda.embedded.texts import (
    FOLDER,
    READINGS,
    AuthoredPair,
    AuthoredResponses,
    AuthoredTriple,
    audit_contrasts,
    authored_contrasts,
    authored_pairs,
    authored_responses,
    authored_triples,
)
from cda.errors import RunError
from cda.files.jsonl import read_jsonl, read_text, write_jsonl
from cda.records import Contrast, prompt_text

Format = Literal["jsonl", "datasets"]
FORMATS: tuple[Format, ...] = ("jsonl", "datasets")
Rows = Sequence[Mapping[str, object]]


def tables() -> dict[str, Rows]:
    """Every table of the export, in the columns that `audit.contrasts`, `.triples`, `.quality` and `data.pairs` read.

    `contrasts` are what an audit measures on (prompt, base, perturbed, bias, direction); `triples` are RATE's (prompt,
    original, rewrite, rewrite_of_rewrite, has_attribute, bias, flipped); `quality` and `train` are pairs
    in TRL's preference format (prompt, chosen, rejected) with the flaw of the rejected side; `lessons` are contrasts that
    taught the embedded model, on which it must not be measured; `responses` and `narrow` are four answers each to
    further questions (prompt, responses), for a search or a best of n. `item` is the authors' name of a row; under it, as `id`,
    `readings` holds what readers said of it, and as `text` a hash of the wording that they read (None where it is not known).
    """
    return {
        "contrasts": [_contrast_row(one) for one in audit_contrasts()],
        "triples": [_triple_row(one) for one in authored_triples()],
        "quality": [_pair_row(one) for one in authored_pairs("quality")],
        "train": [_pair_row(one) for one in authored_pairs("train")],
        "lessons": [_contrast_row(one) for one in authored_contrasts("lessons")],
        "responses": [_responses_row(one) for one in authored_responses()],
        "narrow": [_responses_row(one) for one in authored_responses("narrow")],
        "readings": list(read_jsonl(READINGS)),
    }


def export(folder: Path, form: Format) -> dict[str, int]:
    """Write every table and the data card; returns how many rows each has.

    As `jsonl` a table is `<name>.jsonl`, and the card's header lets `datasets.load_dataset(folder, name)` find them; as
    `datasets` it is a folder for `datasets.load_from_disk`.

    Raises:
        RunError: The folder holds something, or cannot be written.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RunError(f"{folder}: exists and is not empty; name a new folder")
    found = tables()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "README.md").write_text(_card(list(found), form), encoding="utf-8")
        for name, rows in found.items():
            if form == "jsonl":
                write_jsonl(folder / f"{name}.jsonl", rows)
            else:
                _save(folder / name, rows)
    except OSError as error:
        raise RunError(f"{folder}: cannot be written: {error.strerror or error}") from None
    return {name: len(rows) for name, rows in found.items()}


def _card(names: Sequence[str], form: Format) -> str:
    """The data card; its header names the tables where load_dataset reads them, which it does not of saved folders."""
    card = read_text(FOLDER / "README.md")
    if form != "jsonl":
        return card
    configs = "".join(f"- {{config_name: {name}, data_files: {name}.jsonl}}\n" for name in names)
    start, header, rest = card.split("---\n", 2)
    return f"{start}---\n{header}configs:\n{configs}---\n{rest}"


def _save(folder: Path, rows: Rows) -> None:
    from datasets import Dataset, disable_progress_bars

    disable_progress_bars()
    Dataset.from_list([dict(row) for row in rows]).save_to_disk(str(folder))


def _contrast_row(one: Contrast) -> dict[str, object]:
    tags = {name: one.tags[name] for name in ("direction", "domain", "kind")}
    return {
        "id": one.id, "item": one.tags["authored"], "prompt": prompt_text(one.prompt), "base": one.base,
        "perturbed": one.perturbed, "bias": one.bias,
    } | tags  # fmt: skip


def _triple_row(one: AuthoredTriple) -> dict[str, object]:
    triple = one.triple
    return {
        "item": one.item, "prompt": prompt_text(triple.prompt), "original": triple.original, "rewrite": triple.rewrite,
        "rewrite_of_rewrite": triple.rewrite_of_rewrite, "has_attribute": triple.has_attribute, "bias": triple.bias,
        "flipped": triple.flipped,
    }  # fmt: skip


def _responses_row(one: AuthoredResponses) -> dict[str, object]:
    return {
        "item": one.item, "prompt": prompt_text(one.prompt), "responses": list(one.responses), "domain": one.domain,
    }  # fmt: skip


def _pair_row(one: AuthoredPair) -> dict[str, object]:
    return {
        "item": one.item, "prompt": prompt_text(one.pair.prompt), "chosen": one.pair.chosen, "rejected": one.pair.rejected,
        "domain": one.domain, "flaw_kind": one.flaw_kind, "flaw": one.flaw,
        "chosen_shows": list(one.sound_shows), "rejected_shows": list(one.flawed_shows),
    }  # fmt: skip
