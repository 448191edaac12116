"""What a policy becomes that is optimised against the rewards: biases in its samples, tilted to the reward, in numbers and in words."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np

from cda.arrays import FloatArray
from cda.auditing.report_cells import compares, said, targets
from cda.biases import Bias, BiasMeasure
from cda.numbers.measures import MEASURES
from cda.records import PERCENT, Exclusions, prompt_id
from cda.report.numbers import inert, listed, percent
from cda.report.tables import Column, Table, TableOf
from cda.results.audit import AuditResult
from cda.results.base import Estimate, Missing, Moment, Number, Test
from cda.results.effects import T_TEST
from cda.scorers.compared import Compared, Rewards, Text, text_id, with_rewards
from cda.stats.means import without_traces
from cda.stats.multiplicity import holm
from cda.stats.picks import BestOf, kl_at_most
from cda.stats.tilt import Padded, Reach, Tilted, mean_over_prompts, reach, share_over_prompts, tilted_to
from cda.stats.verdict import SIGNIFICANT

SAMPLED, *KLS = MEASURES["tilt"].ones
"""KL from the policy that was sampled, in nats; if the samples do not support the first above 0, biases are followed as far as they do."""
BEST_OF = {f"{kl_at_most(n):.2g}": n for n in (4, 8, 16)}
"""KL of the best of n responses, as far as half of the prompts have so many: a few samples support only a small tilt, and their best one goes further."""
_STEPS = 20
"""Of such a KL in a nat: models that support about as much are followed to the same one."""
_LEAST_RISE = 0.01
"""A share that rises by less is not named: with many prompts any training moves it beyond chance."""
_NONE_LEFT = Missing(reason="no prompt has two responses with a reward")


Policy = Tilted | BestOf | Missing


class Tilts(NamedTuple):
    """Numbers of the measure `tilt`, and responses and prompts that are not among them."""

    numbers: tuple[Number, ...]
    excluded: dict[str, Exclusions]


def tilts(
    biases: Sequence[Bias],
    sampled: Sequence[Text],
    scorings: Mapping[str, Compared],
    grades: Sequence[float | None] = (),
) -> Tilts:
    """How frequent each bias, and a right answer, is in the policy that was sampled, tilted to the rewards of each scoring at every KL of `KLS`, and of
    the best responses among the n of `BEST_OF`.

    The tilts of two scorings have the same KL, so that a reward that was only stretched is optimised as far. Intervals and tests are
    over prompts; the test of a number is that the tilted policy has as much of the bias as the samples, that of a change that the two
    tilted policies have as much; Holm's correction is over the biases at each KL. A number is missing for a bias without a measure,
    and for a KL that the samples do not support. `grades` (quality of each response, if known) that are not all 0 or 1, for wrong and
    right, count as a relative measure does: how often a response is better than another one to its prompt.
    """
    if not sampled:
        return Tilts((), {})
    scored = {label: found for label, found in scorings.items() if isinstance(found, Rewards)}
    kept, unscored = with_rewards(sampled, scored)
    texts = [sampled[row] for row in kept]
    ids = [prompt_id(prompt) for prompt, _ in texts]
    n_each = Counter(ids)
    n_single = list(n_each.values()).count(1)
    excluded = {"sampled responses, scored": unscored} if unscored.dropped else {}
    if n_single:
        excluded["prompts of samples, scored"] = Exclusions(len(n_each), {"fewer than 2 responses left": n_single})
    policies: dict[str, dict[str, Policy]] = {kl: dict.fromkeys(scored, _NONE_LEFT) for kl in KLS}
    samples = None
    if len(n_each) > n_single:
        samples = Padded.by_prompt(ids)
        rewards = {label: np.array([found.of(*text) for text in texts]) for label, found in scored.items()}
        policies = _policies(rewards, samples)
    found, named = list[Number](), dict[object, str]()
    for bias in biases:
        other = named.setdefault((bias.measure, tuple(bias.markers), bias.pattern), bias.name) if bias.measure else ""
        values: FloatArray | Missing = _NONE_LEFT
        if bias.measure is None:
            values = Missing(reason="its bias file has no measure")
        elif other != bias.name:
            values = Missing(reason=f"on samples its measure is that of {other}")
        elif samples is not None:
            values = _shown(bias, bias.measure, [text for _, text in texts], samples)
        found += _numbers("tilt", {"bias": bias.name}, values, samples, policies)
    found = _adjusted(found)
    known = [grades[row] for row in kept] if grades else []
    if samples is not None and any(grade is not None for grade in known):
        found += _numbers("tilt_right", {}, _right(np.array(known, dtype=np.float64), samples), samples, policies)
    return Tilts(tuple(found), excluded)


def rows(sampled: Sequence[Text], scorings: Mapping[str, Compared]) -> Iterator[dict[str, object]]:
    """Rewards of each sample."""
    for prompt, text in sampled:
        row: dict[str, object] = {"prompt_id": prompt_id(prompt), "response_id": text_id(prompt, text)}
        for label, found in scorings.items():
            if isinstance(found, Rewards):
                reward = found.of(prompt, text)
                row[f"reward_{label}"] = None if math.isnan(reward) else reward
        yield row


def _policies(rewards: Mapping[str, FloatArray], samples: Padded) -> dict[str, dict[str, Policy]]:
    """By KL and scoring, the policy tilted to the scoring's rewards."""
    reached = {label: reach(values, samples) for label, values in rewards.items()}
    furthest = min(0.0 if far is None else far.kl_nats for far in reached.values())
    own = f"{math.floor(_STEPS * furthest) / _STEPS:g}"  # as far as all scorings are supported
    kls = KLS if furthest >= float(KLS[0]) or own == SAMPLED else [own, *KLS]

    def policy(label: str, kl: str) -> Policy:
        far = reached[label]
        if far is None or far.kl_nats < float(kl):
            return _unsupported(far)
        return tilted_to(rewards[label], samples, float(kl), far)

    picks: dict[str, dict[str, Policy]] = {
        kl: {label: BestOf(values, n, samples) for label, values in rewards.items()}
        for kl, n in BEST_OF.items()
        if (samples.n >= n).sum() >= max(2, len(samples.n) / 2)
    }
    return {kl: {label: policy(label, kl) for label in rewards} for kl in kls} | picks


