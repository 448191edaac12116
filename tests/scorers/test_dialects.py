"""Served reward models in every dialect: a real tiny model behind a server after its documentation, through `cda audit` too."""

from __future__ import annotations

import json
import math
import re
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from reward_servers import OpenRLHF, Scripted, Sglang, Tei, Vllm
from serving import Body, Reply, Routes, Served
from tiny import load, scores_of
from typer.testing import CliRunner

from cda.cli import app
from cda.errors import LLMError, ModelError
from cda.models.config import ModelSpec
from cda.models.load import RewardModel, load_template
from cda.records import Message, Prompt, user_prompt
from cda.scorers.dialects import ServedOptions, endpoint_of
from cda.scorers.rendering import Rendering
from cda.scorers.served_client import ServedClient, ServedScorer, reward_in

if TYPE_CHECKING:
    from conftest import ModelMaker, Texts

CHAT = ((Vllm, ""), (Vllm, "/pooling"), (Sglang, "/classify"), (Tei, "/predict"), (OpenRLHF, "/get_reward"))


@pytest.fixture(scope="module")
def model(llama: Path) -> RewardModel:
    return load(llama)


@pytest.fixture(scope="module")
def cross_encoder(bert: Path) -> RewardModel:
    return load(bert)


def rendering(folder: Path, limit: int = sys.maxsize) -> Rendering:
    template = load_template(ModelSpec(str(folder), max_length_tokens=limit))
    template.max_length_tokens = limit
    return Rendering(template, folder.name)


def scorer(url: str, folder: Path | None = None, **options: Any) -> ServedScorer:
    """A checked scorer, with the tokenizer of a folder."""
    said = rendering(folder, options.get("truncate_tokens") or sys.maxsize) if folder else None
    client = ServedClient(url, ServedOptions(**options), retries=1, backoff_s=0.01, rendering=said)
    assert client.check() == []
    return ServedScorer(client)


@pytest.mark.parametrize(("kind", "path"), CHAT)
@pytest.mark.parametrize("form", ["messages", "text"])
def test_each_server_is_known_and_gives_the_models_own_rewards(
    kind: type[Scripted],
    path: str,
    form: str,
    served: Callable[..., Served],
    llama: Path,
    model: RewardModel,
    texts: Texts,
) -> None:
    server = served(routes=kind(model, max_tokens=256).routes)
    asked = scorer(f"{server.url}{path}", llama, form=form)
    np.testing.assert_allclose(asked.score(texts.prompts, texts.responses), scores_of(model, texts), atol=1e-5)
    (note,) = asked.client.notes()
    assert asked.client.server in note.lower().replace("text-embeddings-inference", "tei") and "says" in note
    rendered_there = form == "messages" and kind is Vllm
    assert ("The server applies the chat template" in note) is rendered_there
    assert (f"template of {llama.name} is applied here" in note) is not rendered_there
    (found,) = asked.notes
    counts = kind is not OpenRLHF
    assert ("on 8 of 8 texts: one chat template, once" in found) is counts
    assert ("cannot be checked, since it counts no tokens" in found) is not counts


@pytest.mark.parametrize(("kind", "path"), [(Vllm, "/score"), (Tei, "/rerank"), (Tei, "/predict")])
def test_cross_encoders_get_prompt_and_response_as_a_pair(
    kind: type[Scripted], path: str, served: Callable[..., Served], bert: Path, cross_encoder: RewardModel, texts: Texts
) -> None:
    server = served(routes=kind(cross_encoder, max_tokens=128).routes)
    asked = scorer(f"{server.url}{path}", bert)
    np.testing.assert_allclose(asked.score(texts.prompts, texts.responses), scores_of(cross_encoder, texts), atol=1e-5)
    assert "as a text pair" in asked.client.notes()[0] and "8 of 8" in asked.notes[0]


@pytest.mark.parametrize("shape", [{"nested": True}, {"older": True}, {}])
def test_every_form_of_openrlhfs_answer(
    shape: dict[str, bool], served: Callable[..., Served], llama: Path, model: RewardModel, texts: Texts
) -> None:
    scripted = OpenRLHF(model)
    for name, value in shape.items():
        setattr(scripted, name, value)
    found = scorer(served(routes=scripted.routes).url, llama).score(texts.prompts[:3], texts.responses[:3])
    np.testing.assert_allclose(found, scores_of(model, texts)[:3], atol=1e-5)


