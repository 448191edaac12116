"""Best-of-n: score sampled responses before and after a training, follow attributes through the picks, write the result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cda.benchmarks.best_of_n_report import (
    best_of_n_markdown,
    best_of_n_page,
    best_of_n_plots,
    best_of_n_text,
    overview_plot,
)
from cda.benchmarks.picks import Attribute, best_of_n
from cda.biases import Bias, load_bias
from cda.data.sampled import load_sampled
from cda.errors import DataError, RecipeError, did_you_mean
from cda.features import TEXT_FEATURES
from cda.files.jsonl import write_jsonl, write_text
from cda.finetuning.applied import check_subject
from cda.launch import is_main
from cda.provenance import versions
from cda.recipe.load import LoadedRecipe
from cda.records import Exclusions, Prompt, count_reasons, prompt_id
from cda.report.plots import save as save_plot
from cda.resources.artifacts import checked_form, out_folder, shown_path, shown_target, write_figures
from cda.resources.scorer_kinds import Subject
from cda.resources.scorers import score, shared_folder
from cda.results.base import save
from cda.results.benchmarks import Asked, BestOfResult
from cda.rewriting.labels import exhibits, measure_of
from cda.run import file_fingerprint
from cda.scorers.compared import Text, text_id

BIASES = ("jargon", "length", "structure", "sycophancy", "vagueness")
FEATURES = ("words", "list_lines", "long_word_share")
RESULT, SCORES, REPORT, FIGURE = "best_of_n.json", "scores.jsonl", "best_of_n.md", "best_of_n.svg"
PAGE = "report.html"


@dataclass(frozen=True, slots=True)
class Scored:
    """Rewards by `text_id`, and how they were made."""

    by_text: Mapping[str, float]
    asked: Asked


def run_best_of_n(
    responses: str,
    subjects: Sequence[Subject],
    loaded: LoadedRecipe,
    *,
    out: Path,
    biases: Sequence[str] = BIASES,
    features: Sequence[str] = FEATURES,
    sizes: Sequence[int] | None = None,
    columns: Mapping[str, str] | None = None,
    split: str = "train",
    figures: str | None = None,
) -> tuple[BestOfResult, str]:
    """How prevalent each attribute is among the best of n, as n grows, before and after a training.

    Writes into `out`: best_of_n.json (all numbers), scores.jsonl (a row a response), report.html, best_of_n.md and
    best_of_n.svg (all curves).

    Args:
        responses: Sampled responses, as `load_sampled` reads them.
        subjects: One, of which nothing is compared; or two: a model before and after an adapter, or two models.
        loaded: Settings of how they are asked.
        out: Folder; made where it is not there.
        biases: Names or files. A bias with an absolute measure is followed as the share of picks that exhibit it; one
            whose measure is relative to another response (length) by the mean of its feature.
        features: Names of `TEXT_FEATURES`, followed by their mean.
        sizes: Values of n; None for 1, 2, 4, 8, … as far as half of the prompts reach.
        columns: Our column to the file's: prompt, responses, response, quality.
        split: For sources with several.
        figures: Also write every figure as a file of this format (svg, pdf) into figures/.

    Returns:
        The result; and tables and sentences for a terminal, with what was written.

    Raises:
        RecipeError: A bias is unknown or cannot be measured, or a feature is unknown; all of them are listed. Or another format of figures.
        DataError: The file cannot be used, or too few prompts reach an n.
        ModelError: A model cannot be loaded, or gives a reward that is not finite.
    """
    if figures is not None:
        checked_form(figures)
    followed = _followed(biases, features)
    sampled = load_sampled(responses, columns, split)
    for subject in subjects:
        if subject.section.is_judge:
            raise RecipeError(
                [f"{subject.name}: a judge gives no reward of single answers, by which the best of n is picked"]
            )
        check_subject(subject, loaded)
    out = out_folder(out, RESULT, "cda best-of")
    texts = [(one.prompt, text) for one in sampled.prompts for text in one.responses]
    numbers = [number for one in sampled.prompts for number in one.quality] if sampled.has_quality else None
    scored = {subject.label: rewards_of(subject, texts, loaded) for subject in subjects}
    kept, unscored = _with_rewards(texts, scored)
    if not kept:
        raise DataError(f"{responses}: no response has a reward by every scoring; responses: {unscored}")
    texts = [texts[row] for row in kept]
    rewards = {label: [scored[label].by_text[text_id(*text)] for text in texts] for label in scored}
    attributes = [_attribute(one, texts) for one in followed]
    quality = None if numbers is None else _quality([numbers[row] for row in kept])
    found = best_of_n(rewards, attributes, [prompt_id(prompt) for prompt, _ in texts], sizes, quality)
    result = BestOfResult(
        **dict(found),
        responses=shown_path(responses),
        scorings=tuple(scored),
        models={label: one.asked for label, one in scored.items()},
        n_repeated=sampled.n_repeated,
        excluded={
            "rows": sampled.rows,
            "responses": sampled.responses,
            "quality": sampled.quality,
            "scored responses": unscored,
        },
        versions=versions(),
    )
    written = ""
    if is_main():
        save(result, out / RESULT)
        write_jsonl(out / SCORES, _rows(texts, rewards, attributes, quality))
        write_text(out / PAGE, best_of_n_page(result))
        write_text(out / REPORT, best_of_n_markdown(result))
        save_plot(overview_plot(result), out, "svg")
        if figures is not None:
            written = f"\n{write_figures(best_of_n_plots(result), out, figures)}"
    return result, f"{best_of_n_text(result)}\nWritten: {out / PAGE}, {REPORT}, {FIGURE}, {RESULT}, {SCORES}{written}"


def rewards_of(subject: Subject, texts: Sequence[Text], loaded: LoadedRecipe) -> Scored:
    """Reward of every distinct text by one subject; none of a text that is too long and dropped.

    Raises:
        ModelError: The model cannot be loaded, a reward is not finite, or it compares and does not score.
    """
    scores, facts = score(subject, texts, loaded, shared_folder(loaded))
    adapter, content = None, None
    if subject.adapter is not None:
        adapter, content = shown_path(subject.adapter), file_fingerprint(subject.adapter)
    name = shown_target(subject.name)
    shown = facts.model_copy(update={"name": name})
    asked = Asked(model=name, adapter=adapter, adapter_content=content, dose=subject.dose, facts=shown)
    return Scored(scores.rewards, asked)


@dataclass(frozen=True, slots=True)
class _Followed:
    """An attribute to measure: a bias's label, or a feature where there is no bias."""

    name: str
    definition: str
    bias: Bias | None


