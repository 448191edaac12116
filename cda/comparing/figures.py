"""Figures of a comparison: all biases together, then each by itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from cda.comparing.compared_numbers import ComparedNumbers
from cda.comparing.screen import labels
from cda.numbers.measures import MEASURES
from cda.report.names import distinct
from cda.report.numbers import FORMS, count, share, signed
from cda.report.plots import (
    BEFORE,
    PEOPLE_MARK,
    SCORINGS,
    SERIES,
    SHARE_LIMITS,
    THIRD,
    Drawn,
    Mark,
    Plot,
    Scale,
    Shown,
    in_words,
    named,
    panels_plot,
    percent_scale,
    rows_plot,
    series_marks,
    slugs,
)
from cda.report.scatter import Correlation, correlations_plot
from cda.results.base import Estimate

_MARKS = {
    **{moment: SCORINGS[moment] for moment in ("before", "after")},
    "model": Mark("each", BEFORE, "o", filled=False), "mean": Mark("mean", THIRD, "s"),
}  # fmt: skip
_RATE = {"naive": "rate_naive_standardised", "double": "rate_standardised"}
_RATE_MARKS = {"naive": Mark("naive", BEFORE, "o", filled=False), "double": Mark("double rewrites", THIRD, "s")}
_RATE_SCALE = Scale("effect (SDs of the reward)", reference=0.0, bars=True)


def comparison_plots(shown: ComparedNumbers) -> list[Plot]:
    """All biases together; for each skew, miscalibration and correlation of every audit and mean, people's number dashed; then quality,
    and RATE's effects."""
    figures = _Figures(shown)
    together = [*figures.beside_people(), *figures.rate_by_model(), *correlations_plot(figures.correlations())]
    return [*together, *figures.by_measure(), *figures.rate_by_bias()]


