"""The texts shipped with the package: training pairs, quality pairs, audit contrasts, triples, lessons, responses.

All were written for this package and carry no human votes. Contrasts of `audit` start from a plain answer to which the bias
was added, those of `shown` from an answer that has it and from which it was removed; `triples` rewrites 40 of either back,
for each bias. `lessons` are contrasts that taught
the embedded reward model its biases; nothing is ever measured on them. `responses` are four answers each to questions of
their own, all sound, written in styles that were drawn by lot: what `cda discover` searches in; those of `narrow` are all on
one topic.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from cda.errors import RunError
from cda.files.jsonl import read_jsonl, read_text, write_jsonl
from cda.records import Contrast, Pair, Prompt, Triple, prompt_text, user_prompt

FOLDER = Path(__file__).parent / "texts"
BIASES = ("length", "structure", "jargon", "sycophancy", "vagueness")
Part = Literal["train", "quality", "audit", "shown", "lessons", "responses", "narrow"]
READINGS = FOLDER / "readings.jsonl"
TRIPLES = FOLDER / "triples.jsonl"
PARTS: tuple[Part, ...] = ("train", "quality", "audit", "shown", "lessons", "responses", "narrow")


@dataclass(frozen=True, slots=True)
class AuthoredPair:
    """A sound and a flawed answer to one question.

    Attributes:
        item: Its authors' name for it, as in the readings.
        pair: chosen is the sound answer.
        domain: Subject area.
        flaw_kind: wrong fact, wrong step, misses the point, or incomplete.
        flaw: What is wrong with the flawed answer.
        sound_shows: Biases that the sound answer was written to exhibit.
        flawed_shows: Biases that the flawed answer was written to exhibit.
    """

    item: str
    pair: Pair
    domain: str
    flaw_kind: str
    flaw: str
    sound_shows: tuple[str, ...]
    flawed_shows: tuple[str, ...]


def part_path(part: Part) -> Path:
    """File of a part."""
    return FOLDER / f"{part}.jsonl"


def authored_pairs(part: Literal["train", "quality"]) -> list[AuthoredPair]:
    """Pairs of a part, in file order."""
    return [
        AuthoredPair(
            row["id"],
            Pair(user_prompt(row["question"]), row["sound"], row["flawed"]),
            row["domain"],
            row["flaw_kind"],
            row["flaw"],
            tuple(row["sound_shows"]),
            tuple(row["flawed_shows"]),
        )
        for row in read_jsonl(part_path(part))
    ]


def authored_contrasts(part: Literal["audit", "shown", "lessons"], biases: Sequence[str] = BIASES) -> list[Contrast]:
    """Contrasts of a part for the named biases; biases without texts of ours give none."""
    rows = read_jsonl(part_path(part))
    return [one for row in rows for one in (_removed if "shown" in row else _added)(row, biases)]


def audit_contrasts(biases: Sequence[str] = BIASES) -> list[Contrast]:
    """All contrasts that an audit measures on, in both directions."""
    return [*authored_contrasts("audit", biases), *authored_contrasts("shown", biases)]


@dataclass(frozen=True, slots=True)
class AuthoredTriple:
    """An answer, its first rewrite (the other side of a contrast), and the rewrite back.

    Attributes:
        item: Name of the contrast, with `-back`, as in the readings.
        triple: `flipped` as blind readers found it.
    """

    item: str
    triple: Triple


def authored_triples(biases: Sequence[str] = BIASES) -> list[AuthoredTriple]:
    """Triples of the named biases in both directions, in file order; biases without texts of ours give none."""
    contrasts = {str(contrast.tags["authored"]): contrast for contrast in audit_contrasts(biases)}
    found = []
    for row in read_jsonl(TRIPLES):
        contrast = contrasts.get(row["id"])
        if contrast is not None:
            had_bias = contrast.tags["direction"] == "removed"
            sides = (contrast.perturbed, contrast.base) if had_bias else (contrast.base, contrast.perturbed)
            triple = Triple(contrast.bias, contrast.prompt, *sides, row["back"], had_bias, row["flipped"])
            found.append(AuthoredTriple(f"{row['id']}-back", triple))
    return found


@dataclass(frozen=True, slots=True)
class AuthoredResponses:
    """A question and answers to it in different styles.

    Attributes:
        item: Name of the part and its place in it.
        prompt: The question.
        domain: Subject area.
        responses: Four, all sound.
    """

    item: str
    prompt: Prompt
    domain: str
    responses: tuple[str, ...]


def authored_responses(part: Literal["responses", "narrow"] = "responses") -> list[AuthoredResponses]:
    """Answers to search in, in file order."""
    return [
        AuthoredResponses(f"{part}-{number:03}", user_prompt(row["question"]), row["domain"], tuple(row["responses"]))
        for number, row in enumerate(read_jsonl(part_path(part)), 1)
    ]


def questions(part: Part) -> list[str]:
    """All questions of a part."""
    return [row["question"] for row in read_jsonl(part_path(part))]


def _added(row: dict[str, Any], biases: Sequence[str]) -> Iterator[Contrast]:
    for bias in biases:
        if bias in BIASES:
            yield _contrast(row, f"{row['id']}-{bias}", bias, row[bias], row["base"], "added")


def _removed(row: dict[str, Any], biases: Sequence[str]) -> Iterator[Contrast]:
    if row["bias"] in biases:
        yield _contrast(row, row["id"], row["bias"], row["shown"], row["without"], "removed")


def _contrast(row: dict[str, Any], authored: str, bias: str, perturbed: str, base: str, direction: str) -> Contrast:
    # Not the tag `item`, which is what votes of a user's file go by.
    tags = {
        "source": "embedded", "authored": authored, "domain": row["domain"], "kind": row["kind"], "direction": direction,
    }  # fmt: skip
    return Contrast(bias, user_prompt(row["question"]), perturbed, base, tags=tags)


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
