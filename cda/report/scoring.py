"""Scoring by reward models and judges in tables and sentences: how it was done, what it took in time, calls and dollars, and
accuracy by section."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from cda.records import PERCENT
from cda.report.names import called, scored_by
from cda.report.numbers import MINUS, count, counted, inert, listed, n_of, p_value, share
from cda.report.tables import TESTED, Table, levels_table, table
from cda.results.base import Estimate
from cda.results.benchmarks import AskedModel, QualityResult, SetQuality
from cda.results.effects import Level
from cda.results.facts import JudgeFacts, JudgeReasons, PanelFacts, RunFacts, Scorer, StageRun
from cda.stats.accuracy import FALL
from cda.stats.estimators import ROUNDING

_ONE_ORDER = "one order each, drawn, so that a taste for a place stays in each margin"
_REASONS: dict[JudgeReasons, str] = {
    "before": ", reasons before the verdict",
    "after": ", verdict before the reasons",
    "none": ", no reasons asked for",
}
FORMATS = {
    "rewardbench": "RewardBench",
    "rewardbench-2": "RewardBench 2",
    "rm-bench": "RM-Bench",
    "llmbar": "LLMBar",
    "pairs": "preference pairs",
    "outputs": "outputs over others",
}
MEANINGS = {
    "rewardbench": "Section: mean of its subsets by their pairs in the benchmark (math-prm weighs as much as all code). Overall: "
    "mean of the sections; the leaderboard's prior sets are left out.",
    "rewardbench-2": "Right where the chosen response has the highest reward of all; Ties by its own rule. Overall: mean of the "
    "subsets.",
    "rm-bench": "Easy, normal, hard: the chosen response is in richer, the same or plainer style than the rejected one. Domains "
    "weigh alike.",
    "llmbar": "Right where the better output has the higher reward.",
    "pairs": "Right where the chosen response has the higher reward. Overall: all pairs.",
    "outputs": "Win rate: wins and half of the ties, as a share of the comparisons; 50%: neither set of outputs is preferred. The i-th output "
    "to a prompt is compared with the i-th of the other file; an empty or missing one is neither a win nor a loss.",
}
FLAGS = (
    f"fell: down by more than 1 point; fell*: and the {PERCENT} interval lies below 0. kept: the interval lies above −1 point. "
    "Holm over the sections of all files."
)


def scored_line(facts: Scorer) -> str:
    """Precision and cut texts of a reward model; how a judge was asked."""
    if isinstance(facts, PanelFacts):
        return f"{_panel(facts)}. {'; '.join(f'{name}: {scored_line(judge)}' for name, judge in facts.judges.items())}"
    if isinstance(facts, JudgeFacts):
        place = (f"; {facts.repeats} times each" if facts.repeats > 1 else "") + _place(facts) + _prompt(facts)
        if facts.orders == "one":
            return f"Asked {facts.comparisons} comparisons in {_ONE_ORDER}; {facts.unread} unreadable{place}"
        return (
            f"Asked {facts.comparisons} comparisons in both orders; {facts.unread} unreadable, "
            f"{facts.half_read} readable in one order only, {facts.flipped} followed the place{place}"
        )
    cut = f"{facts.truncated} of {facts.texts} texts cut"
    if facts.how is not None:
        how = scored_by(facts.how)
        return f"{how}; {cut}" if facts.truncated else how
    return f"Scored in {shown_precision(facts.precision)}; {cut} at {facts.max_length_tokens} tokens"


def shown_precision(precision: str | None) -> str:
    """A precision in words; the setting of 8-bit weights has no hyphen."""
    return (precision or "").replace("8bit", "8-bit")


def asked_line(facts: Scorer) -> str:
    """The same for a benchmark: also a reward model's form and the texts left out, and a judge's unreadable answers."""
    if isinstance(facts, PanelFacts):
        return f"{_panel(facts)}. {'; '.join(f'{name}: {asked_line(judge)}' for name, judge in facts.judges.items())}"
    more = []
    if isinstance(facts, JudgeFacts):
        more += [f"answers that could not be read: {counted(facts.reasons)}"] if facts.reasons else []
    else:
        more += [f"texts as {facts.form}"] if facts.form is not None else []
        more += [f"{facts.dropped} too long and left out"] if facts.dropped else []
    return "; ".join([scored_line(facts), *more])


def _place(facts: JudgeFacts) -> str:
    """A judge's preference for the first place; with an interval if one order was asked."""
    bias, interval = facts.position_bias, facts.position
    if bias is None:
        return ""
    ends = f" [{interval.low:+.2f}, {interval.high:+.2f}] (n = {interval.n})" if interval else ""
    return f"; first place minus second: {bias:+.2f}{ends}"


