"""Reward servers after their own documentation, each around a real tiny model: vLLM, SGLang, text-embeddings-inference, OpenRLHF.

Requests are validated as the real servers do, more strictly in one way: a field that is not documented is refused. Sources
stand in `cda/scorers/dialects.py`. A server may be wrongly set up: `template` once, twice or none, where it or a
proxy before it applies one; `sigmoid` always on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from serving import Body, Reply

from cda.models.load import RewardModel

Template = Literal["once", "twice", "none"]


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


@dataclass
class Scripted:
    """A server's model and set-up; `routes` answers a request."""

    model: RewardModel
    template: Template = "once"
    sigmoid: bool = False
    max_tokens: int = 64
    path: ClassVar[str]
    """The endpoint that an address without one means."""

    @cached_property
    def tokenizer(self) -> Any:
        return self.model.template.tokenizer

    def reward(self, ids: Sequence[int], segments: Sequence[int] | None = None, activation: bool = False) -> float:
        inputs = {"input_ids": torch.tensor([list(ids)])}
        if segments is not None and "token_type_ids" in self.tokenizer.model_input_names:
            inputs["token_type_ids"] = torch.tensor([list(segments)])
        with torch.inference_mode():
            reward = float(self.model.model(**inputs).logits[0, 0])
        return 1 / (1 + math.exp(-reward)) if activation or self.sigmoid else reward

    def ids(self, text: str, special: bool = True) -> list[int]:
        return list(self.tokenizer(text, add_special_tokens=special)["input_ids"])

    def rendered(self, messages: Sequence[Mapping[str, str]]) -> str:
        if self.template == "none":
            return "\n".join(message["content"] for message in messages)
        text = self.tokenizer.apply_chat_template(list(messages), tokenize=False)
        if self.template == "twice":
            text = self.tokenizer.apply_chat_template([{"role": "user", "content": text}], tokenize=False)
        return str(text)

    def proxied(self, text: str) -> str:
        """A text that should be taken as it is, as a wrongly set-up server or proxy takes it."""
        if self.template == "twice":
            return str(self.tokenizer.apply_chat_template([{"role": "user", "content": text}], tokenize=False))
        return text

    def routes(self, method: str, path: str, body: Body | None) -> Reply:
        raise NotImplementedError


class _Vllm(Strict):
    """`PoolingBasicRequestMixin` and `ClassifyRequestMixin`, with the fields of chat and of completions."""

    model: str | None = None
    user: str | None = None
    truncate_prompt_tokens: int | None = Field(None, ge=-1)
    truncation_side: Literal["left", "right"] | None = None
    request_id: str | None = None
    use_activation: bool | None = None
    messages: list[dict[str, str]] | None = None
    add_generation_prompt: bool = False
    add_special_tokens: bool | None = None
    input: list[int] | str | None = None


class _VllmPooling(_Vllm):
    encoding_format: Literal["float", "base64"] = "float"
    task: Literal["classify", "token_classify", "embed", "token_embed"] | None = None


class _VllmScore(Strict):
    model: str | None = None
    truncate_prompt_tokens: int | None = None
    truncation_side: Literal["left", "right"] | None = None
    use_activation: bool | None = None
    text_1: str
    text_2: str


