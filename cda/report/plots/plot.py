"""A figure as a value, and its two forms: inline SVG in the page's colours, and a file at paper size."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from cda.files.jsonl import written_whole
from cda.files.paths import as_part
from cda.report.numbers import visible

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
