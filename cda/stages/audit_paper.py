"""What the release of "Flattery, Fluff, and Fog" says of its own models and judges, to stand beside an audit of its pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cda.biases import Bias
from cda.config.load import LoadedRecipe
from cda.data.contrasts import CleanContrasts
from cda.data.release import (
    PARTS,
    ReleasedModels,
    missing_parts,
    release_folder,
    released_labels,
    released_models,
    released_sections,
    released_verdicts,
)
from cda.metrics.people import against_people, mean_against_people
from cda.metrics.people_change import people_change
from cda.metrics.votes import Majority, TieRule
from cda.records import Preference, prompt_id
from cda.results.base import as_json
from cda.results.people import AgainstPeople
from cda.stages.audit_analysis import label_rates
from cda.stages.audit_groups import FloatArray, Group, people_of
from cda.stages.audit_result import change_json, rng
from cda.stages.audit_sources import ReleasedTexts, released
from cda.stats.proportions import paired_change

_VERDICT: Mapping[Preference | None, float] = {"perturbed": 1.0, "tie": 0.0, "base": -1.0, None: float("nan")}


def paper(loaded: LoadedRecipe, seed: int) -> dict[str, Any] | None:
    """The release's own outcome for every bias that it has pairs or triples of; None where the recipe names no release.

    Human skew, and beside it skew and miscalibration of the paper's reward models before and after its fine-tuning (by size
    and their mean, on the pairs that all of them scored), of its LLM judges (their ties left out), and RewardBench as it was
    released.
    """
    texts = released(loaded)
    if not texts:
        return None
    names = [bias.name for bias in loaded.biases]
    folder = release_folder(str(loaded.recipe.audit.release), names)
    found: dict[str, Any] = {}
    for bias in loaded.biases:
        one = texts[bias.name]
        contrasts = one.contrasts.contrasts
        models = released_models(folder, bias.name, contrasts)
        entry: dict[str, Any] = {**_counts(one), "run": models.run}
        if contrasts:
            verdicts = released_verdicts(folder, bias.name, contrasts)
            entry |= _beside_people(bias, one.contrasts, models, verdicts, loaded.recipe.audit.ties, seed)
        if sections := released_sections(folder, bias.name, models.run):
            entry["rewardbench"] = sections
        # An audit alone has these labels in its analysis.
        if not loaded.only_audit and (rates := label_rates(bias, released_labels(folder, bias.name), seed)):
            entry["labels"] = rates
        if contrasts or one.triples.triples or "rewardbench" in entry or "labels" in entry:
            found[bias.name] = entry
    return {"missing": missing_parts(folder, names), "parts": list(PARTS), "biases": found}


def _counts(texts: ReleasedTexts) -> dict[str, int]:
    """How many pairs and triples there are, and on how many of the triples people voted."""
    return {
        "pairs": len(texts.contrasts.contrasts),
        "triples": len(texts.triples.triples),
        "triples_voted": texts.n_triples_voted,
    }


def _beside_people(
    bias: Bias,
    clean: CleanContrasts,
    models: ReleasedModels,
    verdicts: Mapping[str, Sequence[Preference | None]],
    rule: TieRule,
    seed: int,
) -> dict[str, Any]:
    ids = [prompt_id(one.prompt) for one in clean.contrasts]
    people = people_of(Group(bias, True, clean.contrasts, tuple(ids), {}, "reward", 0), rule)
    if people is None:
        return {"missing": "no pair has a majority for one side"}
    majority = people.majority
    found: dict[str, Any] = {
        "rule": majority.rule,
        "left_out": dict(majority.exclusions.reasons),
        "with_majority": int(majority.used.sum()),
        "models": {
            size: _model(models.before.get(size), models.after.get(size), majority, ids, seed)
            for size in dict.fromkeys([*models.before, *models.after])
        },
        "judges": {
            name: _judge(np.array([_VERDICT[one] for one in said]), majority, ids) for name, said in verdicts.items()
        },
    }
    both = [size for size in models.before if size in models.after]
    if len(both) > 1:
        before, after = (np.stack([one[size] for size in both]) for one in (models.before, models.after))
        found["mean"] = {"of": both} | _mean(before, after, majority, ids)
    return found


def _model(
    before: FloatArray | None, after: FloatArray | None, people: Majority, ids: Sequence[str], seed: int
) -> dict[str, Any]:
    """One size: before, after and change on the pairs that have all scores; or the one of the two that there is."""
    given = [values for values in (before, after) if values is not None]
    scored, rows, without = _scored(given, people)
    result: dict[str, Any] = {"without_score": without}
    if not rows.used.any():
        return result | {"missing": "no pair with a majority has a score"}
    if before is None or after is None:
        one = against_people(scored[0], rows, ids)
        return result | _shares(one, "before" if after is None else "after")
    change = people_change(scored[0], scored[1], rows, ids, rng(seed))
    return result | {"skew": change_json(change.skew), "miscalibration": change_json(change.miscalibration)}


def _mean(before: FloatArray, after: FloatArray, people: Majority, ids: Sequence[str]) -> dict[str, Any]:
    """Means over sizes before and after, and the paired change, rows averaged first; on pairs that all sizes scored.

    Args:
        before: Margins before. Shape (sizes, n).
        after: Margins after. Shape (sizes, n).
        people: Majorities of the n pairs.
        ids: Cluster of each pair.
    """
    scored, rows, without = _scored([*before, *after], people)
    result: dict[str, Any] = {"without_score": without}
    if not rows.used.any():
        return result | {"missing": "no pair with a majority has a score of every size"}
    first, second = np.stack(scored[: len(before)]), np.stack(scored[len(before) :])
    means = {
        "before": mean_against_people(first, rows, ids),
        "after": mean_against_people(second, rows, ids),
    }
    kept = [one for one, keep in zip(ids, rows.used, strict=True) if keep]
    target = rows.target[rows.used]
    hits = [(one[:, rows.used] > 0).astype(np.float64) for one in (first, second)]
    moved = {"skew": hits, "miscalibration": [np.abs(one - target) for one in hits]}
    for name, (earlier, later) in moved.items():
        change = paired_change(earlier.mean(axis=0), later.mean(axis=0), kept, len(before))
        result[name] = {when: as_json(getattr(one, name)) for when, one in means.items()} | {"change": as_json(change)}
    return result


def _judge(values: FloatArray, people: Majority, ids: Sequence[str]) -> dict[str, Any]:
    """One LLM judge; its ties are left out, as in the paper, and counted with what could not be read."""
    (scored,), rows, without = _scored([values], people)
    ties = int((scored[rows.used] == 0).sum())
    result: dict[str, Any] = {"without_verdict": without, "ties": ties}
    if ties == int(rows.used.sum()):
        return result | {"missing": "no pair with a majority has a verdict for one side"}
    return result | _shares(against_people(scored, rows, ids, "drop"), "model")


def _scored(margins: Sequence[FloatArray], people: Majority) -> tuple[list[FloatArray], Majority, int]:
    """Margins, majorities of the pairs that have all of them (elsewhere a filler of 0), and how many have not."""
    known = ~np.isnan(np.array(margins)).any(axis=0)
    filled = [np.where(known, values, 0.0) for values in margins]
    return filled, replace(people, used=people.used & known), int((~known).sum())


def _shares(one: AgainstPeople, label: str) -> dict[str, Any]:
    return {name: {label: as_json(getattr(one, name))} for name in ("skew", "miscalibration")}