class Vllm(Scripted):
    path = "classify"

    def routes(self, method: str, path: str, body: Body | None) -> Reply:
        if method == "GET" and path == "/v1/models":
            card = {"id": "rm", "object": "model", "created": 1, "owned_by": "vllm", "root": "org/rm", "parent": None}
            return 200, {"object": "list", "data": [card | {"max_model_len": self.max_tokens, "permission": []}]}
        if method == "GET" or path not in ("/tokenize", "/classify", "/pooling", "/score"):
            return 404, {"detail": "Not Found"}
        assert body is not None
        if path == "/tokenize":
            ids = self._ids(body.get("messages"), body.get("prompt"), body.get("add_special_tokens"))
            return 200, {"count": len(ids), "max_model_len": self.max_tokens, "tokens": ids, "token_strs": None}
        segments: list[int] | None = None
        try:
            if path == "/score":
                pair = _VllmScore(**body)
                coded = self.tokenizer(pair.text_1, pair.text_2, return_token_type_ids=True)
                asked, ids, segments = pair, list(coded["input_ids"]), list(coded["token_type_ids"])
            else:
                asked = (_VllmPooling if path == "/pooling" else _Vllm)(**body)  # type: ignore[assignment]
                ids = self._ids(asked.messages, asked.input, asked.add_special_tokens)  # type: ignore[attr-defined]
        except ValidationError as error:
            return _openai_error(400, str(error.errors()[0]["msg"]), "BadRequestError")
        if asked.truncate_prompt_tokens:
            ids = ids[: asked.truncate_prompt_tokens]
        if len(ids) > self.max_tokens:
            said = f"This model's maximum context length is {self.max_tokens} tokens. However, your request has {len(ids)} input tokens."
            return _openai_error(400, said, "BadRequestError")
        reward = self.reward(ids, segments, asked.use_activation is not False)
        item = {
            "/classify": {"label": "LABEL_0", "probs": [reward], "num_classes": 1},
            "/pooling": {"object": "pooling", "data": [reward]},
            "/score": {"object": "score", "score": reward},
        }[path]
        answer = {"id": "classify-1", "object": "list", "created": 1, "model": "rm", "data": [{"index": 0} | item]}
        return 200, answer | {"usage": _usage(ids)}

    def _ids(self, messages: Any, text: Any, special: bool | None) -> list[int]:
        if messages:
            return self.ids(self.rendered(messages), bool(special))
        return list(text) if isinstance(text, list) else self.ids(str(text), special is not False)


class _Sglang(Strict):
    """`EmbeddingReqInput`, as far as texts go."""

    text: str | None = None
    input_ids: list[int] | None = None
    rid: str | None = None


class _SglangOpenAI(Strict):
    """`ClassifyRequest`."""

    model: str
    input: str | list[int]
    user: str | None = None
    rid: str | None = None
    priority: int | None = None


class Sglang(Scripted):
    path = "classify"

    def routes(self, method: str, path: str, body: Body | None) -> Reply:
        if method == "GET":
            card = {
                "id": "rm",
                "object": "model",
                "created": 1,
                "owned_by": "sglang",
                "root": "org/rm",
                "max_model_len": 64,
            }
            info = {
                "model_path": "org/rm",
                "tokenizer_path": "org/rm",
                "is_generation": False,
                "weight_version": "default",
            }
            pages = {"/v1/models": {"object": "list", "data": [card]}, "/get_model_info": info}
            return (200, pages[path]) if path in pages else (404, {"detail": "Not Found"})
        assert body is not None
        try:
            if path == "/classify":
                native = _Sglang(**body)
                given: Any = native.text if native.input_ids is None else native.input_ids
            elif path == "/v1/classify":
                given = _SglangOpenAI(**body).input
            else:
                return 404, {"detail": "Not Found"}
        except ValidationError as error:
            return 400, {
                "object": "error",
                "message": str(error.errors()[0]["msg"]),
                "type": "Bad Request",
                "code": 400,
            }
        ids = self.ids(given) if isinstance(given, str) else list(given)
        if self.template != "once":
            text = self.tokenizer.decode(ids, skip_special_tokens=self.template == "none")
            ids = self.ids(self.proxied(text), special=False)
        if len(ids) > self.max_tokens:
            said = (
                f"The input ({len(ids)} tokens) is longer than the model's context length ({self.max_tokens} tokens)."
            )
            return 400, {"error": {"message": said}}
        reward = self.reward(ids)
        if path == "/classify":
            meta = {"id": "x", "finish_reason": None, "prompt_tokens": len(ids), "e2e_latency": 0.01}
            return 200, {"embedding": [reward], "meta_info": meta}
        item = {"index": 0, "label": "LABEL_0", "probs": [1.0], "num_classes": 1}  # a softmax over one label
        return 200, {
            "id": "classify-1",
            "object": "list",
            "created": 1,
            "model": "rm",
            "data": [item],
            "usage": _usage(ids),
        }


class _TeiPredict(Strict):
    inputs: str | list[str] | list[list[str]]
    truncate: bool | None = None
    truncation_direction: Literal["Left", "Right", "left", "right"] = "Right"
    raw_scores: bool = False


