"""Texts as a named tokenizer renders them, for servers that apply no chat template, and what a server's count of tokens says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from cda.inert import without_turns
from cda.models.template import Template
from cda.records import Message, Prompt
from cda.run import fingerprint

Fault = Literal["twice", "none", "bos", "other"]


@dataclass(frozen=True)
class Rendering:
    """A template, and the name under which the user gave its tokenizer."""

    template: Template
    name: str

    @cached_property
    def id(self) -> str:
        """Fingerprint of all that decides a rendered text."""
        template, tokenizer = self.template, self.template.tokenizer
        return fingerprint([template.form, tokenizer.chat_template, tokenizer.special_tokens_map, len(tokenizer)])

    def text(self, prompt: Prompt, response: str | None, adds_special_tokens: bool) -> str:
        """The text from which a tokenizer, whether or not it adds its special tokens, makes the template's ids; without a
        response, the part before one.
        """
        tokenizer, is_chat = self.template.tokenizer, self.template.form == "chat template"
        text = self.template.text(prompt, response)
        if not is_chat:
            text = without_turns(text) + (tokenizer.eos_token or "" if response is not None else "")
        bos = tokenizer.bos_token
        if bos is None or tokenizer("a")["input_ids"][0] != tokenizer.bos_token_id:
            return text
        if adds_special_tokens:
            return text.removeprefix(bos)
        return text if is_chat else bos + text

    def rendered(self, messages: Sequence[Mapping[str, str]]) -> int:
        """Number of tokens of a conversation as it is sent, not cut."""
        return len(self.template.ids(self.template.render([dict(message) for message in messages])))

    def fault(self, counted: int, expected: int, prompt: Prompt, response: str) -> Fault | None:
        """What is wrong with a text of which a server read so many tokens, and the template makes so many; None if nothing.

        The template's own tokens, those beyond the words of the messages, tell: about none of them, or about twice as many, or
        as many as the rendered text has as a user's message.
        """
        if counted == expected:
            return None
        template = self.template
        nested = [{"role": "user", "content": template.text(prompt, response)}]
        if template.form == "chat template" and counted == self.rendered(nested):
            return "twice"
        if counted == expected + 1:
            return "bos"
        said = (*prompt, Message("assistant", response))
        words = sum(len(template.tokenizer(message.content, add_special_tokens=False)["input_ids"]) for message in said)
        own = expected - words
        if counted - words < own / 2:
            return "none"
        return "twice" if counted - words >= 1.5 * own else "other"
