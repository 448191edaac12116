"""`cda audit` by one string for every kind of scorer, with tiny real models, a real local server and real user code."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from click.testing import Result
from typer.testing import CliRunner

from cda.cli import app
from cda.errors import CdaError, RecipeError
from cda.finetuning.applied import asked_subjects
from cda.models.causal import load_causal_model
from cda.models.config import ModelSpec
from cda.recipe.load import load_model_audit
from cda.records import user_prompt
from cda.resources.model_scorers import LogRatio
from cda.resources.named_scorer import NamedScorer, Subject, scorer_settings
from cda.resources.scorers import open_scorer
from cda.scorers.classifier import ClassifierScorer
from cda.scorers.kinds import scorer_kind
from cda.scorers.log_ratio import LogRatioScorer, Policy

if TYPE_CHECKING:
    from conftest import Answer, ModelMaker, Texts

N = 12
ROWS = [
    {"prompt": f"w{row} w1", "perturbed": f"w{row % 7} good good w2", "base": f"w{row % 5} bad w3"} for row in range(N)
]


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    path = tmp_path / "pairs.jsonl"
    path.write_text("\n".join(map(json.dumps, ROWS)), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def causal(causal_maker: ModelMaker) -> tuple[Path, Path]:
    """Two tiny language models of the same words."""
    return causal_maker("first"), causal_maker("second", spread=0.15)


def audit(target: object, pairs: Path, out: Path, *more: str) -> Result:
    words = f"--bias jargon --contrasts {pairs} --quality none --triples none --out {out}".split()
    return CliRunner().invoke(app, ["audit", str(target), *words, *more])


def audited(target: object, pairs: Path, out: Path, *more: str) -> dict[str, Any]:
    done = audit(target, pairs, out, *more)
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads((out / "audit" / "audit.json").read_text(encoding="utf-8"))
    assert (out / "report" / "report.html").is_file()
    found["printed"] = done.output
    found["margins"] = [json.loads(line) for line in (out / "audit" / "margins.jsonl").read_text().splitlines()]
    return found


@pytest.mark.parametrize(
    ("name", "kind", "bare"),
    [
        ("embedded", "classifier", "embedded"),
        ("org/model", "classifier", "org/model"),
        ("judge:llama3:8b", "judge", "llama3:8b"),
        ("dpo:org/policy,org/reference", "log-ratio", "org/policy,org/reference"),
        ("served:http://host:8000/pooling", "served", "http://host:8000/pooling"),
        ("package.module:function", "function", "package.module:function"),
        ("mine/score.py:reward", "function", "mine/score.py:reward"),
        ("model:8b-instruct", "classifier", "model:8b-instruct"),
    ],
)
def test_one_string_says_what_it_is(name: str, kind: str, bare: str) -> None:
    assert (scorer_kind(name).name, scorer_kind(name).bare(name)) == (kind, bare)


def test_two_language_models_and_a_prompt_that_fills_them(
    causal: tuple[Path, Path], pairs: Path, tmp_path: Path
) -> None:
    long = {"prompt": "w1 " * 100, "perturbed": "good", "base": "bad"}
    pairs.write_text("\n".join(map(json.dumps, [long, *ROWS])), encoding="utf-8")
    words = ("model.precision=fp32", "model.max_length_tokens=64", "score.log_ratio.beta=0.5")
    found = audited(f"dpo:{causal[0]},{causal[1]}", pairs, tmp_path / "out", *words)
    policy, reference = (Policy(load_causal_model(ModelSpec(str(one), "fp32", 64))) for one in causal)
    scorer = LogRatioScorer(policy, reference, beta=0.5)
    prompts = [user_prompt(row["prompt"]) for row in ROWS]
    first, second = (scorer.score(prompts, [row[side] for row in ROWS]) for side in ("perturbed", "base"))
    margins = [row["perturbed_model"] - row["base_model"] for row in found["margins"] if row["base_model"] is not None]
    assert margins == pytest.approx((first - second).tolist(), abs=1e-4)
    assert "log-ratio" in found["model"]["how"] and "log-ratio" in found["printed"]
    assert (found["model"]["dropped"], found["model"]["texts"]) == (2, 2 * N + 2)
    assert found["skew"]["jargon"]["unread"] == 1 and found["skew"]["jargon"]["before"]["n"] == N
    assert "2 of 26 texts are too long" in found["printed"]


def test_another_beta_needs_no_model_again(causal: tuple[Path, Path], pairs: Path, tmp_path: Path) -> None:
    """β is a factor: what is kept is without it, and every report has its own."""
    found = []
    for beta in (0.5, 2.0):
        words = ("model.precision=fp32", f"score.log_ratio.beta={beta}")
        found.append(audited(f"dpo:{causal[0]},{causal[1]}", pairs, tmp_path / f"out-{beta}", *words))
    first, second = found
    assert (first["model"]["cached"], second["model"]["cached"]) == (0, second["model"]["texts"])
    for one, other in zip(first["margins"], second["margins"], strict=True):
        assert other["perturbed_model"] == pytest.approx(4 * one["perturbed_model"], rel=1e-12)
    assert "0.5 × log-ratio" in first["model"]["how"] and "2 × log-ratio" in second["model"]["how"]
    per_token = ("model.precision=fp32", "score.log_ratio.per_token=true")
    other = audited(f"dpo:{causal[0]},{causal[1]}", pairs, tmp_path / "tokens", *per_token)
    assert other["model"]["cached"] == 0


def test_the_documented_steered_model(
    causal: tuple[Path, Path], pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file of the document, as a scorer of one's own: at strength 0 nothing moves, and a new strength is measured anew."""
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "audit.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(\"\"\"A language model with a vector.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "steered.py").write_text(code, encoding="utf-8")
    hidden = json.loads((causal[0] / "config.json").read_text())["hidden_size"]
    np.save(tmp_path / "vector.npy", np.linspace(-1, 1, hidden))
    given = {"MODEL": causal[0], "VECTOR": tmp_path / "vector.npy", "LAYER": 0}
    margins = {}
    for strength in (0, 2):
        for name, value in {**given, "STRENGTH": strength}.items():
            monkeypatch.setenv(f"STEERED_{name}", str(value))
        margins[strength] = audited(f"{tmp_path / 'steered.py'}:score", pairs, tmp_path / "out")["margins"]
    assert all(row["perturbed_model"] == 0 for row in margins[0])
    assert any(abs(row["perturbed_model"]) > 0.01 for row in margins[2])


