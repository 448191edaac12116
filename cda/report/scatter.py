"""A figure of correlations: how a bias goes along with being preferred by people, and by models."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from cda.records import PERCENT
from cda.report.numbers import count, decimals
from cda.report.plots import FAINT, SERIES, Mark, Plot, draw_points, errors, legend, series_marks
from cda.results.base import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Correlation(NamedTuple):
    """Correlations (r) of a bias with being preferred by people, and under one scoring of a model."""

    bias: str
    model: str
    of_people: Estimate
    of_model: Estimate
    is_first: bool = False
    """True before a training, of which there is an after: an open mark."""


def correlations_plot(
    found: Iterable[Correlation], trained: Mapping[str, Estimate] = MappingProxyType({})
) -> Iterator[Plot]:
    """Two to six biases, each model's r over people's: above the diagonal a model follows the bias more than people do. `trained`: r with being
    chosen in the training data, at the lower edge. As in Bharadwaj et al. 2025, figure 4."""
    known = list(found)
    marks = series_marks(dict.fromkeys(each.bias for each in known))
    if not 1 < len({each.bias for each in known}) <= len(SERIES):
        return
    words = [
        f"{each.bias}, {each.model}: people {_r(each.of_people)}, model {_r(each.of_model)}." for each in known
    ] + [f"{bias}, training data: {_r(own)}." for bias, own in trained.items() if bias in marks]
    title = (
        f"Correlation (r) with being preferred, with {PERCENT} intervals: the model's over people's; dashed: the same"
    )
    title += "; at the lower edge: in the training data" if trained else ""
    of = [each for one in known for each in (one.of_people, one.of_model)]
    draw = partial(_draw, known, marks, {bias: own for bias, own in trained.items() if bias in marks})
    yield Plot("correlations", title, " ".join(words), draw, 3.3, (*of, *trained.values()))


def _r(found: Estimate) -> str:
    return f"{decimals(found)} (n = {count(found)})"


def _draw(found: Sequence[Correlation], marks: Mapping[str, Mark], trained: Mapping[str, Estimate], axes: Axes) -> None:
    axes.plot([-1, 1], [-1, 1], color=FAINT, linewidth=0.8, linestyle=(0, (4, 3)), zorder=1)
    for bias, mark in marks.items():
        for is_first in (True, False):
            own = [each for each in found if (each.bias, each.is_first) == (bias, is_first)]
            people, models = [each.of_people for each in own], [each.of_model for each in own]
            xs, ys = [each.value for each in people], [each.value for each in models]
            kind = Mark("" if is_first else mark.name, mark.color, mark.shape, not is_first)
            draw_points(axes, kind, xs, ys, xerr=errors(people), yerr=errors(models))
        if bias in trained:
            axes.plot(
                [trained[bias].value], [-1.04], mark.shape, color=mark.color, markersize=6, clip_on=False, zorder=4
            )
    axes.set_xlim(-1.04, 1.04)
    axes.set_ylim(-1.04, 1.04)
    axes.set_aspect("equal")
    axes.set_xlabel("r, people")
    axes.set_ylabel("r, model")
    axes.locator_params(nbins=5)
    axes.grid(zorder=0)
    axes.set_axisbelow(True)
    legend(axes, len(marks))
