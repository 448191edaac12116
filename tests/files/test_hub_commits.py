"""Commits of hub ids: asked for once in a run, over real HTTP, and found without a connection."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cda.files.hub import ask_again, commit_of, commits, untold
from evals.reliability.moving_hub import moving_hub

A, B = "a" * 40, "b" * 40


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder of the names of `org/model` in this machine's copy of the hub."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    ask_again()
    folder = tmp_path / "models--org--model" / "refs"
    folder.mkdir(parents=True)
    return folder


def test_a_commit_is_that_of_the_copy_on_this_machine_for_the_whole_run(notes: Path) -> None:
    assert commit_of("model", "org/model") is None  # asked for again, since it may be there later
    (notes / "main").write_text(A)
    assert commit_of("model", "org/model") == A
    (notes / "main").write_text(B)
    assert commit_of("model", "org/model") == A == commit_of("model", "org/model", "main")
    assert commits("model: org/model") == {"org/model@main": A} and commits("another/model") == {}
    assert (
        untold() == [f"org/model is commit {A} (main, as of the copy on this machine; the hub was not reached)"]
        and untold() == []
    )
    ask_again()
    assert commit_of("model", "org/model") == B
    assert commit_of("model", "org/model", A) == A  # a commit is itself
    assert commit_of("dataset", "org/model") is None


@pytest.mark.parametrize("name", ["/models/reward", "judge:gpt", "a/b/c", "a,b", "", "org/model "])
@pytest.mark.usefixtures("notes")
def test_what_is_no_hub_id_has_no_commit(name: str) -> None:
    assert commit_of("model", name) is None


@pytest.mark.parametrize("content", ["", "main", "a" * 39, "\udc80"])
def test_a_damaged_note_is_no_commit(notes: Path, content: str) -> None:
    (notes / "main").write_bytes(content.encode("utf-8", "surrogatepass"))
    assert commit_of("model", "org/model") is None


def test_the_hub_is_asked_once_in_a_run_and_its_answer_is_there_without_a_connection(tmp_path: Path) -> None:
    code = """
from cda.files.hub import ask_again, commit_of
import sys
kind = sys.argv[1]
print(commit_of(kind, "org/name"), commit_of(kind, "org/name"), commit_of(kind, "org/none"))
"""
    with moving_hub() as hub:
        environment = os.environ | hub.environment(tmp_path)

        def said(kind: str, **more: str) -> list[str]:
            done = subprocess.run(
                [sys.executable, "-c", code, kind], env=environment | more, capture_output=True, text=True, check=True
            )
            return done.stdout.split()

        for kind in ("model", "dataset"):
            commit = hub.push(f"{kind}s", "org/name", {"file": b"1"})
            hub.asked.clear()
            assert said(kind) == [commit, commit, "None"]
            assert sum("org/name" in path for path in hub.asked) == 1
            assert said(kind, HF_HUB_OFFLINE="1") == [commit, commit, "None"]
            moved = hub.push(f"{kind}s", "org/name", {"file": b"2"})
            assert said(kind, HF_HUB_OFFLINE="1") == [commit, commit, "None"]
            assert said(kind) == [moved, moved, "None"] and moved != commit
