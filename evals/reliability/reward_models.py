"""Claim: the published reward models that people use are read as their authors read them, or refused for a true reason.

Each row of `reward_models_families.FAMILIES` is a tiny copy with random weights: config.json, names of tensors, tokenizer, chat
template and padding as on the hub. The author's scoring is written anew in `reward_models_reference` from the sources that the
row names, without cda, one text at a time and without padding. Ours is `load_reward_model` and `ClassifierScorer`, in fp32.

Columns: the largest difference of our rewards from the author's, alone and padded in one batch; packed end to end, where the class
packs (the tiny copies run without flash attention, which keeps texts apart, so one text at a time is packed here); rank correlation
with the author's; and in 8-bit with ours in fp32. Of a cost, the author's number with its sign changed counts; of a model that compares two
responses, the preference in both orders, twice the probability of the first minus 1. `refused` is right only for the reason that the row states.

Thresholds: at least 28 rows; at least 24 equal within 1e-4, alone, padded and packed, with rank correlation 1; none wrong; every refusal
for the reason that the row states; every equal row loads in 8-bit with finite rewards.

    python -m evals.reliability.reward_models      (half a minute)
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from cda.arrays import FloatArray
from cda.errors import CdaError
from cda.models.config import ModelSpec, Precision, family_for
from cda.models.load import RewardModel, load_reward_model
from cda.records import user_prompt
from cda.scorers.batching import packed
from cda.scorers.classifier import ClassifierScorer, in_order, preferred
from cda.scorers.compared import Text
from evals.reliability.reward_models_families import FAMILIES, TEXTS, Family
from evals.shared import Check, finish

CLOSE = 1e-4
LIMIT = 1024
"""Tokens; no text here is as long."""
COMPARISONS = [(prompt, response, TEXTS[(n + 1) % len(TEXTS)][1]) for n, (prompt, response) in enumerate(TEXTS)]
"""Each text with the response of the next, for models that compare."""


@dataclass(frozen=True)
class Row:
    """What was found of one kind of model. Differences are from the author's rewards."""

    title: str
    models: tuple[str, ...]
    official: str
    source: str
    status: Literal["equal", "refused", "wrong"]
    alone: float | None = None
    padded: float | None = None
    packed: float | None = None
    """None where the class does not pack."""
    ranks: float | None = None
    """Rank correlation with the author's."""
    ranks_8bit: float | None = None
    """Rank correlation of the rewards in 8-bit with those in fp32; None if one is not finite."""
    family: str = ""
    """Key of cda's family that reads it; empty if its own class does."""
    reading: str = ""
    """Class and form of the text, as loaded."""
    reason: str = ""
    """Of a refusal, or of what is wrong."""


def row_of(family: Family, folder: Path, in_8bit: bool = True) -> Row:
    """Build a tiny copy, and compare our rewards with the author's."""
    name = family.hub_ids[0].split("/")[-1] if family.hub_ids else family.title.replace(" ", "-")
    place = folder / name
    family.build(place)
    taken = family_for(_spec(family, place, "fp32"))
    key = "" if taken is None else taken.key
    row = Row(family.title, family.hub_ids, family.official, family.source, "refused", family=key)
    try:
        model = _loaded(family, place, "fp32")
    except CdaError as error:
        said = str(error).replace(f"{place}: ", "")
        true = family.refused != "" and family.refused in said
        return replace(row, status="refused" if true else "wrong", reason=said)
    if family.refused:
        return replace(row, status="wrong", reason=f"was to be refused: {family.refused}")
    asked = COMPARISONS if family.compares else TEXTS
    theirs = np.array([family.as_preference(family.reference(place, *texts)) for texts in asked])
    theirs *= -1 if family.is_cost else 1
    alone, together = _rewards(model, 1), _rewards(model, 100_000)
    apart = [float(np.abs(found - theirs).max()) for found in (alone, together)]
    end_to_end = _packed(model)
    row = replace(
        row,
        alone=apart[0],
        padded=apart[1],
        packed=None if end_to_end is None else float(np.abs(end_to_end - theirs).max()),
        ranks=_rank_correlation(alone, theirs),
        reading=_reading(model),
    )
    differences = [each for each in (row.alone, row.padded, row.packed) if each is not None]
    right = max(differences) <= CLOSE and row.ranks == 1
    if in_8bit:
        rounded = _rewards(_loaded(family, place, "8bit"), 1)
        row = replace(row, ranks_8bit=_rank_correlation(rounded, alone) if np.isfinite(rounded).all() else None)
    return replace(row, status="equal" if right else "wrong", reason="" if right else "other rewards than the author's")


