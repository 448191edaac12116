"""Claim: contrasts of the embedded texts differ in their bias alone, no question is in two parts, and readers agree.

Thresholds: of the contrasts of each bias and direction, and of the triples' ways back, at least 90% have the drift of every
limited feature within the limits that an audit itself sets (`cda.stats.drift`; the bias's own features exempt); list lines
stand on the biased side of structure alone; the nearest questions of two parts are no paraphrases (MiniLM cosine below 0.75);
every text that is measured or taught has been read in its present wording by someone who did not know which side is which; of
the present texts of every part at least 90% pass every reading of them, and two readers of the same texts, 30 or more, agree on
whether a text passes with a kappa of 0.4 or more, where either fails any.

    python -m evals.method.embedded_texts                    check, and write the measured part of the data card
    python -m evals.method.embedded_texts --draw FOLDER      a sheet for readers, rows numbered and shuffled, sides in random order, and
                                                      apart from it the key: what was not read in its present wording, or
                                                      with --share 0.2 a random fifth, with --share 1 everything
    python -m evals.method.embedded_texts --read FOLDER --reader NAME --reading N
                                                      answers-NAME.jsonl there against the key, into texts/readings.jsonl, in
                                                      place of what this reading has there; of triples also whether they
                                                      flipped, into texts/triples.jsonl

Readers answer each row of the sheet with `row`; for a contrast (its `bias` is named) `shows` (A, B or neither: which side has the
bias), `otherwise_same` and `correct` (the side without it); for a pair `better` (A, B or neither) and `flaw` (what is wrong with
the other one), of a single answer A whether it is right (A or neither); and for any `severity` (0 nothing, 1 taste, 2 should be rewritten, 3 wrong or silly) and a `remark`; those of 2
and 3 do not pass. A reading counts for the text that was read: its row keeps a hash of the text, and none where a text was
edited at an unknown time about its reading.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from cda.arrays import BoolArray
from cda.biases import load_bias
from cda.embedded.model import encode_sentences
from cda.embedded.texts import (
    EMBEDDED_BIASES,
    FOLDER,
    PARTS,
    READINGS,
    SECOND_TURNS,
    TRIPLES,
    AuthoredTriple,
    audit_contrasts,
    authored_contrasts,
    authored_samples,
    authored_triples,
    part_path,
    questions,
)
from cda.features import n_list_lines, n_words
from cda.files.jsonl import read_jsonl, write_jsonl
from cda.records import Contrast, prompt_id, prompt_text
from cda.results.base import Estimate
from cda.results.effects import Overlap
from cda.stats.drift import DEFAULT_LIMITS, feature_drift, measured, overlap_of
from cda.stats.estimators import mean_of, share_of
from evals.shared import Check, finish

CARD = FOLDER / "README.md"
START, END = "<!-- measured -->", "<!-- end of measured -->"
FEATURES = ("words", "list_lines", "flesch_reading_ease", "long_word_share", "specifics", "hedges", "exclamations")
ALIKE, PASSED, LEAST_KAPPA, FEWEST_SHARED = 0.75, 0.9, 0.4, 30
SHEETS = ("audit", "shown", "second_turn", "second_turn_train", "train", "quality", "lessons", "triples", "samples")
TURNS: tuple[Literal["second_turn", "second_turn_train"], ...] = ("second_turn", "second_turn_train")
BY_BIAS = {"audit": "contrasts", "shown": "contrasts", "second_turn": "contrasts", "triples": "ways back"}
TO_MEND = 2  # a reader's severity from which a text is rewritten
SEED = 0
Json = dict[str, Any]


def rng() -> np.random.Generator:
    return np.random.default_rng(SEED)


def drift_rows() -> list[Json]:
    """What differs between the sides, and how many contrasts differ in nothing else, for every bias and direction."""
    found = []
    parts = [
        *itertools.product(EMBEDDED_BIASES, ("audit", "shown")),
        *itertools.product(SECOND_TURNS.values(), TURNS),
    ]
    for bias, part in parts:
        contrasts = authored_contrasts(part, [bias])  # type: ignore[arg-type]
        ids = [prompt_id(one.prompt) for one in contrasts]
        first, second = (
            measured([getattr(one, side) for one in contrasts], FEATURES) for side in ("perturbed", "base")
        )
        alike, _ = alike_but_for_the_bias(contrasts)
        drift = feature_drift(first, second, ids, treatment=load_bias(bias).treatment)
        cosine = cosine_of([one.perturbed for one in contrasts], [one.base for one in contrasts], ids)
        found.append(
            {
                "bias": bias,
                "direction": "to train on" if part == "second_turn_train" else contrasts[0].tags["direction"],
                "n": len(contrasts),
                "word_ratio": [float(f(_ratios(contrasts))) for f in (np.min, np.median, np.max)],
                "cosine": cosine.model_dump(),
                "alike": alike.share.model_dump(),
                "beyond": dict(alike.beyond),
                "features": {one.feature: one.model_dump() for one in drift},
            }
        )
    return found


def alike_but_for_the_bias(contrasts: Sequence[Contrast]) -> tuple[Overlap, BoolArray]:
    """The overlap of an audit: contrasts of one bias whose drift is within limits, the bias's own features exempt."""
    sides = (measured([getattr(one, side) for one in contrasts], DEFAULT_LIMITS) for side in ("perturbed", "base"))
    ids = [prompt_id(one.prompt) for one in contrasts]
    return overlap_of(*sides, ids, treatment=load_bias(contrasts[0].bias).treatment)


