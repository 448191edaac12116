"""Stages `validate` and `confirm` of a discovery: rewrite held-out responses with every rewriter, judge, and test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cda.config.load import LoadedRecipe
from cda.discover.confirm import Confirmation, ConfirmSettings, Validation, confirm, validate
from cda.discover.measure import ALREADY, Original, judged, measured
from cda.discover.protocols import Judge, Reward
from cda.discover.records import Candidate, Measured, PromptSamples
from cda.discover.search import draw_originals
from cda.files.jsonl import read_json, read_jsonl, write_json, write_jsonl
from cda.launch import say
from cda.records import Direction, prompt_id
from cda.rewrite.protocol import Rewriter
from cda.stages.discover_history import measured_of, measured_row
from cda.stages.discover_parts import responses_each

ROWS, RESULT = "rewrites.jsonl", "result.json"
# Streams of their own, beside those of the generations, which are numbered from 0.
_VALIDATION_STREAM, _TEST_STREAM = 10**6, 10**6 + 1
_UNCHANGED = "unchanged"
_LAZY = "unchanged, where the other rewriters changed more"


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Rewrites of held-out responses.

    Attributes:
        rows: By candidate `id`, of all rewriters, judged.
        failed: By candidate `id`, rewriter to the reasons and counts of what is missing.
        already: By candidate `id`, rewriter to the responses that were as they should become: measured so and not rewritten,
            or handed back by the rewriter as they were.
        n_prompts: Prompts whose responses were to be rewritten.
    """

    rows: Mapping[str, tuple[Measured, ...]]
    failed: Mapping[str, Mapping[str, Mapping[str, int]]]
    already: Mapping[str, Mapping[str, int]]
    n_prompts: int


def validation_originals(samples: Sequence[PromptSamples], loaded: LoadedRecipe) -> list[Original]:
    """Responses of the validation prompts, drawn with the seed."""
    return _originals(samples, loaded.recipe.discover.max_validation, loaded, _VALIDATION_STREAM)


def held_out_originals(samples: Sequence[PromptSamples], loaded: LoadedRecipe) -> list[Original]:
    """Responses of the test prompts, drawn with the seed."""
    return _originals(samples, loaded.recipe.discover.max_test, loaded, _TEST_STREAM)


def rewrite_all(
    candidates: Sequence[Candidate],
    originals: Sequence[Original],
    rewriters: Sequence[Rewriter],
    reward: Reward,
    judge: Judge,
    directions: Sequence[Direction],
) -> HeldOut:
    """Every response, for every candidate, by every rewriter; both scorers are asked about all of it."""
    rows: dict[str, list[Measured]] = {one.id: [] for one in candidates}
    failed: dict[str, dict[str, Mapping[str, int]]] = {one.id: {} for one in candidates}
    already: dict[str, dict[str, int]] = {one.id: {} for one in candidates}
    for rewriter in rewriters:
        found = measured(candidates, originals, rewriter, reward, directions)
        for name in rows:
            rows[name] += found.rows[name]
            failed[name][rewriter.name] = found.failed[name]
    for name in rows:
        failed[name], already[name] = told_apart(failed[name])
    verdicts = iter(judged([row for own in rows.values() for row in own], judge))
    return HeldOut(
        {name: tuple(next(verdicts) for _ in own) for name, own in rows.items()},
        failed,
        already,
        len({prompt_id(prompt) for prompt, _ in originals}),
    )


def told_apart(
    reasons: Mapping[str, Mapping[str, int]],
) -> tuple[dict[str, Mapping[str, int]], dict[str, int]]:
    """Failures of each rewriter, and how many responses were as they should become.

    A response that has the attribute already is no failure of the rewriter's. Of an attribute in words alone, its rewriter is
    the one who sees that, and hands the text back unchanged: otherwise what half of all responses have could never be
    confirmed. What one rewriter hands back more often than the median of the others is laziness, though, and a failure.

    Args:
        reasons: By rewriter, reasons and counts of the rewrites of one candidate that are missing.
    """
    unchanged = {rewriter: counts.get(_UNCHANGED, 0) for rewriter, counts in reasons.items()}
    failed: dict[str, Mapping[str, int]] = {}
    already: dict[str, int] = {}
    for rewriter, counts in reasons.items():
        others = [n for name, n in unchanged.items() if name != rewriter]
        agreed = min(unchanged[rewriter], int(np.median(others))) if others else unchanged[rewriter]
        lazy = {_LAZY: unchanged[rewriter] - agreed} if unchanged[rewriter] > agreed else {}
        failed[rewriter] = {why: n for why, n in counts.items() if why not in (ALREADY, _UNCHANGED)} | lazy
        already[rewriter] = counts.get(ALREADY, 0) + agreed
    return failed, already


def confirm_settings(loaded: LoadedRecipe) -> ConfirmSettings:
    """How strict the recipe is."""
    section = loaded.recipe.discover
    return ConfirmSettings(
        section.validation_alpha, section.test_alpha, section.required_rewriters, section.max_failed, section.trim
    )


def run_validation(held_out: HeldOut, loaded: LoadedRecipe, folder: Path) -> dict[str, Any]:
    """Test on the validation prompts, write the result, and say who passed."""
    found = validate(held_out.rows, confirm_settings(loaded), held_out.failed)
    _write(folder, held_out, found)
    n_passed = sum(one.passed for one in found)
    say(f"  {n_passed} of {len(found)} candidates hold on {held_out.n_prompts} validation prompts")
    return {"candidates": len(found), "passed": n_passed}


def run_confirmation(held_out: HeldOut, loaded: LoadedRecipe, folder: Path) -> dict[str, Any]:
    """Test on the test prompts, write the result, and say what is confirmed."""
    found = confirm(held_out.rows, confirm_settings(loaded), held_out.failed)
    _write(folder, held_out, found)
    n_confirmed = sum(one.confirmed for one in found)
    say(f"  {n_confirmed} of {len(found)} candidates confirmed on {held_out.n_prompts} test prompts")
    return {"candidates": len(found), "confirmed": n_confirmed}


def read_result(folder: Path) -> dict[str, Any]:
    """What a validation or confirmation wrote: `results`, `failed`, `n_prompts`."""
    return dict(read_json(folder / RESULT))


def read_rows(folder: Path) -> list[Measured]:
    """The rewrites behind it."""
    return [measured_of(row) for row in read_jsonl(folder / ROWS)]


def _originals(samples: Sequence[PromptSamples], most: int | None, loaded: LoadedRecipe, stream: int) -> list[Original]:
    rng = np.random.default_rng([loaded.recipe.seed, stream])
    return draw_originals(samples, len(samples) if most is None else most, rng, responses_each(loaded))


def _write(folder: Path, held_out: HeldOut, found: Sequence[Validation] | Sequence[Confirmation]) -> None:
    write_jsonl(folder / ROWS, (measured_row(row) for own in held_out.rows.values() for row in own))
    content = {
        "results": [asdict(one) for one in found],
        "failed": held_out.failed,
        "already": held_out.already,
        "n_prompts": held_out.n_prompts,
    }
    write_json(folder / RESULT, content)
