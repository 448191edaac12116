"""What `cda score` says at its end, in a terminal's height."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from cda.inert import clipped
from cda.report.next_step import COLUMNS
from cda.report.numbers import n_of, percent, plain
from cda.results.scored import ScoreResult, Spread
from cda.shards.shards import ROWS, Part

_REASONS = 3


def screen(result: ScoreResult, part: Part, n_own: int, out: Path, after: Sequence[str]) -> str:
    """A result for a terminal; `n_own`: shards of this part; `after`: lines of the next step."""
    width = max([9, *map(len, result.rewards)])
    facts = {name: _spread(found) for name, found in result.rewards.items()}
    if result.wins is not None and "margin" in result.rewards:
        n = result.rewards["margin"].n
        ties = f", {n_of(result.ties, 'tie')}" if result.ties else ""
        facts["chosen"] = f"beats rejected in {percent(result.wins / n)} of {n_of(n, 'pair')}{ties}"
    facts["no reward"] = _without(result.without_reward)
    facts["cut"] = n_of(result.cut, "text")
    if result.as_json:
        facts["as JSON"] = f"columns of several types, kept as JSON text: {', '.join(result.as_json)}"
    if result.rows_per_second is not None:
        tokens = "" if result.tokens_per_second is None else f", {_rate(result.tokens_per_second)} tokens/s"
        facts["speed"] = f"{_rate(result.rows_per_second)} rows/s{tokens}"
    if part.of > 1 and result.missing:
        facts["part"] = (
            f"{part.number + 1} of {part.of}: its {n_of(n_own, 'shard')} finished; what is missing belongs to others"
        )
    lines = [_how_far(result), *(f"{name:{width}} {said}" for name, said in facts.items())]
    written = f"Written: {out / ROWS} (parquet); {result.made_by.file} next to it"
    return "\n".join([*(clipped(line, COLUMNS) for line in lines), written, *after])


def _how_far(result: ScoreResult) -> str:
    said = f"{result.rows_done:,} of {n_of(result.rows, 'row')} scored by {clipped(result.model, 30)}"
    shards = f"{result.shards_done:,} of {n_of(result.shards, 'shard')}"
    return f"{said}: {shards}{f'; {result.missing:,} missing' if result.missing else ''}"


def _spread(found: Spread) -> str:
    return f"mean {plain(found.mean, 4)}, SD {plain(found.sd, 4)}, from {plain(found.low, 4)} to {plain(found.high, 4)}"


def _without(reasons: Mapping[str, int]) -> str:
    if not reasons:
        return "0 rows"
    named = [f"{n:,} × {reason}" for reason, n in list(reasons.items())[:_REASONS]]
    more = [f"{len(reasons) - _REASONS} more reasons"] if len(reasons) > _REASONS else []
    return f"{n_of(sum(reasons.values()), 'row')}: {', '.join([*named, *more])}"


def _rate(each_second: float) -> str:
    """Three digits that count.

    >>> _rate(0.123456), _rate(12345.6)
    ('0.123', '12,300')
    """
    return f"{float(f'{each_second:.3g}'):,.10g}"
