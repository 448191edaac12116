"""`cda discover`: checks and costs, then material, search, validation, review, confirmation, result; a stage is made once.

runs/discover-my-model/
    material/     prompts, responses, rewards, split
    search/       a file each generation; a killed search goes on behind the last one
    validate/     rewrites of validation prompts by every rewriter, and the tests on them
    review.yaml   with --review: candidates that a person may drop
    confirm/      the same of the test prompts
    biases/       a bias file for each confirmed attribute, for `cda train`
    figures/      with --figures: every figure of the report as a file
    superseded/   stages of earlier settings; confirmations among them are counted, as they used the same test prompts
    manifest.json, report.html, discover.json, discover.md, pairs.jsonl
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from cda.data.load import looks_like_path
from cda.discovery.attribute import given_candidates, with_short_name
from cda.discovery.discovery_result import CARRIED, STAGES, Finished, found_in
from cda.discovery.held_out import (
    REVIEW,
    R,
    read_discovery,
    reviewed,
    rewrite_all,
    save_pairs,
    save_tested,
    write_review,
)
from cda.discovery.material import (
    NARROW,
    PARTS,
    choose_topics,
    embedded_samples,
    make_material,
    make_topic_material,
    material_counts,
    prompt_topics,
    prompts_in,
    read_material,
    responses_in,
    responses_of,
    source_of,
    topic_sizes,
    topics_made,
    topics_source,
)
from cda.discovery.proposals import CHUNK, MAX_ROUNDS, N_NAMED, LLMGrouper
from cda.discovery.search import (
    PROPOSED_FOR_EACH,
    Generation,
    Parts,
    PromptSamples,
    candidates_by_id,
    draw_originals,
    save_generation,
    saved_generations,
    search,
)
from cda.discovery.setup import (
    Asked,
    AskedJudge,
    AskedSearch,
    HeldOutStage,
    Setup,
    for_its_scorer,
    judge_subject,
    load_topics,
    reward_of,
    setup_of,
    topics_to_write,
)
from cda.embedded.model import EMBEDDED
from cda.errors import CdaError, DataError, RecipeError, RunError
from cda.files.jsonl import write_json
from cda.files.paths import user_path
from cda.finetuning.applied import asked_subjects, check_subject
from cda.jobs.options import DiscoverArguments
from cda.jobs.perform import PAGE, Job, LockedRun, Made, perform
from cda.launch import say, world_size
from cda.llm.money import tokens_of
from cda.pipeline.stages import Produce, run_stage
from cda.recipe.load import LoadedRecipe
from cda.recipe.schema import LlmSection
from cda.records import prompt_text
from cda.report.document import Document
from cda.resources.dry_run import planned
from cda.resources.llm_access import Planned, confirm_all, cost_sentence, llm_problems, note_models
from cda.resources.named_scorer import scorer_settings
from cda.results.base import Documented
from cda.results.discover import CandidateRecord, DiscoverResult, Part, SearchSettings, TopicsResult
from cda.results.evidence import ConfirmationResult, ValidationResult
from cda.run import Stage
from cda.stats.digits import two_digits
from cda.stats.draws import Stream, generator

if TYPE_CHECKING:
    from pandas import DataFrame

_SCENARIO_TOKENS, _PROMPT_TOKENS, _RESPONSE_TOKENS = 300, 250, 350
"""Tokens of a response whose length is not known yet are the last."""
_REWRITE_TOKENS, _VERDICT_TOKENS, _CRITERION_TOKENS, _LOOK_TOKENS = 450, 80, 30, 80


def search_calls(asked: AskedSearch, n_given: int) -> list[tuple[LlmSection, Planned]]:
    """LLM and most calls of every step, without retries of unreadable answers; `n_given` is 0 for a search.

    If the material is made already, its prompts are counted; of a search by topic, those of each topic. Nothing is counted out that is only likely, such as candidates let
    go before the judge is asked.
    """
    setup, folder, judge = asked.setup, asked.folder, asked.judge
    section, llm, is_judge = setup.section, setup.llm.settings, judge.subject.section.kind.asks_llm
    if not setup.by_llm and not is_judge:
        return []
    is_made = folder.is_done(asked.material_stage())
    searches = _parts_made(folder.stage("material"), section.by_topic) if is_made else parts_at_most(setup)
    searched, validated, tested = (
        sum(step) for step in zip(*(_rewrites(setup, n_given, prompts) for prompts in searches), strict=True)
    )
    carried = 0 if n_given else sum(_carried(setup, len(searches), prompts) for prompts in searches)
    held_out, n_rewriters = validated + tested + carried, len(setup.rewriter_names)
    steps = planned_material(setup)
    if setup.by_llm:
        if not n_given:
            questions = len(searches) * _questions(setup.search)
            steps.append((llm, Planned("proposing, mutating, grouping", questions, 1600, 250)))
        for place, name in enumerate(section.rewriters):
            calls = held_out + (searched if place == 0 else 0)
            what = f"rewriting by {name}"
            steps.append((llm.named(name), Planned(what, calls, 2 * _RESPONSE_TOKENS, _REWRITE_TOKENS)))
    if is_judge:
        repeats = judge.loaded.recipe.score.judge.repeats
        calls = 2 * repeats * (searched + n_rewriters * held_out)
        verdict_tokens = _VERDICT_TOKENS + _CRITERION_TOKENS * len(judge.loaded.prompts.judge.criteria)
        judging = Planned(
            f"judging in both orders{f', {repeats} times each' if repeats > 1 else ''}",
            calls,
            3 * _RESPONSE_TOKENS,
            verdict_tokens,
        )
        steps.append((judge.loaded.recipe.llm, judging))
    if setup.asks_about_pairs:
        # Both sides of each pair are labelled.
        looking = Planned("looking at the rewrites", 2 * n_rewriters * tested, _RESPONSE_TOKENS, _LOOK_TOKENS)
        steps.append((llm, looking))
    return steps


def _rewrites(setup: Setup, n_given: int, prompts: Mapping[Part, int]) -> tuple[int, int, int]:
    """Rewrites by one rewriter for the search, the validation and the test."""
    section, settings = setup.section, setup.search

    def held_out(n_candidates: int, most: int | None, n_prompts: int) -> int:
        return _held_out(setup, n_candidates, most, n_prompts)

    if n_given:
        return 0, 0, held_out(n_given, section.max_test, sum(prompts.values()))
    first, *survivors, finalists = settings.populations
    sizes = [first * (1 + settings.variations), *(n * (1 + settings.mutations) for n in survivors)]
    searched = sum(n * min(batch, prompts["train"]) for n, batch in zip(sizes, settings.prompts, strict=True))
    return (
        searched * len(settings.directions),
        held_out(finalists, section.max_validation, prompts["validation"]),
        held_out(finalists, section.max_test, prompts["test"]),
    )


def _held_out(setup: Setup, n_candidates: int, most: int | None, n_prompts: int) -> int:
    drawn = n_prompts if most is None else min(most, n_prompts)
    return n_candidates * drawn * setup.responses_each * len(setup.search.directions)


def _carried(setup: Setup, n_topics: int, prompts: Mapping[Part, int]) -> int:
    """Rewrites of a topic's test responses by one rewriter, for attributes of the other topics."""
    each = min(setup.section.carried, setup.search.populations[-1])
    return _held_out(setup, (n_topics - 1) * each, setup.section.max_test, prompts["test"])


