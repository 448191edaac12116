"""A local server of the OpenAI API that gives kept answers, and collects the questions that have none."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cda.llm.openai_client import OpenAIClient
from cda.llm.protocol import Request, complete
from cda.records import content_id
from evals.shared import ROOT

sys.path.insert(0, str(ROOT / "tests"))
from serving import Served

READY = Request("Answer with an empty object.", "Ready?", {"type": "object"})
"""The first question to every server, so that a first answer not held to its schema is not taken for a server without them."""
Json = dict[str, Any]
_NO_ANSWER: Json = {"error": {"message": "no answer is kept"}}


def question_id(body: Mapping[str, Any]) -> str:
    """Hash of a call's messages and of the answer schema that it asks for; the model's name and settings do not count."""
    return content_id("question", body["messages"], body.get("response_format"))


def request_id(request: Request) -> str:
    """`question_id` of a request as the client sends it."""
    return question_id(OpenAIClient("answers", "http://127.0.0.1/v1").body(request))


@dataclass
class AnswerServer:
    """Serves while it is open as a context.

    Attributes:
        answers: Text of the answer by question id. A question without one is answered with status 500.
        kind: What the questions are noted as from now on.
        open_questions: Questions without an answer, by id, in the order in which they came: id, kind, messages and schema.
        asked: Ids of all questions, with their kind.
        asked_again: Ids of questions whose first answer was not of the asked form, so that the client asked again in plain
            words. They get no answer, and are no questions of their own.
    """

    answers: Mapping[str, str]
    kind: str = ""
    open_questions: dict[str, Json] = field(default_factory=dict, init=False)
    asked: dict[str, str] = field(default_factory=dict, init=False)
    asked_again: set[str] = field(default_factory=set, init=False)
    _first: dict[str, str] = field(default_factory=dict, init=False, repr=False)

    def client(self) -> OpenAIClient:
        """A client of this server that asks every question once."""
        found = OpenAIClient(
            "answers", f"{self._server.url}/v1", api_key_env="CDA_NO_KEY", retries=0, say=lambda _: None
        )
        complete(found, [READY], "starting")
        return found

    def answer(self, body: Json) -> tuple[int, Json]:
        """Status and content for one call."""
        if body["messages"][1]["content"] == READY.user:
            return 200, _completion("{}")
        name = question_id(body)
        first = self._first.setdefault(content_id(self.kind, body["messages"][1]["content"]), name)
        if first != name:
            self.asked_again.add(first)
            return 500, _NO_ANSWER
        self.asked[name] = self.kind
        if name in self.answers:
            return 200, _completion(self.answers[name])
        form = body.get("response_format")
        row = {"id": name, "kind": self.kind, "messages": body["messages"]}
        self.open_questions[name] = row | ({"schema": form["json_schema"]["schema"]} if form else {})
        return 500, _NO_ANSWER

    def __enter__(self) -> AnswerServer:
        self._server = Served(self.answer)
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop()


def _completion(text: str) -> Json:
    message = {"role": "assistant", "content": text}
    return {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": {}}
