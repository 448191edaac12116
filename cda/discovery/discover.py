"""`cda discover`: material, search, validation, review, confirmation, result; each stage made once and reused.

runs/discover-my-model/
    material/     prompts, responses, rewards, split
    search/       a file each generation; a killed search goes on behind the last one
    validate/     rewrites of validation prompts by every rewriter, and the tests on them
    review.yaml   with --review: what a person may drop
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
from typing import Any

from cda.discovery.held_out import FILE as REVIEW
from cda.discovery.held_out import (
    HeldOut,
    held_out_originals,
    pairs_stage,
    read_result,
    reviewed,
    rewrite_all,
    run_confirmation,
    run_pairs,
    run_validation,
    validation_originals,
    write_review,
)
from cda.discovery.history import held_out_stage, material_stage, save_generation, saved_generations, search_stage
from cda.discovery.material import Material, make_material, read_material
from cda.discovery.measure import Original
from cda.discovery.parts import (
    Asked,
    grouper_of,
    judge_of,
    mutator_of,
    proposer_of,
    reward_of,
    rewriters,
    search_settings,
)
from cda.discovery.plan import AT_MOST, checked, plan, planned_calls
from cda.discovery.records import Candidate, PromptSamples
from cda.discovery.result import STAGES, Found, discover_result, save_repairs, write_result
from cda.discovery.search import Generation, Parts, search
from cda.discovery.sentences import short
from cda.errors import RunError
from cda.launch import say, world_size
from cda.pipeline.plan import run_folder
from cda.pipeline.stages import Produce, run_stage
from cda.recipe.load import LoadedRecipe
from cda.resources.artifacts import checked_form
from cda.resources.spending import confirm_all
from cda.results.discover import DiscoverResult
from cda.results.evidence import ConfirmationResult, Validation, ValidationResult
from cda.run import RunFolder, Stage


@dataclass(frozen=True, slots=True)
class DiscoverOptions:
    """What the command line says beside the recipe.

    Attributes:
        adapter: Search the model with this adapter; it is held against the model without it unless another judge is named.
        dose: How much of the adapter.
        attributes: Attributes in words, or bias files; then nothing is searched for.
        formats: Measure the shipped format attributes, too.
        review: Stop between validation and test, for a person to drop candidates.
        dry_run: Check everything, say what would be done and what it would cost, and do nothing.
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
    """What a command has to say.

    Attributes:
        summary: For a terminal.
        result: None where nothing was measured to the end: of a dry run, or where a person has to look first.
    """

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
    about = checked(loaded, options.attributes, options.formats, options.adapter, options.dose)
    given, model, judge = about.given, about.model, about.judge
    folder = run_folder(loaded)
    if options.dry_run:
        return Discovered(plan(loaded, folder, model, judge, given))
    with folder.lock():
        calls = planned_calls(loaded, folder, model, judge, len(given))
        if calls:
            say(f"  {AT_MOST}")
        confirm_all(calls, loaded.consent)
        # Agreed to once, for all of it.
        agreed = replace(loaded, confirmed=True)
        run = _Run(
            agreed,
            folder,
            replace(model, loaded=agreed),
            replace(judge, loaded=replace(judge.loaded, confirmed=True)),
            options.figures,
        )
        return run.given(given) if given else run.searched(options.review)


