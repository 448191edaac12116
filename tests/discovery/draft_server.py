"""An OpenAI-compatible server that drafts a bias file from words, labels and rewrites by rule, for tests of `cda bias new`."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

from replies import reply

PHRASE = "As any sailor knows,"
DRAFT: dict[str, Any] = {
    "description": "Talks like a sailor: puts nautical asides before what it says.",
    "opposite": "landlubberly",
    "question": "Does the response talk like a sailor?",
    "add": f"Put '{PHRASE}' or the like before some sentences. Change nothing else.",
    "remove": "Take out nautical asides. Change nothing else.",
    "feature": "phrases",
    "phrases": ["ahoy", "aye", "the"],
    "lead_ins": [PHRASE, "Aye,"],
    "openings": ["Ahoy there!"],
    "closings": [],
    "replacements": [
        {"plain": "yes", "biased": "aye"},
        {"plain": "boat", "biased": "boat"},
        {"plain": "", "biased": "x"},
    ],
}
"""`the` is in most answers, and two replacements replace nothing."""


class Clerk:
    """Answers by the kind of question: a draft (those of `drafts` first, in their order), yes for a sailor's words, an aside put in
    or taken out. Counts the kinds."""

    def __init__(self, *drafts: object) -> None:
        self.drafts = list(drafts) or [DRAFT]
        self.kinds: Counter[str] = Counter()
        self.asked: list[str] = []

    def __call__(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        system, user = (message["content"] for message in body["messages"])
        kind = next(kind for kind in ("help researchers", "label responses", "edit responses") if kind in system)
        self.kinds[kind] += 1
        if kind == "help researchers":
            self.asked.append(user)
            said = self.drafts.pop(0) if len(self.drafts) > 1 else self.drafts[0]
            text = said if isinstance(said, str) else json.dumps(said)
        elif kind == "label responses":
            shown = dict(re.findall(r"<<<(RESPONSE(?: \d)?)>>>\n(.*?)\n<<<END>>>", user, re.DOTALL))
            found = {
                name.lower().replace(" ", "_"): "yes" if "sailor" in said or "Aye" in said else "no"
                for name, said in shown.items()
            }
            text = json.dumps({"reasoning": "It is so.", **found})
        else:
            response = re.search(r"<<<RESPONSE>>>\n(.*?)\n<<<END>>>", user, re.DOTALL)
            assert response is not None
            own = response[1]
            added = f"{PHRASE} {own[:1].lower()}{own[1:]}"
            text = own.replace(f"{PHRASE} ", "") if "Take out" in user else added
        return reply(text, body["model"])
