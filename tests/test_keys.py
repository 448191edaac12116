"""Keys in an address or in place of a variable's name are refused before a file or the terminal has them."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from cda.cli import app
from cda.errors import LLMError, ModelError
from cda.keys import address_problem, looks_like_key, variable_problem
from cda.llm.openai_client import OpenAIClient
from cda.scorers.dialects import ServedOptions
from cda.scorers.served_client import ServedClient

KEY = "sk-proj-canary5f1d0c9e8b7a6f5e"
HEX_KEY = "c0ffee5f1d0c9e8b7a6f5e4d3c2b1a99"


def said(folder: Path, *words: str) -> str:
    """All that a command says and leaves; it has to be refused."""
    done = CliRunner().invoke(app, [*words, f"run.folder={folder / 'run'}"])
    assert done.exit_code == 2 and "Traceback" not in done.output
    left = [file.read_bytes() for file in folder.rglob("*") if file.is_file()]
    return done.output + b"".join(left).decode("utf-8", "replace") + " ".join(map(str, folder.rglob("*")))


@pytest.mark.parametrize(
    ("word", "setting"),
    [
        (f"llm.base_url=http://127.0.0.1:9/v1?api_key={KEY}", "llm.base_url: holds a query"),
        (f"llm.base_url=http://127.0.0.1:9/v1#{KEY}", "llm.base_url: holds a query"),
        (f"llm.base_url=http://me:{KEY}@127.0.0.1:9/v1", "llm.base_url: holds a user name or password"),
        (f"llm.base_url=http://127.0.0.1:9/{KEY}/v1", "llm.base_url: holds a part that looks like a key"),
        (f"llm.api_key_env={KEY}", "llm.api_key_env: holds what looks like a key"),
        (f"llm.api_key_env={HEX_KEY}", "llm.api_key_env: holds what looks like a key"),
        (f"score.served.api_key_env={HEX_KEY}", "score.served.api_key_env: holds what looks like a key"),
        (f"model.name_or_path=http://127.0.0.1:9/classify?key={KEY}", "model.name_or_path: the address holds a query"),
    ],
)
def test_a_key_in_a_recipe_is_refused_and_nowhere_repeated(tmp_path: Path, word: str, setting: str) -> None:
    for dry in (["--dry-run"], []):
        output = said(tmp_path, "train", "jargon", "llm.model=m", word, *dry)
        assert setting in output
        assert not any(part in output for part in (KEY, HEX_KEY, KEY[8:], HEX_KEY[:16]))


@pytest.mark.parametrize("target", [f"http://127.0.0.1:9/classify?key={KEY}", f"served:http://me:{KEY}@127.0.0.1:9"])
def test_a_key_in_a_models_address_is_refused_and_nowhere_repeated(tmp_path: Path, target: str) -> None:
    pairs = tmp_path / "pairs.jsonl"
    pairs.write_text('{"prompt": "q", "chosen": "a", "rejected": "b"}\n', encoding="utf-8")
    for words in (
        ["audit", target],
        ["quality", target, str(pairs)],
        ["quality", "embedded", str(pairs), "--against", target],
    ):
        output = said(tmp_path, *words)
        assert "the address holds" in output and "canary" not in output


def test_the_python_interface_refuses_them_too(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LLMError, match="looks like a key") as caught:
        OpenAIClient("m", "http://127.0.0.1:9/v1", api_key_env=HEX_KEY)
    assert HEX_KEY not in str(caught.value)
    with pytest.raises(ModelError, match="looks like a key"):
        ServedClient("http://127.0.0.1:9", ServedOptions(api_key_env=KEY))
    monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:9/v1?key={KEY}")
    monkeypatch.setenv("MY_KEY", "x")
    (problem,) = OpenAIClient("m", api_key_env="MY_KEY").wrong_address()
    assert "OPENAI_BASE_URL: holds a query" in problem and KEY not in problem
    (problem,) = ServedClient(f"http://127.0.0.1:9/classify?key={KEY}").check()
    assert "holds a query" in problem and KEY not in problem


def test_names_of_variables_are_told_from_keys_and_from_other_words() -> None:
    for name in ("OPENAI_API_KEY", "key", "_k1", "openai_key_project_2024", "hf_inference_api_token"):
        assert variable_problem(name) is None
    for word in ("hf_abcDEFghiJKLmnoPQRstu", "gsk_0123456789abcdefgh", "AIzaSyA0123456789abcdef", KEY):
        assert looks_like_key(word) and "looks like a key" in str(variable_problem(word))
    for word in ("my key", "a-b", "", "1KEY", "$OPENAI_API_KEY"):
        assert "no name of an environment variable" in str(variable_problem(word))


def test_plain_addresses_are_fine() -> None:
    gateway = "https://gateway.example.com/v1/0123456789abcdef0123456789abcdef/team/openai"
    for url in ("http://localhost:8000/v1", gateway, "http://[::1]:9/v1", "http://["):
        assert address_problem(url) is None
