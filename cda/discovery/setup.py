"""Settings and participants of a discovery, model and judge as functions, and the settings that each stage depends on."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from cda.arrays import FloatArray
from cda.discovery.mined import MinedProposer, PresenceGrouper
from cda.discovery.proposals import LLMGrouper, LLMMutator, LLMProposer
from cda.discovery.rules import RuleMutator
from cda.discovery.search import Grouper, Mutator, PromptSamples, Proposer, Reward, Text
from cda.embedded.model import EMBEDDED_JUDGE
from cda.embedded.rules import RuleRewriter
from cda.errors import DataError, LLMError, ModelError, RecipeError, type_in_words
from cda.files.jsonl import read_text
from cda.files.paths import as_part, user_path
from cda.files.yaml_file import parse_yaml
from cda.launch import say
from cda.llm.protocol import LLM
from cda.recipe.load import LoadedRecipe
from cda.recipe.sections import DiscoverSection, Size
from cda.records import content_id
from cda.resources.llm_access import LlmAccess, llm_access, llm_settings
from cda.resources.named_scorer import NamedScorer, Subject, scorer_settings
from cda.resources.scorers import open_scorer
from cda.resources.sources import prompt_settings, source_fingerprint
from cda.results.discover import CandidateRecord, MaterialCounts, SavedGeneration, SearchSettings
from cda.results.evidence import ConfirmSettings, HeldOutResult, PairQualities, Verdicts
from cda.rewriting.rewriter import LLMRewriter, Rewriter
from cda.run import RunFolder, Stage, file_fingerprint
from cda.scorers.calibrated import Corrector
from cda.scorers.compared import Comparison, Rewards, compare_distinct, text_id

FOLDER = "topics"
"""Folder of the topics' own searches, in that of the run."""
_NAME, _SHOWN = 40, 60
_MAX_TOPIC_CHARACTERS = 2_000


def topic_folder(topic: str) -> str:
    """The name of a topic's folder: its words, and a mark of the whole where they are not all of it.

    >>> topic_folder("home and garden"), topic_folder("Home?")
    ('home-and-garden', 'home-7f9e98')
    """
    plain = re.sub(r"[^a-z0-9]+", "-", topic.lower()).strip("-")[:_NAME].strip("-") or "topic"
    return as_part(plain if topic.replace(" ", "-") == plain else f"{plain}-{content_id(topic)[:6]}")


def reward_of(asked: Asked) -> Reward:
    """The model as a function of texts; NaN for those that are too long for it, of which it may not have read the change."""

    def reward(texts: Sequence[Text]) -> FloatArray:
        scores, _ = asked.scorer().score(texts)
        whole = {name: reward for name, reward in scores.by_text.items() if name not in scores.read}
        return np.array([whole.get(text_id(*text), np.nan) for text in texts])

    return reward


@dataclass
class AskedJudge:
    """The judge as a function of comparisons; counts of the latest call stand in `verdicts` (if it compares) and `n_cut`.

    Verdicts in both orders are averaged; a verdict in one order alone may favour the place, and gives no preference. With
    rewards the sign decides; a truncated text gives no preference, just as it gives no reward in `reward_of`, and is counted
    in `n_cut`.
    """

    asked: Asked
    verdicts: Verdicts | None = field(default=None, init=False)
    n_cut: int = field(default=0, init=False)

    def __call__(self, comparisons: Sequence[Comparison]) -> FloatArray:
        """Preferences for the first text: 1, 0.5 or 0, or between them; NaN for missing ones. Shape (n,)."""
        self.verdicts, self.n_cut = None, 0
        if not comparisons:
            return np.zeros(0)
        scorer = self.asked.scorer()
        if scorer.compares:
            # A comparison counts only if it was read in both orders.
            margins, self.verdicts = _verdicts(scorer, comparisons)
            if (calibration := scorer.calibration()) is not None:
                margins = Corrector(calibration).margins(margins, comparisons)
            return (margins + 1) / 2
        compared, _ = scorer.compare(comparisons)
        preferences = compared.margins(comparisons)
        if isinstance(compared, Rewards):
            preferences = np.sign(preferences)
            cut = [any(text_id(prompt, text) in compared.read for text in texts) for prompt, *texts in comparisons]
            preferences[cut] = np.nan
            self.n_cut = sum(cut)
            if self.n_cut:
                say(f"  {self.n_cut} comparisons without a preference: the judge has read a side in part only")
        return np.asarray((preferences + 1) / 2, dtype=np.float64)


