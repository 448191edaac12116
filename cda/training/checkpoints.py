"""Which checkpoint an interrupted training goes on from: the newest one that is whole, and whose best one is whole too."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from cda.errors import DataError
from cda.files.intact import changed, contents
from cda.files.jsonl import read_json, write_json

_LISTED, _STATE = "contents.json", "trainer_state.json"
_HASHED_BYTES = 64 * 2**20
"""Reading optimizer states of gigabytes again would take longer than a step; of a larger file only the size is kept."""


def seal(checkpoint: Path) -> None:
    """Write down what a checkpoint contains, once all of it is there but the trainer's state, which is written last."""
    write_json(checkpoint / _LISTED, contents(checkpoint, (_LISTED, f"{_LISTED}.partial", _STATE), _HASHED_BYTES))


def newest_whole(folder: Path, say: Callable[[str], None]) -> Path | None:
    """The checkpoint to go on from.

    Args:
        folder: Holds `checkpoint-<step>` folders, or is not there.
        say: Told of each newer checkpoint that is passed over.

    Returns:
        The newest one of which no file is cut, changed or gone, neither of its own nor of the best one until then, which
        the end of the training loads; None where there is none.
    """
    found = [path for path in folder.glob("checkpoint-*") if re.fullmatch(r"checkpoint-\d+", path.name)]
    for checkpoint in sorted(found, key=_step, reverse=True):
        if _is_whole(checkpoint) and _best_is_whole(checkpoint):
            return checkpoint
        say(f"  {checkpoint.name} is not whole; passed over")
    return None


def best_until(checkpoint: Path) -> Path | None:
    """The best checkpoint until then; None where none was chosen.

    By its name, beside this one: the run folder may have been moved since its whole path was written down.
    """
    best = read_json(checkpoint / _STATE).get("best_model_checkpoint")
    return None if best is None else checkpoint.parent / Path(best).name


def _best_is_whole(checkpoint: Path) -> bool:
    best = best_until(checkpoint)
    return best is None or _is_whole(best)


def _is_whole(checkpoint: Path) -> bool:
    try:
        listed, state = read_json(checkpoint / _LISTED), read_json(checkpoint / _STATE)
    except DataError:
        return False
    return bool(listed) and isinstance(listed, dict) and isinstance(state, dict) and not changed(checkpoint, listed)


def _step(checkpoint: Path) -> int:
    return int(checkpoint.name.rsplit("-", 1)[1])
