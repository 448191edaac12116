"""A dose is scored once and as the audit scores it: kept for the next call, too long texts left out, nothing else moved."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from cda.dosing.stage import dosed_rewards, read_alike
from cda.errors import ModelError
from cda.finetuning.train import _base_scores, with_base_preferences
from cda.models.config import ModelSpec
from cda.models.load import load_reward_model
from cda.recipe.load import LoadedRecipe, load_model_audit
from cda.records import Pair, Split, TrainingExample, TrainingPair, user_prompt
from cda.resources.model_scorers import classifier_scores
from cda.resources.named_scorer import scorer_settings
from cda.resources.sources import model_spec
from cda.scorers.classifier import ClassifierScorer
from cda.scorers.compared import Rewards, Text, text_id
from cda.scorers.engine import ScoreCache
from cda.training.dose import DosedModel

if TYPE_CHECKING:
    from conftest import Trained

Words = Callable[..., str]


def recipe(model: Path, folder: Path, *settings: str) -> LoadedRecipe:
    words = ["model.precision=fp32", "model.max_length_tokens=64", f"run.folder={folder / 'run'}", *settings]
    return load_model_audit(str(model), {}, words)


def dosed(loaded: LoadedRecipe, adapter: Path, doses: list[float], texts: list[Text]) -> dict[float, Rewards]:
    return dosed_rewards(model_spec(loaded.recipe.model), scorer_settings(loaded), adapter, doses, texts)


@pytest.fixture
def texts(words: Words) -> list[Text]:
    return [(user_prompt(f"w{n}"), words(n + 2)) for n in range(6)]


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Number of texts in each batch that a model really computes."""
    seen: list[int] = []
    forward = ClassifierScorer._forward

    def counted(self: ClassifierScorer, ids: list[list[int]]) -> object:
        seen.append(len(ids))
        return forward(self, ids)

    monkeypatch.setattr(ClassifierScorer, "_forward", counted)
    return seen


