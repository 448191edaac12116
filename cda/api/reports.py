"""Finished audits next to each other, from Python: comparisons of runs, and leaderboards of shared rows."""

from __future__ import annotations

from pathlib import Path

from cda.api.results import Comparison, Leaderboard, Panel, Run
from cda.auditing.comparison_result import compare_audits, read_audits
from cda.auditing.row import NO_ROW, names_folder
from cda.errors import RecipeError, type_in_words
from cda.files.jsonl import write_page
from cda.files.paths import free_place, place_for, user_path, writing
from cda.launch import is_main, say
from cda.panels.leaderboard import leaderboard_csv, read_leaderboard
from cda.report.numbers import n_of
from cda.resources.artifacts import of_this_version
from cda.resources.dry_run import stop_if_dry
from cda.results.base import save


def compare(first: str | Path, /, *others: str | Path) -> Comparison:
    """Finished audits or trainings held against each other, as `cda report --compare` does.

    Args:
        first: Folder of a run; each of the others is paired with it.
        others: Folders of further runs.

    Returns:
        What each found for every bias, and for each pair what they share and where they differ, contrast by contrast.

    Raises:
        RunError: Fewer than two runs, or a folder without a finished audit; all at once.

    Example:
        >>> import cda
        >>> comparison = cda.compare("runs/audit-model-8bit", "runs/audit-model-bf16")  # doctest: +SKIP
        >>> comparison.pairs[0].contrasts["length"].agreement  # doctest: +SKIP
    """
    wrong = [place for place in (first, *others) if not isinstance(place, str | Path)]
    if wrong:
        raise RecipeError(
            [
                f"cda.compare: give folders of runs, each by itself, as in cda.compare('one', 'other'); found {type_in_words(wrong[0])}"
            ]
        )
    found = read_audits([first, *others])
    with of_this_version(Path(", ".join(map(str, (first, *others))))):
        result = compare_audits(found)
    # As it is: its fields hold audits, which are not copied or checked again.
    return Comparison.model_construct(**dict(result))


def leaderboard(folder: str | Path, /) -> Leaderboard:
    """The rows of a folder, grouped by the texts that they were measured on and ranked within a group, as `cda leaderboard` does.

    Args:
        folder: Folder with files that `cda audit --export` or `audit.export` wrote, in any folders below it.

    Returns:
        The groups; `refused` names the files that are no rows. `report` and `to_csv` write it.

    Raises:
        DataError: No such folder, or no row in it.

    Example:
        >>> import cda
        >>> cda.audit("my-org/my-reward-model").export("rows/")  # doctest: +SKIP
        >>> cda.leaderboard("rows").report("leaderboard.html")  # doctest: +SKIP
    """
    if not isinstance(folder, str | Path):
        raise RecipeError([f"cda.leaderboard: folder: give a path; found {folder!r}"])
    return Leaderboard(**dict(read_leaderboard(folder)))


def check_export(place: str | None, n_models: int = 1) -> None:
    """Refuse, before any work, a place for rows that is neither a folder nor, for one model, a .json file, or cannot be written."""
    if place is None:
        return
    path = user_path(place)
    if names_folder(place):
        free_place(path / "row.json")
    elif n_models != 1:
        raise RecipeError(
            [f"--export {place}: {n_models} models have a row each; name a folder, with a slash at its end"]
        )
    elif path.suffix != ".json":
        raise RecipeError([f"--export {place}: {NO_ROW}"])
    else:
        free_place(path)


def export_run(run: Run | Panel, place: str | None) -> None:
    """Write the row of a run's audit, or those of a panel, if a place is given, and say where."""
    if place is None or not is_main():
        return
    for file in run.export(place) if isinstance(run, Panel) else (run.audit.export(place),):
        say(f"Row: {file}")


def leaderboard_files(folder: str, out: str | None = None) -> tuple[Leaderboard, str]:
    """Write the page of a leaderboard (`out`, or leaderboard.html in the folder), with its CSV and JSON next to it; the result, and the words of
    the command. Errors as of `leaderboard`, and RunError: a file cannot be written."""
    if out is not None and user_path(out).suffix != ".html":
        raise RecipeError([f"--out {out}: a page ends in .html; the CSV and the JSON lie next to it"])
    result = leaderboard(folder)
    page = user_path(out) if out is not None else user_path(folder) / "leaderboard.html"
    files = {kind: free_place(page).with_suffix(f".{kind}") for kind in ("csv", "json")}
    stop_if_dry(
        None, lambda: [*_read_rows(folder, result), f"writes      {page}, {files['csv'].name}, {files['json'].name}"]
    )
    place_for(page)
    with writing(page):
        write_page(page, result._document().page())
    with writing(files["csv"]):
        write_page(files["csv"], leaderboard_csv(result))
    with writing(files["json"]):
        save(result, files["json"])
    return result, f"{result}\n\nTable: {files['csv']}\nNumbers: {files['json']}\nPage: {page}"


def _read_rows(folder: str, result: Leaderboard) -> list[str]:
    """Steps of a dry run: the rows by whether they are shown."""
    groups = [len(group.entries) for group in result.groups]
    sizes = f" of {', '.join(map(str, groups))}" if len(groups) > 1 else ""
    left = [
        f"{n_of(len(found), what)} {why}"
        for found, what, why in (
            (result.superseded, "older row", "of the same model and texts"),
            (result.refused, "file", "without a row"),
        )
        if found
    ]
    without = f", without {' and '.join(left)}" if left else ""
    return [
        f"reads       {folder}: {n_of(sum(groups), 'row')} in {n_of(len(groups), 'group')}{sizes}, each on the same texts{without}",
        *(f"            {name}: {reason}" for name, reason in result.refused.items()),
    ]
