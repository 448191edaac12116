"""Responses of several policies or of a file: in order, counted by policy and reason, scored once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from scripted_llm import ScriptedLLM

from cda.arrays import FloatArray
from cda.discovery.candidates import PromptSamples, Rated, Text
from cda.discovery.material import SAMPLES, make_material, rated, response_request, responses_in, sampled_responses
from cda.discovery.setup import Setup
from cda.errors import DataError
from cda.files.jsonl import read_jsonl, write_jsonl
from cda.llm.protocol import CUT_OFF, EMPTY, REFUSED, Completion
from cda.recipe.schema import LlmSection
from cda.recipe.sections import DiscoverSection
from cda.records import Message, Prompt, user_prompt
from cda.resources.llm_access import LlmAccess

TEA, RAIN = user_prompt("Tea?"), user_prompt("Rain?")


def numbered(name: str) -> ScriptedLLM:
    return ScriptedLLM(lambda request: f"{name} {request.sample} to {request.user}")


def texts_of(prompt: Prompt, *texts: str) -> PromptSamples:
    return PromptSamples(prompt, tuple(Rated(text, source="file") for text in texts))


def test_every_policy_answers_every_prompt_in_order() -> None:
    made = sampled_responses([TEA, RAIN, TEA], {"a": numbered("A"), "b": numbered("B")}, n_samples=2)
    assert [one.prompt for one in made.samples] == [TEA, RAIN]
    assert made.samples[1].responses == (
        Rated("A 0 to Rain?", source="a"), Rated("A 1 to Rain?", source="a"),
        Rated("B 0 to Rain?", source="b"), Rated("B 1 to Rain?", source="b"),
    )  # fmt: skip
    assert [made.exclusions[name].seen for name in ("a", "b")] == [4, 4] and made.n_unanswered == 0


def test_truncated_refused_and_empty_ones_are_counted_by_policy_and_reason() -> None:
    faults = [
        Completion(None, CUT_OFF), Completion(None, REFUSED), Completion("  \n"), Completion("<think>so"),
        Completion(None), Completion("<think>hm</think>\nYes."), Completion("I'm sorry, but I can't help with that."),
    ]  # fmt: skip
    bad = ScriptedLLM(lambda request: faults[request.sample] if request.user == "Tea?" else Completion(None, CUT_OFF))
    made = sampled_responses([TEA, RAIN], {"good": numbered("A"), "bad": bad}, n_samples=7)
    assert dict(made.exclusions["bad"].reasons) == {
        CUT_OFF: 8, REFUSED: 1, EMPTY: 1, "cut off while thinking": 1, "no answer": 1,
    }  # fmt: skip
    assert made.exclusions["bad"].seen == 14 and made.exclusions["good"].dropped == 0
    # Declining in words is a response.
    assert [one.text for one in made.samples[0].responses if one.source == "bad"] == ["Yes.", faults[6].text]
    alone = sampled_responses([TEA, RAIN], {"bad": bad}, n_samples=1)
    assert alone.samples == () and alone.n_unanswered == 2


def test_a_conversation_is_continued_and_a_system_message_stays_one() -> None:
    system = Message("system", "Speak like a pirate.")
    turns = (Message("user", "Tea?"), Message("assistant", "Yes."), Message("user", "Now?"))
    single = response_request((system, *TEA))
    assert (single.system, single.user) == ("Speak like a pirate.", "Tea?")
    marked = (Message("system", "Be <|im_end|> kind."), Message("user", "Tea <|im_start|>?"))
    assert response_request(marked).system == "Be < |im_end|> kind."
    assert response_request(marked).user == "Tea < |im_start|>?"
    assert "< |im_end|>" in response_request((*turns, Message("user", "<|im_end|>"))).user
    several = response_request((system, *turns), sample=2)
    assert several.user == "user: Tea?\nassistant: Yes.\nuser: Now?" and several.sample == 2
    assert several.system.endswith("Speak like a pirate.") and "next turn" in several.system
    assert response_request(TEA).user == "Tea?" and "next turn" not in response_request(TEA).system


def test_responses_of_a_file_with_rows_and_texts_that_are_of_no_use(tmp_path: Path) -> None:
    path = tmp_path / "responses.jsonl"
    rows: list[dict[str, object]] = [
        {"prompt": "Tea?", "responses": ["Yes.", "", "No."]},
        {"prompt": "", "responses": ["Lost."]},
        {"prompt": "Rain?", "responses": ["One alone."]},
        {"prompt": "Snow?", "responses": [None]},
    ]
    path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    made = responses_in(str(path))
    assert made.samples == (
        PromptSamples(TEA, (Rated("Yes.", source=str(path)), Rated("No.", source=str(path)))),
        PromptSamples(RAIN, (Rated("One alone.", source=str(path)),)),
    )
    counted = made.exclusions[str(path)]
    assert dict(counted.reasons) == {"empty response": 2, "row: empty prompt": 1} and counted.seen == 6
    assert made.n_unanswered == 1
    with pytest.raises(DataError, match="no such"):
        responses_in(str(tmp_path / "absent.jsonl"))


def test_every_distinct_text_is_scored_once_and_those_without_a_reward_are_left_out_and_counted() -> None:
    seen: list[Text] = []

    def reward(texts: Sequence[Text]) -> FloatArray:
        seen.extend(texts)
        return np.array([{"x": np.nan, "y": np.inf}.get(response, len(response)) for _, response in texts])

    other = user_prompt("?")
    samples, exclusions = rated(
        [texts_of(TEA, "x", "aa", "x", "b", "aa"), texts_of(RAIN, "y"), texts_of(other, "aa")], reward
    )
    assert seen == [(TEA, "x"), (TEA, "aa"), (TEA, "b"), (RAIN, "y"), (other, "aa")]
    assert [sample.prompt for sample in samples] == [TEA, other]
    assert samples[0].responses == (Rated("aa", 2.0, "file"), Rated("b", 1.0, "file"), Rated("aa", 2.0, "file"))
    assert (exclusions.seen, dict(exclusions.reasons)) == (7, {"no reward": 3})


def test_prompts_that_repeat_go_with_their_responses_and_are_counted(tmp_path: Path) -> None:
    rows = [{"prompt": f"Question {n}?", "responses": ["One.", f"Two {n}."]} for n in range(10)]
    rows += [{"prompt": "question 3", "responses": ["One.", "Two.", "Three."]}]
    write_jsonl(tmp_path / "rows.jsonl", rows)
    section = DiscoverSection(responses=str(tmp_path / "rows.jsonl"), parts=(0.4, 0.3, 0.3), by="rules")
    setup = Setup(section, LlmAccess(LlmSection(), tmp_path / "cache"), 1)
    counts = make_material(setup, lambda texts: np.arange(len(texts), dtype=np.float64), tmp_path)
    kept = [len(row["responses"]) for row in read_jsonl(tmp_path / SAMPLES)]
    assert counts.repeated.prompts == 1 and counts.repeated.responses in (2, 3)
    assert counts.responses == sum(kept) == 23 - counts.repeated.responses
