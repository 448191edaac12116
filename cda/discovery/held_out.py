"""Stages `validate` and `confirm` of a discovery: rewrite held-out responses with every rewriter, judge, and test."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict, TypeVar

import yaml

from cda.biases import Bias
from cda.discovery.history import measured_of, measured_row
from cda.discovery.measure import ALREADY, UNCHANGED, Original, Rewritten, judged, measured
from cda.discovery.pair_quality import pair_quality
from cda.discovery.parts import AskedJudge, by_llm, responses_each
from cda.discovery.records import Candidate, Judge, PromptSamples, Reward
from cda.discovery.search import draw_originals
from cda.discovery.selection import confirm, validate
from cda.errors import DataError
from cda.files.jsonl import read_jsonl, write_jsonl, write_text
from cda.files.yaml_file import read_yaml_mapping
from cda.launch import say
from cda.recipe.load import LoadedRecipe
from cda.records import Direction, Prompt, RewriteRequest, prompt_id
from cda.report.numbers import inert
from cda.resources.llm_access import llm_access, llm_settings
from cda.resources.sources import prompt_settings
from cda.results.base import load, save
from cda.results.discover import Measured
from cda.results.evidence import (
    ConfirmationResult,
    ConfirmSettings,
    PairQualities,
    PairQuality,
    Strength,
    Validation,
    ValidationResult,
    Verdicts,
)
from cda.rewriting.asked import Labeller, Rewriter
from cda.run import RunFolder, Stage
from cda.stats.streams import Stream, generator

ROWS, RESULT = "rewrites.jsonl", "result.json"
# Streams of their own, beside those of the generations, which are numbered from 0.
R = TypeVar("R", ValidationResult, ConfirmationResult)
_LAZY = "unchanged, where the other rewriters changed more"


class _Counts(TypedDict):
    failed: dict[str, dict[str, dict[str, int]]]
    already: dict[str, dict[str, int]]
    n_prompts: int
    verdicts: Verdicts | None
    cut_for_judge: int


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Rewrites of held-out responses.

    Attributes:
        rows: By candidate `id`, of all rewriters, judged.
        failed: By candidate `id`, rewriter to the reasons and counts of what is missing.
        already: By candidate `id`, rewriter to the responses that were as they should become: measured so and not rewritten,
            or handed back by the rewriter as they were.
        n_prompts: Prompts whose responses were to be rewritten.
        verdicts: How verdicts came about; None where the judge gives rewards.
        n_cut: Comparisons that another scorer gave no preference on, because a side was cut at its maximum length.
    """

    rows: Mapping[str, tuple[Measured, ...]]
    failed: Mapping[str, Mapping[str, Mapping[str, int]]]
    already: Mapping[str, Mapping[str, int]]
    n_prompts: int
    verdicts: Verdicts | None = None
    n_cut: int = 0


def validation_originals(samples: Sequence[PromptSamples], loaded: LoadedRecipe) -> list[Original]:
    """Responses of the validation prompts, drawn with the seed."""
    return _originals(samples, loaded.recipe.discover.max_validation, loaded, Stream.VALIDATION_RESPONSES)


def held_out_originals(samples: Sequence[PromptSamples], loaded: LoadedRecipe) -> list[Original]:
    """Responses of the test prompts, drawn with the seed."""
    return _originals(samples, loaded.recipe.discover.max_test, loaded, Stream.TEST_RESPONSES)


def rewrite_all(
    candidates: Sequence[Candidate],
    originals: Sequence[Original],
    rewriters: Sequence[Rewriter],
    reward: Reward,
    judge: Judge,
    directions: Sequence[Direction],
) -> HeldOut:
    """Every response, for every candidate, by every rewriter; both scorers are asked about all of it."""
    found = {one.name: measured(candidates, originals, one, reward, directions) for one in rewriters}
    rows = {one.id: [row for made in found.values() for row in made.rows[one.id]] for one in candidates}
    apart = {one.id: told_apart(found, one.id) for one in candidates}
    looked_at = iter(judged([row for own in rows.values() for row in own], judge))
    return HeldOut(
        {name: tuple(next(looked_at) for _ in own) for name, own in rows.items()},
        {name: failed for name, (failed, _) in apart.items()},
        {name: already for name, (_, already) in apart.items()},
        len({prompt_id(prompt) for prompt, _ in originals}),
        judge.verdicts if isinstance(judge, AskedJudge) else None,
        judge.n_cut if isinstance(judge, AskedJudge) else 0,
    )


