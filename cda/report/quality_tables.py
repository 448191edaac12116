"""Accuracy by section as tables and sentences, from the JSON of `cda quality` or of an audit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cda.report.numbers import MINUS, Json, count, p_value
from cda.report.scoring import ONE_ORDER, panel_line, place, told
from cda.report.tables import Table
from cda.results.base import Estimate

FORMATS = {
    "rewardbench": "RewardBench",
    "rewardbench-2": "RewardBench 2",
    "rm-bench": "RM-Bench",
    "llmbar": "LLMBar",
    "pairs": "preference pairs",
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
}
FLAGS = (
    "fell: down by more than 1 point; fell*: and the 95% interval lies below 0. kept: the interval lies above −1 point. "
    "Holm over the sections of all files."
)


def set_tables(one: Json, result: Json) -> list[Table]:
    """Sections and overall of a set, its subsets where they are others, and RM-Bench's matrix of each scoring."""
    found = [_full_table("Sections, with 95% intervals and ± 1 standard error", shown_groups(one), one, result)]
    if [group["name"] for group in one["subsets"]] != [group["name"] for group in one["sections"]]:
        caption = "Subsets, with 95% intervals and ± 1 standard error"
        found.append(_full_table(caption, one["subsets"], one, result))
    return found + [_matrix(one["cells"], label) for label in labels_of(result) if one["cells"]]


def shown_groups(one: Json) -> list[Json]:
    """Sections, and overall where it is not the one section again."""
    return [*one["sections"], *([one["overall"]] if len(one["sections"]) > 1 else [])]


def compares_two(result: Json) -> bool:
    """Whether there are two scorings."""
    return len(result["scorings"]) > 1


def labels_of(result: Json) -> list[str]:
    """Names of the scorings."""
    return [scoring["label"] for scoring in result["scorings"]]


def _full_table(caption: str, groups: Sequence[Json], one: Json, result: Json) -> Table:
    header = ["group", *labels_of(result), "n", "ties"]
    if one["n_expected"]:
        header.append("in the benchmark")
    if compares_two(result):
        header += ["change (points)", "flag", "p", "p (Holm)"]
    rows = []
    for group in groups:
        scores = [group["scores"][label] for label in labels_of(result)]
        cells = [group["name"], *(_full(score) for score in scores), count(scores[0]["estimate"])]
        cells.append(" / ".join(str(score["n_ties"]) for score in scores))
        if one["n_expected"]:
            cells.append(str(one["n_expected"].get(group["name"], "")))
        if group["shift"] is not None:
            shift = group["shift"]
            change = f"{tenth_points(shift['estimate'])} ± {tenths(shift['standard_error'])}"
            cells += [change, flag(shift), p_value(shift["p_value"]), holm_cell(shift)]
        rows.append(tuple(cells))
    return Table(caption, tuple(header), tuple(rows))


def _matrix(cells: Sequence[Json], label: str) -> Table:
    """RM-Bench's style matrix of one scoring: chosen style down, rejected style across."""
    styles = ("concise", "detailed", "detailed, Markdown")
    by_name = {cell["name"]: cell["scores"][label] for cell in cells}
    rows = [
        (f"chosen {style}", *(_full(by_name[f"{i} over {j}"]) for j in (1, 2, 3))) for i, style in enumerate(styles, 1)
    ]
    return Table(f"Style matrix, {label}", ("", *(f"rejected {style}" for style in styles)), tuple(rows))


def set_notes(one: Json, result: Json) -> list[str]:
    """What was left out of a set, how ties count, and whether it is the whole benchmark."""
    notes = []
    reasons: Mapping[str, int] = one["exclusions"]["reasons"]
    if reasons:
        parts = []
        for reason, n in reasons.items():
            rows = one["left_out_rows"][reason]
            more = ", …" if n > len(rows) else ""
            parts.append(f"{n} {reason} (row {', '.join(map(str, rows))}{more})")
        notes.append(f"Left out {sum(reasons.values())} of {one['exclusions']['seen']} rows: {'; '.join(parts)}.")
    if one["unread"]:
        why = "; ".join(f"{n} {reason}" for reason, n in one["unread_reasons"].items())
        notes.append(f"Not compared, {one['unread']} of {one['n_items'] + one['unread']} items: {why}.")
    ties = [one["overall"]["scores"][label]["n_ties"] for label in labels_of(result)]
    if any(ties):
        rule = (
            "count half"
            if result["scorings"][0]["unit"] == "preference"
            else "count as wrong, as in RewardBench's script"
        )
        rule = "share the point among the highest" if one["format"] == "rewardbench-2" else rule
        shown = ", ".join(f"{n} {label}" for n, label in zip(ties, labels_of(result), strict=True))
        notes.append(f"Ties (margin exactly 0) {rule}: {shown}.")
    expected = sum(one["n_expected"].values())
    if expected and expected != one["n_items"]:
        notes.append(f"The benchmark has {expected} pairs, here {one['n_items']}: not the leaderboard's number.")
    return notes


