"""What a model's name can stand for: its source and settings, what is missing to ask it, and asking it. One class a kind."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, TypedDict

from cda.data.load import looks_like_path
from cda.embedded.model import ADAPTERS, encoder_folder
from cda.errors import DataError, ModelError
from cda.inert import TURNS
from cda.launch import say
from cda.models.load import free_memory, load_config, load_template
from cda.recipe.load import LoadedRecipe
from cda.recipe.schema import ModelSection
from cda.recipe.scoring import bare_name
from cda.records import Prompt
from cda.resources.model_scorers import (
    cache_file,
    check_configs,
    classifier_scores,
    load_dosed,
    log_ratio_problems,
    log_ratio_scope,
    log_ratio_scorer,
    log_ratio_sources,
    told_cached,
)
from cda.resources.sources import model_source, model_spec
from cda.results.facts import JudgeFacts, RewardModelFacts, Scorer
from cda.run import fingerprint
from cda.scorers.cache import ScoreCache
from cda.scorers.compared import Compared, Comparison, Preferences, Text, compare_distinct, distinct_texts
from cda.scorers.engine import Scores, joined, score_texts
from cda.scorers.judge import LLMJudge
from cda.scorers.own import OwnPairwise, OwnScorer, own_scorer
from cda.scorers.protocols import TextScorer
from cda.scorers.self_check import self_check
from cda.scorers.served import ServedScorer


@dataclass(frozen=True, slots=True)
class Subject:
    """What is to be asked: a model, with an adapter or without.

    Attributes:
        label: Beside the progress bar and in results: `model`; `before` and `after`; `first` and `second`.
        section: The model.
        adapter: Folder of an adapter.
        dose: How much of the adapter.
    """

    label: str
    section: ModelSection
    adapter: Path | None = None
    dose: float = 1.0

    @property
    def name(self) -> str:
        return self.section.name_or_path


@dataclass(frozen=True, slots=True)
class Launch:
    """How a classifier's texts are shared out and batched.

    Attributes:
        folder: In which the processes of a launch hand each other scores; all of them have to ask the same then. None: this
            process scores everything.
        together: Texts among those asked for that were scored as a set of their own before, in its order. Below fp32 a score
            moves with its batch-mates, and is found in the cache as part of the same set alone.
    """

    folder: Path | None = None
    together: tuple[Text, ...] = ()


ALONE = Launch()
Rewarded = tuple[Scores, RewardModelFacts]


@dataclass(frozen=True)
class NamedScorer(ABC):
    """A model by its name, with the settings it is asked by; see `open_scorer`."""

    section: ModelSection
    loaded: LoadedRecipe

    elsewhere: ClassVar[Mapping[str, str]] = {}
    """Settings of classifiers alone, to the words that say where this kind has its own."""

    @abstractmethod
    def source(self) -> str:
        """Fingerprint of what answers: a model's content, a function's code, a server's address and the models it names."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """What of `score.*` decides the answers.

        Settings of other kinds, and those that say only how fast or where it is asked, leave a finished stage as it is.
        """

    @abstractmethod
    def missing(self) -> list[str]:
        """What can be found wrong with this kind before anything is asked; see `problems`."""

    @abstractmethod
    def rewards(self, subject: Subject, texts: Sequence[Text], launch: Launch) -> Rewarded:
        """Reward of every distinct text; see `score`."""

    def problems(self) -> list[str]:
        """What can be found wrong before anything is asked; of models on a hub, nothing.

        Raises:
            CdaError: A local model or a function cannot be used.
        """
        score, found = self.loaded.recipe.score, []
        if score.over_length != "cut":
            found.append(
                f"score.over_length={score.over_length}: of sequence classifiers alone{self.elsewhere.get('over_length', '')}"
            )
        if score.workers not in ("auto", 1):
            found.append(
                f"score.workers={score.workers}: of sequence classifiers alone{self.elsewhere.get('workers', '')}"
            )
        return [*found, *self.missing()]

    def score(self, subject: Subject, texts: Sequence[Text], launch: Launch = ALONE) -> Rewarded:
        """Reward of every distinct text, and how they came about; see `compare`.

        Raises:
            CdaError: As `compare`; and ModelError where it only compares.
        """
        scores, facts = self.rewards(subject, texts, launch)
        if not scores.rewards:
            raise DataError(f"{subject.name}: none of {scores.n_texts} texts has a reward; all were too long for it")
        _tell(facts)
        return scores, facts

    def compare(
        self, subject: Subject, comparisons: Sequence[Comparison], launch: Launch = ALONE
    ) -> tuple[Compared, Scorer]:
        """Margins of all comparisons, and how they came about.

        Args:
            subject: What is asked.
            comparisons: Prompt and two texts.
            launch: Of a classifier only.

        Returns:
            What was said of the comparisons; and how it came about, for the report.

        Raises:
            CdaError: The model cannot be opened, asked, or its answers cannot be used.
        """
        scores, facts = self.score(subject, texts_of(comparisons), launch)
        return scores.compared(), facts


class Classifier(NamedScorer):
    """A sequence classifier: hub id, folder, or `embedded`."""

    def source(self) -> str:
        return fingerprint([model_source(self.section), model_spec(self.section).precision])

    def settings(self) -> dict[str, Any]:
        return self.loaded.recipe.score.model_dump(mode="json", include={"batch_tokens", "over_length"})

    def problems(self) -> list[str]:
        return self.missing()

    def missing(self) -> list[str]:
        name = self.section.name_or_path
        if name in ADAPTERS:
            encoder_folder()
        elif looks_like_path(name):
            spec = model_spec(self.section)
            load_template(spec, load_config(spec))
        return []

    def rewards(self, subject: Subject, texts: Sequence[Text], launch: Launch) -> Rewarded:
        """Each text once, what earlier runs scored taken from the cache."""
        spec = model_spec(subject.section)
        reward_model = load_dosed(spec, subject.adapter, subject.dose)
        notes = self_check(reward_model) if self.loaded.recipe.score.self_check else []
        first, apart = launch.together, set(launch.together)
        sets = [list(first), [text for text in texts if text not in apart]] if first else [list(texts)]
        scores = joined(
            [
                classifier_scores(
                    reward_model,
                    one,
                    self.loaded,
                    f"  scoring {subject.label}",
                    adapter=subject.adapter,
                    dose=subject.dose,
                    launched=launch.folder,
                )
                for one in sets
                if one
            ]
        )
        template = reward_model.template
        facts = RewardModelFacts(
            name=subject.name,
            kind="reward model",
            precision=spec.precision,
            form=template.form,
            max_length_tokens=template.max_length_tokens,
            **_counts(scores),
            notes=(*notes, *marks_note(texts, template.has_marks)),
        )
        del reward_model
        free_memory()
        return scores, facts


class LogRatio(NamedScorer):
    """`dpo:POLICY,REFERENCE` or `steered:MODEL`: a causal language model against another, or against itself."""

    def source(self) -> str:
        return fingerprint(log_ratio_sources(self.section, self.loaded))

    def settings(self) -> dict[str, Any]:
        return self.loaded.recipe.score.model_dump(mode="json", include={"batch_tokens", "log_ratio"})

    def missing(self) -> list[str]:
        return log_ratio_problems(self.section, self.loaded)

    def problems(self) -> list[str]:
        found = super().problems()
        if not found:
            check_configs(self.section, self.loaded)
        return found

    def rewards(self, subject: Subject, texts: Sequence[Text], launch: Launch) -> Rewarded:  # noqa: ARG002
        scorer = log_ratio_scorer(subject.section, self.loaded)
        path = cache_file(self.loaded)
        scope = log_ratio_scope(scorer, subject.section, self.loaded) if path else None
        with ScoreCache(path) if path else nullcontext() as cache:
            scores = score_texts(replace(scorer, beta=1.0), texts, cache=cache, scope=scope).times(scorer.beta)
        spec = scorer.policy.causal.spec
        facts = RewardModelFacts(
            name=subject.name,
            kind="reward model",
            how=f"Scored as {scorer.unit}: {scorer.name}, in {spec.precision}",
            max_length_tokens=scorer.policy.causal.template.max_length_tokens,
            unit=scorer.unit,
            **_counts(scores),
            notes=(*scorer.notes(), *marks_note(texts, scorer.policy.causal.template.has_marks)),
        )
        del scorer
        free_memory()
        return scores, facts


class Served(NamedScorer):
    """`served:URL` or an http address: a reward model behind a server."""

    elsewhere: ClassVar = {
        "over_length": "; score.served.too_long says it of a server",
        "workers": "; score.served.concurrency says how many texts a server is asked at once",
    }

    def source(self) -> str:
        scorer = self._opened()
        scorer.check()  # asks which models there are
        return fingerprint(scorer.settings)

    def settings(self) -> dict[str, Any]:
        served = self.loaded.recipe.score.served
        return {"served": served.model_dump(mode="json", exclude={"concurrency", "api_key_env", "check_raw"})}

    def missing(self) -> list[str]:
        return self._opened().check()

    def rewards(self, subject: Subject, texts: Sequence[Text], launch: Launch) -> Rewarded:  # noqa: ARG002
        scorer = self._opened()
        scorer.check()  # asks for the models' names, which are part of the settings
        scores = _kept_until_done(scorer, scorer.settings, subject, texts, self.loaded)
        counts = _counts(scores)
        counts["truncated"] = max(counts["truncated"], scorer.n_truncated)
        return scores, RewardModelFacts(
            name=subject.name,
            kind="reward model",
            how=f"Scored by {bare_name(subject.name)}",
            **counts,
            notes=tuple(marks_note(texts, has_turns)),
        )

    def _opened(self) -> ServedScorer:
        options = self.loaded.recipe.score.served
        return ServedScorer(bare_name(self.section.name_or_path), options, label="  scoring")


class Function(NamedScorer):
    """`package.module:function` or `file.py:function`: the user's own; also what was handed over in memory."""

    @property
    def own(self) -> OwnScorer:
        """What was handed over in memory, or the function of this name, whose file runs once in a run."""
        name = self.section.name_or_path
        return self.loaded.opened.once(("scorer", name), lambda: own_scorer(name))

    def source(self) -> str:
        return fingerprint(self.own.settings)

    def settings(self) -> dict[str, Any]:
        return {}

    def missing(self) -> list[str]:
        _ = self.own
        return []

    def rewards(self, subject: Subject, texts: Sequence[Text], launch: Launch) -> Rewarded:  # noqa: ARG002
        scorer = self.own
        if isinstance(scorer, OwnPairwise):
            raise ModelError(
                f"{subject.name}: compares two answers and gives no reward of single ones, which is needed here"
            )
        scores = _kept_until_done(scorer, scorer.settings, subject, texts, self.loaded)
        return scores, RewardModelFacts(name=subject.name, kind="reward model", how=scorer.how, **_counts(scores))

    def compare(
        self, subject: Subject, comparisons: Sequence[Comparison], launch: Launch = ALONE
    ) -> tuple[Compared, Scorer]:
        if not isinstance(function := self.own, OwnPairwise):
            return super().compare(subject, comparisons, launch)
        preferences = compare_distinct(function, comparisons)
        if function.orders.n_unread == len(preferences.by_comparison):
            raise ModelError(f"{function.name}: no preference (NaN) on any of {function.orders.n_unread} comparisons")
        return preferences, verdict_facts(function, subject.name, preferences)


