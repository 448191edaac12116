"""Held-out prompts of a discovery: rewrites by every rewriter, judged and tested, their quality, and a person's review."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple, TypeVar

import yaml

from cda.discovery.candidates import (
    ALREADY,
    UNCHANGED,
    CandidateRewrites,
    Judge,
    Reward,
    Text,
    judged,
    measure_candidates,
    read_measured,
)
from cda.discovery.evidence import confirm, validate
from cda.discovery.pair_quality import pair_quality
from cda.discovery.setup import AskedJudge, Setup
from cda.errors import DataError
from cda.files.jsonl import write_jsonl, write_text
from cda.files.yaml_file import read_yaml_mapping
from cda.launch import say
from cda.records import Direction, prompt_id
from cda.report.numbers import inert
from cda.results.base import load, save
from cda.results.discover import CandidateRecord, Measured
from cda.results.evidence import (
    Confirmation,
    ConfirmationResult,
    ConfirmSettings,
    HeldOutResult,
    PairQualities,
    PairQuality,
    Validation,
    ValidationResult,
)
from cda.rewriting.rewriter import Rewriter
from cda.run import RunFolder
from cda.stats.draws import Stream, generator

ROWS, RESULT, PAIRS_RESULT, REVIEW = "rewrites.jsonl", "result.json", "pairs.json", "review.yaml"
R = TypeVar("R", ValidationResult, ConfirmationResult)
_LAZY = "unchanged, where the other rewriters changed more"
_HEAD = """\
# Candidates that held on the validation prompts. Write `keep: false` for those that are not worth a test, such as what
# makes an answer better, or what says the same as another; then run the same command again. The test prompts are used once.
"""


class HeldOutRewrites(NamedTuple):
    """Judged rewrites of held-out responses, by candidate `id`, of all rewriters; and the counts that are saved next to results."""

    rows: Mapping[str, Sequence[Measured]]
    counts: HeldOutResult


def rewrite_all(
    candidates: Sequence[CandidateRecord],
    originals: Sequence[Text],
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
    rows: Mapping[str, Sequence[Measured]] = {
        name: [row for by_candidate in made.values() for row in by_candidate[name].rows] for name in names
    }
    apart = {name: failed_or_already({who: own[name] for who, own in made.items()}) for name in names}
    rows = judged(rows, judge)
    counts = HeldOutResult(
        failed={name: failed for name, (failed, _) in apart.items()},
        already={name: already for name, (_, already) in apart.items()},
        n_prompts=len({prompt_id(prompt) for prompt, _ in originals}),
        verdicts=judge.verdicts if isinstance(judge, AskedJudge) else None,
        cut_for_judge=judge.n_cut if isinstance(judge, AskedJudge) else 0,
    )
    return HeldOutRewrites(rows, counts)


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


def save_tested(
    kind: type[ValidationResult | ConfirmationResult],
    made: HeldOutRewrites,
    settings: ConfirmSettings,
    folder: Path,
    told_later: bool = False,
) -> dict[str, int]:
    """Validate or confirm every candidate, write rows and result, say who holds (unless a later correction decides), and return the counts
    of the stage."""
    results: Sequence[Validation] | Sequence[Confirmation]
    rows, counts = made
    if kind is ValidationResult:
        results = validate(rows, settings, counts.failed)
        name, told, n = "passed", "hold on {} validation", sum(result.passed for result in results)
    else:
        results = confirm(rows, settings, counts.failed)
        name, told, n = "confirmed", "confirmed on {} test", sum(result.confirmed for result in results)
    write_jsonl(folder / ROWS, (asdict(row) for own in rows.values() for row in own))
    save(kind.model_validate(dict(counts) | {"results": results}), folder / RESULT)
    if not told_later:
        say(f"  {n} of {len(results)} candidates {told.format(counts.n_prompts)} prompts")
    return {"candidates": len(results), name: n}


def read_result(kind: type[R], folder: Path) -> R:
    return load(kind, folder / RESULT, "cda discover")


def counted_rows(folder: Path, result: ValidationResult | ConfirmationResult) -> dict[str, list[Measured]]:
    """By candidate `id`, the rewrites in the folder of the rewriters that count for it; an empty list if there are none."""
    counted: dict[str, list[Measured]] = {entered.candidate: [] for entered in result.results}
    excluded = {
        (entered.candidate, each.rewriter)
        for entered in result.results
        for each in entered.rewriters
        if each.excluded is not None
    }
    for row in read_measured(folder / ROWS):
        if (row.candidate, row.rewriter) not in excluded:
            counted[row.candidate].append(row)
    return counted


def save_pairs(setup: Setup, run: RunFolder, candidates: Sequence[CandidateRecord], folder: Path) -> dict[str, int]:
    """Write pairs.json: the quality of each candidate's rewrites by the rewriters that count for it."""
    confirmed = run.stage("confirm")
    rows = counted_rows(confirmed, read_result(ConfirmationResult, confirmed))
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


def write_review(path: Path, candidates: Sequence[CandidateRecord], results: Mapping[str, Validation]) -> None:
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


def reviewed(path: Path, candidates: Sequence[CandidateRecord]) -> list[CandidateRecord] | None:
    """The candidates that the person kept; None without a review, or without candidates.

    DataError for an entry without `keep: true` or `keep: false`, for none at all for some of the candidates, and for entries of
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
            "asked again, or without to test all of them"
        )
    # A deleted entry means that its candidate is dropped.
    if missing := [candidate.attribute for candidate in candidates if candidate.id not in content]:
        raise DataError(
            f"{path}: no entry for {len(missing)} of {len(asked)} candidates, such as {missing[0][:80]!r}. Give each one "
            "`keep: true` or `keep: false`; to be asked again, delete the file and start with --review"
        )
    bad = [
        name for name, entry in content.items() if not (isinstance(entry, dict) and isinstance(entry.get("keep"), bool))
    ]
    if bad:
        raise DataError(f"{path}: {', '.join(map(str, bad))}: `keep: true` or `keep: false` is missing")
    return [candidate for candidate in candidates if content[candidate.id]["keep"]]
