"""`cda quality`: accuracy on sets of preferences by section, and the win rate of outputs over others, of one model, of two, or before
and after an adapter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, combinations, count, product
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from cda.arrays import FloatArray
from cda.auditing.shares import set_quality
from cda.benchmarks import quality_report as report
from cda.data.quality_sets import QualityItem, QualitySet, outputs_set
from cda.errors import DataError, RecipeError
from cda.finetuning.applied import asked_subjects, check_subject
from cda.jobs.perform import Job, Made, ResultsFolder, perform
from cda.launch import say
from cda.provenance import versions
from cda.recipe.load import LoadedRecipe
from cda.records import Exclusions, count_reasons, prompt_id
from cda.resources.artifacts import (
    prompt_row,
    shown_path,
    shown_target,
)
from cda.resources.named_scorer import NamedScorer, Subject, scorer_settings
from cda.resources.scorers import open_scorer, planned_verdicts
from cda.resources.sources import load_quality_source, source_fingerprint
from cda.results.base import Test
from cda.results.benchmarks import QualityResult, QualityScoring, SetQuality, WinRate
from cda.results.facts import Scorer
from cda.run import file_fingerprint
from cda.scorers.compared import Compared, Comparison, Rewards
from cda.stats.accuracy import Ranked, Rule, holm_over_sections, measure_accuracy
from cda.stats.draws import drawn
from cda.stats.estimators import share_of
from cda.stats.proportions import exact_change_test

SCORES, REWARDBENCH = "scores.jsonl", "rewardbench"
_SAME = "both sides read the same after the cut"
_NO_VERDICT, _NO_PARTNER = "no readable verdict", "its partner in Ties has no score"
_RULES: Mapping[str, Rule] = {"rewardbench-2": "best-of", "rm-bench": "styles"}


def measure_quality(
    loaded: LoadedRecipe,
    files: Sequence[str],
    adapter: str | None = None,
    against: str | None = None,
    dose: float | None = None,
    figures: str | None = None,
    over: str | None = None,
) -> QualityResult:
    """Check, score, measure and write; the result is alike in every process, the main one writes.
    `files` are files, saved folders or hub ids in any known format, or `embedded`; with `over`, one file of outputs, which are
    compared with those of `over`. CdaError: something cannot be used."""
    recipe = loaded.recipe
    split, columns = recipe.audit.quality_split, recipe.audit.quality_columns
    most = recipe.audit.max_quality
    if over is not None and len(files) != 1:
        raise RecipeError([f"--over {over}: give one file of outputs, found {len(files)}"])
    try:
        read = [
            outputs_set(file, over, split, columns) if over is not None else load_quality_source(file, split, columns)
            for file in files
        ]
    except DataError as error:
        raise DataError(str(error).replace("data.split=", "audit.quality_split=")) from None
    sets = _named_sets([_limited(each, most, recipe.seed) for each in read])
    # Now, before the files can change: scoring may take hours.
    contents = [source_fingerprint(file, "quality") for file in files]
    if over is not None:
        contents = [f"{contents[0]} over {source_fingerprint(over)}"]
    sources = dict(zip((each.name for each in sets), contents, strict=True))
    subjects = asked_subjects(recipe.model, adapter, against, dose)
    settings = scorer_settings(loaded)
    for subject in subjects:
        check_subject(subject, settings)
    comparisons = [comparison for each in sets for item in each.items for comparison in _comparisons(item)]

    def work(_: Path) -> Made[QualityResult]:
        for each in sets:
            say(f"{each.name}: {len(each.items)} items, read as {each.format}; {each.exclusions}")
        scorers = [open_scorer(subject, settings, settings.shared_folder) for subject in subjects]
        names = public_names(scorers)
        scored: dict[str, Compared] = {}
        scorings = []
        for scorer in scorers:
            compared, facts = scorer.compare(comparisons)
            scored[scorer.subject.label], name = compared, names[scorer.subject.label]
            scorings.append(quality_scoring(scorer, name, compared.unit, facts))
        measured, rows = _measured(sets, scored)
        result = QualityResult(
            scorings=tuple(scorings),
            n_tests=sum(len(each.sections) for each in measured if not each.win_rates) if len(scored) == 2 else 0,
            sets=tuple(measured),
            seed=recipe.seed,
            versions=versions(),
            files=sources,
        )
        rewardbench = report.rewardbench_files(result, rows) if over is None else {}
        return Made(result, {SCORES: rows, f"{REWARDBENCH}/": rewardbench})

    costs = partial(planned_verdicts, subjects, settings, comparisons)
    place = ResultsFolder(str(recipe.run.folder), QualityResult.made_by)
    return perform(Job(partial(_plan, sets, subjects), work, place, costs), loaded, figures)


def _limited(quality: QualitySet, most: int | None, seed: int) -> QualitySet:
    """At most so many items, drawn with the seed; the others are counted with the rows left out."""
    items = tuple(drawn(quality.items, most, seed))
    if len(items) == len(quality.items):
        return quality
    found = quality.exclusions
    reasons = {**found.reasons, "not drawn (--limit)": len(quality.items) - len(items)}
    return replace(quality, items=items, exclusions=Exclusions(found.seen, reasons))


def _plan(sets: Sequence[QualitySet], subjects: Sequence[Subject]) -> list[str]:
    """Steps of a dry run."""
    read = [f"items       {each.name}: {len(each.items)}, read as {each.format} ({each.exclusions})" for each in sets]
    return [*(subject.planned for subject in subjects), *read]


def _named_sets(sets: Sequence[QualitySet]) -> list[QualitySet]:
    """Sets under distinct names, also as folders: files of the same name are told apart by a number."""

    def as_folder(name: str) -> str:
        return name.replace("/", "-").casefold()  # some disks take upper for lower case

    named: dict[str, QualitySet] = {}
    for each in sets:
        names = chain([each.name], (f"{each.name}-{number}" for number in count(2)))
        name = next(name for name in names if as_folder(name) not in named)
        named[as_folder(name)] = replace(each, name=name)
    return list(named.values())


def public_names(scorers: Sequence[NamedScorer]) -> dict[str, str]:
    """Distinct names for readers and for RewardBench's folders, by label."""
    names: dict[str, str] = {}
    for scorer in scorers:
        name, subject = scorer.public_name, scorer.subject
        if subject.adapter is not None:
            name += "-after" if subject.dose == 1 else f"-after-dose-{subject.dose:g}"
        names[subject.label] = f"{name}-2" if name in names.values() else name
    return names


