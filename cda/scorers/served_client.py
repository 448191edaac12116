"""The client of a reward server: its endpoint, a request for each text, and the one reward in an answer."""

from __future__ import annotations

import json
import math
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit, urlunsplit

from pydantic import BaseModel, ConfigDict, Field

from cda.arrays import LARGEST
from cda.errors import LLMError, ModelError, did_you_mean
from cda.inert import sendable, without_turns
from cda.keys import address_problem, variable_problem
from cda.llm.asking import Ask, back_off, pause
from cda.llm.limiter import Limiter
from cda.llm.outcome import (
    Again,
    Endpoint,
    Outcome,
    Rejected,
    Throttled,
    of_status,
    tokens_counted,
    without_secret,
)
from cda.llm.protocol import TOO_LONG, Completion, Request, gave_up
from cda.records import Prompt, prompt_text

Kind = Literal["classify", "pooling", "score"]

_LONGEST_WAIT_S = 600.0
_THROTTLED_AT_MOST = 30
_LONGER = re.compile(r"longer than the (maximum model|model's context) length", re.IGNORECASE)
_FIELDS: Mapping[Kind, str] = {"classify": "probs", "pooling": "data", "score": "score"}


Positive = Annotated[int, Field(ge=1)]


class ServedOptions(BaseModel):
    """Options of a reward model behind a server (vLLM's /classify, /pooling or /score)."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    model: str | None = None
    """Its name on the server; null: whatever is served there."""
    form: Literal["messages", "text"] = "messages"
    """messages: the conversation, to which the server applies the model's chat template. text: one text, by default the
    prompt, a blank line and the response."""
    sigmoid: bool = False
    """The server can only answer with the sigmoid of the reward: ask for it, and undo it."""
    check_raw: bool = True
    """Before anything else, make sure that the server left the sigmoid off."""
    last_token: bool = False
    """The server gives a number for every token (/pooling only); take the last."""
    truncate_tokens: Positive | None = None
    """The server keeps the first so many tokens (`truncate_prompt_tokens`; versions before `truncation_side` keep the last
    instead). null: a text longer than the model reads is too long."""
    too_long: Literal["refuse", "count"] = "refuse"
    """Texts that the server calls too long: stop, or leave them out and count them."""
    api_key_env: str = "VLLM_API_KEY"
    """The environment variable that holds the key, if the server requires one."""
    concurrency: Positive = 32
    """Requests under way at once, at most; a 429 halves it for a while."""


def endpoint_of(url: str) -> tuple[str, Kind]:
    """Address before the endpoint's name, and that name; a server's own address, with or without /v1, means /classify.

    ModelError for anything but an http address.

    >>> endpoint_of("http://localhost:8000/v1"), endpoint_of("https://host/models/7/pooling")
    (('http://localhost:8000', 'classify'), ('https://host/models/7', 'pooling'))
    """
    try:
        parts = urlsplit(url)
    except ValueError:  # brackets that hold no IPv6 address
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise ModelError(f"'{url.rpartition('@')[2]}' is no address of a server, like http://localhost:8000/classify")
    path, _, last = parts.path.rstrip("/").rpartition("/")
    for kind in _FIELDS:
        if last == kind:
            return urlunsplit((parts.scheme, parts.netloc, path, "", "")), kind
    whole = parts.path.rstrip("/").removesuffix("/v1")
    return urlunsplit((parts.scheme, parts.netloc, whole, "", "")), "classify"


def reward_in(items: Sequence[object], kind: Kind, last_token: bool = False) -> float:
    """The one reward in an answer's `data`; with `last_token`, the last of one number a token. ModelError if there is
    not one text, or not one finite number.
    """
    if len(items) != 1:
        raise ModelError(f"{len(items)} results came for one text")
    content = items[0].get(_FIELDS[kind]) if isinstance(items[0], dict) else None
    values = content if isinstance(content, list) else [content]
    if values and isinstance(values[-1], list):
        if not last_token:
            raise ModelError(
                f"one result a token came ({len(values)} of them), not one for the text. For a model that is trained to "
                "reward at its last token set last_token=true; use /classify for one with a classification head"
            )
        values = values[-1]
    if len(values) > 1:
        raise ModelError(
            f"{len(values)} numbers came for the text, so the model has {len(values)} labels (or is an embedding model), and "
            "which of them is the reward is not ours to guess. Serve a model with one output, or say what to make of the "
            "numbers in a function of your own (module:function)"
        )
    reward = values[0] if values else None
    if isinstance(reward, bool) or not isinstance(reward, int | float):
        raise ModelError(f"'{_FIELDS[kind]}' holds no number; is this vLLM's /{kind}?")
    if not abs(reward) <= LARGEST:  # NaN too
        raise ModelError(f"the reward is {reward!s:.40}. Serve the model with --dtype bfloat16 or float32")
    return float(reward)


def undone(probability: float) -> float:
    """The reward whose sigmoid this is, log-odds."""
    if 0 < probability < 1:
        return math.log(probability) - math.log1p(-probability)
    raise ModelError(
        f"the answer {probability:g} is not the sigmoid of a reward, or of one too large to be told from others. "
        "Set sigmoid=false, and start the server with --pooler-config '{\"use_activation\": false}'"
    )


@dataclass(eq=False)
class ServedClient:
    """An Asker of a reward server.

    The `url` is that of an endpoint (`http://host:8000/pooling`), or of the server, which then means its `/classify`; `/score`
    reads prompt and response as a text pair, as cross-encoders without a chat template need it. A text is tried `retries` more
    times after 408, 409, 5xx, timeouts, lost connections and broken answers, with pauses that double from `backoff_s` at most.
    ModelError if the url is no address of a server, or an option is not one of its endpoint.
    """

    url: str
    options: ServedOptions = field(default_factory=ServedOptions)
    timeout_s: float = 120.0
    """Limit of one attempt from start to end."""
    retries: int = 6
    backoff_s: float = 0.5
    served_model: str | None = field(default=None, init=False)
    """Model name in the server's answers; None before the first."""
    listed: tuple[str, ...] = field(default=(), init=False)
    """Models that the server offers, once `check` has asked."""

    def __post_init__(self) -> None:
        if problem := variable_problem(self.options.api_key_env):
            raise ModelError(f"score.served.api_key_env: {problem}")
        self._root, self._kind = endpoint_of(self.url)
        if self.options.last_token and self._kind != "pooling":
            raise ModelError(f"{self.address}: last_token=true needs the server's /pooling, not /{self._kind}")
        self._limiter = Limiter(self.concurrency, sleep=pause)
        self._reached = False

    @property
    def name(self) -> str:
        return self.options.model or self.served_model or self.address

    @property
    def address(self) -> str:
        """The server for messages, without credentials before the host."""
        parts = urlsplit(self._root)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    @property
    def concurrency(self) -> int:
        return self.options.concurrency

    @property
    def settings(self) -> Mapping[str, object]:
        """The settings that decide a reward. The weights behind the name may change without a trace here."""
        return {
            "url": f"{self._root}/{self._kind}",
            "model": self.options.model or self.listed,
            "form": self.options.form,
            "render": None,  # of earlier versions, whose finished stages stay as they are
            "sigmoid": self.options.sigmoid,
            "last_token": self.options.last_token,
            "truncate_tokens": self.options.truncate_tokens,
            "max_tokens": 0,
        }

    @property
    def spent_usd(self) -> None:
        return

    def check(self, timeout_s: float = 10.0) -> list[str]:
        """Problems that can be found before a text is scored. Asks for the models' names, which are part of the settings."""
        import openai

        from cda.llm.connection import Bounds, opened, own_error

        if problem := address_problem(self.url):
            return [f"{self.address}: the address {problem} ({self.options.api_key_env})"]
        try:
            with opened(self._endpoint.key or "none", self._root, timeout_s, Bounds(self._root, "the address")) as http:
                listed = json.loads(http.get("/models" if self._root.endswith("/v1") else "/v1/models", cast_to=str))
            served = [without_secret(str(model["id"]), self._endpoint.key) for model in listed["data"]]
            self.listed = tuple(served)
        except openai.APIStatusError as error:
            refused = error.status_code in (401, 403)
            return [f"{self.address}: the key in {self.options.api_key_env} is refused"] if refused else []
        except (openai.APIConnectionError, LLMError) as error:
            if (own := own_error(error)) is not None:
                return [f"{self.address}: its list of models: {own}"]
            return [f"{self.address}: cannot be reached ({error.__cause__ or error}); is the server running?"]
        except (ValueError, KeyError, TypeError, RecursionError):
            return []  # a server that lists no models may still score
        if self.options.model is None or self.options.model in served:
            return []
        return [
            f"{self.address}: serves {', '.join(served)}, not '{self.options.model}'.{did_you_mean(self.options.model, served)}"
        ]

    def request(self, row: int, prompt: Prompt, response: str, activation: bool) -> Request:
        """The request for a text's reward; `activation`: for its sigmoid."""
        body: dict[str, object] = {"use_activation": activation}
        if self.options.model is not None:
            body["model"] = self.options.model
        if self.options.truncate_tokens is not None:
            # The response's end goes first, as it does for local models.
            body |= {"truncate_prompt_tokens": self.options.truncate_tokens, "truncation_side": "right"}
        if self._kind == "pooling":
            body |= {"encoding_format": "float", "task": "token_classify" if self.options.last_token else "classify"}
        return Request(f"text {row + 1}", json.dumps(body | self._material(prompt, response)))

    def _material(self, prompt: Prompt, response: str) -> dict[str, object]:
        if self._kind == "score":
            first, second = (without_turns(sendable(text)) for text in (prompt_text(prompt), response))
            return {"text_1": first, "text_2": second}
        if self.options.form == "messages":
            # The server's tokenizer would read a mark of a turn in a text as one.
            turns = [*((message.role, message.content) for message in prompt), ("assistant", response)]
            messages = [{"role": role, "content": without_turns(sendable(text))} for role, text in turns]
            # Stated and not left to defaults: some versions add the start of another answer, and the template writes the BOS.
            return {"messages": messages, "add_generation_prompt": False, "add_special_tokens": False}
        return {"input": sendable(without_turns(f"{prompt_text(prompt)}\n\n{response}"))}

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Ask]:
        """Open connections in the running event loop; gives the function that sends one request."""
        from cda.llm.connection import opened_async

        # Retries are ours: a 429 concerns all workers.
        async with opened_async(self._endpoint.connection_key(), self._root, self.timeout_s, "the address") as http:
            yield partial(self._send, http)

    async def _send(self, http: object, request: Request) -> Completion:
        """One text, tried until it is answered; see `ServedScorer.in_batches` for errors."""
        body = json.loads(request.user)
        tries = throttled = 0
        while True:
            async with self._limiter.turn(0) as turn:
                outcome = await self._attempt(http, body, request.system)
                if isinstance(outcome, Completion):
                    self._limiter.succeeded(turn, 0)
                    return outcome
                if isinstance(outcome, Throttled):
                    throttled += 1
                    pause_s = self._limiter.throttled(turn, outcome.wait_s)
                    if pause_s > _LONGEST_WAIT_S or throttled > _THROTTLED_AT_MOST:
                        raise LLMError(
                            f"{self.address}: asks to wait {pause_s:.0f} s (429, {throttled} times in a row)"
                        )
            if isinstance(outcome, Again):
                tries += 1
                if tries > self.retries:
                    raise LLMError(f"{self.address}: {request.system}: {gave_up(tries, outcome.reason)}")
                await back_off(tries, self.backoff_s, outcome.wait_s)

    async def _attempt(self, http: object, body: Mapping[str, Any], text: str) -> Outcome:
        import openai

        from cda.llm.connection import posted

        try:
            setting = f"score.served.concurrency={self.concurrency}"
            answer = await posted(http, f"/{self._kind}", body, self.timeout_s, setting)
        except ConnectionRefusedError as error:
            if not self._reached:
                raise LLMError(f"{self.address}: cannot be reached ({error}); is the server running?") from None
            return Again("connection refused")
        if isinstance(answer, Again):
            return answer
        if isinstance(answer, LLMError):
            raise LLMError(f"{self.address}: {text}: {answer}")
        self._reached = True
        if isinstance(answer, openai.APIStatusError):
            return self._of_status(answer.response, text)
        return self._of_content(answer, body, text)

    def _of_status(self, response: Any, text: str) -> Outcome:
        if response.status_code == 404:
            message = " ".join(self._endpoint.hide(response.text).split())[:160]
            raise LLMError(
                f"{self.address}: /{self._kind} answers 404 ({message}). vLLM has /classify and /pooling where it serves a "
                "model with --runner pooling, /score where that has one output; check the model's name too"
            )
        outcome = of_status(response.status_code, response.headers, response.content, self._endpoint)
        if isinstance(outcome, Again | Throttled):
            return outcome
        failed = outcome.completion if isinstance(outcome, Rejected) else outcome
        if failed.reason != TOO_LONG and not _LONGER.search(response.text[:1000]):
            raise LLMError(f"{self.address}: {text}: {failed.reason}")
        if self.options.too_long == "count":
            return Completion(None, TOO_LONG)
        raise ModelError(
            f"{self.address}: {text} is longer than the model reads. Start the server with a larger --max-model-len, have "
            "texts cut with truncate_tokens, or go on without them with too_long=count"
        )

    def _of_content(self, content: str | bytes, body: Mapping[str, object], text: str) -> Outcome:
        """The reward in an answer with status 200, as the text of a completion; ModelError if it holds none."""
        try:
            answer = json.loads(content)
            items, model = answer["data"], answer.get("model")
            if not isinstance(items, list):
                raise TypeError
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return Again("status 200 without readable data")
        model = without_secret(model, self._endpoint.key) if isinstance(model, str) else None
        if self.served_model not in (None, model):
            raise ModelError(f"{self.address}: served '{self.served_model}' first and '{model}' now")
        self.served_model = model
        try:
            reward = reward_in(items, self._kind, self.options.last_token)
            reward = undone(reward) if self.options.sigmoid and body["use_activation"] else reward
        except ModelError as error:
            raise ModelError(f"{self.address}: {text}: {self._endpoint.hide(str(error))}") from None
        usage = answer.get("usage")
        tokens = tokens_counted(usage.get("prompt_tokens")) if isinstance(usage, dict) else 0
        return Completion(repr(reward), input_tokens=tokens)

    @property
    def _endpoint(self) -> Endpoint:
        return Endpoint(self.address, self.name, self.options.api_key_env)