def alike_backs() -> dict[str, Json]:
    """The same of the ways back, by bias."""
    found = {}
    for bias in EMBEDDED_BIASES:
        overlap, _ = alike_but_for_the_bias([_back_contrast(one) for one in authored_triples([bias])])
        found[bias] = {"alike": overlap.share.model_dump(), "beyond": dict(overlap.beyond)}
    return found


STEPS = {
    "rewrite": ("rewrite", "original"),
    "way back": ("rewrite_of_rewrite", "rewrite"),
    "both": ("rewrite_of_rewrite", "original"),
}


def step_rows() -> list[Json]:
    """What each step of the triples changed: the later text minus the earlier one, for every bias and direction."""
    found = []
    for bias in EMBEDDED_BIASES:
        for had_bias in (False, True):
            triples = [one.triple for one in authored_triples([bias]) if one.triple.has_attribute == had_bias]
            ids = [prompt_id(one.prompt) for one in triples]
            for step, (later, earlier) in STEPS.items():
                texts = [[getattr(one, side) for one in triples] for side in (later, earlier)]
                drift = feature_drift(
                    *(measured(side, FEATURES) for side in texts), ids, treatment=load_bias(bias).treatment
                )
                ratios = [n_words(after) / n_words(before) for after, before in zip(*texts, strict=True)]
                cosine = cosine_of(*texts, ids)
                found.append({
                    "bias": bias, "original": "with it" if had_bias else "without it", "step": step, "n": len(triples),
                    "word_ratio": [float(f(ratios)) for f in (np.min, np.median, np.max)], "cosine": cosine.model_dump(),
                    "features": {one.feature: one.model_dump() for one in drift},
                })  # fmt: skip
    return found


