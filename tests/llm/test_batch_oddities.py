"""Batches over a server with odd answers, once and always: nothing is paid for twice. The whole table is an eval's."""

from __future__ import annotations

from pathlib import Path

import pytest
from odd_batches import ENDPOINTS, Oddity, oddities, tried

ALL = {str(oddity): oddity for oddity in oddities()}
POLLED = ("create", "poll", "output")
CHOSEN = [
    *(f"{endpoint}: {body}" for endpoint in POLLED for body in ("a web page", "empty", "null", "an error object")),
    *(f"{endpoint}: 404 and a page" for endpoint in ENDPOINTS),
    *(f"{endpoint}: the connection is lost in the answer" for endpoint in ("upload", "create", "list", "poll")),
    *(f"poll: {field}" for field in ('errors "bad"', 'errors {"data": [null]}', 'status "odd"', 'status "failed"')),
    *(
        f"poll: {field}"
        for field in ("status absent", 'id "batch_of_others"', "output_file_id null", "request_counts 5")
    ),
    *(f"output: {file}" for file in ("cut in the middle", "every line twice", "the first line is broken")),
    *(f"output: {line}" for line in ('custom_id "of others"', "response null", 'response.status_code "200"')),
    "create: 500 before any work",
    "list: data.0 null",
    "error: error null",
]


@pytest.mark.parametrize("times", [1, None], ids=["once", "always"])
@pytest.mark.parametrize("oddity", [ALL[name] for name in CHOSEN], ids=CHOSEN)
def test_an_odd_answer_is_paid_for_once(oddity: Oddity, times: int | None, tmp_path: Path) -> None:
    assert tried(oddity, times, tmp_path) is None
