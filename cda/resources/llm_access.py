"""Access of a run to its LLM: one client a model, one file of answers, one budget, counts of everything asked, and consent to its cost."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cda.errors import LLMError, RunError, SpendingError
from cda.files.paths import own_folder
from cda.files.reads import asked_name, note_answering
from cda.launch import say
from cda.llm.batch import BatchLLM
from cda.llm.cache import Cache, CachedLLM
from cda.llm.money import Account, Agreed, CountedLLM, Price, Tally, listed_on
from cda.llm.openai_client import OpenAIClient
from cda.llm.protocol import LLM
from cda.llm.purse import FOLDER, Purse
from cda.prompts import Prompts, ours
from cda.recipe.load import Consent, LoadedRecipe, Opened
from cda.recipe.schema import LlmSection
from cda.report.next_step import COLUMNS
from cda.report.numbers import duration
from cda.resources.dry_run import only_noted
from cda.rewriting.labels import asked_labels
from cda.rewriting.rewriter import Labeller
from cda.run import RunFolder

_PURSE, _AGREED = "purse", "agreed"
_SECONDS_PER_CALL = 5.0
_OF_THE_CLIENT = {
    "base_url", "api_key_env", "concurrency", "requests_per_minute", "tokens_per_minute", "temperature", "max_tokens", "seed",
    "timeout_s", "retries",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class LlmAccess:
    """Access of a run to its LLM; copies for other models share its clients, counts and budget."""

    settings: LlmSection
    cache: Path
    """File of answers."""
    run_folder: Path
    """Folder that the purse is kept in, so that the budget holds for all starts."""
    prompts: Prompts = field(default_factory=ours)
    label_again: int = 2
    """Further calls for an answer without a readable label."""
    consent: Consent = "by question"
    opened: Opened = field(default_factory=Opened, compare=False, repr=False)

    def named(self, model: str, **changed: object) -> LlmAccess:
        return replace(self, settings=self.settings.model_copy(update={"model": model, **changed}))

    def client(self) -> LLM:
        """The LLM, which asks only what the cache cannot answer; one object a run and model, and one purse for all models, as the
        budget holds over all stages. LLMError: cache or purse cannot be opened."""
        return self.opened.once(("llm", self.settings.model_dump_json(), self.cache), self._open)

    def _open(self) -> LLM:
        price, account = price_of(self.settings), None
        if price is not None:
            kept = self.opened.once(_PURSE, lambda: Purse(own_folder(self.run_folder / FOLDER)))
            account = Account(price, self.settings.budget_usd, kept)
        agreed = None if _is_free(self.settings) else agreed_calls(self.opened)
        client = llm_client(self.settings, account, agreed)
        self.cache.parent.mkdir(parents=True, exist_ok=True)
        cache = Cache(self.cache, ask_failures_again=self.settings.ask_failures_again, asked=client.settings)
        llm: LLM = CachedLLM(client, cache)
        if self.settings.mode == "batch":
            purse = account.purse if account else Purse()
            budget = self.settings.budget_usd
            llm = BatchLLM(client, cache, price=price, purse=purse, budget_usd=budget, resubmit=self._may_resubmit)
        return CountedLLM(llm, _tallies(self.opened).setdefault(client.name, Tally()), price, agreed)

    def _may_resubmit(self, why: str) -> bool:
        """The setting, or else the word of a user at a terminal: agreement to the cost of a step is none to paying twice."""
        if self.settings.resubmit or self.consent == "by budget" or not sys.stdin.isatty():
            return self.settings.resubmit
        say(f"  {why}.")
        return _agreed("Send them again?")

    def labeller(self) -> Labeller:
        return asked_labels(self.client(), self.label_again, self.prompts.label)

    def confirm(self, planned: Planned) -> None:
        """Print the cost of a step, and ask before money is spent; see `confirm_all`."""
        confirm_all([(self.settings, planned)], self.consent, self.opened)


def llm_access(loaded: LoadedRecipe) -> LlmAccess:
    recipe, again = loaded.recipe, loaded.recipe.label.ask_again
    return LlmAccess(
        recipe.llm, recipe.llm_cache, recipe.run_path, loaded.prompts, again, loaded.consent, loaded.opened
    )


def llm_counts(opened: Opened) -> dict[str, Tally]:
    """Counts of a run's calls of each model so far, in this process."""
    return {name: replace(tally) for name, tally in _tallies(opened).items()}


def note_models(loaded: LoadedRecipe, folder: RunFolder) -> None:
    """Note which models answer now to the names that were asked for finished stages, as the file of answers knows it of all runs: a
    stage of another model's answers is made again."""
    access = llm_access(loaded)
    reads = [name for file in folder.path.glob("*/stage.json") for name in folder.record(file.parent.name).reads]
    known: dict[str, set[str]] = {}
    for asked in {asked for name in reads if (asked := asked_name(name))} if access.cache.exists() else ():
        with suppress(LLMError), Cache(access.cache, asked=llm_client(access.named(asked).settings).settings) as cache:
            known |= {asked: models} if (models := cache.answering()) else {}
    note_answering(known)


