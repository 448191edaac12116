"""Stage `dose`: the dose of the adapter, chosen by people's votes (or for a tie) on contrasts other than those it is
measured on."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import compress
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import JsonValue
from pydantic_core import to_jsonable_python

from cda.arrays import FloatArray
from cda.auditing.audit import audit_rewriting, audit_texts, measured_settings
from cda.auditing.groups import (
    Group,
    contrast_comparisons,
    make_groups,
    pair_comparisons,
    people_in,
    people_of,
    read_margins,
)
from cda.auditing.texts import load_audit_texts
from cda.biases import Bias, load_bias
from cda.counterfactuals.label import PAIRS
from cda.counterfactuals.synthesize import MIX
from cda.dosing.choice import MIN_PROMPTS, DoseCurve
from cda.dosing.held_out import cross_validated_doses
from cda.embedded.model import EMBEDDED
from cda.errors import DataError, ModelError
from cda.files.jsonl import write_json
from cda.finetuning.applied import TEXTS, asked_subjects, check_subject
from cda.finetuning.train import ADAPTER, Training
from cda.jobs.perform import Job, Made, ResultsFolder, perform
from cda.launch import say, unsaid
from cda.models.config import ModelSpec
from cda.models.load import RewardModel, free_memory, load_reward_model
from cda.recipe.load import LoadedRecipe
from cda.recipe.schema import Recipe
from cda.recipe.sections import AuditSection, DoseSection
from cda.records import Contrast, Exclusions, Pair, TieRule, prompt_id
from cda.resources.artifacts import read_labelled, read_training, shown_target
from cda.resources.llm_access import Step
from cda.resources.model_scorers import classifier_scores
from cda.resources.named_scorer import ScorerSettings, Subject, scorer_settings, texts_of, told_cached
from cda.resources.scorers import open_scorer, planned_verdicts
from cda.resources.sources import audit_inputs, model_spec
from cda.results.base import save
from cda.results.dose import Aim, ByMeasure, DoseMethod, DoseResult, HeldOutBias
from cda.run import RunFolder, Stage
from cda.scorers.compared import Comparison, Rewards, Text, text_id
from cda.scorers.posthoc import bias_direction, feature_correction, head_inputs, head_scores
from cda.stats.draws import Stream, drawn, generator
from cda.stats.drift import measured
from cda.stats.verdict import TOLERATED_LOSS
from cda.stats.votes import Majority, assumed_ties
from cda.training.dose import DosedModel

Curve = Mapping[float, Rewards]
MIXING = "mixing"
UNREAD = "a text too long, or both sides the same after cutting"
METHODS = ("dose", MIXING, "direction", "features")
"""The adapter at a dose; scores before and after mixed; a direction of the hidden states, or measured features, taken off."""


def dose_result(
    curves: Mapping[str, Curve],
    contrasts: Sequence[Contrast],
    biases: Sequence[Bias],
    pairs: Sequence[Pair],
    ties: TieRule,
    settings: DoseSection,
    seed: int,
    aim: Aim = "votes",
    *,
    too_few: Mapping[str, int],
    missing: Mapping[str, str],
    fitted: Mapping[str, dict[str, JsonValue]],
    available_quality: int,
    mixed: tuple[str, str] | None = None,
) -> DoseResult:
    """Everything that a report shows of the dose; DataError for too few prompts to choose it, or no readable quality pair.

    `curves` are by method: rewards at every dose; with `mixed`, the names of two scorers, those of `mixing` at 0 and 1 alone. The
    other methods are compared with `dose`. Contrasts of other biases than these guard the choice (`best_doses`). If a tie is the aim, the gap is |skew − 50%|, and miscalibration is meaningless.
    `too_few`: prompts of each bias that has too few to help choose. `missing`: reason for each method that was not tried.
    `fitted`: fitted values of the methods without training. `available_quality`: quality pairs before sampling.
    """
    taught = {bias.name: bias for bias in biases}
    present = [name for name in taught if any(contrast.bias == name for contrast in contrasts)]
    others = {contrast.bias for contrast in contrasts} - set(taught)
    named = taught | {name: load_bias(name) for name in others}
    measured = {}
    for name, curve in curves.items():
        scorings = {f"{dose:g}": rewards for dose, rewards in curve.items()}
        groups = make_groups(contrasts, named, present, scorings, may_lack=others)
        groups = [group for group in groups if group.is_target or people_of(group, ties)]
        measured[name] = _measured(curve, groups, pairs, ties, aim)
    own = next(iter(measured.values()))
    measured[MIXING] = own.mixed(settings.doses if mixed else own.doses)
    methods = {
        name: cross_validated_doses(
            measured[name], generator(seed, Stream.INTERVALS), settings.repeats, settings.max_quality_loss
        )
        for name in METHODS
        if name in measured
    }
    n_unread = len(pairs) - len(own.quality_prompt_ids)
    return DoseResult(
        doses=measured[MIXING].doses,
        biases=tuple(name for name in own.names if name not in own.guards),
        guards=own.guards,
        aim=aim,
        repeats=settings.repeats,
        max_quality_loss=settings.max_quality_loss,
        chosen=next(iter(methods.values())).chosen,
        methods=methods,
        losses=losses_of(methods, aim, own.guards),
        quality_pairs=len(own.quality_prompt_ids),
        left_out={
            "contrasts": dict(own.people.exclusions.reasons),
            "quality pairs": {UNREAD: n_unread} if n_unread else {},
        },
        seed=seed,
        too_few=dict(too_few),
        missing=dict(missing),
        fitted=dict(fitted),
        available_quality=available_quality,
        mixed=mixed,
    )


def losses_of(methods: Mapping[str, DoseMethod], aim: Aim = "votes", guards: Sequence[str] = ()) -> dict[str, float]:
    """What each way leaves, miscalibration + gap (the gap alone, if the aim is a tie), held out, in the mean over taught biases, among
    those that keep quality and move no guard away from people.

    Fixed doses 0 (no training) and 1 (plain CDA) are measured on the same halves as the chosen ones: a gap on half of the votes
    is larger by chance than on all of them. Quality is kept if no more than the allowed share is lost in the held-out estimate.
    """
    own = next(iter(methods.values()))
    ways: dict[str, tuple[DoseMethod, Callable[[HeldOutBias], ByMeasure], bool]] = {
        **{name: (method, lambda each: each.people, method.quality_kept) for name, method in methods.items()},
        "no training": (own, lambda each: each.base, True),
        "plain CDA": (own, lambda each: each.plain, own.plain_keeps_quality),
    }
    losses = {}
    for name, (method, at, keeps_quality) in ways.items():
        held = {bias: at(each) for bias, each in method.held_out.items()}
        missed = {bias: each["miscalibration"].value for bias, each in held.items()}
        away = (missed[bias] - method.held_out[bias].base["miscalibration"].value for bias in guards)
        if keeps_quality and all(moved <= TOLERATED_LOSS for moved in away):
            left = (
                each["gap"].value + missed[bias] * (aim != "tie") for bias, each in held.items() if bias not in guards
            )
            losses[name] = float(np.mean(list(left)))
    return losses


def _measured(curve: Curve, groups: Sequence[Group], pairs: Sequence[Pair], ties: TieRule, aim: Aim) -> DoseCurve:
    """Margins and majorities of all biases; the majorities' exclusions count the contrasts left out."""
    people = joint_majority(groups, ties, aim)
    reasons = Counter({UNREAD: sum(group.n_unread for group in groups)}) + Counter(people.exclusions.reasons)
    people = replace(people, exclusions=Exclusions(len(people.used), dict(sorted(reasons.items()))))
    margins = [np.array([group.margins[f"{dose:g}"] for dose in curve]) for group in groups]
    quality, quality_ids = _quality(pairs, curve)
    return DoseCurve(
        tuple(curve),
        np.concatenate(margins, axis=1),
        people,
        [name for group in groups for name in group.prompt_ids],
        quality,
        quality_ids,
        tuple(group.bias.name for group in groups for _ in range(len(group))),
        tuple(sorted(group.bias.name for group in groups if not group.is_target)),
    )


