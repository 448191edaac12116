"""`cda win-rate`: one set of outputs over another, as shares with intervals and an exact test against one half."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from cda.data.sampled import Outputs, load_outputs
from cda.errors import DataError
from cda.files.jsonl import write_jsonl
from cda.finetuning.applied import check_subject
from cda.launch import is_main
from cda.provenance import versions
from cda.recipe.load import LoadedRecipe
from cda.records import Exclusions, count_reasons, prompt_id
from cda.report.numbers import count, inert, p_value
from cda.report.numbers import share as shown_share
from cda.report.scoring import scored_line
from cda.resources.artifacts import out_folder, prompt_row
from cda.resources.named_scorer import Subject, scorer_settings
from cda.resources.scorers import open_scorer
from cda.results.base import Test, save
from cda.results.benchmarks import WinRate, WinRateResult
from cda.results.facts import JudgeFacts, PanelFacts, RewardModelFacts, Scorer
from cda.scorers.compared import Compared, Comparison, Rewards
from cda.stats.proportions import exact_change_test, wilson_share

RESULT, PREFERENCES = "win_rate.json", "preferences.jsonl"
_SIDES = ("first", "second")


def win_rate(preferences: ArrayLike, prompt_ids: Sequence[str]) -> WinRate:
    """Win, tie and loss shares with their win rate.

    Only the sign of a preference counts. Intervals are 95%, clustered by prompt if prompts repeat. A judge's preference
    for length is not corrected: audit the judge for that.

    Args:
        preferences: A judge's preference for the first text of each comparison, both orders averaged, −1 to 1; NaN if no
            verdict was readable. Shape (n,).
        prompt_ids: Cluster of each row. Length n.

    Raises:
        DataError: No readable verdict, lengths differ, or a preference is not between −1 and 1.
    """
    values = np.asarray(preferences, dtype=np.float64)
    if values.shape != (len(prompt_ids),):
        raise DataError(f"{values.shape} preferences for {len(prompt_ids)} prompts: one each is needed")
    read = ~np.isnan(values)
    if not read.any():
        raise DataError(f"none of {len(values)} comparisons has a readable verdict, so there is no win rate")
    margins, ids = values[read], [name for name, kept in zip(prompt_ids, read, strict=True) if kept]
    if (np.abs(margins) > 1).any():
        raise DataError(
            f"a judge's preferences lie between -1 and 1, and these reach {np.abs(margins).max():g}: are they rewards?"
        )
    won, tied, lost = margins > 0, margins == 0, margins < 0
    # With one row per prompt this is the sign test; else the signs of whole prompts' wins minus losses are flipped.
    method = "exact sign test" if len(set(ids)) == len(ids) else "exact sign-flip over prompts"
    return WinRate(
        win_rate=wilson_share(won + 0.5 * tied, ids),
        wins=wilson_share(won, ids),
        ties=wilson_share(tied, ids),
        losses=wilson_share(lost, ids),
        test=Test(p_value=exact_change_test(lost, won, ids).p_value, method=method),
        n_unread=int((~read).sum()),
    )


def run_win_rate(
    first: str,
    second: str,
    loaded: LoadedRecipe,
    out: Path,
    columns: Mapping[str, str] | None = None,
    split: str = "train",
) -> tuple[WinRateResult, str]:
    """Compare the outputs of two files prompt by prompt, and write win_rate.json and preferences.jsonl into `out`.

    With rewards, the output with the higher one wins. If a prompt has several outputs, the i-th is compared with the i-th.

    Returns:
        The result; and a table for a terminal, with the names of the files written.

    Raises:
        CdaError: A file cannot be used, no outputs can be compared, or the scorer cannot be asked.
    """
    subject = Subject("model", loaded.recipe.model)
    check_subject(subject, scorer_settings(loaded))
    files = {side: load_outputs(path, columns, split) for side, path in zip(_SIDES, (first, second), strict=True)}
    comparisons, pairs, alone = _paired(*files.values())
    if not comparisons:
        raise DataError(
            f"{first} and {second}: no outputs can be compared, which is done prompt by prompt; "
            f"outputs: {alone}; pairs of them: {pairs}"
        )
    out = out_folder(out, RESULT, "cda win-rate")
    settings = scorer_settings(loaded)
    compared, facts = open_scorer(subject, settings).compare(comparisons, settings.shared_folder)
    margins = compared.margins(comparisons)
    reasons = [_undecided(*row, compared) for row in zip(comparisons, margins.tolist(), strict=True)]
    undecided = Exclusions(len(comparisons), count_reasons([reason for reason in reasons if reason]))
    if undecided.dropped == undecided.seen:
        raise DataError(f"{first} and {second}: nothing was decided; comparisons: {undecided}")
    result = WinRateResult(
        first=first,
        second=second,
        unit=compared.unit,
        scorer=facts,
        # The sign decides, and rewards have no largest size.
        result=win_rate(np.sign(margins), [prompt_id(prompt) for prompt, _, _ in comparisons]),
        without_counterpart=alone.dropped,
        excluded={
            **{f"rows of the {side} file": outputs.rows for side, outputs in files.items()},
            "outputs": alone,
            "pairs": pairs,
            "comparisons": undecided,
        },
        seed=loaded.recipe.seed,
        versions=versions(),
    )
    if is_main():
        save(result, out / RESULT)
        rows = zip(comparisons, margins.tolist(), strict=True)
        write_jsonl(
            out / PREFERENCES,
            (
                {
                    "prompt": prompt_row(prompt),
                    "first": mine,
                    "second": theirs,
                    "preference_for_first": None if np.isnan(margin) else margin,
                }
                for (prompt, mine, theirs), margin in rows
            ),
        )
    return result, f"{win_rate_text(result)}\nWritten: {out / RESULT}, {PREFERENCES}"


def _paired(one: Outputs, other: Outputs) -> tuple[list[Comparison], Exclusions, Exclusions]:
    """The i-th output to a prompt with the i-th of the other file, by their places before anything is left out.

    Returns:
        Comparisons in the order of the first file; pairs, and those that cannot be compared; outputs of both files, and
        those with nothing at their place in the other file.
    """
    comparisons: list[Comparison] = []
    unusable, alone = list[str](), list[str]()
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
                first, second = pair
                if first.text is None or second.text is None:
                    sides = zip(pair, _SIDES, strict=True)
                    unusable.append(" and ".join(f"{out.reason} ({side})" for out, side in sides if out.reason))
                else:
                    comparisons.append((mine.prompt, first.text, second.text))
    for name, theirs in other.by_prompt.items():
        if name not in one.by_prompt:
            alone += ["to a prompt that the other file lacks"] * len(theirs.outputs)
    n = sum(len(placed.outputs) for file in (one, other) for placed in file.by_prompt.values())
    return comparisons, Exclusions(n_pairs, count_reasons(unusable)), Exclusions(n, count_reasons(alone))


def _undecided(comparison: Comparison, margin: float, compared: Compared) -> str | None:
    """Why a comparison has no margin; None if it has one."""
    if not np.isnan(margin):
        return None
    if not isinstance(compared, Rewards):
        return "without a readable verdict"
    prompt, *texts = comparison
    if any(np.isnan(compared.of(prompt, text)) for text in texts):
        return "with a text that is too long for the model"
    return "with texts that are the same to the model once they are cut"


def win_rate_text(result: WinRateResult) -> str:
    """Text for a terminal: shares with their intervals, method and exclusions."""
    rates = result.result
    first, second = Path(result.first).name, Path(result.second).name
    shares = {"win rate": rates.win_rate, "wins": rates.wins, "ties": rates.ties, "losses": rates.losses}
    lines = [
        f"{first} over {second}, by {result.scorer.name}",
        *(f"{label:9} {shown_share(estimate)}" for label, estimate in shares.items()),
        f"n = {count(rates.win_rate)}; one half: p = {p_value(rates.test.p_value)} ({rates.test.method})",
        *_how(result.scorer),
        *_left_out(result.excluded),
    ]
    return "\n".join(map(inert, lines))


def _how(facts: Scorer) -> list[str]:
    """Truncated and dropped texts; or, of a judge, the effect of the answers' places on its verdicts."""
    if isinstance(facts, RewardModelFacts):
        dropped = f"; {facts.dropped} too long and left out" if facts.dropped else ""
        return [f"{scored_line(facts)}{dropped}."]
    lines = [f"{scored_line(facts)}."]
    judges = facts.judges.values() if isinstance(facts, PanelFacts) else (facts,)
    if facts.verdicts == "written" and any(judge.flipped for judge in judges):
        lines.append("A verdict that followed the place of an answer, and not its text, counts as a tie.")
    if isinstance(facts, JudgeFacts) and facts.reasons:
        lines.append(f"Answers without a verdict: {_counted(facts.reasons)}.")
    return lines


def _left_out(excluded: Mapping[str, Exclusions]) -> list[str]:
    lines = [
        f"Left out of {rows.seen} {what}: {_counted(rows.reasons)}."
        for what, rows in excluded.items()
        if rows.reasons and what not in ("outputs", "pairs")
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
