"""`cda inspect`: look at rewrites one by one, and at what is the same about all of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from cda.biases import Bias
from cda.errors import CdaError, DataError, RunError
from cda.files.jsonl import write_page
from cda.files.paths import user_path
from cda.inspection.fresh import fresh_rewrites
from cda.inspection.numbers import Looked, check_asked, distance, looked_at, shown, spread_of, summary, with_rewards
from cda.inspection.page import render_inspection
from cda.inspection.sources import TRAINING, Lost, Material, Seen
from cda.inspection.tables import inspection_text
from cda.inspection.targets import InspectOptions, Target, check_options, resolved
from cda.resources.artifacts import shown_path
from cda.results.inspect import InspectedBias, InspectResult
from cda.stats.streams import Stream, drawn

_MANY_PROMPTS = 30
"""From here on a bootstrap's interval of a mean covers about as often as it says."""


def inspect_rewrites(target: str, overrides: Sequence[str], options: InspectOptions) -> str:
    """What a user reads in the terminal; writes the page where one is wanted.

    Args:
        target: A recipe, a bias, a run folder, or a file of triples.
        overrides: `section.key=value` words.
        options: See there.

    Raises:
        CdaError: Anything a user can act on.
    """
    check_options(options)
    found = resolved(target, overrides, options)
    if found.asked is not None:
        with _hint(options):
            check_asked(found.asked)
    material = found.material
    if material is None:
        if found.loaded is None:
            raise ValueError("a target is material or a recipe")
        material = fresh_rewrites(found.loaded, options.n, options.seed, options.responses)
    inspection = _inspection(target, material, found, options)
    text = inspection_text(inspection)
    if options.html:
        text += f"\nPage: {_write_page(options.html, inspection)}"
    return text


def _inspection(target: str, material: Material, found: Target, options: InspectOptions) -> InspectResult:
    groups = _groups(material, options)
    biases = list(material.biases.values())
    rows = {
        key: [looked_at(one, material.biases[key[0]], biases, material.words_within) for one in own]
        for key, own in groups.items()
    }
    unit, scored_by, notes = "reward", material.scored_by, list(material.notes)
    if found.asked is not None:
        with _hint(options):
            flat, unit = with_rewards([one for own in rows.values() for one in own], found.asked)
        scored_by, left = found.asked.name, iter(flat)
        rows = {key: [next(left) for _ in own] for key, own in rows.items()}
    _check_worst(rows, material.lost, options)
    total = {key: sum((one.bias, one.direction) == key for one in material.rewrites) for key in groups}
    summaries = []
    for key, own in rows.items():
        # What a run counts of its failures does not say in which direction they were; training pairs are made in one.
        lost = [one for one in material.lost if one.bias == key[0] and (key[1] == "add" or one.source != TRAINING)]
        bias, with_failed = material.biases[key[0]], material.with_failed
        summaries.append(summary(own, lost, bias, unit, options.seed, with_failed=with_failed, available=total[key]))
    if any(one.n_prompts < _MANY_PROMPTS for one in summaries):
        notes.append(f"Below about {_MANY_PROMPTS} prompts the intervals of means (reward, drift) are too narrow.")
    examples = []
    for key, own in rows.items():
        bias, spread = material.biases[key[0]], spread_of(own)
        examples += [shown(one, bias, spread) for one in _chosen(own, options, bias, spread)]
    return InspectResult(
        target=shown_path(target),
        where=material.where,
        by=material.by,
        scored_by=scored_by,
        unit=unit,
        notes=tuple(notes),
        worst=options.worst,
        seed=options.seed,
        biases=tuple(
            InspectedBias(
                name=one.name, description=one.description, add=one.instructions.add, remove=one.instructions.remove
            )
            for one in biases
            if any(key[0] == one.name for key in groups)
        ),
        summaries=tuple(summaries),
        examples=tuple(examples),
    )


@contextmanager
def _hint(options: InspectOptions) -> Iterator[None]:
    """Say how to do without a model that nobody asked for by name."""
    try:
        yield
    except CdaError as error:
        if options.model is not None:
            raise
        raise RunError(f"{error}\n--model none shows the rewrites without rewards") from None


def _groups(material: Material, options: InspectOptions) -> dict[tuple[str, str], list[Seen]]:
    """Rewrites by bias and direction, at most so many of each."""
    groups: dict[tuple[str, str], list[Seen]] = {}
    for one in material.rewrites:
        groups.setdefault((one.bias, one.direction), []).append(one)
    order = list(material.biases)
    keys = sorted(groups, key=lambda key: (order.index(key[0]), key[1]))
    return {key: drawn(groups[key], options.most, options.seed, Stream.INSPECTED) for key in keys}


def _check_worst(rows: dict[tuple[str, str], list[Looked]], lost: Sequence[Lost], options: InspectOptions) -> None:
    everything = [one for own in rows.values() for one in own]
    if options.worst == "reward" and all(one.difference is None for one in everything):
        raise RunError("--worst reward: there are no rewards here; name a model with --model TARGET")
    if options.worst == "failed" and not any(one.seen.failed or one.rejected for one in everything):
        counts = "; ".join(f"{one.bias}: {sum(one.reasons.values())} of {one.tried}" for one in lost if one.reasons)
        kept = f" The run keeps only the number of those that failed ({counts}); --fresh makes some." if counts else ""
        raise DataError(f"--worst failed: none of {len(everything)} rewrites failed or would be rejected.{kept}")


def _chosen(rows: Sequence[Looked], options: InspectOptions, bias: Bias, spread: Mapping[str, float]) -> list[Looked]:
    """The rewrites to show: the worst first, or as drawn, those that failed among them."""
    if options.worst is None:
        return drawn(rows, options.n, options.seed + 1, Stream.INSPECTED)
    if options.worst == "reward":
        return sorted(rows, key=lambda one: -abs(one.difference or 0.0))[: options.n]
    if options.worst == "failed":
        return [one for one in rows if one.seen.failed or one.rejected][: options.n]
    return sorted(rows, key=lambda one: -distance(one, spread, bias.treatment))[: options.n]


def _write_page(given: str, inspection: InspectResult) -> Path:
    path = user_path(given)
    try:
        write_page(path, render_inspection(inspection))
    except OSError as error:
        raise RunError(f"{given}: cannot be written: {error.strerror or error}") from None
    return path
