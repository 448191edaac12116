"""Rewards from a model behind HTTP, in the dialects of `dialects.py`: what the server is, a request for each text, the one reward in
an answer; is it the reward itself, by one chat template?

One text a request, many at once: the server forms its own batches, and a text that it refuses spoils no other.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from cda.arrays import LARGEST
from cda.errors import LLMError, ModelError, did_you_mean
from cda.inert import TURNS, inert, sendable, without_turns
from cda.keys import address_problem, variable_problem, without_keys
from cda.llm.asking import Answers, Ask, answered, back_off, pause, with_progress
from cda.llm.limiter import Limiter
from cda.llm.outcome import (
    Again,
    Endpoint,
    Outcome,
    Rejected,
    Throttled,
    of_problem,
    of_status,
    problem_inside,
    tokens_counted,
    without_secret,
)
from cda.llm.protocol import TOO_LONG, Completion, Request, gave_up
from cda.records import Prompt, prompt_text
from cda.scorers.compared import Finished, Text, TextScore, TextScorer
from cda.scorers.dialects import (
    ENDPOINTS,
    FIRST_ASKED,
    SERVERS,
    Dialect,
    Found,
    Given,
    ServedOptions,
    Server,
    ServerName,
    endpoint_of,
    part_of,
    recognise,
    servers_with,
)
from cda.scorers.rendering import Fault, Rendering


def reward_in(items: Sequence[object], field: str, last_token: bool = False) -> float:
    """The one reward in a field of an answer's results; with `last_token`, the last of one number a token. ModelError if there is
    not one text, or not one finite number.
    """
    if len(items) != 1:
        raise ModelError(f"{len(items)} results came for one text")
    content = items[0].get(field) if isinstance(items[0], dict) else None
    values = content if isinstance(content, list) else [content]
    if values and isinstance(values[-1], list):
        if not last_token and len(values) > 1:
            raise ModelError(
                f"one result a token came ({len(values)} of them), not one for the text. For a model that is trained to "
                "reward at its last token ask vLLM's /pooling with last_token=true; use /classify for one with a classification head"
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
        raise ModelError(
            f"'{field}' holds no number. If the server is of another kind, name it in score.served.dialect"
        )
    if not abs(reward) <= LARGEST:  # NaN too
        raise ModelError(f"the reward is {reward!s:.40}. Serve the model with --dtype bfloat16 or float32")
    return float(reward)


def undone(probability: float) -> float:
    """The reward whose sigmoid this is, log-odds."""
    if 0 < probability < 1:
        return math.log(probability) - math.log1p(-probability)
    raise ModelError(
        f"the answer {probability:g} is not the sigmoid of a reward, or of one too large to be told from others. "
        "Set sigmoid=false, and have the server leave the sigmoid off (vLLM: --pooler-config '{\"use_activation\": false}')"
    )


def counted_in(answer: Mapping[str, Any], headers: Mapping[str, str]) -> object:
    """Number of tokens that the server read: vLLM's and SGLang's `usage`, SGLang's `meta_info`, the header of
    text-embeddings-inference; None without any.
    """
    for part in ("usage", "meta_info"):
        if isinstance(answer.get(part), dict):
            return answer[part].get("prompt_tokens")
    told = headers.get("x-compute-tokens", "")
    return int(told) if told.isdecimal() and len(told) < 10 else None


_LONGEST_WAIT_S = 600.0
_THROTTLED_AT_MOST = 30
_NAME_IT = ". The server does not say what it is: if it is no vLLM, name it in score.served.dialect"
_SHORT = ("Name a colour of the sky.", "Blue.")
_LONGER = re.compile(
    r"longer than the (maximum model|model's context) length|must have less than \d+ (tokens|characters)|"
    r"length limit exceeded",
    re.IGNORECASE,
)


@dataclass(eq=False)
class ServedClient:
    """An Asker of a reward server.

    The `url` is that of an endpoint (`http://host:8000/pooling`), or of the server, which then means its first one in `SERVERS`.
    `/score` and `/rerank` read prompt and response as a text pair, as cross-encoders without a chat template need it. The kind
    of server is the one that its address has alone, or that `check` finds. A text is tried `retries` more
    times after 408, 409, 5xx, timeouts, lost connections and broken answers, with pauses that double from `backoff_s` at most.
    ModelError if the url is no address of a server, or an option is not one of its endpoint.
    """

    url: str
    options: ServedOptions = field(default_factory=ServedOptions)
    timeout_s: float = 120.0
    """Limit of one attempt from start to end."""
    retries: int = 6
    backoff_s: float = 0.5
    rendering: Rendering | None = None
    """The tokenizer that `options` name; it cuts texts for servers that take token ids."""
    served_model: str | None = field(default=None, init=False)
    """Model name in the server's answers; None before the first."""
    found: Found = field(default=Found(), init=False)
    """The server as it describes itself, once `check` has asked."""

    def __post_init__(self) -> None:
        if problem := variable_problem(self.options.api_key_env):
            raise ModelError(f"score.served.api_key_env: {problem}")
        self._root, self._named = endpoint_of(self.url)
        if self._named is None and self.options.dialect == "openrlhf" and urlsplit(self._root).path:
            self._root, _, self._named = self._root.rpartition("/")  # OpenRLHF's trainers take any address
        if self.options.last_token and self._named != "pooling":
            raise ModelError(f"{self.address}: last_token=true needs vLLM's /pooling, not /{self._path}")
        self._added_tokens: int | None = None
        self._limiter = Limiter(self.concurrency, sleep=pause)
        self._reached = False

    @property
    def server(self) -> ServerName:
        """The kind of server: as set, as found, by its address, or vLLM."""
        if self.options.dialect != "auto":
            return self.options.dialect
        by_address = servers_with(self._named) if self._named else []
        return self.found.server or (by_address[0] if by_address else "vllm")

    @property
    def dialect(self) -> Dialect:
        """The declaration of the endpoint that is asked; vLLM's first if this kind of server has none of that name."""
        endpoints = SERVERS[self.server].endpoints
        in_v1 = f"v1/{self._path}" if self._root.endswith("/v1") else ""
        return endpoints.get(in_v1) or endpoints.get(self._path) or next(iter(endpoints.values()))

    @property
    def _path(self) -> str:
        return self._named or next(iter(SERVERS[self.server].endpoints))

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
        # Of vLLM without a tokenizer as in earlier versions, whose finished stages stay as they are.
        later = {} if self.server == "vllm" else {"dialect": self.server, "revision": self.found.revision}
        return later | {
            "url": f"{self._root}/{self._path}",
            "model": self.options.model or self.found.listed,
            "form": self.options.form,
            "render": self.rendering and self.rendering.id,
            "sigmoid": self.options.sigmoid,
            "last_token": self.options.last_token,
            "truncate_tokens": self.options.truncate_tokens,
            "max_tokens": 0,
        }

    @property
    def spent_usd(self) -> None:
        return

    def check(self, timeout_s: float = 10.0, *, connects: bool = True) -> list[str]:
        """Problems that can be found before a text is scored. Asks the server what it is and for its models' names, which are
        part of the settings, unless it is not to be connected to.
        """
        import openai

        from cda.llm.connection import Bounds, opened, own_error

        if problem := address_problem(self.url):
            return [f"{self.address}: the address {problem} ({self.options.api_key_env})"]
        if not connects:
            return []
        base = self._root.removesuffix("/v1")
        try:
            with opened(self._endpoint.key or "none", base, timeout_s, Bounds(base, "the address")) as http:
                found = recognise(partial(self._json_at, http))
                names = tuple(without_secret(name, self._endpoint.key) for name in found.listed)
                self.found = replace(found, listed=names)
                if found.server == self.server == "vllm" and self.server_renders and self.rendering is None:
                    self._added_tokens = self._tokens_added(http)
        except openai.APIStatusError:
            return [f"{self.address}: the key in {self.options.api_key_env} is refused"]
        except (openai.APIConnectionError, LLMError) as error:
            if (own := own_error(error)) is not None:
                return [f"{self.address}: its description of itself: {own}"]
            return [f"{self.address}: cannot be reached ({error.__cause__ or error}); is the server running?"]
        return [f"{self.address}: {problem}" for problem in self._problems()]

    def _tokens_added(self, http: Any) -> int | None:
        """Tokens that vLLM's chat template adds to a short conversation, by its /tokenize; None if it does not say."""
        first, second = _SHORT
        named = {} if self.options.model is None else {"model": self.options.model}
        messages = [{"role": "user", "content": first}, {"role": "assistant", "content": second}]
        as_messages = {"messages": messages, "add_generation_prompt": False, "add_special_tokens": False}
        as_text = {"prompt": f"{first} {second}", "add_special_tokens": False}
        counts = [
            tokens_counted(part_of(self._json_at(http, "/tokenize", named | body), "count"))
            for body in (as_messages, as_text)
        ]
        return counts[0] - counts[1] if all(counts) else None

    def _json_at(self, http: Any, path: str, body: object = None) -> object:
        """The JSON at a path of the server, None if there is none; openai's error if the key is refused, or the first path
        that is asked does not answer.
        """
        import openai

        try:
            return json.loads(http.post(path, body=body, cast_to=str) if body else http.get(path, cast_to=str))
        except openai.APIStatusError as error:
            if error.status_code in (401, 403):
                raise
        except (openai.APIConnectionError, LLMError):
            if path == FIRST_ASKED:
                raise
        except (ValueError, RecursionError):
            pass
        return None

    def _problems(self) -> Iterator[str]:
        options, found, server = self.options, self.found, SERVERS[self.server]
        if found.problem and options.dialect == "auto":
            yield found.problem
            return
        if self._named in ENDPOINTS and self._named not in {name.rpartition("/")[2] for name in server.endpoints}:
            yield f"is {server.title}, which has {', '.join(f'/{name}' for name in server.endpoints)}, not /{self._named}"
        if options.model is not None and found.listed and options.model not in found.listed:
            known = ", ".join(found.listed)
            yield f"serves {known}, not '{options.model}'.{did_you_mean(options.model, found.listed)}"
        yield from map("score.served.{}".format, self._mismatches(server))

    def _mismatches(self, server: Server) -> Iterator[str]:
        """Options that this kind of server, or this tokenizer, cannot follow."""
        cut, limit = self.options.truncate_tokens, self.found.max_tokens
        if cut is not None and self.server == "tei" and limit not in (None, cut):
            yield f"truncate_tokens={cut}: {server.title} cuts texts at its own {limit} tokens alone; set truncate_tokens={limit}"
        if cut is not None and self.server == "openrlhf":
            yield (
                f"truncate_tokens={cut}: {server.title} takes no such option; it cuts texts at its own --data.max_len. Leave it out"
            )
        if cut is not None and self.dialect.takes == "ids" and self.rendering is None:
            yield f"truncate_tokens={cut}: {server.title} cuts no text; name the model's tokenizer, and texts are cut here"
        if self.rendering is None:
            return
        form, named = self.rendering.template.form, f"tokenizer={self.rendering.name}"
        if self.dialect.takes == "pair" and form == "chat template":
            yield (
                f"{named}: has a chat template, and /{self._path} takes prompt and response as a pair; ask "
                f"/{next(iter(server.endpoints))}"
            )
        if form == "pair" and self.dialect.takes != "pair" and self.server != "tei":
            yield (
                f"{named}: has no chat template and encodes prompt and response as a text pair, which only vLLM's /score and "
                "text-embeddings-inference's /predict and /rerank take; serve the model there"
            )
        if form == "plain text" and self.server_renders:
            yield f"{named}: has no chat template, with which the server should render messages; set score.served.form=text"

    def notes(self) -> list[str]:
        """What kind of server was asked, how that is known, and who applied the chat template."""
        how = self._known or "assumed: the server does not say what it is"
        asked = f"Asked as {SERVERS[self.server].title}'s /{self._path} ({how}){SERVERS[self.server].told}"
        if self.dialect.takes == "pair" or (self.rendering and self.rendering.template.form == "pair"):
            return [f"{asked}. Prompt and response are sent as a text pair."]
        hint = f"score.served.tokenizer={self.found.weights or 'FOLDER'}"
        if self.server_renders:
            added = self._added_tokens
            if added is not None and added <= 0:
                return [
                    f"{asked}. The server's chat template adds nothing to a conversation. If the model was trained with one, start "
                    f"the server with it (--chat-template), or have it applied here (score.served.form=text {hint})."
                ]
            known = "" if added is None else f", which adds {added} tokens to a short conversation"
            untold = (
                ""
                if self.rendering
                else f"; that it does so once is not checked without the model's tokenizer ({hint})"
            )
            return [f"{asked}. The server applies the chat template{known}{untold}."]
        if self.rendering is not None:
            sent = "token ids are" if self.dialect.takes != "text" else "the text is"
            return [f"{asked}. The template of {self.rendering.name} is applied here, and {sent} sent."]
        return [
            f"{asked}. Texts are sent without a chat template: if the model was trained with one, name its tokenizer ({hint})."
        ]

    def has_marks(self, prompt: Prompt, response: str) -> bool:
        """True if marks of chat templates in a text are broken up with a space before it is sent."""
        if self.rendering is not None and not self.server_renders and self.rendering.template.form == "chat template":
            return self.rendering.template.has_marks(prompt, response)
        return any(TURNS.search(text) for text in (response, *(message.content for message in prompt)))

    @property
    def server_renders(self) -> bool:
        """The server is to apply the chat template."""
        return self.dialect.takes == "messages" and self.options.form == "messages"

    def request(self, row: int, prompt: Prompt, response: str, activation: bool) -> Request:
        """The request for a text's reward; `activation`: for its sigmoid. ModelError if the chat template refuses the text."""
        return Request(f"text {row + 1}", json.dumps(self.dialect.body(self._given(prompt, response, activation))))

    def _given(self, prompt: Prompt, response: str, activation: bool = False) -> Given:
        # The server's tokenizer would read a mark of a turn in a text as one.
        turns = [*((message.role, message.content) for message in prompt), ("assistant", response)]
        messages = [{"role": role, "content": without_turns(sendable(text))} for role, text in turns]
        first, second = (without_turns(sendable(text)) for text in (prompt_text(prompt), response))
        given = Given(
            first,
            second,
            f"{first}\n\n{second}",
            activation,
            messages if self.server_renders else None,
            model=self.options.model,
            truncate_tokens=self.options.truncate_tokens,
            last_token=self.options.last_token,
        )
        rendering, takes = self.rendering, self.dialect.takes
        if rendering is None or given.messages is not None or takes == "pair":
            return given
        if rendering.template.form == "pair":
            return replace(given, as_pair=True)
        if takes != "text":
            return replace(given, ids=rendering.template.encode(prompt, response).ids)
        added = self.dialect.adds_special_tokens
        return replace(
            given,
            prompt=sendable(rendering.text(prompt, None, added)),
            text=sendable(rendering.text(prompt, response, added)),
        )

    def fault(self, counted: int, prompt: Prompt, response: str) -> tuple[Fault, int] | None:
        """What is wrong if the server read so many tokens of a text, and how many its template makes; None if nothing is, or
        no tokenizer is named.
        """
        if self.rendering is None:
            return None
        messages = self._given(prompt, response).messages
        template, cut = self.rendering.template, self.options.truncate_tokens
        whole = self.rendering.rendered(messages) if messages else len(template.encode(prompt, response).ids)
        expected = whole if cut is None else min(whole, cut)
        fault = self.rendering.fault(counted, expected, prompt, response)
        return None if fault is None else (fault, expected)

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
        from httpx2 import Response

        from cda.llm.connection import posted

        try:
            setting = f"score.served.concurrency={self.concurrency}"
            answer = await posted(http, f"/{self._path}", body, self.timeout_s, setting, Response)
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
            failed = answer.response
            acted = partial(of_status, failed.status_code, failed.headers, failed.content, self._endpoint)
            return self._refused(failed.status_code, failed, text, acted)
        return self._of_answer(answer, text)

    def _refused(self, status: int | None, response: Any, text: str, acted: Callable[[], Outcome]) -> Outcome:
        """Outcome of an error of this status; `acted` gives that of an LLM's server. LLMError or ModelError if trying again is no
        use."""
        if status == 404:
            raise LLMError(
                f"{self.address}: /{self._path} answers 404 ({self._beginning(response)}). {SERVERS[self.server].start}; check "
                f"the model's name too{'' if self._known else _NAME_IT}"
            )
        outcome = acted()
        if isinstance(outcome, Again | Throttled):
            return outcome
        failed = outcome.completion if isinstance(outcome, Rejected) else outcome
        if failed.reason != TOO_LONG and not _LONGER.search(response.text[:1000]):
            raise LLMError(f"{self.address}: {text}: {failed.reason}")
        if self.options.too_long == "count":
            return Completion(None, TOO_LONG)
        raise ModelError(
            f"{self.address}: {text} is longer than the model reads. {SERVERS[self.server].longer}, or go "
            "on without them with too_long=count"
        )

    @property
    def _known(self) -> str:
        """How the kind of server is known: set, found, or the only one with the address's endpoint; empty if it is assumed."""
        if self.options.dialect != "auto":
            return "as set"
        if self.found.server is not None:
            return f"as its {self.found.told} says"
        return "by its address" if self._named and len(servers_with(self._named)) == 1 else ""

    def _beginning(self, response: Any) -> str:
        """The first of the server's words, to be shown."""
        return without_keys(" ".join(inert(sendable(self._endpoint.hide(response.text))).split()))[:160]

    def _of_answer(self, response: Any, text: str) -> Outcome:
        """The reward in an answer with status 200, as the text of a completion; ModelError if it holds none."""
        answer = None
        try:
            answer = json.loads(response.content)
            items = self.dialect.items(answer)
            if not isinstance(items, list):
                raise TypeError
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            if (problem := problem_inside(answer)) is not None:
                return self._refused(problem.told_status, response, text, partial(of_problem, problem, self._endpoint))
            found = self._beginning(response)
            return Again(f"status 200 without readable data: {found}" if found else "status 200 without readable data")
        shown = answer if isinstance(answer, dict) else {}
        model = shown.get("model")
        model = without_secret(model, self._endpoint.key) if isinstance(model, str) else None
        if self.served_model not in (None, model):
            raise ModelError(f"{self.address}: served '{self.served_model}' first and '{model}' now")
        self.served_model = model
        try:
            reward = reward_in(items, self.dialect.field, self.options.last_token)
            reward = undone(reward) if self.options.sigmoid else reward
        except ModelError as error:
            raise ModelError(f"{self.address}: {text}: {self._endpoint.hide(str(error))}") from None
        return Completion(repr(reward), input_tokens=tokens_counted(counted_in(shown, response.headers)))

    @property
    def _endpoint(self) -> Endpoint:
        return Endpoint(self.address, self.name, self.options.api_key_env)


