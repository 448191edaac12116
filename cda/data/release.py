"""The released data of "Flattery, Fluff, and Fog" in its own layout: every part of a bias, and which files are missing.

The public repository anirudhb123/Preference-Model-Biases on GitHub is such a folder.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from cda.arrays import FloatArray
from cda.data.contrasts import CleanContrasts
from cda.data.load import Row, load_rows
from cda.data.pairs import PairLabels, labels_in
from cda.data.triples import CleanTriples, clean_triples
from cda.data.votes import read_opinions, read_scores, response_word
from cda.errors import DataError
from cda.files.jsonl import read_text
from cda.files.paths import is_a_folder, user_path
from cda.records import (
    Contrast,
    Exclusions,
    Preference,
    count_reasons,
    equal_texts,
    normal_text,
    prompt_text,
    user_prompt,
)

REPOSITORY = "https://github.com/anirudhb123/Preference-Model-Biases"
SOURCE = "the paper's release"
"""Tag `source` of its contrasts."""

PARTS: Mapping[str, str] = {
    "human votes": "human_annotation_data/{bias}/{bias}_grouped_human_annotations.json",
    "triples": "data/perturbations/all_data_perturbed_{bias}.jsonl",
    "LLM verdicts": "*/generative_model_scores/{bias}/{bias}_scored_*.jsonl",
    "scores before": "data/fine_tuned_model_scores/{bias}/{bias}_scored_[0-9]*B.jsonl",
    "scores after": "data/fine_tuned_model_scores/{bias}/{bias}_scored_fine_tuned_[0-9]*B_*.jsonl",
    "labels of the training sample": "data/reward_model_training_labeled_data/*_labeled_{bias}.jsonl",
    "RewardBench results": "data/rewardbench_results/{bias}/*_rewardbench.out",
}
"""Files of each part of a bias."""
_BASE_RESULTS = "data/rewardbench_results/base-models/*_base_rewardbench.out"
_COLUMNS = {"prompt": "query", "original": "original_response", "rewrite": "perturbed_response",
            "rewrite_of_rewrite": "base_response"}  # fmt: skip
_SIZE = r"(\d+(?:\.\d+)?B)"
Sections = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class ReleasedModels:
    """Margins, score(perturbed) − score(base), of the paper's own reward models before and after its fine-tuning, by size (`2B`).

    Margins are those of the annotated pairs, shape (n,), NaN without a score. `run` names the fine-tuning as the release does, by
    pairs and epochs (`750_3`); it is empty without one.
    """

    run: str
    before: Mapping[str, FloatArray]
    after: Mapping[str, FloatArray]


def release_folder(reference: str, biases: Sequence[str]) -> Path:
    """The folder of a release; DataError if there is none, or if it holds no part of any of the biases."""
    folder = user_path(reference)
    if not is_a_folder(folder):
        raise DataError(f"audit.release: {reference}: no such folder. The released data are at {REPOSITORY}")
    if not any(files_of(folder, part, bias) for part in PARTS for bias in biases):
        raise DataError(
            f"audit.release: {reference}: holds no released file of {', '.join(biases)} (looked for "
            f"{PARTS['human votes'].format(bias=biases[0])} and {len(PARTS) - 1} others); give a checkout of {REPOSITORY}"
        )
    return folder


def files_of(folder: Path, part: str, bias: str) -> list[Path]:
    """Files of one part of a bias, in alphabetical order."""
    return sorted(folder.glob(PARTS[part].format(bias=bias)))


def missing_parts(folder: Path, biases: Sequence[str]) -> dict[str, list[str]]:
    """Part to the biases of which the folder has no such file; parts that are all there are left out."""
    missing = {part: [bias for bias in biases if not files_of(folder, part, bias)] for part in PARTS}
    if not list(folder.glob(_BASE_RESULTS)):
        missing["RewardBench results before the fine-tuning"] = ["all"]
    return {part: names for part, names in missing.items() if names}


def released_contrasts(folder: Path, bias: str) -> CleanContrasts:
    """The annotated pairs of a bias with people's votes, their stated majority and all judges' verdicts; none without file."""
    files = files_of(folder, "human votes", bias)
    if not files:
        return CleanContrasts((), Exclusions(0, {}), Exclusions(0, {}))
    opinions, unread = read_opinions(files[0])
    reasons: list[str] = []
    contrasts: list[Contrast] = []
    for query, opinion in opinions.items():
        perturbed, base = opinion.texts or ("", "")
        if not all(isinstance(side, str) and side.strip() for side in (perturbed, base)):
            reasons.append("a side is missing")
        elif equal_texts(perturbed, base):
            reasons.append("identical sides")
        else:
            prompt, tags = user_prompt(query), {"source": SOURCE}
            contrasts.append(Contrast(bias, prompt, perturbed, base, opinion.released, opinion.votes, tags=tags))
    exclusions = Exclusions(len(opinions), count_reasons(reasons))
    if not contrasts:
        raise DataError(f"{files[0]}: no usable pair; {exclusions}")
    judged = released_verdicts(folder, bias, contrasts).values()
    with_verdicts = tuple(
        replace(contrast, verdicts=tuple(verdict for own in judged if (verdict := own[row]) is not None))
        for row, contrast in enumerate(contrasts)
    )
    return CleanContrasts(with_verdicts, exclusions, unread)


def released_triples(folder: Path, bias: str) -> CleanTriples:
    """Triples of a bias: an answer, its rewrite with the bias (perturbed) and the rewrite of that one without it (base).

    The rewriter was asked to add the bias, so that the answers count as without it; the release labels none of them.
    """
    files = files_of(folder, "triples", bias)
    if not files:
        return CleanTriples((), Exclusions(0, {}))
    rows = [{**row, "has_attribute": False, "bias": bias} for row in load_rows(str(files[0]))]
    return clean_triples(rows, [bias], _COLUMNS, str(files[0]))


def released_verdicts(
    folder: Path, bias: str, contrasts: Sequence[Contrast]
) -> dict[str, tuple[Preference | None, ...]]:
    """Verdict of each LLM judge on each contrast, by the judge's name; None if there is none to be read."""
    verdicts = {}
    for path in files_of(folder, "LLM verdicts", bias):
        rows: dict[str, list[Row]] = {}
        for row in load_rows(str(path)):
            rows.setdefault(normal_text(str(row.get("query"))), []).append(row)
        verdicts[path.stem.removeprefix(f"{bias}_scored_")] = tuple(
            _agreed(contrast, rows.get(normal_text(prompt_text(contrast.prompt)), ())) for contrast in contrasts
        )
    return verdicts


