"""Before a discovery: attributes given by the user, every problem at once, and how many calls it will make."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from cda.biases import Bias, builtin_names, load_bias
from cda.data.load import looks_like_path
from cda.discovery.attribute import described, distinct_names, format_biases, trouble_with
from cda.discovery.history import material_stage
from cda.discovery.material import NARROW, material_counts, parts_at_most, planned_material, prompts_in
from cda.discovery.parts import Asked, by_llm, judge_subject, party_problems, responses_each, rewriters, search_settings
from cda.discovery.prompts import load_topics
from cda.discovery.records import Candidate
from cda.discovery.sampling import responses_in
from cda.embedded.model import NAME as EMBEDDED
from cda.errors import CdaError, RecipeError
from cda.files.paths import user_path
from cda.finetuning.applied import asked_subjects, check_subject
from cda.recipe.load import LoadedRecipe
from cda.recipe.schema import LlmSection
from cda.resources.llm_access import llm_client
from cda.resources.spending import Planned, sentence
from cda.results.discover import Part
from cda.run import RunFolder


def given_candidates(attributes: Sequence[str], formats: bool, llm: bool) -> list[Candidate]:
    """Each once, in the order given, the formats first.

    Args:
        attributes: Sentences, built-in names, or paths of bias files.
        formats: Whether the shipped format attributes are wanted.
        llm: Whether an LLM rewrites.

    Raises:
        RecipeError: One cannot be an attribute, or has no rules where rules have to write it; all of them are listed.
    """
    problems: list[str] = []
    biases: list[Bias] = list(format_biases()) if formats else []
    for text in attributes:
        try:
            biases.append(_bias(text))
        except RecipeError as error:
            problems += error.problems
    if not llm:
        problems += [
            f"--attribute {bias.description[:80]!r}: needs an LLM to write it (llm.model=...); without one, give a bias file with "
            "`offline:` rules"
            for bias in biases
            if bias.offline is None
        ]
    if problems:
        raise RecipeError(problems)
    candidates = [Candidate(bias, "given") for bias in distinct_names(biases)]
    return list({one.id: one for one in candidates}.values())


def _bias(text: str) -> Bias:
    if text.endswith((".yaml", ".yml")) or text in builtin_names():
        return load_bias(text)
    if reason := trouble_with(text):
        raise RecipeError([f"--attribute {text[:80]!r}: {reason}; one sentence is needed"])
    return described(text)


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
    if judge is not None and judge.subject.section.is_judge and loaded.prompts.judge.orders == "one":
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


AT_MOST = "calls of LLMs, at most; more only where an answer has to be asked for again:"
# As the parts of a search have them by default; a test holds them against these.
_WANTED_FOR_EACH, _NAMED_AT_ONCE = 2, 5
_GROUPED_AT_ONCE, _GROUPING_ROUNDS = 100, 4
_GUESSES = 5
_REWRITE_TOKENS, _VERDICT_TOKENS = 450, 80
_LOOK_TOKENS = 80
_RESPONSE_TOKENS = 350
"""Of a response, where it is not known yet."""


def planned_calls(
    loaded: LoadedRecipe, folder: RunFolder, model: Asked, judge: Asked, n_given: int
) -> list[tuple[LlmSection, Planned]]:
    """LLM and calls of every step: no more than these, but for answers that have to be asked for again.

    Nothing is counted out that is only likely, such as candidates let go before the judge is asked.

    Args:
        loaded: The recipe.
        folder: Its run; where the material is made already, its prompts are counted.
        model: What is searched.
        judge: What it is held against.
        n_given: Attributes that are given; 0 where they are searched for.
    """
    section, llm, is_judge = loaded.recipe.discover, loaded.recipe.llm, judge.subject.section.is_judge
    if not by_llm(loaded) and not is_judge:
        return []
    searched, validated, tested = _rewrites(loaded, n_given, _prompts(loaded, folder, model))
    held_out, n_rewriters = validated + tested, len(rewriters(loaded))
    steps = planned_material(loaded)
    if by_llm(loaded):
        if not n_given:
            steps.append((llm, Planned("proposing, mutating, grouping", _thoughts(loaded), 1600, 250)))
        for place, name in enumerate(section.rewriters):
            calls = held_out + (searched if place == 0 else 0)
            what = f"rewriting by {name}"
            steps.append((loaded.recipe.llm.named(name), Planned(what, calls, 2 * _RESPONSE_TOKENS, _REWRITE_TOKENS)))
    if is_judge:
        calls = 2 * (searched + n_rewriters * held_out)
        steps.append(
            (judge.loaded.recipe.llm, Planned("judging in both orders", calls, 3 * _RESPONSE_TOKENS, _VERDICT_TOKENS))
        )
    if by_llm(loaded) and section.pair_quality:
        # Of each pair both sides are labelled and the edit graded; of each candidate guesses are made and compared with it.
        n_candidates = n_given or search_settings(loaded).populations[-1]
        calls = 3 * n_rewriters * tested + 2 * _GUESSES * n_candidates
        steps.append((llm, Planned("looking at the rewrites", calls, 2 * _RESPONSE_TOKENS, _LOOK_TOKENS)))
    return steps


def plan(loaded: LoadedRecipe, folder: RunFolder, model: Asked, judge: Asked, given: Sequence[Candidate]) -> str:
    """What a discovery would do, and what it would cost, in a few lines."""
    settings, names = search_settings(loaded), ", ".join(one.name for one in rewriters(loaded))
    against = f"{model.subject.name} against {judge.subject.name}"
    if given:
        lines = [f"measure {len(given)} attributes in {against}, rewritten by {names}:"]
        lines += [f"  {one.attribute}" for one in given]
    else:
        lines = [
            f"search {against}: {settings.n_generations} generations, at most {settings.n_candidates} candidates",
            f"confirm with {names}",
        ]
    steps = [step for step in planned_calls(loaded, folder, model, judge, len(given)) if step[1].calls]
    return "\n".join([*lines, *([AT_MOST] if steps else []), *(sentence(planned, llm) for llm, planned in steps)])


def _prompts(loaded: LoadedRecipe, folder: RunFolder, model: Asked) -> Mapping[Part, int]:
    """Prompts of each part: as they are where the material is made, at most so many where it is not."""
    stage = material_stage(loaded, model)
    if folder.is_done(stage):
        return dict(material_counts(folder.stage(stage.name)).prompts)
    return parts_at_most(loaded)


def _rewrites(loaded: LoadedRecipe, n_given: int, prompts: Mapping[Part, int]) -> tuple[int, int, int]:
    """Rewrites by one rewriter for the search, the validation and the test."""
    section, settings = loaded.recipe.discover, search_settings(loaded)
    n_directions = len(settings.directions)

    def held_out(n_candidates: int, most: int | None, n_prompts: int) -> int:
        drawn = n_prompts if most is None else min(most, n_prompts)
        return n_candidates * drawn * responses_each(loaded) * n_directions

    if n_given:
        return 0, 0, held_out(n_given, section.max_test, sum(prompts.values()))
    first, *survivors, finalists = settings.populations
    sizes = [first * (1 + settings.variations), *(n * (1 + settings.mutations) for n in survivors)]
    searched = sum(n * min(batch, prompts["train"]) for n, batch in zip(sizes, settings.prompts, strict=True))
    return (
        searched * n_directions,
        held_out(finalists, section.max_validation, prompts["validation"]),
        held_out(finalists, section.max_test, prompts["test"]),
    )


def _thoughts(loaded: LoadedRecipe) -> int:
    """Questions for attributes, for their variations, and for their groups in every generation."""
    settings = search_settings(loaded)
    first, *survivors, _ = settings.populations
    proposing = math.ceil(_WANTED_FOR_EACH * first / _NAMED_AT_ONCE)
    varying = first if settings.variations else 0
    to_group = [proposing * _NAMED_AT_ONCE, varying * (1 + settings.variations)]
    to_group += [n * (1 + settings.mutations) for n in survivors]
    chunks = [math.ceil(n / _GROUPED_AT_ONCE) for n in to_group]
    grouping = sum(n if n == 1 else n * _GROUPING_ROUNDS for n in chunks)
    return proposing + varying + sum(survivors) + grouping
