"""The one way from prompt and response to token ids: chat template, text pair or plain text.

Segment ids of text pairs: models like BERT tell the prompt from the response by a second embedding, if they learned it. A
tokenizer whose `model_input_names` hold `token_type_ids` gives them with every pair, so a model trained on its output knows
them; one without was trained on none. They follow from the token ids (all that comes after the first separator), so they are
added where the model looks them up: scores and training then agree, through wrappers that pass token ids alone.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal

from cda.errors import ModelError
from cda.inert import TURNS, sendable, without_turns
from cda.records import Message, Prompt, prompt_text

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedTokenizerBase


def wants_segments(tokenizer: PreTrainedTokenizerBase, config: PretrainedConfig) -> bool:
    """True if a model tells the two texts of a pair apart, and its tokenizer says so."""
    return (getattr(config, "type_vocab_size", None) or 0) > 1 and "token_type_ids" in tokenizer.model_input_names


def add_segments(model: Any, separator: int) -> list[Any]:
    """Have a model's embeddings look up segment 1 for all tokens after the first `separator` id, and 0 before; in
    place, before anything wraps the model. Returns handles of the hooks, whose `remove` takes them off again.
    """

    def with_segments(_: Any, given: tuple[Any, ...], named: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        ids = named["input_ids"] if named.get("input_ids") is not None else given[0]
        ends = (ids == separator).long()
        return given, named | {"token_type_ids": (ends.cumsum(-1) - ends).clamp(max=1)}

    return [
        module.register_forward_pre_hook(with_segments, with_kwargs=True)
        for module in model.modules()
        if hasattr(module, "token_type_embeddings")
    ]


Form = Literal["chat template", "pair", "plain text", "text of its own"]

DAY = datetime.date(2024, 7, 26)
"""The day that chat templates are given which write today's date: that of Llama 3's own where no clock is at hand."""
_DIRECTIVES = tuple(f"%{mark}" for mark in ("-d", "-m", "-I", "-H", *"aAbBdfHIjmMpSUwWyYxXcFTDeZz"))
"""Those of `strftime` that templates use."""
_RANDOM = re.compile(r"\|\s*random\b|\blipsum\s*\(")


@dataclass(frozen=True, slots=True)
class Turns:
    """A conversation as text, by hand: `{text}` in each stands for what is said there."""

    user: str
    assistant: str = "{text}"
    system: str = "{text}\n"
    between: str = "\n"
    """Between an answer and the user's next turn."""
    begin: str = ""


