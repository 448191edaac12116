"""Servers on this machine that misbehave, and clients that ask no server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fault_server import FaultServer
from speaking import Speak, speaking


@pytest.fixture
def speak() -> Iterator[Callable[[Speak], str]]:
    """Starts a server that says what a function says; gives its address."""
    with speaking() as start:
        yield start


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
