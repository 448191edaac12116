"""A folder in which the recorded commands run, once for all of them, and the option that records them anew."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent
# The scripted LLM of the discoveries, and the simulated participants of studies.
sys.path += [str(TESTS / "discovery"), str(TESTS / "studies")]

from bench import Bench  # noqa: E402


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-golden", action="store_true", help="Record the outputs of tests/golden anew.")


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory, serve_all: Callable[..., str], one_thread: None) -> Bench:  # noqa: ARG001
    """Where the commands run."""
    return Bench(tmp_path_factory.mktemp("golden"), serve_all)
