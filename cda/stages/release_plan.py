"""Before a run: what the release of "Flattery, Fluff, and Fog" will give it, what is missing, and how to get it."""

from __future__ import annotations

from cda.config.load import LoadedRecipe
from cda.data.release import REPOSITORY, missing_parts, release_folder
from cda.embedded.model import NAME as EMBEDDED
from cda.stages.audit_sources import given_labels, released

PRESET = "paper"
_INDENT = " " * 12


def release_lines(loaded: LoadedRecipe) -> list[str]:
    """Lines of the plan; none where the recipe names neither the preset `paper` nor a release.

    Raises:
        DataError: The release cannot be used.
    """
    audit = loaded.recipe.audit
    if audit.release is None and audit.preset != PRESET:
        return []
    found = _without() if audit.release is None else _with(loaded)
    if audit.quality in (None, EMBEDDED):
        found.append(
            "RewardBench by section will be missing: the release holds its results and no texts. Give "
            "audit.quality=allenai/reward-bench audit.quality_split=filtered, or a file of it"
        )
    return [f"paper       {found[0]}", *(f"{_INDENT}{line}" for line in found[1:])]


def _without() -> list[str]:
    return [
        "audit.release is not set, so that this run will lack the paper's human skew and miscalibration (people's votes), skew "
        "over its triples,",
        f"and its own models and judges beside yours. git clone {REPOSITORY}",
        "and add audit.release=Preference-Model-Biases",
    ]


def _with(loaded: LoadedRecipe) -> list[str]:
    names = [bias.name for bias in loaded.biases]
    reference = str(loaded.recipe.audit.release)
    labels = given_labels(loaded)
    lines = [reference]
    for name, texts in released(loaded).items():
        pairs, triples = texts.contrasts.contrasts, texts.triples.triples
        parts = [
            f"{len(pairs)} pairs with people's votes" if pairs else "",
            f"{len(triples)} triples, of which people voted on {texts.n_triples_voted}" if triples else "",
            f"labels of {len(labels[name])} pairs" if name in labels else "",
        ]
        if any(parts):
            lines.append(f"{name}: {'; '.join(part for part in parts if part)}")
    return [*lines, *missing_lines(missing_parts(release_folder(reference, names), names))]


def missing_lines(missing: dict[str, list[str]]) -> list[str]:
    """Files that a release lacks, biases that lack the same ones together.

    >>> missing_lines({"triples": ["length"], "human votes": ["length"], "labels": ["length", "jargon"]})
    ['missing of length: triples, human votes', 'missing of length, jargon: labels']
    """
    parts: dict[tuple[str, ...], list[str]] = {}
    for part, names in missing.items():
        parts.setdefault(tuple(names), []).append(part)
    return [f"missing of {', '.join(names)}: {', '.join(of)}" for names, of in parts.items()]