def joint_majority(groups: Sequence[Group], ties: TieRule, aim: Aim = "votes") -> Majority:
    """The majorities of all groups, one after another; DataError: a group has none."""
    found = []
    for group in groups:
        people = None if aim == "tie" and group.is_target else people_of(group, ties)
        if people is None and aim == "votes":
            raise DataError(f"{group.bias.name}: no contrast that could be scored has a majority for one side")
        found.append(assumed_ties(len(group)) if people is None else people.majority)
    reasons = Counter[str]()
    for majority in found:
        reasons.update(majority.exclusions.reasons)
    used = np.concatenate([majority.used for majority in found])
    target = np.concatenate([majority.target for majority in found])
    return Majority(target, used, ties, Exclusions(len(used), dict(reasons)))


def _quality(pairs: Sequence[Pair], curve: Curve) -> tuple[FloatArray | None, tuple[str, ...]]:
    """score(chosen) − score(rejected) at each dose, shape (k, m), of the pairs that have a score at every dose.
    DataError: there are pairs, and none can be read: a dose would be chosen with no limit on the quality it loses.
    """
    if not pairs:
        return None, ()
    margins, ids, _ = read_margins({f"{dose:g}": rewards for dose, rewards in curve.items()}, pair_comparisons(pairs))
    if not ids:
        raise DataError(
            f"none of {len(pairs)} quality pairs can be read at every dose ({UNREAD}), and without one a dose is chosen with "
            "no limit on quality loss. Raise model.max_length_tokens, give shorter pairs (audit.quality), or none at all "
            "(audit.quality=null)"
        )
    return np.array(list(margins.values())), tuple(ids)