def _verdicts(scorer: NamedScorer, comparisons: Sequence[Comparison]) -> tuple[FloatArray, Verdicts]:
    """Preferences for the first text, −1 to 1, without a message on costs, which was printed for the whole discovery.

    LLMError or ModelError if not one can be read in both orders.
    """
    judge = scorer.as_pairwise().pairwise(both_orders=True)
    compared = compare_distinct(judge, comparisons)
    why = ", ".join(f"{count} × {reason}" for reason, count in judge.reasons.items())
    if judge.orders.n_unread or judge.orders.n_half_read or why:
        say(
            f"  {judge.orders.n_unread} comparisons without a readable verdict, {judge.orders.n_half_read} with one in one "
            f"order alone, which does not count{f' ({why})' if why else ''}"
        )
    margins = compared.margins(comparisons)
    if np.isnan(margins).all():
        error = LLMError if scorer.section.kind.asks_llm else ModelError
        raise error(
            f"{judge.name}: no verdict readable in both orders on any of {len(comparisons)} comparisons ({why or 'NaN'})"
        )
    return margins, Verdicts(
        asked=len(compared.by_comparison),
        unread=judge.orders.n_unread,
        reasons=dict(judge.reasons),
        half_read=judge.orders.n_half_read,
        flipped=judge.orders.n_flipped or 0,
        position_bias=judge.orders.position_bias,
    )


RULE_SHARES = (1.0, 0.75, 0.5)
"""Without an LLM: the rules at every place, at most of them, at half of them. One rule engine is one rewriter: agreement of
these is no evidence that another one would agree."""
# 5x16 and 1 (best of 320) are those of "Automatically Finding Reward Model Biases", whose appendix C.3 prints the sizes; 3x8 and the
# prompts of 1 stand in a launch script of its released code. All but small try at most 320 candidates: 3x8-wide and 1-proposals, ours, by more proposals.
SIZES: dict[Size, SearchSettings] = {
    "5x16": SearchSettings(populations=(64, 16, 16, 16, 16, 10), prompts=(16, 32, 32, 32, 32)),
    "3x8": SearchSettings(populations=(64, 16, 16, 10), prompts=(16, 32, 32), mutations=8),
    "1": SearchSettings(populations=(64, 10), prompts=(32,), variations=4),
    "3x8-wide": SearchSettings(populations=(256, 8, 8, 10), prompts=(16, 32, 32)),
    "1-proposals": SearchSettings(populations=(320, 10), prompts=(32,)),
    "small": SearchSettings(populations=(48, 12, 12, 10), prompts=(16, 24, 24)),
}
_EACH_BY_RULES = 4
"""Responses to a held-out prompt: rewriting costs nothing, and prompts are few."""
_WARM = 1.0
"""Temperature of outputs that must vary: prompts, responses, proposals, mutations."""
_TOPICS = {"by_topic", "only_topics", "min_topic_prompts"}
_MATERIAL = {
    "responses", "columns", "split", "prompts", "topics", "scenarios", "prompts_each", "policies", "samples",
    "max_response_tokens", "parts",
}  # fmt: skip
_CONFIRM = {
    "max_validation", "max_test", "validation_alpha", "test_alpha", "correct", "required_rewriters", "max_failed",
    "removing",
}  # fmt: skip
# The last are part of the prompt, whose content is a separate setting.
_NO_ANSWERS: dict[str, Any] = {
    "workers": True, "cache": True, "self_check": True, "judge": {"prompt", "reasons", "orders", "panel"},
}  # fmt: skip
HeldOutStage = Literal["validate", "confirm", "carried"]
_COUNTING = 3
"""Version of the counts of rewrites, verdicts and tests; a new one makes confirmed results anew."""