def agreed_calls(opened: Opened) -> Agreed:
    """Calls that were agreed to in a run."""
    return opened.once(_AGREED, Agreed)


def _tallies(opened: Opened) -> dict[str, Tally]:
    return opened.once("tallies", dict)


def llm_client(llm: LlmSection, account: Account | None = None, agreed: Agreed | None = None) -> OpenAIClient:
    """The server and model of a recipe, without cache."""
    settings = llm.asked.model_dump(include=_OF_THE_CLIENT)
    return OpenAIClient(name=llm.model or "", at=llm.endpoint, account=account, agreed=agreed, **settings)


def llm_problems(llm: LlmSection, models: Iterable[str]) -> list[str]:
    """Problems before any of these models can be asked, once for each endpoint; a plan needs no key."""
    by_endpoint = {named.endpoint: named for named in map(llm.named, reversed([*models]))}
    clients = [llm_client(named) for named in reversed(by_endpoint.values())]
    return [
        *(problem for client in clients for problem in client.missing_key() if not only_noted(problem)),
        *(problem for client in clients for problem in client.wrong_address()),
    ]


def asked_at(llm: LlmSection) -> str | None:
    """The further endpoint at which the model is asked, with its address; None: it is asked at `llm.base_url`."""
    return llm.endpoint and f"{llm.endpoint} ({llm.asked.base_url})"


def llm_settings(llm: LlmSection) -> dict[str, Any]:
    """The settings that decide the LLM's answers, with the address if only the environment names it. A stage made without
    `ask_failures_again` is made again if failures are asked again."""
    again = {"ask_failures_again"} if llm.ask_failures_again else set()
    settings = llm.model_dump(include={"model", "base_url", "temperature", "seed", "max_tokens"} | again)
    further = {name: endpoint.base_url for name, endpoint in llm.endpoints.items()}
    settings |= {"endpoints": further} if further else {}
    return settings | {"base_url": llm.base_url or os.environ.get("OPENAI_BASE_URL")}


def share_purse(loaded: LoadedRecipe, purse: Purse | None, agreed: Agreed | None = None) -> None:
    """Let a run pay from this purse, so that its budget holds for all runs that do, and count its calls with those that were agreed
    to for all. To be called before anything is asked."""
    if purse is not None:
        loaded.opened.once(_PURSE, lambda: purse)
    if agreed is not None:
        loaded.opened.once(_AGREED, lambda: agreed)


@dataclass(frozen=True, slots=True)
class Planned:
    """Calls that a step such as `labelling jargon` is about to make, without repeats; tokens are estimated means of a call."""

    what: str
    calls: int
    input_tokens: float
    output_tokens: float


Step = tuple[LlmSection, Planned]
"""Calls with the settings of the LLM that is asked."""


def cost_sentence(planned: Planned, llm: LlmSection) -> str:
    cost = _dollars(planned, llm)
    tokens = f"about {planned.input_tokens:,.0f} tokens in and {planned.output_tokens:,.0f} out each"
    dollars = (
        f"no price of {llm.model} is given ({llm_client(llm).section}.prices), so no cost can be told"
        if cost is None
        else f"about ${cost:,.2f}{'' if llm.asked.model in llm.asked.prices else f' at the list price of {listed_on()}'}"
    )
    time = (
        "within a day"
        if llm.mode == "batch"
        else f"about {duration(_seconds(planned, llm))} at {_SECONDS_PER_CALL:g} s a call"
    )
    calls = f"about {planned.calls:,} calls of {llm.model}, more where answers have to be asked for again"
    return f"{planned.what}: {calls}; {tokens}: {dollars}, {time}"


def tell_costs(steps: Sequence[Step]) -> float | None:
    """Print the cost of several steps, cached answers not deducted, and their sum, which is returned; None if a price is unknown."""
    for line in cost_lines(steps):
        say(textwrap.fill(line, COLUMNS, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False))
    dollars = [_dollars(planned, llm) for llm, planned in steps]
    return None if None in dollars else sum(cost or 0.0 for cost in dollars)


def cost_lines(steps: Sequence[Step]) -> list[str]:
    """The cost of several steps in words, and their sum."""
    lines = [f"  {cost_sentence(planned, llm)}" for llm, planned in steps]
    dollars = [_dollars(planned, llm) for llm, planned in steps]
    total = sum(cost or 0.0 for cost in dollars)
    if len(steps) > 1 and total:
        n = dollars.count(None)
        unpriced = f", and {n} {'step' if n == 1 else 'steps'} without a price" if n else ""
        lines.append(f"  in all about ${total:,.2f}{unpriced}")
    return lines