DOSE_FILE = DoseResult.made_by.file
_COUNTED = {"votes": "people's majorities", "tie": "contrasts"}


def stage(loaded: LoadedRecipe, run_folder: RunFolder, training: Training) -> Stage:
    """The stage with the inputs of a training's dose: the training, and all data that the audit measures it on."""
    settings, inputs = measured_settings(loaded)
    settings["dose"] = loaded.recipe.dose.model_dump(mode="json", exclude={"on"})
    settings["schema_version"] = DoseResult.current_schema()
    return Stage(training.stage("dose"), settings, inputs | {"train": run_folder.output_of(training.stage("train"))})


def chosen(loaded: LoadedRecipe, run_folder: RunFolder, training: Training) -> float | None:
    """The dose that was chosen for this very recipe and training; None if none was."""
    if loaded.recipe.dose.on == "no" or not run_folder.is_done(stage(loaded, run_folder, training)):
        return None
    return float(run_folder.record(training.stage("dose")).counts["chosen"])


def is_wanted(loaded: LoadedRecipe) -> bool:
    """True if the recipe asks for a dose, teaches ties, or people voted on enough contrasts of its biases."""
    recipe = loaded.recipe
    if not may_be_wanted(recipe):
        return False
    if recipe.dose.on == "yes":
        return True
    try:
        check_counts(loaded)
    except DataError as error:
        if recipe.aims_at_ties:
            say(f"\ndose\n  left out: {error}")
        return False
    return True


def may_be_wanted(recipe: Recipe) -> bool:
    """False if no dose is asked for, or none is chosen by default whatever the contrasts are. A target that votes set does a dose's
    work: one chosen by votes on top of it came out worse (evals/results/real_debias.json)."""
    if recipe.dose.on != "auto":
        return recipe.dose.on == "yes"
    return not recipe.votes_teach and (recipe.aims_at_ties or may_have_votes(recipe.audit))


def may_have_votes(audit: AuditSection) -> bool:
    """False if the contrasts are the embedded ones, and no file has votes on them."""
    return audit.contrasts not in (None, EMBEDDED) or audit.votes is not None