@dataclass(frozen=True, slots=True)
class Encoding:
    """A text that a model's authors put together in code, in place of a chat template or turns."""

    encode: Callable[[Template, Prompt, str], Encoded]
    """As `Template.encode`. Of a model that compares, the prompt ends in the answer that is shown first; the other one follows."""
    max_length_tokens: int
    """Tokens that the authors let a text have, whatever the files say."""
    loses: str
    """What a text that is too long loses, after "texts of more than … tokens lose"."""
    compares: Literal["log-odds", "probabilities"] | None = None
    """The model reads two answers and gives the log-odds that the first is better; its authors average these over both orders, or the
    probabilities. None: it reads one answer."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How a kind of model encodes a text, where that is not the tokenizer's own way."""

    turns: Turns | None = None
    """In place of a chat template; special tokens in it are special."""
    last_id: int | None = None
    """Token that every text has to end in; it stays where a text is cut."""
    doubles_bos: bool = False
    """Two BOS, one of the template and one of the tokenizer, are meant."""
    cuts_left: bool = False
    """A text that is too long loses its beginning."""
    step_end: str | None = None
    """A special token after every paragraph of the answer."""
    day: datetime.date = DAY
    adds_bos: bool = False
    """The tokenizer adds a BOS to the text of a template that writes none."""
    system: str | None = None
    """The system turn of a conversation that has none."""
    encoding: Encoding | None = None
    """In place of all of the others."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """Token ids of one prompt with its response, and True if they were truncated."""

    ids: list[int]
    truncated: bool


class Template:
    """Encodes prompt and response for one tokenizer."""

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        max_length_tokens: int,
        pad_token_id: int | None = None,
        segments: bool = False,
        layout: Layout | None = None,
        limited_by: str = "",
    ) -> None:
        self.tokenizer = tokenizer
        self.max_length_tokens = max_length_tokens
        self.limited_by = limited_by
        """What makes max_length_tokens smaller than the setting, such as `the model's positions`; empty if nothing does."""
        self.layout = layout or Layout()
        by_hand = self.layout.turns is not None or self.layout.encoding is not None
        self.form: Form = "text of its own" if by_hand else _form(tokenizer)
        self.segments = segments and self.form == "pair"
        self._marks = (
            _marks(tokenizer, self.layout.turns) if self.form in ("chat template", "text of its own") else None
        )
        self.is_dated = self.form == "chat template" and "strftime_now" in str(tokenizer.chat_template)
        self._frame = _frame(tokenizer) if self.form == "pair" else ([], [], [])
        self._on_the_day = _clock(self.layout.day) + tokenizer.get_chat_template() if self.is_dated else None
        self.pad_token_id = _default_pad(tokenizer) if pad_token_id is None else pad_token_id

    def notes(self) -> list[str]:
        """Fallbacks in use, each as a sentence for the user."""
        notes = []
        if self.form == "pair":
            told = ", with segment ids" if self.segments else ""
            notes.append(f"The tokenizer has no chat template; prompt and response are encoded as a text pair{told}.")
        if self.form == "plain text":
            notes.append(
                "The tokenizer has no chat template; the prompt, a blank line and the response are encoded as text."
            )
            if self.tokenizer.eos_token_id is None:
                notes.append("The tokenizer has no end-of-sequence token; responses end without one.")
        return [*notes, *self.own_notes()]

    def own_notes(self) -> list[str]:
        """Parts of the encoding that would move from day to day, or that the model's authors do otherwise than others."""
        notes = []
        if self.is_dated:
            notes.append(
                f"The chat template writes today's date; it gets {self.layout.day:%Y-%m-%d} on every day (model.template_date)."
            )
        if self.layout.doubles_bos:
            notes.append("Texts begin with two beginning-of-sequence tokens, as the model's authors encode them.")
        return notes

    @property
    def content(self) -> list[object]:
        """Everything but the token ids of words that decides which ids a text becomes, for the name of its score."""
        layout = self.layout
        moving = [layout.day.isoformat()] if self.is_dated else []
        own: list[object] = [layout.turns, layout.last_id, layout.doubles_bos, layout.cuts_left]
        own += [(layout.adds_bos, layout.system)] if layout.adds_bos or layout.system is not None else []
        own += [layout.step_end] if layout.step_end else []
        return [*moving, *([repr(own)] if layout != Layout(day=layout.day) else [])]

    def encode(self, prompt: Prompt, response: str) -> Encoded:
        """Token ids of a prompt and its response, cut at the end to max_length_tokens. ModelError if the chat template
        refuses the conversation.
        """
        if self.layout.encoding is not None:
            return self.layout.encoding.encode(self, prompt, response)
        if self.form == "pair":
            return self._pair(prompt, response)
        ids, limit, last = self.ids(self.text(prompt, response)), self.max_length_tokens, self.layout.last_id
        if self.form == "plain text" and last is None:
            last = self.tokenizer.eos_token_id
            if last is not None and ids[-1] != last:
                ids.append(last)
            return Encoded(ids[:limit], len(ids) > limit)
        if last is not None and ids[-1:] == [last]:
            ids.pop()
        end = [] if last is None else [last]
        excess = len(ids) + len(end) - limit
        if excess > 0 and self.layout.cuts_left:
            kept = 1 if ids[0] == self.tokenizer.bos_token_id else 0
            ids = ids[:kept] + ids[kept + excess :]
        return Encoded([*ids[: limit - len(end)], *end], excess > 0)

    def text(self, prompt: Prompt, response: str | None) -> str:
        """The text that is encoded, or without a response its part before one; for a text pair, in plain text."""
        if self.layout.turns is not None:
            return self._written(self.layout.turns, self.messages(prompt, response))
        if self.form != "chat template":
            return f"{prompt_text(prompt)}\n\n{response or ''}"
        return self.render(self.messages(prompt, response), add_generation_prompt=response is None)

    def ids(self, text: str) -> list[int]:
        """Token ids of such a text with a single BOS, or two if its authors want them, not cut."""
        if self.form in ("chat template", "text of its own"):
            special = self.form == "text of its own" or self.layout.doubles_bos or self.layout.adds_bos
            ids = list(self.tokenizer(sendable(text), add_special_tokens=special, verbose=False)["input_ids"])
        else:
            ids = self._as_text(text, add_special_tokens=True)
        if self.layout.doubles_bos:
            return ids
        bos = self.tokenizer.bos_token_id
        while bos is not None and ids[:2] == [bos, bos]:
            ids = ids[1:]
        return ids

    def has_marks(self, prompt: Prompt, response: str) -> bool:
        """True if a text holds marks of the chat template, which are then broken up with a space."""
        texts = (response, *(message.content for message in prompt))
        return self._marks is not None and any(self._marks.search(text) for text in texts)

    def messages(self, prompt: Prompt, response: str | None) -> list[dict[str, str]]:
        """The conversation as the chat template gets it: no text in it holds a mark of a turn."""
        said = [(message.role, message.content) for message in prompt]
        if self.layout.system is not None and said[:1] and said[0][0] != "system":
            said.insert(0, ("system", self.layout.system))
        said += [] if response is None else [("assistant", response)]
        marks = self._marks
        found = [
            {"role": role, "content": text if marks is None else without_turns(text, marks)} for role, text in said
        ]
        if response is not None and (end := self.layout.step_end):
            found[-1]["content"] = "".join(f"{step}{end}" for step in found[-1]["content"].split("\n\n"))
        return found

    def refusal(self, prompt: Prompt) -> str | None:
        """Why a conversation cannot be encoded; None if it can be."""
        try:
            self.text(prompt, "An answer.")
        except ModelError as error:
            return str(error)
        return None

    def render(self, messages: list[dict[str, str]], add_generation_prompt: bool = False) -> str:
        """The text of a conversation; ModelError if the chat template refuses it."""
        try:
            return str(
                self.tokenizer.apply_chat_template(
                    messages,
                    tokenize=False,
                    add_generation_prompt=add_generation_prompt,
                    chat_template=self._on_the_day,
                )
            )
        except Exception as error:  # templates raise whatever their author wrote
            roles = ", ".join(message["role"] for message in messages)
            raise ModelError(
                f"the model's chat template refuses a conversation with the turns {roles}: {str(error).strip()}. Change chat_template "
                "(chat_template.jinja or tokenizer_config.json) so that it takes them"
            ) from None

    def _written(self, turns: Turns, messages: list[dict[str, str]]) -> str:
        forms = {"user": turns.user, "assistant": turns.assistant, "system": turns.system}
        if unknown := [message["role"] for message in messages if message["role"] not in forms]:
            raise ModelError(f"the model knows no turn of the role {unknown[0]}; its authors write {', '.join(forms)}")
        parts = [turns.begin]
        for number, message in enumerate(messages):
            if number and message["role"] == "user" and messages[number - 1]["role"] == "assistant":
                parts.append(turns.between)
            # Not by str.format: braces in a text are text.
            parts.append(forms[message["role"]].replace("{text}", message["content"]))
        return "".join(parts)

    def _as_text(self, text: str, add_special_tokens: bool = False) -> list[int]:
        """Token ids of a text in which the name of a special token, such as `</s>`, is a text like any other."""
        encoded = self.tokenizer(
            sendable(text), add_special_tokens=add_special_tokens, split_special_tokens=True, verbose=False
        )
        return list(encoded["input_ids"])

    def _pair(self, prompt: Prompt, response: str) -> Encoded:
        limit = self.max_length_tokens
        first, second = self._as_text(prompt_text(prompt)), self._as_text(response)
        before, between, after = self._frame
        room = limit - len(before) - len(between) - len(after)
        excess = len(first) + len(second) - room
        if excess > 0:
            # The response's end goes first, as in the chat form; a prompt that fills everything is cut to half.
            kept = max(len(second) - excess, min(len(second), room // 2))
            second = second[:kept]
            first = first[: room - len(second)]
        return Encoded([*before, *first, *between, *second, *after], excess > 0)


def _form(tokenizer: PreTrainedTokenizerBase) -> Form:
    if tokenizer.chat_template:
        return "chat template"
    if tokenizer.cls_token_id is not None and tokenizer.sep_token_id is not None:
        return "pair"
    return "plain text"


def _marks(tokenizer: PreTrainedTokenizerBase, turns: Turns | None) -> re.Pattern[str] | None:
    """A pattern of the tokenizer's special tokens and of the turns that its template writes as text; None without any."""
    added = getattr(tokenizer, "added_tokens_decoder", {}).values()
    special = {*map(str, tokenizer.all_special_tokens), *(str(token) for token in added if token.special)}
    templates = tokenizer.chat_template if turns is None else None
    written = " ".join(templates.values()) if isinstance(templates, dict) else str(templates)
    marks = {mark for mark in special if len(mark.strip()) > 1} | {found[0] for found in TURNS.finditer(written)}
    # The longest first: one may begin with another.
    return re.compile("|".join(map(re.escape, sorted(marks, key=len, reverse=True)))) if marks else None


def _frame(tokenizer: PreTrainedTokenizerBase) -> tuple[list[int], list[int], list[int]]:
    """Special tokens before, between and after the texts of a pair, as the tokenizer itself puts them."""
    encoded = tokenizer("a", "a", return_special_tokens_mask=True, verbose=False)
    ids, special = list(encoded["input_ids"]), list(encoded["special_tokens_mask"])
    runs = [
        (mark, [token for token, _ in run])
        for mark, run in groupby(zip(ids, special, strict=True), lambda token_and_mark: token_and_mark[1])
    ]
    if [mark for mark, _ in runs] != [1, 0, 1, 0, 1]:  # a tokenizer that marks no pairs
        return [tokenizer.cls_token_id], [tokenizer.sep_token_id], [tokenizer.sep_token_id]
    return runs[0][1], runs[2][1], runs[4][1]


def _clock(day: datetime.date) -> str:
    """A macro in front of a chat template, in place of Transformers' function of that name: midnight of the day."""
    midnight = datetime.datetime.combine(day, datetime.time())
    parts = "".join(f"|replace({part!r}, {midnight.strftime(part)!r})" for part in _DIRECTIVES)
    return "{%- macro strftime_now(form) -%}{{ form" + parts + " }}{%- endmacro -%}"


def _default_pad(tokenizer: PreTrainedTokenizerBase) -> int:
    """The tokenizer's padding token, else one that ends no text."""
    if tokenizer.pad_token_id is not None:
        return int(tokenizer.pad_token_id)
    if tokenizer.unk_token_id is not None and tokenizer.unk_token_id != tokenizer.eos_token_id:
        return int(tokenizer.unk_token_id)
    return 0 if tokenizer.eos_token_id != 0 else 1


def padding_token(tokenizer: PreTrainedTokenizerBase, of_model: int | None, vocab_size: int | None) -> int:
    """The token that fills up batches: the model's, which its class may look for, else the tokenizer's, else any. One that the
    embedding table does not hold, or that the tokenizer cannot name, is passed over: masked, every token pads alike.
    """
    asked = (of_model, _default_pad(tokenizer), 0)
    known = (pad for pad in asked if pad is not None and 0 <= pad < (vocab_size or 1 << 62))
    return next((pad for pad in known if tokenizer.convert_ids_to_tokens(pad) is not None), 0)


def check_said(name_or_path: str, template: Template) -> None:
    """Raise ModelError if a chat template leaves out the answer, so that all answers have one reward."""
    if template.form != "chat template":
        return
    try:
        text, other = (template.text((Message("user", "a"),), answer) for answer in "bc")
    except ModelError:  # it refuses such a conversation, and says so of the first text
        return
    if text == other:
        raise ModelError(
            f"{name_or_path}: its chat template leaves the answer out of the text, when each turn's content is a text. Change chat_template "
            "(chat_template.jinja or tokenizer_config.json) so that it writes message.content"
        )


def check_fixed(name_or_path: str, tokenizer: PreTrainedTokenizerBase) -> None:
    """Raise ModelError if a chat template draws at random, so that one text has several renderings."""
    if tokenizer.chat_template and (drawn := _RANDOM.search(str(tokenizer.chat_template))):
        raise ModelError(
            f"{name_or_path}: its chat template draws at random ({drawn[0].strip()}), so that one text would have several rewards. "
            "Take that out of chat_template"
        )
