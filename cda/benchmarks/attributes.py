"""Attributes of responses that `cda best-of` follows: biases by their measures, features, a reference quality."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from cda.arrays import FloatArray
from cda.biases import Bias, load_bias
from cda.errors import DataError, RecipeError, did_you_mean
from cda.features import TEXT_FEATURES, measure, scope_in_words
from cda.inert import clipped, inert
from cda.results.benchmarks import Followed
from cda.rewriting.labels import exhibits, measure_of


@dataclass(frozen=True, slots=True, eq=False)
class Attribute:
    """A property of responses, with its definition: the share that exhibits a bias (1 or 0), or the mean of a feature or
    quality in its own unit. Values (n_responses,); NaN is unknown, and leaves its prompt out of this attribute."""

    name: str
    kind: Followed
    values: FloatArray
    definition: str = ""

    @property
    def unit(self) -> str:
        return "share" if self.kind == "share" else self.name


def followed_attributes(
    names: Sequence[str], features: Sequence[str], betas: Sequence[float] = ()
) -> tuple[list[Bias], list[str]]:
    """Biases that a response exhibits or not by itself, and names of the features to average; each once. RecipeError (all
    listed): a bias that is unknown or cannot be measured, an unknown feature, a β that is not above 0."""
    problems = [f"β {beta:g}: give a finite number above 0, in reward units" for beta in betas if not 0 < beta < np.inf]
    shares, relative, own = [], [], []
    for name in dict.fromkeys(names):
        try:
            bias = load_bias(name)
            measure = measure_of(bias)
        except RecipeError as error:
            problems += error.problems
            continue
        own.append(bias.name)
        if measure.relative:
            relative.append(measure.feature)
        else:
            shares.append(bias)
    means = list(dict.fromkeys([*relative, *features]))
    problems += [
        f"feature '{name}' is not one of a text alone.{did_you_mean(name, TEXT_FEATURES)} Known: {', '.join(TEXT_FEATURES)}"
        for name in means
        if name not in TEXT_FEATURES
    ]
    problems += [
        f"two things are called '{name}': rename one of the biases"
        for name in sorted({name for name in own if own.count(name) > 1 or name in {*means, "quality"}})
    ]
    if not (shares or means):
        problems.append("nothing to follow: name a bias or a feature")
    if problems:
        raise RecipeError(problems)
    return shares, means


def attributes_of(shares: Sequence[Bias], means: Sequence[str], texts: Sequence[str]) -> list[Attribute]:
    """Shares of biases, then means of features; each is measured once per distinct text."""

    def values(name: str, feature: str, measure: Callable[[str], float | None]) -> FloatArray:
        by_text = {text: measure(text) for text in dict.fromkeys(texts)}
        found = np.array([by_text[text] for text in texts], dtype=np.float64)  # None becomes NaN
        if n := int(np.isnan(found).sum()):
            first = clipped(inert(texts[int(np.isnan(found).argmax())]), 30)
            raise DataError(
                f"{name}: {feature.replace('_', ' ')} holds in {scope_in_words(feature)} only, and {n} of {len(texts)} responses are "
                f"not; the first begins '{first}'. Follow another bias or feature, such as characters, or leave these out"
            )
        return found

    attributes = []
    for bias in shares:
        rule = measure_of(bias)
        limit = f"below {rule.present_below:g}" if rule.present_above is None else f"above {rule.present_above:g}"
        words = f"share of picks that exhibit it, that is {rule.feature.replace('_', ' ')} {limit}"
        attributes.append(
            Attribute(bias.name, "share", values(bias.name, rule.feature, partial(exhibits, bias=bias)), words)
        )
    for name in means:
        words = f"mean of {name.replace('_', ' ')} among the picks"
        attributes.append(Attribute(name, "mean", values(name, name, partial(measure, feature=name)), words))
    return attributes