def test_without_a_tokenizer_plain_text_is_sent_and_the_report_says_so(
    served: Callable[..., Served], model: RewardModel
) -> None:
    for kind, field in ((Sglang, "text"), (Tei, "inputs"), (OpenRLHF, "query")):
        server = served(routes=kind(model).routes)
        asked = scorer(server.url, check_raw=False)
        asked.score([user_prompt("w1")], ["w2 <|end|> w3"])
        assert server.bodies[0][field] in ("w1\n\nw2 < |end|> w3", ["w1\n\nw2 < |end|> w3"])
        (note,) = asked.client.notes()
        named = "FOLDER" if kind is OpenRLHF else "org/rm"
        assert (
            f"without a chat template: if the model was trained with one, name its tokenizer (score.served.tokenizer={named})"
            in note
        )
        assert asked.notes == ()
    server = served(routes=Vllm(model).routes)
    adds = scorer(server.url).client.notes()[0]
    assert "which adds 5 tokens to a short conversation; that it does so once is not checked" in adds
    assert "score.served.tokenizer=org/rm" in adds
    server = served(routes=Vllm(model, template="none").routes)
    assert "adds nothing to a conversation" in scorer(server.url).client.notes()[0]


@pytest.mark.parametrize(
    ("kind", "template", "said"),
    [
        (Vllm, "twice", r"read \d+ tokens of text \d, and plain makes \d+ of it: .* more than once.*form=text"),
        (Vllm, "none", r"no chat template is applied.*form=text"),
        (Sglang, "twice", r"applied there again.*take score.served.tokenizer out"),
        (Sglang, "none", r"another tokenizer or chat template"),
        (Tei, "twice", r"applied there again"),
    ],
)
def test_a_template_applied_twice_or_not_at_all_is_found(
    kind: type[Scripted],
    template: Any,
    said: str,
    served: Callable[..., Served],
    llama: Path,
    model: RewardModel,
    texts: Texts,
) -> None:
    server = served(routes=kind(model, template, max_tokens=256).routes)
    with pytest.raises(ModelError, match=said) as error:
        scorer(server.url, llama).score(texts.prompts, texts.responses)
    assert len(server.bodies) <= 8 + 2 and "\n" not in str(error.value)
    unchecked = ServedScorer(scorer(server.url, llama, check_raw=False).client, check_template=False)
    wrong = unchecked.score(texts.prompts, texts.responses)
    assert np.abs(wrong - scores_of(model, texts)).max() > 0.1
    if kind is Vllm:  # the advice
        found = scorer(server.url, llama, form="text").score(texts.prompts, texts.responses)
        np.testing.assert_allclose(found, scores_of(model, texts), atol=1e-5)
    elif "again" in said:
        assert np.isfinite(scorer(server.url, check_raw=False).score(texts.prompts, texts.responses)).all()


def test_a_second_bos_is_found(
    served: Callable[..., Served], llama_maker: ModelMaker, llama: Path, model: RewardModel
) -> None:
    scripted = Vllm(model)
    template = "{{ bos_token }}" + scripted.tokenizer.chat_template
    twice = llama_maker("two-bos", chat_template=template)
    server = served(routes=Vllm(load(twice)).routes)
    with pytest.raises(ModelError, match=r"one more, most likely a second BOS.*form=text"):
        scorer(server.url, llama).score([user_prompt("w1")], ["w2"])


@pytest.mark.parametrize(
    ("kind", "path", "said"),
    [
        (Vllm, "", r"do not depend on .*use_activation.*--pooler-config"),
        (Tei, "", r"do not depend on .*raw_scores.*sigmoid=true"),
        (Sglang, "", r"lie between 0 and 1: .*sigmoid=true.*check_raw=false"),
        (Sglang, "/v1/classify", r"always does: ask its /classify, which gives the reward itself"),
        (OpenRLHF, "", r"lie between 0 and 1: .*sigmoid=true"),
    ],
)
def test_a_sigmoid_is_found_and_undone(
    kind: type[Scripted],
    path: str,
    said: str,
    served: Callable[..., Served],
    llama: Path,
    model: RewardModel,
    texts: Texts,
) -> None:
    server = served(routes=kind(model, sigmoid=True).routes)
    with pytest.raises(ModelError, match=said) as error:
        scorer(f"{server.url}{path}", llama).score(texts.prompts, texts.responses)
    assert "\n" not in str(error.value)
    if not path:  # the advice
        found = scorer(server.url, llama, sigmoid=True).score(texts.prompts, texts.responses)
        np.testing.assert_allclose(found, scores_of(model, texts), atol=1e-3)


