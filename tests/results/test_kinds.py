"""Every kind of result that the API returns can be read: its type names no part that is defined elsewhere."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from cda.api.results import Shown


@pytest.mark.parametrize("kind", Shown.__subclasses__(), ids=lambda kind: kind.__name__)
def test_an_empty_file_is_refused_for_the_fields_that_it_lacks(kind: type[Shown]) -> None:
    with pytest.raises(ValidationError, match="Field required"):
        kind.model_validate({})