def quality_scoring(scorer: NamedScorer, model: str, unit: str, facts: Scorer) -> QualityScoring:
    """The scorer as it was asked: target, kind, and the settings that say which model it is. Files and folders go by name, and
    their content by a fingerprint: a result names no machine's path."""
    subject, adapter = scorer.subject, scorer.subject.adapter
    return QualityScoring(
        label=subject.label,
        model=model,
        unit=unit,
        target=shown_target(subject.name),
        target_kind=subject.section.kind.name,
        revision=subject.section.revision,
        adapter=None if adapter is None else shown_path(adapter),
        adapter_content=None if adapter is None else file_fingerprint(adapter),
        dose=None if adapter is None else subject.dose,
        facts=facts.model_copy(update={"name": model}),
        **scorer.identity(),
    )


def _comparisons(item: QualityItem) -> list[Comparison]:
    """Each chosen response over each rejected one; in Ties also the chosen ones among each other."""
    over = [(item.prompt, better, worse) for better, worse in product(item.chosen, item.rejected)]
    among = [(item.prompt, *two) for two in combinations(item.chosen, 2)] if item.tied else []
    return [*over, *among]


def _measured(
    sets: Sequence[QualitySet], scored: Mapping[str, Compared]
) -> tuple[list[SetQuality], list[dict[str, object]]]:
    half_ties = next(iter(scored.values())).unit != "reward"
    results, rows = [], []
    for each in sets:
        margins = {
            label: [compared.margins(_comparisons(item)) for item in each.items] for label, compared in scored.items()
        }
        unread = _unread(each, scored, margins)
        left_out = [why for why in unread if why]
        if len(left_out) == len(unread):
            reasons = "; ".join(f"{n} × {reason}" for reason, n in count_reasons(left_out).items())
            raise DataError(f"{each.source}: no item could be scored ({reasons})")
        kept = {
            label: [_ranked(item, own) for item, own, why in zip(each.items, by_item, unread, strict=True) if not why]
            for label, by_item in margins.items()
        }
        of_outputs = each.format == "outputs"
        rule = _RULES.get(each.format, "pair")
        found = set_quality(each, measure_accuracy(kept, rule, each.weights, half_ties or of_outputs), left_out)
        if of_outputs:
            rates = {
                label: win_rate([item.over[0, 0] for item in own], [item.prompt_id for item in own])
                for label, own in kept.items()
            }
            found = found.model_copy(update={"win_rates": rates})
        results.append(found)
        for at, item in enumerate(each.items):
            own = {label: by_item[at] for label, by_item in margins.items()}
            rows.append({"set": each.name} | _score_row(item, scored, own, unread[at]))
    return holm_over_sections(results), rows


