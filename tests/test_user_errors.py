"""What a user is told of an error: a full disk in whichever words it comes, and nothing where the fault is ours."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from cda.user_errors import disk_is_full, explain


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        OSError(errno.EFBIG, "File too large"),
        RuntimeError("I/O error: No space left on device (os error 28)"),
        RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 551488 vs 551380"),
    ],
)
def test_a_full_disk_is_known_by_its_number_and_by_the_words_of_libraries(error: Exception) -> None:
    assert disk_is_full(error)
    assert "the disk is full" in str(explain(error))


def test_torch_on_a_full_disk_is_known() -> None:
    torch = pytest.importorskip("torch")
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    with pytest.raises(RuntimeError) as caught:
        torch.save({"weights": torch.zeros(100_000)}, "/dev/full")
    assert disk_is_full(caught.value)


def test_another_error_is_no_full_disk() -> None:
    assert not disk_is_full(OSError(errno.ENOENT, "No such file"))
    assert explain(ValueError("a fault of ours")) is None