def test_preferences_for_the_first_place_are_no_skew_and_no_quality(pairs: Path, tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text("def first(prompts, first, second):\n    return [1.0] * len(first)\n")
    quality = tmp_path / "quality.jsonl"
    rows = [{"prompt": row["prompt"], "chosen": row["perturbed"], "rejected": row["base"]} for row in ROWS]
    quality.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    found = audited(f"{path}:first", pairs, tmp_path / "out", "--quality", str(quality))
    assert (found["skew"]["jargon"]["before"]["value"], found["skew"]["jargon"]["ties"]["before"]) == (0.5, N)
    assert found["quality"]["before"]["value"] == 0.5
    model = found["model"]
    assert (model["position_bias"], model["flipped"], model["half_read"]) == (1.0, model["comparisons"], 0)
    said = f"in both orders; 0 unreadable, 0 readable in one order only, {model['comparisons']} followed the place; first place"
    assert said in " ".join(found["printed"].split())
    assert said in (tmp_path / "out" / "report" / "report.md").read_text(encoding="utf-8")


def rewarding(
    good: float, asked: list[str], fail_after: int | None = None
) -> Callable[[dict[str, Any]], tuple[int, Any]]:
    """A served model that counts a word; it refuses everything once it was asked so often."""

    def answer(body: dict[str, Any]) -> tuple[int, Any]:
        text = body["messages"][-1]["content"]
        if fail_after is not None and len(asked) >= fail_after:
            return 400, {"error": {"message": "no such thing"}}
        asked.append(text)
        probs = [good * text.count("good") - 1]
        return 200, {"model": "rm", "data": [{"index": 0, "label": "LABEL_0", "probs": probs, "num_classes": 1}]}

    return answer


def test_a_server_that_serves_another_model_is_asked_anew(serve: Callable[..., str], tmp_path: Path) -> None:
    """Before and after at one address: nothing of the first may come out as the second's."""
    state = {"good": 3.0}
    url = serve(lambda body: rewarding(state["good"], [])(body))
    quality = tmp_path / "quality.jsonl"
    rows = [{"prompt": row["prompt"], "chosen": row["perturbed"], "rejected": row["base"]} for row in ROWS]
    quality.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    found = []
    for good in (3.0, -3.0):
        state["good"] = good
        words = ["quality", f"served:{url}", str(quality), "--out", str(tmp_path / "out")]
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, done.output
        result = json.loads((tmp_path / "out" / "quality.json").read_text())
        found.append(result["sets"][0]["overall"]["found"]["accuracy"]["model"]["value"])
    assert found == [1.0, 0.0]


def test_after_a_failure_only_the_rest_is_asked(serve: Callable[..., str], pairs: Path, tmp_path: Path) -> None:
    asked: list[str] = []
    state = {"fail_after": 10}
    url = serve(lambda body: rewarding(3.0, asked, state["fail_after"])(body))
    words = (f"served:{url}", pairs, tmp_path / "out", "score.served.concurrency=1", "score.served.check_raw=false")
    assert audit(*words).exit_code != 0 and len(asked) == 10
    state["fail_after"] = 10**6
    assert "10 of 24 texts were scored before" in audited(*words)["printed"]
    assert len(asked) == 2 * N


def test_texts_that_are_too_long_are_left_out_and_counted(llama: Path, pairs: Path, tmp_path: Path) -> None:
    long = {"prompt": "w1", "perturbed": "good " * 200, "base": "bad"}
    pairs.write_text("\n".join(map(json.dumps, [*ROWS, long])), encoding="utf-8")
    words = ("model.max_length_tokens=64", "score.over_length=drop")
    found = audited(llama, pairs, tmp_path / "out", *words)
    assert "NaN" not in (tmp_path / "out" / "audit" / "margins.jsonl").read_text()
    assert "too long" in (tmp_path / "out" / "report" / "report.md").read_text()
    assert found["model"]["dropped"] == 1
    assert found["skew"]["jargon"]["unread"] == 1
    assert found["skew"]["jargon"]["before"]["n"] == N
    assert "1 of 26 texts are too long" in found["printed"]
    refused = audit(llama, pairs, tmp_path / "no", words[0], "score.over_length=refuse")
    assert refused.exit_code != 0 and "longer than 64 tokens" in refused.output


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("dpo:{0}", "against what?"),
        ("steered:{0}", "a steered model is a scorer of your own; docs/how-to/audit.md"),
        ("http://127.0.0.1:9", "127.0.0.1:9"),
    ],
)
def test_what_is_missing_is_said_before_anything_is_scored(
    target: str, said: str, causal: tuple[Path, Path], pairs: Path, tmp_path: Path
) -> None:
    done = audit(target.format(*causal), pairs, tmp_path / "out")
    assert done.exit_code != 0 and said in done.output and "Traceback" not in done.output