def _unsupported(far: Reach | None) -> Missing:
    if far is None:
        return Missing(reason="the rewards are the same for all responses of a prompt")
    if far.effective > far.needed + 0.1:
        return Missing(reason=f"rewards that tie let no policy go beyond a KL of {far.kl_nats:.2g} nats")
    return Missing(
        reason=f"these samples support a KL of up to {far.kl_nats:.2g} nats; beyond it fewer than {far.needed:.1f} effective "
        "responses to a prompt are left"
    )


def _numbers(
    measure: str, of: Mapping[str, str], values: FloatArray | Missing, samples: Padded | None,
    policies: Mapping[str, Mapping[str, Policy]],
) -> Iterator[Number]:  # fmt: skip
    """The numbers of what responses show, with tests before any correction; all missing if it is not known of two prompts. Values have
    shape (n_responses,); NaN is unknown."""
    first, known = next(iter(next(iter(policies.values())))), np.zeros(0, dtype=bool)
    if samples is not None and not isinstance(values, Missing):
        known = ~np.isnan(samples.means(values))
        if known.sum() < 2:
            values = Missing(
                reason=f"its measure holds for the responses to {known.sum()} of {len(known)} prompts; two are needed"
            )
    if samples is None or isinstance(values, Missing):
        assert isinstance(values, Missing)
        for kl, by_scoring in {SAMPLED: {first: values}, **policies}.items():
            moments = [*by_scoring, *(["change"] if len(by_scoring) > 1 else [])]
            yield from (Number.of(measure, moment, {**of, "kl": kl}, values) for moment in moments)
        return
    sampled = samples.means(values)
    # Else no reward can select on it: there is nothing to test, nor to correct others for. NaN is no spread.
    varies = any(np.ptp(values[at[real]]) > 0 for at, real in zip(samples.at, samples.real, strict=True))
    total = int(samples.n[known].sum())
    yield Number.of(measure, first, {**of, "kl": SAMPLED}, share_over_prompts(sampled[known], "share", total))
    for kl, by_scoring in policies.items():
        at, means = {**of, "kl": kl}, dict[str, FloatArray]()
        for label, policy in by_scoring.items():
            if isinstance(policy, Missing):
                yield Number.of(measure, label, at, policy)
                continue
            every = policy.means(values)
            here = known & ~np.isnan(every)  # the best of n is not known of a prompt with fewer
            if here.sum() < 2:
                few = f"its measure holds for the responses to {here.sum()} of the prompts that have so many; two are needed"
                yield Number.of(measure, label, at, Missing(reason=few))
                continue
            means[label], n = every[here], int(samples.n[here].sum())
            _, test = _difference(sampled[here], means[label], n)
            yield Number.of(measure, label, at, share_over_prompts(means[label], "share", n), test if varies else None)
        if len(means) == 2:
            before, after = means.values()
            change, test = _difference(before, after, n)
            yield Number.of(measure, "change", at, change, test if varies else None)
        elif len(by_scoring) == 2:
            lacking = next(each for each in by_scoring.values() if isinstance(each, Missing))
            yield Number.of(measure, "change", at, lacking)


