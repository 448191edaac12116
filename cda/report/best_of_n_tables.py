"""Best-of-n in words and tables, from its numbers alone; its figures are in plots/best_of_n.py."""

from __future__ import annotations

import math
import re

from cda.report.markdown import escaped, markdown_table
from cda.report.numbers import MINUS, inert, p_value, percent, share
from cda.report.tables import Table
from cda.report.terminal import plain_table
from cda.results.base import Missing
from cda.results.benchmarks import Asked, AtSize, BestOfResult, Curve, Measured, NoSpread
from cda.results.facts import RewardModelFacts

_ALIKE = " (all alike)"  # the same in every prompt, so that there is no interval


def best_of_n_text(result: BestOfResult) -> str:
    """For a terminal: the largest n beside n = 1, slopes, and what was counted."""
    tables = [plain_table(table) for table in (_largest(result), _slopes(result))]
    return "\n\n".join([*tables, "\n".join(inert(line) for line in best_of_n_sentences(result))])


def best_of_n_markdown(result: BestOfResult) -> str:
    """A Markdown document with every table; text from outside is escaped."""
    lines = ["# Best-of-n: what the reward picks as n grows", ""]
    lines += [line for sentence in best_of_n_sentences(result) for line in (escaped(sentence), "")]
    for table in best_of_n_tables(result):
        lines += markdown_table(table)
    lines += [f"- {escaped(one.name)}: {escaped(one.definition)}" for one in result.curves]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() + "\n"


def best_of_n_tables(result: BestOfResult) -> list[Table]:
    """The largest n, the slopes, then the whole curve of every attribute and of the quality."""
    return [_largest(result), _slopes(result), *(_curve_table(one, result) for one in result.curves)]


def best_of_n_sentences(result: BestOfResult) -> list[str]:
    """How it was made, what was left out, and what the numbers do not say."""
    fewest, median, most = result.responses_per_prompt
    per_prompt = f"{fewest}" if fewest == most else f"{fewest} to {most} (median {median:g})"
    found = [
        f"{result.n_responses} responses to {result.n_prompts} prompts, {per_prompt} each, from {result.responses}.",
        "At each n: the response of highest reward among n of a prompt's, in expectation over all ways to draw them without "
        "replacement (exact; equal rewards share alike), then the mean over prompts. n = 1 is the policy that was sampled, "
        "whatever the reward.",
        "KL: log n − (n − 1)/n nats at most between best-of-n and that policy (Stiennon et al., 2020; an upper bound where "
        "rewards can be equal: Beirami et al., 2024).",
    ]
    found += [_scored(label, result.models[label]) for label in result.scorings]
    for what, one in result.excluded.items():
        if dropped := ", ".join(f"{count} {reason}" for reason, count in one.reasons.items()):
            found.append(f"Left out of {one.seen} {what}: {dropped}.")
    if result.n_repeated:
        found.append(
            f"{result.n_repeated} responses repeat another of their prompt word for word; they stay, as they were sampled."
        )
    if fewest < result.sizes[-1]:
        found.append(
            "The first two tables and the figure keep to the prompts that reach the largest n. In the tables by n, every n "
            "has the prompts that reach it, so that two n may differ by their prompts as well."
        )
    if result.unvaried:
        found.append(f"Not followed, because no prompt has responses that differ in it: {', '.join(result.unvaried)}.")
    if isinstance(result.quality, Missing) and result.excluded["quality"].seen:
        found.append(f"Quality is not followed: {result.quality.reason}.")
    return found


def _scored(label: str, one: Asked) -> str:
    name, facts = one.model + (f" with {one.adapter}" if one.adapter else ""), one.facts
    said, cut = [], ""
    if isinstance(facts, RewardModelFacts):
        known = {"precision": facts.precision, "form": facts.form, "max length tokens": facts.max_length_tokens}
        said = [f"{what} {value}" for what, value in known.items() if value is not None]
        cut = f"; {facts.truncated} of {facts.texts} texts were cut" if facts.truncated else ""
        said = said or [str(facts.how)]
    return f"Rewards {label}: {name} ({', '.join(said)}){cut}."