@pytest.mark.parametrize("kind", [Vllm, Sglang, Tei, OpenRLHF])
def test_a_model_without_a_chat_template_gets_its_plain_text(
    kind: type[Scripted], served: Callable[..., Served], llama_maker: ModelMaker, texts: Texts
) -> None:
    folder = llama_maker(f"no-template-{kind.__name__}", chat_template=None)
    plain = load(folder)
    server = served(routes=kind(plain).routes)
    found = scorer(server.url, folder, form="text").score(texts.prompts[:9], texts.responses[:9])
    np.testing.assert_allclose(found, scores_of(plain, texts)[:9], atol=1e-5)
    if kind is Vllm:
        (problem,) = problems(server.url, folder)
        assert (
            "has no chat template, with which the server should render messages; set score.served.form=text" in problem
        )


def problems(url: str, folder: Path | None = None, **options: Any) -> list[str]:
    said = rendering(folder) if folder else None
    return ServedClient(url, ServedOptions(**options), rendering=said).check()


def test_what_a_server_cannot_do_is_said_before_a_text_is_sent(
    served: Callable[..., Served], llama: Path, bert: Path, model: RewardModel
) -> None:
    vllm, sglang, tei, openrlhf = (served(routes=kind(model).routes) for kind in (Vllm, Sglang, Tei, OpenRLHF))
    expected = (
        (problems(f"{tei.url}/classify"), "is text-embeddings-inference, which has /predict, /rerank, not /classify"),
        (problems(f"{vllm.url}/predict"), "is vLLM, which has /classify, /pooling, /score, not /predict"),
        (
            problems(tei.url, truncate_tokens=32),
            "score.served.truncate_tokens=32: .* its own 64 tokens alone; set truncate_tokens=64",
        ),
        (problems(openrlhf.url, truncate_tokens=32), "score.served.truncate_tokens=32: .*--data.max_len. Leave it out"),
        (problems(sglang.url, truncate_tokens=32), "score.served.truncate_tokens=32: .* name the model's tokenizer"),
        (problems(f"{tei.url}/rerank", llama), "score.served.tokenizer=plain: has a chat template.* ask /predict"),
        (problems(sglang.url, bert), "score.served.tokenizer=model: has no chat template.*vLLM's /score"),
        (problems(vllm.url, model="other"), "serves rm, not 'other'"),
    )
    for found, said in expected:
        (problem,) = found
        assert re.search(said, problem), problem
    assert problems(sglang.url, llama, truncate_tokens=32) == problems(tei.url, bert, truncate_tokens=64) == []
    assert {path for server in (vllm, sglang, tei, openrlhf) for path in server.paths} == {"/tokenize"}


def saying(pages: dict[str, Any]) -> Routes:
    return lambda _, path, __: (200, pages[path]) if path in pages else (404, {"detail": "Not Found"})


@pytest.mark.parametrize(
    ("pages", "said"),
    [
        ({"/get_model_info": {"model_path": "org/chat", "is_generation": True}}, "generates text; start SGLang with --is-embedding"),
        ({"/info": {"model_id": "e", "model_type": {"embedding": {"pooling": "cls"}}, "max_input_length": 512}}, "an embedding model"),
        (
            {"/openapi.json": {"paths": {"/v1/chat/completions": {}, "/load_model": {}}}},
            r"is `transformers serve`, which has no endpoint for rewards .it has /v1/chat/completions.*cda audit FOLDER.*vllm serve",
        ),
        ({"/openapi.json": {"paths": {"/v1/completions": {}}}}, "is a server that has no endpoint for rewards"),
    ],
)  # fmt: skip
def test_a_server_without_rewards(pages: dict[str, Any], said: str, served: Callable[..., Served]) -> None:
    (problem,) = problems(served(routes=saying(pages)).url)
    assert re.search(said, problem) and "\n" not in problem


