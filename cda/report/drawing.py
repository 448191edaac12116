"""A figure drawn: inline SVG in the page's colours, files for a paper with their captions, and Matplotlib's axes."""

from __future__ import annotations

import io
import os
import re
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, NamedTuple
from xml.etree import ElementTree

from cda.errors import DataError, RecipeError, did_you_mean
from cda.files.jsonl import write_text, written_whole
from cda.files.paths import as_part, own_folder
from cda.records import PERCENT
from cda.report.numbers import listed, visible
from cda.report.plots import FAINT, INK, LINE, PAGE, PROPERTIES, WIDTHS, Column, Plot, legend
from cda.report.tables import escaped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

CAPTIONS, SNIPPETS = "captions.md", "figures.tex"
POINTS = 8
"""Size of every text in a figure."""
_DPI = 200
"""Of a PNG."""
_LEGEND_LINE = 0.16  # inches
_ROW_SHARE = 0.42
"""Share of a panel's width that the names of its rows may take."""
_ROW_LINES = 1.1
"""Height of a row in heights of its name."""
_TICK_GAP = 3  # pixels, a hundred to the inch
_FONTS = ("DejaVu Sans", "Arial", "Helvetica", "Liberation Sans", "Noto Sans")
"""Families in the order of preference; Matplotlib brings the first."""
_UNDRAWN = re.compile(r"Glyph (\d+)")
"""Warning about a character that the font lacks. In an SVG text stays text, so that the reader's fonts draw it."""
_SVG = "http://www.w3.org/2000/svg"
_STYLE: dict[Any, Any] = {
    "font.size": POINTS, "axes.titlesize": POINTS, "axes.labelsize": POINTS, "xtick.labelsize": POINTS, "ytick.labelsize": POINTS,
    "legend.fontsize": POINTS, "legend.frameon": False, "axes.edgecolor": FAINT, "axes.labelcolor": FAINT, "axes.linewidth": 0.6,
    "axes.spines.top": False, "axes.spines.right": False, "axes.facecolor": "none", "figure.facecolor": "none",
    "xtick.color": FAINT, "ytick.color": FAINT, "text.color": INK, "lines.linewidth": 1.4, "grid.color": LINE,
    "grid.linewidth": 0.6, "axes.unicode_minus": True, "text.parse_math": False, "svg.fonttype": "none",
    "svg.hashsalt": "cda", "pdf.fonttype": 42,
}  # fmt: skip


class FigureForm(NamedTuple):
    """A kind of file, and the column of a paper that it is as wide as."""

    ending: Literal["svg", "pdf", "png"]
    column: Column = "single"

    @classmethod
    def of(cls, text: str) -> FigureForm:
        """The form in the words of `--figures`, such as `svg` or `pdf:double`; RecipeError for another."""
        ending, colon, column = text.partition(":")
        if ending not in ("svg", "pdf") or (colon and column not in WIDTHS):
            widths = " or ".join(f"{name} ({inches:g} inches)" for name, inches in WIDTHS.items())
            said = f"--figures {text}: figures are written as svg or pdf, for a column that is {widths}, such as pdf:double"
            raise RecipeError([said])
        return cls(ending, column or "single")  # type: ignore[arg-type]


@cache
def font() -> str | None:
    """Installed font that figures are set in; None without any."""
    from matplotlib.font_manager import fontManager

    known = sorted({each.name for each in fontManager.ttflist if Path(each.fname).is_file()})
    plain = [name for name in known if "Sans" in name and "Mono" not in name]
    return next((name for name in (*_FONTS, *plain, *known) if name in known), None)


def obstacle() -> str:
    """Why no figure can be drawn here, as a sentence; empty if it can."""
    try:
        if font() is None:
            return (
                "No figure can be drawn: Matplotlib finds no font. Install one, such as the package fonts-dejavu-core."
            )
    except ImportError:
        return "No figure can be drawn without Matplotlib: pip install matplotlib"
    except ValueError:  # Matplotlib reads it as it is imported
        return f"No figure can be drawn: MPLBACKEND is '{visible(os.environ.get('MPLBACKEND', ''))}', which Matplotlib does not know. Unset it."
    return ""