def test_options_that_do_not_go_together() -> None:
    model = load_model_audit("judge:some", {}).recipe.model
    with pytest.raises(RecipeError) as caught:
        asked_subjects(model, "adapter", "other", 0.5)
    assert len(caught.value.problems) == 3
    with pytest.raises(CdaError, match="needs --adapter"):
        asked_subjects(model, dose=0.5)


def test_settings_that_contradict_each_other(causal: tuple[Path, Path], pairs: Path, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="name another as judge:NAME"):
        load_model_audit("judge:some", {}, ["llm.model=other"])
    for setting, said in (
        ("score.over_length=drop", "of sequence classifiers alone"),
        ("score.workers=4", "of sequence classifiers alone"),
        ("score.log_ratio.no_reference=true", "wants none"),
        (f"score.log_ratio.adapter={tmp_path}", "no adapter here"),
        ("score.log_ratio.vector=no.npy", "score.log_ratio.vector: a steered model is a scorer of your own"),
    ):
        done = audit(f"dpo:{causal[0]},{causal[1]}", pairs, tmp_path / "o", setting)
        assert done.exit_code != 0 and said in done.output, done.output


def opened(target: str, *words: str) -> NamedScorer:
    loaded = load_model_audit(target, {}, words)
    return open_scorer(Subject("model", loaded.recipe.model), scorer_settings(loaded))


@pytest.mark.parametrize(
    ("target", "deciding", "else_said"),
    [
        ("org/model", "score.over_length=drop", "score.judge.ties=false"),
        ("org/model", "score.batch_tokens=64", "score.served.sigmoid=true"),
        ("judge:some", "score.judge.ties=false", "score.batch_tokens=64"),
        ("dpo:a/b,c/d", "score.log_ratio.beta=2", "score.workers=1"),
        ("http://host", "score.served.sigmoid=true", "score.served.concurrency=2"),
        ("http://host", "score.served.truncate_tokens=9", "score.served.api_key_env=OTHER"),
        ("http://host", "score.served.dialect=tei", "score.served.dialect=auto"),
        ("http://host", "score.served.tokenizer=org/rm", "score.served.check_raw=false"),
    ],
)
def test_only_what_decides_the_answers_makes_a_stage_anew(target: str, deciding: str, else_said: str) -> None:
    def settings(*words: str) -> dict[str, Any]:
        return opened(target, *words).deciding_settings()

    assert settings(else_said) == settings() != settings(deciding)