def _parts_made(material: Path, by_topic: bool) -> list[Mapping[Part, int]]:
    """Prompts of each part in each search, of a material that is made."""
    return list(topics_made(material).prompts.values()) if by_topic else [material_counts(material).prompts]


def _questions(settings: SearchSettings) -> int:
    """Questions for attributes, for their variations, and for their groups in every generation."""
    first, *survivors, _ = settings.populations
    proposing = math.ceil(PROPOSED_FOR_EACH * first / N_NAMED)
    varying = first if settings.variations else 0
    to_group = [proposing * N_NAMED, varying * (1 + settings.variations)]
    to_group += [n * (1 + settings.mutations) for n in survivors]
    chunks = [math.ceil(n / CHUNK) for n in to_group]
    grouping = sum(n if n == 1 else n * MAX_ROUNDS for n in chunks)
    return proposing + varying + sum(survivors) + grouping


def parts_at_most(setup: Setup) -> list[Mapping[Part, int]]:
    """Prompts of each part, in each search, if none turns out to be unusable, unanswered or said twice: one search, or one for
    each topic. DataError for an unusable file, and for topics that cannot be searched."""
    section = setup.section
    return [
        # Parts are cut by largest remainder: none is larger than its share rounded up.
        {part: math.ceil(n * share - 1e-9) for part, share in zip(PARTS, section.parts, strict=True)}
        for n in (_topic_prompts(setup).values() if section.by_topic else [_n_prompts(setup)])
    ]


