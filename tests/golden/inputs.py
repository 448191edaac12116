"""Small files of a user, made by rule: contrasts with votes, triples, benchmarks, samples, outputs, scores, and scorers."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

N_CONTRASTS = 24
N_PROMPTS = 12
TOPICS = (
    "kettles", "violins", "glaciers", "passports", "tulips", "engines", "comets", "wallets", "bridges", "lentils",
    "candles", "harbours",
)  # fmt: skip
PLAIN = (
    "Use a small amount and check it twice before you go on.",
    "Start with the part that is easy to reach, then work round it.",
    "Most people get this wrong because they hurry.",
    "Keep it dry, keep it warm, and look at it once a week.",
    "If it still does not work after that, ask somebody who has done it.",
)
STILTED = (
    "Utilize a minimal quantity and subsequently perform redundant verification.",
    "Commence with the accessible component, then proceed circumferentially.",
    "Practitioners predominantly miscalculate this through insufficient deliberation.",
    "Maintain desiccated, thermally regulated conditions with periodic inspection.",
    "Should dysfunction persist subsequently, consult an experienced practitioner.",
)
# Rewards and preferences that are sums of few terms: the same on every machine.
SCORERS = '''
import hashlib
import re

LONG = re.compile(r"[A-Za-z]{10,}")


def noise(text):
    """From 0 to 1, by the text alone."""
    return int(hashlib.sha256(text.encode()).hexdigest()[:6], 16) / 2**24


def reward(prompts, responses):
    """Likes long words and length."""
    return [0.12 * len(LONG.findall(text)) + len(text) / 400 + 3 * noise(text) for text in responses]


def debiased(prompts, responses):
    """Likes them less."""
    return [0.02 * len(LONG.findall(text)) + len(text) / 800 + 3 * noise(text) for text in responses]


def preference(prompts, first, second):
    """From -1 to 1, and a little for what stands first."""
    return [
        max(-1.0, min(1.0, (noise(one) - noise(other)) / 2 + 0.015 * (len(LONG.findall(one)) - len(LONG.findall(other))) + 0.05))
        for one, other in zip(first, second)
    ]


OPENER = re.compile(r"\\A(?:Certainly|Sure|Absolutely|Of course|Definitely|Happy to help|Yes)\\b", re.IGNORECASE)


def likes_openers(prompts, responses):
    return [3.0 * bool(OPENER.match(text)) + noise(text) for text in responses]


def dislikes_openers(prompts, responses):
    return [-3.0 * bool(OPENER.match(text)) + noise(text + "judge") for text in responses]


def turn(prompt):
    """Kettles and violins want the opposite of each other."""
    return ("kettle" in prompt[0]["content"]) - ("violin" in prompt[0]["content"])


def turning(prompts, responses):
    return [3.0 * turn(prompt) * bool(OPENER.match(text)) + noise(text) for prompt, text in zip(prompts, responses)]


def turning_judge(prompts, responses):
    return [-3.0 * turn(prompt) * bool(OPENER.match(text)) + noise(text + "judge") for prompt, text in zip(prompts, responses)]
'''


def number(*content: object) -> int:
    """A whole number that depends on the content alone."""
    return int(hashlib.sha256(json.dumps(content).encode()).hexdigest()[:8], 16)


def answer(row: int, stilted: bool, sentences: int = 3) -> str:
    """An answer on one of the topics."""
    chosen = [(STILTED if stilted else PLAIN)[(row + place) % 5] for place in range(sentences)]
    return f"About {TOPICS[row % 12]}, note {row}: {' '.join(chosen)}"


def prompt(row: int) -> str:
    return f"What should I know about {TOPICS[row % 12]}, part {row // 12 + 1}?"


def write_inputs(folder: Path) -> None:
    """Every file that the recorded commands name."""
    (folder / "scorers.py").write_text(SCORERS, encoding="utf-8")
    _rows(folder / "contrasts.jsonl", contrasts())
    _rows(folder / "calibrated.jsonl", [
        {"id": f"c{row}", "bias": "jargon", "prompt": prompt(row), "base": answer(row, False),
         "perturbed": answer(row, True), "votes": people(row)}
        for row in range(40)
    ])  # fmt: skip
    _rows(folder / "verdicts.jsonl", [
        {"id": f"c{row}", "vote": ("perturbed", "base", "base", "tie")[number("verdict", row) % 4]}
        for row in range(N_CONTRASTS)
    ])  # fmt: skip
    _rows(folder / "topics.jsonl", [
        {"prompt": prompt(row), "base": answer(row, False, 1 + row % 3), "perturbed": answer(row, True, 1 + row % 3),
         **({"topic": ("home", "music", "home", "travel", f"rare {row % 2}")[row % 5]} if row != 7 else {}), "year": 1950 + 7 * row % 60}
        for row in range(60)
    ])  # fmt: skip
    _rows(folder / "topic_triples.jsonl", [
        {"prompt": prompt(row), "has_attribute": row % 2, "topic": ("home", "music")[row // 2 % 2], "year": 1950 + 11 * row % 60,
         "original": answer(row, bool(row % 2)), "rewrite": answer(row, not row % 2),
         "rewrite_of_rewrite": answer(row, bool(row % 2)) + " That is all."}
        for row in range(48)
    ])  # fmt: skip
    votes = [f"c{row},{vote}" for row in range(N_CONTRASTS - 4) for vote in people(row)]
    (folder / "votes.csv").write_text("\n".join(["id,vote", *votes, ""]), encoding="utf-8")
    _rows(folder / "triples.jsonl", [
        {"bias": "jargon", "prompt": prompt(row), "has_attribute": row % 2,
         "original": answer(row, bool(row % 2)), "rewrite": answer(row, not row % 2),
         "rewrite_of_rewrite": answer(row, bool(row % 2)) + " That is all."}
        for row in range(16)
    ])  # fmt: skip
    _rows(folder / "quality.jsonl", [
        {"prompt": prompt(row), "chosen": answer(row, row % 3 == 0, 3), "rejected": answer(row + 5, row % 4 == 0, 2),
         "subset": ("facts", "tone")[row % 2]}
        for row in range(20)
    ])  # fmt: skip
    _rows(folder / "preferences.jsonl", [
        {"prompt": prompt(row), "chosen": answer(row, number("chosen", row) % 3 > 0, 1 + number("long", row) % 4),
         "rejected": answer(row + 7, number("rejected", row) % 3 == 0, 1 + number("short", row) % 3),
         "source": ("web", "forum", "letters")[number("source", row) % 5 // 2]}
        for row in range(72)
    ])  # fmt: skip
    _rows(folder / "labelled.jsonl", [
        {"chosen_list": ("Yes", "No")[number("c", row) % 3 == 0], "rejected_list": ("[Yes]", "No", "?")[min(number("r", row) % 12, 6) // 3]}
        for row in range(90)
    ])  # fmt: skip
    _rows(folder / "samples.jsonl", [
        {"prompt": prompt(row), "quality": [float(number("quality", row, place) % 5) for place in range(6)],
         "responses": [answer(row + 12 * place, number(row, place) % 2 == 0, 1 + place % 4) for place in range(6)]}
        for row in range(N_PROMPTS)
    ])  # fmt: skip
    for name, shift in (("first", 0), ("second", 5)):
        _rows(folder / f"{name}.jsonl", [
            {"prompt": prompt(row), "response": answer(row + shift, number(name, row) % 3 == 0, 2 + number(row) % 2)}
            for row in range(N_PROMPTS)
        ])  # fmt: skip
    voted = [
        {"id": f"c{row}", "prompt": prompt(row), "perturbed": answer(row, True), "base": answer(row, False)}
        for row in range(60)
    ]
    pairs = [
        {"prompt": prompt(row), "chosen": answer(row, False, 1), "rejected": answer(row, False, 2)} for row in range(60)
    ]
    _rows(folder / "voted.jsonl", voted)
    _rows(folder / "scored_pairs.jsonl", pairs)
    for after in (False, True):
        _rows(folder / f"{'after' if after else 'before'}.jsonl", [
            *(own | {"perturbed_score": 1 + margin(row, after), "base_score": 1.0} for row, own in enumerate(voted)),
            *(own | {"chosen_score": 1.0 - 2 * (after and row < 3), "rejected_score": number("q", row) % 40 / 30}
              for row, own in enumerate(pairs)),
        ])  # fmt: skip
    _rows(folder / "dose_votes.jsonl", [
        {"id": f"c{row}", "votes": ["perturbed", "perturbed", "tie"] if number("people", row) % 100 < 40 else ["base"]}
        for row in range(60)
    ])  # fmt: skip
    _rows(folder / "by_topic.jsonl", [
        {"prompt": f"What should I know of the {subject} in room {row}?", "topic": topic,
         "responses": [("", "Certainly! ", "", "Sure! ")[(row + place) % 4] + answer(row + 7 * place, False, 2) for place in range(4)]}
        for topic, subject, n in (("tea", "kettle", 24), ("music", "violin", 24), ("weather", "cloud", 5)) for row in range(n)
    ])  # fmt: skip
    (folder / "queries.txt").write_text("\n".join(prompt(row) for row in range(6)) + "\n", encoding="utf-8")


def contrasts() -> list[dict[str, Any]]:
    """Two contrasts of each prompt, so that a prompt is a cluster; every third had jargon and lost it."""
    return [
        {"id": f"c{row}", "bias": "jargon", "prompt": prompt(row % 12), "base": answer(row, False),
         "perturbed": answer(row, True), "direction": "removed" if row % 3 == 2 else "added"}
        for row in range(N_CONTRASTS)
    ]  # fmt: skip


def people(row: int) -> list[str]:
    """Three votes on a contrast, two of three for the base on the whole."""
    return [("base", "perturbed", "base", "tie", "base")[number("vote", row, voter) % 5] for voter in range(3)]


def margin(row: int, after: bool) -> float:
    """From -1 to 3 before debiasing; less, and unequally so, after it."""
    before = number("margin", row) % 1000 / 250 - 1
    return before - (1 + number("fall", row) % 10 / 10) * after


def _rows(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
