"""What can be found wrong with a discovery before anything is made or paid for: all of it, at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from cda.config.load import LoadedRecipe
from cda.config.scoring import kind_of
from cda.data.load import looks_like_path
from cda.discovery.records import Candidate
from cda.discovery.sampling import responses_in
from cda.discovery.topics import load_topics
from cda.embedded.model import NAME as EMBEDDED
from cda.errors import CdaError, RecipeError
from cda.files.paths import user_path
from cda.stages.discover_given import given_candidates
from cda.stages.discover_material import NARROW, prompts_in
from cda.stages.discover_parts import Asked, by_llm, judge_subject, party_problems
from cda.stages.sources import llm_client
from cda.stages.subjects import asked_subjects, check_subject

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Checked:
    """What a discovery is about, with nothing known to be wrong with it.

    Attributes:
        given: Attributes to be measured without a search; mostly none.
        model: What is searched.
        judge: What it is held against.
    """

    given: tuple[Candidate, ...]
    model: Asked
    judge: Asked


def checked(
    loaded: LoadedRecipe, attributes: Sequence[str], formats: bool, adapter: str | None, dose: float | None
) -> Checked:
    """Look at the settings, every file that is named, the model and the judge.

    Args:
        loaded: The recipe.
        attributes: In words, or bias files; see `given_candidates`.
        formats: Whether the format attributes are measured, too.
        adapter: Of the model.
        dose: Of the adapter.

    Raises:
        RecipeError: Everything that is wrong, a line each.
    """
    problems = party_problems(loaded)

    def attempt(action: Callable[[], _T]) -> _T | None:
        try:
            return action()
        except CdaError as error:
            problems.extend(str(error).splitlines())
            return None

    given = attempt(lambda: given_candidates(attributes, formats, by_llm(loaded)))
    for action in _file_checks(loaded):
        attempt(action)
    subjects = attempt(lambda: asked_subjects(loaded.recipe.model, adapter, None, dose))
    model = None if subjects is None else Asked(replace(subjects[-1], label="model"), loaded)
    before = subjects[0] if subjects and adapter else None
    # Without a name there is no LLM to look at either, which is said already.
    nameless = by_llm(loaded) and loaded.recipe.llm.model is None
    judge = None if nameless else attempt(lambda: judge_subject(loaded, before))
    for asked in (model, judge):
        if asked is not None:
            attempt(lambda asked=asked: check_subject(asked.subject, asked.loaded))  # type: ignore[misc]
    if judge is not None and kind_of(judge.subject.name) == "judge" and loaded.prompts.judge.orders == "one":
        problems.append(
            "score.judge.orders: one order is asked, but a discovery counts only verdicts that were read in both; set "
            "score.judge.orders=both"
        )
    if by_llm(loaded) and not nameless:
        problems += llm_client(loaded.recipe.llm).check()
    if problems or given is None or model is None or judge is None:
        # The same key may be missing to the judge and to whoever proposes.
        raise RecipeError(dict.fromkeys(problems))
    return Checked(tuple(given), model, judge)


def _file_checks(loaded: LoadedRecipe) -> list[Callable[[], object]]:
    """A look into each file that the recipe names and a discovery reads."""
    section = loaded.recipe.discover
    checks: list[Callable[[], object]] = []
    if section.topics is not None:
        topics = user_path(section.topics)
        checks.append(lambda: load_topics(topics))
    if section.prompts is not None and looks_like_path(section.prompts):
        prompts = section.prompts
        checks.append(lambda: prompts_in(prompts))
    if section.responses not in (None, EMBEDDED, NARROW) and looks_like_path(str(section.responses)):
        responses = str(section.responses)
        checks.append(lambda: responses_in(responses, section.columns, section.split))
    return checks
