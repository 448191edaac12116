"""`cda audit` by one string for every kind of scorer, with tiny real models, a real local server and real user code."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from changed import stored
from click.testing import Result
from replies import reply
from serving import user_text
from typer.testing import CliRunner

import cda
from cda.calibration import calibrate
from cda.cli import app
from cda.errors import CdaError, RecipeError
from cda.files.jsonl import write_jsonl
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
    assert stored(found, "accuracy", "model")["value"] == 0.5
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


Rows = list[dict[str, Any]]


def worth(text: str) -> float:
    return int(hashlib.sha256(text.encode()).hexdigest()[:6], 16) / 2**23 + 9 * text.startswith("Well")


def before(prompts: Any, responses: list[str]) -> list[float]:  # noqa: ARG001
    return [worth(text) + 0.3 * len(text.split()) for text in responses]


def after(prompts: Any, responses: list[str]) -> list[float]:  # noqa: ARG001
    return [worth(text) + 0.1 * len(text.split()) for text in responses]


def contrasts() -> Rows:
    rows: Rows = []
    for row in range(48):
        perturbed, base = f"Answer {row} {'and so on ' * (1 + row % 7)}.", f"Answer number {row}."
        liked = "perturbed" if worth(perturbed) > worth(base) else "base"
        rows.append(
            {
                "id": f"c{row}",
                "bias": "length",
                "prompt": f"Question {row}?",
                "perturbed": perturbed,
                "base": base,
                "votes": [liked],
            }
        )
    return rows


PAIRS = [
    {"prompt": f"Task {row}?", "chosen": f"Well done {row} {'so ' * (row % 5)}.", "rejected": f"Not {row}."}
    for row in range(24)
]
DATA: dict[str, Any] = {"contrasts": contrasts(), "quality": PAIRS, "biases": "length", "progress": False}


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`before.jsonl` and `after.jsonl`, each with the scores of contrasts, quality pairs and all their texts."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(calibrate, "N_DRAWS", 50)
    for function in (before, after):
        texts = [(row["prompt"], row[side]) for rows, sides in ((contrasts(), ("perturbed", "base")), (PAIRS, ("chosen", "rejected")))
                 for row in rows for side in sides]  # fmt: skip
        scored = [
            {"prompt": prompt, "response": text, "score": function([prompt], [text])[0]} for prompt, text in texts
        ]
        write_jsonl(tmp_path / f"{function.__name__}.jsonl", scored)
    return tmp_path


def test_an_audit_a_calibration_and_a_dose_are_those_of_the_function(files: Path) -> None:
    audits = [
        cda.audit(model, **DATA, triples="none", out=files / str(at))
        for at, model in enumerate((before, "scores:before.jsonl"))
    ]
    assert (
        audits[0].skew == audits[1].skew
        and audits[0].votes == audits[1].votes
        and audits[0].quality == audits[1].quality
    )
    assert audits[1].model.name == "scores:before.jsonl"

    repeats = {"dose.repeats": 3}
    own, stored = (
        cda.calibrate(model, **DATA, **repeats, out=files / f"c{at}")
        for at, model in enumerate((before, "scores:before.jsonl"))
    )
    assert own.corrections == stored.corrections and own.biases == stored.biases and own.quality == stored.quality
    applied = cda.audit(
        "scores:before.jsonl",
        **DATA,
        triples="none",
        out=files / "a",
        **{"score.calibration": str(files / "c1" / "calibration.json")},
    )
    assert stored.strength > 0 and applied.skew["length"].before.value < audits[1].skew["length"].before.value

    one, other = (cda.dose(*models, **DATA, **repeats, out=files / f"d{at}")
                  for at, models in enumerate(((before, after), ("scores:before.jsonl", "scores:after.jsonl"))))  # fmt: skip
    assert one.methods == other.methods and other.mixed == ("scores:before.jsonl", "scores:after.jsonl")
    assert other.chosen >= 1 and other.own.held_out["length"].against_base["miscalibration"].high < 0
    assert {path.name for path in (files / "d1").iterdir()} == {"dose.json", "dose.md", "report.html"}
    assert cda.load(files / "d1").model_dump() == other.model_dump()  # type: ignore[union-attr]  # a Dose


def test_other_commands_take_it_too(files: Path) -> None:
    quality = [
        cda.quality(model, PAIRS, out=files / str(at), progress=False).sets
        for at, model in enumerate((before, "scores:before.jsonl"))
    ]
    assert quality[0][0].overall.found == quality[1][0].overall.found
    samples = [{"prompt": row["prompt"], "responses": [row["perturbed"], row["base"]]} for row in contrasts()]
    best = [cda.best_of(model, samples, biases="length", out=files / f"b{at}", progress=False).attributes
            for at, model in enumerate((before, "scores:before.jsonl"))]  # fmt: skip
    assert best[0] == best[1]
    with cda.reward_function("scores:before.jsonl") as reward:
        assert reward([row["prompt"] for row in PAIRS], [row["chosen"] for row in PAIRS]) == pytest.approx(
            before([], [row["chosen"] for row in PAIRS])
        )
        with pytest.raises(cda.CdaError, match="has no score of 1 of 1 texts"):
            reward(["Task 0?"], ["unseen"])


def test_texts_without_a_score_are_counted_and_the_first_is_named(files: Path) -> None:
    more = [{**row, "base": f"{row['base']} Else {at}"} if at in (3, 5) else row for at, row in enumerate(contrasts())]
    with pytest.raises(
        cda.DataError,
        match=r"scores:before.jsonl: has no score of 2 of 144 texts \(first: 'Answer number 3. Else 3', to 'Question 3\?'\). Add them",
    ):
        cda.audit("scores:before.jsonl", **DATA | {"contrasts": more}, triples="none", out=files / "run")


def test_an_earlier_score_file_is_refused_and_what_the_message_asks_for_is_taken(files: Path) -> None:
    earlier = [{"id": row["id"], "perturbed_score": before([], [row["perturbed"]])[0], "base_score": before([], [row["base"]])[0]}
               for row in contrasts()]  # fmt: skip
    write_jsonl(files / "earlier.jsonl", earlier)
    given = DATA | {"quality": "none", "out": files / "run", "dose.repeats": 2}
    with pytest.raises(cda.DataError, match="or prompt, perturbed, base, perturbed_score and base_score"):
        cda.calibrate("scores:earlier.jsonl", **given)
    write_jsonl(files / "earlier.jsonl", [row | text for row, text in zip(contrasts(), earlier, strict=True)])
    assert cda.calibrate("scores:earlier.jsonl", **given).biases["length"].base["skew_on_voted"].n == 48


def test_preferences_of_a_file_are_a_judge_s(files: Path) -> None:
    """Both orders of a comparison are averaged; one of them stands for itself."""
    rows = [{"prompt": row["prompt"], "response_a": row["perturbed"], "response_b": row["base"], "preference": 0.5 if at % 4 else -0.25}
            for at, row in enumerate(contrasts())]  # fmt: skip
    turned = [
        row | {"response_a": row["response_b"], "response_b": row["response_a"], "preference": 0.1} for row in rows[:12]
    ]
    write_jsonl(files / "judged.jsonl", [*rows, *turned])
    given = DATA | {"quality": "none"}
    audit = cda.audit("scores:judged.jsonl", **given, triples="none", out=files / "run")
    skew = audit.skew["length"]
    assert skew.before.value == 36 / 48
    assert skew.mean_margin.before == pytest.approx((36 * 0.5 - 12 * 0.25 - 0.05 * 12 - (9 * 0.5 - 3 * 0.25) / 2) / 48)
    assert isinstance(audit.model, type(audit.model)) and audit.model.half_read == 36  # type: ignore[union-attr]  # a judge's
    found = cda.calibrate("scores:judged.jsonl", **given, out=files / "c", **{"dose.repeats": 2})
    assert found.unit == "log odds"
    with pytest.raises(cda.RunError, match="compares two answers, so it cannot be used with another scorer"):
        cda.dose("scores:judged.jsonl", "scores:before.jsonl", **given, out=files / "d")
    with pytest.raises(
        cda.DataError,
        match=r"has no score of 24 of 72 comparisons \(first: 'Well done 0 .' against 'Not 0.', to 'Task 0\?'",
    ):
        cda.audit("scores:judged.jsonl", **DATA, triples="none", out=files / "e")


def test_it_is_known_by_the_content_of_its_file(files: Path) -> None:
    def scored_as() -> str | None:
        loaded = load_model_audit("scores:before.jsonl", {})
        return open_scorer(Subject("model", loaded.recipe.model), scorer_settings(loaded)).scored_as

    first = scored_as()
    assert first is not None and scored_as() == first
    with (files / "before.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"prompt": "q", "response": "a", "score": 1}\n')
    assert scored_as() != first


def test_a_dose_of_a_recipe_takes_no_options_of_two_models() -> None:
    result = CliRunner().invoke(app, ["dose", "jargon", "--votes", "v.csv", "--bias", "jargon", "--dry-run"])
    assert (
        result.exit_code == 2
        and "--votes: only with --against; a recipe has settings for it\nerror: --bias: only with" in result.output
    )


def asked_of(body: dict[str, Any]) -> str:
    found = re.search(r"<<<ANSWER>>>\n(.*?)\n<<<END>>>", user_text(body), re.DOTALL)
    assert found is not None
    return found[1]


def graded(body: dict[str, Any]) -> Any:
    """5 and one more for each `good`."""
    grade = 5 + asked_of(body).count("good")
    if not body.get("logprobs"):
        return reply(f"Fine.\nGrade: {grade}")
    listed = [{"token": str(one), "logprob": math.log(share)} for one, share in ((grade, 0.75), (10, 0.25))]
    return reply(str(grade), logprobs={"content": [{**listed[0], "top_logprobs": listed}]})


@pytest.mark.parametrize(("words", "margin"), [((), 2.0), (("score.grade.by_token=true",), 1.5)])
def test_an_audit_by_written_grades_and_by_their_mean(
    serve: Callable[..., str], pairs: Path, tmp_path: Path, words: tuple[str, ...], margin: float
) -> None:
    found = audited("grade:j", pairs, tmp_path / "out", f"llm.base_url={serve(graded)}", *words)
    assert found["effects"]["jargon"]["unit"] == "grade" and found["model"]["texts"] == 2 * N
    margins = [row["perturbed_model"] - row["base_model"] for row in found["margins"]]
    assert margins == pytest.approx([margin] * N)
    report = (tmp_path / "out" / "report" / "report.md").read_text(encoding="utf-8")
    assert "Graded by j from 1 to 10, prompt ours" in report


def test_equal_grades_are_ties_that_count_half_and_unread_ones_are_counted(
    serve: Callable[..., str], pairs: Path, tmp_path: Path
) -> None:
    def answer(body: dict[str, Any]) -> Any:
        return reply("I had rather not." if "w0 bad" in asked_of(body) else "Fine.\nGrade: 7")

    url = f"llm.base_url={serve(answer)}"
    found = audited("grade:j", pairs, tmp_path / "out", url)
    n_unread = sum("w0 bad" in row["base"] for row in ROWS)
    skew = found["skew"]["jargon"]
    assert (skew["before"]["value"], skew["before"]["n"], skew["unread"]) == (0.5, N - n_unread, n_unread)
    assert found["model"]["unread"] == n_unread and found["model"]["dropped"] == 0
    said = f"{n_unread} of {2 * N} texts have no readable grade and were left out ({n_unread} × nothing in the form"
    assert said in found["model"]["notes"][-1] and said in found["printed"]
    report = (tmp_path / "out" / "report" / "report.md").read_text(encoding="utf-8")
    assert said in report and "each counted as half a preference" in report
    strict = audit("grade:j", pairs, tmp_path / "strict", url, "score.grade.max_unread=0")
    assert strict.exit_code != 0
    assert (
        f"j: no readable grade on {n_unread} of {2 * N} texts, more than score.grade.max_unread=0 allows"
        in strict.output
    )
    assert 'the first of them ends in "I had rather not."' in " ".join(strict.output.split())
    assert "Traceback" not in strict.output


def test_quality_best_of_n_and_win_rate(serve: Callable[..., str], tmp_path: Path) -> None:
    url = f"llm.base_url={serve(graded)}"
    quality, sampled = tmp_path / "quality.jsonl", tmp_path / "sampled.jsonl"
    rows = [{"prompt": row["prompt"], "chosen": row["perturbed"], "rejected": row["base"]} for row in ROWS]
    rows.append({"prompt": "w1", "chosen": "good", "rejected": "w2 good"})
    quality.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    answers = [{"prompt": row["prompt"], "response": row[side]} for row in ROWS for side in ("perturbed", "base")]
    sampled.write_text("\n".join(map(json.dumps, answers)), encoding="utf-8")

    def run(*words: str) -> str:
        done = CliRunner().invoke(app, [*words, url])
        assert done.exit_code == 0, done.output
        return " ".join(done.output.split())

    out = tmp_path / "q"
    run("quality", "grade:j", str(quality), "--out", str(out))
    assert "Ties (margin exactly 0) count half: 1 tie." in (out / "quality.md").read_text(encoding="utf-8")
    result = json.loads((out / "quality.json").read_text(encoding="utf-8"))
    assert result["sets"][0]["overall"]["found"]["accuracy"]["model"]["value"] == pytest.approx((N + 0.5) / (N + 1))
    plan = run("best-of", "grade:j", str(sampled), "--dry-run", "--out", str(tmp_path / "b"))
    n_texts = len({(row["prompt"], row["response"]) for row in answers})
    assert f"grading single answers: about {n_texts} calls of j" in plan
    run("best-of", "grade:j", str(sampled), "--out", str(tmp_path / "b"))
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    for path, side in ((first, "perturbed"), (second, "base")):
        own = [{"prompt": row["prompt"], "response": row[side]} for row in ROWS]
        path.write_text("\n".join(map(json.dumps, own)), encoding="utf-8")
    said = run("quality", "grade:j", str(first), "--over", str(second), "--out", str(tmp_path / "w"))
    assert "prefers first to second in 100% [" in said


def test_prompts_can_be_looked_at_and_a_discovery_takes_no_grades(tmp_path: Path) -> None:
    shown = CliRunner().invoke(app, ["inspect", "grade:j", "--prompts", "score.grade.prompt=prometheus"])
    assert shown.exit_code == 0 and "a grade of one answer (score.grade.prompt=prometheus)" in shown.output
    assert "[RESULT] and the number" in shown.output
    refused = CliRunner().invoke(app, ["discover", "grade:j", "--out", str(tmp_path / "d"), "llm.base_url=http://x/v1"])
    assert refused.exit_code != 0 and "grade:j: a discovery takes no grades" in refused.output


def test_a_pattern_that_never_ends_is_one_line_that_names_its_file(
    serve: Callable[..., str], pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cda.patterns.LIMIT_S", 0.05)
    path = tmp_path / "slow.yaml"
    path.write_text(
        "system: Grade.\nuser: '{user_message} {answer}'\n"
        "grade: {pattern: '((?:a|aa)+)$', lowest: 1, highest: 9}\n", encoding="utf-8",
    )  # fmt: skip
    url = f"llm.base_url={serve(lambda _: reply('a' * 20_000 + '!'))}"
    done = audit("grade:j", pairs, tmp_path / "out", url, f"score.grade.prompt={path}")
    assert done.exit_code != 0 and "Traceback" not in done.output
    assert f"score.grade.prompt: {path}: grade: pattern:" in done.output and "was stopped after 0.05 s" in done.output