def test_a_server_that_describes_itself_strangely_is_asked_as_its_address_says(served: Callable[..., Served]) -> None:
    strange: list[Any] = [None, [], "x", 3, {"data": "x"}, {"data": [1, {"id": 2}]}, {"paths": 3}]
    strange += [{"model_type": []}, {"model_type": "x"}]
    server = served(routes=saying({}))
    for answer in strange:
        for path in ("/v1/models", "/info", "/get_model_info", "/openapi.json"):
            server.routes = saying({path: answer})
            client = ServedClient(server.url)
            assert client.check() == [] and client.server == "vllm" and "assumed" in client.notes()[0]


def test_only_the_first_question_has_to_be_answered(served: Callable[..., Served], model: RewardModel) -> None:
    scripted = OpenRLHF(model)

    def shy(method: str, path: str, body: Body | None) -> Reply:
        return "drop" if path in ("/info", "/get_model_info") else scripted.routes(method, path, body)

    client = ServedClient(served(routes=shy).url)
    assert client.check() == [] and client.server == "openrlhf"
    assert "2,048 tokens unless set) and does not say which" in client.notes()[0]
    (problem,) = problems(served(routes=lambda *_: "drop").url)
    assert "cannot be reached" in problem


@pytest.mark.parametrize(
    ("path", "reply", "said"),
    [
        (
            "/predict",
            (424, {"error": "Inference failed: Model is not a classifier model", "error_type": "Backend"}),
            "status 424: Inference",
        ),
        ("/predict", (413, b"Failed to buffer the request body: length limit exceeded"), "longer than the model reads"),
        ("/predict", (413, {"error": "`inputs` must have less than 64 tokens. Given: 99", "error_type": "Validation"}), "longer than"),
        ("/predict", (422, {"error": "Tokenization error", "error_type": "Tokenizer"}), "status 422: Tokenization error"),
        ("/predict", (401, b""), "the key in VLLM_API_KEY is refused"),
        ("/predict", (200, []), "'score' holds no number"),
        ("/predict", (200, [{"score": 0.9, "label": "A"}, {"score": 0.1, "label": "B"}]), "2 labels"),
        ("/predict", (200, {"error": "no such head"}), "error: no such head"),
        ("/rerank", (424, {"error": "model is not a re-ranker model", "error_type": "Backend"}), "not a re-ranker"),
        ("/get_reward", (500, b"Internal Server Error"), r"no answer after 2 tries .last: status 500"),
        ("/get_reward", (200, {"rewards": []}), "'rewards' holds no number"),
        ("/get_reward", (200, {"rewards": [1.0, 2.0]}), "2 numbers came"),
        ("/get_reward", (200, {"rewards": None}), "'rewards' holds no number"),
        ("/get_reward", (200, {"error": {"code": 402, "message": "No credit"}}), "the quota is spent .402.: No credit"),
        ("/get_reward", (404, {"detail": "Not Found"}), "answers 404 .*openrlhf.cli.serve_rm"),
        ("/v1/classify", (400, {"object": "error", "message": "Input cannot be empty", "code": 400}), "status 400: Input cannot be empty"),
    ],
)  # fmt: skip
def test_errors_that_each_server_gives_end_in_one_line(
    path: str, reply: Reply, said: str, served: Callable[..., Served]
) -> None:
    server = served(routes=lambda method, *_: reply if method == "POST" else (404, {}))
    with pytest.raises((LLMError, ModelError), match=said) as error:
        ServedScorer(ServedClient(f"{server.url}{path}", retries=1, backoff_s=0.01)).score([user_prompt("q")], ["a"])
    assert "\n" not in str(error.value)


ROWS = [
    {"prompt": f"w{row} w1", "perturbed": f"w{row % 7} good good w2", "base": f"w{row % 5} bad w3"} for row in range(10)
]


