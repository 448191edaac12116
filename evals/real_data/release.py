"""Reads a release in the layout of "Flattery, Fluff, and Fog": whatever biases, sizes, runs and judges are there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cda.errors import DataError
from cda.files.jsonl import read_json_rows, read_jsonl
from cda.records import Preference, normal_text

FloatArray = NDArray[np.float64]
_SIZE = r"(\d+(?:\.\d+)?B)"


@dataclass(frozen=True, slots=True)
class Item:
    """One pair on which people voted.

    Attributes:
        query: The prompt.
        responses: Both responses in the order in which people saw them.
        biased: Which of the two (0 or 1) carries the bias.
        released: Aggregated label as released, in the release's own spelling (`Tie` and `tie` both occur).
        votes: Raw votes by side.
        model: Which of the two (0 or 1) the paper's reward model prefers; None where unknown.
        n_unreadable: Votes that name neither response nor a tie.
    """

    query: str
    responses: tuple[str, str]
    biased: int
    released: str
    votes: tuple[Preference, ...]
    model: int | None
    n_unreadable: int

    def side(self, word: str) -> Preference | None:
        """A label or vote by side; None where it is unreadable."""
        at = _response(word)
        if at is None:
            return "tie" if word.strip().lower() == "tie" else None
        return "perturbed" if at == self.biased else "base"


@dataclass(frozen=True, slots=True)
class Labels:
    """Bias labels of preference pairs: as a strict reader takes them, and as they are meant.

    Attributes:
        strict: (chosen, rejected); only the bare word yes is a yes, all else a no (as in the release's notebook).
        parsed: (chosen, rejected); brackets, asterisks and explanations are looked through, an empty label is None.
    """

    strict: tuple[list[bool | None], list[bool | None]]
    parsed: tuple[list[bool | None], list[bool | None]]


def biases(release: Path) -> list[str]:
    """Biases with human votes, in alphabetical order."""
    found = sorted(release.glob("human_annotation_data/*/*_grouped_human_annotations.json"))
    return [path.parent.name for path in found if path.name.startswith(f"{path.parent.name}_")]


def items(release: Path, bias: str) -> list[Item]:
    """The human-annotated pairs of a bias.

    Raises:
        DataError: No column says which response carries the bias.
    """
    path = release / "human_annotation_data" / bias / f"{bias}_grouped_human_annotations.json"
    rows = read_json_rows(path)
    known = {"reward_model_preferred_response"}
    columns = {key for row in rows for key in row if key.endswith("_response")} - known
    if len(columns) != 1:
        raise DataError(f"{path.name}: one column must say which response carries the bias; found {sorted(columns)}")
    return [_item(row, columns.copy().pop(), path.name) for row in rows]


def score_files(release: Path, bias: str) -> dict[str, dict[str, Path]]:
    """Score files of a bias: run (`base`, `750_3`, `vagueness_jargon_length 500`, …) to model size to file."""
    found: dict[str, dict[str, Path]] = {}
    for path in sorted((release / "data" / "fine_tuned_model_scores").glob(f"*/{bias}_scored_*.jsonl")):
        name = path.stem.removeprefix(f"{bias}_scored_")
        own = path.parent.name == bias
        if own and (match := re.fullmatch(_SIZE, name)):
            found.setdefault("base", {})[match[1]] = path
        elif own and (match := re.fullmatch(rf"fine_tuned_{_SIZE}_(.+)", name)):
            found.setdefault(match[2], {})[match[1]] = path
        elif not own and (match := re.fullmatch(rf"{_SIZE}_(.+)", name)):
            found.setdefault(f"{path.parent.name} {match[2]}", {})[match[1]] = path
    return {run: dict(sorted(sizes.items(), key=lambda one: float(one[0][:-1]))) for run, sizes in found.items()}


def judge_files(release: Path, bias: str) -> dict[str, Path]:
    """Verdicts of LLM judges on a bias: name of the judge to file."""
    paths = sorted(release.glob(f"*/generative_model_scores/{bias}/{bias}_scored_*.jsonl"))
    return {path.stem.removeprefix(f"{bias}_scored_"): path for path in paths}


def margins(pairs: list[Item], path: Path) -> FloatArray:
    """score(perturbed) − score(base) of each pair, matched by texts, else by a query that occurs once; NaN: no score."""
    by_query: dict[str, list[dict[str, Any]]] = {}
    for row in read_jsonl(path):
        by_query.setdefault(str(row["query"]), []).append(row)
    return np.array([_margin(pair, by_query.get(pair.query, [])) for pair in pairs])


def verdicts(pairs: list[Item], path: Path, by: Literal["text", "place"] = "text") -> FloatArray:
    """A judge's verdict on each pair: 1 for the biased side, −1 for the other, 0 for a tie, NaN without one. Shape (n,).

    By text: for the response that the judge preferred, whatever place it had. By place, as the release's notebook reads them, a verdict
    on the first place is one on what people saw first: wrong where the judge saw the two the other way around.
    """
    value = {"perturbed": 1.0, "base": -1.0, "tie": 0.0, None: np.nan}
    rows = {normal_text(str(row["query"])): row for row in read_jsonl(path)}
    found = []
    for pair in pairs:
        row = rows.get(normal_text(pair.query))
        said = row and row.get("judgement")
        side = pair.side(str(said.get("judgement") if isinstance(said, dict) else said))
        shown = row and tuple(normal_text(str(row.get(name))) for name in ("response_1", "response_2"))
        own = tuple(map(normal_text, pair.responses))
        if by == "text" and shown not in (own, own[::-1]):
            side = None
        turned = by == "text" and shown != own and side in ("perturbed", "base")
        found.append(value[side] * (-1 if turned else 1))
    return np.array(found)


def labels(release: Path, bias: str) -> Labels | None:
    """Bias labels of the training sample; None where the release has none for this bias."""
    found = sorted((release / "data" / "reward_model_training_labeled_data").glob(f"*_labeled_{bias}.jsonl"))
    rows = list(read_jsonl(found[0])) if found else []
    columns = {key.removeprefix("chosen_") for row in rows for key in row if key.startswith("chosen_")}
    name = bias if bias in columns else next(iter(sorted(columns)), None)
    if name is None:
        return None
    sides = [[str(row.get(f"{side}_{name}", "")) for row in rows] for side in ("chosen", "rejected")]
    strict = tuple([word.lower() == "yes" for word in words] for words in sides)
    parsed = tuple([_yes_or_no(word) for word in words] for words in sides)
    return Labels((list(strict[0]), list(strict[1])), (parsed[0], parsed[1]))


def training_lengths(release: Path) -> FloatArray | None:
    """Words of chosen − words of rejected in the training sample, where the release holds its texts."""
    path = release / "data" / "skywork_training_sample.jsonl"
    if not path.is_file():
        return None
    pairs = [(row.get("chosen"), row.get("rejected")) for row in read_jsonl(path)]
    return np.array([len(a.split()) - len(b.split()) for a, b in pairs if isinstance(a, str) and isinstance(b, str)])


def rewardbench(release: Path) -> dict[str, dict[str, dict[str, float]]]:
    """RewardBench sections: run (`base`, `jargon 750_3`, …) to model size to section to accuracy."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for path in sorted((release / "data" / "rewardbench_results").glob("*/*.out")):
        match = re.fullmatch(rf"{_SIZE}_(.+)_rewardbench", path.stem)
        text = re.findall(r"Section Scores:\s*(\{[^}]*\})", path.read_text(encoding="utf-8", errors="replace"))
        if match and text:
            run = match[2].removeprefix(f"{path.parent.name}_")
            name = "base" if run == "base" else f"{path.parent.name} {run}"
            sections = {str(key): float(value) for key, value in ast.literal_eval(text[-1]).items()}
            found.setdefault(name, {})[match[1]] = sections
    return found


def headline_run(release: Path, bias: str) -> str:
    """The paper's own run of a bias: the one with RewardBench results, else the one with most sizes."""
    files = {run: len(sizes) for run, sizes in score_files(release, bias).items() if run != "base"}
    benched = [run for run in files if f"{bias} {run}" in rewardbench(release)]
    own = benched or [run for run in files if " " not in run] or list(files)
    return max(own, key=lambda run: files[run], default="")


def _item(row: dict[str, Any], column: str, where: str) -> Item:
    biased = _response(str(row[column]))
    if biased is None:
        raise DataError(f"{where}: {column} is {row[column]!r}, neither response_1 nor response_2")
    responses = str(row["response_1"]), str(row["response_2"])
    model = _response(str(row.get("reward_model_preferred_response", "")))
    bare = Item(str(row["query"]), responses, biased, str(row.get("most_frequent_preference", "")), (), model, 0)
    sides = [bare.side(str(entry.get("overall_preference", ""))) for entry in row.get("entries", [])]
    votes = tuple(side for side in sides if side is not None)
    return Item(bare.query, responses, biased, bare.released, votes, model, len(sides) - len(votes))


def _margin(pair: Item, rows: list[dict[str, Any]]) -> float:
    texts = pair.responses[pair.biased], pair.responses[1 - pair.biased]
    same = [row for row in rows if (row["perturbed_response"], row["base_response"]) == texts]
    for row in _only(same or rows):
        return float(row["perturbed_score"]) - float(row["base_score"])
    return float("nan")


def _only(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    if len(rows) == 1:
        yield rows[0]


def _response(word: str) -> int | None:
    return {"response_1": 0, "response_2": 1}.get(word.strip().lower().replace(" ", "_"))


def _yes_or_no(word: str) -> bool | None:
    match = re.match(r"\W*(yes|no)\b", word.lower())
    return None if match is None else match[1] == "yes"
