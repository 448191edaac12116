"""What a discovery says next to its numbers: earlier tests on the same prompts, calls of its own stages, repeated prompts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cda.discovery.held_out import ROWS
from cda.discovery.material import SAMPLES, make_material
from cda.discovery.result import earlier_tests, finished_stages
from cda.discovery.setup import Setup
from cda.files.jsonl import read_jsonl, write_jsonl
from cda.recipe.schema import LlmSection
from cda.recipe.sections import DiscoverSection
from cda.records import user_prompt
from cda.resources.artifacts import prompt_row
from cda.resources.llm_access import LlmAccess
from cda.results.facts import LLMUse
from cda.run import RunFolder, Stage

USE = LLMUse(asked=3, cached=0, unusable=0, input_tokens=0, output_tokens=0, uncounted=0, dollars=None)


def made(folder: RunFolder, name: str, settings: dict[str, Any], prompts: Sequence[str] = ("a", "b")) -> None:
    stage = Stage(name, settings, {})
    if not folder.is_done(stage):
        out = folder.begin(stage)
        write_jsonl(out / ROWS, ({"prompt": prompt_row(user_prompt(one))} for one in prompts))
        folder.finish(stage, {"llm": {"lead": USE.model_dump()}} if name == "search" else {}, 1.0)


def test_other_tests_on_the_same_prompts_are_counted(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    made(folder, "confirm", {"trim": False})
    assert earlier_tests(folder) == 0
    made(folder, "confirm", {"trim": False})  # reused
    assert earlier_tests(folder) == 0
    made(folder, "confirm", {"trim": True})
    made(folder, "confirm", {"max_failed": 0.2}, ["b", "c"])
    assert earlier_tests(folder) == 2
    (folder.stage("confirm") / ROWS).write_text("", encoding="utf-8")  # damaged, and made again alike
    made(folder, "confirm", {"max_failed": 0.2}, ["b", "c"])
    assert earlier_tests(folder) == 2
    made(folder, "confirm", {"max_failed": 0.2}, ["d"])  # the same settings are no other test
    made(folder, "confirm", {"seed": 2}, ["d"])
    assert earlier_tests(folder) == 0
    folder.begin(Stage("confirm", {"seed": 3}, {}))
    made(folder, "confirm", {"seed": 4}, ["a"])
    assert earlier_tests(folder) == 2  # an unfinished one has tested nothing


def test_only_stages_that_took_part_are_told(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    for name in ("material", "search", "confirm"):
        made(folder, name, {})
    found = finished_stages(folder, (True, True, False, True, True))
    assert list(found) == ["material", "search", "confirm"]
    assert found["search"].llm == {"lead": USE}
    assert list(finished_stages(folder, (True, False, False, False, False))) == ["material"]


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
