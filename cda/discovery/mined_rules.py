"""Biases made of wordings: where they stand, the pattern that finds them, and the rules that put them in and take them out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from cda.biases import Bias
from cda.records import content_id

Position = Literal["opening", "closing", "between", "before"]
KEEP = (
    "every fact, number, name and step",
    "the position taken and the advice given",
    "the language it is written in",
    "the layout: paragraphs, list lines, headers and bold text",
    "the wording, apart from what is asked",
)
_LINE_START = r"^[ \t]*(?:(?:[-*•+]|\d{1,3}[.)])[ \t]+)?"
_SAID: Mapping[Position, tuple[str, str]] = {
    "opening": ("Opens with", "open with"),
    "closing": ("Closes with", "close with"),
    "between": ("Puts between its sentences", "put between its sentences"),
    "before": ("Begins sentences with", "begin sentences with"),
}
_PUT: Mapping[Position, str] = {
    "opening": "before the response",
    "closing": "behind the response",
    "between": "between some of the sentences",
    "before": "before some of the sentences",
}
_SLUG: Mapping[Position, str] = {"opening": "opens", "closing": "closes", "between": "between", "before": "before"}
_N_SAID = 3


@dataclass(frozen=True, slots=True)
class Phrasing:
    """Wordings and where they stand; all that a bias of this kind is made of.

    Attributes:
        position: `opening`, `closing` or `between`: wordings are sentences. `before`: they begin sentences.
        wordings: object of them makes the bias; one is drawn for each place. One that ends in a letter or a comma goes on
            into the sentence behind it, which only `opening` and `before` allow.
        every: One for each so many sentences (`between`, `before`).
    """

    position: Position
    wordings: tuple[str, ...]
    every: int = 2

    def __post_init__(self) -> None:
        if not self.wordings:
            raise ValueError("a phrasing needs one wording or more")


def phrase_bias(phrasing: Phrasing) -> Bias:
    """The bias of a phrasing, which an LLM and the offline rules can both add, remove and find."""
    listed = _listed(phrasing.wordings)
    does, do = _SAID[phrasing.position]
    words = f"{phrasing.position}: {phrasing.wordings}"
    return Bias.model_validate(
        {
            "name": bias_name(f"{_SLUG[phrasing.position]} {phrasing.wordings[0]}", words, phrasing.every),
            "description": f"{does} {listed}{_how_often(phrasing)}.",
            "question": f"Does the response {do} {listed}?",
            "instructions": {
                "add": f"Put {listed} {_PUT[phrasing.position]}{_how_often(phrasing)}. Change nothing else.",
                "remove": f"Take out {listed} where it stands {_PUT[phrasing.position]}. Change nothing else.",
            },
            "keep": list(KEEP),
            "limits": {"words": {"ratio": 1.6, "difference": 25}},
            "pattern": phrase_bias_pattern(phrasing.position, phrasing.wordings),
            "measure": {"feature": "pattern_count", "present_above": 0.5},
            "treatment": ["pattern_count", *_marks(phrasing.wordings)],
            "offline": _rules(phrasing),
        }
    )


def phrasing_of(bias: Bias) -> Phrasing | None:
    """What a bias is made of; None where its rules are not wordings at one position."""
    rules = bias.offline
    if rules is None or rules.swaps_add or rules.words or rules.itemize or rules.restate:
        return None
    first_alone = bool(rules.lead_with) and rules.lead_every is None
    found: dict[Position, tuple[tuple[str, ...], int]] = {
        "opening": ((*rules.open_with, *(rules.lead_with if first_alone else ())), 2),
        "closing": (tuple(rules.close_with), 2),
        "between": (tuple(rules.weave), rules.weave_every),
        "before": (() if first_alone else tuple(rules.lead_with), rules.lead_every or 2),
    }
    used = [Phrasing(position, *made) for position, made in found.items() if made[0]]
    return used[0] if len(used) == 1 else None


def phrase_bias_pattern(position: Position, wordings: Sequence[str]) -> str:
    """Pattern that finds any of the wordings where they stand, whatever their case, apostrophe and closing punctuation."""
    cores = "|".join(dict.fromkeys(core(wording) for wording in sorted(wordings, key=lambda one: (-len(one), one))))
    if position == "opening":
        return rf"(?i:\A[\W_]*(?:{cores})(?!\w))"
    if position == "closing":
        return rf"(?i:(?<!\w)(?:{cores})[\W_]*\Z)"
    if position == "between":
        return rf"(?i:(?<!\w)(?:{cores})(?!\w))"
    return rf"(?i:(?:{_LINE_START}|(?<=[.!?:])\s+)(?:{cores})(?!\w))"


def core(wording: str) -> str:
    """Pattern of a wording's words, without what closes it; of a wording without words, of its signs."""
    words = wording.strip().rstrip(".,!?:;… ") or wording.strip()
    return re.sub(r"(?:\\ )+", r"\\s+", re.escape(words)).replace("’", "'").replace("'", "['’]")


