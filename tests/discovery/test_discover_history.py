"""Generations on disk: the same after a round trip, unfinished where the second file is missing, and no traceback for a broken one."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cda.biases import builtin_names, load_bias
from cda.discovery import history as discover_history
from cda.discovery.attribute import attribute_bias, catalogue
from cda.discovery.history import candidate_record, measured_of, measured_row, save_generation, saved_generations
from cda.discovery.records import Candidate, Standing
from cda.discovery.search import Generation
from cda.errors import DataError
from cda.records import Exclusions, Message, user_prompt
from cda.results.discover import CandidateRecord, Measured, SavedGeneration

NASTY = 'a\u2028b\x85c\x00d\ud800e "quoted"\r\n\u202ef 🦉 <<<END>>>\x1b[31m'
BIASES = [*(load_bias(name) for name in builtin_names()), *catalogue(), attribute_bias("Triple spaces between words")]


def generation(index: int, **changed: Any) -> Generation:
    candidate = Candidate(attribute_bias("Triple spaces between words"))
    child = Candidate(attribute_bias("Four spaces"), "mutated", 1, (candidate.id,))
    talk = (Message("system", "Be brief."), Message("user", NASTY), Message("assistant", "Yes."), Message("user", "?"))
    rows = (
        Measured(candidate.id, "gpt-x", "add", user_prompt(NASTY), NASTY, f"{NASTY}!", 0.1 + 0.2, None),
        Measured(candidate.id, "gpt-x", "remove", talk, "a   b", "a b", -1e-17, 0.5),
    )
    standings = (
        Standing(candidate, 2, 1 / 3, 0.5, 1, {"refused": 3}),
        Standing(child, 0, None, None, 0, {"is so already": 1, "no reward": 2}, "too few rewrites"),
    )
    found = Generation(index, standings, rows, 32, Exclusions(7, {"tried before": 2}), 4)
    return replace(found, **changed)


@pytest.mark.parametrize("bias", BIASES, ids=lambda bias: bias.name)
def test_every_bias_comes_back_as_it_was(bias: Any) -> None:
    one = Candidate(bias, "given", 3, ("a", "b"))
    record = candidate_record(one)
    assert CandidateRecord.model_validate_json(record.model_dump_json()) == record and record.bias == bias
    # Short enough to be read: nothing is written that a bias file would not say.
    assert set(record.model_dump()["bias"]) == set(bias.model_dump(exclude_defaults=True))


def test_generations_come_back_as_they_were(tmp_path: Path) -> None:
    whole = [generation(0), generation(1, standings=(), rows=(), proposed=Exclusions(0, {}))]
    for one in whole:
        save_generation(one, tmp_path)
    assert saved_generations(tmp_path) == whole
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "generation-0.json", "generation-0.jsonl", "generation-1.json", "generation-1.jsonl",
    ]  # fmt: skip
    again = generation(1, n_prompts=8)
    save_generation(again, tmp_path)
    assert saved_generations(tmp_path) == [whole[0], again]


def test_rows_come_back_as_they_were() -> None:
    for row in generation(0).rows:
        assert measured_of(json.loads(json.dumps(measured_row(row)))) == row


def test_a_kill_between_the_two_files_leaves_the_generation_unfinished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_generation(generation(0), tmp_path)

    def killed(result: SavedGeneration, path: Path) -> None:
        path.with_name(path.name + ".partial").write_text(result.model_dump_json()[:40], encoding="utf-8")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(discover_history, "save", killed)
        with pytest.raises(KeyboardInterrupt):
            save_generation(generation(1, rows=()), tmp_path)
    assert (tmp_path / "generation-1.jsonl").is_file()
    assert saved_generations(tmp_path) == [generation(0)]
    save_generation(generation(1), tmp_path)
    assert saved_generations(tmp_path) == [generation(0), generation(1)]


def test_what_comes_behind_a_gap_does_not_count(tmp_path: Path) -> None:
    assert saved_generations(tmp_path) == [] == saved_generations(tmp_path / "not there")
    for index in (0, 1, 3):
        save_generation(generation(index), tmp_path)
    assert saved_generations(tmp_path) == [generation(0), generation(1)]
    (tmp_path / "generation-0.json").unlink()
    assert saved_generations(tmp_path) == []


def broken(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        path = folder / "generation-0.json"
        content = json.loads(path.read_text(encoding="utf-8"))
        change(content)
        path.write_text(json.dumps(content), encoding="utf-8")

    return write


def row(text: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        (folder / "generation-0.jsonl").write_text(f"{text}\n", encoding="utf-8")

    return write


@pytest.mark.parametrize(
    "damage",
    [
        broken(lambda content: content["generation"].pop("standings")),
        broken(lambda content: content["generation"]["standings"][0].update(unheard_of=1)),
        broken(lambda content: content["candidates"][0]["bias"].pop("question")),
        broken(lambda content: content["generation"]["standings"][0].update(candidate=None)),
        broken(lambda content: content["generation"].update(proposed={"reasons": {}})),
        broken(lambda content: content["candidates"].pop()),
        broken(lambda content: content["candidates"].reverse()),
        row('{"candidate": "x"}'),
        row('{"prompt": [{"role": "oracle", "content": "?"}]}'),
        row('{"prompt": ""}'),
        row("{cut off"),
        row("[]"),
        lambda folder: (folder / "generation-0.json").write_text("[]", encoding="utf-8"),
        lambda folder: (folder / "generation-0.json").write_text('{"index": 0', encoding="utf-8"),
        lambda folder: (folder / "generation-0.jsonl").unlink(),
    ],
)
def test_a_damaged_file_is_named(damage: Callable[[Path], object], tmp_path: Path) -> None:
    save_generation(generation(0), tmp_path)
    damage(tmp_path)
    with pytest.raises(DataError, match="generation-0"):
        saved_generations(tmp_path)
