"""What Python holds is compared as it is: runs, audits, rows, comparisons and paths together; functions go by their own names."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import cda
from cda.results.comparison import AuditRow

COMMON: dict[str, Any] = {"biases": "length", "quality": "none", "triples": "none", "progress": False}
CONTRASTS = [
    {"id": f"c{at}", "prompt": f"What is item {at}?", "base": f"Thing {at}.", "perturbed": f"It is a thing of number {at}."}
    for at in range(12)
]  # fmt: skip


def longer(_: Sequence[Any], responses: Sequence[str], sign: int = 1) -> list[int]:
    return [sign * len(response) for response in responses]


def shorter(_: Sequence[Any], responses: Sequence[str]) -> list[int]:
    return longer(_, responses, -1)


class Halves:
    """A callable object."""

    def __call__(self, _: Sequence[Any], responses: Sequence[str]) -> list[float]:
        return [len(response) % 2 for response in responses]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One audit in each form that Python has it in."""
    folder = tmp_path_factory.mktemp("objects")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        audits = {
            each.__name__: cda.audit(each, contrasts=CONTRASTS, out=folder / each.__name__, **COMMON)
            for each in (longer, shorter)
        }
        audits["Halves"] = cda.audit(Halves(), contrasts=CONTRASTS, out=folder / "halves", **COMMON)
        alone = cda.audit(lambda _, texts: [1.0 for _ in texts], contrasts=CONTRASTS, out=folder / "lambda", **COMMON)
        row = json.loads(audits["shorter"].export(folder / "row.json").read_text())
        return {**audits, "lambda": alone, "row": row, "folder": folder}


def test_runs_audits_rows_and_paths_are_compared_together(
    made: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(made["folder"])
    run, row = cda.load(made["folder"] / "longer"), made["row"]
    comparison = cda.compare(run, made["Halves"], row, str(made["folder"] / "lambda"), progress=False)
    assert isinstance(comparison, cda.Comparison)
    assert list(comparison.audits) == ["longer", "Halves", "shorter", "lambda"]
    assert set(comparison.paired) == {"Halves", "lambda"}  # a row has no margins
    for name in ("longer", "Halves"):
        (found,) = comparison.numbers.where("skew", audit=name)
        assert found.found == made[name].skew["length"].before
    typed = cda.compare(AuditRow.model_validate(row), run, progress=False)
    assert set(typed.audits) == {"shorter", "longer"} and not typed.paired  # type: ignore[union-attr]


def test_a_comparison_gives_all_of_its_audits(made: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(made["folder"])
    first = cda.compare(made["longer"], made["Halves"], progress=False)
    again = cda.compare(first, made["row"], made["lambda"], progress=False)  # type: ignore[arg-type]
    assert list(again.audits) == ["longer", "Halves", "shorter", "lambda"]  # type: ignore[union-attr]
    assert set(again.paired) == {"Halves", "lambda"}  # type: ignore[union-attr]


def test_an_audit_that_was_read_from_a_file_is_compared_too(
    made: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    made["longer"].save("audit.json")
    read = cda.load("audit.json")
    assert isinstance(read, cda.Audit) and read.folder is None
    assert set(cda.compare(read, made["Halves"], progress=False).audits) == {"longer", "Halves"}  # type: ignore[union-attr]
    with pytest.raises(cda.DataError, match="a dict with prompt, vote: no row"):
        cda.compare(made["longer"], {"prompt": "Why?", "vote": "base"}, progress=False)


def test_a_function_goes_by_its_own_name_everywhere(made: dict[str, Any], tmp_path: Path) -> None:
    named = {"longer": "longer", "shorter": "shorter", "Halves": "Halves", "lambda": "lambda"}
    assert {name: made[name].model.name for name in named} == named
    assert repr(made["longer"]) == "<Audit of longer: length>"
    folder = made["folder"]
    seen = [
        path for path in folder.rglob("*")
        if path.is_file() and path.suffix in (".html", ".md", ".csv", ".json", ".txt") and path.name != "manifest.json"
        and path.name != "stage.json"
    ]  # fmt: skip
    assert len(seen) > 8
    assert [path.relative_to(folder).as_posix() for path in seen if "memory:" in path.read_text(encoding="utf-8")] == []
    assert "memory" not in made["longer"].summary.replace(str(folder), "") and "longer" in str(made["longer"])
    part = functools.partial(functools.partial(longer, sign=2), sign=-1)
    twice = cda.audit(part, contrasts=CONTRASTS, out=tmp_path / "part", **COMMON)
    assert twice.model.name == "longer" and twice.skew["length"].before.value == 0
    reward = cda.reward_function(part)
    assert reward.__name__ == "longer"
    with pytest.raises(cda.ModelError, match=r"^(?!.*memory).*returned"):
        cda.audit(lambda _, __: "no", contrasts=CONTRASTS, out=tmp_path / "broken", **COMMON)
