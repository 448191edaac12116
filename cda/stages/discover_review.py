"""The stop between validation and test at which a person may drop candidates."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from cda.discovery.records import Candidate
from cda.errors import DataError
from cda.files.jsonl import write_text
from cda.files.yaml_file import read_yaml_mapping
from cda.report.numbers import inert
from cda.results.evidence import Strength, Validation

FILE = "review.yaml"
_HEAD = """\
# Candidates that held on the validation prompts. Write `keep: false` for those that are not worth a test, such as what
# makes an answer better, or what says the same as another; then run the same command again. The test prompts are used once.
"""


def write_review(path: Path, candidates: Sequence[Candidate], results: Mapping[str, Validation]) -> None:
    """Write the file that a person edits."""
    body = "".join(_entry(one, results[one.id].pooled) for one in candidates)
    write_text(path, f"{_HEAD}{body}")


def reviewed(path: Path, candidates: Sequence[Candidate]) -> list[Candidate] | None:
    """What the person kept; None where nobody was asked, or there is nobody to keep.

    Raises:
        DataError: An entry without `keep: true` or `keep: false`, no entry at all for some of the candidates, or entries for
            others: to test against what a person meant would use up the test prompts.
    """
    if not path.is_file() or not candidates:
        return None
    content = read_yaml_mapping(path)
    asked = {one.id for one in candidates}
    if others := sorted(map(str, set(content) - asked)):
        raise DataError(
            f"{path}: {len(others)} of {len(content)} entries, such as {others[0][:80]!r}, are not among the {len(asked)} "
            "candidates that hold now: the file was written for another validation. Delete it, and start with --review to be "
            "asked anew, or without to test all of them"
        )
    # Whoever deletes an entry means to drop it.
    if missing := [one.attribute for one in candidates if one.id not in content]:
        raise DataError(
            f"{path}: no entry for {len(missing)} of {len(asked)} candidates, such as {missing[0][:80]!r}. Give each one "
            "`keep: true` or `keep: false`; to be asked anew, delete the file and start with --review"
        )
    bad = [
        name
        for name, entry in content.items()
        if not isinstance(entry, dict) or not isinstance(entry.get("keep"), bool)
    ]
    if bad:
        raise DataError(f"{path}: {', '.join(map(str, bad))}: `keep: true` or `keep: false` is missing")
    return [one for one in candidates if content[one.id]["keep"]]


def _entry(candidate: Candidate, pooled: Strength | None) -> str:
    entry = {
        "attribute": inert(candidate.attribute),
        **({} if pooled is None else {"reward": round(pooled.reward.value, 4), "judge": round(pooled.judge.value, 4)}),
        "keep": True,
    }
    body = yaml.safe_dump(entry, sort_keys=False, allow_unicode=True, width=110)
    # Quoted, since an id may look like a number (12345678901234e5).
    return f'"{candidate.id}":\n{textwrap.indent(body, "  ")}'
