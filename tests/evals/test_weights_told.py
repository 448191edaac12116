"""The numbers that the how-to tells of weighted trainings are those of the eval's result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cda.files.jsonl import read_json

ROOT = Path(__file__).parent.parent.parent


def test_the_how_to_tells_what_the_eval_found() -> None:
    numbers: dict[str, Any] = read_json(ROOT / "evals" / "results" / "weights.json")["numbers"]
    text = " ".join((ROOT / "docs" / "how-to" / "your-data.md").read_text(encoding="utf-8").split())
    found, data = numbers["found"], numbers["data"]

    def share(name: str, arm: str) -> str:
        return f"{found[name][arm]['value']:.0%}"

    def interval(name: str, arm: str) -> str:
        one = found[name][arm]
        return f"{one['value']:.0%} [{100 * one['low']:.0f}, {100 * one['high']:.0f}]"

    change = found["test"]["change"]
    r = {bias: {kind: f"{one['value']:.2f}" for kind, one in kinds.items()} for bias, kinds in data["r"].items()}
    told = [
        f"{interval('contrasts', 'unweighted')} of them without weights and in {interval('contrasts', 'weighted')} with them",
        f"contrasts in length in {interval('contrasts', 'unweighted')}",
        f"falls from {share('test', 'unweighted')} to {share('test', 'weighted')}",
        f"of −{-100 * change['value']:.0f} points [−{-100 * change['low']:.0f}, −{-100 * change['high']:.0f}]",
        f"from {share('test, longer chosen', 'unweighted')} to {share('test, longer chosen', 'weighted')} where",
        f"from {share('test, shorter chosen', 'unweighted')} to {share('test, shorter chosen', 'weighted')} where",
        f"r of length falls from {r['length']['all']} to {r['length']['filtered']}",
        f"r of structure rises from {r['structure']['all']} to {r['structure']['filtered']}",
        f"{data['kept']:,} of {data['weights']['n']:,} pairs are left",
        f"Effective n {data['weights']['effective_n']:,.0f} of {data['weights']['n']:,}.",
        *(f"{bias} {r[bias]['all']} [" for bias in r),
    ]
    assert [each for each in told if each not in text] == []
