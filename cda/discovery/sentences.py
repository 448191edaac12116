"""A discovery in sentences: what came out, how, what was left out, and how far the numbers carry."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from cda.report.costs import cost_sentences
from cda.report.numbers import MINUS, clipped, inert, percent, reward
from cda.results.base import Missing
from cda.results.discover import DiscoverResult, SearchedModel, StandingRecord, StrengthCurve, TestedAttribute
from cda.results.evidence import ByRewriter, ConfirmSettings, HeldOut, Validation, Verdicts
from cda.stats.multiplicity import corrected, partial_conjunction

_SHORT = 60
_MOSTLY = 0.5


def sentences(result: DiscoverResult) -> list[str]:
    """What came out, what was left out, what the numbers mean, and what it took."""
    return [*outcome(result), *how_made(result), *warnings(result), *cost(result)]


def rewriters_named(result: DiscoverResult) -> str:
    """Who rewrote. Rules at several shares of the places are one rewriter, whose strengths agree more than two LLMs would."""
    names = result.rewriters
    return (
        ", ".join(names) if not result.by_rules else f"one rule engine at {len(names)} strengths ({', '.join(names)})"
    )


def rewriters_needed(result: DiscoverResult) -> str:
    """How many of them have to show an effect."""
    needed = result.strictness.r
    return f"{needed} rewriters" if not result.by_rules else f"{needed} strengths of the one rule engine"


def rewriters_shown(one: TestedAttribute, result: DiscoverResult) -> str:
    """How many of the rewriters have to show both effects, of a tested attribute, as its evidence is said."""
    if result.by_rules:
        return f"{one.r} of {one.k} strengths of one rule engine, which is one rewriter,"
    return f"{one.r} of {one.k} rewriters"


def outcome(result: DiscoverResult) -> Iterator[str]:
    """What came out: the first sentence by itself says it."""
    tested, n = result.tested, sum(one.confirmed for one in result.tested)
    model, judge = model_name(result.model), model_name(result.judge)
    if result.given:
        yield f"{model} over-rewards {n} of {len(tested)} attributes, held against {judge}."
    elif n:
        yield f"{n} of {len(tested)} tested candidates confirmed: {model} rewards them, {judge} does not."
        yield "Each is a bias file, which `cda train FILE` debiases."
    elif not result.generations or not result.generations[-1].standings:
        yield f"Nothing to measure: no attribute was proposed. {_proposed(result)}"
    elif result.validation is None:
        # The cuts always leave somebody, unless nobody was measured.
        last = result.generations[-1].standings
        yield f"None of {len(last)} candidates could be measured, so that nothing is known of them. {_unmeasured(last)}"
    elif not tested and _n_dropped(result):
        yield f"Nothing was tested: the review dropped all {_n_dropped(result)} candidates that held on the validation prompts."
    elif not tested:
        n_entered = len(result.validation.results)
        yield (
            f"None of {n_entered} candidates held on the validation prompts: no bias of {model} against {judge} is shown."
        )
    else:
        yield f"None of {len(tested)} candidates held on the test prompts: no bias of {model} against {judge} is shown."


def how_made(result: DiscoverResult) -> Iterator[str]:
    """From what, by whom, and what reward, judge and p are."""
    material, prompts = result.material, result.material.prompts
    left_out = material.left_out
    if result.given:
        yield (
            f"{material.responses} responses to {sum(prompts.values())} prompts ({left_out} left out); responses to "
            f"{result.n_test_prompts} prompts rewritten by {rewriters_named(result)}."
        )
    else:
        yield (
            f"{material.responses} responses to {sum(prompts.values())} prompts ({left_out} left out): {prompts['train']} "
            f"prompts searched on, {prompts['validation']} to validate, {prompts['test']} to test."
        )
        measured = {row.candidate for one in result.generations for row in one.standings}
        yield (
            f"{len(measured)} candidates in {len(result.generations)} generations, proposed by {result.by}; confirmed with "
            f"{rewriters_named(result)}."
        )
    yield (
        "Reward: mean change when the attribute is added, in reward units. Judge: how often the side with it is preferred, "
        "ties as halves. Both with 95% intervals, clustered by prompt. p: at least "
        f"{rewriters_needed(result)} show both, each by itself (partial conjunction)."
    )
    yield _decision(result)
    if result.verdicts:
        yield _verdicts(result.verdicts)
    if result.by_rules:
        yield "Rules proposed and rewrote, no LLM: attributes are those that rules can see and write."
    if strength := result.strength:
        yield _strength_sentence(strength)


def warnings(result: DiscoverResult) -> Iterator[str]:
    """What a reader has to know before believing a number, and what was left out."""
    tested = result.tested
    if n := result.earlier_tests:
        yield (
            f"Tested {n} {'time' if n == 1 else 'times'} before on these prompts, with other settings or candidates (superseded/): "
            "the p-values are not those of one test."
        )
    for one in tested:
        for warning in one.warnings:
            yield f"{short(one.attribute)}: {warning}."
        if one.untested:
            yield f"{short(one.attribute)}: not tested, because {one.untested}."
    failed = [
        f"{row.rewriter} {row.asked - row.n} of {row.asked}" for row in summed_failures(tested) if row.asked > row.n
    ]
    if tested and (n_dropped := _n_dropped(result)):
        yield f"{n_dropped} candidates that held on the validation prompts were dropped in the review and not tested."
    already = [(short(one.attribute), max(result.already.get(one.candidate, {}).values(), default=0)) for one in tested]
    if any(n for _, n in already):
        told = "; ".join(f"{attribute}: {n}" for attribute, n in already if n)
        yield f"Responses that were not rewritten, because they are so already: {told}."
    for one in tested:
        if one.same_by_all is not None and one.same_by_all >= _MOSTLY:
            yield (
                f"{short(one.attribute)}: all rewriters wrote the same text for {percent(one.same_by_all)} of the responses, so "
                "that their agreement says little."
            )
    if failed:
        yield f"Rewrites that are missing: {'; '.join(failed)} (reasons in discover.json)."
    if repairs := result.grouping:
        told = ", ".join(f"{n} {why}" for why, n in repairs.items())
        yield f"Answers of the LLM on what means the same that had to be mended: {told}."
    for row in result.validated:
        if row.untested:
            yield f"{short(attribute_of(row.candidate, result))}: not validated, because {row.untested}."
    yield from _power(tested or result.validated, result.strictness)


def cost(result: DiscoverResult) -> tuple[str, ...]:
    """What was asked of LLMs, for how much."""
    return cost_sentences(result.stages)


def correction(result: DiscoverResult) -> str | None:
    """Whose method corrects the p-values of the test; None where they stay as they are."""
    names = {"bonferroni": "Bonferroni", "holm": "Holm", "none": None}
    return names[result.strictness.correct] if len(result.tested) > 1 else None


def _decision(result: DiscoverResult) -> str:
    alpha, n = f"{result.strictness.test_alpha:g}", len(result.tested)
    if method := correction(result):
        return f"Confirmed: p, corrected by {method}'s method for all {n} that were tested, is below {alpha}."
    more = f", each by itself: it is not corrected for the {n} that were tested" if n > 1 else ""
    return f"Confirmed: p is below {alpha}{more}."


def _verdicts(verdicts: Verdicts) -> str:
    """How verdicts on the test came about, where the judge compares."""
    bias = verdicts.position_bias
    said = "not known" if bias is None else f"{bias:+.2f}".replace("-", MINUS)
    return (
        f"Verdicts of the judge on {verdicts.asked} comparisons of the test, in both orders: {verdicts.unread} unreadable, "
        f"{verdicts.half_read} readable in one order alone, {verdicts.flipped} that follow the place and not the text; mean "
        f"preference for what is shown first {said} ({MINUS}1 to 1)."
    )


def _power(results: Sequence[Validation] | Sequence[TestedAttribute], settings: ConfirmSettings) -> Iterator[str]:
    """How small a reward could have been and still be found, where it is the reward that was not shown."""
    missed = [one for at, one in enumerate(results) if _reward_failed(at, results, settings)]
    found = sorted(one.smallest_detectable for one in missed if one.smallest_detectable is not None)
    if found:
        least, most = reward(found[0]), reward(found[-1])
        span = least if least == most else f"{least} to {most} by attribute"
        # Validation pools the rewriters; the test combines one p-value of each.
        pooled = isinstance(missed[0], Validation)
        more = "" if pooled else ", and rewriters are taken as independent"
        if not pooled and settings.correct == "holm" and len(results) > 1:
            more += "; at the first and strictest step of Holm's method"
        yield (
            f"Where no reward was shown, a mean reward of {span} would have been found with 80% power, if only the reward were in "
            f"question and not the judge{more}."
        )


def _reward_failed(
    at: int, results: Sequence[Validation] | Sequence[TestedAttribute], settings: ConfirmSettings
) -> bool:
    """Whether the test on the reward alone, without the judge's, already failed; of one validation or test among these."""
    one = results[at]
    if one.untested:
        return False
    if isinstance(one, Validation):
        return one.p_reward is not None and one.p_reward >= settings.validation_alpha
    p_values = [each.strength.p_reward for each in one.rewriters if each.excluded is None and each.strength]
    family = [1.0 if each.p_value is None else each.p_value for each in results if isinstance(each, TestedAttribute)]
    family[at] = partial_conjunction(p_values, one.r)
    return corrected(family, settings.correct)[at] >= settings.test_alpha


