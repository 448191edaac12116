"""Costs of asking an LLM, printed before anything is spent, and the user's consent."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from cda.errors import RunError, SpendingError
from cda.launch import say
from cda.llm.money import CallCost, Price, estimate
from cda.recipe.load import Consent
from cda.recipe.schema import LlmSection
from cda.report.numbers import duration

_SECONDS_PER_CALL = 5.0


@dataclass(frozen=True, slots=True)
class Planned:
    """Calls that a step such as `labelling jargon` is about to make, without repeats; tokens are estimated means of a call."""

    what: str
    calls: int
    input_tokens: float
    output_tokens: float


def sentence(planned: Planned, llm: LlmSection) -> str:
    """Calls, tokens, dollars and time of a step, in one line."""
    cost = _cost(planned, llm)
    tokens = f"about {planned.input_tokens:,.0f} tokens in and {planned.output_tokens:,.0f} out each"
    dollars = (
        f"no price of {llm.model} is given (llm.prices), so no cost can be told"
        if cost.dollars is None
        else f"about ${cost.dollars:,.2f}"
    )
    time = (
        "within a day" if llm.mode == "batch" else f"about {duration(cost.seconds)} at {_SECONDS_PER_CALL:g} s a call"
    )
    calls = f"about {planned.calls:,} calls of {llm.model}, more where answers have to be asked for again"
    return f"{planned.what}: {calls}; {tokens}: {dollars}, {time}"


def confirm_all(steps: Sequence[tuple[LlmSection, Planned]], consent: Consent) -> None:
    """Print the cost of several steps, and ask once before money is spent. Cached answers are not deducted.

    Nothing is asked if all prices are zero, if none is known of the user's own server (llm.base_url), if the run
    was started with --yes, or for no calls.

    Raises:
        RunError: The user declined, or cannot be asked; or a batch would exceed the budget.
        SpendingError: Called from Python, which never asks, without an agreement or a budget that is large enough.
    """
    steps = [(llm, planned) for llm, planned in steps if planned.calls]
    for llm, planned in steps:
        say(f"  {sentence(planned, llm)}")
    _check_batches(steps)
    if not steps:
        return
    dollars = [_cost(planned, llm).dollars for llm, planned in steps]
    total = sum(cost or 0.0 for cost in dollars)
    if len(steps) > 1 and total:
        unpriced = f", and {dollars.count(None)} steps without a price" if None in dollars else ""
        say(f"  in all about ${total:,.2f}{unpriced}")
    if consent == "given" or all(_is_free(llm) for llm, _ in steps):
        return
    if consent == "by budget":
        _check_budget(steps, None if None in dollars else total)
        return
    if not sys.stdin.isatty():
        what = steps[0][1].what if len(steps) == 1 else f"{len(steps)} steps"
        raise RunError(f"{what} would spend money, and nobody can be asked here. Agree beforehand with --yes")
    if input("  Go on? [y/N] ").strip().lower() not in ("y", "yes"):
        raise RunError("nothing was spent. Lower the counts, or choose a cheaper llm.model, and start again")


def _check_budget(steps: Sequence[tuple[LlmSection, Planned]], dollars: float | None) -> None:
    """A budget that holds the estimate is an agreement: it is kept while the calls are made, too."""
    if dollars is not None and all(llm.budget_usd is not None and dollars <= llm.budget_usd for llm, _ in steps):
        return
    costs = "; ".join(sentence(planned, llm) for llm, planned in steps)
    no_price = "give the model's price (llm.prices) and a budget_usd"
    todo = f"pass confirm=True, or {no_price if dollars is None else 'a budget_usd that holds it'}"
    raise SpendingError(f"this would spend money, and nothing was sent: {costs}. To agree, {todo}", dollars)


def _check_batches(steps: Sequence[tuple[LlmSection, Planned]]) -> None:
    """One budget holds for all models and steps together, so that each may fit by itself and all of them not."""
    batches = [(llm.budget_usd, planned, llm) for llm, planned in steps if llm.mode == "batch" and llm.budget_usd]
    dollars = sum(_cost(planned, llm).dollars or 0.0 for _, planned, llm in batches)
    budget = min((budget for budget, *_ in batches), default=dollars)
    if dollars > budget:
        what = batches[0][1].what if len(batches) == 1 else f"all {len(batches)} steps together"
        raise RunError(
            f"{what} would cost about ${dollars:,.2f}, more than llm.budget_usd={budget:g}, and a batch cannot be stopped "
            "halfway. Raise the budget, lower the counts, or use llm.mode=calls"
        )


def price_of(llm: LlmSection) -> Price | None:
    """Price of the recipe's model, if one is given; half of it in batch mode, as OpenAI charges."""
    price = llm.prices.get(llm.model or "")
    if price is None or llm.mode != "batch":
        return price
    return Price(input=price.input / 2, output=price.output / 2)


def _is_free(llm: LlmSection) -> bool:
    """Nothing to be paid, or nothing known of it at a server that the user named; OpenAI's own is never free."""
    price = price_of(llm)
    return llm.base_url is not None if price is None else price.input == price.output == 0


def _cost(planned: Planned, llm: LlmSection) -> CallCost:
    return estimate(
        planned.calls, planned.input_tokens, planned.output_tokens, price_of(llm), llm.concurrency, llm.requests_per_minute,
        _SECONDS_PER_CALL,
    )  # fmt: skip
