"""The first screen of `cda best-of`: what the picks at the largest n show more or less of."""

from __future__ import annotations

from collections.abc import Callable

from cda.report.glance import Cell, Chip, Glance, GlanceRow, Look, Mark, Series, marked, moved, percent_axis
from cda.report.names import brief, some
from cda.report.numbers import plain
from cda.report.scoring import model_label
from cda.results.base import Estimate
from cda.results.benchmarks import BestOfResult, Curve, Followed, Measured

_MORE, _LESS = Chip("picks more", "bad", "▲"), Chip("picks less", "none", "▽")
_BETTER, _POORER = Chip("picks better", "good", "✓"), Chip("picks worse", "bad", "✗")
_SECOND_LESS, _SECOND_MORE = Chip("less", "good", "✓"), Chip("more", "bad", "✗")
_SECOND_BETTER, _SECOND_POORER = Chip("better", "good", "✓"), Chip("worse", "bad", "✗")
_ALIKE = Chip("no difference shown", "none", "=")
_SAID = {
    **dict.fromkeys((_MORE, _SECOND_MORE), "more {}"), **dict.fromkeys((_LESS, _SECOND_LESS), "less {}"),
    **dict.fromkeys((_BETTER, _SECOND_BETTER), "better {}"), **dict.fromkeys((_POORER, _SECOND_POORER), "worse {}"),
}  # fmt: skip
_ONE_DRAWN = Series("characters", "any response (n = 1)")


def best_of_headline(result: BestOfResult) -> str:
    """What picking by the reward changes, or changes less than picking by another, in one sentence."""
    n, names = result.sizes[-1], {label: model_label(asked) for label, asked in result.models.items()}
    chips = {curve.name.replace("_", " "): _chip(curve, result) for curve in result.curves}
    parts = [
        said.format(some([name for name, own in chips.items() if own == chip], "attributes"))
        for chip, said in _SAID.items()
        if chip in chips.values()
    ]
    first, *second = result.scorings
    beside = f"the best of {n} by {names[first]}" if second else "a response at random"
    shows = f"shows {', '.join(parts)} than {beside}" if parts else f"is not shown to differ from {beside}"
    return f"The best of {n} by {names[second[0] if second else first]} {shows}."


def _chip(curve: Curve, result: BestOfResult) -> Chip:
    """By the slope of one scoring, or by the change between two at the largest n."""
    is_quality = curve is result.quality
    if len(result.scorings) == 1:
        more, less = (_BETTER, _POORER) if is_quality else (_MORE, _LESS)
        return moved(curve.slope[result.scorings[0]], less, more)
    more, less = (_SECOND_BETTER, _SECOND_POORER) if is_quality else (_SECOND_MORE, _SECOND_LESS)
    p = curve.p_value if curve.p_holm is None else curve.p_holm
    chip = moved(curve.at[-1].change, less, more)
    return chip if p is not None and p < 0.05 else _ALIKE


def best_of_glance(result: BestOfResult, level_text: Callable[[Followed, Measured], str]) -> Glance:
    """A row for each attribute: shares on the axis, means in words."""
    n, first = result.sizes[-1], result.scorings[0]
    two = len(result.scorings) > 1
    words = {
        label: f"best of {n} by {brief(model_label(result.models[label]))}" if two else f"best of {n}"
        for label in result.scorings
    }
    looks: tuple[Look, ...] = ("before", "after") if two else ("after",)
    series = {label: Series(look, words[label]) for label, look in zip(result.scorings, looks, strict=True)}
    rows = []
    for curve in result.curves:
        drawn, picked = curve.at[0].complete[first], curve.at[-1].complete
        name = curve.name.replace("_", " ")
        if curve.kind == "share":
            marks = marked(_ONE_DRAWN, drawn if isinstance(drawn, Estimate) else None)
            marks += tuple(
                Mark(series[label], own, level_text("share", own))
                for label, own in picked.items()
                if isinstance(own, Estimate)
            )
            clause = f"{' and '.join(_level(own) for own in picked.values())} of picks, {_level(drawn)} of all"
            rows.append(
                GlanceRow(name, (Cell(_chip(curve, result), marks, "" if marks else "alike in every prompt"),), clause)
            )
        else:
            shown = f"{plain(drawn.value, 2)} → {' and '.join(plain(own.value, 2) for own in picked.values())}"
            rows.append(GlanceRow(name, (Cell(_chip(curve, result), instead=shown),), "mean, in its own unit"))
    how = "p of the change (Holm) is below 0.05" if two else "the 95% interval of the slope in log2(n) excludes 0"
    return Glance(
        caption=f"What the response of highest reward shows, of {n} to a prompt{'; verdicts hold the second model against the first' if two else ''}.", heading="attribute",
        axis=percent_axis("share of picks", None), rows=tuple(rows), end=f"n = {result.n_prompts} prompts",
        reading=(f"More or less: {how}. Means have units of their own and are given in words; their intervals are in the tables below.",),
    )  # fmt: skip


def _level(found: Measured) -> str:
    return f"{round(100 * found.value)}%"