def released_models(folder: Path, bias: str, contrasts: Sequence[Contrast]) -> ReleasedModels:
    """Margins by the paper's reward models, of the fine-tuning that has RewardBench results (else of most sizes)."""
    before, runs = {}, dict[str, dict[str, Path]]()
    for path in (*files_of(folder, "scores before", bias), *files_of(folder, "scores after", bias)):
        name = path.stem.removeprefix(f"{bias}_scored_")
        if match := re.fullmatch(_SIZE, name):
            before[match[1]] = path
        elif match := re.fullmatch(rf"fine_tuned_{_SIZE}_(.+)", name):
            runs.setdefault(match[2], {})[match[1]] = path
    results = [path.stem for path in files_of(folder, "RewardBench results", bias)]
    benched = [run for run in runs if any(run in name for name in results)]
    run = max(benched or list(runs), key=lambda name: len(runs[name]), default="")
    return ReleasedModels(run, _margins(before, contrasts), _margins(runs.get(run, {}), contrasts))


def released_sections(folder: Path, bias: str, run: str) -> dict[str, dict[str, Sections]]:
    """RewardBench as released: size to `before` and `after` this fine-tuning, each section to accuracy."""
    files = {"before": sorted(folder.glob(_BASE_RESULTS)), "after": files_of(folder, "RewardBench results", bias)}
    wanted = {"before": "base", "after": f"{bias}_{run}"}
    by_size: dict[str, dict[str, Sections]] = {}
    for when, paths in files.items():
        for path in paths:
            match = re.fullmatch(rf"{_SIZE}_(.+)_rewardbench", path.stem)
            if match and match[2] == wanted[when] and (sections := _sections(path)):
                by_size.setdefault(match[1], {})[when] = sections
    return dict(sorted(by_size.items(), key=lambda item: _billions(item[0])))


def released_labels(folder: Path, bias: str) -> PairLabels | None:
    """Labels of the training sample; None if the release has none of this bias."""
    files = files_of(folder, "labels of the training sample", bias)
    if not files:
        return None
    rows = load_rows(str(files[0]))
    named = sorted({key.removeprefix("chosen_") for row in rows for key in row if key.startswith("chosen_")})
    column = bias if bias in named else next(iter(named), bias)  # structure's are chosen_list and rejected_list
    return labels_in(rows, bias, column)


def _agreed(contrast: Contrast, rows: Sequence[Row]) -> Preference | None:
    """The verdict of a judge's rows on a query; None if they name different sides."""
    verdicts = {_verdict(contrast, row) for row in rows} - {None}
    return verdicts.pop() if len(verdicts) == 1 else None


def _verdict(contrast: Contrast, row: Row) -> Preference | None:
    """The side that a judge's word names; None if it names none, or judged other texts."""
    judgement = row.get("judgement")
    name = response_word(judgement.get("judgement") if isinstance(judgement, Mapping) else judgement)
    if name == "tie":
        return "tie"
    text = row.get(name) if name in ("response_1", "response_2") else None
    if not isinstance(text, str):
        return None
    if equal_texts(text, contrast.perturbed):
        return "perturbed"
    return "base" if equal_texts(text, contrast.base) else None


def _margins(files: Mapping[str, Path], contrasts: Sequence[Contrast]) -> dict[str, FloatArray]:
    """Margins by size, the smallest first; NaN for a contrast that a file does not score, or scores on other texts."""
    margins = {}
    for size in sorted(files, key=_billions):
        scores, _ = read_scores(files[size], ("perturbed_score", "base_score"))
        rows = [scores.get(normal_text(prompt_text(contrast.prompt))) for contrast in contrasts]
        known = zip(rows, contrasts, strict=True)
        margins[size] = np.array(
            [row.margin if row and _same_texts(row.row, pair) else math.nan for row, pair in known]
        )
    return margins


def _billions(size: str) -> float:
    return float(size.removesuffix("B"))


def _same_texts(row: Row, contrast: Contrast) -> bool:
    """True if a row of scores holds the contrast's texts, or none."""
    texts = row.get("perturbed_response"), row.get("base_response")
    sides = zip(texts, (contrast.perturbed, contrast.base), strict=True)
    return texts == (None, None) or all(isinstance(text, str) and equal_texts(text, side) for text, side in sides)


def _sections(path: Path) -> Sections | None:
    """The last line of sections in a result file; None if it holds none."""
    text = re.findall(r"Section Scores:\s*(\{[^}]*\})", read_text(path))
    if not text:
        return None
    try:
        return {str(name): float(value) for name, value in ast.literal_eval(text[-1]).items()}
    except (ValueError, SyntaxError, TypeError):
        return None
