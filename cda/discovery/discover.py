"""`cda discover`: material, search, validation, review, confirmation, result; each stage made once and reused.

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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cda.discovery.held_out import (
    REVIEW,
    HeldOutRewrites,
    read_result,
    reviewed,
    rewrite_all,
    save_confirmation,
    save_pairs,
    save_validation,
    write_review,
)
from cda.discovery.history import (
    held_out_stage,
    material_stage,
    pairs_stage,
    save_generation,
    saved_generations,
    search_stage,
)
from cda.discovery.material import Material, make_material, read_material
from cda.discovery.plan import AT_MOST, checked, plan_text, planned_calls
from cda.discovery.records import Candidate, PromptSamples
from cda.discovery.result import STAGES, Finished, discover_result, save_repairs, write_result
from cda.discovery.search import Generation, Parts, draw_originals, search
from cda.discovery.sentences import short
from cda.discovery.setup import Asked, AskedJudge, Setup, reward_of, setup_of
from cda.errors import RunError
from cda.launch import say, world_size
from cda.pipeline.stages import Produce, run_stage
from cda.recipe.load import LoadedRecipe
from cda.resources.artifacts import checked_form
from cda.resources.llm_access import confirm_all
from cda.results.discover import DiscoverResult
from cda.results.evidence import ConfirmationResult, Validation, ValidationResult
from cda.run import RunFolder, Stage
from cda.stats.streams import Stream, generator


@dataclass(frozen=True, slots=True)
class DiscoverOptions:
    """Settings of the command line next to the recipe's.

    Attributes:
        adapter: Search the model with this adapter and compare it with the model without, unless another judge is named.
        dose: Dose of the adapter.
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
    """A summary for a terminal, and the result; None of a dry run, and if a person has to look first."""

    summary: str
    result: DiscoverResult | None = None


def run_discover(loaded: LoadedRecipe, options: DiscoverOptions) -> Discovered:
    """Search, confirm and write everything; or measure the attributes that are given.

    Raises:
        CdaError: Anything a user can act on.
    """
    if world_size() > 1:
        raise RunError(f"{world_size()} processes would each search by themselves; start one")
    if options.figures is not None:
        checked_form(options.figures)
    given, model, judge = checked(loaded, options.attributes, options.formats, options.adapter, options.dose)
    folder, setup = RunFolder(loaded.recipe.run_path), setup_of(loaded)
    if options.dry_run:
        return Discovered(plan_text(setup, folder, model, judge, given))
    with folder.lock():
        calls = planned_calls(setup, folder, model, judge, len(given))
        if calls:
            say(f"  {AT_MOST}")
        confirm_all(calls, loaded.consent)
        # Agreed to once, for all of it.
        loaded = replace(loaded, confirmed=True)
        model = replace(model, loaded=loaded)
        judge = replace(judge, loaded=replace(judge.loaded, confirmed=True))
        run = _DiscoveryRun(loaded, setup_of(loaded), folder, model, judge, options.figures)
        return run.given(given) if given else run.searched(options.review)