def _prompt(facts: JudgeFacts) -> str:
    """The prompt of a judge, and the names under which its server answered; empty for a function."""
    if facts.prompt is None or facts.verdict_reasons is None:
        return ""
    counts = ", ".join(f"{inert(name)} ({n})" for name, n in facts.answered_by.items())
    rubric = f", overall and by {listed(facts.criteria)}" if facts.criteria else ""
    where = f"; asked at {inert(facts.asked_at)}" if facts.asked_at else ""
    asked = f"{where}; prompt {facts.prompt}{_REASONS[facts.verdict_reasons]}{rubric}"
    return f"{asked}{f'; answered by {counts}' if counts else ''}"


def _panel(facts: PanelFacts) -> str:
    rule = "the mean of their preferences" if facts.rule == "mean" else "the side that more of them prefer"
    return (
        f"A panel of {len(facts.judges)} judges, {rule}; of {facts.comparisons} comparisons "
        f"{facts.unread} without a verdict of any judge, {facts.partly_judged} with verdicts of some only"
    )


def llm_table(stages: Mapping[str, StageRun]) -> Table | None:
    """Calls, tokens and dollars of each stage and LLM; None if no LLM was asked."""
    header = ("stage and LLM", "asked", "from the cache", "no usable answer", "tokens in", "tokens out", "dollars")
    rows = (
        (f"{name}, {llm}", f"{use.asked:,}", f"{use.cached:,}", f"{use.unusable:,}", f"{use.input_tokens:,}",
         f"{use.output_tokens:,}", _dollars(use.dollars))
        for name, stage in stages.items()
        for llm, use in stage.llm.items()
    )  # fmt: skip
    return table("What was asked of an LLM", header, rows)


def cost_sentences(stages: Mapping[str, StageRun]) -> tuple[str, ...]:
    """The total cost of the run, and the limits of the numbers."""
    uses = [use for stage in stages.values() for use in stage.llm.values()]
    if not uses:
        return ("No LLM was asked, so nothing was paid for answers.",)
    priced = [use.dollars for use in uses if use.dollars is not None]
    total = f"{sum(use.asked for use in uses):,} answers were asked for"
    total += f", for {_dollars(sum(priced))}" if priced else ", at a price that the recipe does not give (llm.prices)"
    unpriced = any(use.dollars is None and use.asked for use in uses)
    total += "; some of the models have no price in the recipe." if priced and unpriced else "."
    sentences = [
        total,
        "Tokens are those that the server counted for what was asked when a stage was finished. Answers from the cache cost nothing "
        "then: another run paid for them, or this one did and was interrupted.",
    ]
    if uncounted := sum(use.uncounted for use in uses):
        sentences.append(
            f"Of {uncounted:,} answers the server counted no tokens; they are missing in tokens and dollars."
        )
    return tuple(sentences)


def place_facts(run: RunFacts) -> tuple[tuple[str, str], ...]:
    """The code and the machine of a run."""
    facts = {"commit of this package": run.git, "Python": run.python, "machine": run.platform}
    return tuple((name, value) for name, value in facts.items() if value)


def _dollars(value: float | None) -> str:
    """Dollars to the cent, or to the first digit that is not 0."""
    if value is None:
        return "no price given"
    return f"${value:,.2f}" if value >= 0.1 or value == 0 else f"${value:.2g}"


def set_tables(result: SetQuality) -> list[Table]:
    """Sections and overall of a set, its subsets if they differ from these, and RM-Bench's matrix of each scoring."""
    if result.win_rates:
        return [win_table(result)]
    named = f"{result.name} ({FORMATS[result.format]})"
    tables = _group_table(f"{named}: sections", result.shown, result)
    if [group.name for group in result.subsets] != [group.name for group in result.sections]:
        tables += _group_table(f"{named}: subsets", result.subsets, result)
    return tables + [_style_matrix(result.cells, label) for label in result.labels if result.cells]


def win_table(result: SetQuality) -> Table:
    """Win rate, wins, ties and losses under each scoring, with the test that neither set of outputs is preferred."""
    rows = []
    for label, rates in result.win_rates.items():
        found = accuracy_of(result.overall, label)
        shares = (share(each) for each in (found, rates.wins, rates.ties, rates.losses))
        rows.append((label, *shares, p_value(rates.test.p_value), count(found)))
    method = next(iter(result.win_rates.values())).test.method
    header = ("scoring", "win rate", "wins", "ties", "losses", "p of one half", "n")
    return Table(f"{result.name}, with {PERCENT} intervals; p: {method}", header, tuple(rows))


def _group_table(what: str, groups: Sequence[Level], result: SetQuality) -> list[Table]:
    labels = result.labels
    columns: dict[str, Callable[[Level], str]] = {label: partial(_with_error, label) for label in labels}
    columns["n"] = lambda group: count(accuracy_of(group, labels[0]))
    columns["ties"] = lambda group: " / ".join(map(str, group.ties.values()))
    if result.n_expected:
        columns["in the benchmark"] = lambda group: str(result.n_expected.get(group.name, ""))
    if len(labels) > 1:
        columns["change (points)"] = lambda group: (
            f"{tenth_points(accuracy_of(group, 'change'))} ± {tenths(group.errors['change'])}"
        )
        columns |= {"flag": flag, **TESTED}
    caption = f"{what}, with {PERCENT} intervals and ± 1 standard error"
    found = levels_table(caption, "group", ((group.name, group) for group in groups), columns)
    return [found] if found else []


