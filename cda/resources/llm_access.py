"""Access of a run to its LLM: one client a model, one file of answers, one budget, and counts of everything asked."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cda.llm.batch import BatchLLM
from cda.llm.cache import Cache
from cda.llm.cached import CachedLLM
from cda.llm.counted import AnsweredBy, CountedLLM, Tally
from cda.llm.money import Budgeted, Purse
from cda.llm.openai_client import OpenAIClient
from cda.llm.protocol import LLM
from cda.prompts import Prompts, ours
from cda.recipe.load import Consent, LoadedRecipe, Opened
from cda.recipe.schema import LlmSection
from cda.resources.spending import Planned, confirm_all, price_of
from cda.rewriting.labels import asked_labels
from cda.rewriting.rewriter import Labeller


@dataclass(frozen=True, slots=True)
class LlmAccess:
    """Access of a run to its LLM; copies for other models share its clients, counts and budget.

    Attributes:
        cache: File of answers.
        label_again: Further calls for an answer without a readable label.
        opened: The run's clients and counts.
    """

    settings: LlmSection
    cache: Path
    prompts: Prompts = field(default_factory=ours)
    label_again: int = 2
    consent: Consent = "by question"
    opened: Opened = field(default_factory=Opened, compare=False, repr=False)

    def named(self, model: str, **changed: object) -> LlmAccess:
        """The same access to another model, perhaps with other settings."""
        return replace(self, settings=self.settings.model_copy(update={"model": model, **changed}))

    def client(self) -> LLM:
        """The LLM: asks only questions that the cache cannot answer, and stops at the budget.

        One object a run and model, and one purse for all models that share a cache, so that the budget holds over all stages
        together.

        Raises:
            LLMError: The cache cannot be opened.
        """
        return self.opened.once(("llm", self.settings.model_dump_json(), self.cache), self._open)

    def _open(self) -> LLM:
        client, price = llm_client(self.settings), price_of(self.settings)
        self.cache.parent.mkdir(parents=True, exist_ok=True)
        cache = Cache(self.cache, ask_failures_again=self.settings.ask_failures_again)
        if self.settings.mode == "batch":
            llm: LLM = BatchLLM(client, cache, price=price)
        else:
            purse = self.opened.once(("purse", self.cache), Purse)
            budget = self.settings.budget_usd
            llm = CachedLLM(client if price is None else Budgeted(client, price, budget, purse), cache)
        return CountedLLM(llm, _tallies(self.opened).setdefault(client.name, Tally()), price)

    def labeller(self) -> Labeller:
        """Labels of single responses by the LLM."""
        return asked_labels(self.client(), self.label_again, self.prompts.label)

    def answered_notes(self, answered: AnsweredBy) -> list[str]:
        """Sentences for the user if another model answered than the one asked, or than answered before; noted for later runs.

        Raises:
            LLMError: The cache cannot be used.
        """
        settings = llm_client(self.settings).settings
        with Cache(self.cache) as cache:
            earlier = cache.answering_models(settings)
            cache.note_models(settings, answered.models)
        return answered.notes(settings["model"], earlier)

    def confirm(self, planned: Planned) -> None:
        """Print the cost of a step, and ask before money is spent; see `confirm_all`."""
        confirm_all([(self.settings, planned)], self.consent)

    def confirm_all(self, steps: Sequence[tuple[LlmSection, Planned]]) -> None:
        """Print the cost of several steps, and ask once before money is spent; see `spending.confirm_all`."""
        confirm_all(steps, self.consent)


def llm_access(loaded: LoadedRecipe) -> LlmAccess:
    """The access of a recipe's run."""
    recipe = loaded.recipe
    again = recipe.label.ask_again
    return LlmAccess(recipe.llm, recipe.llm_cache, loaded.prompts, again, loaded.consent, loaded.opened)


def llm_counts(opened: Opened) -> dict[str, Tally]:
    """Counts of a run's calls of each model so far, in this process."""
    return {name: replace(tally) for name, tally in _tallies(opened).items()}


def _tallies(opened: Opened) -> dict[str, Tally]:
    return opened.once("tallies", dict)


def llm_client(llm: LlmSection) -> OpenAIClient:
    """The server and model of a recipe, without cache or budget."""
    return OpenAIClient(
        name=llm.model or "",
        base_url=llm.base_url,
        api_key_env=llm.api_key_env,
        concurrency=llm.concurrency,
        requests_per_minute=llm.requests_per_minute,
        tokens_per_minute=llm.tokens_per_minute,
        temperature=llm.temperature,
        max_tokens=llm.max_tokens,
        seed=llm.seed,
        timeout_s=llm.timeout_s,
        retries=llm.retries,
    )


def llm_settings(llm: LlmSection) -> dict[str, Any]:
    """The settings that decide the LLM's answers, with the address if only the environment names it.

    A stage made without `ask_failures_again` is made again if failures are asked again.
    """
    again = {"ask_failures_again"} if llm.ask_failures_again else set()
    settings = llm.model_dump(include={"model", "base_url", "temperature", "seed", "max_tokens"} | again)
    return settings | {"base_url": llm.base_url or os.environ.get("OPENAI_BASE_URL")}
