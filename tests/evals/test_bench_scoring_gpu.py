"""The GPU benchmark of scoring, with a model small enough for a CPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from cda.models.load import Precision
from cda.records import user_prompt

TEXTS = [(user_prompt(f"question {number}"), "word " * (1 + 3 * number)) for number in range(6)]


@pytest.mark.parametrize("precision", ["bf16", "8bit"])
def test_all_variants_score_the_same_model(precision: Precision, tmp_path: Path) -> None:
    import torch

    from evals.speed import bench_scoring_gpu as gpu

    torch.manual_seed(0)  # with other weights the spread may be too small for bf16
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "vocab_size": 31000}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1}
    folder = gpu.saved(("Llama", sizes | heads), tmp_path, "cpu")
    found = gpu.measured(folder, precision, TEXTS, TEXTS, "cpu", 1)
    assert set(found["speed_up"]) == {*gpu.TARGETS, "ours"} and found["speed_up"]["ours"] == 1
    assert found["tokens"] > len(TEXTS)
    # Each reads the same weights and tokens: what is left is rounding in bf16.
    assert found["spread_of_scores"] > 10 * max(found["difference"].values())
    assert (
        found["profile"]["by the clock"] > 0 and found["profile"]["matrix products"] == 0
    )  # no GPU, no kernels of one
    asked = gpu.checks({precision: found})
    assert len(asked) == len(gpu.TARGETS) + (precision == "bf16")


def test_kernels_are_told_apart_by_their_names() -> None:
    from evals.speed.bench_scoring_gpu import kind_of

    assert (
        kind_of("nvjet_sm90_tst_320x128_64x3_1x2_h_bz_coopB_TNT")
        == kind_of("ampere_bf16_s1688gemm")
        == "matrix products"
    )
    assert kind_of("cudnn_generated_fort_native_sdpa_sm90_flash_fprop") == kind_of("fmha_cutlassF_bf16") == "attention"
    assert kind_of("void at::native::vectorized_elementwise_kernel<4, at::native::silu>") == "all else"


def test_without_a_gpu_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    from evals.speed.bench_scoring_gpu import on_a_gpu

    assert on_a_gpu() == 0
    assert capsys.readouterr().out == "skipped: no CUDA GPU\n"
