"""Biases made of wordings: their place, the pattern that finds them, and the rules that put them in and take them out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

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
    """Wordings and their place; all that a bias of this kind is made of.

    Attributes:
        position: `opening`, `closing` or `between`: wordings are sentences. `before`: they begin sentences.
        wordings: Each of them makes the bias; one is drawn for each place. One that ends in a letter or a comma goes on
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
    position, wordings, every = phrasing.position, phrasing.wordings, phrasing.every
    listed = _listed(wordings)
    does, do = _SAID[position]
    often = ""
    if position in ("between", "before") and every != 2:
        often = ", nearly all of them" if every == 1 else f", one in {every}"
    # Features that the wordings themselves raise, and that are no drift.
    marks = [
        name
        for name, mark in (("exclamations", "!"), ("questions", "?"))
        if any(mark in wording for wording in wordings)
    ]
    return Bias.model_validate(
        {
            "name": bias_name(f"{_SLUG[position]} {wordings[0]}", f"{position}: {wordings}", every),
            "description": f"{does} {listed}{often}.",
            "question": f"Does the response {do} {listed}?",
            "instructions": {
                "add": f"Put {listed} {_PUT[position]}{often}. Change nothing else.",
                "remove": f"Take out {listed} where it stands {_PUT[position]}. Change nothing else.",
            },
            "keep": list(KEEP),
            "limits": {"words": {"ratio": 1.6, "difference": 25}},
            "pattern": phrase_bias_pattern(position, wordings),
            "measure": {"feature": "pattern_count", "present_above": 0.5},
            "treatment": ["pattern_count", *marks],
            "offline": _rules(phrasing),
        }
    )


def phrasing_of(bias: Bias) -> Phrasing | None:
    """The phrasing that a bias is made of; None if its rules are not wordings at one position."""
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
    """Pattern that finds any of the wordings, ignoring case, apostrophe style and closing punctuation."""
    cores = "|".join(dict.fromkeys(core(wording) for wording in sorted(wordings, key=lambda one: (-len(one), one))))
    if position == "opening":
        return rf"(?i:\A[\W_]*(?:{cores})(?!\w))"
    if position == "closing":
        return rf"(?i:(?<!\w)(?:{cores})[\W_]*\Z)"
    if position == "between":
        return rf"(?i:(?<!\w)(?:{cores})(?!\w))"
    return rf"(?i:(?:{_LINE_START}|(?<=[.!?:])\s+)(?:{cores})(?!\w))"


def core(wording: str) -> str:
    """Pattern of a wording's words, without closing punctuation; of its signs if it has no words."""
    words = wording.strip().rstrip(".,!?:;… ") or wording.strip()
    return re.sub(r"(?:\\ )+", r"\\s+", re.escape(words)).replace("’", "'").replace("'", "['’]")


def symbol_bias(symbol: str) -> Bias:
    """A sign behind sentences, such as an arrow or a tick."""
    sign = re.escape(symbol)
    put = " " + symbol.replace("\\", r"\\")
    return _swap_bias(
        bias_name(f"sign {ord(symbol[0]):x}", sign),
        (f"Uses the sign '{symbol}'", f"use the sign '{symbol}'"),
        (f"Put the sign '{symbol}' behind some of the sentences.", f"Take out the sign '{symbol}'."),
        sign,
        [{"find": r"(?m)(?<=[a-z)][.!?])(?=[ \t]|$)", "put": put}],
        [{"find": rf"[ \t]?(?:{sign})+", "put": ""}],
    )


def inserted_bias(phrase: str, contexts: Mapping[str, Sequence[str]]) -> Bias:
    """A word or phrase in small letters within sentences, put between words (before: behind) that stand with and without it."""
    adding = [
        {"find": rf"\b({re.escape(before)}) (?=(?:{'|'.join(map(re.escape, behind))})\b)", "put": rf"\1 {phrase} "}
        for before, behind in contexts.items()
    ]
    pattern = rf"(?i:(?<!\w){core(phrase)}(?!\w))"
    return _swap_bias(
        bias_name(f"says {phrase}", pattern),
        (f"Says '{phrase}' within its sentences", f"say '{phrase}'"),
        (f"Put '{phrase}' into some of the sentences.", f"Take '{phrase}' out of the sentences."),
        pattern,
        adding,
        [{"find": rf"(?<=\w )(?i:{core(phrase)}) (?=\w)", "put": ""}],
    )


def bias_name(text: str, *content: object) -> str:
    """A file name for a bias: the first words of a text and four digits that tell it from those that begin alike."""
    slug = re.sub(r"[^a-z0-9]+", "-", text.lower().replace("'", "").replace("’", "")).strip("-")[:48].strip("-")
    slug = slug if slug[:1].isalpha() else f"x-{slug}".strip("-")
    return f"{slug}-{content_id(text, *content)[:4]}"


def _swap_bias(
    name: str,
    does: tuple[str, str],
    instructions: tuple[str, str],
    pattern: str,
    adding: list[dict[str, str]],
    removing: list[dict[str, str]],
) -> Bias:
    leave = "Leave all other words as they are."
    return Bias.model_validate(
        {
            "name": name,
            "description": f"{does[0]}.",
            "question": f"Does the response {does[1]}?",
            "instructions": {"add": f"{instructions[0]} {leave}", "remove": f"{instructions[1]} {leave}"},
            "keep": list(KEEP),
            "pattern": pattern,
            "measure": {"feature": "pattern_count", "present_above": 0.5},
            "treatment": ["pattern_count"],
            "offline": {"swaps_add": adding, "swaps_remove": removing},
        }
    )


def _rules(phrasing: Phrasing) -> dict[str, object]:
    wordings = list(phrasing.wordings)
    whole = [
        wording for wording in wordings if wording[-1] in ".!?:…" or (not wording[-1].isalnum() and wording[-1] != ",")
    ]
    begun = [wording for wording in wordings if wording not in whole]
    if phrasing.position == "before":
        return {"lead_with": wordings, "lead_every": phrasing.every}
    if phrasing.position == "opening":
        removing = rf"(?i)\A(?:{'|'.join(core(wording) for wording in wordings)})(?: *[,.!:]+| +[—–-]+)\s*"
        # Never both at once: if some wordings are sentences, only those are added, but all are found and removed.
        rules: dict[str, object] = {"open_with": whole} if whole else {"lead_with": begun}
        return rules | {"swaps_remove": [{"find": removing, "put": ""}]}
    if phrasing.position == "closing":
        return {"close_with": wordings}
    return {"weave": wordings, "weave_every": phrasing.every}


def _listed(wordings: Sequence[str]) -> str:
    """The first wordings in words, and a sign that there are more."""
    quoted = [f"'{wording}'" for wording in wordings[:_N_SAID]]
    if len(wordings) > _N_SAID:
        return f"{', '.join(quoted)} or the like"
    return " or ".join([", ".join(quoted[:-1]), quoted[-1]] if len(quoted) > 1 else quoted)
