"""Calibration of a function and of a judge behind a real server, and scorers with a calibration applied."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from replies import Answer, reply
from typer.testing import CliRunner

import cda
from cda.cli import app
from cda.data.load import prompt_of
from cda.discovery.discover import checked
from cda.discovery.setup import AskedJudge, AskedSearch, reward_of
from cda.errors import CdaError, DataError, RecipeError
from cda.features import n_words
from cda.files.jsonl import read_jsonl, write_jsonl
from cda.jobs.options import DiscoverArguments, defaults_of
from cda.recipe.load import load_model_audit
from cda.results.base import Estimate, Missing
from cda.results.dose import OrderCorrection
from cda.scorers.calibrated import log_odds, preference_of
from cda.scorers.judge import is_swapped

Rows = list[dict[str, Any]]
N = 48
WORDS = ["alpha", "beta", "gamma", "delta", "river", "stone", "cloud", "lamp"]
_ANSWERS = re.compile(r"<<<ANSWER \d>>>\n(.*?)\n<<<END>>>", re.DOTALL)


def value(text: str) -> float:
    """Hidden worth of an answer: its first word."""
    return WORDS.index(text.split()[0]) - 3.5


def contrasts() -> Rows:
    """Two answers of different worth, one of them padded; people vote by worth."""
    rng = np.random.default_rng(0)
    rows: Rows = []
    for row in range(N):
        first, second = rng.choice(len(WORDS), 2, replace=False)
        padded = f"{WORDS[first]} {'and so on ' * int(rng.integers(1, 9))}ends {row}."
        plain = f"{WORDS[second]} ends here {row}."
        rows.append({"id": f"c{row}", "prompt": f"Question {row}?", "bias": "length", "perturbed": padded, "base": plain,
                     "votes": ["perturbed" if first > second else "base"] * 2})  # fmt: skip
    return rows


def quality() -> Rows:
    return [
        {
            "prompt": f"Task {row}?",
            "chosen": f"lamp {row} {'more ' * (row % 5)}.",
            "rejected": f"alpha {row} {'more ' * (row % 3)}.",
        }
        for row in range(24)
    ]


def write(path: Path, rows: Rows) -> str:
    write_jsonl(path, rows)
    return str(path)


CODE = """
import math
from pathlib import Path
WORDS = {words!r}

def reward(prompts, responses):
    return [WORDS.index(text.split()[0]) / {scale} + 4 * math.log(len(text.split())) for text in responses]
