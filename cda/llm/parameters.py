"""The body of a call, without the parameters that this server turned out not to take."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from cda.inert import sendable as sendable
from cda.llm.protocol import Request
from cda.llm.structured import response_format

_OPTIONAL = ("max_completion_tokens", "temperature", "seed")


class Parameters:
    """What is sent with each call; learns from rejections.

    Args:
        model: Model name.
        max_tokens: Longest answer; sent as `max_completion_tokens`, or as `max_tokens` to servers that only know that.
        temperature: Left out where the model rejects it.
        seed: None: not sent. Sample k of a request is asked for with seed + k, or all samples would be the same.
        say: Told once of each parameter that is given up.
    """

    def __init__(
        self, model: str, max_tokens: int, temperature: float, seed: int | None, say: Callable[[str], None]
    ) -> None:
        self._model = model
        self._max_tokens = max_tokens
        self._temperature = temperature
        self._seed = seed
        self._say = say
        self._given_up: set[str] = set()

    def body(self, request: Request) -> dict[str, object]:
        """Arguments of a chat completion."""
        longest = 1 if request.top_logprobs else self._max_tokens
        body: dict[str, object] = {
            "model": self._model,
            "messages": [
                {"role": "system", "content": sendable(request.system)},
                {"role": "user", "content": sendable(request.user)},
            ],
            "max_completion_tokens": longest,
            "temperature": 0.0 if request.top_logprobs else self._temperature,
        }
        if self._seed is not None:
            body["seed"] = self._seed + request.sample
        if request.schema is not None:
            body["response_format"] = response_format(request.schema)
        if request.top_logprobs:
            body |= {"logprobs": True, "top_logprobs": request.top_logprobs}
        for name in self._given_up:
            body.pop(name, None)
        if "max_completion_tokens" in self._given_up:
            body["max_tokens"] = longest
        return body

    def give_up(self, sent: Mapping[str, object], param: str | None, message: str) -> bool:
        """Leave out from now on what a rejection names; False where it names nothing that was sent and can be left out.

        Args:
            sent: Body of the rejected call.
            param: The rejection's own `param`; trusted where there is one.
            message: Searched otherwise.
        """
        name = _named(param, message)
        if name is None or name not in sent:
            return False
        if name not in self._given_up:
            self._given_up.add(name)
            instead = "'max_tokens' is sent instead" if name == "max_completion_tokens" else "it is not sent any more"
            self._say(f"{self._model} does not take '{name}': {instead}")
        return True


def _named(param: str | None, message: str) -> str | None:
    if param:
        return param if param in _OPTIONAL else None
    # Servers may repeat the whole request further on, prompt and all.
    start = message[:300]
    return next((name for name in _OPTIONAL if re.search(rf"(?<!\w){name}(?!\w)", start)), None)