_PROBED = 8
_HERE = ", or have it applied here with score.served.form=text"
_FAULTS: Mapping[Fault, str] = {
    "none": f"no chat template is applied. Start the server with the model's (vLLM: --chat-template){_HERE}",
    "twice": "the chat template is applied more than once. Start the server with one that writes each message once "
    f"(vLLM: --chat-template){_HERE}",
    "bos": f"that is one more, most likely a second BOS. Start the server with a chat template that writes one{_HERE}",
}
"""What is wrong with the tokens of a server that is to apply the chat template."""
_AGAIN = (
    "the chat template, which is applied here, is applied there again. Ask past whatever applies it (a proxy?), or take "
    "score.served.tokenizer out, and plain text is sent"
)
_OTHER = "it has another tokenizer or chat template, or adds tokens. Give the served model's in score.served.tokenizer"


@dataclass(eq=False)
class ServedScorer(TextScorer):
    """A scorer that asks a server; without a `label` it shows no progress bar."""

    client: ServedClient
    label: str | None = None
    check_template: bool = True
    """Compare the tokens that the server counts with those of the named tokenizer, on the first texts."""
    n_truncated: int = field(default=0, init=False)
    """Texts scored last that were cut at `truncate_tokens`, or are exactly that long; 0 if the server counts no tokens."""

    notes: tuple[str, ...] = field(default=(), init=False)
    """What the check of the template found."""

    def __post_init__(self) -> None:
        self._is_raw = self.client.options.sigmoid or not self.client.options.check_raw
        self._is_rendered = self.client.rendering is None or not self.check_template

    @property
    def name(self) -> str:
        return self.client.name

    def in_batches(
        self,
        texts: Sequence[Text],
        skip: frozenset[int] = frozenset(),  # noqa: ARG002
        known: Mapping[str, float] | None = None,  # noqa: ARG002
    ) -> Generator[Finished, None, None]:
        """Rows and their rewards as they come, in any order; each row once.

        LLMError: the server cannot be reached, refuses the key or the request, or gave no answer to a text although it
        was tried again; raised after every received reward was passed on (the first few are held back until the server
        is known to leave the sigmoid off). ModelError: several outputs, NaN or infinity, a text too long, or a sigmoid.
        """
        self.n_truncated = 0
        done = 0
        try:
            for scored in self._checked(texts):
                done += 1
                yield [scored]
        except LLMError as error:
            if not done:
                raise
            raise LLMError(
                f"{error}. {done:,} of {len(texts):,} texts were scored before that; once the server answers again, the "
                "same command goes on with the rest"
            ) from None

    def _checked(self, texts: Sequence[Text]) -> Iterator[tuple[int, TextScore]]:
        sigmoid = self.client.options.sigmoid
        probed = range(0 if self._is_raw and self._is_rendered else min(_PROBED, len(texts)))
        if probed:
            first = dict(self._answers(texts, probed, sigmoid))
            if not self._is_rendered:
                self._check_template(texts, {row: answer.input_tokens for row, answer in first.items()})
            if not self._is_raw:
                self._check_raw(texts, {row: float(answer.text) for row, answer in first.items() if answer.text})
            yield from self._counted(first.items())
        yield from self._counted(self._answers(texts, range(len(probed), len(texts)), sigmoid, self.label))

    def _check_template(self, texts: Sequence[Text], counts: Mapping[int, int]) -> None:
        """Raise ModelError if the server read other tokens than those of the named tokenizer's template; counts by row, 0 for
        none. A server that counts no tokens cannot be checked.
        """
        counted, rendering = {row: count for row, count in counts.items() if count}, self.client.rendering
        assert rendering is not None
        faults = _FAULTS if self.client.server_renders else {"twice": _AGAIN}
        for row, count in counted.items():
            if (found := self.client.fault(count, *texts[row])) is not None:
                fault, expected = found
                raise ModelError(
                    f"{self.client.address}: the server read {count} tokens of text {row + 1}, and {rendering.name} makes {expected} "
                    f"of it: {faults.get(fault, _OTHER)}. score.self_check=false goes on without this check"
                )
        self.notes = (
            f"The server read as many tokens as {rendering.name} makes, on {len(counted)} of {len(counts)} texts: one chat template, "
            "once."
            if counted
            else "Whether the server applies a chat template of its own cannot be checked, since it counts no tokens: compare one "
            "reward with a known one.",
        )
        self._is_rendered = True

    def _check_raw(self, texts: Sequence[Text], first: Mapping[int, float]) -> None:
        """Raise ModelError unless the server follows the request to leave the sigmoid off, that is, to give the reward itself.

        With one output vLLM applies a sigmoid unless told otherwise, older versions know the option under other names and
        ignore this one, and others apply a softmax, which makes every reward 1. A value outside 0 to 1 settles it; else the
        same texts are asked again with the sigmoid on, and the answers must be the sigmoids of the first ones. A server that
        cannot be asked for a sigmoid must give a value outside 0 to 1.
        """
        if first and all(0 <= reward <= 1 for reward in first.values()):
            dialect = self.client.dialect
            again: dict[int, float] = {}
            if dialect.asks_raw:
                asked = self._answers(texts, list(first), activation=True)
                again = {row: math.nan if answer.text is None else float(answer.text) for row, answer in asked}
            # Nearer to one or the other: batch-mates move scores a little, so that equality would prove nothing.
            to_sigmoid = sum(abs(again[row] - 1 / (1 + math.exp(-first[row]))) for row in again)
            if not again or sum(abs(again[row] - first[row]) for row in again) <= to_sigmoid:
                ignored = (
                    " and do not depend on whether a sigmoid is asked for (use_activation, raw_scores)" if again else ""
                )
                raise ModelError(
                    f"{self.client.address}: {len(first)} of {len(first)} answers lie between 0 and 1{ignored}: the server most likely "
                    "applies a sigmoid or softmax, and margins between such values are no margins of rewards. "
                    f"{dialect.raw}. Where the model's rewards really lie between 0 and 1, set check_raw=false"
                )
        self._is_raw = True

    def _counted(self, answers: Iterable[tuple[int, Completion]]) -> Iterator[tuple[int, TextScore]]:
        # The raw check asks for known texts again, which count once.
        cut = self.client.options.truncate_tokens
        for row, answer in answers:
            self.n_truncated += cut is not None and answer.input_tokens >= cut
            yield row, TextScore(None if answer.text is None else float(answer.text))

    def _answers(
        self, texts: Sequence[Text], asked: Sequence[int], activation: bool, label: str | None = None
    ) -> Iterator[tuple[int, Completion]]:
        answers: Answers = answered(
            self.client, ((row, self.client.request(row, *texts[row], activation)) for row in asked)
        )
        if label is not None:
            answers = with_progress(answers, (), label, len(asked), lambda: None)
        with closing(answers):
            yield from answers
