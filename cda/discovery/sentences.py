"""A discovery in sentences: results, method, exclusions, and the limits of the numbers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from cda.report.numbers import MINUS, clipped, counted, inert, percent, reward
from cda.report.scoring import cost_sentences
from cda.results.base import Missing
from cda.results.discover import DiscoverResult, SearchedModel, SearchFacts, TestedAttribute
from cda.results.evidence import ByRewriter, Correction, HeldOut, Strength, Verdicts
from cda.stats.multiplicity import corrected, partial_conjunction

_SHORT = 60
_MOSTLY = 0.5


def discovery_sentences(result: DiscoverResult) -> list[str]:
    return [*outcome(result), *how_made(result), *warnings(result), *cost_sentences(result.stages)]


def rewriters_named(result: SearchFacts) -> str:
    """The rewriters; rules at several shares of the places are one, whose strengths agree more than two LLMs would."""
    names = ", ".join(result.rewriters)
    return f"one rule engine at {len(result.rewriters)} strengths ({names})" if result.by_rules else names


def rewriters_needed(result: SearchFacts) -> str:
    return f"{result.strictness.r} {'strengths of the one rule engine' if result.by_rules else 'rewriters'}"


def rewriters_shown(one: TestedAttribute, result: DiscoverResult) -> str:
    """The number of rewriters that must show both effects of a tested attribute, as phrased in its evidence."""
    return f"{one.r} of {one.k} " + (
        "strengths of one rule engine, which is one rewriter," if result.by_rules else "rewriters"
    )


def outcome(result: DiscoverResult) -> Iterator[str]:
    """The outcome; the first sentence by itself says it."""
    tested, n = result.tested, sum(entry.confirmed for entry in result.tested)
    model, judge = model_name(result.model), model_name(result.judge)
    nothing_shown = f"no bias of {model} against {judge} is shown"
    if result.given:
        yield f"{model} over-rewards {n} of {len(tested)} attributes, held against {judge}."
    elif n:
        yield f"{n} of {len(tested)} tested candidates confirmed: {model} rewards them, {judge} does not."
        yield "Each is a bias file, which cda train FILE debiases."
    elif not result.generations or not result.generations[-1].standings:
        reasons = counted(result.generations[0].proposed.reasons) or "none" if result.generations else None
        more = "" if reasons is None else f"Answers without one: {reasons}."
        yield f"Nothing to measure: no attribute was proposed. {more}"
    elif result.validation is None:
        # The cuts always leave candidates, unless none was measured.
        last = result.generations[-1].standings
        missing = sum((Counter(row.failed) for row in last), Counter[str]())
        yield (
            f"None of {len(last)} candidates could be measured, so that nothing is known of them. "
            f"Rewrites that are missing: {counted(dict(sorted(missing.items()))) or 'none'}."
        )
    elif tested:
        yield f"{_none_held(len(tested))} on the test prompts: {nothing_shown}."
    elif n_dropped := _n_dropped(result):
        yield f"Nothing was tested: the review dropped all {n_dropped} candidates that held on the validation prompts."
    else:
        yield f"{_none_held(len(result.validation.results))} on the validation prompts: {nothing_shown}."


def _none_held(n: int) -> str:
    return "The one candidate did not hold" if n == 1 else f"None of {n} candidates held"


def how_made(result: DiscoverResult) -> Iterator[str]:
    """Material, participants, and the meaning of reward, judge and p."""
    material, prompts = result.material, result.material.prompts
    responses = f"{material.responses} responses to {sum(prompts.values())} prompts ({material.left_out} left out)"
    if result.given:
        yield f"{responses}; responses to {result.n_test_prompts} prompts rewritten by {rewriters_named(result)}."
    else:
        yield (
            f"{responses}: {prompts['train']} prompts searched on, {prompts['validation']} to validate, "
            f"{prompts['test']} to test."
        )
        measured = {row.candidate for generation in result.generations for row in generation.standings}
        yield (
            f"{len(measured)} candidates in {len(result.generations)} generations, proposed by {result.by}; confirmed with "
            f"{rewriters_named(result)}."
        )
    yield (
        "Reward: mean change when the attribute is added, in reward units. Judge: how often the side with it is preferred, "
        "ties as halves. Both with 95% intervals, clustered by prompt. p: at least "
        f"{rewriters_needed(result)} show both, each by itself (partial conjunction)."
    )
    alpha, n = f"{result.strictness.test_alpha:g}", len(result.tested)
    if method := correction(result):
        yield f"Confirmed: p, corrected by {method}'s method for all {n} that were tested, is below {alpha}."
    else:
        more = f", each by itself: it is not corrected for the {n} that were tested" if n > 1 else ""
        yield f"Confirmed: p is below {alpha}{more}."
    if result.verdicts:
        yield _verdicts(result.verdicts)
    if result.by_rules:
        yield "Rules proposed and rewrote, no LLM: attributes are those that rules can see and write."
    if isinstance(strength := result.strength, Missing):
        yield f"Strength of the run: not computed ({strength.reason})."
    elif strength:
        at = strength.at_half
        yield (
            f"Diversity-adjusted bias strength of the {strength.n} finalists, by their validation numbers: {at.value:.2f} reward "
            f"units (judge below 0.5, {len(at.terms)} attributes, penalty {strength.penalty:g})."
        )


def warnings(result: DiscoverResult) -> Iterator[str]:
    tested = [(short(entry.attribute), entry) for entry in result.tested]
    if n := result.earlier_tests:
        yield (
            f"Tested {n} {'time' if n == 1 else 'times'} before on these prompts, with other settings or candidates (superseded/): "
            "the p-values are not those of one test."
        )
    for name, entry in tested:
        yield from (f"{name}: {warning}." for warning in entry.warnings)
        if entry.untested:
            yield f"{name}: not tested, because {entry.untested}."
    if tested and (n_dropped := _n_dropped(result)):
        yield f"{n_dropped} candidates that held on the validation prompts were dropped in the review and not tested."
    already = [(name, max(result.already.get(entry.candidate, {}).values(), default=0)) for name, entry in tested]
    if any(n for _, n in already):
        listed = "; ".join(f"{name}: {n}" for name, n in already if n)
        yield f"Responses that were not rewritten, because they are so already: {listed}."
    for name, entry in tested:
        if entry.same_by_all is not None and entry.same_by_all >= _MOSTLY:
            yield (
                f"{name}: all rewriters wrote the same text for {percent(entry.same_by_all)} of the responses, so "
                "that their agreement says little."
            )
    failures = [row for row in summed_failures(result.tested) if row.asked > row.n]
    if failures:
        listed = "; ".join(f"{row.rewriter} {row.asked - row.n} of {row.asked}" for row in failures)
        yield f"Rewrites that are missing: {listed} (reasons in discover.json)."
    if result.grouping:
        yield f"Answers of the LLM on what means the same that had to be mended: {counted(result.grouping)}."
    for row in result.validated:
        if row.untested:
            yield f"{short(attribute_of(row.candidate, result))}: not validated, because {row.untested}."
    yield from _power(result)


def correction(result: DiscoverResult) -> str | None:
    """The method that corrects the p-values of the test; None if they stay as they are."""
    return correction_name(result.strictness.correct) if len(result.tested) > 1 else None


def correction_name(method: Correction) -> str | None:
    names = {"bonferroni": "Bonferroni", "holm": "Holm", "bh": "Benjamini and Hochberg", "none": None}
    return names[method]


def _verdicts(verdicts: Verdicts) -> str:
    bias = "not known" if verdicts.position_bias is None else f"{verdicts.position_bias:+.2f}".replace("-", MINUS)
    return (
        f"Verdicts of the judge on {verdicts.asked} comparisons of the test, in both orders: {verdicts.unread} unreadable, "
        f"{verdicts.half_read} readable in one order alone, {verdicts.flipped} that follow the place and not the text; mean "
        f"preference for what is shown first {bias} ({MINUS}1 to 1)."
    )


def _power(result: DiscoverResult) -> Iterator[str]:
    """The smallest reward that would have been found, of those results on which it is the reward that was not shown."""
    settings, n = result.strictness, len(result.tested)
    level = settings.test_alpha if n else settings.validation_alpha
    tested = [(entry, _p_of_reward(at, result)) for at, entry in enumerate(result.tested) if not entry.untested]
    validated = [(entry, entry.p_reward) for entry in result.validated if not n]
    missed = [entry.smallest_detectable for entry, p in (*tested, *validated) if p is not None and p >= level]
    if detectable := sorted(found for found in missed if found is not None):
        least, most = reward(detectable[0]), reward(detectable[-1])
        span = least if least == most else f"{least} to {most} by attribute"
        # Validation pools the rewriters; the test combines one p-value of each.
        more = ", and rewriters are taken as independent" if n else ""
        if settings.correct in ("holm", "bh") and n > 1:
            more += f"; at the first and strictest step of {correction(result)}'s method"
        yield (
            f"Where no reward was shown, a mean reward of {span} would have been found with 80% power, if only the reward were in "
            f"question and not the judge{more}."
        )


def _p_of_reward(at: int, result: DiscoverResult) -> float:
    """The corrected p of an attribute if its test were on the reward alone, without the judge's."""
    one = result.tested[at]
    p_values = [each.strength.p_reward for each in one.rewriters if each.excluded is None and each.strength]
    family = [1.0 if each.p_value is None else each.p_value for each in result.tested]
    family[at] = partial_conjunction(p_values, one.r)
    return corrected(family, result.strictness.correct)[at]