def win_rate(margins: ArrayLike, prompt_ids: Sequence[str]) -> WinRate:
    """Win, tie and loss shares by the sign of margins, shape (n,), of first texts over second ones. Intervals are 95%, clustered by
    prompt if prompts repeat. A judge's preference for length is not corrected."""
    values, ids = np.asarray(margins, dtype=np.float64), list(prompt_ids)
    won, lost = values > 0, values < 0
    # With one row per prompt this is the sign test; else the signs of whole prompts' wins minus losses are flipped.
    method = "exact sign test" if len(set(ids)) == len(ids) else "exact sign-flip over prompts"
    return WinRate(
        wins=share_of(won, ids),
        ties=share_of(values == 0, ids),
        losses=share_of(lost, ids),
        test=Test(p_value=exact_change_test(lost, won, ids).p_value, method=method),
    )


def _unread(
    each: QualitySet, scored: Mapping[str, Compared], margins: Mapping[str, Sequence[FloatArray]]
) -> list[str | None]:
    """Reason for which each item is left out of all scorings; None if it is not."""
    reasons = [
        next(filter(None, (_why(item, margins[label][at], compared) for label, compared in scored.items())), None)
        for at, item in enumerate(each.items)
    ]
    numbers = {item.tied[1] for item, why in zip(each.items, reasons, strict=True) if item.tied and why}
    return [
        _NO_PARTNER if item.tied and item.tied[1] in numbers and not why else why
        for item, why in zip(each.items, reasons, strict=True)
    ]


def _why(item: QualityItem, margins: FloatArray, compared: Compared) -> str | None:
    """Reason for a comparison without a margin, also of one among the right answers of Ties: their spread needs it."""
    if np.isfinite(margins).all():
        return None
    if not isinstance(compared, Rewards):
        return _NO_VERDICT
    without = [_reward(compared, item, text) is None for text in (*item.chosen, *item.rejected)]
    return f"a text is {compared.why_dropped}" if any(without) else _SAME


def _reward(rewards: Rewards, item: QualityItem, text: str) -> float | None:
    reward = float(rewards.of(item.prompt, text))
    return reward if np.isfinite(reward) else None


def _ranked(item: QualityItem, margins: FloatArray) -> Ranked:
    n_over = len(item.chosen) * len(item.rejected)
    over = margins[:n_over].reshape(len(item.chosen), len(item.rejected))
    spread = float(np.abs(margins[n_over:]).max(initial=0.0))
    return Ranked(prompt_id(item.prompt), item.subset, item.section, over, spread, item.tied)


def _score_row(
    item: QualityItem, scored: Mapping[str, Compared], margins: Mapping[str, FloatArray], left_out: str | None
) -> dict[str, object]:
    row: dict[str, object] = {
        "row": item.row, "id": item.name, "subset": item.subset, "section": item.section,
        "used": left_out is None, "left_out": left_out,
        "prompt": prompt_row(item.prompt), "chosen": list(item.chosen), "rejected": list(item.rejected),
    }  # fmt: skip
    for label, compared in scored.items():
        if isinstance(compared, Rewards):
            sides = {"chosen": item.chosen, "rejected": item.rejected}
            row[label] = {side: [_reward(compared, item, text) for text in texts] for side, texts in sides.items()}
        else:
            row[label] = {"margins": [float(x) if np.isfinite(x) else None for x in margins[label]]}
    return row