def told_apart(found: Mapping[str, Rewritten], candidate: str) -> tuple[dict[str, Mapping[str, int]], dict[str, int]]:
    """Failures of each rewriter, and how many responses were as they should become.

    A response that has the attribute already is no failure of the rewriter's. Of an attribute in words alone, its rewriter is
    the one who sees that, and hands the text back unchanged: otherwise what half of all responses have could never be
    confirmed. It is believed where at least half of the other rewriters that answered handed that very response back, too;
    a response that the others changed, or that none of them answered, was handed back out of laziness, which is a failure.
    A rewriter without others beside it is believed.

    Args:
        found: By rewriter, what it made of the same responses.
        candidate: The `id` of the one in question.
    """
    failed: dict[str, Mapping[str, int]] = {}
    already: dict[str, int] = {}
    for rewriter, own in found.items():
        others = [one for name, one in found.items() if name != rewriter]
        reasons, unchanged = own.failed[candidate], own.unchanged[candidate]
        n_agreed = sum(n for one, n in unchanged.items() if not others or _agreed(one, others, candidate))
        n_lazy = sum(unchanged.values()) - n_agreed
        lazy = {_LAZY: n_lazy} if n_lazy else {}
        failed[rewriter] = {why: n for why, n in reasons.items() if why not in (ALREADY, UNCHANGED)} | lazy
        already[rewriter] = reasons.get(ALREADY, 0) + n_agreed
    return failed, already


def confirm_settings(loaded: LoadedRecipe) -> ConfirmSettings:
    """How strict the recipe is."""
    section = loaded.recipe.discover
    return ConfirmSettings(
        validation_alpha=section.validation_alpha,
        test_alpha=section.test_alpha,
        correct=section.correct,
        r=section.required_rewriters,
        max_failed=section.max_failed,
        trim=section.trim,
    )


def run_validation(held_out: HeldOut, loaded: LoadedRecipe, folder: Path) -> dict[str, int]:
    """Test on the validation prompts, write the result, and say who passed."""
    found = validate(held_out.rows, confirm_settings(loaded), held_out.failed)
    save(ValidationResult(results=tuple(found), **_written(held_out, folder)), folder / RESULT)
    n_passed = sum(one.passed for one in found)
    say(f"  {n_passed} of {len(found)} candidates hold on {held_out.n_prompts} validation prompts")
    return {"candidates": len(found), "passed": n_passed}


def run_confirmation(held_out: HeldOut, loaded: LoadedRecipe, folder: Path) -> dict[str, int]:
    """Test on the test prompts, write the result, and say what is confirmed."""
    found = confirm(held_out.rows, confirm_settings(loaded), held_out.failed)
    save(ConfirmationResult(results=tuple(found), **_written(held_out, folder)), folder / RESULT)
    n_confirmed = sum(one.confirmed for one in found)
    say(f"  {n_confirmed} of {len(found)} candidates confirmed on {held_out.n_prompts} test prompts")
    return {"candidates": len(found), "confirmed": n_confirmed}


def read_result(kind: type[R], folder: Path) -> R:
    """What a validation or confirmation wrote."""
    return load(kind, folder / RESULT, "cda discover")


def read_rows(folder: Path) -> list[Measured]:
    """The rewrites behind it, of all rewriters."""
    return [measured_of(row) for row in read_jsonl(folder / ROWS)]


def counted_rows(rows: Sequence[Measured], result: ValidationResult | ConfirmationResult) -> dict[str, list[Measured]]:
    """By candidate `id`, the rewrites of the rewriters that count for it.

    Args:
        rows: Of a validation or confirmation.
        result: What `read_result` gives of it; every result has its place, if need be with no rows.
    """
    counted: dict[str, list[Measured]] = {one.candidate: [] for one in result.results}
    excluded = {
        (one.candidate, each.rewriter) for one in result.results for each in one.rewriters if each.excluded is not None
    }
    for row in rows:
        if (row.candidate, row.rewriter) not in excluded:
            counted[row.candidate].append(row)
    return counted


def _agreed(response: RewriteRequest, others: Sequence[Rewritten], candidate: str) -> bool:
    """Whether at least one, and half or more, of the others that answered handed this response back as it was."""
    n_back = sum(response in one.unchanged[candidate] for one in others)
    n_answered = sum(response in one.unchanged[candidate] or response in one.changed[candidate] for one in others)
    return n_back > 0 and 2 * n_back >= n_answered


def _originals(
    samples: Sequence[PromptSamples], most: int | None, loaded: LoadedRecipe, stream: Stream
) -> list[Original]:
    rng = generator(loaded.recipe.seed, stream)
    return draw_originals(samples, len(samples) if most is None else most, rng, responses_each(loaded))


def _written(held_out: HeldOut, folder: Path) -> _Counts:
    """Write the rewrites, and return what the result says beside its numbers."""
    write_jsonl(folder / ROWS, (measured_row(row) for own in held_out.rows.values() for row in own))
    return {
        "failed": {name: {who: dict(why) for who, why in one.items()} for name, one in held_out.failed.items()},
        "already": {name: dict(one) for name, one in held_out.already.items()},
        "n_prompts": held_out.n_prompts,
        "verdicts": held_out.verdicts,
        "cut_for_judge": held_out.n_cut,
    }


PAIRS_RESULT = "pairs.json"


