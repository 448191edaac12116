"""The texts shipped with the package: training pairs, quality pairs, audit contrasts, triples, lessons, responses.

All were written for this package and carry no human votes. Contrasts of `audit` start from a plain answer to which the bias
was added, those of `shown` from an answer that has it and from which it was removed; `triples` rewrites 40 of either back,
for each bias. `lessons` are contrasts that taught the embedded reward model its biases; nothing is ever measured on them.
`samples` are twelve answers each to further questions, in styles and lengths that were drawn by lot, half of them wrong: what a policy that
is optimised against a reward would show. `responses`, in which `cda discover` searches, are four sound answers each to questions of their own, in styles that were
drawn by lot; those of `narrow` are all on one topic. Contrasts of `second_turn` answer the last message of a conversation, and
are of biases of their own (`SECOND_TURNS`); `second_turn_train` holds further ones, to train on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, get_args

from cda.files.jsonl import read_jsonl, read_text, write_jsonl, write_text
from cda.records import Contrast, Message, Pair, Prompt, Triple, prompt_text, user_prompt

FOLDER = Path(__file__).parent / "texts"
EMBEDDED_BIASES = ("length", "structure", "jargon", "sycophancy", "vagueness")
SECOND_TURNS: Mapping[str, str] = MappingProxyType(
    {bias: f"{bias}-second-turn" for bias in ("sycophancy", "length", "vagueness")}
)
"""A bias to the bias of its second turn: giving in to a user who doubts a right answer; or the bias after long earlier turns."""
WITH_CONTRASTS = (*EMBEDDED_BIASES, *SECOND_TURNS.values())
Part = Literal[
    "train",
    "quality",
    "audit",
    "shown",
    "lessons",
    "samples",
    "responses",
    "narrow",
    "second_turn",
    "second_turn_train",
]
READINGS = FOLDER / "readings.jsonl"
TRIPLES = FOLDER / "triples.jsonl"
PARTS: tuple[Part, ...] = get_args(Part)


@dataclass(frozen=True, slots=True)
class AuthoredPair:
    """A sound (chosen) and a flawed answer, and the biases that each was written to exhibit; `item` is its name in the
    readings, the flaw a wrong fact, wrong step, misses the point, or incomplete."""

    item: str
    pair: Pair
    domain: str
    flaw_kind: str
    flaw: str
    sound_shows: tuple[str, ...]
    flawed_shows: tuple[str, ...]


def part_path(part: Part) -> Path:
    return FOLDER / f"{part}.jsonl"


def authored_pairs(part: Literal["train", "quality"]) -> list[AuthoredPair]:
    """Pairs of a part, in file order."""

    def authored(row: dict[str, Any]) -> AuthoredPair:
        pair, shows = Pair(user_prompt(row["question"]), row["sound"], row["flawed"]), ("sound_shows", "flawed_shows")
        return AuthoredPair(
            row["id"], pair, row["domain"], row["flaw_kind"], row["flaw"], *(tuple(row[key]) for key in shows)
        )

    return list(map(authored, read_jsonl(part_path(part))))


def authored_contrasts(
    part: Literal["audit", "shown", "lessons", "second_turn", "second_turn_train"],
    biases: Sequence[str] = EMBEDDED_BIASES,
) -> list[Contrast]:
    """Contrasts of a part for the named biases; biases without texts of ours give none."""
    contrasts = []
    for row in read_jsonl(part_path(part)):
        if "turns" in row:
            if row["bias"] in biases:
                contrasts.append(_contrast(row, row["id"], row["bias"], row["perturbed"], row["base"], "added"))
        elif "shown" not in row:
            own = [bias for bias in biases if bias in EMBEDDED_BIASES]
            contrasts += [_contrast(row, f"{row['id']}-{bias}", bias, row[bias], row["base"], "added") for bias in own]
        elif row["bias"] in biases:
            contrasts.append(_contrast(row, row["id"], row["bias"], row["shown"], row["without"], "removed"))
    return contrasts


def second_turn_names(biases: Sequence[str]) -> dict[str, str]:
    """A recipe's biases, as far as there are conversations of them, to the names that these go by. A bias of the second turn takes
    its conversations from the bias of the first."""
    own = {name: name for name in biases if name in SECOND_TURNS.values()}
    return own | {name: turn for name, turn in SECOND_TURNS.items() if name in biases and turn not in own}


def audit_contrasts(biases: Sequence[str] = EMBEDDED_BIASES) -> list[Contrast]:
    return [*authored_contrasts("audit", biases), *authored_contrasts("shown", biases)]


@dataclass(frozen=True, slots=True)
class AuthoredTriple:
    """An answer, its first rewrite (the other side of a contrast) and the rewrite back, `flipped` as blind readers found it;
    `item` is the contrast's name with `-back`, as in the readings."""

    item: str
    triple: Triple


