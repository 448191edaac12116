"""Conversations that the model's chat template refuses, found before anything is labelled, trained or scored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cda.data.load import looks_like_path
from cda.embedded.model import ADAPTERS, EMBEDDED
from cda.errors import CdaError, refuse
from cda.models.load import load_config, load_template
from cda.models.own_files import is_cached
from cda.models.template import Template
from cda.recipe.load import LoadedRecipe
from cda.records import Prompt
from cda.resources.sources import audit_inputs, model_spec, supplementary_pairs, taught_contrasts, training_pairs


def check_conversations(loaded: LoadedRecipe, download: bool = False) -> None:
    """Refuse the user's data with a DataError for each file that has such conversations, with their number and the first row.

    Models and data on a hub are left out, or (`download`) only they are looked at: then of a model its tokenizer is loaded. A model that cannot be loaded is told of elsewhere.
    """
    template = _template(loaded, download)
    if template is None or template.form not in ("chat template", "text of its own"):
        return
    lines = []
    here = _is_here(loaded)
    for where, rows, prompts in _conversations(loaded, download):
        if download and here and looks_like_path(where):
            continue  # looked at before
        if refused := template.refused(prompts):
            place, reason = refused[0]
            lines.append(
                f"{where}: {len(refused)} of {len(prompts)} conversations cannot be scored (the first is {rows[place]}): {reason}, or "
                "leave these rows out"
            )
    refuse(lines)


def _is_here(loaded: LoadedRecipe) -> bool:
    section = loaded.recipe.model
    return looks_like_path(section.name_or_path) or is_cached(section.name_or_path, section.revision)


def _template(loaded: LoadedRecipe, download: bool) -> Template | None:
    section = loaded.recipe.model
    if not section.is_trainable or section.name_or_path in ADAPTERS or not (download or _is_here(loaded)):
        return None
    try:
        spec = model_spec(section)
        return load_template(spec, load_config(spec))
    except CdaError:
        return None


def _conversations(loaded: LoadedRecipe, download: bool) -> Iterator[tuple[str, Sequence[str], Sequence[Prompt]]]:
    """Name, places and prompts of each file of the user's; places of pairs are their rows."""
    data, audit, inputs = loaded.recipe.data, loaded.recipe.audit, audit_inputs(loaded)

    def theirs(name: str | None) -> bool:
        return name is not None and name != EMBEDDED and (download or looks_like_path(name))

    if not loaded.only_audit:
        for name, read in ((data.pairs, training_pairs), (data.supplement, supplementary_pairs)):
            if theirs(name):
                found = read(data, loaded.opened)
                yield str(name), [f"row {number}" for number in found.numbers], [pair.prompt for pair in found.pairs]
        if theirs(data.contrasts):
            contrasts = taught_contrasts(data, loaded.biases, loaded.opened).contrasts
            yield _unnumbered(data.contrasts, "contrast", [contrast.prompt for contrast in contrasts])
    if theirs(audit.contrasts):
        yield _unnumbered(audit.contrasts, "contrast", [contrast.prompt for contrast in inputs.contrasts().contrasts])
    if theirs(audit.triples):
        yield _unnumbered(audit.triples, "triple", [triple.prompt for triple in inputs.triples().triples])
    if theirs(audit.quality) and (quality := inputs.quality()) is not None:
        yield str(audit.quality), [f"row {item.row}" for item in quality.items], [item.prompt for item in quality.items]


def _unnumbered(name: str | None, kind: str, prompts: Sequence[Prompt]) -> tuple[str, Sequence[str], Sequence[Prompt]]:
    return str(name), [f"{kind} {number}" for number in range(1, len(prompts) + 1)], prompts
