"""Claim: contrasts of the embedded texts differ in their bias alone, no question is in two parts, and readers agree.

Thresholds: every side of a contrast within 15% of the other's words except for length, list lines on the biased side of
structure alone; the nearest questions of two parts are no paraphrases (MiniLM cosine below 0.75); of a random fifth of
contrasts and pairs, read without knowing which side is which, at least 90% pass on first reading.

    python evals/embedded_texts.py                  check, and write the measured part of the data card
    python evals/embedded_texts.py --draw FOLDER    sheets for readers: a random fifth, sides in random order, and the key
    python evals/embedded_texts.py --read FOLDER    what readers wrote there, against the key, into texts/readings.jsonl

Readers answer each row of a sheet with `id`; for a contrast `shows` (A, B or neither: which side has the bias), `otherwise_same`
and `correct` (the side without it); for a pair `better` (A, B or neither) and `flaw` (what is wrong with the other one).
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from outcome import Check, finish

from cda.biases import load_bias
from cda.effects.drift import embedding_similarity, feature_drift, measured
from cda.embedded.encoder import encode_sentences
from cda.embedded.texts import BIASES, FOLDER, PARTS, audit_contrasts, authored_contrasts, part_path, questions
from cda.features import n_list_lines, n_words
from cda.files.jsonl import read_jsonl, write_jsonl
from cda.records import Contrast, prompt_id
from cda.stats.proportions import share

CARD, READINGS = FOLDER / "README.md", FOLDER / "readings.jsonl"
START, END = "<!-- measured -->", "<!-- end of measured -->"
FEATURES = ("words", "list_lines", "flesch_reading_ease", "long_word_share", "specifics", "hedges", "exclamations")
WITHIN, ALIKE, PASSED, FIFTH = 0.15, 0.75, 0.9, 0.2
SEED = 0
Json = dict[str, Any]


def rng() -> np.random.Generator:
    return np.random.default_rng(SEED)


def drift_rows() -> list[Json]:
    """What differs between the sides, for every bias and direction."""
    found = []
    for bias in BIASES:
        for part in ("audit", "shown"):
            contrasts = authored_contrasts(part, [bias])
            ids = [prompt_id(one.prompt) for one in contrasts]
            first, second = (
                measured([getattr(one, side) for one in contrasts], FEATURES) for side in ("perturbed", "base")
            )
            drift = feature_drift(first, second, ids, rng(), treatment=load_bias(bias).treatment)
            cosine = embedding_similarity(
                [one.perturbed for one in contrasts], [one.base for one in contrasts], encode_sentences, ids, rng()
            )
            found.append(
                {
                    "bias": bias,
                    "direction": contrasts[0].tags["direction"],
                    "n": len(contrasts),
                    "word_ratio": [float(f(_ratios(contrasts))) for f in (np.min, np.median, np.max)],
                    "cosine": cosine.to_json(),
                    "features": {one.feature: one.to_json() for one in drift},
                }
            )
    return found


def _ratios(contrasts: Sequence[Contrast]) -> list[float]:
    return [n_words(one.perturbed) / n_words(one.base) for one in contrasts]


def nearest_questions() -> Json:
    """The two most alike questions of different parts."""
    asked = [(part, question) for part in PARTS for question in questions(part)]
    vectors = encode_sentences([question for _, question in asked])
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    cosine = unit @ unit.T
    parts = np.array([part for part, _ in asked])
    cosine[parts[:, None] == parts[None, :]] = -1
    row, column = np.unravel_index(int(cosine.argmax()), cosine.shape)
    return {"questions": len(asked), "cosine": float(cosine[row, column]), "pair": [asked[row], asked[column]]}


def rows_of_part(part: str) -> list[Json]:
    """What a reader judges one by one: contrasts and pairs with sides named by their key."""
    found = []
    for row in read_jsonl(part_path(part)):  # type: ignore[arg-type]
        if part == "audit":
            found += [
                {"id": f"{row['id']}-{bias}", "question": row["question"], "bias": bias, "yes": row[bias], "no": row["base"]}
                for bias in BIASES
            ]  # fmt: skip
        elif part == "shown":
            found.append({"id": row["id"], "question": row["question"], "bias": row["bias"], "yes": row["shown"], "no": row["without"]})  # fmt: skip
        else:
            found.append({"id": row["id"], "question": row["question"], "yes": row["sound"], "no": row["flawed"], "flaw": row["flaw"]})  # fmt: skip
    return found


def draw(folder: Path) -> None:
    """Sheets with sides in random order, and the key beside them."""
    folder.mkdir(parents=True, exist_ok=True)
    generator, keys = rng(), []
    for part in ("audit", "shown", "train", "quality"):
        rows = rows_of_part(part)
        chosen = sorted(generator.choice(len(rows), size=round(FIFTH * len(rows)), replace=False))
        sheet = []
        for row in (rows[index] for index in chosen):
            yes_first = bool(generator.random() < 0.5)
            sides = ("yes", "no") if yes_first else ("no", "yes")
            named = {"bias": row["bias"]} if "bias" in row else {}
            sheet.append(
                {"id": row["id"], "question": row["question"], **named, "A": row[sides[0]], "B": row[sides[1]]}
            )
            keys.append({"id": row["id"], "part": part, "yes": "A" if yes_first else "B", "flaw": row.get("flaw")})
        write_jsonl(folder / f"sheet-{part}.jsonl", sheet)
        print(f"{len(sheet):4} {part}")
    write_jsonl(folder / "key.jsonl", keys)


def read(folder: Path) -> None:
    """Answers against the key: one row an item, whether it passed and what the reader wrote."""
    keys = {row["id"]: row for row in read_jsonl(folder / "key.jsonl")}
    found = []
    for path in sorted(folder.glob("answers-*.jsonl")):
        for row in read_jsonl(path):
            key = keys.pop(row["id"])
            if "shows" in row:
                passed = row["shows"] == key["yes"] and row["otherwise_same"] is True and row["correct"] is True
            else:
                passed = row["better"] == key["yes"]
            note = {name: row[name] for name in ("flaw", "note") if row.get(name)}
            right = (row.get("shows") or row.get("better")) == key["yes"]
            more = {name: row[name] for name in ("otherwise_same", "correct") if name in row}
            found.append({"id": row["id"], "part": key["part"], "side_right": right} | more | {"passed": passed} | note)
    if keys:
        print(f"{len(keys)} items have no answer: {', '.join(list(keys)[:10])}")
    write_jsonl(READINGS, sorted(found, key=lambda row: str(row["id"])))


def readings() -> dict[str, Json]:
    """Share that passed, by part, and by bias for contrasts."""
    rows = list(read_jsonl(READINGS))
    groups: dict[str, list[Json]] = {}
    for row in rows:
        name = next((bias for bias in BIASES if row["part"] in ("audit", "shown") and bias in row["id"]), None)
        groups.setdefault(f"contrasts, {name}" if name else f"pairs, {row['part']}", []).append(dict(row))
    return {
        name: {
            "passed": share([row["passed"] for row in group], [row["id"] for row in group], rng()).to_json(),
            "failed": [row["id"] for row in group if not row["passed"]],
        }
        for name, group in sorted(groups.items())
    }


def card_block(drift: Sequence[Json], nearest: Json, read_rows: Mapping[str, Json]) -> str:
    """The measured part of the data card."""
    lines = [
        START,
        "Mean difference of the side with the bias from the side without it (standardised); the bias itself in italics.",
        "",
        "| bias | made by | n | words, ratio min / median / max | list lines | Flesch ease | long words | specifics | hedges | exclamations | cosine |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in drift:
        cells = [row["bias"], row["direction"], str(row["n"]), " / ".join(f"{one:.2f}" for one in row["word_ratio"])]
        cells += [_difference(row["features"][name]) for name in FEATURES[1:]]
        lines.append(f"| {' | '.join([*cells, format(row['cosine']['value'], '.2f')])} |")
    lines += [
        "",
        f"Nearest questions of two parts, of {nearest['questions']}: cosine {nearest['cosine']:.2f} "
        f"(\u201c{nearest['pair'][0][1]}\u201d, {nearest['pair'][0][0]}; \u201c{nearest['pair'][1][1]}\u201d, {nearest['pair'][1][0]}).",
        "",
        "Of the contrasts, the quality pairs and the training pairs that there were then, a random fifth was read by language models",
        "that had not written it, sides in random order, the key hidden; training pairs added later and the lessons were not.",
        "A contrast passes where the reader named the side with the bias, found nothing else changed and the plain side correct; a",
        "pair where the reader chose the sound side. What failed was rewritten afterwards (`readings.jsonl` keeps the first reading).",
        "",
        "| read | passed on first reading | n |",
        "| --- | --- | --- |",
    ]
    for name, one in read_rows.items():
        passed = one["passed"]
        said = f"{100 * passed['value']:.0f}% [{100 * passed['low']:.0f}, {100 * passed['high']:.0f}]"
        lines.append(f"| {name} | {said} | {passed['n']} |")
    return "\n".join([*lines, END])


def _difference(one: Json) -> str:
    value, scaled = one["difference"]["value"], one["standardised"]
    said = f"{value:+.2f}" if abs(value) < 10 else f"{value:+.0f}"
    said += "" if scaled is None else f" ({scaled['value']:+.1f})"
    return f"*{said}*" if one["is_treatment"] else said


def with_block(card: str, block: str) -> str:
    """The data card with its measured part replaced."""
    before, rest = card.split(START, 1)
    return before + block + rest.split(END, 1)[1]


def checks(nearest: Json) -> list[Check]:
    contrasts = audit_contrasts()
    far = [one.id for one in contrasts if one.bias != "length" and abs(_ratios([one])[0] - 1) > WITHIN]
    lists = [
        one.id
        for one in contrasts
        if (n_list_lines(one.perturbed) > 0) != (one.bias == "structure") or n_list_lines(one.base) > 0
    ]
    passed = Counter(row["passed"] for row in read_jsonl(READINGS))
    rate = passed[True] / max(1, passed.total())
    return [
        Check("words within 15%, length aside", f"{len(far)} of {len(contrasts)} beyond", not far),
        Check("list lines on the biased side of structure alone", f"{len(lists)} otherwise", not lists),
        Check("no paraphrase in two parts", f"nearest {nearest['cosine']:.2f}", nearest["cosine"] < ALIKE),
        Check("a random fifth passes on first reading", f"{rate:.1%} of {passed.total()}", rate >= PASSED),
    ]  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--draw", type=Path)
    parser.add_argument("--read", type=Path)
    asked = parser.parse_args()
    if asked.draw:
        draw(asked.draw)
        return 0
    if asked.read:
        read(asked.read)
    drift, nearest, read_rows = drift_rows(), nearest_questions(), readings()
    block = card_block(drift, nearest, read_rows)
    CARD.write_text(with_block(CARD.read_text(encoding="utf-8"), block), encoding="utf-8")
    numbers = {
        "command": "python evals/embedded_texts.py", "drift": drift, "nearest": nearest, "readings": read_rows,
    }  # fmt: skip
    return finish("embedded_texts", (__doc__ or "").split("\n\n")[0], checks(nearest), numbers)


if __name__ == "__main__":
    sys.exit(main())