def _followed(biases: Sequence[str], features: Sequence[str]) -> list[_Followed]:
    """Biases that a response exhibits or not by itself, then features; each once."""
    problems: list[str] = []
    loaded: list[Bias] = []
    for name in dict.fromkeys(biases):
        try:
            bias = load_bias(name)
            measure_of(bias)
            loaded.append(bias)
        except RecipeError as error:
            problems += error.problems
    shares = [bias for bias in loaded if bias.measure and not bias.measure.relative]
    means = [*(bias.measure.feature for bias in loaded if bias.measure and bias.measure.relative), *features]
    problems += [
        f"feature '{name}' is not one of a text alone.{did_you_mean(name, TEXT_FEATURES)} Known: {', '.join(TEXT_FEATURES)}"
        for name in dict.fromkeys(means)
        if name not in TEXT_FEATURES
    ]
    names = [bias.name for bias in loaded]
    problems += [
        f"two things are called '{name}': rename one of the biases"
        for name in sorted({name for name in names if names.count(name) > 1 or name in {*means, "quality"}})
    ]
    if not (shares or means):
        problems.append("nothing to follow: name a bias or a feature")
    if problems:
        raise RecipeError(problems)
    return [
        *(_Followed(bias.name, f"share of picks that exhibit it, that is {_rule(bias)}", bias) for bias in shares),
        *(_Followed(name, f"mean of the feature {name} among the picks", None) for name in dict.fromkeys(means)),
    ]


def _rule(bias: Bias) -> str:
    rule = measure_of(bias)
    if rule.present_above is not None:
        return f"{rule.feature} above {rule.present_above:g}"
    return f"{rule.feature} below {rule.present_below:g}"


def _attribute(one: _Followed, texts: Sequence[tuple[Prompt, str]]) -> Attribute:
    """Measured on each distinct text once."""
    distinct = dict.fromkeys(text for _, text in texts)
    if one.bias is None:
        feature = TEXT_FEATURES[one.name]
        value = {text: float(feature(text)) for text in distinct}
        return Attribute(one.name, "mean", one.name, np.array([value[text] for _, text in texts]), one.definition)
    value = {text: float(exhibits(text, one.bias)) for text in distinct}
    return Attribute(one.name, "share", "share", np.array([value[text] for _, text in texts]), one.definition)


def _with_rewards(texts: Sequence[tuple[Prompt, str]], scored: Mapping[str, Scored]) -> tuple[list[int], Exclusions]:
    """Rows that every scoring has a reward for, so that both pick from the same responses; and the others, counted."""
    kept, reasons = [], []
    for row, text in enumerate(texts):
        without = [label for label, one in scored.items() if text_id(*text) not in one.by_text]
        if without:
            reasons.append(f"too long for a reward ({' and '.join(without)})")
        else:
            kept.append(row)
    return kept, Exclusions(len(texts), count_reasons(reasons))


def _quality(numbers: Sequence[float | None]) -> Attribute:
    values = np.array([np.nan if number is None else number for number in numbers])
    return Attribute("quality", "mean", "quality", values, "the reference quality that stands in the file")


def _rows(
    texts: Sequence[tuple[Prompt, str]],
    rewards: Mapping[str, Sequence[float]],
    attributes: Sequence[Attribute],
    quality: Attribute | None,
) -> list[dict[str, object]]:
    """A row a response, from which every number can be made again."""
    rows = []
    for at, (prompt, text) in enumerate(texts):
        row: dict[str, object] = {"prompt_id": prompt_id(prompt), "response_id": text_id(prompt, text)}
        row |= {f"reward_{label}": values[at] for label, values in rewards.items()}
        row["attributes"] = {one.name: float(one.values[at]) for one in attributes}
        if quality is not None:
            number = float(quality.values[at])
            row["quality"] = None if np.isnan(number) else number
        rows.append(row)
    return rows