def inline_svg(plot: Plot) -> str:
    """The figure as one <svg> for a page under a strict content security policy: styles become presentation attributes, colours
    the page's custom properties; text stays text. DataError: none can be drawn here."""
    column: Column = "double" if plot.is_wide else "single"
    with _drawn(plot, column) as figure, warnings.catch_warnings():
        warnings.filterwarnings("ignore", _UNDRAWN.pattern, UserWarning)
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
        elif value in PROPERTIES:
            element.set(name, f"var({PROPERTIES[value]})")


def plotted(plots: Sequence[Plot], which: str, column: Column) -> Axes | NDArray[Any]:
    """The axes of one of some figures, by its id, or of the first; see `plot` of results."""
    import numpy as np

    known = {plot.id: plot for plot in plots}
    if column not in WIDTHS:
        raise DataError(f"column: {' or '.join(WIDTHS)}; found '{column}'")
    if not known:
        raise DataError("there is no figure: none of its numbers is drawn")
    if which and which not in known:
        raise DataError(f"which: there is no figure '{which}'.{did_you_mean(which, known)} Known: {', '.join(known)}")
    axes = axes_of(known[which] if which else plots[0], column)
    return axes[0] if len(axes) == 1 else np.array(axes, dtype=object)


def axes_of(plot: Plot, column: Column = "single") -> list[Axes]:
    """The axes of a drawn figure, one for each panel; a notebook shows it, without a display too. DataError as of `inline_svg`."""

    def opened(**size: Any) -> Figure:
        from matplotlib import pyplot
        from matplotlib.figure import Figure

        try:
            return pyplot.figure(**size)
        except ImportError:  # a window is asked for where no display is
            return Figure(**size)

    with _style():
        return _laid_out(plot, column, opened, facecolor="white")[1]


class FigureFile(NamedTuple):
    """A written figure, with its size in inches, and the characters that its font lacks in a PDF."""

    path: Path
    inches: tuple[float, float]
    lacking: frozenset[str]


def save_plot(plot: Plot, folder: Path, form: FigureForm) -> FigureFile:
    """The figure as a file at its size in print; the same bytes for the same content. DataError as of `inline_svg`. An SVG describes itself in words, for readers who cannot see it, and has, as a PNG, a light
    background, for viewers with a dark one."""
    file = folder / f"{as_part(plot.id)}.{form.ending}"
    with (
        _drawn(plot, form.column) as figure,
        warnings.catch_warnings(record=True) as warned,
        written_whole(file) as opened,
    ):
        warnings.simplefilter("always")
        _saved(figure, plot, form.ending, opened)
        width, height = (float(inches) for inches in figure.get_size_inches())
    undrawn = (_UNDRAWN.match(str(each.message)) for each in warned if form.ending == "pdf")
    return FigureFile(file, (width, height), frozenset(chr(int(found[1])) for found in undrawn if found))


def svg_file(plot: Plot) -> bytes:
    """The content of the SVG that `save_plot` writes."""
    content = io.BytesIO()
    with _drawn(plot, "single") as figure, warnings.catch_warnings():
        warnings.filterwarnings("ignore", _UNDRAWN.pattern, UserWarning)
        _saved(figure, plot, "svg", content)
    return content.getvalue()


