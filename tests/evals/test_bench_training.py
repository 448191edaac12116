"""The training benchmark's arithmetic on made-up runs, one real run of a few texts, and its large models made small."""

from __future__ import annotations

import json
from pathlib import Path
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


def test_one_step_that_is_apart_fails() -> None:
    near, apart = [one + 0.009 for one in FALLING], [*FALLING[:3], 0.52, *FALLING[4:]]
    assert failed_losses({"TRL": near}) == []
    assert failed_losses({"TRL": apart}) == ["texts: our loss at no step further than 0.01 from TRL"]
    assert failed_losses({"TRL": FALLING[:-1]}) == ["texts: our loss at no step further than 0.01 from TRL"]


def test_a_comparison_that_cannot_tell_rates_apart_fails() -> None:
    from evals.speed.bench_training import HALF_RATE

    assert failed_losses({HALF_RATE: FALLING}) == [f"texts: our loss further than that from {HALF_RATE}"]


def test_no_padding_leaves_no_speed_up_to_share() -> None:
    from evals.speed.bench_training import achieved_share

    assert achieved_share(100.0, 90.0, 0.0) is None
    assert achieved_share(100.0, 40.0, 0.5) == pytest.approx(1.2)


def test_a_small_run_counts_its_tokens(tmp_path: Path, capsys: pytest.CaptureFixture[str], one_thread: None) -> None:  # noqa: ARG001
    """Through our training: two pairs of known lengths."""
    from evals.speed.bench_training import main

    pairs = [{"prompt": "one", "chosen": "two " * 9, "rejected": "three"} for _ in range(2)]
    file = tmp_path / "pairs.json"
    file.write_text(json.dumps(pairs), encoding="utf-8")
    assert main(["--one", "cda", str(file), "0", json.dumps({"epochs": 1})]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    # [CLS] one [SEP] two × 9 [SEP], and the same with a single word.
    assert found["real_tokens"] == 2 * (13 + 5)
    assert found["real_tokens"] <= found["computed_tokens"] <= 4 * 13
    assert len(found["losses"]) == 1 and found["seconds"] > 0
    assert found["peak_megabytes"] > found["added_megabytes"] >= 0


@pytest.mark.parametrize(("name", "family"), [("Llama-3.1-8B", "Llama"), ("Gemma-2-27B", "Gemma2")])
@pytest.mark.parametrize("precision", ["8bit", "bf16"])
def test_large_models_made_small(name: str, family: str, precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from evals.speed import bench_training_gpu as gpu

    for setting, value in {"MAX_LENGTH_TOKENS": 32, "N_PAIRS": 2, "N_STEPS": 1}.items():
        monkeypatch.setattr(gpu, setting, value)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "vocab_size": 128}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16}
    found = gpu.gpu_run(name, precision, "cpu", (family, sizes | heads))
    # Queries and outputs 32 × 32, keys and values 32 × 16, three MLP matrices; norms and the head make the rest.
    weights = 2 * (2 * 32 * 32 + 2 * 32 * 16 + 3 * 32 * 64)
    assert weights < found["parameters"] < weights + 20 * 32
    assert set(gpu.LAYOUTS) < set(found)
    for layout in gpu.LAYOUTS:
        assert found[layout]["tokens_per_s"] > 0 and found[layout]["share_of_matmul_rate"] > 0
    assert isinstance(found["one more pass, tokens"]["value"], float)
    assert found["as in recipes/models"]["peak_gigabytes"] > 0
    model = gpu.random_model((family, sizes | heads), precision, "cpu")
    kinds = {str(p.dtype) for n, p in model.named_parameters() if "_proj" in n}
    assert kinds == {"torch.int8" if precision == "8bit" else "torch.bfloat16"}
    assert model.score.weight.dtype == torch.bfloat16


def test_without_a_gpu_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    from evals.speed.bench_training import main

    assert main(["--gpu"]) == 0
    assert capsys.readouterr().out == "skipped: no CUDA GPU\n"
