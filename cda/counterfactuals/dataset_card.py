"""The dataset card (README.md) next to a training mix: its metadata for dataset hubs, what it holds by bias and reason, its limits, and
how to load it. Text from outside is escaped."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from markupsafe import Markup

from cda.biases import Bias
from cda.data.load import looks_like_path
from cda.embedded.model import EMBEDDED
from cda.recipe.schema import Recipe
from cda.report.numbers import counted, listed
from cda.report.page import render
from cda.report.tables import Table, escaped, markdown_table
from cda.resources.artifacts import shown_path
from cda.results.stages import LabelCounts, SynthesizeCounts

_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
_LARGEST = "n>1M"
_TAGS = ("preference", "counterfactual", "reward-model", "debiasing", "trl")


def dataset_card(
    file: str, recipe: Recipe, biases: Sequence[Bias], labels: LabelCounts | None, made: SynthesizeCounts
) -> str:
    """The card of a mix in `file`, next to it; `labels`: counts of the stage before, None if they are of another version."""
    text = render(
        "dataset_card.md.j2",
        metadata=Markup(_metadata(file, recipe, biases, made)),
        title=f"Counterfactual preference pairs against {escaped(listed([bias.name for bias in biases]))}",
        biases=biases,
        tables=[Markup("\n".join(markdown_table(table))) for table in _tables(labels, made)],
        sentences=list(_sentences(recipe, labels, made)),
        limits=list(_limits(recipe)),
        md=lambda words: Markup(escaped(words)),
    )
    return re.sub(r"\n{3,}", "\n\n", text)


def _metadata(file: str, recipe: Recipe, biases: Sequence[Bias], made: SynthesizeCounts) -> str:
    """Front matter by the hub's own type; `configs` names the file for load_dataset, which takes no other."""
    from huggingface_hub import DatasetCardData

    n = sum(made.mix.values())
    on_hub = recipe.data.pairs != EMBEDDED and not looks_like_path(recipe.data.pairs)
    return DatasetCardData(
        pretty_name=f"Counterfactual preference pairs against {listed([bias.name for bias in biases])}",
        task_categories=["text-classification"],
        size_categories=[next((size for most, size in _SIZES if n < most), _LARGEST)],
        source_datasets=[f"extended|{recipe.data.pairs}"] if on_hub else None,
        annotations_creators=["machine-generated"],
        language_creators=["machine-generated"],
        tags=list(_TAGS),
        configs=[{"config_name": "default", "data_files": [{"split": "train", "path": file}]}],
    ).to_yaml()


def _tables(labels: LabelCounts | None, made: SynthesizeCounts) -> Iterator[Table]:
    rows = [
        (
            name,
            "all" if own.requested is None else str(own.requested),
            str(own.eligible),
            str(own.tried),
            str(own.made),
            own.by,
        )
        for name, own in made.biases.items()
    ]
    yield Table(
        "Counterfactual pairs", ("bias", "asked for", "eligible", "tried", "accepted", "rewritten by"), tuple(rows)
    )
    if labels is not None:
        sides = [
            (name, *map(str, (own.both, own.chosen_only, own.rejected_only, own.neither, own.unparsed)), own.by)
            for name, own in labels.labels.items()
        ]
        header = ("bias", "both", "chosen only", "rejected only", "neither", "unread", "labelled by")
        yield Table("Sides of the source pairs that have the bias", header, tuple(sides))


def _sentences(recipe: Recipe, labels: LabelCounts | None, made: SynthesizeCounts) -> Iterator[str]:
    kinds = ", ".join(f"{n} {kind}" for kind, n in made.kinds.items())
    yield f"{made.mix['train']} pairs to train on and {made.mix['validation']} for validation; by kind: {kinds}."
    used = "" if labels is None else f": {labels.pairs.kept} usable of {labels.pairs.seen}, {labels.pairs.used} used"
    yield f"Made of {_source(recipe.data.pairs)}{used}; seed {recipe.seed}."
    for name, own in made.biases.items():
        if own.rejected:
            yield f"{name}: left out of {own.tried} rewrites: {counted(own.rejected)}."
        if own.gate is not None and own.gate.found_in_accepted:
            yield f"{name}: found in accepted rewrites, and kept: {counted(own.gate.found_in_accepted)}."
        if own.prompt is not None:
            yield f"{name}: rewritten with the prompt {own.prompt}."
    for file, own_file in made.in_audit.items():
        if own_file.dropped:
            yield f"{file}: {own_file}, so that nothing is audited on what was taught."


def _limits(recipe: Recipe) -> Iterator[str]:
    yield "The licence and the content of the source pairs apply; look at them before you pass this on."
    if recipe.rewrites_by_llm:
        yield f"An LLM ({recipe.llm.model}) wrote the rewritten sides; its terms apply, and it may have changed more than the bias."
    else:
        yield "Rules wrote the rewritten sides: their wordings recur, and a model may learn to shun these alone."
    if recipe.synthesize.gate.on:
        yield "A gate checked each rewrite by measured features or an LLM's answer; no person has read them."
    else:
        yield "No gate checked the rewrites, and no person has read them."
    yield "What a model learns of it is measured by an audit of the training, not by these counts."


def _source(pairs: str) -> str:
    return "the embedded pairs of the cda package" if pairs == EMBEDDED else shown_path(pairs)