def _saved(figure: Figure, plot: Plot, ending: str, to: IO[bytes]) -> None:
    title, description = visible(plot.title), visible(plot.description)
    metadata: dict[str, dict[str, str | None]] = {
        "svg": {"Title": title, "Description": description, "Date": None, "Creator": None},
        "png": {"Title": title, "Description": description, "Software": None},
        "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    }  # fmt: skip
    if ending != "pdf":
        figure.set_facecolor(PAGE)
    figure.savefig(to, format=ending, metadata=metadata[ending], dpi=_DPI)


def write_plots(plots: Sequence[Plot], folder: Path, form: FigureForm) -> str:
    """Every figure as `figures/<id>.<form>` in a folder, with captions in Markdown and, of PDFs, in LaTeX; a sentence for a terminal.
    Other, earlier files stay."""
    if problem := obstacle():
        return problem
    folder, lines, snippets = own_folder(folder / "figures"), ["# Figures", ""], list[str]()
    lacking: set[str] = set()
    for plot in plots:
        file, (width, height), undrawn = save_plot(plot, folder, form)
        lacking |= undrawn
        name = f"{file.name} ({width:g} × {height:.1f} inches)"
        caption = f"{visible(plot.title).rstrip('.')}. {how_measured(plot)}".strip()
        lines += [f"## {escaped(name)}", "", escaped(caption), "", escaped(plot.description), ""]
        snippets += _snippet(file.name, caption, form)
    write_text(folder / CAPTIONS, "\n".join(lines))
    also = ""
    if form.ending == "pdf":
        write_text(folder / SNIPPETS, "\n".join(snippets))
        also = f", {SNIPPETS} has them for LaTeX"
    said = f"Figures: {len(plots)} files at paper size in {folder} ({CAPTIONS} says what each shows{also})"
    if font() != _FONTS[0]:
        said += f". They are set in {font()}, since Matplotlib's {_FONTS[0]} is not there"
    if lacking:
        some = visible("".join(sorted(lacking))[:20])
        said += f". Their font lacks {len(lacking)} characters ({some}), which are boxes in a PDF; an SVG keeps them"
    return said


def how_measured(plot: Plot) -> str:
    """n and the methods of the intervals in a figure, for its caption; empty of one without estimates."""
    if not plot.estimates:
        return ""
    n, prompts = ({getattr(each, name) for each in plot.estimates} for name in ("n", "n_prompts"))
    methods = listed(list(dict.fromkeys(each.method.replace(f" {PERCENT}", "") for each in plot.estimates)))
    return f"n = {_span(n)} for each mark, from {_span(prompts)} prompts; lines are {PERCENT} intervals ({methods})."


def _span(values: set[int]) -> str:
    return str(min(values)) if len(values) == 1 else f"{min(values)} to {max(values)}"


_TEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "−": "$-$",
    "×": r"$\times$", "→": r"$\to$", "λ": r"$\lambda$", "β": r"$\beta$", "²": r"$^2$", "≥": r"$\ge$", "≤": r"$\le$",
    **{each: f"\\{each}" for each in "&%$#_"},
}  # fmt: skip


def _snippet(name: str, caption: str, form: FigureForm) -> list[str]:
    kind = "figure*" if form.column == "double" else "figure"
    text, label = ("".join(_TEX.get(each, each) for each in part) for part in (caption, name))
    return [
        rf"\begin{{{kind}}}", r"  \centering", rf"  \includegraphics{{figures/{label}}}", rf"  \caption{{{text}}}",
        rf"  \label{{fig:{Path(name).stem}}}", rf"\end{{{kind}}}", "",
    ]  # fmt: skip


@contextmanager
def _style() -> Iterator[None]:
    """This module's style alone, whatever the user's settings of Matplotlib are; DataError: nothing can be drawn here."""
    if problem := obstacle():
        raise DataError(problem)
    import matplotlib as mpl

    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update({**_STYLE, "font.family": [font()]})
        yield


