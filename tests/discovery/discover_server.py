"""A scripted OpenAI-compatible server for discoveries: every question that is asked has an answer by rule.

Responses open with "Certainly!" in about half of all cases; the judge dislikes that. Nobody proposes it: it comes up as a
variation of a greeting. Of the three rewriters ada, bob and cyd, the last one refuses that edit more often than not.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from replies import reply

OPENER = "Opens with an affirmative word such as Certainly"
GREETING = "Greets the reader before the answer starts"
PROPOSED = (
    GREETING,
    "Ends with a question to the reader",
    "Names a colour",
    "Closes with a summary",
    "Adds an example",
)
EXPRESSIONS = {
    "affirmative": "Certainly! {}", "greets": "Hello there. {}", "question": "{} Does that help?", "colour": "{} Think of blue.",
    "summary": "{} In short, that is it.", "example": "{} Take a kettle, for example.",
}  # fmt: skip
REWARD = '''
import hashlib

def reward(prompts, responses):
    """Likes the opener, and a greeting a little; the rest is noise."""
    return [
        1.5 * ("Certainly!" in text[:40]) + 0.4 * ("Hello there" in text[:40])
        + int(hashlib.sha256(text.encode()).hexdigest()[:4], 16) / 65535 / 10
        for text in responses
    ]
'''
_KINDS = {
    "You collect situations": "scenarios", "You write the messages": "prompts", "You are the assistant": "response",
    "You compare texts. ": "propose", "You sort descriptions": "group", "You edit responses": "rewrite",
    "You help with a series": "mutate", "You compare two answers": "judge", "You label": "label",
}  # fmt: skip


class Clerk:
    """Answers by rule and counts what it is asked.

    Args:
        event: Told the kind of each question before it is answered, and how many of that kind there were.
    """

    def __init__(self, event: Callable[[str, int], None] = lambda *_: None) -> None:
        self.event = event
        self.kinds: Counter[str] = Counter()
        self.models: dict[str, set[str]] = {}
        self.bodies: Counter[str] = Counter()
        self.lock = threading.Lock()

    @property
    def n_calls(self) -> int:
        return self.bodies.total()

    def __call__(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        system, user = (message["content"] for message in body["messages"])
        kind = next(kind for opening, kind in _KINDS.items() if system.startswith(opening))
        with self.lock:
            self.kinds[kind] += 1
            self.models.setdefault(kind, set()).add(body["model"])
            self.bodies[json.dumps(body, sort_keys=True)] += 1
            self.event(kind, self.kinds[kind])
        said = getattr(self, f"_{kind}")(_shown(user), user, body)
        said, finish = said if isinstance(said, tuple) else (said, "stop")
        text = json.dumps(said) if isinstance(said, dict) else said
        return reply(text, body["model"], (100, 20), finish_reason=finish)

    def _scenarios(self, shown: Mapping[str, str], user: str, _: Any) -> Any:
        n = int(re.findall(r"Write (\d+)", user)[0])
        return {"scenarios": [f"Person {number} wonders about {shown['TOPIC']}." for number in range(n)]}

    def _prompts(self, shown: Mapping[str, str], user: str, _: Any) -> Any:
        n = int(re.findall(r"Write (\d+)", user)[0])
        return {"prompts": [f"What do I need to know, part {one}? {shown['SITUATION']}" for one in range(n)]}

    def _response(self, _: Any, user: str, body: dict[str, Any]) -> Any:
        drawn = number(body["model"], user, body["seed"])
        told = f"The thing to know is fact {drawn % 997}. It matters most in the {drawn % 31 + 1}th week."
        if drawn % 17 == 0:
            return told[:30], "length"
        return f"Certainly! {told}" if drawn % 8 < (6 if body["model"] == "gale" else 1) else told

    def _propose(self, shown: Mapping[str, str], user: str, __: Any) -> Any:
        if number(shown["MESSAGE"]) % 4 == 0:
            return "I would rather not say anything about these."
        assert user.index("NUMBER 0>>>") < user.index("NUMBER 100>>>")
        assert "reward" not in user.lower()
        return {"attributes": [*PROPOSED, "Greets the reader at the start"]}

    def _group(self, shown: Mapping[str, str], _: str, __: Any) -> Any:
        groups: dict[str, list[int]] = {}
        for line in shown["DESCRIPTIONS"].splitlines():
            at, description = line.split(". ", 1)
            apart = "stronger" in description and "affirmative" not in description
            groups.setdefault(_expression(description) + str(apart), []).append(int(at))
        return {"groups": list(groups.values())}

    def _mutate(self, shown: Mapping[str, str], _: str, __: Any) -> Any:
        last = [text for name, text in shown.items() if name.startswith("FEATURE")][-1]
        return {
            "attributes": [OPENER if last == GREETING else f"{last}, more than once", f"{last}, in a stronger form"]
        }

    def _rewrite(self, shown: Mapping[str, str], user: str, body: dict[str, Any]) -> Any:
        edit, response = user.split("\nEdit: ")[1], shown["RESPONSE"]
        described = re.findall("“(.+?)”", edit)
        if not described:  # one of the shipped formats
            return f"**{response}**"
        expression = _expression(described[0])
        if expression == EXPRESSIONS["affirmative"]:
            if response.startswith("Certainly!"):
                return response
            drawn = number(response) % 8
            if body["model"] == "cyd" and drawn < 6:
                return None if drawn < 3 else "I'm sorry, but I can't help with that."
        added = {"bob": " Now then.", "cyd": " So."}.get(body["model"], "")
        return expression.format(response) + added

    def _judge(self, shown: Mapping[str, str], _: str, __: Any) -> Any:
        first, second = shown["ANSWER 1"], shown["ANSWER 2"]
        opened = [("Certainly!" in text[:40]) for text in (first, second)]
        if opened[0] != opened[1]:
            return f"One is less pushy.\nVerdict: {2 if opened[0] else 1}"
        # A taste in what nobody plants; in all other respects it does not care, so that no draw of responses matters.
        summed_up = [("In short" in text) for text in (first, second)]
        if summed_up[0] != summed_up[1]:
            return f"One sums up.\nVerdict: {1 if summed_up[0] else 2}"
        return "Both are fine.\nVerdict: tie"

    def _label(self, shown: Mapping[str, str], user: str, _: Any) -> Any:
        expression = _expression(re.findall("“(.+?)”", user.split("Questions:")[1])[0])
        has = expression.replace("{}", "").strip() in shown["RESPONSE"]
        return {"reasoning": "It was looked for.", "response": "yes" if has else "no"}


def number(*content: object) -> int:
    """A number that depends on the content alone."""
    return int(hashlib.sha256(json.dumps(content).encode()).hexdigest()[:8], 16)


def write_inputs(folder: Path) -> None:
    """The reward model `reward.py:reward` and the topics `topics.txt`."""
    (folder / "reward.py").write_text(REWARD, encoding="utf-8")
    (folder / "topics.txt").write_text("# subjects\nkettles\n\ntrains\nletters\n", encoding="utf-8")


def _shown(user: str) -> dict[str, str]:
    return dict(re.findall(r"<<<([^>\n]+)>>>\n(.*?)\n<<<END>>>", user, re.S))


def _expression(description: str) -> str:
    return next((text for word, text in EXPRESSIONS.items() if word in description.lower()), "{} So it is.")