class _Figures:
    """The figures of a comparison's numbers."""

    def __init__(self, shown: ComparedNumbers) -> None:
        self.shown = shown
        known = [*shown.result.audits, *dict.fromkeys(mean.name for mean in shown.result.means)]
        self.names = distinct({name: named(shown.name(name)) for name in known})
        self.lines = [(audit, moment) for audit, moment in shown.lines if moment != "change"]

    def name(self, audit: str, moment: str, names: Mapping[str, str] | None = None) -> str:
        """An audit or mean under a scoring; one model as it is by its name alone."""
        name = (names or self.names)[audit]
        return name if moment == "model" else f"{name}, {moment}"

    def apart(self, known: Iterable[str]) -> dict[str, str]:
        """Names of the audits and means of one figure: no longer than tells these apart."""
        audits = list(dict.fromkeys(known))
        words = {name: self.shown.name(name) for name in audits} | labels(self.shown.result, audits)
        return distinct({name: named(said) for name, said in words.items()})

    def series(self) -> dict[str, tuple[str, str]]:
        """Lines to be told apart in one figure over all biases: means and audits of several biases, or means alone; none of too many."""
        means = {mean.name for mean in self.shown.result.means}
        audits = {name for name, row in self.shown.result.audits.items() if len(row.biases) > 1}
        both, alone = (
            {self.name(*line): line for line in self.lines if line[0] in known} for known in (audits | means, means)
        )
        found = both if len(both) <= len(SERIES) else alone
        return found if len(found) <= len(SERIES) else {}

    def beside_people(self) -> Iterator[Plot]:
        """Skew and miscalibration by bias, people next to models, as in the figures of Bharadwaj et al. 2025."""
        voted = any(self.shown.people("skew", bias) for bias in self.shown.biases)
        skew = MEASURES["skew"]
        drawn = {"Skew": ("skew_on_voted" if voted else "skew", percent_scale(skew.axis, 50))}
        if voted:
            drawn["Miscalibration"] = ("miscalibration", percent_scale(MEASURES["miscalibration"].axis))
        rows = {title: self._by_bias(key) for title, (key, _) in drawn.items()}
        if len(rows["Skew"]) < 2:
            return
        marks = ({"people": PEOPLE_MARK} if voted else {}) | series_marks(self.series())
        words = " ".join(f"{title}. {' '.join(in_words(*row, share) for row in own)}" for title, own in rows.items())
        title = f"{' and '.join(rows)} by bias{'; people and models on the contrasts with a majority' if voted else ''}"
        if any(
            each and isinstance(each, tuple) for own in rows.values() for _, found in own for each in found.values()
        ):
            title += "; small open marks: each model, where they lie on both sides of no effect and have no mean"
        yield panels_plot("biases", title, words, {title: (own, drawn[title][1]) for title, own in rows.items()}, marks)

    def _by_bias(self, key: str) -> list[tuple[str, dict[str, Drawn]]]:
        """Biases with their estimates by series, people's first."""
        series = self.series()
        alone = {name for name, _ in series.values()}
        rows = []
        for bias in self.shown.biases:
            own = {label: self._or_each(key, *line, bias, alone) for label, line in series.items()}
            if any(own.values()):
                rows.append((named(bias), {"people": self.shown.people(key, bias), **own}))
        return rows

    def _or_each(self, key: str, name: str, moment: str, bias: str, alone: set[str]) -> Drawn:
        """The estimate; in the place of a mean that is not shown all that it is of, but those that are drawn alone."""
        mean = self.shown.means.get((name, bias))
        if not mean or not self.shown.instead(key, name, moment, bias):
            return self.shown.estimate(key, name, moment, bias)
        each = (self.shown.estimate(key, audit, moment, bias) for audit in mean.audits if audit not in alone)
        return tuple(filter(None, each))

    def rate_by_model(self) -> Iterator[Plot]:
        """RATE's naive next to its double-rewrite effect by bias, a panel for each of a few audits, as in RATE's second figure."""
        rows = {
            self.name(*line): [
                (named(bias), own) for bias in self.shown.biases if (own := self._rate(*line, bias))["naive"]
            ]
            for line in self.lines
        }
        rows = {name: own for name, own in rows.items() if len(own) > 1}
        if 0 < len(rows) <= len(SERIES):
            words = " ".join(f"{name}. {' '.join(in_words(*row, signed) for row in own)}" for name, own in rows.items())
            title = "Naive next to double-rewrite effect (RATE), by model; every panel has its own scale"
            panels = {name: (own, _RATE_SCALE) for name, own in rows.items()}
            yield panels_plot("rate", title, words, panels, _RATE_MARKS)

    def _rate(self, audit: str, moment: str, bias: str) -> dict[str, Estimate | None]:
        return {word: self.shown.estimate(key, audit, moment, bias) for word, key in _RATE.items()}

    def rate_by_bias(self) -> Iterator[Plot]:
        """The same for each bias, a row for every audit."""
        for bias, slug in slugs(self.shown.biases).items():
            found = {line: own for line in self.lines if any((own := self._rate(*line, bias)).values())}
            names = self.apart(audit for audit, _ in found)
            rows = {self.name(*line, names): own for line, own in found.items()}
            if len(rows) > 1 and any(own["naive"] for own in rows.values()):
                words = " ".join(in_words(label, own, signed) for label, own in rows.items())
                title = f"Naive next to double-rewrite effect (RATE): {named(bias)}"
                yield rows_plot(
                    f"rate-{slug}", title, words, rows.items(), _RATE_MARKS, replace(_RATE_SCALE, bars=False)
                )

    def correlations(self) -> Iterator[Correlation]:
        """The correlation of each audit and bias next to people's."""
        for bias in self.shown.biases:
            people = self.shown.people("correlation", bias)
            found = {line: own for line in self.lines if (own := self.shown.estimate("correlation", *line, bias))}
            names = self.apart(audit for audit, _ in found)
            for line, model in found.items():
                if people:
                    yield Correlation(bias, self.name(*line, names), people, model, line[1] == "before")

    def by_measure(self) -> Iterator[Plot]:
        """Every measure with an axis, a figure for each bias or section of quality."""
        for key, measure in sorted(MEASURES.items(), key=lambda item: not item[1].of_bias):
            columns = (self.shown.biases if measure.of_bias else ["", *self.shown.sections]) if measure.axis else []
            is_share, factor = measure.unit == "share", 100 if measure.unit == "share" else 1
            reference = None if measure.marked is None else factor * measure.marked
            scale = Scale(measure.axis, is_share, SHARE_LIMITS if is_share else (-1.05, 1.05), reference)
            for column, slug in slugs(columns).items():
                yield from self._of(key, column, f"{key}-{slug}" if column else key, scale)

    def _of(self, key: str, column: str, id: str, scale: Scale) -> Iterator[Plot]:
        rows: dict[str, dict[str, Drawn]] = {}
        for audit, moment in self.lines:
            if found := self.shown.estimate(key, audit, moment, column):
                is_mean = moment == "model" and (audit, column) in self.shown.means
                rows.setdefault(audit, {})["mean" if is_mean else moment] = found
        if len(rows) < 2:
            return
        names = self.apart(rows)
        rows = {names[audit]: own for audit, own in rows.items()}
        form = FORMS[MEASURES[key].unit]
        title = f"{MEASURES[key].caption}: {named(column)}" if column else MEASURES[key].caption
        if people := self.shown.people(key, column):
            scale = replace(scale, reference=100 * people.value if scale.is_share else people.value)
            title += f"; dashed: people, {form(people)} (n = {count(people)})"
        words = " ".join(in_words(label, _titled(own), form) for label, own in rows.items())
        marks = {moment: mark for moment, mark in _MARKS.items() if any(moment in own for own in rows.values())}
        yield rows_plot(id, title, words, rows.items(), marks, scale)


def _titled(own: Shown) -> Shown:
    return {_MARKS[moment].name: found for moment, found in own.items()}
