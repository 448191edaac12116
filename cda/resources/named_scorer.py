"""A model by its name, whatever kind of scorer that stands for: its source, its settings, its problems, and its scores."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

from cda.errors import DataError, LLMError, ModelError
from cda.files.paths import user_path
from cda.inert import TURNS, short_lines
from cda.launch import say
from cda.llm.protocol import Request
from cda.models.config import BF16_SPEED
from cda.recipe.load import LoadedRecipe
from cda.recipe.schema import ModelSection
from cda.recipe.sections import ScoreSection
from cda.records import Pair, Prompt
from cda.resources.artifacts import shown_path, shown_target
from cda.resources.llm_access import LlmAccess, Step, llm_access
from cda.results.base import load as load_result
from cda.results.benchmarks import AskedLLM
from cda.results.dose import CalibrationResult
from cda.results.facts import JudgeFacts, PanelFacts, RewardModelFacts, Scorer
from cda.run import fingerprint
from cda.scorers.calibrated import Corrector
from cda.scorers.compared import (
    Compared,
    Comparison,
    PairwiseScorer,
    Preferences,
    Rewards,
    Text,
    TextScorer,
    distinct_texts,
)
from cda.scorers.judge import GradeScorer, LLMJudge
from cda.scorers.own_code import MEMORY, bare_name

Rewarded = tuple[Rewards, RewardModelFacts]


class Judging(PairwiseScorer, Protocol):
    """A PairwiseScorer that counts in `reasons` what is unread, of the last call."""

    @property
    def name(self) -> str: ...
    @property
    def reasons(self) -> Mapping[str, int]: ...


@runtime_checkable
class Pointwise(Protocol):
    """A NamedScorer that rewards single texts."""

    def rewards(self, texts: Sequence[Text]) -> Rewarded:
        """Reward of every distinct text; see `NamedScorer.score`."""
        ...

    def text_scorer(self) -> TextScorer:
        """The scorer itself, its model loaded, for any number of calls without cache and progress bar, before any calibration;
        ModelError as of `score`."""
        ...


@runtime_checkable
class Pairwise(Protocol):
    """A NamedScorer that compares two responses."""

    def preferences(self, comparisons: Sequence[Comparison]) -> tuple[Preferences, JudgeFacts | PanelFacts]:
        """Preferences before any calibration."""
        ...

    def pairwise(self, both_orders: bool = False) -> Judging:
        """The scorer itself; `both_orders`: a preference needs a verdict in each order."""
        ...


@dataclass(frozen=True, slots=True)
class Subject:
    """A model to be scored with, perhaps with an adapter at a dose; its label (`model`; `before` and `after`; `first` and
    `second`) is shown next to the progress bar and in results."""

    label: str
    section: ModelSection
    adapter: Path | None = None
    dose: float = 1.0

    @property
    def name(self) -> str:
        return bare_name(self.section.name_or_path)

    @property
    def unnamed(self) -> bool:
        """It is in memory."""
        return self.section.name_or_path.startswith(MEMORY)

    @property
    def planned(self) -> str:
        """A step of a dry run."""
        return f"{self.label:11} {self.name}{f' with {self.adapter}' if self.adapter else ''}"


@dataclass(frozen=True, slots=True)
class ScorerSettings:
    """Settings and shared state that a run scores with; `llm` is a judge's, with the clients that the run has opened."""

    score: ScoreSection
    run_path: Path
    llm: LlmAccess
    fresh: bool = False
    """What a failed run has kept is not used."""

    @property
    def cache(self) -> Path | None:
        """File of scores: one for all runs that lie in one folder; None if the recipe wants none."""
        if self.score.cache == "none":
            return None
        return user_path(self.score.cache) if self.score.cache else self.run_path.parent / "score-cache.sqlite"

    @property
    def shared_folder(self) -> Path:
        """Folder in which the processes of a launch share scores, for commands that all of them run in the same way."""
        return self.run_path.parent / f".{self.run_path.name}-scoring"


def scorer_settings(loaded: LoadedRecipe) -> ScorerSettings:
    return ScorerSettings(loaded.recipe.score, loaded.recipe.run_path, llm_access(loaded), loaded.fresh)


