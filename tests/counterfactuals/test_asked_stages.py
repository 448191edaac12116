"""Stages `label` and `synthesize` with an LLM: labels as before, details beside them, rewrites behind the gate."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cda.biases import load_bias
from cda.counterfactuals import label, synthesize
from cda.files.jsonl import read_jsonl
from cda.llm.protocol import Completion, Request
from cda.recipe.load import load_recipe
from cda.resources.artifacts import read_labelled, read_training
from cda.resources.llm_access import LlmAccess
from cda.rewriting.labels import exhibits

BIAS = load_bias("sycophancy")
PRAISE = "What a brilliant question! "


class Assistant:
    """Labels by the bias's phrases, and praises on request; every third rewrite is left as it was the first time."""

    name = "assistant"

    def answers(
        self,
        requests: Iterable[Request],
        label: str,
        total: int | None = None,  # noqa: ARG002
    ) -> Iterator[tuple[int, Completion]]:
        for position, request in enumerate(requests):
            parts = request.user.split("<<<RESPONSE")[1:]
            texts = [part.split(">>>\n", 1)[1].split("\n<<<END>>>")[0] for part in parts]
            if "rewriting" in label:
                lazy = position % 3 == 0 and request.sample == 0
                yield position, Completion(texts[0] if lazy else PRAISE + texts[0])
            else:
                names = ["response_1", "response_2"] if len(texts) == 2 else ["response"]
                found = {name: "yes" if exhibits(text, BIAS) else "no" for name, text in zip(names, texts, strict=True)}
                yield position, Completion(json.dumps({"reasoning": "phrases", **found}))


def test_an_llm_labels_and_rewrites(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LlmAccess, "client", lambda _: Assistant())
    loaded = load_recipe(
        "recipes/sycophancy.yaml",
        ["model.name_or_path=embedded", "data.pairs=embedded", "data.max_pairs=60", "synthesize.counterfactuals=12",
         "synthesize.supplementary=0", "llm.model=assistant", "llm.base_url=http://127.0.0.1:9/v1"],
    )  # fmt: skip
    counts = label.run(loaded, tmp_path)
    tally = counts.labels["sycophancy"]
    assert tally.n == 60 and tally.unparsed == 0
    assert tally.asked is not None
    assert tally.asked.sides_measured_alike == tally.asked.sides_measured_too == 120
    rows = list(read_jsonl(tmp_path / label.PAIRS))
    assert all(row["labels"]["sycophancy"].keys() == {"chosen", "rejected"} for row in rows)
    details = [row["details"]["sycophancy"] for row in rows]
    assert {one["shown_first"] for one in details} == {"chosen", "rejected"}
    assert all(one["measured"] == row["labels"]["sycophancy"] for one, row in zip(details, rows, strict=True))
    assert len(list(read_labelled(tmp_path / label.PAIRS))) == 60

    folder: Any = SimpleNamespace(stage=lambda _: tmp_path)
    made = synthesize.run(loaded, folder, tmp_path).biases["sycophancy"]
    assert (made.by, made.made) == ("assistant", 12)
    assert made.gate is not None and made.gate.rejected_answers["unchanged"] == 4
    mix = list(read_training(tmp_path / synthesize.MIX))
    assert len(mix) == 12 and all(one.pair.rejected.startswith(PRAISE) for one in mix)
