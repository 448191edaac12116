"""A figure as a value, and its two forms: inline SVG in the page's colours, and a file at paper size."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from cda.files.jsonl import written_whole
from cda.files.paths import as_part
from cda.report.numbers import clipped, visible
from cda.results.base import Estimate
from cda.results.benchmarks import Measured

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
FORMATS = ("svg", "pdf")

_UNDRAWN = r"Glyph \d+"
"""Of a character that the font lacks. In an SVG text stays text, so that the reader's fonts draw it; ours only measure."""
_SVG = "http://www.w3.org/2000/svg"
_XLINK = "http://www.w3.org/1999/xlink"
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
    """A figure that is not drawn yet.

    Attributes:
        id: Its anchor and file name: lower case, digits, hyphens and underscores.
        title: What it shows, a short sentence; the caption of the page.
        description: What a reader who cannot see it needs to know: the numbers in words.
        draw: Draws into axes, with the colours of this module only.
        height: Inches, at its width.
        width: Inches: COLUMN_INCHES or PAGE_INCHES.
    """

    id: str
    title: str
    description: str
    draw: Callable[[Axes], None]
    height: float = 2.4
    width: float = COLUMN_INCHES


def inline_svg(plot: Plot) -> str:
    """The figure as one <svg> element for a page under a strict content security policy.

    No style attribute or element is left (the policy blocks them): what they said stands in presentation attributes, and
    colours are the page's custom properties. Text stays text.
    """
    with _drawn(plot) as figure, warnings.catch_warnings():
        warnings.filterwarnings("ignore", _UNDRAWN, UserWarning)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    root = ElementTree.fromstring(buffer.getvalue())
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in (f"{{{_SVG}}}metadata", f"{{{_SVG}}}style", f"{{{_SVG}}}title"):
                parent.remove(child)
    for element in root.iter():
        _presented(element, plot.id)
    box = root.attrib["viewBox"]
    root.attrib = {
        "class": "plot" if plot.width <= COLUMN_INCHES else "plot wide",
        "viewBox": box,
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


def save(plot: Plot, folder: Path, form: str) -> Path:
    """The figure as a file at its size in print; the same bytes for the same content.

    An SVG says in words what it shows, for readers who cannot see it, and has a light ground, for viewers with a dark one.
    """
    file = folder / f"{as_part(plot.id)}.{form}"
    said = {"Title": visible(plot.title), "Description": visible(plot.description), "Date": None, "Creator": None}
    dates = {"CreationDate": None, "Creator": None, "Producer": None}
    with _drawn(plot) as figure, warnings.catch_warnings():
        if form == "svg":
            warnings.filterwarnings("ignore", _UNDRAWN, UserWarning)
            figure.set_facecolor(PAGE)
        with written_whole(file) as opened:
            figure.savefig(opened, format=form, metadata=said if form == "svg" else dates)
    return file


@contextmanager
def _drawn(plot: Plot) -> Iterator[Figure]:
    """The figure, drawn; what is saved has to be saved while the style is in force."""
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
            for key, found in _font(value).items():
                element.set(key, found)
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


def _font(shorthand: str) -> dict[str, str]:
    """Size and weight of a CSS font shorthand; the page says which family."""
    size = re.search(r"([\d.]+)px", shorthand)
    weight = re.search(r"\b(bold|[1-9]00)\b", shorthand)
    found = {"font-size": size[1]} if size else {}
    return found | ({"font-weight": weight[1]} if weight else {})


NAME_COLUMNS = 20
_LANE = 0.11  # inches between the marks of a row
_ROW_GAP = 0.15
_FRAME = 0.75  # legend, ticks and the axis' name


@dataclass(frozen=True, slots=True)
class Mark:
    """How one kind of estimate is drawn: shapes tell kinds apart where colours do not."""

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
class Row:
    """One row; an estimate for each mark, None where there is none."""

    label: str
    estimates: tuple[Estimate | None, ...]


@dataclass(frozen=True, slots=True)
class Scale:
    """The horizontal axis.

    Attributes:
        name: What it measures, with its unit.
        is_share: Values are shares, drawn as percentages.
        limits: Of the axis, in its own unit; None: as the estimates need.
        reference: Where a dashed line stands, such as no effect.
        bars: Draw bars from 0 behind the marks.
    """

    name: str
    is_share: bool = False
    limits: tuple[float, float] | None = None
    reference: float | None = None
    bars: bool = False


SHARE_LIMITS = (-2.0, 102.0)


def draw_rows(axes: Axes, rows: Sequence[Row], marks: Sequence[Mark], scale: Scale) -> None:
    """Rows from the top down, the marks of a row below each other in the order given."""
    step = _LANE / row_inches(len(marks))
    factor = 100.0 if scale.is_share else 1.0
    for at, mark in enumerate(marks):
        shift = (at - (len(marks) - 1) / 2) * step
        found = [(y + shift, row.estimates[at]) for y, row in enumerate(rows)]
        there = [(y, one) for y, one in found if one is not None]
        _draw_mark(axes, mark, there, factor, scale.bars * step)
    if scale.reference is not None:
        axes.axvline(scale.reference, color=FAINT, linewidth=0.8, linestyle=(0, (4, 3)), zorder=1)
    axes.set_yticks(range(len(rows)), [row.label for row in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    if scale.limits is not None:
        axes.set_xlim(*scale.limits)
    axes.locator_params(axis="x", nbins=6)
    frame(axes, scale.name, "x")
    axes.tick_params(axis="y", length=0, labelcolor=FAINT)
    axes.spines["left"].set_visible(False)
    if len(marks) > 1:
        legend(axes, len(marks))


def _draw_mark(axes: Axes, mark: Mark, there: list[tuple[float, Estimate]], factor: float, bar: float) -> None:
    ys = [y for y, _ in there]
    values = [factor * one.value for _, one in there]
    # Rounding may put an end of an interval on the other side of its value.
    below = [max(0.0, factor * (one.value - one.low)) for _, one in there]
    above = [max(0.0, factor * (one.high - one.value)) for _, one in there]
    if bar:
        axes.barh(ys, values, height=0.9 * bar, color=mark.color, alpha=0.25, zorder=2)
    axes.errorbar(
        values, ys, xerr=[below, above], fmt=mark.shape, color=mark.color, label=mark.name, markersize=4, elinewidth=1.2,
        markerfacecolor=mark.color if mark.filled else PAGE, markeredgewidth=1.0, zorder=3,
    )  # fmt: skip


def frame(axes: Axes, name: str, grid: str) -> None:
    """Name of the horizontal axis and faint lines across the one that is read."""
    axes.set_xlabel(name)
    axes.grid(axis=grid, color=LINE)  # type: ignore[arg-type]
    axes.set_axisbelow(True)


def legend(axes: Axes, n: int) -> None:
    """Above the axes, as wide as the figure: in lines of three at most; four stand two by two."""
    figure = axes.get_figure()
    if figure is not None:
        figure.legend(
            *axes.get_legend_handles_labels(), loc="outside upper center", ncols=n if n <= 3 else 2, borderaxespad=0.2,
            handletextpad=0.4, columnspacing=1.2,
        )  # fmt: skip


def row_inches(n_marks: int) -> float:
    """Height of a row."""
    return _LANE * n_marks + _ROW_GAP


def rows_height(n_rows: int, n_marks: int) -> float:
    """Height of a figure of so many rows, in inches."""
    return _FRAME + n_rows * row_inches(n_marks) + (0.15 if n_marks > 3 else 0.0)


def named(name: object, most: int = NAME_COLUMNS) -> str:
    """A name from outside as Matplotlib gets it: one line without control characters, cut where it is long."""
    return clipped(" ".join(visible(name).split()), most)


def slugs(names: Iterable[str]) -> dict[str, str]:
    """For each name a word of lower-case letters, digits and hyphens, no two the same: parts of identifiers and file names."""
    found: dict[str, str] = {}
    for name in names:
        plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40].strip("-") or "bias"
        word, at = plain, 2
        while word in found.values():
            word, at = f"{plain}-{at}", at + 1
        found[name] = word
    return found


# Colours repeat after four; with the shapes no two of the first seven are alike.
KINDS = tuple(
    zip((AFTER, BEFORE, THIRD, PEOPLE, AFTER, BEFORE, THIRD), ("o", "s", "^", "D", "v", "P", "X"), strict=True)
)


def across(
    axes: Axes, y: float, found: Measured, color: str, shape: str = "o", filled: bool = True, factor: float = 1.0
) -> None:
    """A value with its interval where it has one, lying; in units of which the estimate's holds `factor`."""
    value, ends = _with_ends(found)
    if ends:
        axes.plot([factor * end for end in ends], [y, y], color=color, linewidth=1.2, zorder=2)
    _mark(axes, factor * value, y, color, shape, filled)


def upright(axes: Axes, x: float, found: Measured, color: str, shape: str = "o", filled: bool = True) -> None:
    """A value with its interval where it has one, standing."""
    value, ends = _with_ends(found)
    if ends:
        axes.plot([x, x], ends, color=color, linewidth=1.2, zorder=2)
    _mark(axes, x, value, color, shape, filled)


def _with_ends(found: Measured) -> tuple[float, tuple[float, ...]]:
    """A value and the ends of its interval, none where it has none."""
    if isinstance(found, Estimate):
        return found.value, (found.low, found.high)
    return found.value, ()


def rows(axes: Axes, names: Sequence[str]) -> None:
    """Names down the side, the first one on top, with a line between each two."""
    axes.set_yticks(range(len(names)), list(names))
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    for at in range(1, len(names)):
        axes.axhline(at - 0.5, color=LINE, linewidth=0.6, zorder=0)


def key(axes: Axes, entries: Sequence[tuple[str, str, str, bool]], columns: int = 2) -> None:
    """A key below the axes: text, colour, shape and whether it is filled; nothing where there are no entries."""
    from matplotlib.lines import Line2D

    figure = axes.figure
    handles = [
        Line2D([], [], color=color, marker=shape, linestyle="none", markersize=5,
               markerfacecolor=color if filled else PAGE, label=text)
        for text, color, shape, filled in entries
    ]  # fmt: skip
    if handles:
        figure.legend(handles=handles, loc="outside lower center", ncols=min(columns, len(handles)), labelcolor=FAINT)


SCORING_MARKS = ((BEFORE, "o", False), (AFTER, "s", True))
"""Colour, shape and filling of two scorings, first and second."""


def lanes(
    axes: Axes, names: Sequence[str], labels: Sequence[str], values: Sequence[Sequence[Measured]], factor: float = 1.0
) -> None:
    """A row per name with a lying mark for each scoring (one, or two and their key); one unit of a value is drawn as `factor`."""
    for row, measured in enumerate(values):
        for (color, shape, filled), shift, value in zip(
            SCORING_MARKS, lane_shifts(len(labels)), measured, strict=False
        ):
            across(axes, row + shift, value, color, shape, filled or len(labels) == 1, factor)
    rows(axes, names)
    axes.grid(axis="x", color=LINE)
    scorings_key(axes, labels)


def lane_shifts(n_scorings: int) -> tuple[float, ...]:
    """Distance of each scoring's mark from the middle of its row."""
    return (0.0,) if n_scorings == 1 else (-0.18, 0.18)


def scorings_key(axes: Axes, labels: Sequence[str]) -> None:
    """A key of two scorings; none if there is one."""
    if len(labels) == 2:
        key(axes, [(named(label, 20), *mark) for label, mark in zip(labels, SCORING_MARKS, strict=True)])


def percent_axis(axes: Axes, which: str = "x") -> None:
    """Shares from 0 to 1 as percentages."""
    from matplotlib.ticker import PercentFormatter

    one = axes.xaxis if which == "x" else axes.yaxis
    one.set_major_formatter(PercentFormatter(1.0, decimals=None))


def _mark(axes: Axes, x: float, y: float, color: str, shape: str, filled: bool) -> None:
    axes.plot([x], [y], shape, color=color, markerfacecolor=color if filled else PAGE, markersize=5, zorder=3)