def summed_failures(entered: Sequence[HeldOut]) -> list[ByRewriter]:
    """Measured and missing rewrites by rewriter, over all attributes; without numbers."""
    everyone = [each for entry in entered for each in entry.rewriters]
    summed = []
    for name in sorted({each.rewriter for each in everyone}):
        own = [each for each in everyone if each.rewriter == name]
        failed = sum((Counter(each.failed) for each in own), Counter[str]())
        n = sum(each.n for each in own)
        summed.append(ByRewriter(rewriter=name, n=n, failed=dict(failed), excluded=None, strength=None))
    return summed


def _n_dropped(result: DiscoverResult) -> int:
    """Candidates that held on the validation prompts and did not enter the test: only a person can have dropped them."""
    tested = {entry.candidate for entry in result.tested}
    return sum(entry.passed and entry.candidate not in tested for entry in result.validated)


def held_out(one: TestedAttribute, result: DiscoverResult) -> dict[str, Strength]:
    """The pooled numbers of a tested attribute by step, `validation` and `test`."""
    steps = [("validation", row.pooled) for row in result.validated if row.candidate == one.candidate]
    return {step: pooled for step, pooled in (*steps, ("test", one.pooled)) if pooled}


def until(name: str, line: Iterable[str], result: DiscoverResult) -> float:
    """Number of the generation that made a candidate's first child in the line, infinite without one.

    Of variations measured along with their proposal, the next.
    """
    candidates = [result.candidates[each] for each in line if each in result.candidates]
    return max(min((each.generation for each in candidates if name in each.parents), default=math.inf), 1)


def model_name(one: SearchedModel) -> str:
    """A model, with its adapter or calibration if it has one."""
    with_adapter = f" with {one.adapter} at dose {one.dose:g}" if one.adapter else ""
    return f"{one.name}{with_adapter}{f' calibrated by {one.calibration}' if one.calibration else ''}"


def attribute_of(name: str, result: DiscoverResult) -> str:
    candidate = result.candidates.get(name)
    return candidate.bias.description if candidate else name


def short(attribute: str) -> str:
    """An attribute within a sentence."""
    return clipped(inert(attribute).rstrip(".").split(". ")[0], _SHORT)
