"""The stop between validation and test at which a person may drop candidates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from cda.discover.records import Candidate
from cda.errors import DataError
from cda.files.yaml_file import read_yaml_mapping

FILE = "review.yaml"
_HEAD = """\
# Candidates that held on the validation prompts. Write `keep: false` for those that are not worth a test, such as what
# makes an answer better, or what says the same as another; then run the same command again. The test prompts are used once.
"""


def write_review(path: Path, candidates: Sequence[Candidate], results: Mapping[str, Mapping[str, Any]]) -> None:
    """Write the file that a person edits."""
    content = {
        one.id: {
            "attribute": one.attribute,
            "reward": round(results[one.id]["pooled"]["reward"]["value"], 4),
            "judge": round(results[one.id]["pooled"]["judge"]["value"], 4),
            "keep": True,
        }
        for one in candidates
    }
    body = yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=110)
    path.write_text(f"{_HEAD}{body}", encoding="utf-8")


def reviewed(path: Path, candidates: Sequence[Candidate]) -> list[Candidate] | None:
    """What the person kept; None where nobody was asked, or about other candidates.

    Raises:
        DataError: An entry without `keep: true` or `keep: false`.
    """
    if not path.is_file():
        return None
    content = read_yaml_mapping(path)
    if set(content) != {one.id for one in candidates}:
        return None
    bad = [
        name
        for name, entry in content.items()
        if not isinstance(entry, dict) or not isinstance(entry.get("keep"), bool)
    ]
    if bad:
        raise DataError(f"{path}: {', '.join(map(str, bad))}: `keep: true` or `keep: false` is missing")
    return [one for one in candidates if content[one.id]["keep"]]
