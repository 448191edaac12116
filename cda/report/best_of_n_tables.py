"""Best-of-n in words and tables, from the JSON of stages/best_of_n.py alone; its figures are in plots/best_of_n.py."""

from __future__ import annotations

import math
import re

from cda.report.markdown import escaped, markdown_table
from cda.report.numbers import MINUS, Json, inert, p_value, percent, share
from cda.report.tables import Table
from cda.report.terminal import plain_table

_ALIKE = " (all alike)"  # the same in every prompt, so that there is no interval


def best_of_n_text(result: Json) -> str:
    """For a terminal: the largest n beside n = 1, slopes, and what was counted."""
    tables = [plain_table(table) for table in (_largest(result), _slopes(result))]
    return "\n\n".join([*tables, "\n".join(inert(line) for line in best_of_n_sentences(result))])


def best_of_n_markdown(result: Json) -> str:
    """A Markdown document with every table; text from outside is escaped."""
    lines = ["# Best-of-n: what the reward picks as n grows", ""]
    lines += [line for sentence in best_of_n_sentences(result) for line in (escaped(sentence), "")]
    for table in best_of_n_tables(result):
        lines += markdown_table(table)
    lines += [f"- {escaped(one['name'])}: {escaped(one['definition'])}" for one in curves_of(result)]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() + "\n"


def best_of_n_tables(result: Json) -> list[Table]:
    """The largest n, the slopes, then the whole curve of every attribute and of the quality."""
    return [_largest(result), _slopes(result), *(_curve_table(one, result) for one in curves_of(result))]


def best_of_n_sentences(result: Json) -> list[str]:
    """How it was made, what was left out, and what the numbers do not say."""
    fewest, median, most = result["responses_per_prompt"]
    per_prompt = f"{fewest}" if fewest == most else f"{fewest} to {most} (median {median:g})"
    found = [
        f"{result['n_responses']} responses to {result['n_prompts']} prompts, {per_prompt} each, from {result['responses']}.",
        "At each n: the response of highest reward among n of a prompt's, in expectation over all ways to draw them without "
        "replacement (exact; equal rewards share alike), then the mean over prompts. n = 1 is the policy that was sampled, "
        "whatever the reward.",
        "KL: log n − (n − 1)/n nats at most between best-of-n and that policy (Stiennon et al., 2020; an upper bound where "
        "rewards can be equal: Beirami et al., 2024).",
    ]
    found += [_scored(label, result) for label in result["scorings"]]
    for what, one in result["excluded"].items():
        if dropped := ", ".join(f"{count} {reason}" for reason, count in one["reasons"].items()):
            found.append(f"Left out of {one['seen']} {what}: {dropped}.")
    if result["n_repeated"]:
        found.append(
            f"{result['n_repeated']} responses repeat another of their prompt word for word; they stay, as they were sampled."
        )
    if fewest < result["sizes"][-1]:
        found.append(
            "The first two tables and the figure keep to the prompts that reach the largest n. In the tables by n, every n "
            "has the prompts that reach it, so that two n may differ by their prompts as well."
        )
    if result["unvaried"]:
        found.append(
            f"Not followed, because no prompt has responses that differ in it: {', '.join(result['unvaried'])}."
        )
    if result["quality"] is None and result["excluded"]["quality"]["seen"]:
        found.append(f"Quality is not followed: {result['quality_missing']}.")
    return found


def _scored(label: str, result: Json) -> str:
    one = result["models"][label]
    name = one["name"] + (f" with {one['adapter']}" if one.get("adapter") else "")
    facts = [f"{key.replace('_', ' ')} {one[key]}" for key in ("precision", "form", "max_length_tokens") if key in one]
    cut = f"; {one['truncated']} of {one['texts']} texts were cut" if one.get("truncated") else ""
    return f"Rewards {label}: {name} ({', '.join(facts) or one.get('how', one['kind'])}){cut}."


def curves_of(result: Json) -> list[Json]:
    """Curves of the attributes, then of the quality where it was followed."""
    return [*result["attributes"], *([result["quality"]] if result["quality"] else [])]