def pairs_stage(loaded: LoadedRecipe, run_folder: RunFolder, candidates: Sequence[Candidate]) -> Stage:
    """The rewrites of the confirmation, and who looks at them."""
    asks = _asks(loaded)
    settings: dict[str, Any] = {
        "candidates": [one.id for one in candidates],
        "asked": asks,
        "schema_version": PairQualities.current_schema(),
        "seed": loaded.recipe.seed,
    }
    if asks:
        settings |= {"llm": llm_settings(loaded.recipe.llm), "prompts": prompt_settings(loaded.prompts, "label")}
    return Stage("pairs", settings, {"confirm": run_folder.output_of("confirm")})


def run_pairs(
    loaded: LoadedRecipe, run_folder: RunFolder, candidates: Sequence[Candidate], folder: Path
) -> dict[str, int]:
    """Write pairs.json: what was found of the rewrites of each candidate by the rewriters that count for it."""
    confirmed = run_folder.stage("confirm")
    rows = counted_rows(read_rows(confirmed), read_result(ConfirmationResult, confirmed))
    llm = llm_access(loaded).client() if _asks(loaded) else None
    label: Labeller = llm_access(loaded).labeller() if llm is not None else _measured_labels
    found = {
        one.id: pair_quality(
            rows[one.id],
            one.bias,
            generator(loaded.recipe.seed, Stream.PAIR_QUALITY),
            label=label,
            # Rules are held to the measure as they rewrite, so that its labels find the attribute by construction.
            labelled_by="measure" if llm is None else "llm",
            llm=llm,
        )
        for one in candidates
        if rows[one.id]
    }
    save(PairQualities(candidates=found), folder / PAIRS_RESULT)
    return {"candidates": len(found)}


def read_pairs(folder: Path) -> dict[str, PairQuality]:
    """What `run_pairs` wrote, by candidate `id`."""
    return load(PairQualities, folder / PAIRS_RESULT, "cda discover").candidates


def _asks(loaded: LoadedRecipe) -> bool:
    return by_llm(loaded) and loaded.recipe.discover.pair_quality


def _measured_labels(prompts: Sequence[Prompt], responses: Sequence[str], bias: Bias) -> list[bool | None]:  # noqa: ARG001
    """Without an LLM: what the bias file's own measure says; None where it has none."""
    return [bias.shows(response) for response in responses]


FILE = "review.yaml"
_HEAD = """\
# Candidates that held on the validation prompts. Write `keep: false` for those that are not worth a test, such as what
# makes an answer better, or what says the same as another; then run the same command again. The test prompts are used once.
"""


def write_review(path: Path, candidates: Sequence[Candidate], results: Mapping[str, Validation]) -> None:
    """Write the file that a person edits."""
    body = "".join(_entry(one, results[one.id].pooled) for one in candidates)
    write_text(path, f"{_HEAD}{body}")


def reviewed(path: Path, candidates: Sequence[Candidate]) -> list[Candidate] | None:
    """What the person kept; None where nobody was asked, or there is nobody to keep.

    Raises:
        DataError: An entry without `keep: true` or `keep: false`, no entry at all for some of the candidates, or entries for
            others: to test against what a person meant would use up the test prompts.
    """
    if not path.is_file() or not candidates:
        return None
    content = read_yaml_mapping(path)
    asked = {one.id for one in candidates}
    if others := sorted(map(str, set(content) - asked)):
        raise DataError(
            f"{path}: {len(others)} of {len(content)} entries, such as {others[0][:80]!r}, are not among the {len(asked)} "
            "candidates that hold now: the file was written for another validation. Delete it, and start with --review to be "
            "asked anew, or without to test all of them"
        )
    # Whoever deletes an entry means to drop it.
    if missing := [one.attribute for one in candidates if one.id not in content]:
        raise DataError(
            f"{path}: no entry for {len(missing)} of {len(asked)} candidates, such as {missing[0][:80]!r}. Give each one "
            "`keep: true` or `keep: false`; to be asked anew, delete the file and start with --review"
        )
    bad = [
        name
        for name, entry in content.items()
        if not isinstance(entry, dict) or not isinstance(entry.get("keep"), bool)
    ]
    if bad:
        raise DataError(f"{path}: {', '.join(map(str, bad))}: `keep: true` or `keep: false` is missing")
    return [one for one in candidates if content[one.id]["keep"]]


def _entry(candidate: Candidate, pooled: Strength | None) -> str:
    entry = {
        "attribute": inert(candidate.attribute),
        **({} if pooled is None else {"reward": round(pooled.reward.value, 4), "judge": round(pooled.judge.value, 4)}),
        "keep": True,
    }
    body = yaml.safe_dump(entry, sort_keys=False, allow_unicode=True, width=110)
    # Quoted, since an id may look like a number (12345678901234e5).
    return f'"{candidate.id}":\n{textwrap.indent(body, "  ")}'