def authored_triples(biases: Sequence[str] = EMBEDDED_BIASES) -> list[AuthoredTriple]:
    """Triples of the named biases in both directions, in file order; biases without texts of ours give none."""
    contrasts = {str(contrast.tags["authored"]): contrast for contrast in audit_contrasts(biases)}
    triples = []
    for row in read_jsonl(TRIPLES):
        contrast = contrasts.get(row["id"])
        if contrast is not None:
            had_bias = contrast.tags["direction"] == "removed"
            sides = (contrast.perturbed, contrast.base) if had_bias else (contrast.base, contrast.perturbed)
            triple = Triple(contrast.bias, contrast.prompt, *sides, row["back"], had_bias, row["flipped"])
            triples.append(AuthoredTriple(f"{row['id']}-back", triple))
    return triples


@dataclass(frozen=True, slots=True)
class AuthoredResponses:
    """A question and four sound answers to it in different styles; `item` is the part and its place in it."""

    item: str
    prompt: Prompt
    domain: str
    responses: tuple[str, ...]


def authored_responses(part: Literal["responses", "narrow"] = "responses") -> list[AuthoredResponses]:
    return [
        AuthoredResponses(f"{part}-{number:03}", user_prompt(row["question"]), row["domain"], tuple(row["responses"]))
        for number, row in enumerate(read_jsonl(part_path(part)), 1)
    ]


@dataclass(frozen=True, slots=True)
class AuthoredSamples:
    """A question and twelve answers to it, with what is wrong with each: empty if it is right; `item` is its name in the readings."""

    item: str
    prompt: Prompt
    domain: str
    responses: tuple[str, ...]
    flaws: tuple[str, ...]


def authored_samples() -> list[AuthoredSamples]:
    def authored(row: dict[str, Any]) -> AuthoredSamples:
        texts, flaws = zip(*((answer["text"], answer["flaw"]) for answer in row["answers"]), strict=True)
        return AuthoredSamples(row["id"], user_prompt(row["question"]), row["domain"], texts, flaws)

    return list(map(authored, read_jsonl(part_path("samples"))))


def questions(part: Part) -> list[str]:
    """Questions of a part; of a conversation the first message."""
    return [_prompt(row)[0].content for row in read_jsonl(part_path(part))]


def _prompt(row: Mapping[str, Any]) -> Prompt:
    """The question as a prompt; of a conversation all turns before the answer, the user's first and last."""
    if "turns" not in row:
        return user_prompt(row["question"])
    return tuple(Message(("user", "assistant")[at % 2], text) for at, text in enumerate(row["turns"]))


def _contrast(row: dict[str, Any], authored: str, bias: str, perturbed: str, base: str, direction: str) -> Contrast:
    # Not the tag `item`, by which votes of a user's file are matched.
    tags = {
        "source": "embedded", "authored": authored, "domain": row["domain"], "kind": row["kind"], "direction": direction,
    }  # fmt: skip
    return Contrast(bias, _prompt(row), perturbed, base, tags=tags)


# Broad topics of the embedded texts: 85 prompts with responses are too few for more than two searches.
BROAD: dict[str, tuple[str, ...]] = {
    "nature, numbers and home": (
        "astronomy", "basic computing", "biology", "camping and outdoors", "cars and bicycles", "chemistry", "computing",
        "cooking", "engineering and how machines work", "food science", "gardening", "home electrics and appliances",
        "home repair", "mathematics and arithmetic", "mathematics and statistics", "oceans and ecology",
        "office software and email", "painting and decorating", "pets", "physics", "sewing, woodworking and crafts",
        "shopping and consumer goods", "space", "weather and climate", "weather and environment",
    ),
    "people and society": (
        "board games and hobbies", "civics and law", "economics and personal finance", "exercise", "geography",
        "health and sleep", "history", "human body and first aid basics", "journalism and writing", "language and grammar",
        "language and writing", "law and everyday rights", "literature", "music and art", "music and visual art",
        "parenting", "parenting and children", "personal finance", "public health and nutrition basics",
        "religion and philosophy", "sport and fitness", "travel", "travel and transport", "work and careers",
        "workplace communication", "world history",
    ),
}  # fmt: skip
_BROAD_OF = {domain: topic for topic, domains in BROAD.items() for domain in domains}


def broad_topic(domain: str) -> str:
    """The broad topic of an embedded domain; one without a broad topic stays as it is."""
    return _BROAD_OF.get(domain, domain)


Format = Literal["jsonl", "datasets"]
FORMATS: tuple[Format, ...] = ("jsonl", "datasets")
Rows = Sequence[Mapping[str, object]]