@dataclass(frozen=True, slots=True)
class _Run:
    """One discovery in its folder."""

    loaded: LoadedRecipe
    folder: RunFolder
    model: Asked
    judge: Asked
    figures: str | None = None

    def searched(self, review: bool) -> Discovered:
        material = self._material()
        generations = self._search(material)
        finalists = [one.candidate for one in generations[-1].survivors] if generations else []
        passed = self._validated(finalists, material) if finalists else []
        kept = self._reviewed(passed, review)
        if kept is None:
            return Discovered(
                f"{len(passed)} candidates to review: edit {self.folder.path / REVIEW}, then run the same command again"
            )
        if kept:
            self._confirmed(kept, material.parts["test"])
        return self._finished(self._found(material, generations, finalists, kept))

    def given(self, candidates: Sequence[Candidate]) -> Discovered:
        material = self._material()
        # Nothing was selected on any of them, so that all prompts may be used.
        self._confirmed(candidates, material.everything())
        return self._finished(self._found(material, [], [], candidates))

    def _finished(self, found: Found) -> Discovered:
        result = discover_result(found)
        return Discovered(write_result(found, result, self.figures), result)

    def _make(self, stage: Stage, produce: Produce) -> None:
        run_stage(stage, produce, self.folder, self.loaded)
        self.folder.write_manifest(self.loaded.recipe.model_dump(mode="json"), list(STAGES))

    def _material(self) -> Material:
        stage = material_stage(self.loaded, self.model)
        self._make(stage, lambda out: make_material(self.loaded, reward_of(self.model), out).model_dump())
        return read_material(self.folder.stage(stage.name))

    def _search(self, material: Material) -> list[Generation]:
        stage = search_stage(self.loaded, self.folder, self.judge)
        self._make(stage, lambda out: self._make_search(material, out))
        return saved_generations(self.folder.stage(stage.name))

    def _make_search(self, material: Material, out: Path) -> dict[str, Any]:
        train = material.parts["train"]
        parts = Parts(
            proposer_of(self.loaded),
            mutator_of(self.loaded),
            grouper_of(self.loaded, train),
            rewriters(self.loaded)[0],
            reward_of(self.model),
            judge_of(self.judge),
        )

        repairs: Mapping[str, int] = {}

        def saved(generation: Generation) -> None:
            nonlocal repairs
            # First: a generation that is made again after a kill writes its repairs again, too.
            repairs = save_repairs(parts.grouper, repairs, generation.index, out)
            save_generation(generation, out)
            say(f"  {_told(generation)}")

        finished = saved_generations(out)
        if finished:
            say(f"  {len(finished)} generations were finished before")
        generations = search(train, parts, search_settings(self.loaded), finished, saved)
        return {
            "generations": len(generations),
            "candidates": len({one.candidate.id for each in generations for one in each.standings}),
            "survivors": len(generations[-1].survivors) if generations else 0,
        }

    def _validated(self, finalists: Sequence[Candidate], material: Material) -> list[Candidate]:
        stage = held_out_stage("validate", self.loaded, self.folder, self.judge, finalists)

        def produce(out: Path) -> dict[str, Any]:
            originals = validation_originals(material.parts["validation"], self.loaded)
            return run_validation(self._rewritten(finalists, originals), self.loaded, out)

        self._make(stage, produce)
        results = self._validations()
        return [one for one in finalists if results[one.id].passed]

    def _validations(self) -> dict[str, Validation]:
        """By candidate `id`."""
        found = read_result(ValidationResult, self.folder.stage("validate"))
        return {one.candidate: one for one in found.results}

    def _reviewed(self, passed: Sequence[Candidate], review: bool) -> list[Candidate] | None:
        """What goes on to the test; None where a person has to look first."""
        path = self.folder.path / REVIEW
        kept = reviewed(path, passed)
        if kept is not None:
            say(f"\nreview: {len(kept)} of {len(passed)} kept ({path})")
            return kept
        if not review or not passed:
            return list(passed)
        results = self._validations()
        write_review(path, passed, results)
        return None

    def _confirmed(self, candidates: Sequence[Candidate], samples: Sequence[PromptSamples]) -> None:
        stage = held_out_stage("confirm", self.loaded, self.folder, self.judge, candidates)

        def produce(out: Path) -> dict[str, Any]:
            originals = held_out_originals(samples, self.loaded)
            return run_confirmation(self._rewritten(candidates, originals), self.loaded, out)

        self._make(stage, produce)
        results = read_result(ConfirmationResult, self.folder.stage("confirm")).results
        confirmed = {one.candidate for one in results if one.confirmed}
        looked_at = [one for one in candidates if one.id in confirmed or one.origin == "given"]
        pairs = pairs_stage(self.loaded, self.folder, looked_at)
        self._make(pairs, lambda out: run_pairs(self.loaded, self.folder, looked_at, out))

    def _rewritten(self, candidates: Sequence[Candidate], originals: Sequence[Original]) -> HeldOut:
        return rewrite_all(
            candidates,
            originals,
            rewriters(self.loaded),
            reward_of(self.model),
            judge_of(self.judge),
            search_settings(self.loaded).directions,
        )

    def _found(
        self,
        material: Material,
        generations: Sequence[Generation],
        finalists: Sequence[Candidate],
        tested: Sequence[Candidate],
    ) -> Found:
        return Found(
            self.loaded,
            self.folder,
            self.model,
            self.judge,
            material,
            tuple(generations),
            tuple(finalists),
            tuple(tested),
        )


def _told(generation: Generation) -> str:
    survivors = generation.survivors
    best = f", the best {survivors[0].reward:+.3f}: {short(survivors[0].candidate.attribute)}" if survivors else ""
    return (
        f"generation {generation.index + 1}: {len(generation.standings)} candidates on {generation.n_prompts} prompts, "
        f"{len(survivors)} kept{best}"
    )