def plan_lines(steps: Sequence[Step]) -> list[str]:
    """The cost of LLM calls as the last steps of a dry run's plan; none if nothing is asked."""
    steps = [step for step in steps if step[1].calls]
    _check_reachable(steps)
    lines = cost_lines(steps)
    return [f"{'' if at else 'llm':12}{line.strip()}" for at, line in enumerate(lines)]


def confirm_all(steps: Sequence[Step], consent: Consent, opened: Opened) -> None:
    """Print the cost of several steps, and ask once before money is spent; not if all prices are zero, if none is known of the user's
    own server (llm.base_url), with --yes, or for no calls; calls beyond them ask again (`opened` counts). RunError: declined, nobody to ask, or a batch beyond the budget.
    SpendingError: from Python, without an agreement or a budget that is large enough."""
    steps = [(llm, planned) for llm, planned in steps if planned.calls]
    dollars = tell_costs(steps)
    _check_batches(steps)
    is_agreed = consent == "given" or all(_is_free(llm) for llm, _ in steps)
    if consent == "by budget" and not is_agreed:
        _check_budget(steps, dollars)
        is_agreed = True
    _check_reachable(steps)
    if is_agreed:
        return
    agreed_calls(opened).plan(sum(planned.calls for llm, planned in steps if not _is_free(llm)))
    if not sys.stdin.isatty():
        what = steps[0][1].what if len(steps) == 1 else f"{len(steps)} steps"
        raise RunError(f"{what} would spend money, and there is no terminal to ask. Agree beforehand with --yes")
    if not _agreed("Go on?"):
        raise RunError("nothing was spent on it. Lower the counts, or choose a cheaper llm.model, and start again")


def _check_reachable(steps: Sequence[Step]) -> None:
    """RunError if an LLM cannot be asked, for want of a key or by its address; a plan needs no key."""
    found = dict.fromkeys(problem for llm, _ in steps for problem in llm_problems(llm, [str(llm.model)]))
    if found:
        raise RunError("\n".join(found))


def _agreed(question: str) -> bool:
    return input(f"  {question} [y/N] ").strip().lower() in ("y", "yes")


def _check_budget(steps: Sequence[Step], dollars: float | None) -> None:
    """A budget that holds the estimate is an agreement: it is kept while the calls are made, too."""
    if dollars is not None and all(llm.budget_usd is not None and dollars <= llm.budget_usd for llm, _ in steps):
        return
    costs = "; ".join(cost_sentence(planned, llm) for llm, planned in steps)
    no_price = "give the model's price (llm.prices) and a budget_usd"
    todo = f"pass confirm=True, or {no_price if dollars is None else 'a budget_usd that holds it'}"
    raise SpendingError(f"this would spend money, and nothing was sent: {costs}. To agree, {todo}", dollars)


def _check_batches(steps: Sequence[Step]) -> None:
    """One budget holds for all models and steps together, so that each may fit by itself and all of them not."""
    batches = [(llm.budget_usd, planned, llm) for llm, planned in steps if llm.mode == "batch" and llm.budget_usd]
    dollars = sum(_dollars(planned, llm) or 0.0 for _, planned, llm in batches)
    budget = min((budget for budget, *_ in batches), default=dollars)
    if dollars > budget:
        what = batches[0][1].what if len(batches) == 1 else f"all {len(batches)} steps together"
        raise RunError(
            f"{what} would cost about ${dollars:,.2f}, more than llm.budget_usd={budget:g}, and a batch cannot be stopped "
            "halfway. Raise the budget, lower the counts, or use llm.mode=calls"
        )


def price_of(llm: LlmSection) -> Price | None:
    """Price of the recipe's model, if one is known; half of it in batch mode, as OpenAI charges."""
    price = llm.price
    if price is None or llm.mode != "batch":
        return price
    return Price(input=price.input / 2, output=price.output / 2)


def _is_free(llm: LlmSection) -> bool:
    """Nothing to be paid, or nothing known of it at a server that the user named; OpenAI's own is never free."""
    price = price_of(llm)
    return llm.asked.base_url is not None if price is None else price.input == price.output == 0


def _dollars(planned: Planned, llm: LlmSection) -> float | None:
    """Estimated cost; None without a price."""
    price = price_of(llm)
    return None if price is None else planned.calls * price.of(planned.input_tokens, planned.output_tokens)


def _seconds(planned: Planned, llm: LlmSection) -> float:
    """Estimated duration: that of the calls or of the limit on requests, whichever is longer."""
    by_calls = planned.calls * _SECONDS_PER_CALL / min(llm.asked.concurrency, max(planned.calls, 1))
    per_minute = llm.asked.requests_per_minute
    return max(by_calls, planned.calls * 60 / per_minute if per_minute else 0.0)
