"""The measured features that explain a margin in place of the bias, as a sentence with the remedy."""

from __future__ import annotations

from cda.report.numbers import MINUS, listed, percent, signed
from cda.results.base import Missing
from cda.results.effects import Confound, ExactSlope, Identification

_NAMED = 2
"""Confounds that a sentence names; audit.json lists all."""
_MANY_BEYOND = 0.2
"""Share of the pairs beyond the limit of a feature from which it is named if no confound is shown."""


def confounds_sentence(found: Identification | Missing) -> str:
    """The measured features that explain the margin, with their slopes and parts of the mean margin, and the remedy; if none is
    shown to, those that put many pairs beyond the limits. Empty without both; else opens with a space."""
    if isinstance(found, Missing):
        return ""
    named = found.confounds[:_NAMED]
    text, names = f" The margin {'; it '.join(map(_confound_words, named))}.", [own.feature for own in named]
    if not named:
        total, beyond = found.overlap.n_total, found.overlap.beyond
        names = sorted(
            (name for name in beyond if beyond[name] >= _MANY_BEYOND * total), key=lambda name: -beyond[name]
        )[:_NAMED]
        text = (
            f" Beyond the limits: {', '.join(f'{_words(name)} in {beyond[name]}' for name in names)} of {total} pairs."
        )
    return f"{text} Rewrite the pairs so that {listed(list(map(_words, names)))} stay equal." if names else ""


def _confound_words(named: Confound) -> str:
    slope = named.slope
    ends = "" if isinstance(slope, ExactSlope) else f" [{slope.low:+.3g}, {slope.high:+.3g}]"
    each = f"{slope.value:+.3g}{ends}".replace("-", MINUS)
    return (
        f"{'rises' if slope.value > 0 else 'falls'} with {_words(named.feature)}: {each} for each one more, "
        f"R² {percent(named.r_squared)} alone, {signed(named.accounts_for)} of the mean margin"
    )


def _words(feature: str) -> str:
    return feature.replace("_", " ")