@dataclass(frozen=True, slots=True)
class Material:
    """What a correction is chosen by: its aim, the contrasts of biases that have enough, prompts with such contrasts by bias, quality
    pairs, and the number of these before a sample was drawn. `guards`: prompts of each bias that people voted on and that is not
    taught; its contrasts are there too if they are enough."""

    aim: Aim
    contrasts: Sequence[Contrast]
    prompts: Mapping[str, int]
    pairs: Sequence[Pair]
    available: int
    guards: Mapping[str, int]

    @classmethod
    def of(
        cls,
        loaded: LoadedRecipe,
        contrasts: Sequence[Contrast],
        pairs: Sequence[Pair],
        aim: Literal["votes"] | None = None,
    ) -> Material:
        """The part of some contrasts and pairs that has a say, for the recipe's aim or this one."""
        recipe = loaded.recipe
        ties_taught = aim is None and recipe.aims_at_ties and not loaded.only_audit
        found, kept, prompts = aimed(
            contrasts, loaded.biases, aim or recipe.dose.aim, recipe.audit.ties, ties_taught=ties_taught
        )
        others = {} if loaded.only_audit else _others_voted(contrasts, loaded.biases)
        guards = {name: _n_prompts(_with_majority(own, recipe.audit.ties)) for name, own in others.items()}
        kept += _enough(others, guards) if kept else []
        return cls(found, kept, prompts, drawn(pairs, recipe.dose.max_quality, recipe.seed), len(pairs), guards)

    @classmethod
    def planned(cls, loaded: LoadedRecipe, aim: Literal["votes"] | None = None) -> Material:
        """That of the texts that exist before anything is spent."""
        recipe, inputs = loaded.recipe, audit_inputs(loaded)
        contrasts, quality = inputs.drawn_contrasts(recipe.seed), inputs.quality()
        return cls.of(
            loaded, contrasts, drawn(quality.pairs if quality else (), recipe.audit.max_quality, recipe.seed), aim
        )

    @classmethod
    def audited(cls, loaded: LoadedRecipe) -> Material:
        """That of the texts that the audit measures on; DataError as of `check`."""
        texts = audit_texts(loaded)
        own = cls.of(loaded, texts.contrasts, texts.pairs)
        own.check()
        for name, n in own.too_few.items():
            counted = _COUNTED["votes" if name in own.guards else own.aim]
            say(
                f"  {name}: {counted} on {n} prompts, too few to have a say in the dose (at least {MIN_PROMPTS} needed)"
            )
        return own

    @property
    def n_quality(self) -> int:
        """Prompts with quality pairs."""
        return _n_prompts(self.pairs)

    def check(self, doing: str = "choosing a dose", prompts: Mapping[str, int] | None = None) -> None:
        """Raise DataError for too few contrasts or quality pairs to choose by, with the number that is needed."""
        prompts = self.prompts if prompts is None else prompts
        if prompts and max(prompts.values()) < MIN_PROMPTS:
            counts = ", ".join(f"{name}: {_COUNTED[self.aim]} on {n} prompts" for name, n in prompts.items())
            voted = (
                "contrasts with votes: `cda study export CONTRASTS study` writes what people fill in (`cda texts FOLDER` writes contrasts, "
                "if you have none), `cda study import study ANSWERS` their votes; then audit.contrasts=CONTRASTS audit.votes=VOTES"
            )
            raise DataError(
                f"{counts}, and {doing} needs {MIN_PROMPTS} at least of one bias (half of them choose, the others measure). "
                f"Give {voted if self.aim == 'votes' else 'more (audit.contrasts)'}"
            )
        if 0 < self.n_quality < MIN_PROMPTS:
            raise DataError(
                f"quality pairs on {self.n_quality} prompts, and a limit on quality loss needs {MIN_PROMPTS} at least. Give more "
                "(audit.quality, audit.max_quality, dose.max_quality), or none at all (audit.quality=null)"
            )

    @property
    def too_few(self) -> dict[str, int]:
        return {name: n for name, n in {**self.prompts, **self.guards}.items() if n < MIN_PROMPTS}

    @property
    def texts(self) -> list[Text]:
        """All of their texts."""
        return list(dict.fromkeys(texts_of([*contrast_comparisons(self.contrasts), *pair_comparisons(self.pairs)])))

    def result(self, loaded: LoadedRecipe, curves: Mapping[str, Curve], **more: Any) -> DoseResult:
        recipe = loaded.recipe
        return dose_result(
            curves, self.contrasts, loaded.biases, self.pairs, recipe.audit.ties, recipe.dose, recipe.seed, self.aim,
            too_few=self.too_few, available_quality=self.available, **more,
        )  # fmt: skip


def check_counts(loaded: LoadedRecipe) -> Material:
    """Count votes and quality pairs before anything is spent; DataError for too few to choose a dose by."""
    material = Material.planned(loaded)
    # A tie's contrasts may be made in the audit; their number is known then.
    material.check(prompts={name: n for name, n in material.prompts.items() if n or material.aim == "votes"})
    return material


