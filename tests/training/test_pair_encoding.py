"""Pairs to token ids: what is cut and what is left out is counted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cda.models.load import ModelSpec, load_template
from cda.models.template import Template
from cda.records import Pair, TrainingExample, user_prompt
from cda.training.chunks import encode_pairs

LIMIT = 12  # BOS and four marks leave seven words


@pytest.fixture(scope="module")
def template(llama: Path) -> Template:
    return load_template(ModelSpec(str(llama), "fp32", LIMIT))


def test_cut_and_identical_pairs_are_counted_and_the_rest_keeps_its_order(
    template: Template, words: Callable[..., str]
) -> None:
    prompt = user_prompt(words(2))
    pairs = [
        Pair(prompt, words(5), words(3, start=20)),  # exactly twelve tokens: not cut
        Pair(prompt, words(6), words(3, start=20)),  # one side cut
        Pair(prompt, words(3, start=20), words(9)),  # the other side cut
        Pair(prompt, words(8), words(9)),  # both cut, different only past the cut
        Pair(prompt, words(8), words(8, start=30)),  # both cut, still different
        Pair(prompt, words(4), words(4)),  # the same from the start
    ]
    encoded = encode_pairs([TrainingExample(pair) for pair in pairs], template)
    assert encoded.n_truncated == 4
    assert encoded.n_identical == 2
    assert encoded.dataset["length"] == [12, 12, 12, 12]
    for side in ("chosen", "rejected"):  # as scoring reads them
        read = [template.encode(prompt, getattr(pairs[row], side)).ids for row in (0, 1, 2, 4)]
        assert encoded.dataset[f"{side}_ids"] == read