def summed_failures(tested: Sequence[HeldOut]) -> list[ByRewriter]:
    """Rewrites that were measured and that are missing, by rewriter, over all attributes; without numbers."""
    names = sorted({each.rewriter for one in tested for each in one.rewriters})
    found = []
    for name in names:
        own = [each for one in tested for each in one.rewriters if each.rewriter == name]
        failed: Counter[str] = Counter()
        for each in own:
            failed.update(each.failed)
        found.append(
            ByRewriter(rewriter=name, n=sum(each.n for each in own), failed=dict(failed), excluded=None, strength=None)
        )
    return found


def _n_dropped(result: DiscoverResult) -> int:
    """Candidates that held on the validation prompts and did not enter the test: only a person can have dropped them."""
    tested = {one.candidate for one in result.tested}
    return sum(one.passed and one.candidate not in tested for one in result.validated)


def _unmeasured(standings: Sequence[StandingRecord]) -> str:
    reasons: Counter[str] = Counter()
    for one in standings:
        reasons.update(one.failed)
    return f"Rewrites that are missing: {', '.join(f'{n} {why}' for why, n in sorted(reasons.items())) or 'none'}."


def _proposed(result: DiscoverResult) -> str:
    if not result.generations:
        return ""
    reasons = result.generations[0].proposed.reasons
    return f"Answers without one: {', '.join(f'{n} {why}' for why, n in reasons.items()) or 'none'}."


def _strength_sentence(strength: StrengthCurve | Missing) -> str:
    if isinstance(strength, Missing):
        return f"Strength of the run: not computed ({strength.reason})."
    at = strength.at_half
    return (
        f"Diversity-adjusted bias strength of the {strength.n} finalists, by their validation numbers: {at.value:.3f} reward "
        f"units (judge below 0.5, {len(at.terms)} attributes, penalty {strength.penalty:g})."
    )


def model_name(one: SearchedModel) -> str:
    """A model, with its adapter where it has one."""
    return f"{one.name} with {one.adapter} at dose {one.dose:g}" if one.adapter else one.name


def attribute_of(name: str, result: DiscoverResult) -> str:
    """The words of a candidate by its id."""
    found = result.candidates.get(name)
    return found.bias.description if found else name


def short(attribute: str) -> str:
    """An attribute within a sentence."""
    return clipped(inert(attribute).rstrip(".").split(". ")[0], _SHORT)
