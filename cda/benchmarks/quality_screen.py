"""The first screen of `cda quality`: accuracy by section, or how often outputs win over others."""

from __future__ import annotations

from collections.abc import Iterator

from cda.report.glance import (
    NOT_SHOWN,
    Cell,
    Chip,
    Glance,
    GlanceRow,
    Look,
    Mark,
    Series,
    marked,
    most_shown,
    moved,
    percent_axis,
)
from cda.report.names import brief, capital
from cda.report.numbers import count, inert, p_equals, percent, ranked_right, share
from cda.report.scoring import accuracy, accuracy_of, flag, model_label, tenth_points, tenths
from cda.results.base import Estimate
from cda.results.benchmarks import QualityResult, SetQuality, WinRate
from cda.results.effects import Level

_LOOKS: tuple[Look, ...] = ("before", "after")
_CHANCE = 0.5
"""Accuracy of a coin; of RewardBench 2, which has four answers to a prompt, another number."""
_OF_FOUR = "rewardbench-2"
_FLAGS = {
    "fell*": Chip("fell", "bad", "✗"), "fell": NOT_SHOWN, "kept": Chip("kept", "good", "✓"), "": NOT_SHOWN,
}  # fmt: skip
_ABOVE, _BELOW, _OPEN = (
    Chip("above chance", "good", "✓"),
    Chip("below chance", "bad", "✗"),
    Chip("like chance", "none", "?"),
)
_WINS, _LOSES, _EITHER = Chip("wins", "good", "✓"), Chip("loses", "bad", "✗"), Chip("not shown", "none", "?")
_MOST = 10


def quality_headline(result: QualityResult) -> str:
    """Accuracy, or the win rate, in one sentence; of several files the first."""
    first, *others = result.sets
    more = f" ({len(others)} more files below)" if others else ""
    names = _names(result)
    if first.win_rates:
        (label, rates), *_ = first.win_rates.items()
        found, chip = accuracy_of(first.overall, label), _side(rates)
        shown = {_WINS: "", _LOSES: "", _EITHER: "; no preference is shown"}[chip]
        return capital(
            f"{names[label]} prefers {_sides(first)} in {share(found)} of {count(found)} comparisons{shown}{more}."
        )
    if len(result.labels) == 1:
        found = accuracy_of(first.overall, result.labels[0])
        ties = first.overall.ties.get(result.labels[0], 0)
        if ties == found.n:
            return capital(
                f"{names[result.labels[0]]} scores both sides of all {ties} items in ‘{inert(first.name)}’ alike{more}."
            )
        right = ranked_right(found, ties, lambda own: percent(own.value))
        said = {_ABOVE: "", _BELOW: ", worse than chance", _OPEN: "; chance, 50%, is not excluded", None: ""}[
            _beside_chance(result, found)
        ]
        return capital(
            f"{names[result.labels[0]]} ranks {right} of {first.n_items} items in ‘{inert(first.name)}’ right{said}{more}."
        )
    before, after = (accuracy_of(first.overall, label) for label in result.labels)
    change = accuracy_of(first.overall, "change")
    word = moved(change, _FLAGS["fell*"], _FLAGS["kept"])
    shown = (
        f"no {_what(result)} is shown" if word == NOT_SHOWN else f"a {_what(result)} of {tenth_points(change)} points"
    )
    first_name, second = (names[label] for label in result.labels)
    return capital(
        f"{second} ranks {tenths(after.value)}% of {first.n_items} items in ‘{inert(first.name)}’ right, {first_name} "
        f"{tenths(before.value)}%: {shown}{more}."
    )


def _names(result: QualityResult) -> dict[str, str]:
    """The scorings in words: models, or before and after an adapter."""
    first, last = result.scorings[0], result.scorings[-1]
    if (
        first is not last and last.adapter is not None and last.target == first.target
    ):  # what is written calls it another model
        last = last.model_copy(update={"model": first.model})
    words = {scoring.label: model_label(scoring) for scoring in (first, last)}
    return words if len(set(words.values())) == len(words) else {label: f"the model {label}" for label in words}


def _what(result: QualityResult) -> str:
    """Two models differ; one that an adapter changes is another before and after it."""
    return "difference" if result.labels[-1] == "second" else "change"