def accuracy_of(group: Level, moment: str) -> Estimate:
    """Its accuracy under a scoring, or its `change`."""
    found = group.of("accuracy", moment)
    assert found is not None  # a group has items
    return found


def _style_matrix(cells: Sequence[Level], label: str) -> Table:
    """RM-Bench's matrix of one scoring: chosen style down, rejected style across."""
    styles = ("concise", "detailed", "detailed, Markdown")
    known = {cell.name: _with_error(label, cell) for cell in cells}
    rows = tuple((f"chosen {style}", *(known[f"{i} over {j}"] for j in (1, 2, 3))) for i, style in enumerate(styles, 1))
    return Table(f"Style matrix, {label}", ("", *(f"rejected {style}" for style in styles)), rows)


def set_notes(result: SetQuality, unit: str) -> list[str]:
    """Sentences on a set's exclusions, its rule for ties (by the margins' unit), and its share of the benchmark."""
    notes = []
    if reasons := result.exclusions.reasons:
        parts = []
        for reason, n in reasons.items():
            rows = result.left_out_rows.get(reason, ())  # rows that were not drawn are no mistake
            place = f" (row {', '.join(map(str, rows))}{', …' if n > len(rows) else ''})" if rows else ""
            parts.append(f"{n} {reason}{place}")
        rows_or_places = "pairs of outputs" if result.win_rates else "rows"
        notes.append(
            f"Left out {sum(reasons.values())} of {result.exclusions.seen} {rows_or_places}: {'; '.join(parts)}."
        )
    if result.unread:
        why = "; ".join(f"{n} {reason}" for reason, n in result.unread_reasons.items())
        notes.append(f"Not compared, {result.unread} of {result.n_items + result.unread} items: {why}.")
    ties = result.overall.ties
    if any(ties.values()):
        wrong = unit == "reward" and not result.win_rates
        rule = "count as wrong, as in RewardBench's script" if wrong else "count half"
        rule = "share the point among the highest" if result.format == "rewardbench-2" else rule
        notes.append(f"Ties (margin exactly 0) {rule}: {_ties(ties)}.")
    expected = sum(result.n_expected.values())
    if expected and expected != result.n_items:
        notes.append(f"The benchmark has {expected} pairs, here {result.n_items}: not the leaderboard's number.")
    return notes


def _ties(ties: Mapping[str, int]) -> str:
    """Their number; of several scorings each one's."""
    if len(ties) == 1:
        return n_of(sum(ties.values()), "tie")
    return ", ".join(f"{n} {label}" for label, n in ties.items())


def scoring_sentences(result: QualityResult) -> list[str]:
    """A sentence on each scoring, and observations about its model."""
    lines = []
    for scoring in result.scorings:
        lines.append(f"{scoring.label}: {model_label(scoring)}. {asked_line(scoring.facts)}.")
        lines += [f"{scoring.label}: {note}" for note in scoring.facts.notes]
    return lines


def model_label(scoring: AskedModel) -> str:
    """A model's name, with its adapter and dose."""
    adapter = f" with {scoring.adapter} at dose {scoring.dose:g}" if scoring.adapter else ""
    return f"{called(scoring.model)}{adapter}"


def _with_error(label: str, group: Level) -> str:
    return f"{accuracy(accuracy_of(group, label))} ± {tenths(group.errors[label])}"


def accuracy(estimate: Estimate) -> str:
    """An accuracy with one decimal, with its interval."""
    return f"{tenths(estimate.value)}% [{tenths(estimate.low)}, {tenths(estimate.high)}]"


def tenth_points(estimate: Estimate) -> str:
    """A change in points with one decimal, with its interval."""
    sign = "+" if estimate.value > 0 else ""
    return f"{sign}{tenths(estimate.value)} [{tenths(estimate.low)}, {tenths(estimate.high)}]"


def tenths(value: float) -> str:
    """Hundredths with one decimal, as 84.1: a fall of 1 point has to be seen."""
    text = f"{100 * value:.1f}".replace("-", MINUS)
    return "0.0" if text == f"{MINUS}0.0" else text


def fell(group: Level) -> bool:
    """Its accuracy fell by more than 1 point."""
    change = group.of("accuracy", "change")
    return change is not None and change.value < -FALL - ROUNDING


def flag(group: Level) -> str:
    """`fell*`, `fell`, `kept` or nothing, as FLAGS explains."""
    change = group.of("accuracy", "change")
    if change is None:
        return ""
    if fell(group):
        return "fell*" if change.high < 0 else "fell"
    return "kept" if change.low > -FALL else ""
