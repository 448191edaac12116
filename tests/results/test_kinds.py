"""Every kind of result that the API returns can be read: its type names no part that is defined elsewhere."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from cda.results.audit import AuditResult
from cda.results.kinds import KINDS
from cda.results.shown import Shown


@pytest.mark.parametrize("kind", (*KINDS.values(), AuditResult), ids=lambda kind: kind.__name__)
def test_an_empty_file_is_refused_for_the_fields_that_it_lacks(kind: type[Shown]) -> None:
    with pytest.raises(ValidationError, match="Field required"):
        kind.model_validate({})
