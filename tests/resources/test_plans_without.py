"""Plans need no key, and ask no server; the work itself needs both."""

from __future__ import annotations

from pathlib import Path

import pytest
from serving import Served, status
from typer.testing import CliRunner, Result

import cda
from cda.cli import app
from cda.files.jsonl import write_jsonl

N = 12


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    sides = [{"prompt": f"w{row}?", "perturbed": f"good w{row}", "base": f"w{row} bad"} for row in range(N)]
    write_jsonl(Path("contrasts.jsonl"), sides)
    write_jsonl(
        Path("pairs.jsonl"),
        ({"prompt": row["prompt"], "chosen": row["perturbed"], "rejected": row["base"]} for row in sides),
    )
    write_jsonl(
        Path("texts.jsonl"), ({"prompt": row["prompt"], "responses": [row["perturbed"], row["base"]]} for row in sides)
    )


def run(words: str, *more: str) -> Result:
    return CliRunner().invoke(app, [*words.split(), *more])


AUDIT = "--bias jargon --contrasts contrasts.jsonl --quality none --triples none"


@pytest.mark.parametrize(
    "words",
    [
        "label jargon llm.model=gpt-4o",
        "train jargon llm.model=gpt-4o",
        f"audit judge:gpt-4o {AUDIT}",
        f"audit grade:gpt-4o {AUDIT}",
        f"compare judge:gpt-4o judge:gpt-4o-mini {AUDIT}",
        "data pairs.jsonl --bias jargon llm.model=gpt-4o",
        "quality judge:gpt-4o pairs.jsonl",
        "inspect jargon llm.model=gpt-4o",
    ],
)
def test_a_plan_needs_no_key_and_says_that_the_work_does(words: str) -> None:
    done = run(words, "--dry-run")
    assert done.exit_code == 0, done.output
    assert "note        llm.model is gpt-4o, but the environment variable OPENAI_API_KEY holds no key" in done.output
    assert "at the list price of 2026-11-28" in done.output
    refused = run(words, "--yes") if words.startswith(("label", "audit judge:gpt-4o --bias", "data")) else done
    assert refused is done or (refused.exit_code == 2 and "OPENAI_API_KEY holds no key" in refused.output)


def test_a_plan_from_python_needs_no_key(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(cda.SpendingError, match="gpt-4o"):
        cda.audit_data("pairs.jsonl", biases="jargon", llm={"model": "gpt-4o"})
    with pytest.raises(cda.RunError, match="OPENAI_API_KEY holds no key"):
        cda.audit_data("pairs.jsonl", biases="jargon", llm={"model": "gpt-4o"}, confirm=True)
    capsys.readouterr()
    cda.train("jargon", llm={"model": "gpt-4o"}, dry_run=True)
    assert "note        llm.model is gpt-4o" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [
        f"audit URL {AUDIT}",
        f"compare URL embedded {AUDIT}",
        "quality URL pairs.jsonl",
        "best-of URL texts.jsonl --out b",
        "discover URL llm.model=m llm.base_url=URL discover.rewriters=[m,n]",
    ],
)
def test_the_plan_of_a_served_model_connects_nowhere(words: str) -> None:
    server = Served()
    connected: list[object] = []
    server.routes = lambda *asked: (connected.append(asked), status(401))[1]
    try:
        done = run(words.replace("URL", server.url), "--dry-run")
        assert done.exit_code == 0, done.output
        assert f"{server.url}: the server is asked what it is when the run begins" in done.output
        assert connected == []
        assert run(words.replace("URL", server.url)).exit_code == 2 and connected
    finally:
        server.stop()
    wrong = run(words.replace("URL", "http://user:pass@127.0.0.1:9"), "--dry-run")
    assert wrong.exit_code == 2 and "the address" in wrong.output, (
        "what can be known without the server is still refused"
    )
