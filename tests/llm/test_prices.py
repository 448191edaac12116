"""List prices by host and model, prices in a file, and which of them counts."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from cda.errors import RecipeError
from cda.llm.money import FILE, Price, listed_on, listed_price
from cda.recipe.load import load_recipe
from cda.resources.llm_access import Planned, price_of, sentence

TABLE = yaml.safe_load(FILE.read_text(encoding="utf-8"))


def test_every_listed_price_is_one_and_the_list_is_dated() -> None:
    found = [listed_price(f"https://{host}/v1", model) for host, models in TABLE["hosts"].items() for model in models]
    assert len(found) > 80 and all(isinstance(price, Price) and price.output >= price.input > 0 for price in found)
    assert listed_on() == "2026-11-28"


@pytest.mark.parametrize(
    ("base_url", "model", "price"),
    [
        (None, "gpt-4o-mini", (0.15, 0.6)),
        ("https://api.openai.com/v1/", "gpt-4.1", (2, 8)),
        ("https://API.OpenAI.com:443/v1", "gpt-4.1", (2, 8)),
        ("https://api.anthropic.com/v1", "claude-haiku-4-5", (1, 5)),
        # The same name elsewhere is another model, or costs nothing.
        ("http://localhost:8000/v1", "gpt-4o", None),
        ("https://api.openai.com.example.org/v1", "gpt-4o", None),
        (None, "gpt-4o-of-my-own", None),
        (None, None, None),
        ("http://[", "gpt-4o", None),
    ],
)
def test_a_price_is_listed_for_a_model_at_its_host(
    base_url: str | None, model: str | None, price: tuple[float, float] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    assert listed_price(base_url, model) == (price and Price(input=price[0], output=price[1]))


def test_the_address_of_the_environment_decides_without_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:8000/v1")
    assert listed_price(None, "gpt-4o") is None


def test_prices_given_come_first_and_may_lie_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    listed = load_recipe("jargon", ["llm.model=gpt-4o", "llm.budget_usd=1"]).recipe.llm
    assert price_of(listed) == Price(input=2.5, output=10)
    assert price_of(listed.model_copy(update={"mode": "batch"})) == Price(input=1.25, output=5)
    assert "at the list price of 2026-11-28" in sentence(Planned("judging", 10, 1000, 100), listed)
    file = tmp_path / "prices.yaml"
    file.write_text("gpt-4o: {input: 1, output: 2}\nmine: {input: 3, output: 4}\n", encoding="utf-8")
    given = load_recipe("jargon", ["llm.model=gpt-4o", f"llm.prices={file}"]).recipe.llm
    assert price_of(given) == Price(input=1, output=2) and price_of(given.named("mine")) == Price(input=3, output=4)
    assert price_of(given.named("gpt-4o-mini")) == Price(input=0.15, output=0.6)
    assert "list price" not in sentence(Planned("judging", 10, 1000, 100), given)
    assert given.model_dump()["prices"]["mine"] == {"input": 3, "output": 4}, "the manifest says the prices themselves"
    further = ["llm.model=mine@there", f"llm.endpoints.there={{base_url: 'http://x/v1', prices: {file}}}"]
    assert price_of(load_recipe("jargon", further).recipe.llm) == Price(input=3, output=4)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "no such file"),
        ("gpt-4o: 2.5\n", "gpt-4o"),
        ("gpt-4o: {input: -1, output: .inf}\n", "gpt-4o.input"),
        ("gpt-4o: {inptu: 1, output: 2}\n", "inptu"),
        ("[1, 2]\n", "expected `key: value` lines"),
        ("gpt-4o: {input: 1\n", "prices.yaml"),
    ],
)
def test_a_wrong_file_of_prices_is_named_with_its_mistakes(tmp_path: Path, content: str | None, problem: str) -> None:
    file = tmp_path / "prices.yaml"
    if content is not None:
        file.write_text(content, encoding="utf-8")
    with pytest.raises(RecipeError) as error:
        load_recipe("jargon", ["llm.model=gpt-4o", f"llm.prices={file}"])
    assert "llm.prices" in str(error.value) and str(file) in str(error.value) and problem in str(error.value)


def test_a_model_without_a_price_says_how_to_give_one_and_the_way_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["llm.model=mine", "llm.base_url=http://localhost:1/v1", "llm.budget_usd=1"]
    with pytest.raises(RecipeError, match=r"no price of 'mine' is known.*llm\.prices='\{mine: .*llm\.prices=FILE"):
        load_recipe("jargon", words)
    Path("p.yaml").write_text("mine: {input: 0.1, output: 0.2}\n", encoding="utf-8")
    load_recipe("jargon", [*words, "llm.prices=p.yaml"])
    load_recipe("jargon", [*words, "llm.prices={mine: {input: 0.1, output: 0.2}}"])
