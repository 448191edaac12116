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
    manifest.json, report.html, discover.json, discover.md, lineage.jsonl, pairs.jsonl
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from cda.data.load import looks_like_path
from cda.discovery.attribute import given_candidates
from cda.discovery.candidates import PromptSamples
from cda.discovery.grouping import LLMGrouper
from cda.discovery.held_out import REVIEW, R, read_result, reviewed, rewrite_all, save_pairs, save_tested, write_review
from cda.discovery.material import (
    NARROW,
    Material,
    make_material,
    make_topic_material,
    prompts_in,
    read_material,
    responses_in,
)
from cda.discovery.planned import parts_at_most, planned_calls
from cda.discovery.prompts import load_topics
from cda.discovery.result import CARRIED, PAGE, STAGES, Finished, discover_result, write_result
from cda.discovery.scoring import AskedJudge, reward_of
from cda.discovery.search import (
    Generation,
    Parts,
    candidates_by_id,
    draw_originals,
    save_generation,
    saved_generations,
    search,
)
from cda.discovery.sentences import short
from cda.discovery.setup import Asked, Discovery, HeldOutStage, for_its_scorer, judge_subject, setup_of
from cda.embedded.model import EMBEDDED
from cda.errors import CdaError, RecipeError, RunError
from cda.files.jsonl import write_json
from cda.files.paths import user_path
from cda.finetuning.applied import asked_subjects, check_subject
from cda.launch import say, world_size
from cda.pipeline.stages import Produce, run_stage
from cda.recipe.load import LoadedRecipe
from cda.resources.artifacts import check_form
from cda.resources.dry_run import stop_if_dry
from cda.resources.llm_access import confirm_all, llm_problems, sentence
from cda.resources.named_scorer import scorer_settings
from cda.results.discover import CandidateRecord, DiscoverResult
from cda.results.evidence import ConfirmationResult, ValidationResult
from cda.results.topics import TopicsResult
from cda.run import Stage
from cda.stats.digits import two_digits
from cda.stats.draws import Stream, generator

T = TypeVar("T")
AT_MOST = "calls of LLMs, at most; more only where an answer has to be asked for again:"


@dataclass(frozen=True, slots=True)
class DiscoverOptions:
    """Settings of the command line next to the recipe's.

    Attributes:
        adapter: Search the model with this adapter and compare it with the model without, unless another judge is named.
        attributes: Attributes in words, or bias files, to measure instead of a search.
        formats: Measure the shipped format attributes, too.
        review: Stop between validation and test, for a person to drop candidates.
        dry_run: Check everything and give the plan with its cost; do nothing.
        figures: Also write every figure as a file of this format (svg, pdf) into figures/.
    """

    adapter: str | None = None
    dose: float | None = None
    attributes: tuple[str, ...] = ()
    formats: bool = False
    review: bool = False
    dry_run: bool = False
    figures: str | None = None


@dataclass(frozen=True, slots=True)
class Discovered:
    """A summary for a terminal, and the result; None of a dry run, and if a person has to look first. `topics`: of a search by
    topic."""

    summary: str
    result: DiscoverResult | None = None
    topics: TopicsResult | None = None


def run_discover(loaded: LoadedRecipe, options: DiscoverOptions) -> Discovered:
    """Search, confirm and write everything, or measure the attributes that are given; CdaError if a user has to act."""
    if world_size() > 1:
        raise RunError(f"{world_size()} processes would each search by themselves; start one")
    check_form(options.figures)
    given, asked = checked(loaded, options)
    stop_if_dry(loaded, lambda: plan_text(asked, given).splitlines(), ("biases", "name"))
    if options.dry_run:
        return Discovered(plan_text(asked, given))
    with asked.folder.lock():
        calls = planned_calls(asked, len(given))
        if calls:
            say(f"  {AT_MOST}")
        confirm_all(calls, loaded.consent, loaded.opened)
        run = DiscoveryRun(asked.confirmed(), options.figures)
        if asked.setup.section.by_topic:
            from cda.discovery.by_topic import run_by_topic

            return run_by_topic(run, given, options.review)
        return run.given(given) if given else run.searched(options.review)


