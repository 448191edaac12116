"""Every kind of result that the API returns can be read: its type names no part that is defined elsewhere."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from cda.errors import DataError
from cda.results.base import Shown
from cda.results.kinds import KINDS, read_result


@pytest.mark.parametrize("kind", tuple(KINDS.values()), ids=lambda kind: kind.__name__)
def test_an_empty_file_is_refused_for_the_fields_that_it_lacks(kind: type[Shown]) -> None:
    with pytest.raises(ValidationError, match="Field required"):
        kind.model_validate({})


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"schema_version": 1, "held_out": {}}, "run `cda dose` again"),
        ({"schema_version": 1, "without_counterpart": 0}, "run `cda quality` again"),
        ({"schema_version": 1, "panels": []}, "run `cda compare` again"),
        ({"schema_version": 2, "numbers": []}, "a row to share, which `cda compare` reads"),
        ({"prompt": "a"}, "no result of a command"),
        ([], "no result of a command"),
    ],
)
def test_a_file_that_is_no_result_says_what_it_is(tmp_path: Path, content: object, said: str) -> None:
    file = tmp_path / "found.json"
    file.write_text(json.dumps(content))
    with pytest.raises(DataError, match=re.escape(said)):
        read_result(file)


@pytest.mark.parametrize(("field", "kind"), KINDS.items())
def test_a_kind_is_known_by_a_field_of_its_own(field: str, kind: type[Shown]) -> None:
    assert [other for other in KINDS.values() if field in other.model_fields] == [kind]