@dataclass(frozen=True, slots=True)
class Setup:
    """The settings of a discovery, its access to an LLM, and the seed of everything drawn."""

    section: DiscoverSection
    llm: LlmAccess
    seed: int

    @property
    def by_llm(self) -> bool:
        """True if an LLM proposes and rewrites, False if rules do."""
        return self.llm.settings.used_for(self.section.by)

    @property
    def policies(self) -> list[str]:
        return self.section.policies or [self.llm.settings.model or ""]

    @property
    def asks_about_pairs(self) -> bool:
        """True if an LLM looks at the rewrites of confirmed attributes."""
        return self.by_llm and self.section.pair_quality

    @property
    def responses_each(self) -> int:
        """Responses to each held-out prompt that are rewritten."""
        return self.section.responses_each or (1 if self.by_llm else _EACH_BY_RULES)

    @property
    def search(self) -> SearchSettings:
        """The size of the search: the named one, or the given populations, with the given numbers of variations."""
        section = self.section
        size = SIZES[section.size or ("5x16" if self.by_llm else "small")]
        if section.populations is not None and section.batches is not None:
            size = SearchSettings(populations=tuple(section.populations), prompts=tuple(section.batches))
        removes = not self.by_llm if section.removing is None else section.removing
        named = {"mutations", "variations", "reward_cut", "judge_cut", "families"}
        changed = section.model_dump(include=named, exclude_none=True)
        directions = ("add", "remove") if removes else ("add",)
        return size.model_copy(update={**changed, "directions": directions, "seed": self.seed})

    @property
    def strictness(self) -> ConfirmSettings:
        shared = {"validation_alpha", "test_alpha", "correct", "max_failed"}
        return ConfirmSettings(r=self.section.required_rewriters, **self.section.model_dump(include=shared))

    def warm_llm(self, model: str | None = None, max_tokens: int | None = None) -> LLM:
        """An LLM whose answers vary."""
        settings = self.llm.settings
        tokens = max_tokens or settings.max_tokens
        return self.llm.named(model or settings.model or "", temperature=_WARM, max_tokens=tokens).client()

    def proposer(self) -> Proposer:
        return LLMProposer(self.warm_llm()) if self.by_llm else MinedProposer()

    def mutator(self) -> Mutator:
        return LLMMutator(self.warm_llm()) if self.by_llm else RuleMutator()

    def grouper(self, samples: Sequence[PromptSamples]) -> Grouper:
        """The LLM; without one, the effect of rules on the responses."""
        if not self.by_llm:
            return PresenceGrouper([response.text for sample in samples for response in sample.responses])
        return LLMGrouper(self.llm.client())

    def rewriters(self) -> list[Rewriter]:
        """The first one searches, all of them confirm."""
        if not self.by_llm:
            return [RuleRewriter(self.seed + n, share=share) for n, share in enumerate(RULE_SHARES)]
        told = self.llm.prompts.rewrite
        return [LLMRewriter(self.llm.named(name).client(), told=told) for name in self.section.rewriters]

    @property
    def rewriter_names(self) -> list[str]:
        """The names of the rewriters, without a client, which would leave a file of answers behind."""
        return list(self.section.rewriters) if self.by_llm else [rewriter.name for rewriter in self.rewriters()]

    def problems(self) -> list[str]:
        """Settings that do not go together with having or lacking an LLM, or that another setting makes pointless."""
        section, llm = self.section, self.llm.settings.model
        problems = []
        if self.by_llm:
            if llm is None:
                problems.append("discover.by is llm, but llm.model is not set")
            if len(set(section.rewriters)) < 2:
                problems.append(
                    "discover.rewriters: findings are confirmed with two rewriters or more; name the models, such as "
                    "'discover.rewriters=[gpt-5-mini, claude-haiku-4.5, grok-4.1-fast]'"
                )
            return problems + _unused(section)
        why = "needs an LLM (llm.model=...)" if llm is None else f"asks an LLM, but discover.by is {section.by}"
        if section.required_rewriters > len(RULE_SHARES):
            problems.append(
                f"discover.required_rewriters is {section.required_rewriters}: without an LLM there is one rule engine at "
                f"{len(RULE_SHARES)} strengths; require no more than these"
            )
        return problems + [
            f"discover.{name}: {why}; without one, responses come from discover.responses"
            for name in ("policies", "rewriters", "prompts", "topics")
            if getattr(section, name)
        ]


def _unused(section: DiscoverSection) -> list[str]:
    if section.responses is not None:
        names, why = ["policies", "prompts", "topics"], "discover.responses, which gives the answers"
    elif section.prompts is not None:
        names, why = ["topics"], "discover.prompts, which gives them"
    else:
        return []
    told = f"has no effect with {why}; leave one of them out"
    return [f"discover.{name}: {told}" for name in names if getattr(section, name)]


def setup_of(loaded: LoadedRecipe) -> Setup:
    return Setup(loaded.recipe.discover, llm_access(loaded), loaded.recipe.seed)


