"""An LLM over the OpenAI API: many calls at once, retries and cool-downs of our own, failures by reason."""

from __future__ import annotations

import os
import re
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from cda.errors import LLMError
from cda.inert import sendable
from cda.keys import address_problem, variable_problem
from cda.llm.asking import Answers, Ask, answered, back_off, pause, print_line, with_progress
from cda.llm.limiter import Limiter
from cda.llm.money import OPENAI, Account, Agreed, Bill, request_tokens
from cda.llm.outcome import Again, Endpoint, Outcome, Rejected, Throttled, of_content, of_status, tokens_used
from cda.llm.protocol import FILTERED, TOO_LARGE, Completion, Request, gave_up, in_plain_words, json_of

_LONGEST_WAIT_S = 86_400.0
_SAY_AGAIN_S = 60.0
_OPTIONAL = ("max_completion_tokens", "temperature", "seed")
_SCHEMA_REJECTED = "schema rejected"


@dataclass(eq=False)
class OpenAIClient:
    """Chat completions from any OpenAI-compatible endpoint; `base_url` None: OPENAI_BASE_URL if it is set, else OpenAI's.

    Retries are ours and not the openai package's, because a 429 concerns all workers and not the one that got it: it halves
    `concurrency`, the most calls under way at once, for a while. The limits a minute are our own, tokens those of input and
    output together; None: as fast as the server allows. `say` is called with messages for the user, once each.
    """

    name: str
    """With `@` and the endpoint's name, if `at` names one; the server is told the rest."""
    base_url: str | None = None
    api_key_env: str = "OPENAI_API_KEY"
    """Empty: no key is sent."""
    concurrency: int = 16
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    temperature: float = 0.0
    """Left out if the model rejects it."""
    max_tokens: int = 2048
    """Longest answer; sent as `max_completion_tokens`, or as `max_tokens` to servers that only know that."""
    seed: int | None = None
    """None: not sent. Sample k of a request is asked for with seed + k, or all samples would be the same."""
    timeout_s: float = 120.0
    """For one attempt from start to end."""
    retries: int = 5
    """After 408, 409, 5xx, timeouts, lost connections and broken answers, with growing random pauses. 429 is waited out however
    often it comes."""
    say: Callable[[str], None] = print_line
    backoff_s: float = 0.5
    """Longest first pause; doubles with each try."""
    at: str | None = None
    """Name of the further endpoint (llm.endpoints) that this is; then its key is needed."""
    account: Account | None = None
    """Pays for every attempt; None: no price is known."""
    agreed: Agreed | None = None
    """Counts what is asked again; None: nothing is paid for it."""
    _limiter: Limiter = field(init=False, repr=False)
    _given_up: set[str] = field(init=False, repr=False, default_factory=set)
    """Fields of a request that the model rejects."""
    _lacks_schemas: bool = field(init=False, repr=False, default=False)
    """The server rejects or ignores schemas: they are not sent any more."""
    _followed_a_schema: bool = field(init=False, repr=False, default=False)
    _reached: bool = field(init=False, repr=False, default=False)
    _lost_in_a_row: int = field(init=False, repr=False, default=0)
    _said_pause_until: float = field(init=False, repr=False, default=float("-inf"))

    def __post_init__(self) -> None:
        if self.api_key_env and (problem := variable_problem(self.api_key_env)):
            raise LLMError(f"{self.section}.api_key_env: {problem}")
        try:
            urlsplit(self._url)
        except ValueError as error:
            raise LLMError(
                f"{self._url.rpartition('@')[2]}: no address of a server ({error}); set {self.section}.base_url"
            ) from None
        self._limiter = Limiter(self.concurrency, self.requests_per_minute, self.tokens_per_minute, sleep=pause)

    @property
    def settings(self) -> Mapping[str, Any]:
        """Settings that decide an answer apart from the request."""
        return {
            "model": self._model,
            "base_url": self._url.rstrip("/"),
            "temperature": float(self.temperature),
            "seed": self.seed,
            "max_tokens": self.max_tokens,
        }

    @property
    def spent_usd(self) -> float | None:
        """Dollars paid from the purse so far; None if no price is known."""
        return None if self.account is None else self.account.purse.spent

    def missing_key(self) -> list[str]:
        """The problem that a key is needed and not there; empty if there is none."""
        if self.endpoint.key or not (self.base_url is None or (self.at and self.api_key_env)):
            return []
        return [
            f"{'the model' if self.at else 'llm.model'} is {self.name}, but the environment variable {self.api_key_env} holds "
            f"no key ({self.section}.api_key_env)"
        ]

    def wrong_address(self) -> list[str]:
        """The problem of an address that no call can be made to; empty if there is none."""
        if problem := address_problem(self._url, with_version=True):
            where = f"{self.section}.base_url" if self.base_url else "the environment variable OPENAI_BASE_URL"
            return [f"{where}: {problem} ({self.api_key_env})"]
        return []

    def answers(self, requests: Iterable[Request], label: str, total: int | None = None) -> Answers:
        """Position and answer of each request, as they come; see LLM.answers."""
        return with_progress(answered(self, enumerate(requests)), requests, label, total, lambda: None)

    def body(self, request: Request) -> dict[str, object]:
        """The body for a request, as far as the server is known by now."""
        return self._body(in_plain_words(request) if self._lacks_schemas else request)

    def _body(self, request: Request) -> dict[str, object]:
        longest = 1 if request.top_logprobs else self.max_tokens
        body: dict[str, object] = {
            "model": self._model,
            "messages": [
                {"role": "system", "content": sendable(request.system)},
                {"role": "user", "content": sendable(request.user)},
            ],
            "max_completion_tokens": longest,
            "temperature": 0.0 if request.top_logprobs else self.temperature,
        }
        if self.seed is not None:
            body["seed"] = self.seed + request.sample
        if request.schema is not None:
            held = {"name": "answer", "strict": True, "schema": dict(request.schema)}
            body["response_format"] = {"type": "json_schema", "json_schema": held}
        if request.top_logprobs:
            body |= {"logprobs": True, "top_logprobs": request.top_logprobs}
        for name in self._given_up:
            body.pop(name, None)
        if "max_completion_tokens" in self._given_up:
            body["max_tokens"] = longest
        return body

    def give_up_parameter(self, sent: Mapping[str, object], param: str | None, message: str) -> bool:
        """Leave out the field that a rejection names from now on, by its `param`, else its message; False if it names
        none that was sent and can be left out.
        """
        # Servers may repeat the whole request further on, prompt and all.
        in_message = (name for name in _OPTIONAL if re.search(rf"(?<!\w){name}(?!\w)", message[:300]))
        name = param or next(in_message, "")
        if name not in _OPTIONAL or name not in sent:
            return False
        if name not in self._given_up:
            self._given_up.add(name)
            instead = "'max_tokens' is sent instead" if name == "max_completion_tokens" else "it is not sent any more"
            self.say(f"{self.name} does not take '{name}': {instead}")
        return True

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Ask]:
        """Open connections in the running event loop; gives the function that asks one question."""
        from cda.llm.connection import opened_async

        async with opened_async(
            self.endpoint.connection_key(), self._url, self.timeout_s, f"{self.section}.base_url"
        ) as http:
            yield partial(self._ask, http)

    async def _ask(self, http: object, request: Request) -> Completion:
        """One answer, held to the request's schema if it has one and the server can; its tokens are those of both questions
        if two were needed. A server that followed a schema once is not written off for a lapse: then this request is asked
        again.
        """
        if request.schema is None or self._lacks_schemas:
            return await self._send(http, in_plain_words(request))
        held = await self._send(http, request)
        rejected = held.reason == _SCHEMA_REJECTED
        if held.text is not None and (text := json_of(held.text, request.schema)) is not None:
            self._followed_a_schema = True
            return replace(held, text=text)
        if held.text is None and not rejected:
            return held
        self._count_again()
        plain = await self._send(http, in_plain_words(request))
        # A 400 may have had another cause: then plain words fail too, and nothing is learnt of schemas.
        if not self._followed_a_schema and not self._lacks_schemas and (plain.text is not None or not rejected):
            self._lacks_schemas = True
            self.say(f"the server {'rejects' if rejected else 'ignores'} JSON schemas: asked in plain words instead")
        return plain.with_tokens_of(held)

    async def _send(self, http: object, request: Request) -> Completion:
        """One question, tried until it is answered or given up."""
        tries = 0
        longest = 1 if request.top_logprobs else self.max_tokens
        tokens = request_tokens(request) + longest
        while True:
            body = self._body(request)
            paid: AbstractAsyncContextManager[Bill] = nullcontext(Bill((0, 0)))
            if self.account is not None:
                paid = self.account.attempt(request, longest)
            async with paid as bill, self._limiter.turn(tokens) as turn:
                outcome = await self._attempt(http, body, bill)
                if isinstance(outcome, Completion):
                    self._limiter.succeeded(turn, outcome.input_tokens + outcome.output_tokens)
                elif isinstance(outcome, Throttled):
                    self._tell_pause(self._limiter.throttled(turn, outcome.wait_s))
            if isinstance(outcome, Completion):
                if request.top_logprobs and outcome.text is not None and outcome.logprobs is None:
                    raise self._no_logprobs("it ignores 'logprobs'")
                return outcome
            if isinstance(outcome, Rejected):
                if request.top_logprobs and outcome.names_logprobs:
                    raise self._no_logprobs(outcome.completion.reason)
                if self.give_up_parameter(body, outcome.param, outcome.message):
                    continue
                if request.schema is not None:
                    return Completion(None, _SCHEMA_REJECTED)
                return outcome.completion
            if isinstance(outcome, Again):
                if outcome.input_tokens or outcome.output_tokens:
                    # It is paid for: whether there is money for another try is not known here.
                    return Completion(None, outcome.reason, outcome.input_tokens, outcome.output_tokens)
                tries += 1
                if tries > self.retries:
                    return self._give_up(tries, outcome)
                if not outcome.lost:
                    self._count_again()
                await back_off(tries, self.backoff_s, outcome.wait_s)

    def _count_again(self) -> None:
        if self.agreed is not None:
            self.agreed.again()

    async def _attempt(self, http: Any, body: Mapping[str, Any], bill: Bill) -> Outcome:
        import openai

        from cda.llm.connection import TooLargeError, posted

        bill.sent()
        try:
            setting = f"{self.section}.concurrency={self.concurrency}"
            answer = await posted(http, "/chat/completions", body, self.timeout_s, setting)
        except (ConnectionRefusedError, LLMError) as error:
            bill.free()
            if isinstance(error, LLMError):
                raise
            if not self._reached:
                raise LLMError(f"{self._server}: cannot be reached ({error}); check {self.section}.base_url") from None
            return Again("connection refused", lost=True)
        if isinstance(answer, Again):
            if answer.lost:
                bill.free()
            return answer
        if isinstance(answer, LLMError) and not isinstance(answer, TooLargeError):
            bill.free()
            raise answer
        self._reached, self._lost_in_a_row = True, 0
        if isinstance(answer, LLMError):
            return Completion(None, TOO_LARGE)
        if isinstance(answer, openai.APIStatusError):
            return self._refused(answer.response, bill)
        outcome = of_content(answer, self.endpoint, one_token=bool(body.get("logprobs")))
        used = tokens_used(outcome)
        if any(used) or isinstance(outcome, Completion | Again):
            bill.used(*used)
        else:
            bill.free()
        return outcome

    def _refused(self, response: Any, bill: Bill) -> Outcome:
        """Outcome of a status other than 200. A fault or timeout of the server may come after the model's work, and Azure bills a
        request that its filter stops; any other 4xx comes before it.
        """
        if 400 <= response.status_code < 500 and response.status_code != 408:
            bill.free()
        outcome = of_status(response.status_code, response.headers, response.content, self.endpoint)
        if isinstance(outcome, Throttled):
            bill.free()
        elif isinstance(outcome, Completion) and outcome.reason == FILTERED:
            bill.sent()
        return outcome

    def _no_logprobs(self, why: str | None) -> LLMError:
        return LLMError(
            f"{self._server}: gives no token probabilities of {self.name} ({why}); use a server that does, or ask for "
            "written answers"
        )

    def _give_up(self, tries: int, last: Again) -> Completion:
        """The failure to report; LLMError if so many requests in a row found no connection that the server must be gone."""
        if last.lost:
            self._lost_in_a_row += 1
            if not self._reached:
                raise LLMError(f"{self._server}: cannot be reached ({last.reason}); check {self.section}.base_url")
            if self._lost_in_a_row > max(32, 2 * self.concurrency):
                raise LLMError(f"{self._server}: cannot be reached any more ({last.reason}); what was answered is kept")
        return Completion(None, gave_up(tries, last.reason))

    def _tell_pause(self, pause_s: float) -> None:
        """Say that the server slows us down; LLMError if it wants more than a day."""
        if pause_s > _LONGEST_WAIT_S:
            raise LLMError(
                f"{self._server}: asks to wait {pause_s / 3600:.0f} hours (429); everything answered so far is kept, "
                "start again then"
            )
        until = time.monotonic() + pause_s
        if until > self._said_pause_until + _SAY_AGAIN_S:
            self._said_pause_until = until
            self.say(f"{self._server} asks to slow down (429): all calls wait {pause_s:.2g} s, then fewer at once")

    @property
    def section(self) -> str:
        """The section of settings that names this server, for messages."""
        return f"llm.endpoints.{self.at}" if self.at else "llm"

    @property
    def _model(self) -> str:
        """The name by which the server knows the model."""
        return self.name.removesuffix(f"@{self.at}") if self.at else self.name

    @property
    def _url(self) -> str:
        return self.base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI

    @property
    def _server(self) -> str:
        """The address for messages: whatever stands before the host or after the path may be a credential."""
        parts = urlsplit(self._url)
        return "OpenAI" if self._url == OPENAI else f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    @property
    def endpoint(self) -> Endpoint:
        """The server as messages may name it."""
        return Endpoint(self._server, self._model, self.api_key_env, self.section)
