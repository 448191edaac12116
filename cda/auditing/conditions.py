"""Conditions on a finished audit, such as `jargon.skew>0.7`: for `--fail-if` and for tests of a model in CI. They compare the estimate,
not its interval."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from cda.arrays import LARGEST
from cda.embedded.texts import EMBEDDED_BIASES, SECOND_TURNS
from cda.errors import RecipeError, did_you_mean
from cda.numbers.measures import MEASURES, Found, known_key, of_audits, unknown
from cda.recipe.load import LoadedRecipe
from cda.report.numbers import plain
from cda.resources.sources import audit_inputs
from cda.results.audit import AuditResult
from cda.results.base import NOT_TRAINED, Missing
from cda.results.comparison import AuditRow

_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt,
}  # fmt: skip
_PARTS = re.compile(
    r"\s*([\w.-]+?)(?:@(\d*\.?\d+)(\.\w+)?)?\s*(>=|<=|>|<)\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*"
)
_MOMENTS = ("before", "after", "change")
_QUALITY = "quality"
_FORM = (
    "has the form BIAS.MEASURE>NUMBER, such as jargon.skew>0.7, quality.accuracy<0.75 or, of a judge, position>0.5 and stability<0.9, with >, >=, < or <=, and .before, .after "
    "or .change behind the measure of a training"
)


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison of one number of an audit."""

    text: str
    subject: str
    """A bias, `quality`, or nothing for a measure that stands alone."""
    measure: str
    """A key of `MEASURES`."""
    moment: str
    """before, after or change; empty: after a training, or the model as it is."""
    sign: str
    bound: float
    one: str = ""
    """The one of the measure's level; empty: it has none."""

    def failure(self, moments: Mapping[str, Found]) -> str | None:
        """Why a run fails by this condition: it holds, or there is no number; None if it does not hold."""
        found = self._found(moments)
        if isinstance(found, Missing):
            return f"{self.text}: no value: {found.reason}"
        if not _OPERATORS[self.sign](found.value, self.bound):
            return None
        return f"{self.text}: found {plain(found.value, 3)} [{plain(found.low, 3)}, {plain(found.high, 3)}] (n = {found.n})"

    def _found(self, moments: Mapping[str, Found]) -> Found:
        if not self.moment:
            return next(moments[each] for each in ("model", "after", "before") if each in moments)
        if self.moment in moments or "model" not in moments:
            return moments.get(
                self.moment, Missing(reason=f"{MEASURES[self.measure].title} has no value {self.moment}")
            )
        return moments["model"] if self.moment == "before" else NOT_TRAINED


def conditions_of(words: Sequence[str], where: str = "--fail-if") -> tuple[Condition, ...]:
    """Conditions in words; RecipeError, with all mistakes: another form, or an unknown measure. `where` opens its messages."""
    problems: list[str] = []
    conditions = [_condition(word, where, problems) for word in words]
    if problems:
        raise RecipeError(problems)
    return tuple(condition for condition in conditions if condition is not None)


def _condition(word: str, where: str, problems: list[str]) -> Condition | None:
    match = _PARTS.fullmatch(word)
    parts = [*match[1].split("."), *(match[3] or "").split(".")[1:]] if match else []
    moment = parts.pop() if len(parts) > 2 and parts[-1] in _MOMENTS else ""
    if len(parts) == 1:  # a measure of the whole audit that stands alone
        parts = ["", *parts]
    alone = {one.subject for one in of_audits().values()} - {None}
    if match is None or (not parts[0] and MEASURES.get(parts[1], MEASURES["skew"]).subject != ""):
        problems.append(f"{where} {word}: {_FORM}")
        return None
    subject, name = ".".join(parts[:-1]), parts[-1]
    if len(parts) > 2 and parts[-2] in of_audits() and name not in of_audits():
        problems.append(f"{where} {word}: {unknown(name, _MOMENTS, 'moment')}")
        return None
    known = {key: one for key, one in of_audits().items() if one.subject == (subject if subject in alone else None)}
    if (measure := known_key(name, known)) not in known:
        problems.append(f"{where} {word}: {unknown(name, known, f'measure of {subject}')}")
        return None
    one, ones = match[2] or "", known[measure].ones
    if one not in (ones or ("",)):
        problems.append(
            f"{where} {word}: say at which {known[measure].level}: {', '.join(f'{measure}@{each}' for each in ones)}"
            if ones
            else f"{where} {word}: {measure} is of no level; leave out @{one}"
        )
    bound, (low, high) = float(match[5]), known[measure].bounds(moment)
    if not low <= bound <= high:
        problems.append(
            f"{where} {word}: {measure} is a share{' difference' * (low < 0)}, from {low:g} to {high:g}: 70% is 0.7; so the condition "
            f"would {'always' if (bound > high) == (match[4][0] == '<') else 'never'} hold"
            if high <= 1
            else f"{where} {word}: give a number of at most {LARGEST:g}"
        )
    return Condition(word.strip(), subject, measure, moment, match[4], bound, one)


def check_conditions(conditions: Sequence[Condition], loaded: LoadedRecipe) -> None:
    """RecipeError, with all of them, for conditions on what an audit with these settings does not measure."""
    own, trained, asked = [bias.name for bias in loaded.biases], not loaded.only_audit, loaded.recipe.audit.second_turn
    turns = [name for name in SECOND_TURNS if asked == "yes" or (asked == "auto" and name in own)]
    others = EMBEDDED_BIASES if trained else ()
    known = [*dict.fromkeys([*own, *others, *(SECOND_TURNS[name] for name in turns)]), _QUALITY]
    problems = []
    for each in conditions:
        if each.measure == "stability" and loaded.recipe.score.judge.repeats == 1:
            problems.append(f"--fail-if {each.text}: {MEASURES['stability'].absent}")
        elif MEASURES[each.measure].on == "places" and trained:
            problems.append(f"--fail-if {each.text}: a reward model that is trained does not compare two texts")
        elif each.subject and each.subject not in known:
            hint = did_you_mean(each.subject, known)
            problems.append(
                f"--fail-if {each.text}: '{each.subject}' is not measured here.{hint} Known: {', '.join(known)}"
            )
        elif each.measure in ("tilt", "tilt_right") and audit_inputs(loaded).sampled_from is None:
            problems.append(
                f"--fail-if {each.text}: it is measured on samples of a policy; give them (--samples, audit.samples)"
            )
        elif each.moment in ("after", "change") and not trained:
            problems.append(
                f"--fail-if {each.text}: there is no training that something could be measured after; leave out .{each.moment}"
            )
    if problems:
        raise RecipeError(problems)


def failures(of: AuditResult | AuditRow, conditions: Sequence[Condition]) -> list[str]:
    """Why an audit, or a shared row, fails: a sentence for each condition that holds or has no number."""
    found = []
    for each in conditions:
        moments: Mapping[str, Found]
        if isinstance(of, AuditRow):
            moments = of.moments(each.measure, each.subject if MEASURES[each.measure].of_bias else "", each.one)
        else:
            moments = {
                str(moment): number
                for moment, number in MEASURES[each.measure].moments(of, each.subject, each.one).items()
            }
        found.append(each.failure(moments))
    return [problem for problem in found if problem is not None]


def failures_of(of: AuditResult | AuditRow, conditions: Sequence[str]) -> list[str]:
    """The same of conditions in words; RecipeError: another form, or an unknown measure."""
    return failures(of, conditions_of(conditions, "condition"))
