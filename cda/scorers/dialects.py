"""Dialects of reward servers: what each endpoint is sent, where its answer holds the reward, and how a server is recognised; settings.

Sources: vLLM, `vllm/entrypoints/pooling/{base,classify,pooling,scoring}/protocol.py`. SGLang, "SGLang Native APIs",
"Classification API" and `srt/entrypoints/{http_server,openai/serving_classify}.py`. text-embeddings-inference (TEI) 1.9,
`docs/openapi.json` and `router/src/http/{server,types}.rs`. OpenRLHF 0.4 to 0.10, `cli/serve_rm.py` and the trainers' side,
`utils/{remote_rm_utils,agent}.py`: `prompts` and `labels` came after `query`, and every version reads `rewards`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args
from urllib.parse import urlsplit, urlunsplit

from pydantic import BaseModel, ConfigDict, Field

from cda.errors import ModelError
from cda.inert import inert, sendable

ServerName = Literal["vllm", "sglang", "tei", "openrlhf"]


@dataclass(frozen=True, slots=True)
class Given:
    """One text as a request may hold it, and what is asked of the server."""

    prompt: str
    response: str
    text: str
    """Both as one text, by a chat template if one is applied here."""
    activation: bool
    """Ask for the sigmoid of the reward."""
    messages: Sequence[Mapping[str, str]] | None = None
    """The conversation, if the server applies the chat template."""
    ids: Sequence[int] | None = None
    """Token ids of the text, if a tokenizer is named."""
    as_pair: bool = False
    """The named tokenizer encodes prompt and response as a text pair."""
    model: str | None = None
    truncate_tokens: int | None = None
    last_token: bool = False


@dataclass(frozen=True, slots=True)
class Dialect:
    """One endpoint of one kind of server."""

    takes: Literal["messages", "ids", "text", "pair"]
    """messages: it applies the chat template, or takes token ids or text as they are; ids: ids or text; text: only text;
    pair: prompt and response apart."""
    body: Callable[[Given], dict[str, object]]
    items: Callable[[Any], object]
    """The results in an answer, as a list with one for each text. May raise on an answer of another form."""
    field: str
    """The part of a result that holds the reward, bare or in a list."""
    raw: str
    """How to have the server leave the sigmoid off, if its answers ignore the request's option."""
    asks_raw: bool = True
    """The request says if a sigmoid is wanted."""
    adds_special_tokens: bool = True
    """The server's tokenizer adds its special tokens, such as BOS, to a text."""


@dataclass(frozen=True, slots=True)
class Server:
    """A kind of server, and its endpoints by name; the first one is meant by an address without any."""

    title: str
    endpoints: Mapping[str, Dialect]
    start: str
    """How it is started so that it has these endpoints."""
    longer: str
    """What to do about texts that it calls too long."""
    told: str = ""
    """What else the report must say of it."""


def _vllm(given: Given, **more: object) -> dict[str, object]:
    body = {"use_activation": given.activation, **more}
    if given.model is not None:
        body["model"] = given.model
    if given.truncate_tokens is not None:
        # The response's end goes first, as it does for local models.
        body |= {"truncate_prompt_tokens": given.truncate_tokens, "truncation_side": "right"}
    return body


def _vllm_text(given: Given, **more: object) -> dict[str, object]:
    if given.messages is None:
        return _vllm(given, input=given.text if given.ids is None else list(given.ids), **more)
    # Stated and not left to defaults: some versions add the start of another answer, and the template writes the BOS.
    stated = {"add_generation_prompt": False, "add_special_tokens": False}
    return _vllm(given, messages=list(given.messages), **stated, **more)


def _vllm_pooling(given: Given) -> dict[str, object]:
    return _vllm_text(given, encoding_format="float", task="token_classify" if given.last_token else "classify")


def _sglang_native(given: Given) -> dict[str, object]:
    # Of a text SGLang makes tokens with a BOS of its own, in front of the template's.
    return {"text": given.text} if given.ids is None else {"input_ids": list(given.ids)}


def _sglang_openai(given: Given) -> dict[str, object]:
    return {"model": given.model or "default", "input": given.text if given.ids is None else list(given.ids)}


def _tei(given: Given, **more: object) -> dict[str, object]:
    # Stated: TEI cuts long texts unless told otherwise.
    cut = {"truncate": given.truncate_tokens is not None, "truncation_direction": "Right"}
    return {**more, **cut, "raw_scores": not given.activation}


def _tei_predict(given: Given) -> dict[str, object]:
    return _tei(given, inputs=[given.prompt, given.response] if given.as_pair else given.text)


def _data(answer: Any) -> object:
    return answer["data"]