def cosine_of(perturbed: Sequence[str], base: Sequence[str], ids: Sequence[str]) -> Estimate:
    """Mean cosine similarity of the two sides' embeddings."""
    vectors = encode_sentences([*perturbed, *base])
    unit = vectors / np.linalg.norm(vectors, axis=1)[:, None]
    return mean_of((unit[: len(ids)] * unit[len(ids) :]).sum(axis=1), ids, "cosine").estimate


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
    if part == "triples":
        return [_way_back(one) for one in authored_triples()]
    if part == "samples":  # an answer by itself, right or not
        return [
            {
                "id": f"{one.item}-{number:02}",
                "question": prompt_text(one.prompt),
                "yes": text,
                "no": "",
                "right": not flaw,
            }
            for one in authored_samples()
            for number, (text, flaw) in enumerate(zip(one.responses, one.flaws, strict=True), 1)
        ]
    found = []
    for row in read_jsonl(part_path(part)):  # type: ignore[arg-type]
        if "turns" in row:
            question = "\n".join(
                f"{who}: {said}" for who, said in zip(itertools.cycle(("user", "assistant")), row["turns"])
            )
            found.append({"id": row["id"], "question": question, "bias": row["bias"], "yes": row["perturbed"], "no": row["base"]})  # fmt: skip
        elif "base" in row:
            found += [
                {"id": f"{row['id']}-{bias}", "question": row["question"], "bias": bias, "yes": row[bias], "no": row["base"]}
                for bias in EMBEDDED_BIASES
            ]  # fmt: skip
        elif "shown" in row:
            found.append({"id": row["id"], "question": row["question"], "bias": row["bias"], "yes": row["shown"], "no": row["without"]})  # fmt: skip
        else:
            found.append({"id": row["id"], "question": row["question"], "yes": row["sound"], "no": row["flawed"], "flaw": row["flaw"]})  # fmt: skip
    return found


def _way_back(authored: AuthoredTriple) -> Json:
    """Rewrite and rewrite of the rewrite as the two sides of a contrast; the original is not shown."""
    triple = authored.triple
    back_has_it = triple.has_attribute
    sides = (triple.rewrite_of_rewrite, triple.rewrite) if back_has_it else (triple.rewrite, triple.rewrite_of_rewrite)
    question = prompt_text(triple.prompt)
    return {"id": authored.item, "question": question, "bias": triple.bias, "yes": sides[0], "no": sides[1]}


def _back_contrast(authored: AuthoredTriple) -> Contrast:
    row, triple = _way_back(authored), authored.triple
    return Contrast(triple.bias, triple.prompt, row["yes"], row["no"])