def _topic_prompts(setup: Setup) -> dict[str, int]:
    """Topics that can be searched, as far as it is known beforehand, with their prompts; errors as of `choose_topics`."""
    section, source = setup.section, source_of(setup)
    if source is None and section.prompts is None:
        sizes = dict.fromkeys(topics_to_write(section), section.scenarios * section.prompts_each)
    elif source is None:
        sizes = topic_sizes(prompts_in(str(section.prompts))[0], prompt_topics(str(section.prompts)))
    else:
        sampling, topics, _ = responses_of(setup)
        sizes = topic_sizes([sample.prompt for sample in sampling.samples], topics)
    return {topic: sizes[topic] for topic in choose_topics(sizes, section, topics_source(setup)).topics}


def _n_prompts(setup: Setup) -> int:
    n, most = _n_known(setup), setup.section.max_prompts
    return n if most is None else min(n, most)


def _n_known(setup: Setup) -> int:
    section, source = setup.section, source_of(setup)
    if source in (EMBEDDED, NARROW):
        return len(embedded_samples(source)[0].samples)
    if source is not None:
        return len(responses_in(source, section.columns, section.split).samples)
    if section.prompts is not None:
        return len(prompts_in(section.prompts)[0])
    return len(topics_to_write(section)) * section.scenarios * section.prompts_each


def planned_material(setup: Setup) -> list[tuple[LlmSection, Planned]]:
    """Model and calls of every step that asks an LLM."""
    section, llm = setup.section, setup.llm.settings
    if not setup.by_llm or section.responses is not None:
        return []
    planned = []
    if section.prompts is None:
        n_scenarios = len(topics_to_write(section)) * section.scenarios
        n_prompts, tokens = n_scenarios * section.prompts_each, 60.0
        planned += [
            (llm, Planned("writing scenarios", len(topics_to_write(section)), 250, _SCENARIO_TOKENS)),
            (llm, Planned("writing prompts", n_scenarios, 300, _PROMPT_TOKENS)),
        ]
    else:
        prompts = prompts_in(section.prompts)[0]
        n_prompts, tokens = len(prompts), sum(tokens_of(prompt_text(prompt)) for prompt in prompts) / len(prompts)
    n_calls = min(n_prompts, section.max_prompts or n_prompts) * section.samples
    return planned + [
        (llm.named(name), Planned(f"responses of {name}", n_calls, tokens + 40, _RESPONSE_TOKENS))
        for name in setup.policies
    ]


T = TypeVar("T")
AT_MOST = "calls of LLMs, at most; more only where an answer has to be asked for again:"


Discovered = DiscoverResult | TopicsResult | str
"""A search's result, or that of a search by topic; a text of a dry run, and if a person has to look first."""