@dataclass(frozen=True)
class NamedScorer(ABC):
    """A subject with the settings it is scored with; see `open_scorer`.

    `launched`: folder in which processes of a launch share a classifier's scores of the same texts. `together`: those of the texts
    that were once scored as a set, in its order, since below fp32 a classifier's score depends on its batch.
    """

    subject: Subject
    settings: ScorerSettings
    launched: Path | None = None
    together: Sequence[Text] = ()

    elsewhere: ClassVar[Mapping[str, str]] = {}
    """Settings of classifiers alone, to words that name the corresponding settings of this kind."""
    versioned: ClassVar[bool] = False
    """It can change unseen behind its name, so that the user says its version (`score.scorer_version`)."""

    @property
    def section(self) -> ModelSection:
        return self.subject.section

    @property
    def name(self) -> str:
        return self.subject.name

    @property
    def bare(self) -> str:
        return self.section.kind.bare(self.name)

    @property
    def compares(self) -> bool:
        """It compares two responses, and rewards no single one."""
        return self.section.kind.compares

    @property
    def how(self) -> str:
        """What is asked and how, in the words of a plan."""
        return f"in {precision_words(self.section)}"

    def calls(self, n_texts: float) -> float | None:  # noqa: ARG002
        """Calls that scoring these texts takes, as shown while it lasts; None for a model that is loaded here."""
        return None

    def identity(self) -> dict[str, Any]:
        """The settings that say which model it is, as fields of `QualityScoring`."""
        if not self.section.kind.asks_llm:
            return {}
        return {"llm": AskedLLM(model=self.plain_name(), base_url=self.settings.llm.settings.asked.base_url)}

    def plain_name(self) -> str:
        """The scorer's name without its kind and without a path of this machine."""
        return self.bare

    @property
    def public_name(self) -> str:
        """Two parts, as in RewardBench's folders, without a path of this machine. A classifier has organisation (`local` for a
        folder) and name, another scorer its kind and make: `judge/…`, `grade/…` and `log-ratio/…` the model or policy, `served/…`
        address and model, `function/…` module and function."""
        return f"{self.section.kind.name}/{as_folder(self.plain_name())}"

    @property
    def scored_as(self) -> str | None:
        """Fingerprint of the scorer and of all settings that decide its scores; None if nothing tells it from another."""
        return fingerprint([self.source(), self.deciding_settings()])

    def calibration(self) -> CalibrationResult | None:
        """The calibration to be applied (`score.calibration`), if there is one. DataError: no such file, or it was fitted for
        another scorer."""
        file = self.settings.score.calibration
        if file is None:
            return None
        try:
            found = self.settings.llm.opened.once(
                ("calibration", file), lambda: load_result(CalibrationResult, user_path(file), "cda calibrate")
            )
        except DataError as error:
            raise DataError(f"score.calibration: {error}") from None
        if problem := self._not_of_this(found):
            raise DataError(f"score.calibration: {file}: {problem}")
        return found

    def _not_of_this(self, found: CalibrationResult) -> str | None:
        """Why a calibration cannot be applied to this scorer."""
        again = f"run `cda calibrate {self.name}`"
        if self.subject.adapter is not None:
            return f"it was fitted for {found.scorer}, not with the adapter {self.subject.adapter.name}"
        if found.scorer != shown_target(self.name):
            return f"it was fitted for {found.scorer}, and this is {self.name}; {again}"
        if found.scored_as is not None and found.scored_as != self.scored_as:
            return f"it was fitted for {found.scorer} as another version, or asked with another prompt or settings; {again}"
        return None

    @abstractmethod
    def source(self) -> str:
        """Fingerprint of a model's content, a function's code, or a server's address and the models it names."""

    @abstractmethod
    def deciding_settings(self) -> dict[str, Any]:
        """The part of `score.*` that decides the scores; other settings, as of speed, leave a finished stage as it is."""

    @abstractmethod
    def missing(self) -> list[str]:
        """Problems of this kind that can be found before anything is scored; see `problems`."""

    def planned(self, comparisons: Sequence[Comparison]) -> list[Step]:  # noqa: ARG002
        """The LLM calls that these comparisons take, cached answers not deducted; none if no LLM is asked."""
        return []

    def told(self, pair: Pair) -> Iterator[tuple[str, Request]]:  # noqa: ARG002
        """What an LLM is asked of a pair, each with a title; nothing if no LLM is asked."""
        yield from ()

    def read_lines(self) -> list[str]:
        """A line of a plan on how the model reads a text; none of a model that has to be downloaded first, and of other kinds."""
        return []

    def problems(self) -> list[str]:
        """Problems that can be found before anything is scored, none of models on a hub; CdaError for a model that cannot be used."""
        score = self.settings.score
        asked = {"over_length": score.over_length != "cut", "workers": score.workers not in ("auto", 1)}
        problems = self._wrong_version() + [
            f"score.{name}={getattr(score, name)}: of sequence classifiers alone{self.elsewhere.get(name, '')}"
            for name, is_asked in asked.items()
            if is_asked and not self.section.kind.trainable
        ]
        return [*problems, *self.wrong_calibration(), *self.missing()]

    def _wrong_version(self) -> list[str]:
        version = self.settings.score.scorer_version
        if version is None or self.versioned:
            return []
        return [f"score.scorer_version={version}: of a server or a function of your own alone; leave it out"]

    def wrong_calibration(self) -> list[str]:
        """Why the calibration cannot be applied, if it cannot."""
        try:
            self.calibration()
        except DataError as error:
            return [str(error)]
        return []

    def score(self, texts: Sequence[Text]) -> Rewarded:
        """Reward of every distinct text, and the facts of the scoring; CdaError if the model gives no usable rewards of single
        texts."""
        scorer, calibration = self.as_pointwise(), self.calibration()
        rewards, facts = scorer.rewards(texts)
        if not rewards.scored:
            raise DataError(f"{self.name}: none of {facts.texts} texts has a reward; all were too long for it")
        _tell(facts)
        if calibration is None:
            return rewards, facts
        return Corrector(calibration).rewards(rewards, texts), _noted(
            facts, self.settings.score.calibration, calibration
        )

    def as_pointwise(self) -> Pointwise:
        """The same as a scorer of single texts; ModelError if it compares."""
        if self.compares:
            raise ModelError(
                f"{self.name}: compares two answers and gives no reward of single ones, which is needed here"
            )
        assert isinstance(self, Pointwise)
        return self

    def as_pairwise(self) -> Pairwise:
        """The same as a scorer of pairs, which it has to be (`compares`)."""
        assert isinstance(self, Pairwise)
        return self

    def compare(self, comparisons: Sequence[Comparison]) -> tuple[Compared, Scorer]:
        """Margins of all comparisons, and how they came about; errors as in `score`."""
        if not self.compares:
            return self.score(texts_of(comparisons))
        scorer, calibration = self.as_pairwise(), self.calibration()
        preferences, facts = scorer.preferences(comparisons)
        facts = _placed(facts, preferences, comparisons)
        if calibration is None:
            return preferences, facts
        corrected = Corrector(calibration).preferences(preferences, comparisons, facts.orders == "one")
        return corrected, _noted(facts, self.settings.score.calibration, calibration)