def text_hash(row: Json) -> str:
    """The identity of a text that is read: question, bias, the side with it (or the sound one), and the other side."""
    text = json.dumps([row["question"], row.get("bias"), row["yes"], row["no"]], ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def texts_to_read() -> dict[str, tuple[str, Json]]:
    """Every text that is read, in its present wording: its hash to its part and row."""
    return {text_hash(row): (part, row) for part in SHEETS for row in rows_of_part(part)}


def draw(folder: Path, part_read: float | None) -> None:
    """A sheet without names, and the key apart from it; of texts never read as they are now, or of a random share."""
    folder.mkdir(parents=True, exist_ok=True)
    generator, texts = rng(), texts_to_read()
    been_read = {row["text"] for row in read_jsonl(READINGS)}
    if part_read is None:
        drawn = [text for text in texts if text not in been_read]
    else:
        drawn = list(generator.choice(list(texts), size=round(part_read * len(texts)), replace=False))
    sheet, keys = [], []
    for number, text in enumerate(generator.permutation(drawn), 1):
        part, row = texts[text]
        yes_first = bool(generator.random() < 0.5)
        sides = ("yes", "no") if yes_first else ("no", "yes")
        shown = {"bias": row["bias"]} if "bias" in row else {}
        shown |= {"A": row["yes"]} if part == "samples" else {"A": row[sides[0]], "B": row[sides[1]]}
        right = "AB"[not yes_first] if part != "samples" else "A" if row["right"] else "neither"
        sheet.append({"row": number, "question": row["question"], **shown})
        keys.append({"row": number, "id": row["id"], "text": str(text), "part": part, "yes": right})
    write_jsonl(folder / "sheet.jsonl", sheet)
    write_jsonl(folder / "key.jsonl", keys)
    print(f"{len(sheet)} rows in {folder / 'sheet.jsonl'}; give readers that file alone")


def read(folder: Path, reader: str, reading: int) -> None:
    """One reader's answers against the key: one row a text, whether it passed and what the reader wrote."""
    keys = {row["row"]: row for row in read_jsonl(folder / "key.jsonl")}
    found = [dict(row) for row in read_jsonl(READINGS) if row["reading"] != reading]
    for row in read_jsonl(folder / f"answers-{reader}.jsonl"):
        key = keys.pop(row["row"])
        right = (row.get("shows") or row.get("better")) == key["yes"]
        more = {name: row[name] for name in ("otherwise_same", "correct") if name in row}
        severity = row.get("severity", 0)
        passed = right and severity < TO_MEND and ("shows" not in row or all(more.values()))
        note = {"severity": severity, "remark": row["remark"]} if severity else {}
        found.append(
            {"id": key["id"], "text": key["text"], "part": key["part"], "reading": reading, "side_right": right}
            | more
            | {"passed": passed}
            | note
        )
    if keys:
        raise SystemExit(f"{len(keys)} rows have no answer of {reader}: {', '.join(map(str, list(keys)[:10]))}")
    write_jsonl(READINGS, sorted(found, key=lambda row: (row["reading"], str(row["id"]))))
    named = of_present_texts(found)
    backs = {row["id"]: text for text, (part, row) in texts_to_read().items() if part == "triples"}
    rows = [dict(row) for row in read_jsonl(TRIPLES)]
    for row in rows:
        by_readers = [one["side_right"] for one in named.get(backs[f"{row['id']}-back"], ())]
        row["flipped"] = all(by_readers) if by_readers else None
    write_jsonl(TRIPLES, rows)


def of_present_texts(rows: Sequence[Json]) -> dict[str, list[Json]]:
    """Readings of texts as they are now, by the text's hash; readings of earlier wordings are left out."""
    found: dict[str, list[Json]] = {text: [] for text in texts_to_read()}
    for row in rows:
        if row["text"] in found:
            found[row["text"]].append(row)
    return {text: read for text, read in found.items() if read}


def readings() -> dict[str, Json]:
    """Of present texts, the share that passes every reading of them, by part, and by bias for contrasts."""
    texts = texts_to_read()
    read_now = of_present_texts(list(read_jsonl(READINGS)))
    groups: dict[str, list[str]] = {}
    for text, (part, row) in texts.items():
        name = row["bias"] if part in BY_BIAS else None
        kind = {"lessons": "contrasts", "second_turn_train": "contrasts", "samples": "answers"}.get(part, "pairs")
        groups.setdefault(f"{BY_BIAS.get(part)}, {name}" if name else f"{kind}, {part}", []).append(text)
    found = {}
    for name, group in sorted(groups.items()):
        been_read = [text for text in group if text in read_now]
        passed = [all(row["passed"] for row in read_now[text]) for text in been_read]
        ids = [texts[text][1]["id"] for text in been_read]
        found[name] = {
            "texts": len(group),
            "read_twice_or_more": sum(len(read_now[text]) > 1 for text in been_read),
            "passed": share_of(passed, ids).model_dump() if passed else None,
            "right_side": sum(all(row["side_right"] for row in read_now[text]) for text in been_read),
            "failed": [id for id, well in zip(ids, passed, strict=True) if not well],
        }
    return found


def step_lines(steps: Sequence[Json]) -> list[str]:
    """The table of what each rewrite of the triples changed."""
    lines = [
        "",
        "Triples: what each step changed, later text minus earlier one (standardised), the bias itself in italics; `both` is the",
        "rewrite of the rewrite against the original, which nothing should be left of but the noise of writing.",
        "",
        "| bias | original | step | n | words, ratio min / median / max | list lines | Flesch ease | long words | specifics | hedges | exclamations | cosine |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in steps:
        cells = [row["bias"], row["original"], row["step"], str(row["n"])]
        cells.append(" / ".join(f"{one:.2f}" for one in row["word_ratio"]))
        cells += [_difference(row["features"][name]) for name in FEATURES[1:]]
        lines.append(f"| {' | '.join([*cells, format(row['cosine']['value'], '.2f')])} |")
    return lines


def card_block(
    drift: Sequence[Json], steps: Sequence[Json], nearest: Json, backs: Mapping[str, Json], read_now: Mapping[str, Json]
) -> str:
    """The measured part of the data card."""
    lines = [
        START,
        "Mean difference of the side with the bias from the side without it (standardised); the bias itself in italics. *Alike* is the",
        "share of contrasts that differ in the bias and in nothing else beyond the limits that an audit sets (words within 15%, the",
        "layout kept, Flesch ease within 10, specifics, hedges, exclamations; the bias's own features exempt).",
        "",
        "| bias | made by | n | words, ratio min / median / max | list lines | Flesch ease | long words | specifics | hedges | exclamations | cosine | alike |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in drift:
        cells = [row["bias"], row["direction"], str(row["n"]), " / ".join(f"{one:.2f}" for one in row["word_ratio"])]
        cells += [_difference(row["features"][name]) for name in FEATURES[1:]]
        cells += [format(row["cosine"]["value"], ".2f"), f"{row['alike']['value']:.0%}"]
        lines.append(f"| {' | '.join(cells)} |")
    lines += [
        "",
        "Alike in the ways back: " + ", ".join(f"{bias} {_percent(row['alike'])}" for bias, row in backs.items()) + ".",
        *step_lines(steps),
        "",
        f"Nearest questions of two parts, of {nearest['questions']}: cosine {nearest['cosine']:.3f} "
        f"(\u201c{nearest['pair'][0][1]}\u201d, {nearest['pair'][0][0]}; \u201c{nearest['pair'][1][1]}\u201d, {nearest['pair'][1][0]}).",
        "",
        "Language models that had not written the texts read them, sides in random order, the key hidden: first a random fifth of",
        "the contrasts, the quality pairs and the training pairs that there were then; later everything that is measured or taught; and",
        "the ways back of the triples by themselves (rewrite against rewrite of the rewrite, without the original). A contrast passes where",
        "the reader named the side with the bias, found nothing else changed and the plain side correct; a pair where the reader chose the",
        "sound side, and an answer of `samples`, read by itself, where it was found right or wrong as it was written to be; since the second reading an item also fails where anything in it should be rewritten, a clumsy phrase among them. What",
        "failed in what is measured was rewritten, and a rewritten text is another text: `readings.jsonl` holds a hash of the text that was",
        "read (`text`; none where a text was edited at an unknown time about its reading), and the table counts readings of the",
        "present texts alone. What failed in `train.jsonl` and `lessons.jsonl` stays until the embedded model is trained anew, since it was",
        "taught these very texts. A triple of which a reader named the wrong side counts as not flipped, and is left out of RATE.",
        "",
        "| texts | n | read as they are now | by two or more | passed every reading | right side named by all |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, row in read_now.items():
        passed = row["passed"]
        cells = [
            name,
            row["texts"],
            passed["n"] if passed else 0,
            row["read_twice_or_more"],
            _percent(passed).partition(", n")[0] if passed else "not read yet",
            row["right_side"],
        ]
        lines.append(f"| {' | '.join(map(str, cells))} |")
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


def checks(nearest: Json, drift: Sequence[Json], backs: Mapping[str, Json]) -> list[Check]:
    shares = {f"{row['bias']}, {row['direction']}": row["alike"] for row in drift}
    shares |= {f"ways back, {bias}": row["alike"] for bias, row in backs.items()}
    found = [
        Check(f"{name}: at least {PASSED:.0%} differ in the bias alone", _percent(one), one["value"] >= PASSED)
        for name, one in shares.items()
    ]
    turns = [one for part in TURNS for one in authored_contrasts(part, [*SECOND_TURNS.values()])]
    contrasts = [*audit_contrasts(), *turns, *map(_back_contrast, authored_triples())]
    lists = [
        one.id
        for one in contrasts
        if (n_list_lines(one.perturbed) > 0) != (one.bias == "structure") or n_list_lines(one.base) > 0
    ]
    found += [
        Check("list lines on the biased side of structure alone", f"{len(lists)} otherwise", not lists),
        Check("no paraphrase in two parts", f"nearest {nearest['cosine']:.3f}", nearest["cosine"] < ALIKE),
    ]
    return found + reading_checks(list(read_jsonl(READINGS)))


def reading_checks(rows: Sequence[Json]) -> list[Check]:
    """Coverage of the present texts by readings, the number that pass every reading, and the agreement of readers of one text."""
    texts, read_now = texts_to_read(), of_present_texts(rows)
    unread = Counter(part for text, (part, _) in texts.items() if text not in read_now)
    said = f"{unread.total()} of {len(texts)} not" + "".join(f", {n} of {part}" for part, n in sorted(unread.items()))
    found = [Check("every text was read in its present wording", said, not unread)]
    passes = {text: all(row["passed"] for row in read) for text, read in read_now.items()}
    for part in SHEETS:
        of_part = [passed for text, passed in passes.items() if texts[text][0] == part]
        share_passed = sum(of_part) / max(1, len(of_part))
        found.append(
            Check(f"{part}: {PASSED:.0%} of present texts pass every reading",
                  f"{share_passed:.1%} of {len(of_part)}" if of_part else "none was read", share_passed >= PASSED)
        )  # fmt: skip
    for first, second, verdicts in double_readings(rows):
        kappa = cohens_kappa(verdicts)
        found.append(
            Check(f"readings {first} and {second} of the same texts agree: kappa {LEAST_KAPPA:g} or more",
                  f"{sum(a == b for a, b in verdicts)} of {len(verdicts)} alike, "
                  + ("all pass in both" if kappa is None else f"kappa {kappa:.2f}"),
                  kappa is None or kappa >= LEAST_KAPPA)
        )  # fmt: skip
    return found


def double_readings(rows: Sequence[Json]) -> list[tuple[int, int, list[tuple[bool, bool]]]]:
    """Pairs of readings that share texts enough, and whether each shared text passed in the one and in the other."""
    passed: dict[int, dict[str, bool]] = {}
    for row in rows:
        if row["text"] is not None:
            passed.setdefault(row["reading"], {})[row["text"]] = row["passed"]
    found = []
    for first, second in itertools.combinations(sorted(passed), 2):
        shared = sorted(passed[first].keys() & passed[second].keys())
        if len(shared) >= FEWEST_SHARED:
            found.append((first, second, [(passed[first][text], passed[second][text]) for text in shared]))
    return found


def cohens_kappa(verdicts: Sequence[tuple[bool, bool]]) -> float | None:
    """Agreement beyond chance; None where both readers said the same of everything, which leaves chance no room."""
    n = len(verdicts)
    first, second = (sum(both[side] for both in verdicts) / n for side in (0, 1))
    by_chance = first * second + (1 - first) * (1 - second)
    return None if by_chance == 1 else (sum(a == b for a, b in verdicts) / n - by_chance) / (1 - by_chance)


def _percent(one: Json) -> str:
    return f"{one['value']:.0%} [{100 * one['low']:.0f}, {100 * one['high']:.0f}], n = {one['n']}"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--draw", type=Path)
    parser.add_argument("--share", type=float, help="of all texts; without it, those not read in their present wording")
    parser.add_argument("--read", type=Path)
    parser.add_argument("--reader")
    parser.add_argument("--reading", type=int, help="its number in readings.jsonl")
    asked = parser.parse_args()
    if asked.read and (asked.reader is None or asked.reading is None):
        parser.error("--read needs --reader (as in answers-NAME.jsonl) and --reading (its number)")
    if asked.draw:
        draw(asked.draw, asked.share)
        return 0
    if asked.read:
        read(asked.read, asked.reader, asked.reading)
    drift, steps, nearest, backs = drift_rows(), step_rows(), nearest_questions(), alike_backs()
    block = card_block(drift, steps, nearest, backs, readings())
    CARD.write_text(with_block(CARD.read_text(encoding="utf-8"), block), encoding="utf-8")
    numbers = {
        "command": "python -m evals.method.embedded_texts", "drift": drift, "steps": steps, "nearest": nearest,
        "alike_ways_back": backs, "readings_of_present_texts": readings(),
    }  # fmt: skip
    return finish("embedded_texts", (__doc__ or "").split("\n\n")[0], checks(nearest, drift, backs), numbers)


if __name__ == "__main__":
    sys.exit(main())