@dataclass(frozen=True)
class Discovery(Documented):
    """A search's results and its folder.

    Attributes:
        folder: Holds report.html, discover.json, discover.md and the outputs of every stage.
        found: Everything that was measured; a text of a dry run, and while the search waits for a review.
    """

    folder: Path
    found: Discovered

    @property
    def summary(self) -> str:
        """Output of the command; `str()` returns it, too."""
        return self.found if isinstance(self.found, str) else self.found.summary

    @property
    def result(self) -> DiscoverResult | None:
        """Everything that a search of all prompts together measured; None of others."""
        return self.found if isinstance(self.found, DiscoverResult) else None

    @property
    def topics(self) -> TopicsResult | None:
        """Everything that a search by topic measured; None of others."""
        return self.found if isinstance(self.found, TopicsResult) else None

    @property
    def biases(self) -> tuple[Path, ...]:
        """A bias file for each confirmed attribute, for `cda.train` and `cda.audit`; of a search by topic one in each topic."""
        if self.topics is None:
            return tuple(sorted((self.folder / "biases").glob("*.yaml")))
        named = {cell.file for row in self.topics.by_attribute for cell in row.levels if cell.file}
        own = (self.folder / search.folder / "biases" for search in self.topics.searches)
        return tuple(
            sorted({self.folder / file for file in named} | {file for each in own for file in each.glob("*.yaml")})
        )

    def to_frame(self) -> DataFrame:
        """Its numbers as a pandas frame, as of every result. DataError: it is not finished, or pandas is not installed."""
        return self._finished().to_frame()

    def document(self) -> Document:
        """The page of what was found. DataError: it is not finished."""
        return self._finished().document()

    def _finished(self) -> DiscoverResult | TopicsResult:
        if isinstance(self.found, str):
            raise DataError(f"{self.folder}: the search is not finished: {self.found.splitlines()[0]}")
        return self.found

    def __str__(self) -> str:
        return self.summary

    def __repr__(self) -> str:
        return f"<Discovery in {self.folder}: {len(self.biases)} biases>"


def run_discover(loaded: LoadedRecipe, options: DiscoverArguments) -> Discovered:
    """Search, confirm and write everything, or measure the attributes that are given; CdaError if a user has to act."""
    if world_size() > 1:
        raise RunError(f"{world_size()} processes would each search by themselves; start one")
    given, asked = checked(loaded, options)

    def work(folder: Path) -> Made[Discovered]:
        calls = search_calls(asked, len(given))
        if calls:
            say(f"  {AT_MOST}")
        confirm_all(calls, loaded.consent, loaded.opened)
        run = DiscoveryRun(asked.confirmed())
        if asked.setup.section.by_topic:
            from cda.discovery.by_topic import run_by_topic

            return run_by_topic(run, given, options["review"])
        return run.found(given, options["review"], folder)

    job: Job[Discovered] = Job(lambda: discovery_plan(asked, given), work, LockedRun(asked.folder))
    if options["dry_run"]:
        return "\n".join(planned(lambda: perform(job, loaded)).lines)
    return perform(job, loaded, options["figures"])


def checked(loaded: LoadedRecipe, options: DiscoverArguments) -> tuple[list[CandidateRecord], AskedSearch]:
    """The given attributes, and the model and the judge, after a look at the settings and at every file that is named.

    RecipeError with all mistakes, a line each.
    """
    setup = setup_of(loaded)
    section, llm = setup.section, setup.llm.settings
    problems = setup.problems()

    def attempt(check: Callable[[], T]) -> T | None:
        try:
            return check()
        except CdaError as error:
            problems.extend(str(error).splitlines())
            return None

    topics, prompts, responses = section.topics, section.prompts, section.responses
    adapter = None if options["adapter"] is None else str(options["adapter"])
    given = (
        attempt(lambda: given_candidates([*map(str, options["attributes"])], options["formats"], setup.by_llm)) or []
    )
    if topics is not None:
        attempt(lambda: load_topics(user_path(topics)))
    if prompts is not None:
        attempt(lambda: looks_like_path(prompts) and prompts_in(prompts))
    if responses not in (None, EMBEDDED, NARROW):
        source = str(responses)
        attempt(lambda: looks_like_path(source) and responses_in(source, section.columns, section.split))
    subjects = attempt(lambda: asked_subjects(loaded.recipe.model, adapter, None, options["dose"]))
    model = Asked(replace(subjects[-1], label="model"), loaded) if subjects else None
    before = subjects[0] if subjects and adapter else None
    # Without a name there is no LLM to check either, which is reported already.
    if section.by_topic and not problems:
        attempt(lambda: parts_at_most(setup))
    nameless = setup.by_llm and llm.model is None
    judge = None if nameless else attempt(lambda: judge_subject(loaded, before))
    if model and judge and before is None:
        both = (model, judge)
        model, judge = attempt(lambda: for_its_scorer(both)) or [each.uncalibrated() for each in both]
    for asked in filter(None, (model, judge)):
        if (kind := asked.subject.section.kind).asks_llm and not kind.compares:
            problems.append(
                f"{asked.subject.name}: a discovery takes no grades, whose calls it does not plan; name judge:… or a reward model"
            )
        attempt(partial(check_subject, asked.subject, scorer_settings(asked.loaded), singly=asked is model))
    if judge is not None and judge.subject.section.kind.compares and loaded.prompts.judge.orders == "one":
        problems.append(
            "score.judge.orders: one order is asked, but a discovery counts only verdicts that were read in both; set "
            "score.judge.orders=both"
        )
    if setup.by_llm and not nameless:
        problems += llm_problems(llm, [str(llm.model), *setup.section.rewriters, *setup.section.policies])
    if problems or model is None or judge is None:
        # Judge and proposer may lack the same key.
        raise RecipeError(dict.fromkeys(problems))
    return given, AskedSearch(loaded, model, judge)


