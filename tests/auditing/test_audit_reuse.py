"""A finished audit is reused only while everything that decides it is as it was, and --fresh measures again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cda.run import RunFolder

SCORER = """
import os
from pathlib import Path

def score(prompts, responses):
    factor = float((Path(__file__).parent / "weights.txt").read_text()) * float(os.environ.get("MY_FACTOR", 1))
    return [factor * len(response) for response in responses]
"""
REUSED = "audit: done before, reused"


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.delenv("MY_FACTOR", raising=False)
    (tmp_path / "mine.py").write_text(SCORER)
    (tmp_path / "weights.txt").write_text("1")
    return f"{tmp_path / 'mine.py'}:score"


def skew(found: dict[str, Any]) -> float:
    return float(found["skew"]["jargon"]["before"]["value"])


def test_an_audit_by_a_function_is_made_again_once_something_that_it_read_has_changed(
    own: str, audit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = audit(own)[1]
    said, again = audit(own)
    assert REUSED in said and f"{own}: its code and what it was seen to read are as they were; --fresh" in said
    assert skew(again) == skew(first) != 0.5
    (tmp_path / "weights.txt").write_text("-1")
    said, other = audit(own)
    assert f"audit: made again, because {tmp_path / 'weights.txt'} has changed" in " ".join(said.split())
    assert skew(other) == pytest.approx(1 - skew(first))
    monkeypatch.setenv("MY_FACTOR", "-1")
    said, back = audit(own)
    assert "audit: made again, because environment variable MY_FACTOR has changed" in said
    assert skew(back) == skew(first) and REUSED in audit(own)[0]
    record = json.loads((tmp_path / "out" / "manifest.json").read_text())["stages"]["audit"]
    assert {*record["reads"]} >= {str(tmp_path / "weights.txt"), "environment variable MY_FACTOR"}
    assert RunFolder(tmp_path / "out").record("audit").reads == record["reads"]


def test_fresh_measures_again_and_another_version_is_another_scorer(own: str, audit: Any, tmp_path: Path) -> None:
    audit(own)
    assert "audit: made again, because of --fresh" in audit(own, "--fresh")[0]
    assert (tmp_path / "out" / "superseded" / "audit-1").is_dir()
    said, _ = audit(own, "score.scorer_version=2")
    assert "audit: made again, because score.scorer_version: not set → 2" in said
    assert REUSED in audit(own, "score.scorer_version=2")[0]
    assert "made again" in audit(own, "score.scorer_version=3")[0]


def test_a_version_is_refused_where_nothing_is_unseen(llama: Path, audit: Any) -> None:
    said, _ = audit(llama, "score.scorer_version=2", fails=True)
    assert "score.scorer_version=2: of a server or a function of your own alone; leave it out" in said
    assert audit(llama)[1]  # the remedy


def test_a_hub_model_whose_main_moved_is_another_model(
    llama_maker: Callable[..., Path], llama: Path, audit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = tmp_path / "hub"
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(hub))
    repository = hub / "models--org--model"
    (repository / "refs").mkdir(parents=True)

    def move(folder: Path, commit: str) -> None:
        shutil.copytree(folder, repository / "snapshots" / commit)
        (repository / "refs" / "main").write_text(commit)

    words = ("org/model", "model.precision=fp32")
    move(llama, "a" * 40)
    said, first = audit(*words)
    assert f"org/model is commit {'a' * 40} (main" in said and first["versions"]["org/model@main"] == "a" * 40
    assert REUSED in audit(*words)[0]
    move(llama_maker("reuse-moved", config={"num_hidden_layers": 1}), "b" * 40)
    said, second = audit(*words)
    assert "audit: made again, because model has changed" in said and f"org/model is commit {'b' * 40}" in said
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["hub"] == {"org/model@main": "b" * 40}
    fresh = audit(*words, "--out", tmp_path / "fresh", "score.cache=none")[0]
    assert "done before" not in fresh
    margins = [(tmp_path / name / "audit" / "margins.jsonl").read_bytes() for name in ("out", "fresh")]
    assert margins[0] == margins[1] and skew(second) is not None