def _openrlhf_rewards(answer: Any) -> list[object]:
    rewards = answer["rewards"]
    if isinstance(rewards, list) and len(rewards) == 1 and isinstance(rewards[0], list):
        rewards = rewards[0]  # heads of shape (n, 1), of servers of one's own
    return [{"rewards": rewards}]


_VLLM_RAW = "Start it with --pooler-config '{\"use_activation\": false}', or set sigmoid=true to have a sigmoid undone"
_UNDO = "Have it answer with the reward itself, or set sigmoid=true to have a sigmoid undone"

SERVERS: Mapping[ServerName, Server] = {
    "vllm": Server(
        "vLLM",
        {
            "classify": Dialect("messages", _vllm_text, _data, "probs", _VLLM_RAW),
            "pooling": Dialect("messages", _vllm_pooling, _data, "data", _VLLM_RAW),
            "score": Dialect(
                "pair",
                lambda given: _vllm(given, text_1=given.prompt, text_2=given.response),
                _data,
                "score",
                _VLLM_RAW,
            ),
        },
        "vLLM has /classify and /pooling where it serves a model with --runner pooling, /score where that has one output",
        "Start the server with a larger --max-model-len, have texts cut with truncate_tokens",
    ),
    "sglang": Server(
        "SGLang",
        {
            "classify": Dialect("ids", _sglang_native, lambda answer: [answer], "embedding", _UNDO, asks_raw=False),
            "v1/classify": Dialect(
                "ids",
                _sglang_openai,
                _data,
                "probs",
                "SGLang's /v1/classify always does: ask its /classify, which gives the reward itself",
                asks_raw=False,
            ),
        },
        "SGLang has /classify and /v1/classify where it serves a reward model with --is-embedding",
        "Start the server with a larger --context-length, have texts cut with truncate_tokens (and tokenizer)",
    ),
    "tei": Server(
        "text-embeddings-inference",
        {
            "predict": Dialect("text", _tei_predict, lambda answer: [_scores(answer)], "score", _UNDO),
            "rerank": Dialect(
                "pair",
                lambda given: _tei(given, query=given.prompt, texts=[given.response]),
                lambda answer: [*answer],
                "score",
                _UNDO,
            ),
        },
        "text-embeddings-inference has /predict for sequence classifiers, /rerank for those with one label",
        "Have texts cut with truncate_tokens, set to max_input_length of its /info",
    ),
    "openrlhf": Server(
        "OpenRLHF",
        {
            "get_reward": Dialect(
                "text",
                lambda given: {"query": [given.text], "prompts": [given.prompt], "labels": [None]},
                _openrlhf_rewards,
                "rewards",
                _UNDO,
                asks_raw=False,
                adds_special_tokens=False,
            )
        },
        "OpenRLHF's server (python -m openrlhf.cli.serve_rm) has /get_reward",
        "Start the server with a larger --data.max_len",
        ", which cuts texts at its own --data.max_len (2,048 tokens unless set) and does not say which",
    ),
}
FIRST_ASKED = "/v1/models"
ENDPOINTS = tuple(dict.fromkeys(name.rpartition("/")[2] for server in SERVERS.values() for name in server.endpoints))


def _scores(predictions: Any) -> dict[str, object]:
    """One result of a text's labels, which TEI sorts by score."""
    return {"score": [prediction["score"] for prediction in predictions]}


def servers_with(endpoint: str) -> list[ServerName]:
    """The kinds of servers that have an endpoint of this name."""
    return [name for name in get_args(ServerName) if endpoint in SERVERS[name].endpoints]


@dataclass(frozen=True, slots=True)
class Found:
    """A server as it describes itself."""

    server: ServerName | None = None
    told: str = ""
    """The path whose answer names it."""
    listed: tuple[str, ...] = ()
    """Models that it offers."""
    weights: str | None = None
    """Hub id or folder of the model."""
    max_tokens: int | None = None
    """Length at which it cuts texts if it is asked to."""
    problem: str | None = None
    """Why it gives no rewards."""
    revision: str | None = None
    """Commit of the model."""


def recognise(get: Callable[[str], object]) -> Found:
    """The kind of a server and its models; `get` gives the JSON at a path, None if there is none."""
    cards = [card for card in _rows(part_of(get(FIRST_ASKED), "data")) if "id" in card]
    listed = tuple(str(card["id"]) for card in cards)
    owners, root = {card.get("owned_by") for card in cards}, _name(cards[0].get("root")) if cards else None
    if "vllm" in owners:
        return Found("vllm", "/v1/models", listed, root)
    model = get("/get_model_info")
    if "sglang" in owners or part_of(model, "is_generation") is not None:
        generates = part_of(model, "is_generation") is True
        problem = "serves a model that generates text; start SGLang with --is-embedding to have rewards"
        told = "/v1/models" if "sglang" in owners else "/get_model_info"
        return Found(
            "sglang", told, listed, _name(part_of(model, "model_path")) or root, None, problem if generates else None
        )
    info = get("/info")
    if (kinds := part_of(info, "model_type")) and part_of(info, "max_input_length"):
        return _tei_found(info, list(kinds) if isinstance(kinds, dict) else [str(kinds)])
    paths = part_of(get("/openapi.json"), "paths")
    return _by_paths([*paths] if isinstance(paths, dict) else [], listed)


