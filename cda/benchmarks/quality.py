"""`cda quality`: accuracy on sets of preferences by section, and the win rate of outputs over others, of one model, of two, or before
and after an adapter; its page, and RewardBench's own files."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, combinations, product
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from cda.arrays import FloatArray
from cda.auditing.shares import set_quality
from cda.benchmarks.quality_screen import quality_glance, quality_headline
from cda.data.quality_sets import QualityItem, QualitySet, outputs_set
from cda.errors import DataError, RecipeError
from cda.files.paths import as_part
from cda.finetuning.applied import asked_subjects, check_subject
from cda.jobs.perform import Job, Made, ResultsFolder, perform
from cda.launch import say
from cda.provenance import versions
from cda.recipe.load import LoadedRecipe
from cda.records import PERCENT, Exclusions, count_reasons, prompt_id
from cda.report.document import Document, how_made, meaning
from cda.report.next_step import after_quality
from cda.report.numbers import count, few_prompts, p_equals, share
from cda.report.page import Entry, Headline, ReportSection
from cda.report.plots import Plot, Scale, levels_plot, named
from cda.report.scoring import (
    FLAGS,
    FORMATS,
    MEANINGS,
    accuracy,
    accuracy_of,
    fell,
    flag,
    model_label,
    scoring_sentences,
    set_notes,
    set_tables,
    tenth_points,
)
from cda.resources.artifacts import (
    as_given,
    prompt_row,
    shown_path,
    shown_target,
)
from cda.resources.named_scorer import NamedScorer, Subject, scorer_settings
from cda.resources.scorers import open_scorer, planned_verdicts
from cda.resources.sources import load_quality_source, source_fingerprint
from cda.results.base import Test
from cda.results.benchmarks import QualityResult, QualityScoring, SetQuality, WinRate
from cda.results.facts import RewardModelFacts, Scorer
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
        rewardbench = rewardbench_files(result, rows) if over is None else {}
        given = as_given(*files, *(each for subject in subjects for each in (subject.name, subject.adapter)))
        return Made(result, {SCORES: rows, f"{REWARDBENCH}/": rewardbench}, names=given)

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
        names = chain([each.name], (f"{each.name}-{number}" for number in itertools.count(2)))
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


def quality_document(result: QualityResult) -> Document:
    """Sections and overall of every set, or the win rate of outputs; flags and their meaning."""
    models = " and ".join(dict.fromkeys(map(model_label, result.scorings)))
    return Document(
        f"Quality of {models}", "", tuple(_headlines(result)), tuple(_sections(result)), headline=quality_headline(result),
        glance=quality_glance(result), next=after_quality(result),
    )  # fmt: skip


ScoreRow = Mapping[str, Any]
"""A row of scores.jsonl."""


def rewardbench_files(result: QualityResult, rows: Sequence[ScoreRow]) -> dict[str, object]:
    """RewardBench's result files: path below their folder to a JSON object, or to a list of JSON lines.

    Shapes as RewardBench's scripts write them: `eval-set/ORG/NAME.json` (model, model_type, chat_template and an accuracy
    for each subset: what the leaderboard reads), `eval-set-scores/ORG/NAME.json` (columns, with the scores of each pair), and
    of its command line `ORG/NAME.json` and `ORG/NAME_outputs.jsonl`. Texts stand as messages, before any chat template.
    """
    files: dict[str, object] = {}
    for each in result.sets:
        own = [row for row in rows if row["set"] == each.name and row["used"]]
        for scoring in result.scorings:
            label, model = scoring.label, scoring.model
            if each.format == "rm-bench" or not all("chosen" in row[label] for row in own):
                continue  # another benchmark's three by three, or a judge that scores no single text
            form = scoring.facts.form if isinstance(scoring.facts, RewardModelFacts) else None
            template = "tokenizer" if form == "chat template" else form
            head = {"model": model, "model_type": "Seq. Classifier" if form else "Custom", "chat_template": template}
            folder, place = as_part(each.name), "/".join(map(as_part, model.split("/")))
            subsets = {group.name: accuracy_of(group, label).value for group in each.subsets}
            best_of = each.format == "rewardbench-2"
            outputs = [_best_of_row(row, label) if best_of else _output_row(row, label) for row in own]
            if each.format in ("rewardbench", "rewardbench-2"):
                columns = {
                    name: [row[name] for row in outputs] for name in (_BEST_OF_COLUMNS if best_of else _PAIR_COLUMNS)
                }
                files[f"{folder}/eval-set/{place}.json"] = head | subsets
                files[f"{folder}/eval-set-scores/{place}.json"] = head | columns
            if not best_of:
                files[f"{folder}/{place}.json"] = {
                    "accuracy": sum(row["results"] for row in outputs) / len(outputs), "num_prompts": len(outputs),
                    "model": model, "ref_model": None, "tokenizer": model, "chat_template": template, "extra_results": subsets,
                }  # fmt: skip
                files[f"{folder}/{place}_outputs.jsonl"] = outputs
    return files


_PAIR_COLUMNS = ("text_chosen", "text_rejected", "results", "subset", "id", "scores_chosen", "scores_rejected")
_BEST_OF_COLUMNS = ("text", "scores", "results", "subset", "id", "num_correct")


def _output_row(row: ScoreRow, label: str) -> dict[str, Any]:
    chosen, rejected = row[label]["chosen"][0], row[label]["rejected"][0]
    return {
        "prompt": row["prompt"], "results": int(chosen > rejected), "scores_chosen": chosen, "scores_rejected": rejected,
        "text_chosen": _conversation(row, row["chosen"][0]), "text_rejected": _conversation(row, row["rejected"][0]),
        "subset": row["subset"], "id": _own_id(row),
    }  # fmt: skip


def _best_of_row(row: ScoreRow, label: str) -> dict[str, Any]:
    """A row of RewardBench 2: right answers first; Ties have no result of single prompts."""
    chosen, rejected = row[label]["chosen"], row[label]["rejected"]
    scores = [*chosen, *rejected]
    share = chosen.count(max(scores)) / scores.count(max(scores))
    return {
        "text": [_conversation(row, text) for text in [*row["chosen"], *row["rejected"]]], "scores": scores,
        "results": None if row["subset"].lower() == "ties" else share,
        "subset": row["subset"], "id": _own_id(row), "num_correct": len(chosen),
    }  # fmt: skip


def _conversation(row: ScoreRow, response: str) -> list[dict[str, str]]:
    return [*row["prompt"], {"role": "assistant", "content": response}]


def _own_id(row: ScoreRow) -> int | str:
    name = str(row["id"])
    return int(name) if name.isdecimal() else name


def quality_plot(each: SetQuality, place: int) -> Plot | None:
    """Accuracy of one set by section; `place` is its number on the page, for the anchor."""
    rows = ((f"{group.name} ({flag(group)})" if fell(group) else group.name, group) for group in each.shown)
    marked = "; marked where it falls by more than 1 point" if len(each.labels) > 1 else ""
    title = f"{named(each.name)}: accuracy by section, with {PERCENT} intervals{marked}"
    return levels_plot(f"accuracy-{place}", title, rows, "accuracy", each.labels, Scale("accuracy (%)", is_share=True))


_TERMS = (
    Entry("accuracy", "items with the right answer on top / items", "By each benchmark's own rule, given with its numbers."),
    Entry("± 1 SE", "standard error by whole prompts", f"What papers draw as bars; a {PERCENT} interval reaches about twice as far."),
)  # fmt: skip
_CHANGE_TERMS = (
    Entry("paired change", "second scoring − first, on the same items", "Its interval allows for items that both get right or wrong."),
    Entry("p, p (Holm)", "signs of whole prompts flipped; Holm over the sections of all files", "For the test that nothing changed."),
)  # fmt: skip


def _headlines(result: QualityResult) -> Iterator[Headline]:
    """Each set in a sentence: accuracy, change, and the sections that fell."""
    two = len(result.labels) > 1
    for each in result.sets:
        for label, rates in each.win_rates.items():
            found, by = accuracy_of(each.overall, label), f" by {label}" if two else ""
            shares = f"wins {share(rates.wins)}, ties {share(rates.ties)}, losses {share(rates.losses)}"
            text = f"win rate {share(found)}{by} ({shares}; one half: p {p_equals(rates.test.p_value)}; n = {count(found)})."
            yield Headline(f"{each.name}:", text)
        if each.win_rates:
            continue
        found_by = {label: accuracy_of(each.overall, label) for label in each.labels}
        n, change = count(found_by[result.labels[0]]), each.overall.of("accuracy", "change")
        shown = ", ".join(f"{accuracy(found)}{f' {label}' if two else ''}" for label, found in found_by.items())
        if change is None:
            yield Headline(f"{each.name}:", f"accuracy {shown} (n = {n}).")
        else:
            text = f"accuracy {shown}; change {tenth_points(change)} points (n = {n}). {_fallen(each)}"
            yield Headline(f"{each.name}:", text, _kind(each))


def _fallen(each: SetQuality) -> str:
    changes = {group.name: accuracy_of(group, "change") for group in each.sections if fell(group)}
    if not changes:
        return f"None of {len(each.sections)} sections fell by more than 1 point."
    shown = (f"{name} {tenth_points(by)}{'*' if by.high < 0 else ''}" for name, by in changes.items())
    star = f" (*: and the {PERCENT} interval lies below 0)" if any(by.high < 0 for by in changes.values()) else ""
    return f"Fell by more than 1 point: {', '.join(shown)}{star}."


def _kind(each: SetQuality) -> Literal["good", "bad", "none"]:
    """Bad if a fall is shown, good if one is ruled out for every section, else neither."""
    flags = set(map(flag, each.shown))
    return "bad" if "fell*" in flags else "good" if flags == {"kept"} else "none"


def _sections(result: QualityResult) -> Iterator[ReportSection]:
    two = len(result.labels) > 1
    for place, each in enumerate(result.sets, 1):
        tables, rule = set_tables(each), f"Read as {FORMATS[each.format]}. {MEANINGS[each.format]}"
        fewest = {group.name: group.n_prompts for group in each.shown}
        notes = filter(None, [*set_notes(each, result.scorings[0].unit), few_prompts(fewest)])
        plots = () if each.win_rates else tuple(filter(None, [quality_plot(each, place)]))
        yield ReportSection(f"set-{place}", each.name, (rule,), tuple(tables[:1]), plots, sentences=tuple(notes))
        if tables[1:]:
            yield ReportSection(f"more-{place}", f"{each.name}: more", tables=tuple(tables[1:]), aside=True)
    flags = (FLAGS,) if result.n_tests else ()
    files = "; ".join(f"{each.name}: {each.source}" for each in result.sets)
    tests = f"{result.n_tests} sections; Holm's p allows for all of them" if two else None
    facts = {"files": files, "tests": tests, "seed": result.seed}
    yield how_made(result.versions, (*scoring_sentences(result), *flags), facts)
    yield meaning(*_TERMS, *(_CHANGE_TERMS if two else ()))