class _TeiRerank(Strict):
    query: str
    texts: list[str]
    truncate: bool | None = None
    truncation_direction: Literal["Left", "Right", "left", "right"] = "Right"
    raw_scores: bool = False
    return_text: bool = False


class Tei(Scripted):
    path = "predict"

    def routes(self, method: str, path: str, body: Body | None) -> Reply:
        if method == "GET":
            labels = {"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}
            info = {
                "model_id": "org/rm", "model_sha": "fca14538", "model_dtype": "float32", "served_model_name": "org/rm",
                "model_type": {"reranker": labels}, "max_concurrent_requests": 512, "max_input_length": self.max_tokens,
                "max_batch_tokens": 16384, "max_batch_requests": None, "max_client_batch_size": 32, "auto_truncate": True,
                "tokenization_workers": 2, "version": "1.9.3", "sha": None, "docker_label": None,
            }  # fmt: skip
            return (200, info) if path == "/info" else (404, b"")
        try:
            if path == "/predict":
                predict = _TeiPredict(**body or {})
                inputs: Any = predict.inputs
                asked: Any = predict
            elif path == "/rerank":
                asked = _TeiRerank(**body or {})
                inputs = [asked.query, asked.texts[0]]
            else:
                return 404, b""
        except ValidationError as error:
            return 422, f"Failed to deserialize the JSON body into the target type: {error.errors()[0]['msg']}".encode()
        ids, segments = self._encoded(inputs)
        if len(ids) > self.max_tokens:
            if asked.truncate is False:
                said = f"`inputs` must have less than {self.max_tokens} tokens. Given: {len(ids)}"
                return 422, {"error": said, "error_type": "Validation"}
            ids, segments = ids[: self.max_tokens], segments and segments[: self.max_tokens]
        score = self.reward(ids, segments, not asked.raw_scores)
        item = {"score": score, "label": "LABEL_0"} if path == "/predict" else {"index": 0, "score": score}
        headers = {"x-compute-type": "cpu", "x-compute-tokens": str(len(ids)), "x-compute-characters": "1"}
        return 200, [item], headers

    def _encoded(self, inputs: str | list[str]) -> tuple[list[int], list[int] | None]:
        if isinstance(inputs, str):
            return self.ids(self.proxied(inputs)), None
        coded = self.tokenizer(*inputs, return_token_type_ids=True)
        return list(coded["input_ids"]), list(coded["token_type_ids"])


class OpenRLHF(Scripted):
    """`openrlhf.cli.serve_rm`: FastAPI without a schema of the request; a query that is no list is an error of the server."""

    path = "get_reward"
    nested = False
    """Rewards as a list of lists, as a head of shape (n, 1) without a squeeze gives them."""
    older = False
    """Before `scores` and `extra_logs`."""

    def routes(self, method: str, path: str, body: Body | None) -> Reply:
        if method == "GET":
            info = {"title": "FastAPI", "version": "0.1.0"}
            paths = {"openapi": "3.1.0", "info": info, "paths": {"/get_reward": {"post": {}}}}
            return (200, paths) if path == "/openapi.json" else (404, {"detail": "Not Found"})
        if path != "/get_reward":
            return 404, {"detail": "Not Found"}
        assert body is not None and set(body) <= {"query", "prompts", "labels"}
        if not isinstance(body.get("query"), list):
            return 500, b"Internal Server Error"
        rewards = [
            self.reward(self.ids(self.proxied(text), special=False)[: self.max_tokens]) for text in body["query"]
        ]
        shaped = [[reward] for reward in rewards] if self.nested else rewards
        if self.older:
            return 200, {"rewards": shaped}
        return 200, {"rewards": shaped, "scores": shaped, "extra_logs": {"dummy_scores": rewards}}


def _usage(ids: Sequence[int]) -> dict[str, Any]:
    return {"prompt_tokens": len(ids), "total_tokens": len(ids), "completion_tokens": 0, "prompt_tokens_details": None}


def _openai_error(status: int, message: str, kind: str) -> Reply:
    return status, {"error": {"message": message, "type": kind, "param": None, "code": status}}