@dataclass(frozen=True, slots=True)
class _DiscoveryRun:
    """One discovery in its folder."""

    loaded: LoadedRecipe
    setup: Setup
    folder: RunFolder
    model: Asked
    judge: Asked
    figures: str | None

    def searched(self, review: bool) -> Discovered:
        material = self._material()
        generations = self._search(material.parts["train"])
        finalists = [survivor.candidate for survivor in generations[-1].survivors] if generations else []
        passed = self._validated(finalists, material.parts["validation"]) if finalists else []
        kept = self._reviewed(passed, review)
        if kept is None:
            return Discovered(
                f"{len(passed)} candidates to review: edit {self.folder.path / REVIEW}, then run the same command again"
            )
        if kept:
            self._confirmed(kept, material.parts["test"])
        return self._finished(material, generations, finalists, kept)

    def given(self, candidates: Sequence[Candidate]) -> Discovered:
        material = self._material()
        # Nothing was selected on any of them, so that all prompts may be used.
        self._confirmed(candidates, material.everything())
        return self._finished(material, [], [], candidates)

    def _finished(
        self,
        material: Material,
        generations: Sequence[Generation],
        finalists: Sequence[Candidate],
        tested: Sequence[Candidate],
    ) -> Discovered:
        name, setup, folder = self.loaded.recipe.name, self.setup, self.folder
        finished = Finished(name, setup, folder, self.model, self.judge, material, generations, finalists, tested)
        result = discover_result(finished)
        return Discovered(write_result(finished, result, self.figures), result)

    def _make(self, stage: Stage, produce: Produce) -> None:
        run_stage(stage, produce, self.folder, self.loaded.opened)
        self.folder.write_manifest(self.loaded.recipe.model_dump(mode="json"), list(STAGES))

    def _material(self) -> Material:
        stage = material_stage(self.setup, self.model)
        self._make(stage, lambda out: make_material(self.setup, reward_of(self.model), out).model_dump())
        return read_material(self.folder.stage(stage.name))

    def _search(self, samples: Sequence[PromptSamples]) -> list[Generation]:
        stage = search_stage(self.setup, self.folder, self.judge)
        self._make(stage, lambda out: self._make_search(samples, out))
        return saved_generations(self.folder.stage(stage.name))

    def _make_search(self, samples: Sequence[PromptSamples], out: Path) -> dict[str, object]:
        setup = self.setup
        grouper, rewriter, reward = setup.grouper(samples), setup.rewriters()[0], reward_of(self.model)
        parts = Parts(setup.proposer(), setup.mutator(), grouper, rewriter, reward, AskedJudge(self.judge))
        repairs: Mapping[str, int] = {}

        def saved(generation: Generation) -> None:
            nonlocal repairs
            # First: a generation that is made again after a kill writes its repairs again, too.
            repairs = save_repairs(grouper, repairs, generation.index, out)
            save_generation(generation, out)
            survivors = generation.survivors
            best = (
                f", the best {survivors[0].reward:+.3f}: {short(survivors[0].candidate.attribute)}" if survivors else ""
            )
            say(
                f"  generation {generation.index + 1}: {len(generation.standings)} candidates on {generation.n_prompts} prompts, "
                f"{len(survivors)} kept{best}"
            )

        finished = saved_generations(out)
        if finished:
            say(f"  {len(finished)} generations were finished before")
        generations = search(samples, parts, setup.search, finished, saved)
        return {
            "generations": len(generations),
            "candidates": len({standing.candidate.id for each in generations for standing in each.standings}),
            "survivors": len(generations[-1].survivors) if generations else 0,
        }

    def _validated(self, finalists: Sequence[Candidate], samples: Sequence[PromptSamples]) -> list[Candidate]:
        stage = held_out_stage("validate", self.setup, self.folder, self.judge, finalists)
        n, stream = self.setup.section.max_validation, Stream.VALIDATION_RESPONSES

        def produce(out: Path) -> dict[str, int]:
            return save_validation(self._rewritten(finalists, samples, n, stream), self.setup.strictness, out)

        self._make(stage, produce)
        results = self._validations()
        return [finalist for finalist in finalists if results[finalist.id].passed]

    def _validations(self) -> dict[str, Validation]:
        """By candidate `id`."""
        validation = read_result(ValidationResult, self.folder.stage("validate"))
        return {result.candidate: result for result in validation.results}

    def _reviewed(self, passed: Sequence[Candidate], review: bool) -> list[Candidate] | None:
        """The candidates that go on to the test; None if a person has to look first."""
        path = self.folder.path / REVIEW
        kept = reviewed(path, passed)
        if kept is not None:
            say(f"\nreview: {len(kept)} of {len(passed)} kept ({path})")
            return kept
        if not review or not passed:
            return list(passed)
        write_review(path, passed, self._validations())
        return None

    def _confirmed(self, candidates: Sequence[Candidate], samples: Sequence[PromptSamples]) -> None:
        stage = held_out_stage("confirm", self.setup, self.folder, self.judge, candidates)
        n, stream = self.setup.section.max_test, Stream.TEST_RESPONSES

        def produce(out: Path) -> dict[str, int]:
            return save_confirmation(self._rewritten(candidates, samples, n, stream), self.setup.strictness, out)

        self._make(stage, produce)
        results = read_result(ConfirmationResult, self.folder.stage("confirm")).results
        confirmed = {result.candidate for result in results if result.confirmed}
        looked_at = [candidate for candidate in candidates if candidate.id in confirmed or candidate.origin == "given"]
        pairs = pairs_stage(self.setup, self.folder, looked_at)
        self._make(pairs, lambda out: dict(save_pairs(self.setup, self.folder, looked_at, out)))

    def _rewritten(
        self, candidates: Sequence[Candidate], samples: Sequence[PromptSamples], n: int | None, stream: Stream
    ) -> HeldOutRewrites:
        """Rewrites of responses to n of the prompts, or to all, drawn with the seed."""
        setup, rng = self.setup, generator(self.setup.seed, stream)
        originals = draw_originals(samples, len(samples) if n is None else n, rng, setup.responses_each)
        reward, judge = reward_of(self.model), AskedJudge(self.judge)
        return rewrite_all(candidates, originals, setup.rewriters(), reward, judge, setup.search.directions)
