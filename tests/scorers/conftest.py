"""Reward servers on this machine, and modules of users' scorers that no later test sees."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from serving import Served


@pytest.fixture
def served() -> Iterator[Callable[..., Served]]:
    """Starts servers as `Served` does, and ends them after the test."""
    with ExitStack() as stack:

        def start(*given: object, **named: object) -> Served:
            server = Served(*given, **named)  # type: ignore[arg-type]
            stack.callback(server.stop)
            return server

        yield start


@pytest.fixture
def modules_as_before() -> Iterator[None]:
    """Search path and modules are afterwards as they were."""
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if not name.startswith(("cda", "numpy", "torch")):
            del sys.modules[name]