def _shown(bias: Bias, rule: BiasMeasure, texts: Sequence[str], samples: Padded) -> FloatArray:
    """1 for each response that exhibits a bias, else 0; of a relative measure, the share of the other responses to its prompt next
    to which it does. NaN for one that the measure does not hold for. Shape (n_responses,)."""
    by_text = {text: bias.measured(text, rule.feature) for text in dict.fromkeys(texts)}
    values = [by_text[text] for text in texts]
    if not rule.relative:
        return np.array([rule.holds(value) for value in values], dtype=np.float64)  # None becomes NaN
    return _next_to_others(lambda one, other: rule.holds(values[one], values[other]), samples, len(texts))


def _right(grades: FloatArray, samples: Padded) -> FloatArray:
    """Grades of 0 and 1; of others, the share of the other responses to the prompt that a response is better than, equal ones half."""
    if np.isin(grades[~np.isnan(grades)], (0, 1)).all():
        return grades

    def better(one: int, other: int) -> float | None:
        difference = grades[one] - grades[other]
        return None if np.isnan(difference) else (np.sign(difference) + 1) / 2

    return _next_to_others(better, samples, len(grades))


def _next_to_others(holds: Callable[[int, int], float | None], samples: Padded, n: int) -> FloatArray:
    """Mean over the other responses to its prompt of what holds of a response next to each, by their places. Shape (n,)."""
    found = np.full(n, np.nan)
    for at, real in zip(samples.at, samples.real, strict=True):
        own = at[real].tolist()
        pairs = [[holds(one, other) for other in own if other != one] for one in own]
        found[own] = np.array(pairs, dtype=np.float64).mean(axis=1)
    return found


def _difference(first: FloatArray, second: FloatArray, n: int) -> tuple[Estimate, Test]:
    """second − first, shares by prompt, shape (n_prompts,), and the test that it is 0."""
    found = mean_over_prompts(without_traces(second - first, np.maximum(np.abs(first), 1.0)), "share difference")
    return found.estimate.model_copy(update={"n": n}), Test(p_value=found.p_value(), method=T_TEST)


def _adjusted(numbers: Sequence[Number]) -> list[Number]:
    """The numbers with Holm's p over the biases, at each KL and moment."""
    families: dict[tuple[str, str], list[int]] = {}
    for at, number in enumerate(numbers):
        if number.test:
            families.setdefault((number.at["kl"], number.moment), []).append(at)
    found = list(numbers)
    for rows_ in families.values():
        tests = [test for at in rows_ if (test := numbers[at].test)]
        for at, test, p in zip(rows_, tests, holm([test.p_value for test in tests]), strict=True):
            found[at] = numbers[at].model_copy(update={"test": test.model_copy(update={"p_holm": p})})
    return found