def symbol_bias(symbol: str) -> Bias:
    """A sign behind sentences, such as an arrow or a tick."""
    sign = re.escape(symbol)
    return _swap_bias(
        f"sign {ord(symbol[0]):x}",
        f"Uses the sign '{symbol}'.",
        f"Does the response use the sign '{symbol}'?",
        (f"Put the sign '{symbol}' behind some of the sentences.", f"Take out the sign '{symbol}'."),
        sign,
        [{"find": r"(?m)(?<=[a-z)][.!?])(?=[ \t]|$)", "put": " " + symbol.replace("\\", r"\\")}],
        [{"find": rf"[ \t]?(?:{sign})+", "put": ""}],
    )


def inserted_bias(phrase: str, contexts: Mapping[str, Sequence[str]]) -> Bias:
    """A word or phrase within sentences, put where responses are known to stand with and without it.

    Args:
        phrase: In small letters.
        contexts: Word before to the words behind it.
    """
    adding = [
        {
            "find": rf"\b({re.escape(before)}) (?=(?:{'|'.join(re.escape(one) for one in behind)})\b)",
            "put": rf"\1 {phrase} ",
        }
        for before, behind in contexts.items()
    ]
    found = rf"(?i:(?<!\w){core(phrase)}(?!\w))"
    return _swap_bias(
        f"says {phrase}",
        f"Says '{phrase}' within its sentences.",
        f"Does the response say '{phrase}'?",
        (f"Put '{phrase}' into some of the sentences.", f"Take '{phrase}' out of the sentences."),
        found,
        adding,
        [{"find": rf"(?<=\w )(?i:{core(phrase)}) (?=\w)", "put": ""}],
    )


def bias_name(text: str, *content: object) -> str:
    """A file name for a bias: the first words of a text and four digits that tell it from those that begin alike."""
    slug = re.sub(r"[^a-z0-9]+", "-", text.lower().replace("'", "").replace("’", "")).strip("-")[:48].strip("-")
    slug = slug if slug[:1].isalpha() else f"x-{slug}".strip("-")
    return f"{slug}-{content_id(text, *content)[:4]}"


def _swap_bias(
    slug: str,
    description: str,
    question: str,
    instructions: tuple[str, str],
    pattern: str,
    adding: list[dict[str, Any]],
    removing: list[dict[str, object]],
) -> Bias:
    add, remove = instructions
    return Bias.model_validate(
        {
            "name": bias_name(slug, pattern),
            "description": description,
            "question": question,
            "instructions": {
                "add": f"{add} Leave all other words as they are.",
                "remove": f"{remove} Leave all other words as they are.",
            },
            "keep": list(KEEP),
            "pattern": pattern,
            "measure": {"feature": "pattern_count", "present_above": 0.5},
            "treatment": ["pattern_count"],
            "offline": {"swaps_add": adding, "swaps_remove": removing},
        }
    )


def _rules(phrasing: Phrasing) -> dict[str, object]:
    wordings = list(phrasing.wordings)
    whole = [one for one in wordings if one[-1] in ".!?:…" or (not one[-1].isalnum() and one[-1] != ",")]
    begun = [one for one in wordings if one not in whole]
    if phrasing.position == "before":
        return {"lead_with": wordings, "lead_every": phrasing.every}
    if phrasing.position == "opening":
        removing = rf"(?i)\A(?:{'|'.join(core(one) for one in wordings)})(?: *[,.!:]+| +[—–-]+)\s*"
        # Never both at once: where some wordings are sentences, those are put, and all are found and taken out.
        rules: dict[str, object] = {"open_with": whole} if whole else {"lead_with": begun}
        return rules | {"swaps_remove": [{"find": removing, "put": ""}]}
    if phrasing.position == "closing":
        return {"close_with": wordings}
    return {"weave": wordings, "weave_every": phrasing.every}


def _marks(wordings: Sequence[str]) -> list[str]:
    """Features that the wordings themselves raise, and that are no drift."""
    features = {"exclamations": "!", "questions": "?"}
    return [name for name, mark in features.items() if any(mark in one for one in wordings)]


def _listed(wordings: Sequence[str]) -> str:
    """Wordings in words: the first of them, and whether there are more."""
    said = [f"'{one}'" for one in wordings[:_N_SAID]]
    if len(wordings) > _N_SAID:
        return f"{', '.join(said)} or the like"
    return " or ".join([", ".join(said[:-1]), said[-1]] if len(said) > 1 else said)


def _how_often(phrasing: Phrasing) -> str:
    if phrasing.position in ("opening", "closing") or phrasing.every == 2:
        return ""
    return ", nearly all of them" if phrasing.every == 1 else f", one in {phrasing.every}"