def checked(loaded: LoadedRecipe, options: DiscoverOptions) -> tuple[list[CandidateRecord], Discovery]:
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
    given = attempt(lambda: given_candidates(options.attributes, options.formats, setup.by_llm)) or []
    if topics is not None:
        attempt(lambda: load_topics(user_path(topics)))
    if prompts is not None:
        attempt(lambda: looks_like_path(prompts) and prompts_in(prompts))
    if responses not in (None, EMBEDDED, NARROW):
        source = str(responses)
        attempt(lambda: looks_like_path(source) and responses_in(source, section.columns, section.split))
    subjects = attempt(lambda: asked_subjects(loaded.recipe.model, options.adapter, None, options.dose))
    model = Asked(replace(subjects[-1], label="model"), loaded) if subjects else None
    before = subjects[0] if subjects and options.adapter else None
    # Without a name there is no LLM to check either, which is reported already.
    if section.by_topic and not problems:
        attempt(lambda: parts_at_most(setup))
    nameless = setup.by_llm and llm.model is None
    judge = None if nameless else attempt(lambda: judge_subject(loaded, before))
    if model and judge and before is None:
        both = (model, judge)
        model, judge = attempt(lambda: for_its_scorer(both)) or [each.uncalibrated() for each in both]
    for asked in filter(None, (model, judge)):
        if asked.subject.section.kind == "grade":
            problems.append(
                f"{asked.subject.name}: a discovery takes no grades, whose calls it does not plan; name judge:… or a reward model"
            )
        attempt(partial(check_subject, asked.subject, scorer_settings(asked.loaded), singly=asked is model))
    if judge is not None and judge.subject.section.is_judge and loaded.prompts.judge.orders == "one":
        problems.append(
            "score.judge.orders: one order is asked, but a discovery counts only verdicts that were read in both; set "
            "score.judge.orders=both"
        )
    if setup.by_llm and not nameless:
        problems += llm_problems(llm, [str(llm.model), *setup.section.rewriters, *setup.section.policies])
    if problems or model is None or judge is None:
        # Judge and proposer may lack the same key.
        raise RecipeError(dict.fromkeys(problems))
    return given, Discovery(loaded, model, judge)


def plan_text(asked: Discovery, given: Sequence[CandidateRecord]) -> str:
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
    steps = [step for step in planned_calls(asked, len(given)) if step[1].calls]
    if steps:
        lines += [f"llm         {AT_MOST}", *(f"            {sentence(planned, llm)}" for llm, planned in steps)]
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class DiscoveryRun:
    """One discovery in its folder, of all prompts or of one topic."""

    asked: Discovery
    figures: str | None

    def searched(self, review: bool) -> Discovered:
        material = self.material()
        generations = self._search(material.parts["train"])
        finalists = [candidate for candidate, _ in generations[-1].survivors] if generations else []
        kept: list[CandidateRecord] = []
        if finalists:
            results = self.tested(ValidationResult, finalists, material.parts["validation"]).results
            validated = {result.candidate: result for result in results}
            passed = [finalist for finalist in finalists if validated[finalist.id].passed]
            path = self.asked.folder.path / REVIEW
            wanted = reviewed(path, passed)
            if wanted is not None:
                say(f"\nreview: {len(wanted)} of {len(passed)} kept ({path})")
            elif review and passed:
                write_review(path, passed, validated)
                return Discovered(f"{len(passed)} candidates to review: edit {path}, then run the same command again")
            kept = passed if wanted is None else wanted
        if kept:
            self._confirmed(kept, material.parts["test"])
        return self._finished(material, generations, finalists, kept)

    def given(self, candidates: Sequence[CandidateRecord]) -> Discovered:
        material = self.material()
        # Nothing was selected on any of them, so that all prompts may be used.
        self._confirmed(candidates, material.everything())
        return self._finished(material, [], [], candidates)

    def _finished(
        self,
        material: Material,
        generations: Sequence[Generation],
        finalists: Sequence[CandidateRecord],
        tested: Sequence[CandidateRecord],
    ) -> Discovered:
        finished = Finished(self.asked, material, generations, finalists, tested)
        result = discover_result(finished)
        return Discovered(write_result(finished, result, self.figures), result)

    def make(self, stage: Stage, produce: Produce) -> Path:
        folder, loaded = self.asked.folder, self.asked.loaded
        run_stage(stage, produce, folder, loaded.opened, fresh=loaded.fresh)
        folder.write_manifest(loaded.recipe.model_dump(mode="json"), [*STAGES, CARRIED])
        return folder.stage(stage.name)

    def material(self) -> Material:
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
                best = f", the best{gain}: {short(candidate.attribute)}"
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

        return read_result(kind, self.make(asked.held_out_stage(name, candidates), produce))