def run(loaded: LoadedRecipe, run_folder: RunFolder, training: Training, folder: Path) -> dict[str, object]:
    """Score the curve, choose, write dose.json, and return counts. DataError: too few contrasts, or too few with a
    majority of people; or no quality pair can be read.
    """
    recipe, settings, material = loaded.recipe, loaded.recipe.dose, Material.audited(loaded)
    to_score = material.texts
    spec, adapter = model_spec(recipe.model), run_folder.stage(training.stage("train")) / ADAPTER
    curves = {"dose": dosed_rewards(spec, scorer_settings(loaded), adapter, settings.doses, to_score)}
    missing: dict[str, str] = {}
    fitted: dict[str, dict[str, JsonValue]] = {}
    if settings.baselines and training.is_first:  # of no training, so the same for every seed
        lessons = _lessons(run_folder, loaded.biases, settings.max_baseline_pairs, recipe.seed)
        removed, missing = removals(spec, lessons, to_score, settings.doses, recipe.score.batch_tokens)
        own = list(curves["dose"].values())
        for name, removal in removed.items():
            curves[name] = {dose: read_alike(rewards, own) for dose, rewards in removal.by_strength.items()}
            fitted[name] = removal.fitted
    result = material.result(loaded, curves, missing=missing, fitted=fitted)
    save(result, folder / DOSE_FILE)
    write_json(folder / TEXTS, [text_id(*text) for text in to_score])
    say(
        f"  dose {result.chosen:g} chosen {'by votes of people' if result.aim == 'votes' else 'for a tie, not by votes'}"
        + (
            f"; too much quality is lost at {', '.join(f'{at:g}' for at in barred)}"
            if (barred := result.own.barred)
            else ""
        )
    )
    counts = {"quality_pairs": result.quality_pairs, "left_out": result.left_out}
    prompts = dict(material.prompts)
    return {"chosen": result.chosen, "aim": result.aim, "prompts": prompts, **counts, "doses": list(settings.doses)}


def run_mixed(loaded: LoadedRecipe, after: str, figures: str | None = None) -> DoseResult:
    """Choose how far to go from one scorer's rewards to another's, margin(λ) = (1 − λ)·before + λ·after, by people's votes. RunError,
    ModelError: a scorer that cannot be used, or compares; DataError as of `run`."""
    subjects, settings = asked_subjects(loaded.recipe.model, against=after), scorer_settings(loaded)
    for subject in subjects:
        check_subject(subject, settings, singly=True)
    audit_inputs(loaded).check_opinions()
    counts = check_counts(loaded)

    def plan() -> list[str]:
        doses = loaded.recipe.dose.doses
        return [
            *(subject.planned for subject in subjects),
            f"votes       prompts with a majority: {', '.join(f'{name} {n}' for name, n in counts.prompts.items())}",
            f"quality     {f'pairs of {counts.n_quality} prompts' if counts.pairs else 'none'}",
            f"chooses     one of {len(doses)} doses from {doses[0]:g} to {doses[-1]:g}",
        ]

    def work(_: Path) -> Made[DoseResult]:
        material = Material.audited(loaded)
        scorers = [open_scorer(subject, settings, settings.shared_folder) for subject in subjects]
        curve = {float(dose): scorer.score(material.texts)[0] for dose, scorer in enumerate(scorers)}
        names = (shown_target(subjects[0].name), shown_target(subjects[1].name))
        result = material.result(loaded, {MIXING: curve}, missing={}, fitted={}, mixed=names)
        return Made(result)

    costs = partial(calls_on_votes, loaded, subjects)
    place = ResultsFolder(loaded.recipe.run_path, DoseResult.made_by)
    return perform(Job(plan, work, place, costs, ("name",)), loaded, figures)


def calls_on_votes(loaded: LoadedRecipe, subjects: Sequence[Subject]) -> list[Step]:
    """The calls of LLMs among the subjects on contrasts with votes and quality pairs; without one, not even the texts are drawn."""
    if not any(subject.section.kind.asks_llm for subject in subjects):
        return []
    with unsaid():
        texts = load_audit_texts(audit_inputs(loaded), audit_rewriting(loaded).planning(), only_audit=loaded.only_audit)
    compared = [*contrast_comparisons(voted_in(texts.contrasts)), *pair_comparisons(texts.pairs)]
    return planned_verdicts(subjects, scorer_settings(loaded), compared)


def voted_in(contrasts: Sequence[Contrast]) -> list[Contrast]:
    """The contrasts that people voted on."""
    return [contrast for contrast in contrasts if contrast.votes or contrast.preferred]