"""


@pytest.fixture
def scorer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(CODE.format(words=WORDS, scale=1), encoding="utf-8")
    return "own.py:reward"


def calibrated(scorer: str, folder: Path, **more: Any) -> Any:
    given = {"contrasts": contrasts(), "quality": quality(), "biases": "length", "out": folder, "progress": False}
    return cda.calibrate(scorer, **(given | {"dose.repeats": 5} | more))


def test_a_reward_is_corrected_out_of_fold_and_by_the_audit_as_by_hand(scorer: str, tmp_path: Path) -> None:
    found = calibrated(scorer, tmp_path / "out")
    own = found.biases["length"]
    assert found.strength > 0 and own.base["skew_on_voted"].value > 0.8 and own.change["gap"].high < 0
    assert found.scorer == scorer and isinstance(found.corrections["length"].offset, Missing)
    assert isinstance(found.order, Missing) and "one text at a time" in found.order.reason
    files = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"calibration.json", "report.html", "calibration.md", "out_of_fold.jsonl"} <= files

    audit = cda.audit(scorer, contrasts=contrasts(), quality=quality(), triples="none", biases="length", progress=False,
                      out=tmp_path / "audit", **{"score.calibration": str(tmp_path / "out" / "calibration.json")})  # fmt: skip
    slope = found.corrections["length"].slope
    assert isinstance(slope, Estimate)
    before, expected = [], []
    for row in contrasts():
        longer = math.log(n_words(row["perturbed"])) - math.log(n_words(row["base"]))
        words = math.log(len(row["perturbed"].split())) - math.log(len(row["base"].split()))
        before.append(value(row["perturbed"]) - value(row["base"]) + 4 * words)
        expected.append(before[-1] - found.strength * slope.value * longer)
    assert audit.skew["length"].before.value == pytest.approx(np.mean(np.array(expected) > 0))
    assert own.base["skew_on_voted"].value == pytest.approx(np.mean(np.array(before) > 0))
    assert "hardly follow" not in str(found)
    assert any(f"at strength {found.strength:g}" in note for note in audit.model.notes)
    rows = [row for row in read_jsonl(tmp_path / "audit" / "audit" / "margins.jsonl") if row["kind"] == "contrast"]
    assert [row["perturbed_model"] - row["base_model"] for row in rows] == pytest.approx(expected)
    kept = list(read_jsonl(tmp_path / "out" / "out_of_fold.jsonl"))
    assert [row["margin"] for row in kept] == pytest.approx(before)
    content = json.loads((tmp_path / "out" / "calibration.json").read_text(encoding="utf-8"))
    (tmp_path / "zero.json").write_text(json.dumps(content | {"strength": 0.0}), encoding="utf-8")
    as_it_is = cda.audit(scorer, contrasts=contrasts(), quality=quality(), triples="none", biases="length", progress=False,
                         out=tmp_path / "zero", **{"score.calibration": str(tmp_path / "zero.json")})  # fmt: skip
    assert as_it_is.skew["length"].before.value == own.base["skew_on_voted"].value
    assert [note.partition(": ")[2].partition("json ")[2] for note in as_it_is.model.notes] == [
        "changes no score: its strength is 0, as no correction was shown to gain."
    ]
    assert np.mean([row["out_of_fold"] > 0 for row in kept]) == pytest.approx(
        own.calibrated["skew_on_voted"].value, abs=0.1
    )
    loaded = cda.load(tmp_path / "out" / "calibration.json")
    assert (
        isinstance(loaded, cda.Calibration) and loaded.model_dump() == found.model_dump() and str(loaded) == str(found)
    )
    again = found(*zip(*((row["prompt"], row["perturbed"], row["base"]) for row in contrasts()), strict=True), before)
    assert again == pytest.approx(expected)


def test_the_next_command_keeps_the_options_that_still_apply(scorer: str, tmp_path: Path) -> None:
    found = calibrated(
        scorer, tmp_path / "out", quality="none", seed=7, **{"audit.second_turn": "no", "score.scorer_version": "2"}
    )
    command = found.summary[found.summary.index("Next: ") :]
    for kept in ("quality='none'", "seed=7", "'second_turn': 'no'", "'scorer_version': 2", "biases=['length']"):
        assert kept in command, command
    assert command.count("quality") == 1 and "dose.repeats" not in command


def test_a_scorer_that_hardly_follows_people_is_said_to(tmp_path: Path) -> None:
    def blind(prompts: list[Any], responses: list[str]) -> list[float]:  # noqa: ARG001
        return [float(hash_of(text)) for text in responses]

    found = calibrated(blind, tmp_path / "out")  # type: ignore[arg-type]
    assert found.following.low < 0.1 and "hardly follow people's votes" in str(found)


def hash_of(text: str) -> int:
    return int(hashlib.sha256(text.encode()).hexdigest()[:4], 16) % 97


def test_quality_takes_the_calibration_and_refuses_a_second_model(scorer: str, tmp_path: Path) -> None:
    found = calibrated(scorer, tmp_path / "out")
    applied = {"score.calibration": str(tmp_path / "out" / "calibration.json")}
    result = cda.quality(scorer, quality(), out=tmp_path / "q", progress=False, **applied)
    margins = found(
        *zip(*((row["prompt"], row["chosen"], row["rejected"]) for row in quality()), strict=True),
        [value(row["chosen"]) - value(row["rejected"]) + 4 * math.log(len(row["chosen"].split()) / len(row["rejected"].split()))
         for row in quality()],
    )  # fmt: skip
    assert result.sets[0].overall.found["accuracy"]["model"].value == pytest.approx(np.mean(margins > 0))
    with pytest.raises(CdaError, match=r"it was fitted for own.py:reward, and this is other.py:reward"):
        (tmp_path / "other.py").write_text(CODE.format(words=WORDS, scale=2), encoding="utf-8")
        cda.quality(scorer, quality(), against="other.py:reward", out=tmp_path / "two", progress=False, **applied)


def test_a_calibration_of_another_scorer_or_another_version_is_refused(scorer: str, tmp_path: Path) -> None:
    calibrated(scorer, tmp_path / "out")
    applied = {"score.calibration": str(tmp_path / "out" / "calibration.json")}
    (tmp_path / "own.py").write_text(CODE.format(words=WORDS, scale=2), encoding="utf-8")
    with pytest.raises(CdaError, match=r"fitted for own.py:reward as another version, or asked with another prompt"):
        cda.audit(scorer, contrasts=contrasts(), biases="length", progress=False, out=tmp_path / "a", **applied)
    with pytest.raises(CdaError, match=r"fitted for own.py:reward, and this is embedded; run `cda calibrate embedded`"):
        cda.audit("embedded", contrasts=contrasts(), biases="length", progress=False, out=tmp_path / "b", **applied)
    with pytest.raises(CdaError, match=r"score.calibration: .*none.json"):
        cda.audit(
            scorer, contrasts=contrasts(), progress=False, out=tmp_path / "c", **{"score.calibration": "none.json"}
        )
    with pytest.raises(CdaError, match="a training changes it"):
        cda.train("length", dry_run=True, out=tmp_path / "d", **applied)
    with pytest.raises(DataError, match="leave it out, since what is calibrated is the scorer as it is"):
        calibrated(scorer, tmp_path / "e", **applied)


def discovery_of(model: str, against: str, file: Path | None, llm: Any = None, **score: Any) -> AskedSearch:
    settings = {"score": {**score, "calibration": file and str(file)}, "llm": llm or {},
                "discover": {"judge": against, "responses": "embedded", "by": "rules"}}  # fmt: skip
    return checked(load_model_audit(model, settings), defaults_of(DiscoverArguments))[1]  # type: ignore[arg-type]  # all of them


def sides_of(rows: Any) -> Any:
    return zip(*((prompt[0].content, *sides) for prompt, *sides in rows), strict=True)


def test_a_discovery_corrects_the_scorer_that_the_calibration_was_fitted_for(scorer: str, tmp_path: Path) -> None:
    calibration = calibrated(scorer, tmp_path / "out")
    file, other = tmp_path / "out" / "calibration.json", "other.py:reward"
    (tmp_path / "other.py").write_text(CODE.format(words=WORDS, scale=2), encoding="utf-8")
    rows = [(prompt_of(row["prompt"]), row["perturbed"], row["base"]) for row in contrasts()]
    texts = [(prompt, text) for prompt, *sides in rows for text in sides]
    plain = np.array([WORDS.index(text.split()[0]) + 4 * math.log(len(text.split())) for _, text in texts])
    margins = calibration(*sides_of(rows), plain[::2] - plain[1::2])
    of_model = discovery_of(scorer, other, file)
    rewards = reward_of(of_model.model)(texts)
    assert rewards[::2] - rewards[1::2] == pytest.approx(margins)
    of_judge = discovery_of(other, scorer, file)
    assert AskedJudge(of_judge.judge)(rows) == pytest.approx((np.sign(margins) + 1) / 2)
    assert (np.sign(margins) != np.sign(plain[::2] - plain[1::2])).any()
    for found, corrected in ((of_model, of_model.model), (of_judge, of_judge.judge)):
        sides = (found.model, found.judge)
        assert [side.loaded.recipe.score.calibration is not None for side in sides] == [
            side is corrected for side in sides
        ]
    before = of_judge.judge.settings()
    file.write_text(file.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    assert discovery_of(other, scorer, file).judge.settings() != before
    with pytest.raises(RecipeError) as refused:
        discovery_of(other, "embedded", file)
    assert [problem.split(": ", 1)[1][-60:] for problem in refused.value.problems] == [
        f"it was fitted for {scorer}, and this is {name}; run `cda calibrate {name}`"[-60:]
        for name in (other, "embedded")
    ]


def test_too_few_votes_are_counted_before_anything_is_scored(tmp_path: Path) -> None:
    def never(prompts: list[Any], responses: list[str]) -> list[float]:  # noqa: ARG001
        raise AssertionError("scored")

    few = [row if number < 12 else {**row, "votes": []} for number, row in enumerate(contrasts())]
    with pytest.raises(DataError, match="length: people's majorities on 12 prompts, and calibrating needs 20 at least"):
        calibrated(never, tmp_path / "out", contrasts=few)  # type: ignore[arg-type]
    unmeasured = [{**row, "bias": "vagueness-paper"} for row in contrasts()]
    with pytest.raises(DataError, match="vagueness-paper: its file names no measure"):
        calibrated(never, tmp_path / "out", contrasts=unmeasured, biases="vagueness-paper")  # type: ignore[arg-type]


def test_a_dry_run_counts_votes_and_does_nothing(scorer: str, tmp_path: Path) -> None:
    rows = [*contrasts(), {**contrasts()[0], "id": "j", "bias": "jargon", "votes": ["base"]}]
    words = ["calibrate", scorer, "--contrasts", write(tmp_path / "c.jsonl", rows), "--bias", "length", "--bias", "jargon",
             "--quality", write(tmp_path / "q.jsonl", quality()), "--out", "run", "--dry-run"]  # fmt: skip
    found = CliRunner().invoke(app, words)
    assert found.exit_code == 0, found.output
    assert f"prompts with a majority: length {N}" in found.output and "quality     pairs of 24 prompts" in found.output
    assert "jargon is not corrected: 1 prompts with a majority, 20 needed" in found.output
    assert not (tmp_path / "run").exists()


def test_votes_on_unknown_ids_are_counted(scorer: str, tmp_path: Path) -> None:
    bare = [{name: cell for name, cell in row.items() if name != "votes"} for row in contrasts()]
    votes = [{"id": row["id"], "vote": row["votes"][0]} for row in contrasts()] + [{"id": "x", "vote": "base"}]
    found = calibrated(scorer, tmp_path / "out", contrasts=bare, votes=votes)
    assert found.left_out["items of votes"].reasons == {"of no contrast": 1}
    assert found.biases["length"].base["human_skew"].n == N


def judge(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """Probabilities by worth, log of length and place."""
    first, second = (
        value(text) / 2 + 2 * math.log(n_words(text)) for text in _ANSWERS.findall(body["messages"][-1]["content"])[:2]
    )
    chance = 1 / (1 + math.exp(second - first - 1.0))
    listed = [{"token": "1", "logprob": math.log(chance)}, {"token": "2", "logprob": math.log(1 - chance)}]
    best = max(listed, key=lambda token: float(token["logprob"]))  # type: ignore[arg-type]
    return reply(str(best["token"]), logprobs={"content": [{**best, "top_logprobs": listed}]})


def asked(url: str, orders: str) -> dict[str, Any]:
    return {"llm.base_url": url, "llm.api_key_env": "CDA_NO_KEY", "score.judge.by_token": True, "score.judge.ties": False,
            "score.judge.orders": orders, "confirm": True}  # fmt: skip


def test_a_judge_in_one_order_is_corrected_for_length_and_place(tmp_path: Path, serve: Callable[[Answer], str]) -> None:
    url = serve(judge)
    found = calibrated("judge:j", tmp_path / "out", **asked(url, "one"))
    assert found.unit == "log odds" and isinstance(found.order, OrderCorrection) and found.order.offset.low > 0
    assert found.strength > 0 and found.biases["length"].change["gap"].high < 0
    applied = {"score.calibration": str(tmp_path / "out" / "calibration.json"), **asked(url, "one")}
    audit = cda.audit("judge:j", contrasts=contrasts(), quality="none", triples="none", biases="length", progress=False,
                      out=tmp_path / "audit", **applied)  # fmt: skip
    slope = found.corrections["length"].slope
    assert isinstance(slope, Estimate)
    odds = []
    for row in contrasts():
        longer = math.log(n_words(row["perturbed"])) - math.log(n_words(row["base"]))
        place = -1 if is_swapped(prompt_of(row["prompt"]), row["perturbed"], row["base"]) else 1
        margin = (value(row["perturbed"]) - value(row["base"])) / 2 + 2 * longer + place
        odds.append(
            np.clip(margin, *log_odds([-1, 1]))
            - found.strength * (slope.value * longer + found.order.offset.value * place)
        )
    assert audit.skew["length"].before.value == pytest.approx(np.mean(np.array(odds) > 0))
    assert audit.skew["length"].mean_margin.before == pytest.approx(np.mean(preference_of(odds)), abs=1e-6)
    with pytest.raises(CdaError, match="asked with another prompt or settings"):
        cda.audit("judge:j", contrasts=contrasts(), biases="length", progress=False, out=tmp_path / "both",
                  **(applied | asked(url, "both")))  # fmt: skip


def test_in_both_orders_the_place_needs_no_correction(tmp_path: Path, serve: Callable[[Answer], str]) -> None:
    found = calibrated("judge:j", tmp_path / "out", **asked(serve(judge), "both"))
    assert isinstance(found.order, Missing) and "both orders" in found.order.reason
    assert found.biases["length"].change["gap"].value < 0


def test_log_odds_and_preferences_are_inverse_and_verdicts_finite() -> None:
    values = np.linspace(-0.97, 0.97, 21)
    assert preference_of(log_odds(values)) == pytest.approx(values)
    assert log_odds([0.0, 1.0, -1.0]) == pytest.approx([0, math.log(1.98 / 0.02), -math.log(1.98 / 0.02)])