def as_folder(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-") or "model"


def precision_words(model: ModelSection) -> str:
    """`model.precision` in the words of a plan."""
    if model.precision == "8bit_on_gpu":
        return f"8bit on a GPU (a byte a weight; model.precision=bf16 takes two, and trained {BF16_SPEED}), on a CPU what suits it"
    return "the precision that suits this machine" if model.precision == "auto" else model.precision


_MOST_SAID = 80
"""Characters of an answer that an error quotes."""
_Facts = TypeVar("_Facts", RewardModelFacts, JudgeFacts, PanelFacts, JudgeFacts | PanelFacts)


def _noted(facts: _Facts, file: str | None, calibration: CalibrationResult) -> _Facts:
    """The facts of a scoring with a note on its calibration."""
    note = (
        f"Calibrated by {shown_path(str(file))} at strength {calibration.strength:g}. On the contrasts that people voted on for "
        "it, numbers flatter it; its own report has those of votes that did not fit it."
    )
    if calibration.strength == 0:
        note = f"score.calibration: {shown_path(str(file))} changes no score: its strength is 0, as no correction was shown to gain."
    say(f"  {note}")
    return facts.model_copy(update={"notes": (*facts.notes, note)})


def _placed(
    facts: JudgeFacts | PanelFacts, preferences: Preferences, comparisons: Sequence[Comparison]
) -> JudgeFacts | PanelFacts:
    """The facts with the shares that the place decided, that agreed when asked again, and that were unread; of a panel also those of
    each judge."""
    found: dict[str, Any] = {
        "by_place": preferences.decided_by_place(comparisons),
        "stability": preferences.repeated_alike(comparisons) if facts.repeats > 1 else None,
        "unread_share": preferences.without_verdict(comparisons),
    }
    if isinstance(facts, PanelFacts):
        found["judges"] = {
            name: _placed(judge, preferences.judges[name], comparisons) for name, judge in facts.judges.items()
        }
    return facts.model_copy(update=found)


def texts_of(comparisons: Sequence[Comparison]) -> list[Text]:
    """Both sides of every comparison."""
    return [(prompt, text) for prompt, first, second in comparisons for text in (first, second)]


def verdict_facts(judge: Judging, name: str, preferences: Preferences) -> JudgeFacts:
    """Facts of any scorer that compares, in both orders or one."""
    return JudgeFacts(
        name=name,
        kind="judge",
        orders="one" if judge.orders.n_flipped is None else "both",
        comparisons=len(preferences.by_comparison),
        unread=judge.orders.n_unread,
        reasons=dict(judge.reasons),
        half_read=judge.orders.n_half_read,
        flipped=judge.orders.n_flipped,
        position_bias=judge.orders.position_bias,
        position=judge.orders.position,
    )


def unread_error(
    asked: LLMJudge | GradeScorer, what: str, of: str, unread: int, n: int, most: float, kept: Path
) -> LLMError:
    """The error of an LLM whose answers hold no `what` (`verdict` or `grade`) on too many of `of`; `kept` is its file of answers."""
    section = "score.judge" if what == "verdict" else "score.grade"
    limit = "" if unread == n else f", more than {section}.max_unread={most:g} allows"
    why = ", ".join(f"{count} × {reason}" for reason, count in asked.reasons.items())
    last = asked.unread_answer.strip().rpartition("\n")[2]
    said = f'; the first of them ends in "{short_lines(last, _MOST_SAID)}"' if last else ""
    return LLMError(
        f"{asked.name}: no readable {what} on {unread} of {n} {of}{limit} ({why}{said}). A prompt that states the form in which this model "
        f"answers can read it ({section}.prompt). Answers and lasting failures are kept in {kept}: "
        f"llm.ask_failures_again=true asks again what was refused, filtered or cut off; an answer without a {what} comes again "
        "until the prompt, the model or llm.seed is another, or the file is moved away"
    )


def has_turns(prompt: Prompt, response: str) -> bool:
    """True if a text holds marks of a chat template."""
    return any(TURNS.search(text) for text in (response, *(message.content for message in prompt)))


def marks_note(texts: Sequence[Text], has_marks: Callable[[Prompt, str], bool]) -> list[str]:
    """A sentence on the texts that would speak to the model in another's turn, if there are any."""
    distinct = distinct_texts(texts).values()
    n_marked = sum(has_marks(*text) for text in distinct)
    return [
        f"{n_marked} of {len(distinct)} texts hold marks of chat templates, such as <|im_end|>. A space was put into each mark, "
        "so that it is read as text and ends no turn."
    ] if n_marked else []  # fmt: skip


def reward_facts(name: str, rewards: Rewards, **facts: Any) -> RewardModelFacts:
    """Facts of a scoring with its counts of texts."""
    return RewardModelFacts(
        name=name,
        kind="reward model",
        texts=len(rewards.by_text),
        truncated=len(rewards.read),
        dropped=len(rewards.dropped),
        cached=rewards.n_cached,
        alike=rewards.n_alike,
        **facts,
    )


def told_cached(n_cached: int, n_texts: int) -> str:
    """Number of scores from before, as part of a line for the terminal."""
    if n_cached < n_texts:
        return f"{n_cached} of {n_texts} texts were scored before"
    return f"all {n_texts} texts were scored before, and no score is new; score.cache=none scores them again"


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
