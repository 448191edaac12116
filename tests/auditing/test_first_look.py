"""The look at the model before its training: it says which targets there is nothing to remove of, and stops nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from cda.auditing.audit import first_look
from cda.files.jsonl import write_jsonl
from cda.recipe.load import load_recipe
from cda.run import RunFolder

LONGER, SHORTER = "So it is, and a good deal more can be said of it.", "So it is."


@pytest.mark.parametrize(("share", "votes", "says"), [(1.0, False, False), (0.5, False, True), (0.5, True, False)])
def test_a_bias_that_the_model_does_not_prefer_is_said_before_the_training(
    bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: float, votes: bool, says: bool
) -> None:
    """The sides of contrasts are put so that the model prefers the one with the bias in a known share of them."""
    monkeypatch.chdir(tmp_path)
    said: list[str] = []
    monkeypatch.setattr("cda.auditing.audit.say", said.append)

    def look(rows: list[dict[str, object]], name: str) -> list[str]:
        write_jsonl(tmp_path / name, rows)
        words = [
            f"model.name_or_path={bert}",
            "model.precision=fp32",
            f"audit.contrasts={name}",
            f"run.folder=runs/{name}",
        ]
        said.clear()
        first_look(load_recipe("jargon", words), RunFolder(tmp_path / "runs" / name))
        return [line for line in said if "not shown to reward" in line]

    def rows(of: list[tuple[str, str]]) -> list[dict[str, object]]:
        own = {"votes": ["base"]} if votes else {}
        return [
            {"id": f"c{n}", "bias": "jargon", "prompt": f"Why {n}?", "perturbed": a, "base": b, **own}
            for n, (a, b) in enumerate(of)
        ]

    preferred = (LONGER, SHORTER)
    monkeypatch.setattr("cda.auditing.audit.positive_shares", _shares := _Recorded())
    look([row for row in rows([preferred] * 40) if row.pop("votes", True)], "probe.jsonl")
    higher = preferred if _shares.last > 0.5 else preferred[::-1]
    assert _shares.last in (0.0, 1.0)
    sides = [higher if n < share * 40 else higher[::-1] for n in range(40)]
    found = look(rows(sides), "own.jsonl")
    assert bool(found) == says
    if says:
        assert "reward jargon (50% [" in found[0] and "n 40): nothing to remove; the training goes on" in found[0]


class _Recorded:
    """The function, with the last share that it found."""

    last = -1.0

    def __call__(self, *given: object) -> object:
        from cda.stats.proportions import positive_shares

        found = positive_shares(*given)  # type: ignore[arg-type]  # as it was called
        self.last = found.before.value
        return found