def texts_of(comparisons: Sequence[Comparison]) -> list[Text]:
    """Both sides of every comparison."""
    return [(prompt, text) for prompt, first, second in comparisons for text in (first, second)]


def _kept_until_done(
    scorer: TextScorer, settings: Mapping[str, object], subject: Subject, texts: Sequence[Text], loaded: LoadedRecipe
) -> Scores:
    """Scores of something that can change unseen behind its address or name: they outlive a failure, and no success."""
    # Nothing tells an object in memory from another of its name, so that its scores are not kept at all.
    path = None if "in memory" in settings else unfinished_scores(subject, loaded)
    n_kept = 0
    try:
        with ScoreCache(path) if path else nullcontext() as cache:
            try:
                scope = fingerprint([subject.section.kind, dict(settings)])
                return score_texts(scorer, texts, cache=cache, scope=scope)
            except BaseException:
                n_kept = len(cache) if cache is not None else 0
                raise
    finally:
        if path and n_kept:
            say(f"  {n_kept} of {len(set(texts))} scores are kept in {path}: the same command goes on from them")
        elif path:
            for file in path.parent.glob(f"{path.name}*"):
                file.unlink(missing_ok=True)


def unfinished_scores(subject: Subject, loaded: LoadedRecipe) -> Path | None:
    """File that keeps what a server or a function scored until all is there; None where the recipe wants no such file."""
    if cache_file(loaded) is None:
        return None
    folder = loaded.recipe.run_path
    return folder.parent / f".{folder.name}-{fingerprint([subject.label, subject.name])}.sqlite"