@contextmanager
def _drawn(plot: Plot, column: Column) -> Iterator[Figure]:
    """The drawn figure; save it inside this context, while the style is in force."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    def opened(**size: Any) -> Figure:
        return FigureCanvasAgg(Figure(**size)).figure

    with _style():
        figure, _ = _laid_out(plot, column, opened)
        figure.set_layout_engine("none")  # all is in its place, which a file's canvas would look for again
        yield figure


def _laid_out(plot: Plot, column: Column, opened: Any, **more: Any) -> tuple[Figure, list[Axes]]:
    """A figure with the panels of a plot, as many next to each other as the column holds."""
    figure: Figure = opened(figsize=plot.size(column), layout="constrained", **more)
    n_rows, n_columns = plot.grid(column)
    grid = figure.subplots(n_rows, n_columns, squeeze=False).ravel().tolist()
    drawn, left = grid[: len(plot.panels)], grid[len(plot.panels) :]
    for axes in left:
        axes.remove()
    for axes, draw in zip(drawn, plot.panels, strict=True):
        draw(axes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # glyphs that the font lacks: told when the file is written
        _fit(figure, drawn, n_columns)
    return figure, drawn


def _fit(figure: Figure, panels: Sequence[Axes], columns: int) -> None:
    """What would be cut or overlap at this width: names of rows and axes and titles of panels are broken, a legend gets more lines, which
    make the figure higher, and an axis fewer ticks. Panels with the rows of the one at the left leave out their names."""
    width = figure.bbox.width / columns
    for at, axes in enumerate(panels):
        first = panels[at - at % columns]
        if axes is not first and _row_names(axes) and _row_names(axes) == _row_names(first):
            axes.tick_params(labelleft=False)
            axes.set_ylabel("")
    _place(figure)
    broken = [_break_row_names(axes, _ROW_SHARE * width) for axes in panels]
    if any(broken):
        _place(figure)
    _break_legend(figure, panels[0])
    changed = [_thin_ticks(axes) for axes in panels]
    for at, axes in enumerate(panels):
        row = panels[at - at % columns : at - at % columns + columns]
        left = row[at % columns - 1].bbox.x1 if at % columns else 0.0
        right = row[at % columns + 1].bbox.x0 if axes is not row[-1] else figure.bbox.width
        changed.append(_break_titles(axes, left, right, figure.bbox.height))
    if any(changed):
        _place(figure)
    if (lacking := max(map(_lacking_height, panels))) > 0:
        figure.set_figheight(figure.get_figheight() + lacking / figure.dpi * -(-len(panels) // columns))
        _place(figure)


def _place(figure: Figure) -> None:
    """Find the place of every panel, as drawing the figure does in twice the time."""
    if engine := figure.get_layout_engine():
        engine.execute(figure)


def _row_names(axes: Axes) -> list[str]:
    """Names of rows; none of an axis of numbers."""
    from matplotlib.ticker import FixedLocator

    is_named = isinstance(axes.yaxis.get_major_locator(), FixedLocator)
    return [text.get_text() for text in axes.get_yticklabels()] if is_named else []


def _break_row_names(axes: Axes, room: float) -> bool:
    """Break names of rows that are wider than their room, in pixels; True if there are any."""
    names = _row_names(axes)
    widths = [text.get_window_extent().width for text in axes.get_yticklabels()] if names else []
    if not any(width > room for width in widths):
        return False
    kept = [
        name if width <= room else _broken(name, int(len(name) * room / width))
        for name, width in zip(names, widths, strict=True)
    ]
    axes.set_yticks(axes.get_yticks(), kept)
    return True


def _lacking_height(axes: Axes) -> float:
    """By how many pixels the axes are too low for the names of their rows."""
    heights = [text.get_window_extent().height for text in axes.get_yticklabels()] if _row_names(axes) else []
    return _ROW_LINES * max(heights, default=0.0) * len(heights) - axes.bbox.height


def _break_legend(figure: Figure, axes: Axes) -> None:
    n = len(figure.legends[0].get_texts()) if figure.legends else 0
    for lines in range(2, n + 1):
        (key,) = figure.legends
        if key.get_window_extent().width > figure.bbox.width:
            key.remove()
            legend(axes, -(-n // lines))
            figure.set_figheight(figure.get_figheight() + _LEGEND_LINE)
            _place(figure)


def _thin_ticks(axes: Axes) -> bool:
    """Fewer ticks where their numbers would touch; True if there are any."""
    from matplotlib.ticker import MaxNLocator

    thinned = False
    for n_ticks in range(5, 1, -1):
        boxes = [text.get_window_extent() for text in axes.get_xticklabels() if text.get_text()]
        is_free = isinstance(axes.xaxis.get_major_locator(), MaxNLocator)
        if is_free and any(left.x1 + _TICK_GAP > right.x0 for left, right in pairwise(boxes)):
            axes.locator_params(axis="x", nbins=n_ticks)
            thinned = True
    return thinned


def _break_titles(axes: Axes, left: float, right: float, height: float) -> bool:
    """Names of axes and titles that reach into the panels at their sides, or beyond the figure, in pixels; True if there are any."""
    from matplotlib.text import Text

    broken = False
    titles = [each for each in axes.get_children() if isinstance(each, Text) and each not in axes.texts]
    for text in (*titles, axes.xaxis.label, axes.yaxis.label):
        box, words = text.get_window_extent(), text.get_text()
        if text is axes.yaxis.label:
            length, beyond = box.height, max(-box.y0, box.y1 - height)
        else:
            length, beyond = box.width, max(left - box.x0, box.x1 - right)
        if words and beyond > 0:
            ends = 1 if text.get_horizontalalignment() == "left" else 2
            text.set_text(_broken(words, int(len(words) * (1 - ends * beyond / length)) - 3))
            broken = True
    return broken


def _broken(words: str, most: int) -> str:
    """Words in as few lines of so many characters as they need, each about as long as the others."""
    most = max(8, most)
    n_lines = len(textwrap.wrap(words, most))
    widths = range(min(most, max(map(len, words.split()))), most + 1)
    return "\n".join(next(lines for width in widths if len(lines := textwrap.wrap(words, width)) <= n_lines))