def audited(target: str, folder: Path, *more: str) -> tuple[list[float], str, str]:
    """Rewards of both sides, what was printed, and the report."""
    pairs, out = folder / "pairs.jsonl", folder / f"out-{len(list(folder.iterdir()))}"
    pairs.write_text("\n".join(map(json.dumps, ROWS)), encoding="utf-8")
    words = f"audit {target} --bias jargon --contrasts {pairs} --quality none --triples none --out {out}".split()
    done = CliRunner().invoke(app, [*words, *more])
    assert "Traceback" not in done.output and (done.exception is None or isinstance(done.exception, SystemExit))
    if done.exit_code != 0:
        return [], " ".join(done.output.split()), ""
    rows = map(json.loads, (out / "audit" / "margins.jsonl").read_text(encoding="utf-8").splitlines())
    rewards = [row[f"{side}_model"] for row in rows for side in ("perturbed", "base")]
    return rewards, " ".join(done.output.split()), (out / "report" / "report.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def local(llama: Path, tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    """The audit of the model's own folder."""
    return audited(str(llama), tmp_path_factory.mktemp("local"), "model.precision=fp32")[0]


@pytest.mark.parametrize(("kind", "path"), [(Vllm, "/classify"), CHAT[-1]])
def test_a_whole_audit_in_each_dialect(
    kind: type[Scripted],
    path: str,
    served: Callable[..., Served],
    llama: Path,
    model: RewardModel,
    local: list[float],
    tmp_path: Path,
) -> None:
    server, named = served(routes=kind(model).routes), f"score.served.tokenizer={llama}"
    found, printed, report = audited(f"served:{server.url}{path}", tmp_path, named)
    np.testing.assert_allclose(found, local, atol=1e-4, err_msg=printed)
    assert "Asked as" in report and ("one chat template, once" in report or "cannot be checked" in report)
    assert llama.name in report and str(llama) not in report
    if kind is not OpenRLHF:
        wrong = served(routes=kind(model, "twice").routes)
        _, stopped, _ = audited(f"served:{wrong.url}{path}", tmp_path, named)
        assert "score.self_check=false goes on" in stopped


def test_a_tokenizer_that_is_not_there(served: Callable[..., Served], model: RewardModel, tmp_path: Path) -> None:
    server = served(routes=Tei(model).routes)
    _, said, _ = audited(f"served:{server.url}", tmp_path, f"score.served.tokenizer={tmp_path / 'none'}")
    assert re.search(r"none: its tokenizer cannot be loaded", said), said
    assert server.bodies == []


def spoken(body: Body) -> str:
    """The response in a request of any form."""
    if "messages" in body:
        return str(body["messages"][-1]["content"])
    return str(body["text_2"] if "text_2" in body else body["input"]).rpartition("\n\n")[2]


def answered(reward: float | None, tokens: int = 7, model: str = "rm", field: str = "probs") -> Reply:
    item = {"index": 0, field: reward if field == "score" else [reward]}
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return 200, {"id": "classify-1", "object": "list", "model": model, "data": [item], "usage": usage}


def sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-value))


def length(body: Body) -> Reply:
    """A reward model by the number of characters, less 3.5; follows use_activation."""
    reward = len(spoken(body)) - 3.5
    return answered(sigmoid(reward) if body["use_activation"] else reward)


def plain_scorer(server: Served | str, **options: Any) -> ServedScorer:
    url = server if isinstance(server, str) else server.url
    said = {name: value for name, value in options.items() if name in ServedOptions.model_fields}
    own = {name: value for name, value in options.items() if name not in said}
    return ServedScorer(ServedClient(url, ServedOptions(**said), **({"backoff_s": 0.01, "retries": 3} | own)))


def prompts(count: int) -> list[Prompt]:
    return [user_prompt(f"question {number}") for number in range(count)]


