"""The figures of a report as files at the size of a paper's column, with a list of what each shows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cda.errors import RecipeError
from cda.files.jsonl import write_text
from cda.files.paths import own_folder
from cda.report.markdown import escaped
from cda.report.plots.plot import FORMATS, Plot, save

FOLDER, CAPTIONS = "figures", "captions.md"


def checked_form(form: str) -> str:
    """The format of the files.

    Raises:
        RecipeError: It is none of those that figures are written in.
    """
    if form not in FORMATS:
        raise RecipeError([f"--figures {form}: figures are written as {' or '.join(FORMATS)}"])
    return form


def write_figures(plots: Sequence[Plot], beside: Path, form: str) -> str:
    """Every figure as `<id>.<form>` in the folder `figures/`, with `captions.md`, which says what each shows, numbers included.

    Files of an earlier report under other names stay; the list names those of this one.

    Args:
        plots: Figures of a report.
        beside: The folder of that report.
        form: svg or pdf.

    Returns:
        A sentence for a terminal: how many, and where.
    """
    checked_form(form)
    folder = beside / FOLDER
    own_folder(folder)
    files = [save(plot, folder, form) for plot in plots]
    lines = ["# Figures", ""]
    for plot, file in zip(plots, files, strict=True):
        size = f"{plot.width:g} × {plot.height:.1f} inches"
        lines += [f"## {escaped(file.name)} ({size})", "", f"{escaped(plot.title)}.", "", escaped(plot.description), ""]
    write_text(folder / CAPTIONS, "\n".join(lines))
    return f"Figures: {len(files)} files at paper size in {folder} ({CAPTIONS} says what each shows)"
