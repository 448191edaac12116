"""The evals' own machinery: planted effects, failures that count, attacks on rows, kept answers, drift that is told from a bias."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import numpy as np
import pytest

from cda.embedded.texts import EMBEDDED_BIASES, READINGS
from cda.files.jsonl import read_jsonl
from cda.records import Contrast, user_prompt
from evals.method import embedded_texts

EVALS = Path(__file__).parent.parent.parent / "evals"


def test_a_world_has_its_planted_effect_and_misleads_the_others() -> None:
    from cda.stats.rate import effect
    from evals.method.simulated_world import World, draw

    sample = draw(World(), np.random.default_rng(0), 20_000, 3).contrasts()
    assert effect(sample).estimate.value == pytest.approx(0.5, abs=0.02)
    # ξ: half of the rows gain 0.8 − 0.4, the other half 0.4 − 0.
    assert effect(sample, "ATE", "single").estimate.value == pytest.approx(0.5 + 0.4, abs=0.02)
    assert effect(sample, "ATE", "naive").estimate.value > 1.5


def test_a_missed_threshold_ends_with_a_failing_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from evals import shared as outcome

    monkeypatch.setattr(outcome, "ROOT", tmp_path)
    (tmp_path / "evals").mkdir()
    missed = [outcome.Check("a", "1", True), outcome.Check("b", "2", False)]
    assert outcome.finish("x", "Claim: y.", missed, {"n": 3}) == 1
    written = json.loads((tmp_path / "evals" / "results" / "x.json").read_text())
    assert written["passed"] is False and written["numbers"] == {"n": 3} and len(written["date"]) == 10
    assert "FAILED  b" in capsys.readouterr().out
    assert outcome.finish("x", "Claim: y.", missed[:1], {}) == 0
    assert outcome.finish("x", "Claim: y.", [], {}) == 1  # nothing checked is nothing shown


def test_every_triple_counts_by_its_readers() -> None:
    from evals.method.flip_rates import triple_cells

    cells = triple_cells()
    assert len(cells) == 10 and all(len(one.hits) == 40 for one in cells.values())
    assert sum(sum(one.hits) for one in cells.values()) == 399


def test_every_eval_finds_what_it_takes_from_the_package() -> None:
    names = [file.relative_to(EVALS.parent).with_suffix("").parts for file in EVALS.rglob("*.py")]
    assert len(names) > 50
    for name in names:
        importlib.import_module(".".join(name))


def test_every_attack_is_survived(tmp_path: Path) -> None:
    """The attack that needs the model runs in the eval."""
    attempts = importlib.import_module("evals.reliability.fault_rows").ATTEMPTS
    found = {}
    for number, one in enumerate(attempts):
        if one.attack.__name__ != "double_spaces":
            (folder := tmp_path / str(number)).mkdir()
            found[one.name] = one.attack(folder)
    assert len(found) == len(attempts) - 1 > 10
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


KEPT = EVALS / "answers" / "prompts.jsonl"


def test_a_few_kept_answers_are_read_again() -> None:
    from evals.method.prompts_answered import asked, kept_answers

    kept = kept_answers(KEPT)
    if not any(one.kind == "reading" for one in kept.values()):
        pytest.skip("evals/answers/prompts.jsonl holds no readings of the rewrites yet")
    found, server = asked(kept, 2)
    assert not server.open_questions and not server.asked_again
    assert {row.bias for row in found.labels} == set(EMBEDDED_BIASES)
    right = [row.label == row.has_bias for row in found.labels]
    assert len(right) == 20 and sum(right) >= 16
    assert len(found.rewrites) == 20 and sum(row.gate is None for row in found.rewrites) >= 16
    assert sum((row.margin or 0) > 0 for row in found.judgements) >= 1
    assert all(row.read for row in found.groupings) and all(row.attributes for row in found.proposals)


PLAIN = "Salt lowers the point at which water freezes, so that ice on a salted road melts in mild frost."


def test_drift_and_not_words_alone_says_what_is_alike() -> None:
    hard = "Notwithstanding precipitation, municipalities disseminate chloride compounds facilitating vehicular circulation universally."
    easy = "When it snows, the town puts salt on the roads so that cars can get by and no one has to slip or slide all day."
    contrasts = [Contrast("sycophancy", user_prompt(f"Why {n}?"), hard, easy) for n in range(3)]
    overlap, inside = embedded_texts.alike_but_for_the_bias(contrasts)
    assert not inside.any() and overlap.beyond["flesch_reading_ease"] == 3
    same = [Contrast("sycophancy", user_prompt(f"Why {n}?"), f"Nice. {PLAIN}", PLAIN) for n in range(3)]
    assert embedded_texts.alike_but_for_the_bias(same)[1].all()


def test_every_reading_has_a_text_or_says_that_it_is_unknown() -> None:
    rows = list(read_jsonl(READINGS))
    assert len(rows) >= 2290 and all("text" in one for one in rows)
    present = embedded_texts.of_present_texts(rows)
    # Ids alone would find a reading of every text.
    assert {one["id"] for _, one in embedded_texts.texts_to_read().values()} <= {one["id"] for one in rows}
    assert len(present) >= 1905
