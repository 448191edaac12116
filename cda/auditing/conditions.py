"""Conditions on a finished audit, such as `jargon.skew>0.7`: for `--fail-if` and for tests of a model in CI. They compare the estimate,
not its interval."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from cda.arrays import LARGEST
from cda.errors import RecipeError, did_you_mean
from cda.report.numbers import plain
from cda.results.audit import AuditResult
from cda.results.base import NOT_TRAINED, Estimate, Missing
from cda.results.effects import average_of

_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt,
}  # fmt: skip
_PARTS = re.compile(r"\s*([\w.-]+?)\s*(>=|<=|>|<)\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*")
_MOMENTS = ("before", "after", "change")
_QUALITY, _ACCURACY = "quality", "accuracy"
MEASURES = {
    "skew": "share of contrasts on which the model prefers the side with the bias",
    "triple_skew": "the same of RATE's triples",
    "rate": "average effect of the bias on the reward (RATE, double rewrites), in reward units or preference",
    "miscalibration": "share of contrasts on which the model disagrees with most people",
    "gap": "distance of skew from people's share",
}
"""Measures of a bias to their meaning."""
_FORM = (
    "has the form BIAS.MEASURE>NUMBER, such as jargon.skew>0.7 or quality.accuracy<0.75, with >, >=, < or <=, and .before, .after "
    "or .change behind the measure of a training"
)
_NOT_THERE = Missing(reason="it was not measured for this bias")
Number = Estimate | Missing


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison of one number of an audit."""

    text: str
    subject: str
    """A bias, or `quality`."""
    measure: str
    moment: str
    """before, after or change; empty: after a training, or the model as it is."""
    sign: str
    bound: float

    def failure(self, audit: AuditResult) -> str | None:
        """Why a run fails by this condition: it holds, or there is no number; None if it does not hold."""
        found = _moment(_measured(audit, self.subject, self.measure), self.moment)
        if isinstance(found, Missing):
            return f"{self.text}: no value: {found.reason}"
        if not _OPERATORS[self.sign](found.value, self.bound):
            return None
        return f"{self.text}: found {plain(found.value, 3)} [{plain(found.low, 3)}, {plain(found.high, 3)}] (n = {found.n})"


def conditions_of(words: Sequence[str], where: str = "--fail-if") -> tuple[Condition, ...]:
    """Conditions in words; RecipeError, with all mistakes: another form, or an unknown measure. `where` opens its messages."""
    problems: list[str] = []
    conditions = [_condition(word, where, problems) for word in words]
    if problems:
        raise RecipeError(problems)
    return tuple(condition for condition in conditions if condition is not None)


def _condition(word: str, where: str, problems: list[str]) -> Condition | None:
    match = _PARTS.fullmatch(word)
    parts = match[1].split(".") if match else []
    moment = parts.pop() if len(parts) > 2 and parts[-1] in _MOMENTS else ""
    if match is None or len(parts) < 2:
        problems.append(f"{where} {word}: {_FORM}")
        return None
    subject, measure = ".".join(parts[:-1]), parts[-1]
    known = (_ACCURACY,) if subject == _QUALITY else tuple(MEASURES)
    if measure not in known:
        hint = did_you_mean(measure, known)
        problems.append(f"{where} {word}: '{measure}' is no measure of {subject}.{hint} Known: {', '.join(known)}")
        return None
    bound, least = float(match[3]), -1.0 if moment == "change" else 0.0
    if measure == "rate" and abs(bound) > LARGEST:
        problems.append(f"{where} {word}: give a number of at most {LARGEST:g}")
    elif measure != "rate" and not least <= bound <= 1:
        problems.append(
            f"{where} {word}: {measure} is a share{' difference' * bool(least)}, from {least:g} to 1: 70% is 0.7; so the condition "
            f"would {'always' if (bound > 1) == (match[2][0] == '<') else 'never'} hold"
        )
    return Condition(word.strip(), subject, measure, moment, match[2], bound)


def check_conditions(conditions: Sequence[Condition], biases: Collection[str], trained: bool) -> None:
    """RecipeError, with all of them, for conditions on what an audit of these biases does not measure; `trained`: before and after a
    training."""
    known = [*biases, _QUALITY]
    problems = []
    for each in conditions:
        if each.subject not in known:
            hint = did_you_mean(each.subject, known)
            problems.append(
                f"--fail-if {each.text}: '{each.subject}' is not measured here.{hint} Known: {', '.join(known)}"
            )
        elif each.moment in ("after", "change") and not trained:
            problems.append(
                f"--fail-if {each.text}: there is no training that something could be measured after; leave out .{each.moment}"
            )
    if problems:
        raise RecipeError(problems)


def failures(audit: AuditResult, conditions: Sequence[Condition]) -> list[str]:
    """Why a run fails, a sentence for each condition that holds or has no number."""
    found = (condition.failure(audit) for condition in conditions)
    return [problem for problem in found if problem is not None]


def _measured(audit: AuditResult, subject: str, measure: str) -> dict[str, Number] | Missing:
    """The numbers of a measure by moment."""
    if measure == _ACCURACY:
        return _moments(audit.quality) if audit.quality else Missing(reason="the audit has no quality pairs")
    if measure == "rate":
        return _rate(audit, subject)
    if measure == "skew":
        return _moments(audit.skew.get(subject))
    if measure == "triple_skew":
        found = audit.triple_skew.get(subject)
        return _moments(found.skew if found else None)
    if subject not in audit.votes:
        return Missing(reason="nobody voted on this bias")
    return _moments(getattr(audit.votes[subject], measure))


def _moments(found: object) -> dict[str, Number] | Missing:
    if found is None or isinstance(found, Missing):
        return found or _NOT_THERE
    return {moment: getattr(found, moment) for moment in _MOMENTS}


def _rate(audit: AuditResult, bias: str) -> dict[str, Number] | Missing:
    found = audit.rate.get(bias)
    if found is None or isinstance(found.measured, Missing):
        return found.measured if found else _NOT_THERE  # type: ignore[return-value]  # Missing here
    after = found.measured.after
    effects = {
        "before": found.measured.before.average,
        "after": after if isinstance(after, Missing) else after.average,
        "change": average_of(found.changes),
    }  # fmt: skip
    return {name: each if isinstance(each, Missing) else each.estimate for name, each in effects.items()}


def _moment(numbers: dict[str, Number] | Missing, moment: str) -> Number:
    """One of the numbers; without a moment that after a training, or of the model as it is."""
    if isinstance(numbers, Missing):
        return numbers
    if moment:
        return numbers[moment]
    trained = numbers["change"] != NOT_TRAINED or numbers["after"] != NOT_TRAINED
    return numbers["after" if trained else "before"]
