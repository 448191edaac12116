"""Targets of training by people: the share of their votes for the side without each bias."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from cda.errors import DataError
from cda.recipe.load import LoadedRecipe
from cda.recipe.schema import Recipe
from cda.records import prompt_id
from cda.resources.sources import audit_inputs, teaching_prompt
from cda.stats.verdict import PROMPTS_TO_CHOOSE
from cda.stats.votes import count_votes, majority

TIE = 0.5


def people_targets(loaded: LoadedRecipe) -> dict[str, float]:
    """For each bias, the share of contrasts on `teaching_prompt`s whose majority prefers the side without it, to two digits; a tie for a
    bias with such majorities on fewer than `PROMPTS_TO_CHOOSE` prompts. Majorities as audit.ties has them, splits dropped where it names a
    released label. DataError if no bias has enough.
    """
    inputs = replace(audit_inputs(loaded), votes_teach=False)
    rule = loaded.recipe.audit.ties
    taught, few = dict[str, float](), dict[str, int]()
    for name in inputs.names:
        own = [each for each in inputs.existing_contrasts() if each.bias == name and teaching_prompt(each.prompt)]
        given = [each.votes or ((each.preferred,) if each.preferred else ()) for each in own]
        taught[name], few[name] = TIE, 0
        if not any(given):
            continue
        people = majority(count_votes(given), "drop" if rule == "as-released" else rule)
        n = len({prompt_id(each.prompt) for each, used in zip(own, people.used, strict=True) if used})
        if n >= PROMPTS_TO_CHOOSE:
            taught[name] = round(1 - float(people.target[people.used].mean()), 2)
            del few[name]
        else:
            few[name] = n
    if len(few) == len(taught):
        counts = ", ".join(f"{name}: {n}" for name, n in few.items())
        raise DataError(
            f"objectives: target people needs people's votes on {2 * PROMPTS_TO_CHOOSE} prompts or more of one bias (half of them set its "
            f"target, the others measure); prompts with a majority in the half that teaches: {counts}. Give contrasts with votes "
            "(audit.contrasts, audit.votes), or a number as target"
        )
    return taught


def with_people(loaded: LoadedRecipe, told: Callable[[str], None] | None = None) -> Recipe:
    """The recipe with people's shares for targets that are `people`, which are `told` in a sentence."""
    recipe = loaded.recipe
    if not recipe.votes_teach:
        return recipe
    taught = people_targets(loaded)
    if told is not None:
        shares = ", ".join(f"{name} {share:g}" for name, share in taught.items())
        told(
            f"  targets by half of the votes, the share for the side without the bias: {shares}; the other half is audited"
        )
    objectives = [
        each.model_copy(update={"target": taught}) if each.target == "people" else each for each in recipe.objectives
    ]
    return recipe.model_copy(update={"objectives": objectives})