def test_a_dose_that_was_scored_before_is_taken_from_the_cache(
    llama: Path, trained_fp32: Trained, texts: list[Text], tmp_path: Path, computed: list[int],
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    loaded, adapter = recipe(llama, tmp_path), trained_fp32.result.adapter
    first = dosed(loaded, adapter, [0.5, 2.0], texts)
    assert sum(computed) == 2 * len(texts)
    model = load_reward_model(ModelSpec(str(llama), "fp32", 64), adapter)
    dosed_model = DosedModel(model)
    for dose, rewards in first.items():
        dosed_model.set(dose)
        expected = ClassifierScorer(model).score([prompt for prompt, _ in texts], [text for _, text in texts])
        assert [rewards.of(*text) for text in texts] == pytest.approx(expected.tolist(), abs=1e-5)
    computed.clear()
    again = dosed(loaded, adapter, [0.5, 2.0, 3.0], texts)
    assert sum(computed) == len(texts)  # dose 3 alone
    assert {dose: again[dose].by_text for dose in first} == {dose: one.by_text for dose, one in first.items()}
    assert f"dose 0.5: all {len(texts)} texts were scored before, and no score is new" in capsys.readouterr().out
    assert dosed(loaded, adapter, [], texts) == {}


def test_the_audit_and_a_dose_of_one_are_one_to_the_cache(
    llama: Path, trained_fp32: Trained, texts: list[Text], tmp_path: Path, computed: list[int]
) -> None:
    loaded, adapter = recipe(llama, tmp_path), trained_fp32.result.adapter
    model = load_reward_model(ModelSpec(str(llama), "fp32", 64), adapter)
    classifier_scores(model, texts, scorer_settings(loaded), None, adapter=adapter)
    computed.clear()
    dosed(loaded, adapter, [1.0], texts)
    assert computed == []


def test_texts_that_are_too_long_become_of_a_dose_what_becomes_of_them_in_the_audit(
    llama: Path, trained_fp32: Trained, texts: list[Text], words: Words, tmp_path: Path
) -> None:
    long, adapter = (user_prompt("w1"), words(200)), trained_fp32.result.adapter
    dropped = dosed(recipe(llama, tmp_path, "score.over_length=drop"), adapter, [2.0], [*texts, long])[2.0]
    assert math.isnan(dropped.of(*long)) and not any(math.isnan(dropped.of(*text)) for text in texts)
    cut = dosed(recipe(llama, tmp_path), adapter, [2.0], [*texts, long])[2.0]
    assert math.isfinite(cut.of(*long)) and list(cut.read) == [text_id(*long)]
    with pytest.raises(ModelError, match="longer than 64 tokens"):
        dosed(recipe(llama, tmp_path, "score.over_length=refuse"), adapter, [2.0], [*texts, long])


def test_what_the_curve_leaves_out_is_left_out_of_what_stands_beside_it() -> None:
    """A removal without training is computed for every text, also for those that the curve says nothing of."""
    prompt = user_prompt("p")
    comparisons = [(prompt, "a", "b"), (prompt, "a", "long"), (prompt, "cut one", "cut two")]
    names = {text: text_id(prompt, text) for text in ("a", "b", "long", "cut one", "cut two")}
    curve = [
        Rewards({**dict.fromkeys(names.values(), 1.0), names["long"]: math.nan}),
        Rewards(dict.fromkeys(names.values(), 2.0), {names["cut one"]: "same", names["cut two"]: "same"}),
    ]
    removal = Rewards({name: float(number) for number, name in enumerate(names.values())})
    assert removal.margins(comparisons).tolist() == [-1.0, -2.0, -1.0]
    first, *others = read_alike(removal, curve).margins(comparisons).tolist()
    assert first == -1.0 and all(math.isnan(one) for one in others)


def examples(words: Words) -> list[TrainingPair]:
    pairs = [Pair(user_prompt(f"w{n}"), f"good {words(n + 1)}", words(n + 3)) for n in range(4)]
    pairs.append(Pair(user_prompt("w1"), words(200), "bad"))
    rows = [TrainingPair(TrainingExample(pair, None), "train", "contrast", None, pair.id) for pair in pairs]
    return [*rows, replace(rows[0], example=TrainingExample(pairs[0], 0.75))]


def test_base_preferences_come_from_the_base_model_once(
    llama: Path, words: Words, tmp_path: Path, computed: list[int]
) -> None:
    # `drop` does not hold here: the trainer cuts long texts, and each example needs its target.
    loaded, rows = recipe(llama, tmp_path, "score.over_length=drop"), examples(words)
    model = load_reward_model(ModelSpec(str(llama), "fp32", 64))
    score = partial(_base_scores, model, settings=scorer_settings(loaded), launched=tmp_path / "scoring")
    found = with_base_preferences(rows, score)
    assert sum(computed) == 10
    for row, example in zip(rows[:-1], found, strict=False):
        first, second = ClassifierScorer(model).score([row.pair.prompt] * 2, [row.pair.chosen, row.pair.rejected])
        assert example.target == pytest.approx(1 / (1 + math.exp(second - first)), abs=1e-5)
    assert found[-1].target == 0.75
    computed.clear()
    assert with_base_preferences(rows, score) == found
    assert computed == []
    path = scorer_settings(loaded).cache
    assert path == tmp_path / "score-cache.sqlite"
    with ScoreCache(path) as cache:
        assert len(cache) == 10
    assert with_base_preferences([rows[-1]], score) == [rows[-1].example]


def shifted(margins: Sequence[float], target: float, bias: str, split: Split = "train") -> list[TrainingPair]:
    """Pairs of a bias; the text of a side is the reward that the base model gives it."""
    pairs = [Pair(user_prompt(f"{bias} {split} {n}"), f"{margin}", "0") for n, margin in enumerate(margins)]
    return [TrainingPair(TrainingExample(pair, target), split, "shift", bias, pair.id) for pair in pairs]


def by_their_text(texts: Sequence[Text]) -> dict[str, float]:
    return {text_id(*text): float(text[1]) for text in texts}


@pytest.mark.parametrize("unit", [0.01, 1.0, 300.0])
def test_a_shift_moves_all_margins_of_a_bias_by_what_brings_its_share_about_on_any_scale(
    unit: float, caplog: pytest.LogCaptureFixture
) -> None:
    """A fifth of the pairs is above 0 before; the order of all margins, and what is between them, stays."""
    margins = unit * np.random.default_rng(0).normal(-0.8416, 1, 500)
    rows = shifted(margins.tolist(), 0.7, "jargon") + shifted([unit, -unit], 0.5, "length")
    held = shifted([unit, 2 * unit], 0.7, "jargon", "validation")
    found = with_base_preferences([*rows, *held], by_their_text)
    goals = np.array([example.kept + example.shift for example in found])
    assert (goals[:500] > 0).mean() == pytest.approx(0.7)
    assert np.ptp(goals[:500] - margins) < 1e-9 * unit
    assert goals[500:502] == pytest.approx([unit, -unit])  # half of them already
    assert goals[502:] == pytest.approx([unit + found[0].shift, 2 * unit + found[0].shift])
    assert found[0].target == pytest.approx(1 / (1 + math.exp(-np.clip(goals[0], -50, 50))))
    assert "the unbiased side is then preferred in 70% of those that train (n = 500, 21% before)" in caplog.text


def test_a_share_of_all_or_none_of_the_pairs_is_as_far_as_the_last_of_them() -> None:
    for share in (0.0, 1.0):
        found = with_base_preferences(shifted([-1.0, 0.5, 2.0], share, "jargon"), by_their_text)
        assert found[0].shift == (-2.0 if share == 0 else 1.0)
