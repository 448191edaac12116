"""The numbers of a comparison by measure, audit, moment, and bias or section, as its tables and figures look them up."""

from __future__ import annotations

from functools import cached_property
from typing import get_args

from cda.comparing.screen import labels, said_of, tied_words
from cda.numbers.measures import MEASURES
from cda.numbers.views import numbers_in
from cda.report.numbers import inert
from cda.results.base import Estimate, Missing, Number
from cda.results.comparison import ComparisonResult, Kind


class ComparedNumbers:
    """The numbers of a comparison by measure, audit, moment, and bias or section; and the lines of its tables."""

    def __init__(self, result: ComparisonResult) -> None:
        self.result = result
        self.found: dict[tuple[str, str, str, str], Number] = {}
        for each in numbers_in(result):
            column = each.at.get("bias") or each.at.get("section", "")
            level = [f"KL {each.at['kl']}"] if "kl" in each.at else []
            self.found[each.measure, each.at["audit"], each.moment, ", ".join(filter(None, [column, *level]))] = each
        self.biases = list(dict.fromkeys(bias for row in result.audits.values() for bias in row.biases))
        self.sections = list(dict.fromkeys(each.at["section"] for each in self.found.values() if "section" in each.at))
        self.means = {(mean.name, mean.bias): mean for mean in result.means}
        self.names = labels(result)

    def name(self, audit: str) -> str:
        """An audit in words; a mean with those behind it in words."""
        return self.names.get(audit) or said_of(inert(audit), self.names)

    def line_name(self, audit: str, moment: str) -> str:
        """An audit or mean under a scoring; one model as it is by its name alone."""
        return self.name(audit) if moment == "model" else f"{self.name(audit)}, {moment}"

    @cached_property
    def lines(self) -> list[tuple[str, str]]:
        """Audit or mean, and moment; kind by kind, those of the first places first."""
        order = {name: at for at, name in enumerate(name for group in self.result.ranked for name in group.audits)}
        lines = []
        for kind in get_args(Kind):
            own = [name for name, row in self.result.audits.items() if row.kinds == kind]
            own = sorted(own, key=lambda name: order.get(name, len(order)))
            moments = ("before", "after", "change") if kind == "trainings" else ("model",)
            named = dict.fromkeys([*own, *(mean.name for mean in self.result.means if mean.kind == kind)])
            lines += [(name, moment) for name in named for moment in moments]
        return lines

    def estimate(self, key: str, audit: str, moment: str, column: str) -> Estimate | None:
        """A number; None without one, and of a share that only shows how ties are counted."""
        if self._tied(key, audit, column):
            return None
        number = self.found.get((key, audit, moment, column))
        return number.found if number and isinstance(number.found, Estimate) else None

    def common(self, key: str) -> list[str]:
        """The columns of a measure that all audits with the measure have an estimate of and that a reward can change."""
        audits, first = dict[str, set[str]](), MEASURES[key].ones[0]
        for (of, audit, moment, column), each in self.found.items():
            is_own = of == key and moment != "change" and each.at["kl"] != first
            if is_own and isinstance(each.found, Estimate):
                audits.setdefault(column, set()).add(audit)
        everyone = set().union(*audits.values())
        return [column for column, own in audits.items() if own == everyone]

    def instead(self, key: str, audit: str, moment: str, column: str) -> str:
        """Why a mean is not shown, or a share of ties; empty if it is, and of an audit without the number."""
        if (of := (key, audit, moment, column)) not in self.found:
            return ""
        found = self.found[of].found
        if isinstance(found, Missing) and (audit, column) in self.means:
            return found.reason
        return self._tied(key, audit, column)

    def _tied(self, key: str, audit: str, column: str) -> str:
        row = self.result.audits.get(audit)
        return tied_words(row, column) if row and MEASURES[key].on in ("contrasts", "votes") else ""

    def people(self, key: str, column: str) -> Estimate | None:
        """People's own number next to a measure."""
        known = (
            each.found for (of, _, _, at), each in self.found.items() if (of, at) == (MEASURES[key].people, column)
        )
        return next((each for each in known if isinstance(each, Estimate)), None)