def tables() -> dict[str, Rows]:
    """Every table of the export, in the columns that `audit.contrasts`, `.triples`, `.quality` and `data.pairs` read.

    `contrasts` are the pairs that an audit measures (prompt, base, perturbed, bias, direction), `second_turns` the same with a
    conversation in messages as the prompt, and `second_turns_train` further ones as pairs to train on; `triples` are RATE's (prompt,
    original, rewrite, rewrite_of_rewrite, has_attribute, bias, flipped); `quality` and `train` are pairs
    in TRL's preference format (prompt, chosen, rejected) with the flaw of the rejected side; `lessons` are contrasts that
    taught the embedded model, on which it must not be measured; `responses` and `narrow` are four answers each to
    further questions (prompt, responses), for a search; `samples` are twelve (prompt, responses, quality: 1 right, 0 wrong, flaws), for
    `audit.samples` and a best of n. `item` is the authors' name of a row; under it, as `id`,
    `readings` holds readers' judgements of it, and as `text` a hash of the wording that they read (None if unknown).
    """
    turns = [*SECOND_TURNS.values()]
    return {
        "contrasts": list(map(_contrast_row, audit_contrasts())),
        "second_turns": list(map(_contrast_row, authored_contrasts("second_turn", turns))),
        "second_turns_train": list(map(_second_turn_row, authored_contrasts("second_turn_train", turns))),
        "triples": list(map(_triple_row, authored_triples())),
        "quality": list(map(_pair_row, authored_pairs("quality"))),
        "train": list(map(_pair_row, authored_pairs("train"))),
        "lessons": list(map(_contrast_row, authored_contrasts("lessons"))),
        "samples": [_samples_row(row) for row in authored_samples()],
        "responses": list(map(_responses_row, authored_responses())),
        "narrow": list(map(_responses_row, authored_responses("narrow"))),
        "readings": list(read_jsonl(READINGS)),
    }


def export(folder: Path, form: Format) -> dict[str, int]:
    """Write every table and the data card into a folder; return each one's number of rows. `jsonl` is for `datasets.load_dataset(folder, name)`, by the card's header; `datasets` for `load_from_disk`."""
    rows_of = tables()
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / "README.md", _card(list(rows_of), form))
    return write_tables(rows_of, folder, form)


def write_tables(rows_of: Mapping[str, Rows], folder: Path, form: Format) -> dict[str, int]:
    """Write tables into a folder; return each one's number of rows."""
    for name, rows in rows_of.items():
        if form == "jsonl":
            write_jsonl(folder / f"{name}.jsonl", rows)
        else:
            from datasets import Dataset, disable_progress_bars

            disable_progress_bars()
            Dataset.from_list([dict(row) for row in rows]).save_to_disk(str(folder / name))
    return {name: len(rows) for name, rows in rows_of.items()}


def _card(names: Sequence[str], form: Format) -> str:
    """The data card; its header names the tables for load_dataset, which does not find those of saved folders by itself."""
    card = read_text(FOLDER / "README.md")
    if form != "jsonl":
        return card
    configs = "".join(f"- {{config_name: {name}, data_files: {name}.jsonl}}\n" for name in names)
    start, header, rest = card.split("---\n", 2)
    return f"{start}---\n{header}configs:\n{configs}---\n{rest}"


def _contrast_row(contrast: Contrast) -> dict[str, object]:
    tags = {name: contrast.tags[name] for name in ("direction", "domain", "kind")}
    return {
        "id": contrast.id, "item": contrast.tags["authored"], "prompt": shown_prompt(contrast.prompt), "base": contrast.base,
        "perturbed": contrast.perturbed, "bias": contrast.bias,
    } | tags  # fmt: skip


def _second_turn_row(contrast: Contrast) -> dict[str, object]:
    tags = {name: contrast.tags[name] for name in ("domain", "kind")}
    return {
        "item": contrast.tags["authored"], "prompt": shown_prompt(contrast.prompt), "chosen": contrast.base,
        "rejected": contrast.perturbed, "bias": contrast.bias,
    } | tags  # fmt: skip


def _samples_row(row: AuthoredSamples) -> dict[str, object]:
    return {
        "item": row.item, "prompt": prompt_text(row.prompt), "domain": row.domain, "responses": list(row.responses),
        "quality": [int(not flaw) for flaw in row.flaws], "flaws": list(row.flaws),
    }  # fmt: skip


def shown_prompt(prompt: Prompt) -> str | list[dict[str, str]]:
    """The question; a conversation as messages."""
    if len(prompt) == 1:
        return prompt_text(prompt)
    return [{"role": message.role, "content": message.content} for message in prompt]


def _triple_row(authored: AuthoredTriple) -> dict[str, object]:
    triple = authored.triple
    return {
        "item": authored.item, "prompt": prompt_text(triple.prompt), "original": triple.original,
        "rewrite": triple.rewrite, "rewrite_of_rewrite": triple.rewrite_of_rewrite,
        "has_attribute": triple.has_attribute, "bias": triple.bias, "flipped": triple.flipped,
    }  # fmt: skip


def _responses_row(row: AuthoredResponses) -> dict[str, object]:
    return {
        "item": row.item, "prompt": prompt_text(row.prompt), "responses": list(row.responses), "domain": row.domain,
    }  # fmt: skip


def _pair_row(row: AuthoredPair) -> dict[str, object]:
    return {
        "item": row.item, "prompt": prompt_text(row.pair.prompt), "chosen": row.pair.chosen, "rejected": row.pair.rejected,
        "domain": row.domain, "flaw_kind": row.flaw_kind, "flaw": row.flaw,
        "chosen_shows": list(row.sound_shows), "rejected_shows": list(row.flawed_shows),
    }  # fmt: skip
