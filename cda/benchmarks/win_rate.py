"""`cda win-rate`: one set of outputs over another, as shares with intervals and an exact test against one half."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from cda.data.sampled import Outputs, load_outputs
from cda.errors import DataError
from cda.finetuning.applied import check_subject
from cda.jobs.perform import Done, Job, Made, perform
from cda.provenance import versions
from cda.recipe.load import LoadedRecipe
from cda.records import Exclusions, count_reasons, prompt_id
from cda.report.numbers import count, counted, inert, p_equals
from cda.report.numbers import share as shown_share
from cda.report.scoring import scored_line
from cda.resources.artifacts import prompt_row
from cda.resources.named_scorer import Subject, scorer_settings
from cda.resources.scorers import open_scorer, planned_verdicts
from cda.results.base import Test
from cda.results.benchmarks import WinRate, WinRateResult
from cda.results.facts import JudgeFacts, PanelFacts, RewardModelFacts, Scorer
from cda.scorers.compared import Compared, Comparison, Rewards
from cda.stats.draws import drawn
from cda.stats.estimators import share_of
from cda.stats.proportions import exact_change_test

RESULT, PREFERENCES = "win_rate.json", "preferences.jsonl"
_SIDES = ("first", "second")


def win_rate(preferences: ArrayLike, prompt_ids: Sequence[str]) -> WinRate:
    """Win, tie and loss shares by the sign of preferences for the first text, shape (n,), NaN without a readable verdict; one
    at least is readable. Intervals are 95%, clustered by prompt if prompts repeat. A judge's preference for length is not
    corrected."""
    values = np.asarray(preferences, dtype=np.float64)
    read = ~np.isnan(values)
    margins, ids = values[read], [name for name, kept in zip(prompt_ids, read, strict=True) if kept]
    won, tied, lost = margins > 0, margins == 0, margins < 0
    # With one row per prompt this is the sign test; else the signs of whole prompts' wins minus losses are flipped.
    method = "exact sign test" if len(set(ids)) == len(ids) else "exact sign-flip over prompts"
    return WinRate(
        win_rate=share_of(won + 0.5 * tied, ids),
        wins=share_of(won, ids),
        ties=share_of(tied, ids),
        losses=share_of(lost, ids),
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
    limit: int | None = None,
) -> Done[WinRateResult]:
    """Compare the outputs of two files, the i-th to a prompt with the i-th; write win_rate.json and preferences.jsonl into
    `out`. With rewards, the higher one wins. CdaError: a file cannot be used, no outputs can be compared, or the scorer cannot
    be asked."""
    subject, settings = Subject("model", loaded.recipe.model), scorer_settings(loaded)
    check_subject(subject, settings)
    files = {side: load_outputs(path, columns, split) for side, path in zip(_SIDES, (first, second), strict=True)}
    comparisons, pairs, alone = _paired(*files.values())
    if not comparisons:
        raise DataError(
            f"{first} and {second}: no outputs can be compared, which is done prompt by prompt; "
            f"outputs: {alone}; pairs of them: {pairs}"
        )
    kept = set(drawn(sorted({prompt_id(prompt) for prompt, _, _ in comparisons}), limit, loaded.recipe.seed))
    n_all, comparisons = len(comparisons), [row for row in comparisons if prompt_id(row[0]) in kept]
    if n_all > len(comparisons):
        pairs = Exclusions(pairs.seen, {**pairs.reasons, "not drawn (--limit)": n_all - len(comparisons)})

    def plan(out: Path) -> list[str]:
        said = f"{len(comparisons)} comparisons (outputs: {alone}; pairs: {pairs})"
        return [subject.planned, f"outputs     {first} against {second}: {said}", f"result      {out / RESULT}"]

    def work(_: Path) -> Made[WinRateResult]:
        compared, facts = open_scorer(subject, settings, settings.shared_folder).compare(comparisons)
        margins = compared.margins(comparisons)
        reasons = [
            _undecided(row, compared) for row, margin in zip(comparisons, margins, strict=True) if np.isnan(margin)
        ]
        undecided = Exclusions(len(comparisons), count_reasons(reasons))
        if undecided.dropped == undecided.seen:
            raise DataError(f"{first} and {second}: nothing was decided; comparisons: {undecided}")
        result = WinRateResult(
            first=first,
            second=second,
            unit=compared.unit,
            scorer=facts,
            result=win_rate(margins, [prompt_id(prompt) for prompt, _, _ in comparisons]),
            without_counterpart=alone.dropped,
            excluded={f"rows of the {side} file": outputs.rows for side, outputs in files.items()}
            | {"outputs": alone, "pairs": pairs, "comparisons": undecided},
            seed=loaded.recipe.seed,
            versions=versions(),
        )
        preferences = [None if np.isnan(margin) else margin for margin in margins.tolist()]
        rows = (
            {"prompt": prompt_row(prompt), "first": mine, "second": theirs, "preference_for_first": preference}
            for (prompt, mine, theirs), preference in zip(comparisons, preferences, strict=True)
        )
        return Made(result, None, {RESULT: result, PREFERENCES: rows}, win_rate_text(result))

    job = Job("cda win-rate", RESULT, plan, work, partial(planned_verdicts, [subject], settings, comparisons))
    return perform(job, loaded, out)


def _paired(one: Outputs, other: Outputs) -> tuple[list[Comparison], Exclusions, Exclusions]:
    """The i-th output to a prompt with the other file's i-th, by places before exclusions: comparisons in the first file's
    order; pairs, and those that cannot be compared; outputs of both files, and those without a counterpart."""
    comparisons: list[Comparison] = []
    unusable, alone = list[str](), list[str]()
    n_pairs = 0
    for name in one.by_prompt.keys() ^ other.by_prompt.keys():
        lonely = one.by_prompt.get(name) or other.by_prompt[name]
        alone += ["to a prompt that the other file lacks"] * len(lonely.outputs)
    for name, mine in one.by_prompt.items():
        theirs = other.by_prompt.get(name)
        if theirs is None:
            continue
        if not (mine.whole and theirs.whole):
            alone += ["in a prompt with an unreadable row"] * (len(mine.outputs) + len(theirs.outputs))
            continue
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
    n = sum(len(placed.outputs) for file in (one, other) for placed in file.by_prompt.values())
    return comparisons, Exclusions(n_pairs, count_reasons(unusable)), Exclusions(n, count_reasons(alone))


def _undecided(comparison: Comparison, compared: Compared) -> str:
    if not isinstance(compared, Rewards):
        return "without a readable verdict"
    prompt, *texts = comparison
    if any(np.isnan(compared.of(prompt, text)) for text in texts):
        return f"with a text that is {compared.why_dropped}"
    return "with texts that are the same to the model once they are cut"


def win_rate_text(result: WinRateResult) -> str:
    """Text for a terminal: shares with their intervals, method and exclusions."""
    rates = result.result
    first, second = Path(result.first).name, Path(result.second).name
    shares = {"win rate": rates.win_rate, "wins": rates.wins, "ties": rates.ties, "losses": rates.losses}
    lines = [
        f"{first} over {second}, by {result.scorer.name}",
        *(f"{label:9} {shown_share(estimate)}" for label, estimate in shares.items()),
        f"n = {count(rates.win_rate)}; one half: p {p_equals(rates.test.p_value)} ({rates.test.method})",
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
        lines.append(f"Answers without a verdict: {counted(facts.reasons)}.")
    return lines


def _left_out(excluded: Mapping[str, Exclusions]) -> list[str]:
    why = {what: counted(rows.reasons) for what, rows in excluded.items() if rows.reasons}
    rows = [what for what in why if what not in ("outputs", "pairs")]
    lines = [f"Left out of {excluded[what].seen} {what}: {why[what]}." for what in rows]
    if "outputs" in why:
        n = excluded["outputs"].dropped
        lines.append(f"{n} outputs without a counterpart were left out: {why['outputs']}.")
    if "pairs" in why:
        lines.append(
            f"Left out of {excluded['pairs'].seen} pairs of outputs: {why['pairs']}. They are neither wins nor losses, so "
            "that a policy loses nothing by an empty answer."
        )
    return lines
