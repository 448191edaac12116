"""What a model's name stands for, opened and asked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cda.config.load import LoadedRecipe
from cda.config.schema import ModelSection
from cda.config.scoring import Kind, kind_of
from cda.results.facts import Scorer
from cda.score.compared import Compared, Comparison
from cda.score.distinct import Text
from cda.stages.scorer_judges import Judge
from cda.stages.scorer_kinds import Classifier, Function, Launch, LogRatio, NamedScorer, Rewarded, Served, Subject
from cda.stages.sources import run_path

KINDS: dict[Kind, type[NamedScorer]] = {
    "classifier": Classifier,
    "log-ratio": LogRatio,
    "steered": LogRatio,
    "served": Served,
    "function": Function,
    "judge": Judge,
}


def open_scorer(section: ModelSection, loaded: LoadedRecipe) -> NamedScorer:
    """What a model's name stands for, with the settings it is asked by; a model is loaded only when it is asked."""
    return KINDS[kind_of(section.name_or_path)](section, loaded)


def compare(
    subject: Subject,
    comparisons: Sequence[Comparison],
    loaded: LoadedRecipe,
    launched: Path | None = None,
    together: Sequence[Text] = (),
) -> tuple[Compared, Scorer]:
    """Margins of all comparisons, and how they came about; see `NamedScorer.compare`."""
    return open_scorer(subject.section, loaded).compare(subject, comparisons, Launch(launched, tuple(together)))


def score(
    subject: Subject,
    texts: Sequence[Text],
    loaded: LoadedRecipe,
    launched: Path | None = None,
    together: Sequence[Text] = (),
) -> Rewarded:
    """Reward of every distinct text by anything that gives rewards; see `NamedScorer.score`."""
    return open_scorer(subject.section, loaded).score(subject, texts, Launch(launched, tuple(together)))


def shared_folder(loaded: LoadedRecipe) -> Path:
    """Where the processes of a launch hand each other scores, for commands that all of them run in the same way."""
    folder = run_path(loaded)
    return folder.parent / f".{folder.name}-scoring"
