"""Win rate of one set of outputs over another, from a judge's preferences: shares, interval, exact test against one half."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from cda.arrays import FloatArray
from cda.data.sampled import Output, Outputs, load_outputs
from cda.errors import DataError
from cda.files.jsonl import write_jsonl
from cda.finetuning.applied import check_subject
from cda.launch import is_main
from cda.provenance import versions
from cda.recipe.load import LoadedRecipe
from cda.records import Exclusions, count_reasons, prompt_id
from cda.report.numbers import count, inert, p_value
from cda.report.numbers import share as share_from_numbers
from cda.report.scoring import scored_line
from cda.resources.artifacts import out_folder, prompt_row
from cda.resources.scorer_kinds import Subject
from cda.resources.scorers import compare, shared_folder
from cda.results.base import Test, save
from cda.results.benchmarks import WinRate, WinRateResult
from cda.results.facts import JudgeFacts, PanelFacts, RewardModelFacts, Scorer
from cda.scorers.compared import Compared, Comparison, Rewards
from cda.stats.proportions import exact_change_test, share


def win_rate(preferences: ArrayLike, prompt_ids: Sequence[str]) -> WinRate:
    """Win, tie and loss shares with their win rate.

    The sign of a preference decides, whatever its size. Intervals are 95%, clustered by prompt where prompts repeat. No
    correction is made for a judge's taste for length: audit the judge for that.

    Args:
        preferences: Of a judge for the first text of each comparison, both orders averaged, −1 to 1; NaN where it gave no
            readable verdict. Shape (n,).
        prompt_ids: Cluster of each row. Length n.

    Raises:
        DataError: Nothing was read, lengths differ, or a preference is not between −1 and 1.
    """
    values = np.asarray(preferences, dtype=np.float64)
    if values.shape != (len(prompt_ids),):
        raise DataError(f"{values.shape} preferences for {len(prompt_ids)} prompts: one each is needed")
    read = ~np.isnan(values)
    if not read.any():
        raise DataError(f"none of {len(values)} comparisons has a readable verdict, so there is no win rate")
    signs, ids = values[read], [one for one, kept in zip(prompt_ids, read, strict=True) if kept]
    if (np.abs(signs) > 1).any():
        raise DataError(
            f"a judge's preferences lie between -1 and 1, and these reach {np.abs(signs).max():g}: are they rewards?"
        )
    won, tied, lost = signs > 0, signs == 0, signs < 0
    win, tie, loss = (share(one, ids) for one in (won, tied, lost))
    return WinRate(
        win_rate=share(won + 0.5 * tied, ids),
        wins=win,
        ties=tie,
        losses=loss,
        test=_test(won, lost, ids),
        n_unread=int((~read).sum()),
    )


def _test(won: ArrayLike, lost: ArrayLike, prompt_ids: Sequence[str]) -> Test:
    """With a prompt a row this is the sign test; else the signs of whole prompts' wins minus losses are flipped."""
    p_value = exact_change_test(lost, won, prompt_ids).p_value
    alone = len(set(prompt_ids)) == len(prompt_ids)
    return Test(p_value=p_value, method="exact sign test" if alone else "exact sign-flip over prompts")


RESULT, PREFERENCES = "win_rate.json", "preferences.jsonl"
_SIDES = ("first", "second")


@dataclass(frozen=True, slots=True)
class Paired:
    """Outputs of two files to the same prompts.

    Attributes:
        comparisons: In the order of the first file.
        pairs: Outputs that stand at the same place, and those of them that cannot be compared.
        alone: Outputs of both files, and those with nothing at their place in the other file.
    """

    comparisons: tuple[Comparison, ...]
    pairs: Exclusions
    alone: Exclusions


def run_win_rate(
    first: str,
    second: str,
    loaded: LoadedRecipe,
    out: Path,
    columns: Mapping[str, str] | None = None,
    split: str = "train",
) -> tuple[WinRateResult, str]:
    """Compare the outputs of two files prompt by prompt, and write win_rate.json and preferences.jsonl.

    Args:
        first: Outputs, as `load_outputs` reads them: rows of prompt and response.
        second: Outputs to the same prompts. Where a prompt has several, the i-th is compared with the i-th.
        loaded: The scorer and how it is asked. Of a scorer that gives rewards, the higher one wins.
        out: Folder; made where it is not there.
        columns: Our column to the files': prompt, response, responses.
        split: For sources with several.

    Returns:
        The result; and a table for a terminal, with what was written.

    Raises:
        CdaError: A file cannot be used, no outputs can be compared, or the scorer cannot be asked.
    """
    subject = Subject("model", loaded.recipe.model)
    check_subject(subject, loaded)
    files = [load_outputs(one, columns, split) for one in (first, second)]
    paired = paired_outputs(*files)
    _check_some(paired, first, second)
    out = out_folder(out, RESULT, "cda win-rate")
    compared, facts = compare(subject, paired.comparisons, loaded, shared_folder(loaded))
    margins = compared.margins(paired.comparisons)
    undecided = _undecided(paired.comparisons, margins, compared)
    if undecided.dropped == undecided.seen:
        raise DataError(f"{first} and {second}: nothing was decided; comparisons: {undecided}")
    ids = [prompt_id(prompt) for prompt, _, _ in paired.comparisons]
    # The sign decides, and rewards have no largest size.
    result = WinRateResult(
        first=first,
        second=second,
        unit=compared.unit,
        scorer=facts,
        result=win_rate(np.sign(margins), ids),
        without_counterpart=paired.alone.dropped,
        excluded={
            **{f"rows of the {side} file": one.rows for side, one in zip(_SIDES, files, strict=True)},
            "outputs": paired.alone,
            "pairs": paired.pairs,
            "comparisons": undecided,
        },
        seed=loaded.recipe.seed,
        versions=versions(),
    )
    if is_main():
        save(result, out / RESULT)
        rows = zip(paired.comparisons, margins.tolist(), strict=True)
        write_jsonl(out / PREFERENCES, (_row(*each) for each in rows))
    return result, f"{win_rate_text(result)}\nWritten: {out / RESULT}, {PREFERENCES}"


