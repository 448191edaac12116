"""Held-out prompts of a discovery: rewrites by every rewriter, judged and tested, their quality, and a person's review."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import yaml

from cda.discovery.evidence import confirm, validate
from cda.discovery.history import measured_of, measured_row
from cda.discovery.measure import ALREADY, UNCHANGED, CandidateRewrites, Original, judged, measure_candidates
from cda.discovery.pair_quality import pair_quality
from cda.discovery.records import Candidate, Judge, Reward
from cda.discovery.setup import AskedJudge, Setup
from cda.errors import DataError
from cda.files.jsonl import read_jsonl, write_jsonl, write_text
from cda.files.yaml_file import read_yaml_mapping
from cda.launch import say
from cda.records import Direction, prompt_id
from cda.report.numbers import inert
from cda.results.base import load, save
from cda.results.discover import Measured
from cda.results.evidence import (
    Confirmation,
    ConfirmationResult,
    ConfirmSettings,
    PairQualities,
    PairQuality,
    Validation,
    ValidationResult,
    Verdicts,
)
from cda.rewriting.rewriter import Rewriter
from cda.run import RunFolder
from cda.stats.streams import Stream, generator

ROWS, RESULT, PAIRS_RESULT, REVIEW = "rewrites.jsonl", "result.json", "pairs.json", "review.yaml"
R = TypeVar("R", ValidationResult, ConfirmationResult)
_LAZY = "unchanged, where the other rewriters changed more"
_HEAD = """\
# Candidates that held on the validation prompts. Write `keep: false` for those that are not worth a test, such as what
# makes an answer better, or what says the same as another; then run the same command again. The test prompts are used once.
"""


@dataclass(frozen=True, slots=True)
class HeldOutRewrites:
    """Rewrites of held-out responses.

    Attributes:
        rows: Judged rows of all rewriters, by candidate `id`.
        failed: By candidate `id` and rewriter, counts of missing rewrites by reason.
        already: By candidate `id` and rewriter, the responses that already were as requested: measured so and not
            rewritten, or returned unchanged by the rewriter.
        n_prompts: Number of prompts whose responses were to be rewritten.
        verdicts: Facts about the verdicts; None if the judge gives rewards.
        n_cut: Comparisons that another scorer gave no preference on, because a side was cut at its maximum length.
    """

    rows: Mapping[str, tuple[Measured, ...]]
    failed: dict[str, dict[str, dict[str, int]]]
    already: dict[str, dict[str, int]]
    n_prompts: int
    verdicts: Verdicts | None = None
    n_cut: int = 0


def rewrite_all(
    candidates: Sequence[Candidate],
    originals: Sequence[Original],
    rewriters: Sequence[Rewriter],
    reward: Reward,
    judge: Judge,
    directions: Sequence[Direction],
) -> HeldOutRewrites:
    """Every response, for every candidate, by every rewriter; both scorers are asked about all of it."""
    made = {
        rewriter.name: measure_candidates(candidates, originals, rewriter, reward, directions) for rewriter in rewriters
    }
    names = [candidate.id for candidate in candidates]
    rows = {name: [row for by_candidate in made.values() for row in by_candidate[name].rows] for name in names}
    apart = {name: failed_or_already({who: own[name] for who, own in made.items()}) for name in names}
    verdicts = iter(judged([row for own in rows.values() for row in own], judge))
    return HeldOutRewrites(
        {name: tuple(next(verdicts) for _ in own) for name, own in rows.items()},
        {name: failed for name, (failed, _) in apart.items()},
        {name: already for name, (_, already) in apart.items()},
        len({prompt_id(prompt) for prompt, _ in originals}),
        judge.verdicts if isinstance(judge, AskedJudge) else None,
        judge.n_cut if isinstance(judge, AskedJudge) else 0,
    )


def failed_or_already(made: Mapping[str, CandidateRewrites]) -> tuple[dict[str, dict[str, int]], dict[str, int]]:
    """Failures of each rewriter at one candidate, and the number of responses that already were as requested.

    A response that already has the attribute is no failure of the rewriter. For an attribute in words alone, only the
    rewriter can tell, and returns the text unchanged; without this rule, an attribute of half of all responses could never
    be confirmed. An unchanged text is accepted if at least half of the other rewriters that answered returned the same
    response unchanged; it counts as a failure if the others changed it or none of them answered. The only rewriter is
    always believed.
    """
    failed: dict[str, dict[str, int]] = {}
    already: dict[str, int] = {}
    for rewriter, own in made.items():
        others = [rewritten for name, rewritten in made.items() if name != rewriter]
        n_agreed = 0
        for response, n in own.unchanged.items():
            n_back = sum(response in other.unchanged for other in others)
            n_answered = sum(response in other.unchanged or response in other.changed for other in others)
            if not others or (n_back > 0 and 2 * n_back >= n_answered):
                n_agreed += n
        n_lazy = own.unchanged.total() - n_agreed
        failed[rewriter] = {why: n for why, n in own.failed.items() if why not in (ALREADY, UNCHANGED)}
        failed[rewriter] |= {_LAZY: n_lazy} if n_lazy else {}
        already[rewriter] = own.failed.get(ALREADY, 0) + n_agreed
    return failed, already


def save_validation(held_out: HeldOutRewrites, settings: ConfirmSettings, folder: Path) -> dict[str, int]:
    """Test on the validation prompts, write the result, and say who passed."""
    results = validate(held_out.rows, settings, held_out.failed)
    _save(held_out, ValidationResult, tuple(results), folder)
    n_passed = sum(result.passed for result in results)
    say(f"  {n_passed} of {len(results)} candidates hold on {held_out.n_prompts} validation prompts")
    return {"candidates": len(results), "passed": n_passed}


def save_confirmation(held_out: HeldOutRewrites, settings: ConfirmSettings, folder: Path) -> dict[str, int]:
    """Test on the test prompts, write the result, and name the confirmed attributes."""
    results = confirm(held_out.rows, settings, held_out.failed)
    _save(held_out, ConfirmationResult, tuple(results), folder)
    n_confirmed = sum(result.confirmed for result in results)
    say(f"  {n_confirmed} of {len(results)} candidates confirmed on {held_out.n_prompts} test prompts")
    return {"candidates": len(results), "confirmed": n_confirmed}


def _save(
    held_out: HeldOutRewrites, kind: type[R], results: tuple[Validation | Confirmation, ...], folder: Path
) -> None:
    write_jsonl(folder / ROWS, (measured_row(row) for own in held_out.rows.values() for row in own))
    content = {
        "results": results,
        "failed": held_out.failed,
        "already": held_out.already,
        "n_prompts": held_out.n_prompts,
        "verdicts": held_out.verdicts,
        "cut_for_judge": held_out.n_cut,
    }
    save(kind.model_validate(content), folder / RESULT)


def read_result(kind: type[R], folder: Path) -> R:
    """The result of a validation or confirmation."""
    return load(kind, folder / RESULT, "cda discover")


def read_rows(folder: Path) -> list[Measured]:
    """The rewrites behind a validation or confirmation, of all rewriters."""
    return [measured_of(row) for row in read_jsonl(folder / ROWS)]


def counted_rows(rows: Sequence[Measured], result: ValidationResult | ConfirmationResult) -> dict[str, list[Measured]]:
    """By candidate `id`, the rewrites of the rewriters that count for it; an empty list if there are none."""
    counted: dict[str, list[Measured]] = {entered.candidate: [] for entered in result.results}
    excluded = {
        (entered.candidate, each.rewriter)
        for entered in result.results
        for each in entered.rewriters
        if each.excluded is not None
    }
    for row in rows:
        if (row.candidate, row.rewriter) not in excluded:
            counted[row.candidate].append(row)
    return counted


def save_pairs(setup: Setup, run_folder: RunFolder, candidates: Sequence[Candidate], folder: Path) -> dict[str, int]:
    """Write pairs.json: the quality of each candidate's rewrites by the rewriters that count for it."""
    confirmed = run_folder.stage("confirm")
    rows = counted_rows(read_rows(confirmed), read_result(ConfirmationResult, confirmed))
    asks = setup.asks_about_pairs
    qualities = {
        candidate.id: pair_quality(
            rows[candidate.id],
            candidate.bias,
            generator(setup.seed, Stream.PAIR_QUALITY),
            # Rules are held to the measure as they rewrite, so that its labels find the attribute by construction.
            label=setup.llm.labeller() if asks else lambda _, responses, bias: [bias.shows(text) for text in responses],
            labelled_by="llm" if asks else "measure",
            llm=setup.llm.client() if asks else None,
        )
        for candidate in candidates
        if rows[candidate.id]
    }
    save(PairQualities(candidates=qualities), folder / PAIRS_RESULT)
    return {"candidates": len(qualities)}


