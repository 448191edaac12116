"""Checks and costs before a discovery: attributes given by the user, every problem at once, and the calls that it will make."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from cda.biases import Bias, builtin_names, load_bias
from cda.data.load import looks_like_path
from cda.discovery.attribute import attribute_bias, distinct_names, format_biases, trouble_with
from cda.discovery.history import material_stage
from cda.discovery.material import NARROW, material_counts, parts_at_most, planned_material, prompts_in, responses_in
from cda.discovery.prompts import load_topics
from cda.discovery.records import Candidate
from cda.discovery.setup import Asked, Setup, judge_subject, setup_of
from cda.embedded.model import EMBEDDED
from cda.errors import CdaError, RecipeError
from cda.files.paths import user_path
from cda.finetuning.applied import asked_subjects, check_subject
from cda.recipe.load import LoadedRecipe
from cda.recipe.schema import LlmSection
from cda.resources.llm_access import Planned, llm_client, sentence
from cda.resources.named_scorer import scorer_settings
from cda.results.discover import Part, SearchSettings
from cda.run import RunFolder

AT_MOST = "calls of LLMs, at most; more only where an answer has to be asked for again:"
# As the parts of a search have them by default; a test holds them against these.
_WANTED_FOR_EACH, _NAMED_AT_ONCE = 2, 5
_GROUPED_AT_ONCE, _GROUPING_ROUNDS = 100, 4
_GUESSES = 5
_REWRITE_TOKENS, _VERDICT_TOKENS = 450, 80
_LOOK_TOKENS = 80
_RESPONSE_TOKENS = 350
"""Tokens of a response whose length is not known yet."""


def given_candidates(attributes: Sequence[str], formats: bool, llm: bool) -> list[Candidate]:
    """Each once, in the order given, the formats first.

    Args:
        attributes: Sentences, built-in names, or paths of bias files.
        formats: Add the shipped format attributes.
        llm: True if an LLM rewrites.

    Raises:
        RecipeError: One cannot be an attribute, or has no rules although rules have to write it; all of them are listed.
    """
    problems: list[str] = []
    biases: list[Bias] = list(format_biases()) if formats else []
    for text in attributes:
        try:
            if text.endswith((".yaml", ".yml")) or text in builtin_names():
                biases.append(load_bias(text))
            elif reason := trouble_with(text):
                problems.append(f"--attribute {text[:80]!r}: {reason}; one sentence is needed")
            else:
                biases.append(attribute_bias(text))
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
    return list({candidate.id: candidate for candidate in candidates}.values())


def checked(
    loaded: LoadedRecipe, attributes: Sequence[str], formats: bool, adapter: str | None, dose: float | None
) -> tuple[list[Candidate], Asked, Asked]:
    """The given attributes, the model and the judge, after a look at the settings and at every file that is named.

    Args:
        loaded: The recipe.
        attributes: In words, or bias files; see `given_candidates`.
        formats: Measure the format attributes, too.
        adapter: Adapter of the model.
        dose: Dose of the adapter.

    Raises:
        RecipeError: All mistakes, a line each.
    """
    setup = setup_of(loaded)
    section, llm = setup.section, setup.llm.settings
    problems = setup.problems()

    @contextmanager
    def noted() -> Iterator[None]:
        try:
            yield
        except CdaError as error:
            problems.extend(str(error).splitlines())

    given: list[Candidate] = []
    model = judge = before = None
    with noted():
        given = given_candidates(attributes, formats, setup.by_llm)
    with noted():
        if section.topics is not None:
            load_topics(user_path(section.topics))
    with noted():
        if section.prompts is not None and looks_like_path(section.prompts):
            prompts_in(section.prompts)
    with noted():
        if section.responses not in (None, EMBEDDED, NARROW) and looks_like_path(str(section.responses)):
            responses_in(str(section.responses), section.columns, section.split)
    with noted():
        subjects = asked_subjects(loaded.recipe.model, adapter, None, dose)
        model = Asked(replace(subjects[-1], label="model"), loaded)
        before = subjects[0] if adapter else None
    # Without a name there is no LLM to check either, which is reported already.
    nameless = setup.by_llm and llm.model is None
    with noted():
        judge = None if nameless else judge_subject(loaded, before)
    for asked in (model, judge):
        with noted():
            if asked is not None:
                check_subject(asked.subject, scorer_settings(asked.loaded))
    if judge is not None and judge.subject.section.is_judge and loaded.prompts.judge.orders == "one":
        problems.append(
            "score.judge.orders: one order is asked, but a discovery counts only verdicts that were read in both; set "
            "score.judge.orders=both"
        )
    if setup.by_llm and not nameless:
        problems += llm_client(llm).check()
    if problems or model is None or judge is None:
        # Judge and proposer may lack the same key.
        raise RecipeError(dict.fromkeys(problems))
    return given, model, judge


def planned_calls(
    setup: Setup, folder: RunFolder, model: Asked, judge: Asked, n_given: int
) -> list[tuple[LlmSection, Planned]]:
    """LLM and most calls of every step, without retries of unreadable answers.

    Nothing is counted out that is only likely, such as candidates let go before the judge is asked.

    Args:
        setup: The settings.
        folder: The run; if the material is made already, its prompts are counted.
        model: The model that is searched.
        judge: The scorer that it is compared with.
        n_given: Attributes that are given; 0 if they are searched for.
    """
    section, llm, is_judge = setup.section, setup.llm.settings, judge.subject.section.is_judge
    if not setup.by_llm and not is_judge:
        return []
    material = material_stage(setup, model)
    is_made = folder.is_done(material)
    prompts = material_counts(folder.stage(material.name)).prompts if is_made else parts_at_most(setup)
    searched, validated, tested = _rewrites(setup, n_given, prompts)
    held_out, n_rewriters = validated + tested, len(setup.rewriters())
    steps = planned_material(setup)
    if setup.by_llm:
        if not n_given:
            steps.append((llm, Planned("proposing, mutating, grouping", _questions(setup.search), 1600, 250)))
        for place, name in enumerate(section.rewriters):
            calls = held_out + (searched if place == 0 else 0)
            what = f"rewriting by {name}"
            steps.append((llm.named(name), Planned(what, calls, 2 * _RESPONSE_TOKENS, _REWRITE_TOKENS)))
    if is_judge:
        calls = 2 * (searched + n_rewriters * held_out)
        judging = Planned("judging in both orders", calls, 3 * _RESPONSE_TOKENS, _VERDICT_TOKENS)
        steps.append((judge.loaded.recipe.llm, judging))
    if setup.asks_about_pairs:
        # Both sides of each pair are labelled and its edit is graded; for each candidate, guesses are made and compared with it.
        n_candidates = n_given or setup.search.populations[-1]
        calls = 3 * n_rewriters * tested + 2 * _GUESSES * n_candidates
        steps.append((llm, Planned("looking at the rewrites", calls, 2 * _RESPONSE_TOKENS, _LOOK_TOKENS)))
    return steps


def plan_text(setup: Setup, folder: RunFolder, model: Asked, judge: Asked, given: Sequence[Candidate]) -> str:
    """Work and cost of a discovery, in a few lines."""
    settings, names = setup.search, ", ".join(rewriter.name for rewriter in setup.rewriters())
    against = f"{model.subject.name} against {judge.subject.name}"
    if given:
        lines = [f"measure {len(given)} attributes in {against}, rewritten by {names}:"]
        lines += [f"  {candidate.attribute}" for candidate in given]
    else:
        lines = [
            f"search {against}: {settings.n_generations} generations, at most {settings.n_candidates} candidates",
            f"confirm with {names}",
        ]
    steps = [step for step in planned_calls(setup, folder, model, judge, len(given)) if step[1].calls]
    return "\n".join([*lines, *([AT_MOST] if steps else []), *(sentence(planned, llm) for llm, planned in steps)])


def _rewrites(setup: Setup, n_given: int, prompts: Mapping[Part, int]) -> tuple[int, int, int]:
    """Rewrites by one rewriter for the search, the validation and the test."""
    section, settings = setup.section, setup.search
    n_directions = len(settings.directions)

    def held_out(n_candidates: int, most: int | None, n_prompts: int) -> int:
        drawn = n_prompts if most is None else min(most, n_prompts)
        return n_candidates * drawn * setup.responses_each * n_directions

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


def _questions(settings: SearchSettings) -> int:
    """Questions for attributes, for their variations, and for their groups in every generation."""
    first, *survivors, _ = settings.populations
    proposing = math.ceil(_WANTED_FOR_EACH * first / _NAMED_AT_ONCE)
    varying = first if settings.variations else 0
    to_group = [proposing * _NAMED_AT_ONCE, varying * (1 + settings.variations)]
    to_group += [n * (1 + settings.mutations) for n in survivors]
    chunks = [math.ceil(n / _GROUPED_AT_ONCE) for n in to_group]
    grouping = sum(n if n == 1 else n * _GROUPING_ROUNDS for n in chunks)
    return proposing + varying + sum(survivors) + grouping