def _largest(result: Json) -> Table:
    n, labels = result["sizes"][-1], result["scorings"]
    tested = ("change", "p", "p (Holm)") if len(labels) == 2 else ()
    header = ("picks", "n = 1", *(f"{label}, n = {n}" for label in labels), *tested, "prompts")
    rows = []
    for one in curves_of(result):
        last = one["at"][-1]
        cells = [curve_name(one), level(one, one["at"][0]["complete"][labels[0]])]
        cells += [level(one, last["scorings"][label]) for label in labels]
        if tested:
            adjusted = "" if one["p_holm"] is None else p_value(one["p_holm"])
            cells += [change_of(one, last["change"]), p_value(one["p_value"]), adjusted]
        rows.append((*cells, str(last["n_prompts"])))
    noted = "; p is for the test that nothing changed, Holm over the attributes" if tested else ""
    return Table(f"What best-of-{n} picks, with 95% intervals{noted}", header, tuple(rows))


def _slopes(result: Json) -> Table:
    labels = result["scorings"]
    header = ("added by each doubling of n", *labels, *(("change",) if len(labels) == 2 else ()), "prompts")
    rows = []
    for one in curves_of(result):
        cells = [change_of(one, one["slope"][label]) for label in labels]
        cells += [change_of(one, one["slope_change"])] if len(labels) == 2 else []
        rows.append((curve_name(one), *cells, str(one["at"][-1]["n_prompts"])))
    return Table(
        f"How much optimising the reward amplifies it: slope in log2(n), n = 1 to {result['sizes'][-1]}, with 95% intervals",
        header,
        tuple(rows),
    )


def _curve_table(one: Json, result: Json) -> Table:
    labels, two = result["scorings"], len(result["scorings"]) == 2
    rows = []
    for at in one["at"]:
        cells = [level(one, at["scorings"][label]) for label in labels]
        cells += [change_of(one, at["change"]) if at["change"] else "none by construction"] if two else []
        rows.append((str(at["n"]), f"{at['kl_nats']:.2f}", *cells, str(at["n_prompts"]), str(at["n_too_few"])))
    header = ("n", "KL ≤ (nats)", *labels, *(("change",) if two else ()), "prompts", "with fewer responses")
    unknown = f"; unknown in {one['n_unknown']} prompts, left out" if one["n_unknown"] else ""
    return Table(f"{curve_name(one)}, by n, with 95% intervals{unknown}", header, tuple(rows))


def curve_name(one: Json) -> str:
    """What is followed, and whether it is a share or a mean."""
    return f"{one['name']} (share)" if one["kind"] == "share" else f"{one['name']} (mean)"


def level(one: Json, measured: Json) -> str:
    """A share or mean with its interval; one without says why."""
    if one["kind"] == "mean":
        return _interval(measured)
    return f"{percent(measured['value'])}{_ALIKE}" if "missing" in measured else share(measured)


def change_of(one: Json, measured: Json) -> str:
    """A change or slope, signed; shares in points."""
    return _interval(measured, 100.0, "+", " points") if one["kind"] == "share" else _interval(measured, sign="+")


def _interval(measured: Json, scale: float = 1.0, sign: str = "", unit: str = "") -> str:
    """A value with its interval, to two digits of the interval's half-width."""
    if "missing" in measured:
        value = scale * measured["value"]
        return f"{value:{sign if value else ''}.4g}{unit}{_ALIKE}".replace("-", MINUS)
    half = scale * (measured["high"] - measured["low"]) / 2
    digits = min(max(1 - math.floor(math.log10(half)), 0), 4) if half > 0 else 4
    value, low, high = (_rounded(scale * measured[key], digits, sign) for key in ("value", "low", "high"))
    return f"{value} [{low}, {high}]{unit}".replace("-", MINUS)


def _rounded(value: float, digits: int, sign: str) -> str:
    """So many decimals; one that is not 0, where rounding would hide on which side of 0 a value lies."""
    if value and round(value, digits) == 0:
        digits = -math.floor(math.log10(abs(value)))
    return f"{value:{sign if value else ''}.{digits}f}"