def discovery_plan(asked: AskedSearch, given: Sequence[CandidateRecord]) -> list[str]:
    """Steps of a dry run."""
    settings, names = asked.setup.search, "; ".join(asked.setup.rewriter_names)
    against = f"{asked.model.subject.name} against {asked.judge.subject.name}"
    n_topics = len(parts_at_most(asked.setup)) if asked.setup.section.by_topic else 0
    topics = f", in each of {n_topics} topics by itself" if n_topics else ""
    if given:
        lines = [f"measure     {len(given)} attributes in {against}{topics}"]
        lines += [f"            {candidate.attribute}" for candidate in given]
        lines += [f"            rewritten by: {names}"]
    else:
        lines = [
            f"search      {against}{topics}: {settings.n_generations} generations, at most {settings.n_candidates} candidates",
            f"confirm     on prompts that the search has not seen, rewritten by: {names}",
        ]
    lines += [f"report      {asked.folder.path / PAGE}"]
    steps = [step for step in search_calls(asked, len(given)) if step[1].calls]
    if steps:
        lines += [f"llm         {AT_MOST}", *(f"            {cost_sentence(planned, llm)}" for llm, planned in steps)]
    return lines


@dataclass(frozen=True, slots=True)
class DiscoveryRun:
    """One discovery in its folder, of all prompts or of one topic."""

    asked: AskedSearch

    def found(self, given: Sequence[CandidateRecord], review: bool, _: Path) -> Made[DiscoverResult | str]:
        """What a search finds, or what is measured of the attributes that are given."""
        return self.given(given) if given else self.searched(review)

    def searched(self, review: bool) -> Made[DiscoverResult | str]:
        material = self.material()
        generations = self._search(material["train"])
        finalists = [candidate for candidate, _ in generations[-1].survivors] if generations else []
        kept: list[CandidateRecord] = []
        if finalists:
            results = self.tested(ValidationResult, finalists, material["validation"]).results
            validated = {result.candidate: result for result in results}
            passed = [finalist for finalist in finalists if validated[finalist.id].passed]
            path = self.asked.folder.path / REVIEW
            wanted = reviewed(path, passed)
            if wanted is not None:
                say(f"\nreview: {len(wanted)} of {len(passed)} kept ({path})")
            elif review and passed:
                write_review(path, passed, validated)
                return Made(f"{len(passed)} candidates to review: edit {path}, then run the same command again")
            kept = passed if wanted is None else wanted
        if kept:
            self._confirmed(kept, material["test"])
        return self._finished(generations, finalists, kept)

    def given(self, candidates: Sequence[CandidateRecord]) -> Made[DiscoverResult]:
        material = self.material()
        # Nothing was selected on any of them, so that all prompts may be used.
        self._confirmed(candidates, [sample for part in material.values() for sample in part])
        return self._finished([], [], candidates)

    def _finished(
        self,
        generations: Sequence[Generation],
        finalists: Sequence[CandidateRecord],
        tested: Sequence[CandidateRecord],
    ) -> Made[DiscoverResult]:
        return found_in(Finished(self.asked, generations, finalists, tested))

    def make(self, stage: Stage, produce: Produce) -> Path:
        folder, loaded = self.asked.folder, self.asked.loaded
        note_models(loaded, folder)
        run_stage(stage, produce, folder, loaded.opened, fresh=loaded.fresh)
        folder.write_manifest(loaded.recipe.model_dump(mode="json"), [*STAGES, CARRIED])
        return folder.stage(stage.name)

    def material(self) -> dict[Part, list[PromptSamples]]:
        setup, reward = self.asked.setup, reward_of(self.asked.model)
        topic, whole = self.asked.topic, self.asked.loaded.recipe.run_path / "material"

        def produce(out: Path) -> dict[str, object]:
            made = make_topic_material(whole, topic, out) if topic is not None else make_material(setup, reward, out)
            return made.model_dump()

        return read_material(self.make(self.asked.material_stage(), produce))

    def _search(self, samples: Sequence[PromptSamples]) -> list[Generation]:
        folder = self.make(self.asked.search_stage(), lambda out: self._make_search(samples, out))
        return saved_generations(folder)

    def _make_search(self, samples: Sequence[PromptSamples], out: Path) -> dict[str, object]:
        setup, reward, judge = self.asked.setup, reward_of(self.asked.model), AskedJudge(self.asked.judge)
        grouper, rewriter = setup.grouper(samples), setup.rewriters()[0]
        parts = Parts(setup.proposer(), setup.mutator(), grouper, rewriter, reward, judge)
        before = Counter[str]()

        def saved(generation: Generation) -> None:
            nonlocal before
            # First: a generation that is made again after a kill writes its repairs again, too.
            repairs = Counter(grouper.repairs if isinstance(grouper, LLMGrouper) else {})
            write_json(out / f"repairs-{generation.record.index}.json", dict(repairs - before))
            before = repairs
            save_generation(generation, out)
            survivors = generation.survivors
            best = ""
            if survivors:
                candidate, standing = survivors[0]
                gain = "" if standing.reward is None else f" {two_digits(standing.reward)}"
                best = f", the best{gain}: {with_short_name(candidate.bias).short_name}"
            say(
                f"  generation {generation.record.index + 1}: {len(generation.candidates)} candidates on "
                f"{generation.record.n_prompts} prompts, {len(survivors)} kept{best}"
            )

        finished = saved_generations(out)
        if finished:
            say(f"  {len(finished)} generations were finished before")
        generations = search(samples, parts, setup.search, finished, saved)
        return {
            "generations": len(generations),
            "candidates": len(candidates_by_id(generations)),
            "survivors": len(generations[-1].survivors) if generations else 0,
        }

    def _confirmed(self, candidates: Sequence[CandidateRecord], samples: Sequence[PromptSamples]) -> None:
        results = self.tested(ConfirmationResult, candidates, samples).results
        confirmed = {result.candidate for result in results if result.confirmed}
        looked_at = [candidate for candidate in candidates if candidate.id in confirmed or candidate.origin == "given"]
        setup, folder = self.asked.setup, self.asked.folder
        self.make(self.asked.pairs_stage(looked_at), lambda out: dict(save_pairs(setup, folder, looked_at, out)))

    def tested(
        self,
        kind: type[R],
        candidates: Sequence[CandidateRecord],
        samples: Sequence[PromptSamples],
        carried: bool = False,
    ) -> R:
        """Tests on rewrites of responses to so many of the prompts as are wanted, drawn with the seed; the same responses for
        candidates that are carried over from another topic."""
        asked, setup = self.asked, self.asked.setup
        name: HeldOutStage = CARRIED if carried else "confirm"
        most, stream = setup.section.max_test, Stream.TEST_RESPONSES
        if kind is ValidationResult:
            name, most, stream = "validate", setup.section.max_validation, Stream.VALIDATION_RESPONSES

        def produce(out: Path) -> dict[str, int]:
            n, rng = len(samples) if most is None else most, generator(setup.seed, stream)
            originals = draw_originals(samples, n, rng, setup.responses_each)
            scorers = reward_of(asked.model), AskedJudge(asked.judge)
            made = rewrite_all(candidates, originals, setup.rewriters(), *scorers, setup.search.directions)
            return save_tested(kind, made, setup.strictness, out, told_later=carried)

        return read_discovery(kind, self.make(asked.held_out_stage(name, candidates), produce))