def test_each_response_goes_as_a_conversation_and_its_reward_comes_back_to_its_row(
    served: Callable[..., Served],
) -> None:
    def slowly(body: Body) -> Reply:
        time.sleep(0.05 * (len(spoken(body)) % 3))  # so that answers come in another order than the questions
        return length(body)

    server = served(slowly)
    responses = ["x" * (1 + number % 11) for number in range(40)]
    model = plain_scorer(server, model="rm", concurrency=8)
    assert model.score(prompts(40), responses).tolist() == [len(one) - 3.5 for one in responses]
    assert set(server.paths) == {"/classify"}
    conversation = (Message("system", "s"), Message("user", "u"), Message("assistant", "a"), Message("user", "v"))
    model.score([conversation], ["r"])
    turns = [("system", "s"), ("user", "u"), ("assistant", "a"), ("user", "v"), ("assistant", "r")]
    stated = {"use_activation": False, "add_generation_prompt": False, "add_special_tokens": False}
    messages = [{"role": role, "content": content} for role, content in turns]
    assert server.bodies[-1] == {"model": "rm", "messages": messages} | stated
    assert len(server.bodies) == 41  # one a text: a value outside 0 to 1 spares the raw check its questions
    assert model.name == "rm"


def test_pooling_and_score_have_their_own_shapes(served: Callable[..., Served]) -> None:
    pooling = served(lambda body: answered(len(spoken(body)) + 2.0, field="data"))
    assert plain_scorer(f"{pooling.url}/pooling").score(prompts(2), ["a", "bb"]).tolist() == [3.0, 4.0]
    assert pooling.paths == ["/pooling", "/pooling"]
    assert {(body["task"], body["encoding_format"]) for body in pooling.bodies} == {("classify", "float")}
    assert "model" not in pooling.bodies[0]
    pair = served(lambda body: answered(len(body["text_1"]) + 0.25, field="score"))
    assert plain_scorer(f"{pair.url}/v1/score").score(prompts(1), ["a"]).tolist() == [10.25]
    assert pair.paths == ["/v1/score"]
    assert pair.bodies[0] == {"text_1": "question 0", "text_2": "a", "use_activation": False}


def test_a_reward_for_every_token_is_taken_at_the_last_where_that_is_asked_for(served: Callable[..., Served]) -> None:
    server = served(lambda _: (200, {"model": "rm", "data": [{"index": 0, "data": [[4.0], [-2.0], [7.5]]}]}))
    with pytest.raises(ModelError, match=r"text 1: one result a token came \(3 of them\).*last_token=true"):
        plain_scorer(f"{server.url}/pooling").score(prompts(1), ["a"])
    assert plain_scorer(f"{server.url}/pooling", last_token=True).score(prompts(1), ["a"]).tolist() == [7.5]
    assert server.bodies[-1]["task"] == "token_classify"
    with pytest.raises(ModelError, match="needs vLLM's /pooling, not /classify"):
        plain_scorer(server, last_token=True)


def test_a_sigmoid_is_undone_where_that_is_asked_for(served: Callable[..., Served]) -> None:
    server = served(lambda body: answered(sigmoid(len(spoken(body)) - 3.0)))
    found = plain_scorer(server, sigmoid=True).score(prompts(3), ["a", "bb", "cccccccccc"])
    np.testing.assert_allclose(found, [-2.0, -1.0, 7.0], atol=1e-9)
    assert [body["use_activation"] for body in server.bodies] == [True] * 3
    for answer in (1.0, 0.0, 3.2, -1.0):
        with pytest.raises(ModelError, match=r"text 1: the answer .* is not the sigmoid of a reward"):
            plain_scorer(served(lambda _, answer=answer: answered(answer)), sigmoid=True).score(prompts(1), ["a"])


