"""Served reward models in every dialect: a real tiny model behind a server after its documentation, through `cda audit` too."""

from __future__ import annotations

import json
import re
import sys
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
from cda.records import user_prompt
from cda.scorers.dialects import ServedOptions
from cda.scorers.rendering import Rendering
from cda.scorers.served_client import ServedClient, ServedScorer

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
    for text in (printed, report):
        assert "Asked as" in text and ("one chat template, once" in text or "cannot be checked" in text)
        assert f"{llama.name}" in text and str(llama) not in report
    if kind is not OpenRLHF:
        wrong = served(routes=kind(model, "twice").routes)
        _, stopped, _ = audited(f"served:{wrong.url}{path}", tmp_path, named)
        assert "score.self_check=false goes on" in stopped


def test_a_tokenizer_that_is_not_there(served: Callable[..., Served], model: RewardModel, tmp_path: Path) -> None:
    server = served(routes=Tei(model).routes)
    _, said, _ = audited(f"served:{server.url}", tmp_path, f"score.served.tokenizer={tmp_path / 'none'}")
    assert re.search(r"none: its tokenizer cannot be loaded", said), said
    assert server.bodies == []