def aimed(
    contrasts: Sequence[Contrast],
    biases: Sequence[Bias],
    aim: Literal["auto", "votes", "tie"],
    rule: TieRule,
    *,
    ties_taught: bool,
) -> tuple[Aim, list[Contrast], dict[str, int]]:
    """The aim of the dose, the contrasts that choose it, and for each bias the number of prompts that have them; `rule`
    is for people's ties. With `ties_taught`, a tie is the aim if too few people voted.
    """
    every = {bias.name: [contrast for contrast in contrasts if contrast.bias == bias.name] for bias in biases}
    if aim != "tie":
        voted = {name: voted_in(own) for name, own in every.items()}
        prompts = {name: _n_prompts(_with_majority(own, rule)) for name, own in voted.items()}
        kept = _enough(voted, prompts)
        if kept or not ties_taught:
            return "votes", kept, prompts
    prompts = {name: _n_prompts(own) for name, own in every.items()}
    return "tie", _enough(every, prompts), prompts


def _enough(by_bias: Mapping[str, Sequence[Contrast]], prompts: Mapping[str, int]) -> list[Contrast]:
    """Contrasts of the biases that have some on enough prompts."""
    return [contrast for name, own in by_bias.items() for contrast in own if prompts[name] >= MIN_PROMPTS]


def _others_voted(contrasts: Sequence[Contrast], biases: Sequence[Bias]) -> dict[str, list[Contrast]]:
    """Contrasts that people voted on, of the biases that are not taught."""
    taught = {bias.name for bias in biases}
    found: dict[str, list[Contrast]] = {}
    for contrast in voted_in(contrasts):
        if contrast.bias not in taught:
            found.setdefault(contrast.bias, []).append(contrast)
    return found


def _with_majority(contrasts: Sequence[Contrast], rule: TieRule) -> list[Contrast]:
    people = people_in([each.votes for each in contrasts], [each.preferred for each in contrasts], rule)
    return [] if people is None else list(compress(contrasts, people.majority.used))


def _n_prompts(rows: Sequence[Contrast] | Sequence[Pair]) -> int:
    return len({prompt_id(row.prompt) for row in rows})


def _lessons(run_folder: RunFolder, biases: Sequence[Bias], most: int, seed: int) -> dict[str, list[Comparison]]:
    """Biased and unbiased side of training counterfactuals: a response and its rewrite, drawn for each bias."""
    originals = {row.pair.id: row.pair.rejected for row in read_labelled(run_folder.stage("label") / PAIRS)}
    lessons: dict[str, dict[Comparison, None]] = {bias.name: {} for bias in biases}
    for row in read_training(run_folder.stage("synthesize") / MIX):
        if row.bias in lessons and row.kind not in ("supplementary", "contrast"):
            unbiased = originals[row.source_id] if row.kind == "counterfactual" else row.pair.chosen
            lessons[row.bias][row.pair.prompt, row.pair.rejected, unbiased] = None
    return {name: drawn(list(sides), most, seed) for name, sides in lessons.items()}


@dataclass(frozen=True, slots=True)
class Removal:
    """A removal without training: rewards of the texts at each strength (0: the base model), and the fitted values."""

    by_strength: Mapping[float, Rewards]
    fitted: dict[str, JsonValue]


def dosed_rewards(
    spec: ModelSpec, settings: ScorerSettings, adapter: Path, doses: Sequence[float], texts: Sequence[Text]
) -> dict[float, Rewards]:
    """Rewards at each dose λ by the weights-space curve that is exported; earlier scores are taken from the cache. Dose
    0 is scored without the adapter and dose 1 with it as trained, so that the audit finds their scores.
    """

    def scored(reward_model: RewardModel, adapter: Path | None, dose: float, label: str) -> Rewards:
        scores = classifier_scores(reward_model, texts, settings, label, adapter=adapter, dose=dose)
        if scores.n_cached:
            say(f"{label}: {told_cached(scores.n_cached, len(scores.by_text))}")
        return scores

    rewards = {}
    if 0 in doses:
        base = load_reward_model(spec)
        rewards[0.0] = scored(base, None, 1.0, "  dose 0")
        del base
        free_memory()
    reward_model = load_reward_model(spec, adapter)
    dosed = DosedModel(reward_model)
    for dose in filter(None, doses):
        dosed.set(dose)
        rewards[dose] = scored(reward_model, adapter, dose, f"  dose {dose:g}")
    del reward_model, dosed
    free_memory()
    return rewards