def _spec(family: Family, folder: Path, precision: Precision) -> ModelSpec:
    return ModelSpec(str(folder), precision, LIMIT, trust_remote_code=family.runs_code)


def _loaded(family: Family, folder: Path, precision: Precision) -> RewardModel:
    return load_reward_model(_spec(family, folder, precision), compares=family.compares)


def _texts(model: RewardModel) -> list[Text]:
    if _compares(model) is None:
        return [(user_prompt(prompt), response) for prompt, response in TEXTS]
    return [
        in_order(user_prompt(prompt), *shown)
        for prompt, first, second in COMPARISONS
        for shown in ((first, second), (second, first))
    ]


def _rewards(model: RewardModel, batch_tokens: int) -> FloatArray:
    prompts, responses = zip(*_texts(model), strict=True)
    return _preferences(model, ClassifierScorer(model, batch_tokens).score(prompts, responses))


def _preferences(model: RewardModel, found: FloatArray) -> FloatArray:
    """Rewards as they are; log-odds in both orders as preferences."""
    averages = _compares(model)
    return found if averages is None else preferred(found.reshape(-1, 2), averages)[0]


def _compares(model: RewardModel) -> Literal["log-odds", "probabilities"] | None:
    encoding = model.template.layout.encoding
    return None if encoding is None else encoding.compares


def _packed(model: RewardModel) -> FloatArray | None:
    """Rewards of texts as rows with positions, each by itself; None if the class does not pack."""
    from transformers.modeling_layers import GenericForSequenceClassification

    reading = model.reading
    if reading is None or reading.points is not None or not isinstance(model.model, GenericForSequenceClassification):
        return None
    encoded = [model.template.encode(*text).ids for text in _texts(model)]
    return _preferences(model, np.concatenate([packed(model, [ids]) for ids in encoded]))


def _reading(model: RewardModel) -> str:
    """In a few words, for a table."""
    return f"{type(model.model).__name__}, {model.template.form}"


def _rank_correlation(first: FloatArray, second: FloatArray) -> float:
    from scipy.stats import spearmanr

    return round(float(spearmanr(first, second).statistic), 6)


def main() -> int:
    """Every row, the table, and the thresholds."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    logging.getLogger("transformers").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as folder:
        rows = []
        for number, family in enumerate(FAMILIES):
            rows.append(row_of(family, Path(folder) / str(number)))
            print(_line(rows[-1]), flush=True)
    equal = [row for row in rows if row.status == "equal"]
    wrong = [row.title for row in rows if row.status == "wrong"]
    refused = [row for row in rows if row.status == "refused"]
    broken = [row.title for row in equal if row.ranks_8bit is None]
    moved = [f"{row.title}: {row.ranks_8bit}" for row in equal if row.ranks_8bit is not None and row.ranks_8bit < 0.9]
    largest = max((max(row.alone or 0, row.padded or 0, row.packed or 0) for row in equal), default=float("nan"))
    checks = [
        Check("at least 28 kinds of model", str(len(rows)), len(rows) >= 28),
        Check(
            f"at least 24 equal the author's rewards within {CLOSE:g}, with rank correlation 1",
            f"{len(equal)}; largest difference {largest:.1e}",
            len(equal) >= 24 and largest <= CLOSE,
        ),
        Check("none read otherwise than by its author, or refused for another reason than its own", f"{len(wrong)}: {', '.join(wrong)}" if wrong else "0", not wrong),
        Check(
            "all that are equal load in 8-bit, with finite rewards",
            f"{len(equal) - len(broken)} of {len(equal)}; rank correlation with fp32 below 0.9 of {len(moved)} (n = {len(TEXTS)} texts each)",
            not broken,
        ),
    ]  # fmt: skip
    claim = (
        "published reward models are read as their authors read them, alone, padded and packed, or refused for a true reason "
        f"({len(refused)} of {len(rows)} here)"
    )
    numbers = {"n_texts": len(TEXTS), "rows": [asdict(row) for row in rows], "moved_in_8bit": moved}
    return finish("reward_models", claim, checks, numbers)


def _line(row: Row) -> str:
    if row.alone is None or row.status == "refused":
        return f"{row.title:28} {row.status}: {row.reason}"
    numbers = (row.alone, row.padded, row.packed)
    shown = "  ".join("   -   " if each is None else f"{each:.1e}" for each in numbers)
    return f"{row.title:28} {row.status:8} {shown}  ranks {row.ranks:.3f}, 8-bit {row.ranks_8bit}"


if __name__ == "__main__":
    sys.exit(main())