def _tei_found(info: Any, kinds: Sequence[str]) -> Found:
    name, limit = _name(info.get("model_id")), info["max_input_length"]
    problem = "serves an embedding model, which gives no rewards" if "embedding" in kinds else None
    limit = limit if isinstance(limit, int) else None
    return Found("tei", "/info", (name,) if name else (), name, limit, problem, _name(info.get("model_sha")))


def _by_paths(paths: Sequence[str], listed: tuple[str, ...]) -> Found:
    """A server by the list of its paths, as FastAPI gives it."""
    if "/get_reward" in paths:
        return Found("openrlhf", "/openapi.json", listed)
    if not paths or any(path.rpartition("/")[2] in ENDPOINTS for path in paths):
        return Found(listed=listed)
    title = "is `transformers serve`, which" if "/load_model" in paths else "is a server that"
    shown = ", ".join(inert(sendable(path)) for path in paths[:4])
    return Found(
        listed=listed,
        problem=f"{title} has no endpoint for rewards (it has {shown}{', …' * (len(paths) > 4)}). Give the model's folder or hub id "
        "itself (cda audit FOLDER), or serve it with vLLM (vllm serve FOLDER --runner pooling)",
    )


def part_of(answer: object, key: str) -> Any:
    """The value of a key, None if the answer is no object or has no such key."""
    return answer.get(key) if isinstance(answer, dict) else None


def _rows(value: object) -> Iterator[dict[str, Any]]:
    return (row for row in value if isinstance(row, dict)) if isinstance(value, list) else iter(())


def _name(value: object) -> str | None:
    return inert(sendable(value)) if isinstance(value, str) and value else None


Positive = Annotated[int, Field(ge=1)]


class ServedOptions(BaseModel):
    """Options of a reward model behind a server: vLLM, SGLang, text-embeddings-inference, OpenRLHF."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    model: str | None = None
    """Its name on the server; null: whatever is served there."""
    dialect: Literal["auto"] | ServerName = "auto"
    """Kind of server. auto: as the server describes itself, else the only kind that has the address's endpoint, else vllm; the
    report says which."""
    tokenizer: str | None = None
    """Folder or hub id of the served model's tokenizer. With it texts are rendered here for servers that apply no chat template
    (all but vLLM), and a template that the server applies twice or not at all is found."""
    form: Literal["messages", "text"] = "messages"
    """messages: the conversation, to which vLLM applies the model's chat template. text: one text, by the chat template of
    `tokenizer`, without one the prompt, a blank line and the response; so do all servers but vLLM get it."""
    sigmoid: bool = False
    """The server can only answer with the sigmoid of the reward: ask for it, and undo it."""
    check_raw: bool = True
    """Before anything else, make sure that the server left the sigmoid off."""
    last_token: bool = False
    """The server gives a number for every token (vLLM's /pooling only); take the last."""
    truncate_tokens: Positive | None = None
    """The first so many tokens are kept: by vLLM (versions before `truncation_side` keep the last instead), here for SGLang, which
    needs `tokenizer`; text-embeddings-inference cuts at its own length alone. null: a text longer than the model reads is too
    long."""
    too_long: Literal["refuse", "count"] = "refuse"
    """Texts that the server calls too long: stop, or leave them out and count them."""
    api_key_env: str = "VLLM_API_KEY"
    """The environment variable that holds the key, if the server requires one."""
    concurrency: Positive = 32
    """Requests under way at once, at most; a 429 halves it for a while."""


def endpoint_of(url: str) -> tuple[str, str | None]:
    """Address before the endpoint's name, and that name; None if the address is that of a server, with or without /v1.

    ModelError for anything but an http address.

    >>> endpoint_of("http://localhost:8000/v1"), endpoint_of("https://host/models/7/pooling")
    (('http://localhost:8000', None), ('https://host/models/7', 'pooling'))
    """
    try:
        parts = urlsplit(url)
    except ValueError:  # brackets that hold no IPv6 address
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise ModelError(f"'{url.rpartition('@')[2]}' is no address of a server, like http://localhost:8000/classify")
    whole = parts.path.rstrip("/")
    path, _, last = whole.rpartition("/")
    if last not in ENDPOINTS:
        path, last = whole.removesuffix("/v1"), ""
    return urlunsplit((parts.scheme, parts.netloc, path, "", "")), last or None
