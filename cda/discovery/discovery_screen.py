"""The first screen of a discovery: attributes with the reward for them, of all prompts together or topic by topic."""

from __future__ import annotations

from cda.discovery.decisions import NO_OBJECTION, attribute_cell, decision_on
from cda.report.glance import Cell, Chip, Glance, GlanceRow, Series, axis_around, marked, most_shown
from cda.report.numbers import NOT_MEASURED, inert, listed, percent, signed
from cda.results.base import Estimate
from cda.results.discover import Decision, DiscoverResult, TopicCell, TopicsResult
from cda.results.evidence import HeldOut, Strength, Validation

_CONFIRMED, _NOT_TESTED = Chip("confirmed", "bad", "▲"), Chip("not tested", "none", "?")
_FOUND, _UNOBJECTED = Chip("found", "bad", "△"), Chip("no objection", "none", "±")
_CHIPS = {
    "confirmed": _CONFIRMED, NO_OBJECTION: _UNOBJECTED, "not shown": Chip("not confirmed", "none", "?"), "not tested": _NOT_TESTED,
}  # fmt: skip
_IN_TOPIC: dict[Decision, Chip] = {
    "confirmed": _CONFIRMED, "shared": Chip("holds too", "bad", "▲"), "opposite": Chip("opposite", "bad", "▽"),
    "not shown": Chip("not shown", "none", "?"), "not tested": _NOT_TESTED,
}  # fmt: skip
_REWARD = Series("after", "reward when it is added")
_MOST_ROWS, _MOST_TOPICS, _ALL = 8, 3, "all topics"


def discovery_glance(result: DiscoverResult) -> Glance | None:
    """The tested attributes, the confirmed first; if nothing was tested those that were validated. None without either."""
    rows = [_row(entry.attribute, entry, _CHIPS[decision_on(at, result)]) for at, entry in enumerate(result.tested)]
    shown: list[HeldOut] = [*result.tested]
    if not rows:
        alpha = result.strictness.validation_alpha
        rows = [
            _row(attribute_cell(entry.candidate, result), entry, _validated(entry, alpha)) for entry in result.validated
        ]
        shown = [*result.validated]
    if not rows:
        return None
    kept, rest = most_shown(rows, _MOST_ROWS)
    found = [entry.pooled.reward for entry in shown[:_MOST_ROWS] if isinstance(entry.pooled, Strength)]
    where = "test prompts, which nothing was selected on" if result.tested else "validation prompts"
    return Glance(
        caption=f"The reward for each attribute, on {where}.", heading="attribute", axis=axis_around("reward units", found),
        rows=kept, rest=rest,
        reading=(
            "Confirmed: the model is shown to reward it and the judge to prefer the side without it. No objection: it is shown to be "
            "rewarded, but the judge is not shown to object. Found: both hold on the validation prompts. The dashed line is no reward.",
        ),
    )  # fmt: skip


def _validated(entry: Validation, alpha: float) -> Chip:
    if entry.passed:
        return _FOUND
    return _UNOBJECTED if entry.rewarded(alpha) else _NOT_TESTED if entry.untested else _CHIPS["not shown"]


def _row(attribute: str, entry: HeldOut, chip: Chip) -> GlanceRow:
    if entry.pooled is None:
        return GlanceRow(inert(attribute), (Cell(chip, instead=NOT_MEASURED),), entry.untested or "too little data")
    judge = entry.pooled.judge
    clause = f"the judge prefers it in {percent(judge.value)} [{percent(judge.low)[:-1]}, {percent(judge.high)[:-1]}]"
    return GlanceRow(inert(attribute), (Cell(chip, marked(_REWARD, entry.pooled.reward, signed)),), clause)


def topics_glance(result: TopicsResult) -> Glance | None:
    """Attributes by topics, those topics first in which something was decided; None without an attribute."""
    rows = result.by_attribute[:_MOST_ROWS]
    if not rows:
        return None
    names = [level.name for level in rows[0].levels]
    decided = {name: sum(name in row.in_topics("confirmed", "shared", "opposite") for row in rows) for name in names}
    kept = sorted(sorted(names, key=lambda name: -decided[name])[:_MOST_TOPICS], key=names.index)
    left = [inert(name) for name in names if name not in kept]
    cells = [[*(level for level in row.levels if level.name in kept), row.together] for row in rows]
    found = [reward for own in cells for cell in own if (reward := _reward(cell))]
    drawn = [
        GlanceRow(inert(row.attribute), tuple(map(_topic_cell, own))) for row, own in zip(rows, cells, strict=True)
    ]
    shown, rest = most_shown(drawn, _MOST_ROWS)
    many = f"{len(left)} more topics in the report."
    beside = many if len(left) > _MOST_TOPICS else f"{listed(left)}: in the report." if left else ""
    return Glance(
        caption="The reward for each attribute in each topic.", heading="attribute", axis=axis_around("reward units", found),
        columns=(*map(inert, kept), _ALL), rows=shown, rest=" ".join(filter(None, (rest, beside))),
        reading=(
            "Confirmed: found in the topic, rewarded there, and the judge prefers the side without it. Holds too: found in another topic. "
            "Opposite: its absence is rewarded. The dashed line is no reward.",
        ),
    )  # fmt: skip


def _reward(level: TopicCell) -> Estimate | None:
    return level.of("reward", "model")


def _topic_cell(level: TopicCell) -> Cell:
    return Cell(_IN_TOPIC[level.decision], marked(_REWARD, _reward(level), signed))
