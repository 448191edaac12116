"""`grade:NAME`: an LLM that grades single answers, as a reward model by its name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

from cda.launch import say
from cda.llm.money import request_tokens
from cda.llm.protocol import LLM
from cda.recipe.sections import bare_name
from cda.resources.llm_access import LlmAccess, Planned, Step, confirm_all, llm_client, llm_problems
from cda.resources.named_scorer import (
    NamedScorer,
    Rewarded,
    has_turns,
    marks_note,
    reward_facts,
    texts_of,
    unread_error,
)
from cda.resources.sources import prompt_name
from cda.scorers.compared import Comparison, Text, distinct_texts
from cda.scorers.engine import score_texts
from cda.scorers.grade import GradeScorer

_ANSWER_TOKENS = {"before": 80, "after": 80, "none": 6}
"""Estimated output of one written grade, by the place of its reasons."""


class Grade(NamedScorer):
    """`grade:NAME`: an LLM that grades single answers."""

    elsewhere: ClassVar = {"workers": "; llm.concurrency says how much an LLM is asked at once"}

    @property
    def access(self) -> LlmAccess:
        return self.settings.llm.named(bare_name(self.name).strip())

    def source(self) -> str:
        return self.name

    def deciding_settings(self) -> dict[str, Any]:
        options = self.settings.score.grade.model_dump(mode="json", exclude={"prompt"})
        return {"grade": options | {"told": self.settings.llm.prompts.grade.model_dump(mode="json")}}

    def missing(self) -> list[str]:
        return llm_problems(self.settings.llm.settings, [bare_name(self.name).strip()])

    def planned(self, comparisons: Sequence[Comparison]) -> list[Step]:
        return self._steps(texts_of(comparisons))

    def _text_scorer(self) -> GradeScorer:
        return self._scorer(self.access.client())

    def rewards(self, texts: Sequence[Text]) -> Rewarded:
        options, told, access = self.settings.score.grade, self.settings.llm.prompts.grade, self.access
        confirm_all(self._steps(texts), access.consent, access.opened)
        scorer = self._scorer(access.client())
        grades = replace(score_texts(scorer, texts), unit="grade")
        unread, n = len(grades.dropped), len(grades.by_text)
        notes = [*access.answered_notes(scorer.answered_by), *marks_note(texts, has_turns)]
        if unread:
            why = ", ".join(f"{count} × {reason}" for reason, count in scorer.reasons.items())
            notes.append(f"{unread} of {n} texts have no readable grade and were left out ({why}).")
        if unread == n or unread > options.max_unread * n:
            for note in notes:  # another model behind the address may be why
                say(f"  {note}")
            raise unread_error(
                scorer.name, "grade", "texts", unread, n, options.max_unread, scorer.reasons, access.cache
            )
        kind = "means of one-token grades" if options.by_token else "written grades"
        prompt = prompt_name(options.prompt, told)
        facts = reward_facts(
            self.name,
            grades,
            how=f"Graded by {scorer.name} from {told.grade.lowest} to {told.grade.highest}, prompt {prompt}, {kind}",
            unit="grade",
            notes=tuple(notes),
            reasons=scorer.reasons,
        )
        return grades, facts.model_copy(update={"dropped": 0, "unread": unread})

    def _scorer(self, llm: LLM) -> GradeScorer:
        options = self.settings.score.grade
        return GradeScorer(
            llm, options.by_token, self.settings.llm.prompts.grade, f"score.grade.prompt: {options.prompt}"
        )

    def _steps(self, texts: Sequence[Text]) -> list[Step]:
        # Without the cache, so that a plan leaves no file behind.
        settings, told = self.access.settings, self.settings.llm.prompts.grade
        scorer = self._scorer(llm_client(settings))
        requests = [scorer.request(*text) for text in distinct_texts(texts).values()]
        if not requests:
            return []
        mean = sum(map(request_tokens, requests)) / len(requests)
        written = told.answer_tokens or _ANSWER_TOKENS[told.reasons]
        return [(settings, Planned("grading single answers", len(requests), mean, 1 if scorer.by_token else written))]