def _last(audit: AuditResult) -> str | None:
    """The largest KL that the samples support under every scoring; None if there is none."""
    moment = "change" if compares(audit) else "model"
    estimated = [each.at["kl"] for each in audit.policy if each.moment == moment and isinstance(each.found, Estimate)]
    return max((kl for kl in estimated if kl != SAMPLED), key=float, default=None)


def _at_kl(kl: str) -> str:
    return f"KL {kl}: best of {BEST_OF[kl]}" if kl in BEST_OF else f"KL {kl}"


class Rise(NamedTuple):
    """A bias that a policy shows more of: than sampled, or after a training than before it."""

    bias: str
    start: Estimate
    end: Estimate


def _rises(audit: AuditResult, kl: str) -> list[Rise]:
    """Biases that the tilted policy shows more of than the samples, and after a training than before it, beyond chance and by a
    point or more."""
    found = []
    for bias, own in groupby((each for each in audit.policy if each.at["kl"] in (SAMPLED, kl)), _bias):
        by_place = {(each.at["kl"], each.moment): each for each in own}
        sampled, *tilted = by_place.values()
        ends = [each.found for each in (sampled, *tilted)]
        if any(isinstance(end, Missing) for end in ends):
            continue
        start, end = (tilted[0].found, tilted[1].found) if compares(audit) else (sampled.found, tilted[0].found)
        test = tilted[-1].test
        assert isinstance(start, Estimate) and isinstance(end, Estimate) and isinstance(sampled.found, Estimate)
        higher = end.value > sampled.found.value and end.value - start.value >= _LEAST_RISE
        if test and test.holm < SIGNIFICANT and higher:
            found.append(Rise(bias, start, end))
    return found


def _bias(number: Number) -> str:
    return number.at["bias"]


def line(audit: AuditResult) -> str:
    """What a policy would show more of and whether fewer of its answers would be right, for the first screen; empty without samples
    that support a KL, or of a model as it is if nothing rises."""
    kl = _last(audit)
    if not kl:
        return ""
    found, right, trained = _rises(audit, kl), _right_words(audit, kl), compares(audit)
    if not found and not trained:
        return ""
    shows = "is not shown to have more of any bias than before the training"  # which excludes none
    if found:
        shows = f"would show more {'than before the training ' if trained else ''}of {_listed(found)}"
    return f"A policy optimised against this reward ({_at_kl(kl)}) {shows}{right}."


def _path(audit: AuditResult, kl: str) -> str:
    """Each taught bias as sampled, and in the policies before and after a training; empty if none has numbers."""
    own = {(_bias(each), each.at["kl"], each.moment): each.found for each in audit.policy}
    said_ = []
    for name in targets(audit):
        found = [own.get((name, *at)) for at in ((SAMPLED, "before"), (kl, "before"), (kl, "after"))]
        shares = [percent(each.value) for each in found if isinstance(each, Estimate)]
        said_ += [f"{inert(name)} {' → '.join(shares)}"] * (len(shares) == len(found))
    return listed(said_) if said_ else ""


def _right_words(audit: AuditResult, kl: str) -> str:
    """Right answers before → after a training, or as sampled → optimised, as the end of a sentence; empty if they are not known."""
    moments = {(each.at["kl"], each.moment): each.found for each in audit.right_answers}
    first: tuple[str, Moment]
    last: tuple[str, Moment]
    first, last = ((kl, "before"), (kl, "after")) if compares(audit) else ((SAMPLED, "model"), (kl, "model"))
    start, end = moments.get(first), moments.get(last)
    if not isinstance(start, Estimate) or not isinstance(end, Estimate):
        return ""
    return f"; right answers {percent(start.value)[:-1]} → {percent(end.value)}"


def _listed(found: Sequence[Rise]) -> str:
    return listed(
        [f"{inert(each.bias)} ({percent(each.start.value)[:-1]} → {percent(each.end.value)})" for each in found]
    )


