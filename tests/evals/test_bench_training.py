"""The training benchmark's arithmetic on made-up runs, one real run of a few texts, and its large models made small."""

from __future__ import annotations

from typing import Any

import pytest


def runs(seconds: float, padding: float) -> list[dict[str, Any]]:
    """Three runs of 1,000 real tokens."""
    memory = {"peak_megabytes": 900.0, "added_megabytes": 300.0}
    tokens = {"real_tokens": 1000, "computed_tokens": 1000 / (1 - padding)}
    return [{"seconds": seconds, **tokens, **memory, "losses": [0.693]} for _ in range(3)]


def judged(ours_s: float) -> tuple[dict[str, bool], dict[str, Any]]:
    """Whether each check passed, and the table, where peers take 100 s with half of it padding."""
    from evals.speed.bench_training import GROUPED, OURS, PEERS, checks, summary

    found = {peer: runs(100.0, 0.5) for peer in PEERS}
    table = summary(found | {OURS: runs(ours_s, 0.02), GROUPED: runs(70.0, 0.1)})
    return {check.threshold: check.passed for check in checks("texts", table)}, table


def test_the_share_of_the_speed_up_decides() -> None:
    from evals.speed.bench_training import OURS, PEERS

    passed, table = judged(60.0)
    assert table[OURS]["achieved_over"] == {peer: pytest.approx(0.8) for peer in PEERS}
    assert table[OURS]["tokens_per_s"] == pytest.approx(1000 / 60)
    assert len(passed) == 3 and all(passed.values())
    passed, table = judged(62.0)
    assert table[OURS]["achieved_over"]["TRL"] == pytest.approx(0.76)
    assert not any(passed.values())


FALLING = [0.693, 0.69, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1]


def failed_losses(changed: dict[str, list[float]]) -> list[str]:
    """Thresholds that fail where every loss falls alike and the two that must differ do, but for what is changed."""
    from evals.speed.bench_training import HALF_RATE, OTHER_SEED, OURS, PEERS, loss_checks

    losses = dict.fromkeys((OURS, *PEERS), FALLING) | {HALF_RATE: FALLING[:4] + [0.45] * 4, OTHER_SEED: FALLING[::-1]}
    return [check.threshold for check in loss_checks("texts", {name: [one] for name, one in (losses | changed).items()})
            if not check.passed]  # fmt: skip


def test_losses_that_stay_where_they_start_are_no_evidence() -> None:
    from evals.speed.bench_training import OURS, PEERS

    assert failed_losses({}) == []
    flat = [0.693] * 8
    failed = failed_losses(dict.fromkeys((OURS, *PEERS), flat))
    assert failed == ["texts: losses end at 0.55 or less (they start at 0.693)"]