def read_pairs(folder: Path) -> dict[str, PairQuality]:
    """The qualities that `save_pairs` wrote, by candidate `id`."""
    return load(PairQualities, folder / PAIRS_RESULT, "cda discover").candidates


def write_review(path: Path, candidates: Sequence[Candidate], results: Mapping[str, Validation]) -> None:
    """Write the file that a person edits."""
    text = _HEAD
    for candidate in candidates:
        entry: dict[str, object] = {"attribute": inert(candidate.attribute)}
        if (pooled := results[candidate.id].pooled) is not None:
            entry |= {"reward": round(pooled.reward.value, 4), "judge": round(pooled.judge.value, 4)}
        body = yaml.safe_dump({**entry, "keep": True}, sort_keys=False, allow_unicode=True, width=110)
        # Quoted, since an id may look like a number (12345678901234e5).
        text += f'"{candidate.id}":\n{textwrap.indent(body, "  ")}'
    write_text(path, text)


def reviewed(path: Path, candidates: Sequence[Candidate]) -> list[Candidate] | None:
    """The candidates that the person kept; None without a review, or without candidates.

    Raises:
        DataError: An entry without `keep: true` or `keep: false`, no entry at all for some of the candidates, or entries for
            others: a test against the person's intent would use up the test prompts.

    """
    if not path.is_file() or not candidates:
        return None
    content = read_yaml_mapping(path)
    asked = {candidate.id for candidate in candidates}
    if others := sorted(map(str, set(content) - asked)):
        raise DataError(
            f"{path}: {len(others)} of {len(content)} entries, such as {others[0][:80]!r}, are not among the {len(asked)} "
            "candidates that hold now: the file was written for another validation. Delete it, and start with --review to be "
            "asked anew, or without to test all of them"
        )
    # A deleted entry means that its candidate is dropped.
    if missing := [candidate.attribute for candidate in candidates if candidate.id not in content]:
        raise DataError(
            f"{path}: no entry for {len(missing)} of {len(asked)} candidates, such as {missing[0][:80]!r}. Give each one "
            "`keep: true` or `keep: false`; to be asked anew, delete the file and start with --review"
        )
    bad = [
        name for name, entry in content.items() if not (isinstance(entry, dict) and isinstance(entry.get("keep"), bool))
    ]
    if bad:
        raise DataError(f"{path}: {', '.join(map(str, bad))}: `keep: true` or `keep: false` is missing")
    return [candidate for candidate in candidates if content[candidate.id]["keep"]]
