"""`scores:FILE` in every command: the numbers are those of the function that made the file, and what is missing is said."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import cda
from cda.calibration import effects
from cda.cli import app
from cda.files.jsonl import write_jsonl
from cda.recipe.load import load_model_audit
from cda.resources.named_scorer import Subject, scorer_settings
from cda.resources.scorers import open_scorer

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
    monkeypatch.setattr(effects, "N_DRAWS", 50)
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
    assert other.chosen >= 1 and other.own.held_out["length"].against_base.miscalibration.high < 0
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
    assert cda.calibrate("scores:earlier.jsonl", **given).biases["length"].base.skew.n == 48


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