def _largest(result: BestOfResult) -> Table:
    n, labels = result.sizes[-1], result.scorings
    tested = ("change", "p", "p (Holm)") if len(labels) == 2 else ()
    header = ("picks", "n = 1", *(f"{label}, n = {n}" for label in labels), *tested, "prompts")
    rows = []
    for one in result.curves:
        last = one.at[-1]
        cells = [curve_name(one), level(one, one.at[0].complete[labels[0]])]
        cells += [level(one, last.scorings[label]) for label in labels]
        if tested:
            cells += [_change_cell(one, last), *("" if p is None else p_value(p) for p in (one.p_value, one.p_holm))]
        rows.append((*cells, str(last.n_prompts)))
    noted = "; p is for the test that nothing changed, Holm over the attributes" if tested else ""
    return Table(f"What best-of-{n} picks, with 95% intervals{noted}", header, tuple(rows))


def _slopes(result: BestOfResult) -> Table:
    labels = result.scorings
    header = ("added by each doubling of n", *labels, *(("change",) if len(labels) == 2 else ()), "prompts")
    rows = []
    for one in result.curves:
        cells = [change_of(one, one.slope[label]) for label in labels]
        cells += [change_of(one, one.slope_change)] if one.slope_change is not None else []
        rows.append((curve_name(one), *cells, str(one.at[-1].n_prompts)))
    return Table(
        f"How much optimising the reward amplifies it: slope in log2(n), n = 1 to {result.sizes[-1]}, with 95% intervals",
        header,
        tuple(rows),
    )


def _curve_table(one: Curve, result: BestOfResult) -> Table:
    labels, two = result.scorings, len(result.scorings) == 2
    rows = []
    for at in one.at:
        cells = [level(one, at.scorings[label]) for label in labels]
        cells += [_change_cell(one, at)] if two else []
        rows.append((str(at.n), f"{at.kl_nats:.2f}", *cells, str(at.n_prompts), str(at.n_too_few)))
    header = ("n", "KL ≤ (nats)", *labels, *(("change",) if two else ()), "prompts", "with fewer responses")
    unknown = f"; unknown in {one.n_unknown} prompts, left out" if one.n_unknown else ""
    return Table(f"{curve_name(one)}, by n, with 95% intervals{unknown}", header, tuple(rows))


def _change_cell(one: Curve, at: AtSize) -> str:
    return "none by construction" if at.change is None else change_of(one, at.change)


def curve_name(one: Curve) -> str:
    """What is followed, and whether it is a share or a mean."""
    return f"{one.name} ({one.kind})"


def level(one: Curve, measured: Measured) -> str:
    """A share or mean with its interval; one without says why."""
    if one.kind == "mean":
        return _interval(measured)
    return f"{percent(measured.value)}{_ALIKE}" if isinstance(measured, NoSpread) else share(measured)


def change_of(one: Curve, measured: Measured) -> str:
    """A change or slope, signed; shares in points."""
    return _interval(measured, 100.0, "+", " points") if one.kind == "share" else _interval(measured, sign="+")


def _interval(measured: Measured, scale: float = 1.0, sign: str = "", unit: str = "") -> str:
    """A value with its interval, to two digits of the interval's half-width."""
    if isinstance(measured, NoSpread):
        alike = scale * measured.value
        return f"{alike:{sign if alike else ''}.4g}{unit}{_ALIKE}".replace("-", MINUS)
    half = scale * (measured.high - measured.low) / 2
    digits = min(max(1 - math.floor(math.log10(half)), 0), 4) if half > 0 else 4
    value, low, high = (_rounded(scale * end, digits, sign) for end in (measured.value, measured.low, measured.high))
    return f"{value} [{low}, {high}]{unit}".replace("-", MINUS)


def _rounded(value: float, digits: int, sign: str) -> str:
    """So many decimals; one that is not 0, where rounding would hide on which side of 0 a value lies."""
    if value and round(value, digits) == 0:
        digits = -math.floor(math.log10(abs(value)))
    return f"{value:{sign if value else ''}.{digits}f}"