def paired_outputs(one: Outputs, other: Outputs) -> Paired:
    """The i-th output to a prompt with the i-th of the other file, by their places before anything is left out."""
    comparisons: list[Comparison] = []
    bad, alone = list[str](), list[str]()
    n_pairs = 0
    for name, mine in one.by_prompt.items():
        theirs = other.by_prompt.get(name)
        if theirs is None:
            alone += ["to a prompt that the other file lacks"] * len(mine.outputs)
        elif not (mine.whole and theirs.whole):
            alone += ["beside an unreadable row of their prompt"] * (len(mine.outputs) + len(theirs.outputs))
        else:
            difference = abs(len(mine.outputs) - len(theirs.outputs))
            alone += ["more to their prompt than the other file has"] * difference
            for pair in zip(mine.outputs, theirs.outputs, strict=False):
                n_pairs += 1
                if pair[0].text is None or pair[1].text is None:
                    bad.append(_why_bad(pair))
                else:
                    comparisons.append((mine.prompt, pair[0].text, pair[1].text))
    for name, theirs in other.by_prompt.items():
        if name not in one.by_prompt:
            alone += ["to a prompt that the other file lacks"] * len(theirs.outputs)
    n = sum(len(placed.outputs) for file in (one, other) for placed in file.by_prompt.values())
    return Paired(tuple(comparisons), Exclusions(n_pairs, count_reasons(bad)), Exclusions(n, count_reasons(alone)))


def _why_bad(pair: Sequence[Output]) -> str:
    return " and ".join(f"{one.reason} ({side})" for side, one in zip(_SIDES, pair, strict=True) if one.reason)


def _check_some(paired: Paired, first: str, second: str) -> None:
    if not paired.comparisons:
        raise DataError(
            f"{first} and {second}: no outputs can be compared, which is done prompt by prompt; "
            f"outputs: {paired.alone}; pairs of them: {paired.pairs}"
        )


def _undecided(comparisons: Sequence[Comparison], margins: FloatArray, compared: Compared) -> Exclusions:
    """Comparisons without a margin, by the reason for it."""
    without = [one for one, margin in zip(comparisons, margins, strict=True) if np.isnan(margin)]
    return Exclusions(len(comparisons), count_reasons([_why_undecided(one, compared) for one in without]))


def _why_undecided(comparison: Comparison, compared: Compared) -> str:
    if not isinstance(compared, Rewards):
        return "without a readable verdict"
    prompt, *texts = comparison
    if any(np.isnan(compared.of(prompt, text)) for text in texts):
        return "with a text that is too long for the model"
    return "with texts that are the same to the model once they are cut"


def _row(comparison: Comparison, margin: float) -> dict[str, object]:
    prompt, first, second = comparison
    known = None if np.isnan(margin) else margin
    return {"prompt": prompt_row(prompt), "first": first, "second": second, "preference_for_first": known}


def win_rate_text(result: WinRateResult) -> str:
    """For a terminal: shares with their intervals, how they came about, and what was left out."""
    found = result.result
    first, second = (Path(one).name for one in (result.first, result.second))
    shares = {"win rate": found.win_rate, "wins": found.wins, "ties": found.ties, "losses": found.losses}
    n, p = count(found.win_rate), p_value(found.test.p_value)
    lines = [
        f"{first} over {second}, by {result.scorer.name}",
        *(f"{label:9} {share_from_numbers(one)}" for label, one in shares.items()),
        f"n = {n}; one half: p = {p} ({found.test.method})",
        *_how(result.scorer),
        *_left_out(result.excluded),
    ]
    return "\n".join(map(inert, lines))


def _how(facts: Scorer) -> list[str]:
    """How it was asked: cut and dropped texts, or, of a judge, what the places of the answers did to its verdicts."""
    if isinstance(facts, RewardModelFacts):
        dropped = f"; {facts.dropped} too long and left out" if facts.dropped else ""
        return [f"{scored_line(facts)}{dropped}."]
    lines = [f"{scored_line(facts)}."]
    each = facts.judges.values() if isinstance(facts, PanelFacts) else (facts,)
    if facts.verdicts == "written" and any(one.flipped for one in each):
        lines.append("A verdict that followed the place of an answer, and not its text, counts as a tie.")
    if isinstance(facts, JudgeFacts) and facts.reasons:
        lines.append(f"Answers without a verdict: {_counted(facts.reasons)}.")
    return lines


def _left_out(excluded: Mapping[str, Exclusions]) -> list[str]:
    lines = [
        f"Left out of {one.seen} {what}: {_counted(one.reasons)}."
        for what, one in excluded.items()
        if one.reasons and what not in ("outputs", "pairs")
    ]
    if reasons := excluded["outputs"].reasons:
        n = sum(reasons.values())
        lines.append(f"{n} outputs without a counterpart were left out: {_counted(reasons)}.")
    if reasons := excluded["pairs"].reasons:
        lines.append(
            f"Left out of {excluded['pairs'].seen} pairs of outputs: {_counted(reasons)}. They are neither wins nor "
            "losses, so that a policy loses nothing by an empty answer."
        )
    return lines


def _counted(reasons: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {reason}" for reason, number in reasons.items())
