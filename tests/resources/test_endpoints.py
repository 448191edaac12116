"""A panel of judges at several endpoints, each a real server with a key of its own that refuses the others'."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from replies import reply
from serving import Reply, Served, user_text
from typer.testing import CliRunner

import cda
from cda.cli import app
from cda.errors import RecipeError
from cda.recipe.load import load_model_audit
from cda.recipe.schema import LlmSection
from cda.results.facts import PanelFacts

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


def endpoints(servers: dict[str, Keyed]) -> dict[str, Any]:
    price = {"input": 1.0, "output": 1.0}
    return {
        name: {
            "base_url": f"{server.url}/v1",
            "api_key_env": f"{name.upper()}_KEY",
            "prices": {MODELS[name]: price},
            "concurrency": 2,
        }
        for name, server in servers.items()
    }


def words(servers: dict[str, Keyed], folder: Path, *more: str) -> list[str]:
    """The command line of an audit of three contrasts."""
    file = folder / "contrasts.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in CONTRASTS))
    files = ["--bias", "length", "--contrasts", str(file), "--quality", "none", "--triples", "none"]
    return ["audit", *more, *files, f"llm.endpoints={json.dumps(endpoints(servers))}", "llm.budget_usd=1"]


def said_by(command: list[str], succeeds: bool = True) -> str:
    """All that a command says, in one line."""
    done = CliRunner().invoke(app, command)
    assert (done.exit_code == 0) == succeeds and "Traceback" not in done.output, done.output
    return " ".join(done.output.split())


def everything_in(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_each_judge_is_asked_at_its_endpoint_with_its_key(servers: dict[str, Keyed], tmp_path: Path) -> None:
    audit = cda.audit(
        TARGET, biases="length", contrasts=CONTRASTS, quality="none", triples="none", out=tmp_path / "run",
        llm={"endpoints": endpoints(servers), "budget_usd": 1.0},
    )  # fmt: skip
    assert {name: server.models_asked for name, server in servers.items()} == {
        name: [model] * 6 for name, model in MODELS.items()
    }
    facts = audit.model
    assert isinstance(facts, PanelFacts)
    assert [judge.asked_at for judge in facts.judges.values()] == [f"{n} ({servers[n].url}/v1)" for n in NAMES]
    assert "tiny@south" in (tmp_path / "run" / "report" / "report.md").read_text()
    assert not any(server.key.encode() in everything_in(tmp_path) for server in servers.values())


def test_a_dry_run_names_all_and_the_command_pays_from_one_budget(servers: dict[str, Keyed], tmp_path: Path) -> None:
    command = words(servers, tmp_path, TARGET)
    planned = said_by([*command, "--dry-run"])
    for name, model in MODELS.items():
        assert f"{model}@{name}, asked at {name} ({servers[name].url}/v1)" in planned
        assert f"calls of {model}@{name}" in planned and f"no price of {model}@{name}" not in planned
    assert not any(server.models_asked for server in servers.values())
    # Every judge's 6 calls cost $0.0066, and could cost more than twice as much: the second judge finds too little left.
    small = [*command[:-1], "llm.budget_usd=0.0105", "--yes", "--out", str(tmp_path / "small")]
    assert "the budget of $0.0105 (llm.budget_usd) is used up" in said_by(small, succeeds=False)
    assert len(servers["north"].models_asked) == 6 and not servers["south"].models_asked
    # Its answers are kept: each question is asked once.
    assert "Report:" in said_by([*command, "--yes", "--out", str(tmp_path / "run")])
    assert [len(server.models_asked) for server in servers.values()] == [6, 6, 6]


def test_an_llm_that_grades_is_asked_at_its_endpoint_at_its_price(servers: dict[str, Keyed], tmp_path: Path) -> None:
    command = words(servers, tmp_path, "grade:tiny@east", "--out", str(tmp_path / "run"))
    planned = said_by([*command, "--dry-run"])
    assert f"tiny@east, asked at east ({servers['east'].url}/v1)" in planned and "no price" not in planned
    servers["east"].answer = lambda body: reply(f"Grade: {7 + ('long' in user_text(body))}/10", body["model"])
    said_by([*command, "--yes"])
    assert "Graded by tiny@east from 1 to 10" in (tmp_path / "run/report/report.md").read_text(encoding="utf-8")
    assert len(servers["east"].bodies) == 6


def test_several_judges_of_one_command_are_asked_at_their_own(servers: dict[str, Keyed], tmp_path: Path) -> None:
    command = words(servers, tmp_path, "judge:tiny@east", "judge:tiny@south", "--yes", "--out", str(tmp_path / "both"))
    assert "failed" not in said_by(["compare", *command[1:]])
    assert [len(server.models_asked) for server in servers.values()] == [0, 6, 6]
    names = [json.loads(path.read_text())["model"] for path in tmp_path.glob("both/*/audit/audit.json")]
    assert sorted(each["asked_at"].split()[0] for each in names) == ["east", "south"]


def test_what_is_missing_is_said_together_before_anything_is_asked(
    servers: dict[str, Keyed], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = words(servers, tmp_path, TARGET, "--yes")
    monkeypatch.delenv("NORTH_KEY")
    monkeypatch.setenv("SOUTH_KEY", " ")
    said = said_by([*command, f"audit.votes={tmp_path / 'no-such-file.jsonl'}"], succeeds=False)
    assert "no-such-file.jsonl" in said
    for name in ("north", "south"):
        assert f"{name.upper()}_KEY holds no key (llm.endpoints.{name}.api_key_env)" in said
    assert "EAST_KEY" not in said and not any(server.keys for server in servers.values())


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("down", r"cannot be reached .*check llm\.endpoints\.east\.base_url"),
        ("other key", r"the key in NORTH_KEY is refused \(401\): not \*\*\*"),
        ("no key", r"a key is asked for, and llm\.endpoints\.east\.api_key_env names none \(401\)"),
    ],
)
def test_an_endpoint_that_does_not_answer_is_named(
    servers: dict[str, Keyed], tmp_path: Path, change: str, expected: str
) -> None:
    command = words(servers, tmp_path, TARGET, "--yes")
    address = servers["east"].url
    if change == "down":
        servers["east"].stop()
    else:
        command.append(f"llm.endpoints.east.api_key_env={'NORTH_KEY' if change == 'other key' else ''}")
    said = said_by(command, succeeds=False)
    assert re.search(f"error: {address}/v1: {expected}", said), said
    assert not servers["south"].models_asked


@pytest.mark.parametrize(
    ("model", "endpoint", "there"),
    [
        ("llama@groq", "groq", "llama"),
        ("meta/llama-3@groq", "groq", "meta/llama-3"),
        ("text@latest@groq", "groq", "text@latest"),
        ("groq/llama", None, "groq/llama"),
        ("claude@20240620", None, "claude@20240620"),
        ("@cf/meta/llama", None, "@cf/meta/llama"),
        ("@groq", "groq", ""),
    ],
)
def test_only_what_follows_the_last_at_and_is_declared_is_an_endpoint(
    model: str, endpoint: str | None, there: str
) -> None:
    llm = LlmSection(model=model, endpoints={"groq": {"base_url": "http://x/v1"}})  # type: ignore[dict-item]
    assert (llm.endpoint, llm.asked.model) == (endpoint, there)
    assert llm.asked.base_url == ("http://x/v1" if endpoint else None)
    # The key of OpenAI goes to no other server unasked.
    assert llm.asked.api_key_env == ("" if endpoint else "OPENAI_API_KEY")


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (["llm.endpoints.groq.base_url=http://x"], "tiny@groqq: llm.endpoints has no 'groqq'. Did you mean 'groq'?"),
        (["llm.endpoints.groqq.api_key_env=sk-0123456789abcdef012"], "llm.endpoints.groqq.api_key_env: holds what looks like"),
        (["llm.endpoints.groqq.base_url=http://x/?key=0123456789a"], "llm.endpoints.groqq.base_url: holds a query"),
        (["llm.endpoints.groqq.api_key_env=K"], "llm.endpoints.groqq.base_url: missing"),
        (["llm.endpoints.groqq={base_url: x, api_key: sk-0123456789abcdef012}"], "llm.endpoints.groqq.api_key: unknown key"),
        (["llm.endpoints.a/b.base_url=http://x"], "a/b"),
        (["llm.endpoints.groqq.base_url=http://x", "llm.budget_usd=1"], "llm.endpoints.groqq.prices='{tiny: "),
    ],
)  # fmt: skip
def test_mistakes_are_said_without_any_key(more: list[str], expected: str) -> None:
    with pytest.raises(RecipeError) as caught:
        load_model_audit("judge:tiny@groqq", {}, more)
    assert expected in str(caught.value) and "0123456789a" not in str(caught.value)


@pytest.mark.parametrize(
    ("target", "more", "expected"),
    [
        ("grade:tiny@groqq", [], "tiny@groqq: llm.endpoints has no 'groqq'. Did you mean 'groq'?"),
        ("grade:tiny@groq", ["llm.budget_usd=1"], "llm.endpoints.groq.prices='{tiny: "),
        ("judge:@groq", [], "@groq: names the endpoint 'groq' and no model"),
        ("grade:@groq", [], "@groq: names the endpoint 'groq' and no model"),
    ],
)
def test_llms_that_grade_are_checked_as_judges_are(target: str, more: list[str], expected: str) -> None:
    with pytest.raises(RecipeError, match=re.escape(expected)):
        load_model_audit(target, {}, ["llm.endpoints.groq.base_url=http://x", *more])
