"""`judge:NAME` and `judge:NAME,NAME`: an LLM that compares two answers, or a panel of several."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np

from cda.errors import LLMError, ModelError
from cda.launch import say
from cda.llm.money import request_tokens
from cda.recipe.load import LoadedRecipe
from cda.recipe.schema import ModelSection
from cda.recipe.scoring import JudgeSection, Kind, judges_of
from cda.resources.llm_access import LlmAccess, llm_access, llm_client
from cda.resources.scorer_kinds import (
    ALONE,
    Classifier,
    Function,
    Launch,
    LogRatio,
    NamedScorer,
    Rewarded,
    Served,
    Subject,
    has_turns,
    marks_note,
    texts_of,
    verdict_facts,
)
from cda.resources.sources import prompt_name
from cda.resources.spending import Planned
from cda.results.facts import JudgeFacts, PanelFacts, Scorer
from cda.scorers.compared import Compared, Comparison, Preferences, Text, as_panel, compare_distinct
from cda.scorers.judge import LLMJudge

_VERDICT_TOKENS = {"before": 80, "after": 80, "none": 6}
"""Output of one written verdict, estimated, by where its reasons stand."""


class Judge(NamedScorer):
    """An LLM judge, or a panel of several."""

    elsewhere: ClassVar = {"workers": "; llm.concurrency says how much a judge is asked at once"}

    def source(self) -> str:
        return self.section.name_or_path

    def settings(self) -> dict[str, object]:
        # The prompt's content holds the place of reasons and the orders, whoever has set them.
        options = self.loaded.recipe.score.judge.model_dump(mode="json", exclude={"prompt", "reasons", "orders"})
        return {"judge": options | {"told": self.loaded.prompts.judge.model_dump(mode="json")}}

    def missing(self) -> list[str]:
        return llm_client(self.loaded.recipe.llm).check()

    def rewards(self, subject: Subject, texts: Sequence[Text], launch: Launch) -> Rewarded:  # noqa: ARG002
        raise ModelError(
            f"{subject.name}: compares two answers and gives no reward of single ones, which is needed here"
        )

    def compare(
        self,
        subject: Subject,
        comparisons: Sequence[Comparison],
        launch: Launch = ALONE,  # noqa: ARG002
    ) -> tuple[Compared, Scorer]:
        judges, options, llm = judges_of(subject.name), self.loaded.recipe.score.judge, llm_access(self.loaded)
        if len(judges) == 1:
            return _judged(subject.name, comparisons, options, llm)
        return _judged_by_panel(subject.name, judges, comparisons, options, llm)


def _judged(
    name: str, comparisons: Sequence[Comparison], options: JudgeSection, llm: LlmAccess
) -> tuple[Preferences, JudgeFacts]:
    judge = _judge(options, llm)
    llm.confirm(_judging(judge, comparisons))
    return _verdicts(judge, name, comparisons, options, llm)


def _judged_by_panel(
    panel_name: str, names: Sequence[str], comparisons: Sequence[Comparison], options: JudgeSection, llm: LlmAccess
) -> tuple[Preferences, PanelFacts]:
    """Every judge asked by itself, agreed to at once; the mean of those who gave a verdict stands for all."""
    llms = {name: llm.named(name) for name in names}
    judges = {name: _judge(options, llms[name]) for name in names}
    llm.confirm_all([(llms[name].settings, _judging(judge, comparisons)) for name, judge in judges.items()])
    found = {name: _verdicts(judge, name, comparisons, options, llms[name]) for name, judge in judges.items()}
    panel = as_panel({name: preferences for name, (preferences, _) in found.items()})
    verdicts = np.array([list(preferences.by_comparison.values()) for preferences, _ in found.values()])
    n_given = (~np.isnan(verdicts)).sum(axis=0)
    each = {name: facts for name, (_, facts) in found.items()}
    first = each[names[0]]
    return panel, PanelFacts(
        name=panel_name,
        kind="judge",
        orders=first.orders,
        verdicts=first.verdicts,
        prompt=first.prompt,
        verdict_reasons=first.verdict_reasons,
        comparisons=len(panel.by_comparison),
        unread=int((n_given == 0).sum()),
        notes=tuple(dict.fromkeys(note for facts in each.values() for note in facts.notes)),
        partly_judged=int(((n_given > 0) & (n_given < len(names))).sum()),
        judges=each,
    )


def _judge(options: JudgeSection, llm: LlmAccess) -> LLMJudge:
    return LLMJudge(llm.client(), ties=options.ties, by_token=options.by_token, told=llm.prompts.judge)


def _judging(judge: LLMJudge, comparisons: Sequence[Comparison]) -> Planned:
    """The calls that the comparisons need."""
    distinct = list(dict.fromkeys(comparisons))
    mean = sum(request_tokens(judge.request(*one)) for one in distinct) / len(distinct)
    said = 1 if judge.by_token else _VERDICT_TOKENS[judge.told.reasons]
    one_order = judge.told.orders == "one"
    n, orders = (len(distinct), "one order") if one_order else (2 * len(distinct), "both orders")
    return Planned(f"judging, each in {orders}", n, mean, said)


def _verdicts(
    judge: LLMJudge, name: str, comparisons: Sequence[Comparison], options: JudgeSection, llm: LlmAccess
) -> tuple[Preferences, JudgeFacts]:
    """What a judge says, once what it costs is agreed to."""
    told = judge.told
    preferences = compare_distinct(judge, comparisons)
    unread, asked = judge.orders.n_unread, len(preferences.by_comparison)
    # Before a failure too: another model behind the address may be why.
    notes = [*llm.answered_notes(judge.answered_by), *marks_note(texts_of(comparisons), has_turns)]
    for note in notes:
        say(f"  {note}")
    if unread == asked or unread > options.max_unread * asked:
        why = ", ".join(f"{count} × {reason}" for reason, count in judge.reasons.items())
        most = "" if unread == asked else f", more than score.judge.max_unread={options.max_unread:g} allows"
        raise LLMError(
            f"{judge.name}: no readable verdict on {unread} of {asked} comparisons{most} ({why}). Answers and lasting failures "
            f"are kept in {llm.cache}: llm.ask_failures_again=true asks again what was refused, filtered or cut off; "
            "an answer without a verdict comes again until the prompt, the model or llm.seed is another, or the file is moved "
            "away"
        )
    return preferences, verdict_facts(judge, name, preferences).model_copy(
        update={
            "answered_by": judge.answered_by.models,
            "notes": tuple(notes),
            "verdicts": "by token" if options.by_token else "written",
            "prompt": prompt_name(options.prompt, told),
            "verdict_reasons": "none" if options.by_token else told.reasons,
        }
    )


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
    return KINDS[section.kind](section, loaded)


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
    folder = loaded.recipe.run_path
    return folder.parent / f".{folder.name}-scoring"
