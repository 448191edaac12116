"""The measured features that explain a margin in place of the bias, as a sentence with the remedy."""

from __future__ import annotations

from cda.report.numbers import listed, percent, signed, two_digits, with_ends
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
    named, names = found.confounds[:_NAMED], _named(found)
    text = f" The margin {'; it '.join(map(_confound_words, named))}."
    if not named:
        total, beyond = found.overlap.n_total, found.overlap.beyond
        text = (
            f" Beyond the limits: {', '.join(f'{_words(name)} in {beyond[name]}' for name in names)} of {total} pairs."
        )
    return f"{text} Rewrite the pairs so that both sides match in {listed(list(map(_words, names)))}." if names else ""


def remedy(found: Identification | Missing) -> str:
    """Why the bias is not told apart and what to do, in about ten words, without numbers; empty if no feature is named."""
    names = [] if isinstance(found, Missing) else _named(found)[:1]
    return f"sides also differ in {_words(names[0])}: rewrite them to match" if names else ""


def _named(found: Identification) -> list[str]:
    """The features to name: confounds that are shown, else those that put many pairs beyond the limits."""
    if found.confounds:
        return [own.feature for own in found.confounds[:_NAMED]]
    total, beyond = found.overlap.n_total, found.overlap.beyond
    many = (name for name in beyond if beyond[name] >= _MANY_BEYOND * total)
    return sorted(many, key=lambda name: -beyond[name])[:_NAMED]


def _confound_words(named: Confound) -> str:
    slope = named.slope
    each = two_digits(slope.value) if isinstance(slope, ExactSlope) else with_ends(slope)
    return (
        f"{'rises' if slope.value > 0 else 'falls'} with {_words(named.feature)}: {each} for each one more, "
        f"R² {percent(named.r_squared)} alone, {signed(named.accounts_for)} of the mean margin"
    )


def _words(feature: str) -> str:
    return feature.replace("_", " ")