def test_texts_that_were_once_scored_as_a_set_keep_their_batches(
    llama: Path, texts: Texts, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = ClassifierScorer._forward
    monkeypatch.setattr(ClassifierScorer, "_forward", lambda scorer, ids: real(scorer, ids) + len(ids))
    loaded = load_model_audit(str(llama), {}, ["model.precision=fp32", "score.cache=none"])
    subject, settings = Subject("model", loaded.recipe.model), scorer_settings(loaded)
    given = list(zip(texts.prompts, texts.responses, strict=True))
    alone, mixed, kept = (
        np.array([rewards.of(*text) for text in given[:5]])
        for rewards, _ in (
            open_scorer(subject, settings, together=earlier).score(asked)
            for asked, earlier in ((given[:5], ()), (given, ()), (given, given[:5]))
        )
    )
    np.testing.assert_allclose(kept, alone, atol=1e-4)
    assert np.abs(mixed - alone).min() > 1


def test_each_model_of_a_pair_has_its_own_commit(causal: tuple[Path, Path]) -> None:
    scorer = opened("dpo:~/a,~/b", "model.revision=abc", "score.log_ratio.reference_revision=def")
    assert isinstance(scorer, LogRatio)
    specs = [(spec.name_or_path, spec.revision) for spec in scorer.specs() if spec is not None]
    assert specs == [(str(Path("~/a").expanduser()), "abc"), (str(Path("~/b").expanduser()), "def")]
    target = f"dpo:{causal[0]},{causal[1]}"
    assert opened(target, "model.precision=fp32").source() != opened(target, "model.precision=bf16").source()


def test_a_folder_with_a_colon_is_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert scorer_kind("ckpt:best").name == "function"
    (tmp_path / "ckpt:best").mkdir()
    assert scorer_kind("ckpt:best").name == "classifier"
    assert scorer_kind("my dir/mine.py:score").name == "function"


def test_a_judge_whose_server_changes_the_model_is_told_of(
    serve: Callable[[Answer], str], pairs: Path, tmp_path: Path
) -> None:
    """A name such as gpt-4o stands for another model some months later, and kept answers are of the earlier one."""
    model = {"name": "local-2024-05-13"}

    def answer(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:  # noqa: ARG001
        choice = {"message": {"content": "Better.\nVerdict: 1"}, "finish_reason": "stop"}
        return 200, {"model": model["name"], "choices": [choice]}

    url = f"llm.base_url={serve(answer)}"
    first = audited("judge:local", pairs, tmp_path / "first", url)
    assert first["model"]["answered_by"] == {"local-2024-05-13": 2 * N}
    assert first["model"]["notes"] == []
    report = (tmp_path / "first" / "report" / "report.md").read_text(encoding="utf-8")
    assert f"answered by local-2024-05-13 ({2 * N})" in report

    model["name"] = "local-2024-08-06"
    more = tmp_path / "more.jsonl"
    rows = [*ROWS, {"prompt": "w9 w9", "perturbed": "w8 good", "base": "w3 bad"}]
    more.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    second = audited("judge:local", more, tmp_path / "second", url)
    assert second["model"]["answered_by"] == {"local-2024-08-06": 2 * N + 2} and second["model"]["notes"] == []
    assert "local was answered by local-2024-05-13 until now, and is by local-2024-08-06" in second["printed"]
    assert "audit is made anew" in second["printed"]
    manifest = json.loads((tmp_path / "second" / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["stages"]["audit"]["reads"] == {"the model that answers for local (local-2024-08-06)": "answers"}

    again = audited("judge:local", pairs, tmp_path / "first", url)
    why = "audit: made again, because the model that answers for local (local-2024-05-13) has changed"
    assert why in again["printed"] and again["model"]["answered_by"] == {"local-2024-08-06": 2 * N}
    assert "audit: done before, reused" in audited("judge:local", pairs, tmp_path / "first", url)["printed"]
