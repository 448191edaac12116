"""Servers on this machine that misbehave, and clients that ask no server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fault_server import FaultServer
from serving import Answer, serving


@pytest.fixture
def speak() -> Iterator[Callable[[Answer], str]]:
    """Starts a server that says what a function says, to a GET what it says to nothing; gives its address."""
    with serving() as start:
        yield lambda answer: start(answer, lambda: answer({}))


@pytest.fixture
def start() -> Iterator[Callable[..., FaultServer]]:
    """Starts a fault server; it is stopped at the end of the test."""
    servers: list[FaultServer] = []

    def make(**options: Any) -> FaultServer:
        servers.append(FaultServer(**options).start())
        return servers[-1]

    yield make
    for server in servers:
        server.stop()