@dataclass(frozen=True, slots=True)
class Asked:
    """A subject and the settings it is asked with, which for a judge name another LLM."""

    subject: Subject
    loaded: LoadedRecipe

    def scorer(self) -> NamedScorer:
        return open_scorer(self.subject, scorer_settings(self.loaded))

    def settings(self) -> dict[str, object]:
        recipe, subject = self.loaded.recipe, self.subject
        calibration = recipe.score.calibration
        settings: dict[str, object] = {
            "model": subject.section.model_dump(mode="json", exclude={"preset", "precision", "dequantize_once"}),
            "dose": subject.dose if subject.adapter else None,
            "score": recipe.score.model_dump(mode="json", exclude=_NO_ANSWERS)
            | {"calibration": calibration and source_fingerprint(calibration)},
        }
        if subject.section.kind.asks_llm:
            settings |= {"llm": llm_settings(recipe.llm), "prompts": prompt_settings(self.loaded.prompts, "judge")}
        return settings

    def uncalibrated(self) -> Asked:
        """The same without `score.calibration`."""
        recipe = self.loaded.recipe
        score = recipe.score.model_copy(update={"calibration": None})
        return replace(self, loaded=replace(self.loaded, recipe=recipe.model_copy(update={"score": score})))

    def source(self) -> str:
        """Fingerprint of the model, and of its adapter."""
        source, adapter = self.scorer().source(), self.subject.adapter
        return source if adapter is None else f"{source}+{file_fingerprint(adapter)}"


@dataclass(frozen=True, slots=True)
class AskedSearch:
    """A discovery as it is asked for: a model and the judge that it is compared with; and the settings of each stage."""

    loaded: LoadedRecipe
    model: Asked
    judge: Asked
    topic: str | None = None
    """The topic that is searched by itself, in its own folder; None for all prompts together."""

    @property
    def setup(self) -> Setup:
        return setup_of(self.loaded)

    @property
    def folder(self) -> RunFolder:
        path = self.loaded.recipe.run_path
        return RunFolder(path if self.topic is None else path / FOLDER / topic_folder(self.topic))

    def confirmed(self) -> AskedSearch:
        """The same after its costs were agreed to, once for all of it."""
        model, judge = (
            replace(each, loaded=replace(each.loaded, consent="given")) for each in (self.model, self.judge)
        )
        return AskedSearch(replace(self.loaded, consent="given"), model, judge)

    def material_stage(self) -> Stage:
        setup, section = self.setup, self.setup.section
        if self.topic is not None:
            whole = RunFolder(self.loaded.recipe.run_path).output_of("material")
            schema = MaterialCounts.current_schema()
            return Stage("material", {"topic": self.topic, "schema_version": schema}, {"material": whole})
        settings = {
            # Without topics as it was before there were any, so that earlier material is used again.
            "discover": section.model_dump(mode="json", include=_MATERIAL | (_TOPICS if section.by_topic else set())),
            "schema_version": MaterialCounts.current_schema(),
            "model": self.model.settings(),
            "seed": setup.seed,
        }
        if setup.by_llm:
            settings["llm"] = llm_settings(setup.llm.settings)
        files = {name: getattr(section, name) for name in ("responses", "prompts", "topics")}
        inputs = {"model": self.model.source()} | {
            name: source_fingerprint(value)
            for name, value in files.items()
            if value is not None and not value.startswith("embedded")
        }
        return Stage("material", settings, inputs)

    def search_stage(self) -> Stage:
        setup = self.setup
        settings = {
            "search": setup.search.model_dump(),
            "schema_version": SavedGeneration.current_schema(),
            "by": "llm" if setup.by_llm else "rules",
            "rewriter": setup.rewriters()[0].name,
        }
        return self._judged_stage("search", settings)

    def held_out_stage(self, name: HeldOutStage, tested: Sequence[CandidateRecord]) -> Stage:
        """These candidates, all rewriters."""
        setup = self.setup
        settings = {
            "discover": setup.section.model_dump(mode="json", include=_CONFIRM),
            "responses_each": setup.responses_each,
            "rewriters": [rewriter.name for rewriter in setup.rewriters()],
            "candidates": [candidate.id for candidate in tested],
            "counting": _COUNTING,
            "schema_version": HeldOutResult.current_schema(),
        }
        return self._judged_stage(name, settings)

    def pairs_stage(self, candidates: Sequence[CandidateRecord]) -> Stage:
        """The rewrites of the confirmation, and who looks at them."""
        asked = self.setup.asks_about_pairs
        settings = {
            "candidates": [candidate.id for candidate in candidates],
            "asked": asked,
            "schema_version": PairQualities.current_schema(),
            "seed": self.setup.seed,
        }
        settings |= self._asked_llm("label") if asked else {}
        return Stage("pairs", settings, {"confirm": self.folder.output_of("confirm")})

    def _judged_stage(self, name: str, settings: Mapping[str, object]) -> Stage:
        settings = {**settings, "judge": self.judge.settings(), "seed": self.setup.seed}
        settings |= self._asked_llm("rewrite") if self.setup.by_llm else {}
        return Stage(name, settings, {"material": self.folder.output_of("material"), "judge": self.judge.source()})

    def _asked_llm(self, kind: Literal["label", "rewrite"]) -> dict[str, object]:
        llm = self.setup.llm
        return {"llm": llm_settings(llm.settings), "prompts": prompt_settings(llm.prompts, kind)}


