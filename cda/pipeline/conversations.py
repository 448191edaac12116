"""Conversations that the model's chat template refuses, found before anything is labelled, trained or scored."""

from __future__ import annotations

from collections.abc import Iterator

from cda.data.load import looks_like_path
from cda.embedded.model import ADAPTERS, EMBEDDED
from cda.errors import CdaError, refuse
from cda.models.config import load_config
from cda.models.load import load_template
from cda.models.own_files import is_cached
from cda.recipe.load import LoadedRecipe
from cda.records import Prompt
from cda.resources.sources import audit_inputs, model_spec, supplementary_pairs, taught_contrasts, training_pairs

Placed = list[tuple[str, Prompt]]
"""Prompts of a file, each with its place."""


def check_conversations(loaded: LoadedRecipe, download: bool = False) -> None:
    """Refuse the user's data with a DataError: for each file the number of such conversations and the first one's place.

    A model and data on a hub are left out unless `download`, and all the rest then, which was looked at before. Nothing is said of a
    model that cannot be loaded: its own check says it.
    """
    section = loaded.recipe.model
    here = looks_like_path(section.name_or_path) or is_cached(section.name_or_path, section.revision)
    if not section.kind.trainable or section.name_or_path in ADAPTERS or not (here or download):
        return
    try:
        template = load_template(spec := model_spec(section), load_config(spec))
    except CdaError:
        return
    lines = []
    for name, placed in _conversations(loaded, download):
        if download and here and looks_like_path(name):
            continue
        by_turns: dict[tuple[tuple[str, bool], ...], Placed] = {}
        for place, prompt in placed:
            # Templates look at roles, and at whether there is a text: conversations that are alike in both are tried once.
            turns = tuple((turn.role, bool(turn.content.strip())) for turn in prompt)
            by_turns.setdefault(turns, []).append((place, prompt))
        found = [(own, why) for own in by_turns.values() if (why := template.refusal(own[0][1])) is not None]
        if found:
            lines.append(
                f"{name}: {sum(len(own) for own, _ in found)} of {len(placed)} conversations cannot be scored (the first is "
                f"{found[0][0][0][0]}): {found[0][1]}, or leave these rows out"
            )
    refuse(lines)


def _conversations(loaded: LoadedRecipe, download: bool) -> Iterator[tuple[str, Placed]]:
    """The user's files with their prompts; places of pairs are rows."""
    data, audit, inputs = loaded.recipe.data, loaded.recipe.audit, audit_inputs(loaded)

    def theirs(name: str | None) -> bool:
        return name is not None and name != EMBEDDED and (download or looks_like_path(name))

    if not loaded.only_audit:
        for name, read in ((data.pairs, training_pairs), (data.supplement, supplementary_pairs)):
            if theirs(name):
                found = read(data, loaded.opened)
                yield (
                    str(name),
                    [(f"row {row}", pair.prompt) for row, pair in zip(found.numbers, found.pairs, strict=True)],
                )
        if theirs(data.contrasts):
            taught = taught_contrasts(data, loaded.biases, loaded.opened).contrasts
            yield str(data.contrasts), [(f"contrast {at}", contrast.prompt) for at, contrast in enumerate(taught, 1)]
    if theirs(audit.contrasts):
        own = inputs.contrasts().contrasts
        yield audit.contrasts, [(f"contrast {at}", contrast.prompt) for at, contrast in enumerate(own, 1)]
    if theirs(audit.triples):
        triples = inputs.triples().triples
        yield str(audit.triples), [(f"triple {at}", triple.prompt) for at, triple in enumerate(triples, 1)]
    if theirs(audit.quality) and (quality := inputs.quality()) is not None:
        yield str(audit.quality), [(f"row {item.row}", item.prompt) for item in quality.items]
