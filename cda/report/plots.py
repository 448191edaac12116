"""A figure as a value, and its two forms: inline SVG in the page's colours, and a file at paper size."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from xml.etree import ElementTree

from cda.files.jsonl import written_whole
from cda.files.paths import as_part
from cda.report.numbers import clipped, count, plain, share, signed, visible
from cda.results.base import Estimate
from cda.results.benchmarks import Measured
from cda.results.effects import Level

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The palette: each is also a custom property of report.css, which gives it another value in the dark and on paper.
# Blue and orange differ for every common form of colour blindness; marks differ in shape as well.
INK, FAINT, LINE, PAGE = "#1b1f24", "#59616b", "#d5d9df", "#fffffe"
BEFORE, AFTER, PEOPLE, THIRD = "#b34a00", "#0067a8", "#1b1f25", "#6d4c9f"
_PROPERTIES = {
    INK: "--ink", FAINT: "--faint", LINE: "--line", PAGE: "--page",
    BEFORE: "--before", AFTER: "--after", PEOPLE: "--people", THIRD: "--third",
}  # fmt: skip

COLUMN_INCHES = 3.4
"""Width of a column of a paper; on a page a figure of this width reads well on a phone too."""
PAGE_INCHES = 6.9
SHARE_LIMITS = (-2.0, 102.0)
_MOST_ROWS = 24
"""Levels that a figure shows."""
_LANE, _ROW_GAP = 0.11, 0.15  # inches between the marks of a row, and between rows
_FRAME = 0.75  # inches for legend, ticks and the axis' name

_DPI = 200
"""Of a PNG."""
_UNDRAWN = r"Glyph \d+"
"""Warning about a character that the font lacks. In an SVG text stays text, so that the reader's fonts draw it."""
_SVG = "http://www.w3.org/2000/svg"
_STYLE: dict[Any, Any] = {
    "font.family": "sans-serif", "font.sans-serif": ["DejaVu Sans"], "font.size": 8, "axes.titlesize": 8,
    "axes.labelsize": 8, "xtick.labelsize": 7, "ytick.labelsize": 7, "legend.fontsize": 7, "legend.frameon": False,
    "axes.edgecolor": FAINT, "axes.labelcolor": FAINT, "axes.linewidth": 0.6, "axes.spines.top": False,
    "axes.spines.right": False, "axes.facecolor": "none", "figure.facecolor": "none", "xtick.color": FAINT,
    "ytick.color": FAINT, "text.color": INK, "lines.linewidth": 1.4, "grid.color": LINE, "grid.linewidth": 0.6,
    "axes.unicode_minus": True, "text.parse_math": False, "svg.fonttype": "none", "svg.hashsalt": "cda",
    "pdf.fonttype": 42,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Plot:
    """A figure not yet drawn, in this module's colours; inches. `id` is anchor and file name (lower case, digits, hyphens,
    underscores), `title` the caption on the page, `description` the numbers in words, for readers who cannot see it."""

    id: str
    title: str
    description: str
    draw: Callable[[Axes], None]
    height: float = 2.4
    width: float = COLUMN_INCHES

    @property
    def is_wide(self) -> bool:
        """True if a phone scrolls it sideways, within its frame."""
        return self.width > COLUMN_INCHES


def inline_svg(plot: Plot) -> str:
    """The figure as one <svg> for a page under a strict content security policy: styles become presentation attributes, colours
    the page's custom properties; text stays text."""
    with _drawn(plot) as figure, warnings.catch_warnings():
        warnings.filterwarnings("ignore", _UNDRAWN, UserWarning)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    root = ElementTree.fromstring(buffer.getvalue())
    left_out = {f"{{{_SVG}}}{name}" for name in ("metadata", "style", "title")}
    for element in list(root.iter()):
        element[:] = [child for child in element if child.tag not in left_out]
        _presented(element, plot.id)
    root.attrib = {
        "class": "plot wide" if plot.is_wide else "plot",
        "viewBox": root.attrib["viewBox"],
        "role": "img",
        "aria-labelledby": f"{plot.id}-title {plot.id}-desc",
    }
    for at, (name, text) in enumerate((("title", plot.title), ("desc", plot.description))):
        element = ElementTree.Element(f"{{{_SVG}}}{name}", {"id": f"{plot.id}-{name}"})
        element.text = visible(text)
        root.insert(at, element)
    ElementTree.register_namespace("", _SVG)
    text = ElementTree.tostring(root, encoding="unicode")
    return re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", text.replace("ns1:href", "href").replace("xlink:href", "href"))


def save_plot(plot: Plot, folder: Path, form: str) -> Path:
    """The figure as a file at its size in print; the same bytes for the same content. An SVG describes itself in words, for
    readers who cannot see it; it and a PNG have a light background, for viewers with a dark one."""
    file = folder / f"{as_part(plot.id)}.{form}"
    said = {"Title": visible(plot.title), "Description": visible(plot.description), "Date": None, "Creator": None}
    metadata: dict[str, dict[str, Any]] = {
        "svg": said, "png": {"Title": said["Title"], "Description": said["Description"], "Software": None},
        "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    }  # fmt: skip
    with _drawn(plot) as figure, warnings.catch_warnings():
        if form == "svg":
            warnings.filterwarnings("ignore", _UNDRAWN, UserWarning)
        if form != "pdf":
            figure.set_facecolor(PAGE)
        with written_whole(file) as opened:
            figure.savefig(opened, format=form, metadata=metadata[form], dpi=_DPI)
    return file


@contextmanager
def _drawn(plot: Plot) -> Iterator[Figure]:
    """The drawn figure; save it inside this context, while the style is in force."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(plot.width, plot.height), layout="constrained")
        plot.draw(figure.add_subplot())
        yield figure


def _presented(element: ElementTree.Element, prefix: str) -> None:
    """Style as attributes, colours as properties, identifiers of this figure alone."""
    for declaration in element.attrib.pop("style", "").split(";"):
        name, _, value = (part.strip() for part in declaration.partition(":"))
        if name == "font":
            # Size and weight of the shorthand; the page says which family.
            for key, pattern in (("font-size", r"([\d.]+)px"), ("font-weight", r"\b(bold|[1-9]00)\b")):
                if found := re.search(pattern, value):
                    element.set(key, found[1])
        elif name and not name.startswith("font-family"):
            element.set(name, value)
    for name, value in list(element.attrib.items()):
        if name == "id":
            element.set(name, f"{prefix}-{value}")
        elif name.endswith("href"):
            element.set(name, value.replace("#", f"#{prefix}-", 1))
        elif value.startswith("url(#"):
            element.set(name, value.replace("url(#", f"url(#{prefix}-", 1))
        elif value in _PROPERTIES:
            element.set(name, f"var({_PROPERTIES[value]})")


@dataclass(frozen=True, slots=True)
class Mark:
    """The marker of one kind of estimate: shapes distinguish kinds if colours cannot."""

    name: str
    color: str
    shape: str
    filled: bool = True


SCORINGS = {
    "before": Mark("before", BEFORE, "o", filled=False),
    "after": Mark("after", AFTER, "o"),
    "plain": Mark("plain CDA (dose 1)", THIRD, "s", filled=False),
    "model": Mark("model", BEFORE, "o", filled=False),  # one scoring is the model as it came
}
PEOPLE_MARK = Mark("people", PEOPLE, "D")


@dataclass(frozen=True, slots=True)
class PlotRow:
    """One row of a figure; an estimate for each mark, None if there is none."""

    label: str
    estimates: tuple[Estimate | None, ...]


@dataclass(frozen=True, slots=True)
class Scale:
    """The horizontal axis, by its quantity and unit; shares are percentages. `limits` are in the axis' own unit, None fits
    them; `reference` is a dashed line, such as no effect; `bars` from 0 are drawn behind the marks."""

    name: str
    is_share: bool = False
    limits: tuple[float, float] | None = None
    reference: float | None = None
    bars: bool = False
    one_lane: bool = False
    """True if each row has one mark, so that none needs a lane of its own."""


def draw_rows(axes: Axes, rows: Sequence[PlotRow], marks: Sequence[Mark], scale: Scale) -> None:
    """Rows from the top down, the marks of a row below each other in the order given."""
    step = 0.0 if scale.one_lane else _LANE / _row_inches(len(marks))
    factor = 100.0 if scale.is_share else 1.0
    for at, mark in enumerate(marks):
        shift = (at - (len(marks) - 1) / 2) * step
        lanes = [(y + shift, row.estimates[at]) for y, row in enumerate(rows)]
        _draw_mark(axes, mark, [(y, estimate) for y, estimate in lanes if estimate], factor, scale.bars * step)
    if scale.reference is not None:
        axes.axvline(scale.reference, color=FAINT, linewidth=0.8, linestyle=(0, (4, 3)), zorder=1)
    axes.set_yticks(range(len(rows)), [row.label for row in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    if scale.limits is not None:
        axes.set_xlim(*scale.limits)
    axes.locator_params(axis="x", nbins=6)
    draw_frame(axes, scale.name, "x")
    axes.tick_params(axis="y", length=0, labelcolor=FAINT)
    axes.spines["left"].set_visible(False)
    if len(marks) > 1:
        legend(axes, len(marks))


def _draw_mark(axes: Axes, mark: Mark, lanes: list[tuple[float, Estimate]], factor: float, bar: float) -> None:
    ys, estimates = [y for y, _ in lanes], [estimate for _, estimate in lanes]
    values = [factor * estimate.value for estimate in estimates]
    if bar:
        axes.barh(ys, values, height=0.9 * bar, color=mark.color, alpha=0.25, zorder=2)
    draw_points(axes, mark, values, ys, xerr=errors(estimates, factor))


def draw_points(axes: Axes, mark: Mark, xs: Sequence[float], ys: Sequence[float], **intervals: Any) -> None:
    """Points with their intervals (`xerr`, `yerr`: as of `errors`), with the mark's name for the legend."""
    axes.errorbar(
        xs, ys, fmt=mark.shape, color=mark.color, label=mark.name, markersize=4, elinewidth=1.2,
        markerfacecolor=mark.color if mark.filled else PAGE, markeredgewidth=1.0, zorder=3, **intervals,
    )  # fmt: skip


def errors(estimates: Sequence[Measured], factor: float = 1.0) -> list[list[float]]:
    """Lengths of the intervals below and above their values; 0 of a value without one."""
    # Rounding may put an end of an interval on the other side of its value.
    return [
        [max(0.0, factor * (one.value - one.low)) if isinstance(one, Estimate) else 0.0 for one in estimates],
        [max(0.0, factor * (one.high - one.value)) if isinstance(one, Estimate) else 0.0 for one in estimates],
    ]


def draw_frame(axes: Axes, name: str, grid: Literal["x", "y", "both"]) -> None:
    """Name the horizontal axis and draw faint lines across the one that is read."""
    axes.set_xlabel(name)
    axes.grid(axis=grid, color=LINE)
    axes.set_axisbelow(True)


def legend(axes: Axes, n: int) -> None:
    """Draw the key above the axes, as wide as the figure: in lines of three at most; four stand two by two."""
    figure = axes.get_figure()
    if figure is not None:
        figure.legend(
            *axes.get_legend_handles_labels(), loc="outside upper center", ncols=n if n <= 3 else 2, borderaxespad=0.2,
            handletextpad=0.4, columnspacing=1.2,
        )  # fmt: skip


def _row_inches(n_marks: int) -> float:
    return _LANE * n_marks + _ROW_GAP


def rows_height(n_rows: int, n_marks: int) -> float:
    """Height of a figure of rows, in inches."""
    return _FRAME + n_rows * _row_inches(n_marks) + (0.15 if n_marks > 3 else 0.0)


def named(name: object, most: int = 20) -> str:
    """A name from outside as Matplotlib gets it: one line without control characters, cut if it is long."""
    return clipped(" ".join(visible(name).split()), most)


def slugs(names: Iterable[str]) -> dict[str, str]:
    """For each name a word of lower-case letters, digits and hyphens, no two the same: parts of identifiers and file names."""
    words: dict[str, str] = {}
    for name in names:
        plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40].strip("-") or "bias"
        word, at = plain, 2
        while word in words.values():
            word, at = f"{plain}-{at}", at + 1
        words[name] = word
    return words


SCORING_MARKS = ((BEFORE, "o", False), (AFTER, "s", True))
"""Colour, shape and filling of two scorings, first and second."""


def scoring_marks(labels: Sequence[str]) -> dict[str, Mark]:
    """Marks of one scoring, or of two, first and second."""
    alone = len(labels) == 1
    return {
        label: Mark(named(label), color, shape, filled or alone)
        for label, (color, shape, filled) in zip(labels, SCORING_MARKS, strict=False)
    }


Shown = Mapping[str, Estimate | None]
"""Word for a kind of estimate to the estimate; None if there is none."""


def rows_plot(
    id: str, title: str, text: str, shown: Iterable[tuple[str, Shown]], marks: Mapping[str, Mark], scale: Scale
) -> Plot:
    """A row for each label, with the marks of the words it has an estimate for."""
    rows = [PlotRow(label, tuple(own.get(word) for word in marks)) for label, own in shown]
    draw = partial(draw_rows, rows=rows, marks=list(marks.values()), scale=scale)
    return Plot(id, title, text, draw, rows_height(len(rows), 1 if scale.one_lane else len(marks)))


def in_words(label: str, shown: Shown, form: Callable[[Estimate], str], once: bool = False) -> str:
    """A row in words, with n behind each number, or once behind all."""
    known = {word: estimate for word, estimate in shown.items() if estimate is not None}
    ns = [f" (n = {count(estimate)})" for estimate in known.values()]
    words = (f"{word} {form(known[word])}{'' if once else n}" for word, n in zip(known, ns, strict=True))
    return f"{label}: {', '.join(words)}{ns[0] if once else ''}."


def percent_scale(name: str, reference: float | None = None) -> Scale:
    """The scale of shares, from none to all."""
    return Scale(name, is_share=True, limits=SHARE_LIMITS, reference=reference)


def percent_axis(axes: Axes, which: Literal["x", "y"] = "x") -> None:
    """Print shares from 0 to 1 as percentages, with decimals only where a tick has some."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_formatter(lambda share, _: f"{plain(round(100 * share, 6), 3)}%")


def levels_plot(
    id: str, title: str, levels: Iterable[tuple[str, Level]], measure: str, scorings: Sequence[str], scale: Scale
) -> Plot | None:
    """One number of the first levels in rows, under one or two scorings; None without any."""
    found = ((name, {label: level.of(measure, label) for label in scorings}) for name, level in levels)
    rows = [(name, own) for name, own in found if any(own.values())]
    cut = f" (the first {_MOST_ROWS} of {len(rows)})" if len(rows) > _MOST_ROWS else ""
    rows, form = rows[:_MOST_ROWS], share if scale.is_share else signed
    said = ((name, (f"{form(found)} {label}" for label, found in own.items() if found)) for name, own in rows)
    words = " ".join(f"{name}: {', '.join(each)}." for name, each in said)
    drawn = [(named(name, 30), own) for name, own in rows]
    return rows_plot(id, f"{title}{cut}", words, drawn, scoring_marks(scorings), scale) if drawn else None