def verdict_facts(judge: LLMJudge | OwnPairwise, name: str, preferences: Preferences) -> JudgeFacts:
    """Of anything that compares, in both orders or one."""
    return JudgeFacts(
        name=name,
        kind="judge",
        orders="one" if judge.orders.n_flipped is None else "both",
        comparisons=len(preferences.by_comparison),
        unread=judge.orders.n_unread,
        reasons=judge.reasons,
        half_read=judge.orders.n_half_read,
        flipped=judge.orders.n_flipped,
        position_bias=judge.orders.position_bias,
        position=judge.orders.position,
    )


def has_turns(prompt: Prompt, response: str) -> bool:
    return any(TURNS.search(text) for text in (response, *(message.content for message in prompt)))


def marks_note(texts: Sequence[Text], has_marks: Callable[[Prompt, str], bool]) -> list[str]:
    """How many texts would speak to the model in another's turn, and what is done about it."""
    distinct = distinct_texts(texts).values()
    n_marked = sum(has_marks(*text) for text in distinct)
    return [
        f"{n_marked} of {len(distinct)} texts hold marks of chat templates, such as <|im_end|>. A space was put into each mark, "
        "so that it is read as text and ends no turn."
    ] if n_marked else []  # fmt: skip


class _Counts(TypedDict):
    texts: int
    truncated: int
    dropped: int
    cached: int
    alike: int


def _counts(scores: Scores) -> _Counts:
    return {
        "texts": scores.n_texts,
        "truncated": scores.n_truncated,
        "dropped": len(scores.dropped),
        "cached": scores.n_cached,
        "alike": scores.n_alike,
    }


def _tell(facts: RewardModelFacts) -> None:
    for note in facts.notes:
        say(f"  {note}")
    if facts.cached:
        say(f"  {told_cached(facts.cached, facts.texts)}")
    if facts.alike:
        say(f"  {facts.alike} of {facts.texts} texts are the same token ids as another: scored once, and a tie with it")
    if facts.truncated:
        where = "" if facts.max_length_tokens is None else f" at {facts.max_length_tokens} tokens"
        say(f"  {facts.truncated} of {facts.texts} texts were cut{where}")
    if facts.dropped:
        say(f"  {facts.dropped} of {facts.texts} texts are too long for the model and were left out")