def sentences(audit: AuditResult) -> list[str]:
    """What rises and on how many prompts; then, unless a training raised nothing, every reason for which a number is missing, with what
    it holds for."""
    kl, lacking = _last(audit), dict[str, str]()
    lines = []
    if kl:
        followed = [each for each in audit.policy if each.at["kl"] == kl and isinstance(each.found, Estimate)]
        names = list(dict.fromkeys(map(_bias, followed)))
        n = max(each.found.n_prompts for each in followed if isinstance(each.found, Estimate))
        found, then = _rises(audit, kl), "trained" if compares(audit) else "model"
        words = {
            "biases": _listed(found) if found else "",
            "others": listed([inert(name) for name in names]) + _right_words(audit, kl),
        }
        lines.append(said("policy", f"{then} {'rises' if found else 'none'}", kl=_at_kl(kl), n=n, **words))
        if then == "trained" and (own := _path(audit, kl)):
            lines.append(said("policy", "sought", biases=own))
        lines += [] if audit.right_answers else [said("policy", "ungraded")]
        if then == "trained" and not found:
            return lines
        if alike := list(dict.fromkeys(inert(_bias(each)) for each in followed if not each.test)):
            lines.append(f"No reward can select on {listed(alike)}: the samples of each prompt are all alike in it.")
    of_bias = {_bias(each) for each in audit.policy if each.at["kl"] == SAMPLED and isinstance(each.found, Missing)}
    for each in audit.policy:
        if isinstance(each.found, Missing) and each.moment != "change":
            of = inert(_bias(each)) if _bias(each) in of_bias else _at_kl(each.at["kl"])
            lacking.setdefault(of, each.found.reason)
    by_reason = dict[str, list[str]]()
    for of, reason in lacking.items():
        by_reason.setdefault(reason, []).append(of)
    lines += [f"{listed(of)} not estimated: {reason}." for reason, of in by_reason.items()]
    return lines


def policy_table(audit: AuditResult) -> Table | None:
    """A row for each bias and KL: as sampled, then tilted to the reward; after a training, of the biases whose change is shown alone."""
    numbers = []
    changed = {
        _bias(each) for each in audit.policy if each.moment == "change" and each.test and each.test.holm < SIGNIFICANT
    }
    groups = [(bias, list(group)) for bias, group in groupby(audit.policy, _bias)]
    groups = [(bias, own) for bias, own in groups if bias in changed or not compares(audit)]
    for bias, own in [*groups, *([("right answers", list(audit.right_answers))] if groups else [])]:
        for kl in dict.fromkeys(each.at["kl"] for each in own if each.at["kl"] != SAMPLED):
            here = [each for each in own if each.at["kl"] == kl]
            if any(isinstance(each.found, Estimate) for each in here):
                row = {"row": f"{bias}, {_at_kl(kl)}"}
                numbers += [
                    each.model_copy(update={"at": each.at | row}) for each in own if each.at["kl"] in (SAMPLED, kl)
                ]
    trained, sampled = compares(audit), {"kl": SAMPLED}
    moments = {"before": "before", "after": "after", "change (points)": "change"} if trained else {"optimised": "model"}
    last = {"moment": "change" if trained else "model", "tilted": "yes"}
    numbers = [
        each if each.at["kl"] == SAMPLED else each.model_copy(update={"at": each.at | {"tilted": "yes"}})
        for each in numbers
    ]
    columns = [Column("as sampled", sampled)]
    columns += [Column(heading, {"moment": moment, "tilted": "yes"}) for heading, moment in moments.items()]
    columns += [Column("p (Holm)", last, "p (Holm)"), Column("n", sampled, "n")]
    caption = (
        f"How often responses show each bias, as sampled and optimised against the reward, with {PERCENT} intervals"
    )
    missing = {"samples": "not supported"}
    return TableOf(caption=caption, heading="bias", rows=("row",), columns=tuple(columns), missing=missing).of(numbers)