@pytest.mark.parametrize(
    ("items", "field", "message"),
    [
        ([{"probs": [0.2, 0.8], "num_classes": 2}], "probs", "2 labels .*module:function"),
        ([{"data": [0.1] * 384}], "data", "384 labels .or is an embedding model"),
        ([{"data": [[0.1, 0.9], [0.2, 0.8]]}], "data", "one result a token"),
        ([], "probs", "0 results came for one text"),
        ([{"probs": [1.0]}, {"probs": [2.0]}], "probs", "2 results came for one text"),
        ([{"probs": []}], "probs", "'probs' holds no number.*score.served.dialect"),
        ([{"probs": [None]}], "probs", "holds no number"),
        ([{"probs": [True]}], "probs", "holds no number"),
        ([{"data": "AACAPw=="}], "data", "'data' holds no number"),
        ([{"label": "x"}], "score", "'score' holds no number"),
        ([3], "score", "holds no number"),
        ([{"probs": [float("nan")]}], "probs", "the reward is nan"),
        ([{"score": float("-inf")}], "score", "the reward is -inf"),
        ([{"score": 1e200}], "score", "the reward is 1e"),
    ],
)
def test_what_is_no_single_reward_is_refused(items: list[Any], field: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        reward_in(items, field)


def test_too_many_requests_make_everybody_wait_as_long_as_the_server_says(served: Callable[..., Served]) -> None:
    turned_away: list[float] = []

    def busy(body: Body) -> Reply:
        if len(turned_away) < 3:
            turned_away.append(time.monotonic())
            return 429, {"error": {"message": "busy"}}, {"Retry-After": "0.4"}
        assert time.monotonic() - turned_away[0] >= 0.35
        return length(body)

    # Not one of the retries is spent on it.
    found = plain_scorer(served(busy), concurrency=3, retries=0).score(prompts(6), ["a" * 9] * 6)
    assert found.tolist() == [5.5] * 6
    assert len(turned_away) == 3
    with pytest.raises(LLMError, match="asks to wait 3600 s"):
        plain_scorer(served(lambda _: (429, {}, {"Retry-After": "3600"}))).score(prompts(1), ["a"])


@pytest.mark.parametrize(
    "broken",
    [
        (500, {"error": {"message": "no"}}),
        (503, {"error": "loading"}, {"Retry-After": "0.02"}),
        (200, b'{"data": [{"probs": [1.'),
        (200, [1, 2]),
        (200, {"data": None}),
        (200, b"<html>"),
        "drop",
    ],
)
def test_a_broken_answer_is_asked_for_again_and_not_for_ever(served: Callable[..., Served], broken: Reply) -> None:
    failures: Counter[str] = Counter()

    def sometimes(body: Body) -> Reply:
        failures[spoken(body)] += 1
        return broken if failures[spoken(body)] <= 2 else length(body)

    server = served(sometimes)
    assert plain_scorer(server, retries=2).score(prompts(3), ["aaaaa", "bbbbbb", "ccccccc"]).tolist() == [1.5, 2.5, 3.5]
    assert len(server.bodies) == 9
    server.answer = lambda _: broken
    with pytest.raises(LLMError, match=r"text 1: no answer after 3 tries \(last: (status|connection)"):
        plain_scorer(server, retries=2).score(prompts(1), ["a"])


def test_a_server_that_stays_away_loses_nothing_and_a_second_call_asks_for_the_rest(
    served: Callable[..., Served],
) -> None:
    server = served(length)
    texts = [(prompt, f"{row:03d}" + "x" * (row % 7 + 4)) for row, prompt in enumerate(prompts(100))]
    kept: dict[int, float | None] = {}
    with pytest.raises(LLMError, match=r"no answer after .*connection.* of 100 texts were scored before") as caught:
        for finished in plain_scorer(server, concurrency=4).in_batches(texts):
            kept |= {row: score.reward for row, score in finished}
            if len(kept) >= 32:
                server.stop()
    assert 32 <= len(kept) < 100
    assert f"{len(kept)} of 100" in str(caught.value)
    with pytest.raises(
        LLMError, match=r"cannot be reached .*is the server running\?$"
    ):  # it never was, for this client
        plain_scorer(server).score(prompts(2), ["a", "b"])
    (problem,) = plain_scorer(server).client.check()
    assert "cannot be reached" in problem
    rest = {row: text for row, text in enumerate(texts) if row not in kept}
    server.bodies.clear()
    server.start()
    again = plain_scorer(server).score(*zip(*rest.values(), strict=True))
    kept |= dict(zip(rest, again.tolist(), strict=True))
    assert [kept[row] for row in range(100)] == [len(response) - 3.5 for _, response in texts]
    assert sorted(map(spoken, server.bodies)) == [response for _, response in rest.values()]


TOO_LONG = "This model's maximum context length is 512 tokens. However, your request has 600 input tokens."
LONGER = "The decoder prompt (length 600) is longer than the maximum model length of 512."


@pytest.mark.parametrize("said", [TOO_LONG, LONGER])
def test_texts_that_are_too_long_are_refused_or_counted(served: Callable[..., Served], said: str) -> None:
    def limited(body: Body) -> Reply:
        return (400, {"error": {"message": said, "code": 400}}) if len(spoken(body)) > 512 else length(body)

    server = served(limited)
    responses = ["a" * 9, "b" * 600, "c" * 10]
    with pytest.raises(ModelError, match=r"text 2 is longer than the model reads.*truncate_tokens.*too_long=count"):
        plain_scorer(server).score(prompts(3), responses)
    model = plain_scorer(server, too_long="count")
    found = model.score(prompts(3), responses)
    assert np.isnan(found[1])
    assert found[[0, 2]].tolist() == [5.5, 6.5]


def test_texts_are_cut_by_the_server_and_counted(served: Callable[..., Served]) -> None:
    def cut(body: Body) -> Reply:
        tokens = min(len(spoken(body)), body["truncate_prompt_tokens"])
        reward = tokens / 10  # within 0 and 1, so that the raw check asks again, which must not count
        return answered(sigmoid(reward) if body["use_activation"] else reward, tokens=tokens)

    server = served(cut)
    model = plain_scorer(server, truncate_tokens=8)
    assert model.score(prompts(3), ["a" * 3, "b" * 20, "c" * 9]).tolist() == [0.3, 0.8, 0.8]
    assert model.n_truncated == 2
    assert {body["truncation_side"] for body in server.bodies} == {"right"}


def test_the_key_comes_from_the_environment_and_goes_nowhere_else(
    served: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RM_KEY", "sk-secret")
    server = served(length)
    model = plain_scorer(server, api_key_env="RM_KEY")
    model.score(prompts(1), ["a" * 9])
    assert server.keys == ["Bearer sk-secret"]
    assert "secret" not in json.dumps(model.client.settings) + repr(model)
    for status in (401, 400, 404):
        server.answer = lambda _, status=status: (status, {"error": {"message": "bad key sk-secret"}})
        with pytest.raises(LLMError) as caught:
            model.score(prompts(1), ["a"])
        assert "secret" not in str(caught.value)
    server.answer = lambda _: (401, {})
    with pytest.raises(LLMError, match=r"the key in RM_KEY is refused \(401\)"):
        model.score(prompts(1), ["a"])
    monkeypatch.setenv("RM_KEY", "sk-\u2026")
    with pytest.raises(LLMError, match="RM_KEY holds characters that no key has"):
        model.score(prompts(1), ["a"])


def test_a_server_is_checked_before_anything_is_scored(served: Callable[..., Served]) -> None:
    server = served(length)
    server.models = ["org/reward-8b", "org/other"]
    assert plain_scorer(server, model="org/other").client.check() == []
    assert plain_scorer(server).client.check() == []
    assert plain_scorer(f"{server.url}/v1/score", model="org/other").client.check() == []
    (problem,) = plain_scorer(server, model="org/reward-7b").client.check()
    assert "serves org/reward-8b, org/other, not 'org/reward-7b'. Did you mean 'org/reward-8b'?" in problem
    (problem,) = plain_scorer(f"http://me:pass@127.0.0.1:{server.port}").client.check()
    assert "holds a user name or password" in problem
    assert "pass@" not in problem
    assert server.bodies == []


def test_a_server_that_changes_its_model_is_not_believed(served: Callable[..., Served]) -> None:
    calls: list[int] = []

    def changing(_: Body) -> Reply:
        calls.append(1)
        return answered(4.0, model="first" if len(calls) <= 10 else "second")

    with pytest.raises(ModelError, match="served 'first' first and 'second' now"):
        plain_scorer(served(changing), concurrency=1).score(prompts(30), ["a"] * 30)


def test_addresses_of_servers_and_of_endpoints() -> None:
    assert endpoint_of("http://h:1") == endpoint_of("http://h:1/v1/") == ("http://h:1", None)
    assert endpoint_of("http://h:1/v1/classify") == ("http://h:1/v1", "classify")
    for url in ("localhost:8000/classify", "ftp://host/pooling", "", "http://", "org/model"):
        with pytest.raises(ModelError, match="is no address of a server"):
            plain_scorer(url)
    assert endpoint_of("https://h/models/7/pooling/") == ("https://h/models/7", "pooling")