def judge_subject(loaded: LoadedRecipe, before: Subject | None = None) -> Asked:
    """The scorer that the model is compared with: the recipe's choice, or the model before its adapter.

    RecipeError if the choice cannot be asked.
    """
    recipe = loaded.recipe
    name = recipe.discover.judge
    if name is None and before is not None:
        return Asked(replace(before, label="judge"), loaded)
    if name is None:
        name = f"judge:{recipe.llm.model}" if setup_of(loaded).by_llm else EMBEDDED_JUDGE
    section = recipe.model.model_copy(update={"name_or_path": name, "revision": None, "trust_remote_code": False})
    if section.kind.asks_llm:
        first, *others = section.llms
        if others:
            raise RecipeError([f"{name}: a panel of judges; a discovery is held against one, such as judge:{first}"])
        loaded = replace(loaded, recipe=recipe.model_copy(update={"llm": recipe.llm.named(first)}))
    return Asked(Subject("judge", section), loaded)


def for_its_scorer(asked: Sequence[Asked]) -> list[Asked]:
    """The same, with `score.calibration` for those alone that it was fitted for. DataError: it was fitted for none of them."""
    wrong = [each.scorer().wrong_calibration() for each in asked]
    if all(wrong):
        raise DataError("\n".join(dict.fromkeys(problem for problems in wrong for problem in problems)))
    return [each.uncalibrated() if problems else each for each, problems in zip(asked, wrong, strict=True)]


def own_topics() -> tuple[str, ...]:
    """The twenty topics of the package: common use, and situations that put an assistant under some pressure."""
    return load_topics(Path(__file__).parent / "topics.yaml")


def load_topics(path: Path) -> tuple[str, ...]:
    """Topics of a file, each once, in order: a YAML list, or else one a line, without blank lines and `#` comments.

    DataError if it is missing, not UTF-8, without a topic, or with an entry that is none; RecipeError if it is not valid YAML.
    """
    text, is_yaml = read_text(path), path.suffix.lower() in (".yaml", ".yml")
    if is_yaml:
        content = parse_yaml(text, str(path))
        listed: object = [] if content is None else content
        if not isinstance(listed, list):
            raise DataError(
                f"{path}: a list of topics is needed (`- <topic>` on each line), found {type_in_words(content)}"
            )
        entries = [(f"{path}: topic {number}", entry) for number, entry in enumerate(listed, 1)]
    else:
        lines = [(number, line.strip()) for number, line in enumerate(text.split("\n"), 1)]
        entries = [(f"{path}:{number}", line) for number, line in lines if line and not line.startswith("#")]
    for where, topic in entries:
        if not isinstance(topic, str) or not topic.strip():
            raise DataError(f"{where} is not a text but {topic!r:.60}; put quotation marks around it")
        if len(topic) > _MAX_TOPIC_CHARACTERS:
            raise DataError(
                f"{where}: {len(topic):,} characters; a topic is a summary of at most {_MAX_TOPIC_CHARACTERS:,} in a sentence or two"
            )
    topics = tuple(dict.fromkeys(topic.strip() for _, topic in entries))
    if not topics:
        form = "`- <topic>` on each line" if is_yaml else "one topic on each line"
        raise DataError(f"{path}: no topic; write {form}, such as 'Plans for trips with a tight budget'")
    return topics


def topics_to_write(section: DiscoverSection) -> Sequence[str]:
    return own_topics() if section.topics is None else load_topics(user_path(section.topics))