def how_scored(result: Json) -> list[str]:
    """A sentence on each scoring, and what was noticed about its model."""
    lines = []
    for scoring in result["scorings"]:
        adapter = f" with {scoring['adapter']} at dose {scoring['dose']:g}" if scoring.get("adapter") else ""
        if "judges" in scoring:
            asked = "; ".join(
                [
                    panel_line(
                        len(scoring["judges"]), scoring["comparisons"], scoring["unread"], scoring["partly_judged"]
                    ),
                    *(f"{name}: {_judged(one)}" for name, one in scoring["judges"].items()),
                ]
            )
        else:
            asked = _judged(scoring) if "position_bias" in scoring else _rewarded(scoring)
        lines.append(f"{scoring['label']}: {scoring['model']}{adapter}, {asked}.")
        lines += [f"{scoring['label']}: {note}" for note in scoring.get("notes", ())]
    return lines


def _judged(scoring: Json) -> str:
    """How an LLM judge answered, and whether the place of a text swayed it."""
    why = ", ".join(f"{n} × {reason}" for reason, n in scoring["reasons"].items())
    unread = f"; answers that could not be read: {why}" if why else ""
    position = Estimate(**scoring["position"]) if scoring.get("position") else None
    prompted = told(scoring.get("prompt"), scoring.get("verdict_reasons"), scoring.get("answered_by", {}))
    swayed = place(scoring["position_bias"], position).replace("-", MINUS) + prompted + unread
    if scoring.get("orders") == "one":
        return f"{scoring['comparisons']} comparisons in {ONE_ORDER}: {scoring['unread']} without a verdict{swayed}"
    return (
        f"{scoring['comparisons']} comparisons, each in both orders: {scoring['unread']} without a verdict, "
        f"{scoring['half_read']} with one in one order only, {scoring['flipped']} followed the place{swayed}"
    )


def _rewarded(scoring: Json) -> str:
    """How rewards came about (precision, cut and dropped texts), or the preferences of somebody's own code."""
    how = f"{scoring['precision']}, {scoring['form']}" if "form" in scoring else scoring["how"]
    if "texts" not in scoring:
        return str(how)
    where = f" at {scoring['max_length_tokens']} tokens" if "max_length_tokens" in scoring else ""
    dropped = f", {scoring['dropped']} too long and left out" if scoring.get("dropped") else ""
    return f"{how}, {scoring['truncated']} of {scoring['texts']} texts cut{where}{dropped}"


def n_of(group: Json) -> int:
    """Items of a group."""
    return int(next(iter(group["scores"].values()))["estimate"]["n"])


def _full(score: Json) -> str:
    return f"{accuracy(score['estimate'])} ± {tenths(score['standard_error'])}"


def accuracy(estimate: Json) -> str:
    """An accuracy with one decimal, with its interval."""
    return f"{tenths(estimate['value'])}% [{tenths(estimate['low'])}, {tenths(estimate['high'])}]"


def tenth_points(estimate: Json) -> str:
    """A change in points with one decimal, with its interval."""
    sign = "+" if estimate["value"] > 0 else ""
    return f"{sign}{tenths(estimate['value'])} [{tenths(estimate['low'])}, {tenths(estimate['high'])}]"


def tenths(value: float) -> str:
    """Hundredths with one decimal, as 84.1: a fall of 1 point has to be seen."""
    text = f"{100 * value:.1f}".replace("-", MINUS)
    return "0.0" if text == f"{MINUS}0.0" else text


def flag(shift: Json) -> str:
    """What FLAGS explains: fell*, fell, kept or nothing."""
    if shift["fell"]:
        return "fell*" if shift["excludes_0"] else "fell"
    return "kept" if shift["rules_out_fall"] else ""


def holm_cell(shift: Json) -> str:
    """Holm's p of a section; empty where it is none."""
    return "" if shift["p_holm"] is None else p_value(shift["p_holm"])
