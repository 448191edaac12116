"""List prices of common models, by the host where they are asked: `prices.yaml`, dated, and no more than a start."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from cda.llm.money import Price

OPENAI = "https://api.openai.com/v1"
FILE = Path(__file__).with_name("prices.yaml")


def listed_price(base_url: str | None, model: str | None) -> Price | None:
    """The list price of a model at an address, which None takes from OPENAI_BASE_URL, else OpenAI's; None if it is not listed.

    >>> listed_price(None, "gpt-4o"), listed_price("http://localhost:8000/v1", "gpt-4o")
    (Price(input=2.5, output=10.0), None)
    """
    try:
        host = urlsplit(base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI).hostname
    except ValueError:
        return None
    found = _table()["hosts"].get(host, {}).get(model)
    return None if found is None else Price.model_validate(found)


def listed_on() -> str:
    """The day on which the list was read, as YYYY-MM-DD."""
    return str(_table()["read_on"])


@cache
def _table() -> dict[str, Any]:
    return dict(yaml.safe_load(FILE.read_text(encoding="utf-8")))
