"""`cda best-of`: score sampled responses before and after a training, follow attributes through the picks, write the result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from cda.arrays import FloatArray
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
from cda.records import Exclusions, count_reasons, prompt_id
from cda.report.plots import save_plot
from cda.resources.artifacts import checked_form, out_folder, shown_path, shown_target, write_figures
from cda.resources.named_scorer import Subject, scorer_settings
from cda.resources.scorers import open_scorer
from cda.results.base import save
from cda.results.benchmarks import AskedModel, BestOfResult
from cda.results.facts import Scorer
from cda.rewriting.labels import exhibits, measure_of
from cda.run import file_fingerprint
from cda.scorers.compared import Text, text_id

BIASES = ("jargon", "length", "structure", "sycophancy", "vagueness")
FEATURES = ("words", "list_lines", "long_word_share")
RESULT, SCORES, REPORT, FIGURE = "best_of_n.json", "scores.jsonl", "best_of_n.md", "best_of_n.svg"
PAGE = "report.html"


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
    """Prevalence of each attribute among the best of n, as n grows, of one model or of two that are compared.

    Writes everything into `out`. A bias with an absolute measure is followed as the share of picks that exhibit it; one whose
    measure is relative to another response (length), and each feature, by its mean. Returns also the text for a terminal.

    Raises:
        RecipeError: A bias is unknown or cannot be measured, or a feature is unknown; all of them are listed. Or another
            format of figures.
        DataError: The file cannot be used, or too few prompts reach an n.
        ModelError: A model cannot be loaded, or gives a reward that is not finite.
    """
    if figures is not None:
        checked_form(figures)
    shares, means = _followed(biases, features)
    sampled, settings = load_sampled(responses, columns, split), scorer_settings(loaded)
    for subject in subjects:
        if subject.section.is_judge:
            raise RecipeError(
                [f"{subject.name}: a judge gives no reward of single answers, by which the best of n is picked"]
            )
        check_subject(subject, settings)
    out = out_folder(out, RESULT, "cda best-of")
    texts = [(row.prompt, text) for row in sampled.prompts for text in row.responses]
    scored: dict[str, Mapping[str, float]] = {}
    models = {}
    for subject in subjects:
        scores, facts = open_scorer(subject, settings).score(texts, settings.shared_folder)
        scored[subject.label], models[subject.label] = scores.scored, _asked(subject, facts)
    kept, unscored = _with_rewards(texts, scored)
    if not kept:
        raise DataError(f"{responses}: no response has a reward by every scoring; responses: {unscored}")
    quality = None
    if sampled.has_quality:
        grades = [grade for row in sampled.prompts for grade in row.quality]
        values = np.array([grades[row] for row in kept], dtype=np.float64)  # None becomes NaN
        quality = Attribute("quality", "mean", values, "the reference quality in the file")
    texts = [texts[row] for row in kept]
    rewards = {label: [by_text[text_id(*text)] for text in texts] for label, by_text in scored.items()}
    attributes = _attributes(shares, means, [text for _, text in texts])
    curves = best_of_n(rewards, attributes, [prompt_id(prompt) for prompt, _ in texts], sizes, quality)
    if not curves.curves:
        raise DataError(
            f"{responses}: no prompt has responses that differ in {', '.join(curves.unvaried)}; nothing to follow"
        )
    left_out = {"rows": sampled.rows, "responses": sampled.responses, "quality": sampled.quality}
    result = BestOfResult(
        **dict(curves),
        responses=shown_path(responses),
        scorings=tuple(scored),
        models=models,
        n_repeated=sampled.n_repeated,
        excluded={**left_out, "scored responses": unscored},
        versions=versions(),
    )
    written = f"Written: {out / PAGE}, {REPORT}, {FIGURE}, {RESULT}, {SCORES}"
    if is_main():
        save(result, out / RESULT)
        write_jsonl(out / SCORES, _rows(texts, rewards, attributes, quality))
        write_text(out / PAGE, best_of_n_page(result))
        write_text(out / REPORT, best_of_n_markdown(result))
        save_plot(overview_plot(result), out, "svg")
        if figures is not None:
            written += f"\n{write_figures(best_of_n_plots(result), out, figures)}"
    return result, f"{best_of_n_text(result)}\n{written}"


def _asked(subject: Subject, facts: Scorer) -> AskedModel:
    name, adapter = shown_target(subject.name), subject.adapter
    return AskedModel(
        model=name,
        adapter=None if adapter is None else shown_path(adapter),
        adapter_content=None if adapter is None else file_fingerprint(adapter),
        dose=subject.dose,
        facts=facts.model_copy(update={"name": name}),
    )


def _followed(names: Sequence[str], features: Sequence[str]) -> tuple[list[Bias], list[str]]:
    """Biases that a response exhibits or not by itself, and names of the features to average; each once."""
    problems: list[str] = []
    shares, relative, own = [], [], []
    for name in dict.fromkeys(names):
        try:
            bias = load_bias(name)
            measure = measure_of(bias)
        except RecipeError as error:
            problems += error.problems
            continue
        own.append(bias.name)
        if measure.relative:
            relative.append(measure.feature)
        else:
            shares.append(bias)
    means = list(dict.fromkeys([*relative, *features]))
    problems += [
        f"feature '{name}' is not one of a text alone.{did_you_mean(name, TEXT_FEATURES)} Known: {', '.join(TEXT_FEATURES)}"
        for name in means
        if name not in TEXT_FEATURES
    ]
    problems += [
        f"two things are called '{name}': rename one of the biases"
        for name in sorted({name for name in own if own.count(name) > 1 or name in {*means, "quality"}})
    ]
    if not (shares or means):
        problems.append("nothing to follow: name a bias or a feature")
    if problems:
        raise RecipeError(problems)
    return shares, means


def _attributes(shares: Sequence[Bias], means: Sequence[str], texts: Sequence[str]) -> list[Attribute]:
    """Shares of biases, then means of features; each is measured once per distinct text."""

    def values(measure: Callable[[str], float]) -> FloatArray:
        by_text = {text: float(measure(text)) for text in dict.fromkeys(texts)}
        return np.array([by_text[text] for text in texts])

    attributes = []
    for bias in shares:
        rule = measure_of(bias)
        limit = f"below {rule.present_below:g}" if rule.present_above is None else f"above {rule.present_above:g}"
        words = f"share of picks that exhibit it, that is {rule.feature} {limit}"
        attributes.append(Attribute(bias.name, "share", values(partial(exhibits, bias=bias)), words))
    for name in means:
        words = f"mean of the feature {name} among the picks"
        attributes.append(Attribute(name, "mean", values(TEXT_FEATURES[name]), words))
    return attributes


def _with_rewards(texts: Sequence[Text], scored: Mapping[str, Mapping[str, float]]) -> tuple[list[int], Exclusions]:
    """Rows that every scoring has a reward for, so that both pick from the same responses; and the others, counted."""
    kept, reasons = [], []
    for row, text in enumerate(texts):
        without = [label for label, rewards in scored.items() if text_id(*text) not in rewards]
        if without:
            reasons.append(f"too long for a reward ({' and '.join(without)})")
        else:
            kept.append(row)
    return kept, Exclusions(len(texts), count_reasons(reasons))


def _rows(
    texts: Sequence[Text],
    rewards: Mapping[str, Sequence[float]],
    attributes: Sequence[Attribute],
    quality: Attribute | None,
) -> Iterator[dict[str, object]]:
    """A row per response, from which every number can be made again."""
    for at, (prompt, text) in enumerate(texts):
        row = {"prompt_id": prompt_id(prompt), "response_id": text_id(prompt, text)}
        by_scoring = {f"reward_{label}": values[at] for label, values in rewards.items()}
        own = {attribute.name: float(attribute.values[at]) for attribute in attributes}
        grade = {} if quality is None else {"quality": None if np.isnan(quality.values[at]) else quality.values[at]}
        yield {**row, **by_scoring, "attributes": own, **grade}