def read_alike(rewards: Rewards, curve: Iterable[Rewards]) -> Rewards:
    """The same rewards, without those of texts that a curve of the same model has no reward of. A removal is computed
    from a model's states for every text; what the curve leaves out, because a text is too long or both sides are the
    same after the cut, must be left out here too, or two ways are measured on two sets.
    """
    of_curve = list(curve)
    unread = {name: math.nan for at_dose in of_curve for name, value in at_dose.by_text.items() if math.isnan(value)}
    read = {name: cut for at_dose in of_curve for name, cut in at_dose.read.items()}
    return replace(rewards, by_text={**rewards.by_text, **unread}, read=read)


def removals(
    spec: ModelSpec,
    lessons: Mapping[str, Sequence[Comparison]],
    texts: Sequence[Text],
    strengths: Sequence[float],
    batch_tokens: int | None,
) -> tuple[dict[str, Removal], dict[str, str]]:
    """Removals without training: measured features, and a direction of the hidden states, subtracted from the base
    model; by name, and the reason for each that could not be made.

    Both are fitted on the training counterfactuals (`lessons`, by bias: prompt, biased and unbiased side), and on none
    of the reported `texts`. Each bias has its own direction, since differences of several would cancel in their mean.
    """
    reward_model = load_reward_model(spec)
    pairs = [pair for own in lessons.values() for pair in own]
    prompts, responses = zip(*texts_of(pairs), *texts, strict=True)
    try:
        states = head_inputs(reward_model, prompts, responses, batch_tokens, "  base model")
    except (ModelError, DataError) as error:
        return {}, {"direction": str(error), "features": str(error)}
    n_taught = 2 * len(pairs)
    biased, plain, shown = states[:n_taught:2], states[1:n_taught:2], states[n_taught:]

    def rewarded(values: FloatArray) -> Rewards:
        return Rewards({text_id(*text): float(value) for text, value in zip(texts, values, strict=True)})

    def direction(model: RewardModel) -> Removal:
        basis = _directions(biased, plain, lessons)
        along = (shown @ basis) @ basis.T
        rewards = {strength: rewarded(head_scores(model, shown - strength * along)) for strength in strengths}
        return Removal(rewards, {"pairs": len(pairs), "directions": basis.shape[1], "hidden_size": len(basis)})

    def features(model: RewardModel) -> Removal:
        margins = head_scores(model, biased) - head_scores(model, plain)
        first, second = (measured(side) for side in (responses[:n_taught:2], responses[1:n_taught:2]))
        # A feature that does not hold for a text (NaN) is no difference, and nothing is taken off for it.
        differences = {name: np.nan_to_num(first[name] - second[name]) for name in first}
        fit = feature_correction(margins, differences, [prompt_id(prompt) for prompt, _, _ in pairs])
        base = head_scores(model, shown)
        of_texts = {name: np.nan_to_num(values) for name, values in measured([text for _, text in texts]).items()}
        rewards = {strength: rewarded(fit.corrected(base, of_texts, strength)) for strength in strengths}
        return Removal(rewards, dict(to_jsonable_python(fit)))

    removed: dict[str, Removal] = {}
    missing: dict[str, str] = {}
    for removal in (direction, features):
        try:
            removed[removal.__name__] = removal(reward_model)
        except DataError as error:
            missing[removal.__name__] = str(error)
    del reward_model
    free_memory()
    return removed, missing


def _directions(biased: FloatArray, plain: FloatArray, lessons: Mapping[str, Sequence[Comparison]]) -> FloatArray:
    """An orthonormal basis of the biases' directions, shape (hidden size, biases)."""
    ends = np.cumsum([len(own) for own in lessons.values()])[:-1]
    sides = zip(np.split(biased, ends), np.split(plain, ends), lessons.values(), strict=True)
    directions = [
        bias_direction(first, second, [prompt_id(prompt) for prompt, _, _ in own]) for first, second, own in sides
    ]
    return np.asarray(np.linalg.qr(np.column_stack(directions))[0], dtype=np.float64)