def _sides(each: SetQuality) -> str:
    first, _, second = inert(each.name).partition(" over ")
    return f"{first} to {second}" if second else first


def _side(rates: WinRate) -> Chip:
    if rates.test.p_value >= 0.05:
        return _EITHER
    return _WINS if rates.wins.value > rates.losses.value else _LOSES


def _beside_chance(result: QualityResult, found: Estimate) -> Chip | None:
    if any(each.format == _OF_FOUR for each in result.sets):
        return None
    return _ABOVE if found.low > _CHANCE else _BELOW if found.high < _CHANCE else _OPEN


def quality_glance(result: QualityResult) -> Glance:
    """Rows: sections and overall of one file, or each file; with `--over`, how often the first outputs win."""
    names = _names(result)
    if result.sets[0].win_rates:
        rows = tuple(
            _win_row(label, rates, each, names) for each in result.sets for label, rates in each.win_rates.items()
        )
        caption = f"How often {_sides(result.sets[0]).replace(' to ', ' is preferred to ')}: wins and half of the ties."
        rules = "Wins or loses: the exact test of one half has p below 0.05; ties say nothing there. The dashed line is 50%."
        return Glance(caption=caption, heading="judged by", axis=percent_axis("win rate"), rows=rows, reading=(rules,))
    rows, rest = most_shown(list(_accuracy_rows(result, names)), _MOST)
    of_four = any(each.format == _OF_FOUR for each in result.sets)
    two = "Fell: down by more than 1 point, and the 95% interval lies below 0. Kept: the interval lies above −1 point."
    one = "Above or below chance: the 95% interval lies on that side of 50%, the dashed line."
    return Glance(
        caption="How often the better answer has the higher score.", heading="section" if len(result.sets) == 1 else "file",
        axis=percent_axis("accuracy", None if of_four else _CHANCE), rows=rows, rest=rest,
        reading=(two,) if len(result.labels) > 1 else () if of_four else (one,),
    )  # fmt: skip


def _accuracy_rows(result: QualityResult, names: dict[str, str]) -> Iterator[GlanceRow]:
    with_adapter = len(result.labels) > 1 and result.scorings[-1].adapter is not None
    words = dict(zip(result.labels, _LOOKS, strict=False)) if with_adapter else names
    series = {label: Series(look, brief(words[label])) for label, look in zip(result.labels, _LOOKS, strict=False)}
    for each in result.sets:
        groups = each.shown if len(result.sets) == 1 else (each.overall,)
        for group in groups:
            name = group.name if len(result.sets) == 1 else each.name
            yield GlanceRow(inert(name), (_accuracy_cell(group, series, result),), _clause(group, result))


def _accuracy_cell(group: Level, series: dict[str, Series], result: QualityResult) -> Cell:
    found = {label: accuracy_of(group, label) for label in series}
    chip = _flagged(group, result) if len(series) > 1 else _beside_chance(result, next(iter(found.values())))
    shown = {label: ranked_right(own, group.ties.get(label, 0), accuracy) for label, own in found.items()}
    return Cell(chip, tuple(Mark(series[label], own, shown[label]) for label, own in found.items()))


def _flagged(group: Level, result: QualityResult) -> Chip:
    chip = _FLAGS[flag(group)]
    return Chip(f"no {_what(result)} shown", "none", "=") if chip == NOT_SHOWN else chip


def _clause(group: Level, result: QualityResult) -> str:
    n = count(accuracy_of(group, result.labels[0]))
    change = f"{tenth_points(accuracy_of(group, 'change'))} points, " if len(result.labels) > 1 else ""
    return f"{change}n = {n}"


def _win_row(label: str, rates: WinRate, each: SetQuality, names: dict[str, str]) -> GlanceRow:
    found = accuracy_of(each.overall, label)
    wins, ties, losses = map(percent, (rates.wins.value, rates.ties.value, rates.losses.value))
    clause = f"wins {wins}, ties {ties}, losses {losses}; p {p_equals(rates.test.p_value)}, n = {count(found)}"
    cell = Cell(_side(rates), marked(Series("after", "win rate"), found))
    return GlanceRow(brief(names[label]), (cell,), clause)
