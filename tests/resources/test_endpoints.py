"""A panel of judges at several endpoints, each a real server with a key of its own that refuses the others'."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from replies import reply
from serving import Reply, Served

import cda
from cda.errors import RecipeError
from cda.recipe.load import load_model_audit

NAMES = ("north", "east", "south")
MODELS = {"north": "org/llama@2", "east": "tiny", "south": "tiny"}
TARGET = "judge:" + ",".join(f"{model}@{name}" for name, model in MODELS.items())
CONTRASTS = [{"bias": "length", "prompt": f"q{n}", "base": "short", "perturbed": "long long"} for n in range(3)]


class Keyed(Served):
    """A server that answers under one key and counts what it answered."""

    def __init__(self, key: str) -> None:
        super().__init__(self._judged)
        self.key, self.models_asked = key, list[str]()

    def _judged(self, body: dict[str, Any]) -> Reply:
        if self.keys[-1] != f"Bearer {self.key}":
            return 401, {"error": {"message": f"not {self.key}"}}
        self.models_asked.append(body["model"])
        return reply("Verdict: 1", body["model"], tokens=(1000, 100))


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Keyed]]:
    found = {name: Keyed(f"sk-{name}-0123456789abcdef") for name in NAMES}
    for name, server in found.items():
        monkeypatch.setenv(f"{name.upper()}_KEY", server.key)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    yield found
    for server in found.values():
        server.stop()


def settings(servers: dict[str, Keyed], **more: Any) -> dict[str, Any]:
    price = {"input": 1.0, "output": 1.0}
    endpoints = {
        name: {
            "base_url": f"{server.url}/v1",
            "api_key_env": f"{name.upper()}_KEY",
            "prices": {MODELS[name]: price},
            "concurrency": 2,
        }
        for name, server in servers.items()
    }
    return {"llm": {"endpoints": endpoints, "budget_usd": 1.0} | more}


def rows(folder: Path) -> str:
    file = folder / "contrasts.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in CONTRASTS))
    return str(file)


def everything_in(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_each_judge_is_asked_at_its_endpoint_with_its_key(servers: dict[str, Keyed], tmp_path: Path) -> None:
    audit = cda.audit(
        TARGET, biases=["length"], pairs=rows(tmp_path), quality=None, triples=None, out=tmp_path / "run", settings=settings(servers)
    )
    assert {name: server.models_asked for name, server in servers.items()} == {
        name: [model] * 6 for name, model in MODELS.items()
    }
    facts = audit.scorers["model"] if hasattr(audit, "scorers") else audit
    text = (tmp_path / "run" / "report" / "report.md").read_text()
    for name, server in servers.items():
        assert f"asked at {name} ({server.url}/v1)" in " ".join(text.split())
        assert server.key.encode() not in everything_in(tmp_path)
    assert facts is not None
