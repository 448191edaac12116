"""`cda study import`: what people sent back becomes votes that an audit takes, and a summary."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cda.errors import DataError, RunError
from cda.files.jsonl import read_json, write_jsonl, write_text
from cda.files.paths import is_a_file
from cda.inert import inert
from cda.launch import say
from cda.report.page import render_page
from cda.results.base import save
from cda.results.study import Rules, StudyResult
from cda.studies.answers import Vote, read_answers, screened
from cda.studies.design import Study
from cda.studies.forms import study_of
from cda.studies.page import study_page, study_text
from cda.studies.summary import summary

VOTES = "votes.jsonl"


def import_study(folder: Path, files: Sequence[Path], out: Path | None, rules: Rules) -> StudyResult:
    """Write votes (`id, vote` and who gave them), a summary as JSON and as a page beside them; return the summary.

    Raises:
        DataError: The folder is no study or was changed, a file cannot be read or is of another study, or no vote is left.
        RunError: The result cannot be written.
    """
    study = read_study(folder)
    if not files:
        raise DataError("no result files given: results of the page, exports of Label Studio, or filled tables")
    returned = read_answers(files, study)
    found = screened(study, returned.answers, rules)
    result = summary(study, found, rules, returned.blank)
    votes = out or folder / VOTES
    if votes.suffix != ".jsonl":
        raise RunError(f"--out {votes}: votes are written as JSON lines; give a name that ends in .jsonl")
    page = votes.with_name(f"{votes.stem}.summary.html")
    try:
        votes.parent.mkdir(parents=True, exist_ok=True)
        write_jsonl(votes, [_row(one, study) for one in found.votes])
        save(result, votes.with_name(f"{votes.stem}.summary.json"))
        write_text(page, render_page(study_page(result)))
    except OSError as error:
        raise RunError(
            f"{votes}: cannot be written ({error.strerror or error}). Choose another place with --out"
        ) from None
    say(
        f"{study_text(result)}\n{inert(f'Votes: {votes}, for `cda audit MODEL --bias BIAS --pairs CONTRASTS --votes {votes}`')}\n{inert(f'Summary: {page}')}"
    )
    return result


def read_study(folder: Path) -> Study:
    """The study of a folder that `cda study export` wrote.

    Raises:
        DataError: It is none, or was changed.
    """
    if not all(is_a_file(folder / name) for name in ("assignments.json", "key.json")):
        raise DataError(f"{folder}: no study; assignments.json and key.json of `cda study export` have to be there")
    return study_of(read_json(folder / "assignments.json"), read_json(folder / "key.json"), str(folder))


def _row(one: Vote, study: Study) -> dict[str, object]:
    return {
        "id": study.items[one.item].contrast,
        "vote": one.vote,
        "participant": one.participant,
        "seconds": one.seconds,
        "justification": one.justification,
    }
