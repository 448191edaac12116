"""Shares and means of an audit: skew and quality under every scoring with their changes, with plain CDA and over several trainings
of a run; and the family of all its tests."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from itertools import compress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cda.arrays import FloatArray
from cda.auditing.groups import (
    PLAIN,
    Group,
    Scorings,
    contrast_comparisons,
    pair_comparisons,
    per_scoring,
    read_margins,
    ties_of,
    unit_of,
    with_people,
)
from cda.auditing.rate import triple_comparisons
from cda.auditing.texts import AuditTexts
from cda.data.contrasts import DIRECTIONS
from cda.data.quality_sets import QualitySet
from cda.embedded.rules import telling_phrases
from cda.finetuning.train import Training
from cda.numbers.measures import CHOSE, MEASURES, AuditMeasure, by_moment, of_people, test_of_change, test_of_interval
from cda.numbers.people import average, average_change, measured_against, row_values, voted_rows
from cda.numbers.views import numbers_in
from cda.records import Pair, TieRule, Triple, count_reasons
from cda.resources.artifacts import shown_path
from cda.results.audit import AuditResult, InSample
from cda.results.base import (
    NOT_TRAINED,
    BeforeAfter,
    Estimate,
    Measure,
    Missing,
    Number,
    PerScoring,
    Result,
    Test,
    or_missing,
)
from cda.results.benchmarks import Accuracies, SetQuality
from cda.results.dose import DoseResult, HeldOutBias
from cda.results.effects import BiasRate, Effect, average_of
from cda.results.facts import ComparerFacts, Scorer
from cda.results.skew import BiasSkew, OverSeeds, Plain, Quality, Seeds, VotedBias
from cda.scorers.compared import Comparison, Preferences
from cda.stats.accuracy import Ranked, holm_over_sections, measure_accuracy
from cda.stats.estimators import share_of
from cda.stats.means import change_over_seeds, change_test_over_seeds, over_seeds, share_over_seeds
from cda.stats.multiplicity import benjamini_hochberg, holm
from cda.stats.proportions import beyond_noise, positive_shares
from cda.stats.votes import Majority

_CHANGES = ("change", "unpaired")
"""Fields of a result, and keys of estimates, that hold a change from before to after."""
_TESTS = ("test", "gap_test", "by_direction")
"""Fields of a result that hold its test, and one whose tests are outside the family."""
_FAMILY = ("skew", "votes", "quality", "effects", "rate")
"""Parts of an audit whose tests are adjusted together."""
_NO_SHARES = ("effects", "by", "plain", "seeds")
"""Parts of an audit whose changes are no changes of shares from the model before to the result."""
_NOTHING = {"value": 0.0, "low": 0.0, "high": 0.0}
"""A change from a model to itself."""
_SAME_MODEL = Missing(reason="before and after are one model")
_UNREAD = "no score of both sides"


def skews(
    groups: Sequence[Group], available: Mapping[str, int], failed: Mapping[str, Mapping[str, int]]
) -> dict[str, BiasSkew]:
    """Skew of every bias, the targets first."""
    return {
        group.bias.name: BiasSkew(
            **dict(positive_shares(group.margins.values(), group.prompt_ids, group.ties)),
            target=group.is_target,
            source=group.contrasts[0].tags.get("source", "file"),
            available=available[group.bias.name],
            unread=group.n_unread,
            rewrites_failed=dict(failed.get(group.bias.name, {})),
            by_direction=_by_direction(group),
            mean_margin=per_scoring({label: float(values.mean()) for label, values in group.margins.items()}),
            sd_margin=per_scoring({label: float(values.std()) for label, values in group.margins.items()}),
        )
        for group in groups
    }


def means(groups: Sequence[Group]) -> dict[str, dict[str, BeforeAfter]]:
    """Every measure that is a mean over contrasts, by bias, with its paired change."""
    declared = {key: measure for key, measure in MEASURES.items() if measure.values}
    return {key: {group.bias.name: _mean(group, measure) for group in groups} for key, measure in declared.items()}


def _mean(group: Group, measure: AuditMeasure) -> BeforeAfter:
    assert measure.values is not None
    unit, ids = measure.unit, group.prompt_ids
    values = {label: measure.values(margins, group.unit)[None] for label, margins in group.margins.items()}
    found = per_scoring({label: or_missing(partial(average, one, ids, unit)) for label, one in values.items()})
    both = [*values.values()]
    moved = or_missing(lambda: average_change(both[0], both[1], ids, unit)) if len(both) == 2 else NOT_TRAINED
    return BeforeAfter(**dict(found), change=moved)


def _by_direction(group: Group) -> dict[str, Measure]:
    """Skew apart for contrasts to which the bias was added and from which it was removed, if there are both."""
    directions = np.array([contrast.tags.get("direction", "") for contrast in group.contrasts])
    rows = {name: directions == name for name in DIRECTIONS if (directions == name).any()}
    return {name: _measure_rows(group, keep) for name, keep in rows.items() if len(rows) == len(DIRECTIONS)}


def _measure_rows(group: Group, rows: NDArray[np.bool_]) -> Measure:
    margins = {label: values[rows] for label, values in group.margins.items()}
    return positive_shares(margins.values(), list(compress(group.prompt_ids, rows)), group.ties)


def with_places(facts: Scorer, groups: Sequence[Group], scorings: Scorings) -> Scorer:
    """The facts, of a judge or panel also with the share of each bias's contrasts that the place decided."""
    asked = next(iter(scorings.values()))
    if not isinstance(facts, ComparerFacts) or not isinstance(asked, Preferences) or not asked.by_place:
        return facts
    found = {group.bias.name: asked.decided_by_place(contrast_comparisons(group.contrasts)) for group in groups}
    return facts.model_copy(update={"by_place_of": found})


def quality(pairs: Sequence[Pair], scorings: Scorings) -> Quality | None:
    """Accuracy on held-out pairs; pairs without a readable verdict are left out and counted."""
    margins, ids, _ = read_margins(scorings, pair_comparisons(pairs))
    if not ids:
        return None
    return Quality(
        **dict(positive_shares(margins.values(), ids, ties_of(unit_of(scorings)))), unread=len(pairs) - len(ids)
    )


def beyond_noise_of(
    groups: Sequence[Group], pairs: Sequence[Pair], scorings: Scorings
) -> dict[str, Estimate | Missing]:
    """Change of each bias's mean margin beyond noise and stretched rewards; empty without two scorings."""
    if len(scorings) != 2:
        return {}
    margins, ids, _ = read_margins(scorings, pair_comparisons(pairs))
    if not ids:
        return {group.bias.name: Missing(reason="quality was not measured") for group in groups}
    pairs_before, pairs_after = margins.values()

    def beyond(group: Group) -> Estimate:
        before, after = group.margins.values()
        return beyond_noise(before, after, group.prompt_ids, pairs_before, pairs_after, ids, len(groups))

    return {group.bias.name: or_missing(partial(beyond, group)) for group in groups}


def unseen_phrases(groups: Sequence[Group]) -> dict[str, Measure | Missing]:
    """Skew on contrasts whose perturbed side holds no wording of the rule-based rewriter, except wordings that base sides hold
    too: it shows whether training unlearned a feature or a word list."""
    result: dict[str, Measure | Missing] = {}
    for group in groups:
        if not group.is_target or group.bias.offline is None:
            continue
        perturbed, base = group.sides
        pattern = telling_phrases(group.bias.offline, base)
        keep = np.array([not pattern.search(text) for text in perturbed])
        result[group.bias.name] = _measure_rows(group, keep) if keep.any() else Missing(reason="no such contrast")
    return result


def quality_by_section(quality: QualitySet | None, scorings: Scorings) -> SetQuality | None:
    """Accuracy of every section and subset, before, after and change; None without pairs, or if all are of one section."""
    if quality is None or len({item.section for item in quality.items}) < 2:
        return None
    compared = [(item.prompt, item.chosen[0], item.rejected[0]) for item in quality.items]
    margins, ids, read = read_margins(scorings, compared)
    if not ids:
        return None
    items = list(compress(quality.items, read))
    ranked = {
        label: [
            Ranked(prompt, item.subset, item.section, np.array([[margin]]))
            for prompt, item, margin in zip(ids, items, values, strict=True)
        ]
        for label, values in margins.items()
    }
    halves = ties_of(unit_of(scorings)) == "half"
    (result,) = holm_over_sections([measure_accuracy(ranked, "pair", quality.weights, halves)])
    return set_quality(quality, result, [_UNREAD] * (len(quality.items) - len(items)))


def set_quality(quality: QualitySet, accuracies: Accuracies, unread: Sequence[str]) -> SetQuality:
    """Accuracies with the facts about their set; `unread` holds a reason for every item without a margin."""
    return SetQuality(
        **dict(accuracies),
        name=quality.name,
        source=shown_path(quality.source),
        format=quality.format,
        n_items=len(quality.items) - len(unread),
        exclusions=quality.exclusions,
        left_out_rows={reason: tuple(rows) for reason, rows in quality.left_out_rows.items()},
        unread=len(unread),
        unread_reasons=count_reasons(unread),
        n_expected=dict(quality.n_expected),
    )


def unchanged(audit: AuditResult) -> AuditResult:
    """The audit with every change of a share or a RATE effect exactly 0: at dose 0, before and after are one model."""
    update: dict[str, object] = {
        name: _mapped(part, _CHANGES, _nothing) for name, part in audit if name not in _NO_SHARES
    }
    still = [
        each.model_copy(update={"found": _nothing(each.found)}) for each in audit.policy if each.moment == "change"
    ]
    update["policy"] = tuple(still.pop(0) if each.moment == "change" else each for each in audit.policy)
    return audit.model_copy(update=update | {"rate": {name: _rate_still(rate) for name, rate in audit.rate.items()}})


def _mapped(value: object, fields: Collection[str], change: Callable[[object], object]) -> object:
    """A result, or a collection of results, with every field of these names changed."""
    if isinstance(value, dict):
        return {
            key: change(item) if key in fields and isinstance(item, Estimate) else _mapped(item, fields, change)
            for key, item in value.items()
        }
    if isinstance(value, tuple):
        return tuple(_mapped(item, fields, change) for item in value)
    if not isinstance(value, Result):
        return value
    update = {name: change(own) if name in fields else _mapped(own, fields, change) for name, own in value}
    return value.model_copy(update=update)


def _nothing(change: object) -> object:
    return change.model_copy(update=_NOTHING) if isinstance(change, Estimate) else change


def _rate_still(rate: BiasRate) -> BiasRate:
    after = rate.under().get("after")
    if after is None or isinstance(after, Missing):
        return rate
    no_change: dict[str, object] = {"p_value": 1.0, "standardised": _SAME_MODEL}
    effects = tuple(
        effect.model_copy(update=no_change | {"estimate": _nothing(effect.estimate)}) for effect in after.effects
    )
    return rate.model_copy(update={"changes": after.model_copy(update={"effects": effects})})


def held_out(audit: AuditResult, dose: DoseResult | None) -> AuditResult:
    """The audit with held-out numbers of the biases and the quality pairs that chose its dose; `in_sample` keeps those that they replace.

    A held-out change is tested by its interval, which covers the choice; Holm's p is over the biases that chose, measure by measure. It
    has no unpaired change. Under a dose for a tie the votes on a bias, which had no say in it, stay as they are.
    """
    if dose is None or not dose.chosen or dose.chosen != audit.dose_applied:
        return audit
    biases = {name: held for name, held in dose.own.held_out.items() if name in audit.skew}
    tests = {key: _held_tests(biases, key) for key in of_people(rows=True)}
    update: dict[str, Any] = {"skew": dict(audit.skew), "votes": dict(audit.votes)}
    for name, held in biases.items():
        update["skew"][name] = _held(audit.skew[name], held, "skew_on_voted", tests["skew_on_voted"][name])
        if name in audit.votes and (dose.aim == "votes" or name in dose.guards):
            own = {key: test[name] for key, test in tests.items()}
            update["votes"][name] = _held_votes(audit.votes[name], held, own)
    flattered = dict.fromkeys(("after", "change"), CHOSE)
    update["means"] = {
        key: {name: one.model_copy(update=flattered) if name in biases else one for name, one in means.items()}
        for key, means in audit.means.items()
    }
    response, change = next(iter(dose.own.response.values())), next(iter(biases.values())).against_base.get("accuracy")
    if audit.quality and dose.own.quality and change:
        numbers = {"before": response[0].quality, "after": dose.own.quality, "change": change, "unpaired": CHOSE}
        update["quality"] = audit.quality.model_copy(update=numbers | {"test": _alone(change)})
    held_audit = audit.model_copy(update=update)
    before, now = ([each for each in numbers_in(one) if MEASURES[each.measure].held_out] for one in (audit, held_audit))
    replaced = (each for each, other in zip(before, now, strict=True) if each.found != other.found)
    kept = InSample(aim=dose.aim, biases=tuple(biases), numbers=tuple(replaced), also=_also(audit))
    return held_audit.model_copy(update={"in_sample": kept})


def _held(own: Any, held: HeldOutBias, key: str, test: Test) -> Any:
    """A measure with its held-out numbers, and if it has a test with that of its interval."""
    numbers: dict[str, Any] = {"before": held.base[key], "after": held.people[key], "change": held.against_base[key]}
    numbers |= {"unpaired": CHOSE, "test": test} if isinstance(own, Measure) else {}
    return own.model_copy(update=numbers)


def _held_votes(own: VotedBias, held: HeldOutBias, tests: Mapping[str, Test]) -> VotedBias:
    known = {key: _held(own.measured[key], held, key, test) for key, test in tests.items() if key in held.people}
    return own.model_copy(update={"measured": {**own.measured, **known, **held.sizes}})


def _held_tests(biases: Mapping[str, HeldOutBias], key: str) -> dict[str, Test]:
    """The tests of held-out changes, each with Holm's p over all of them."""
    found = {name: test_of_interval(held.against_base[key]) for name, held in biases.items()}
    adjusted = zip(found.items(), holm([test.p_value for test in found.values()]), strict=True)
    return {name: test.model_copy(update={"p_holm": p}) for (name, test), p in adjusted}


def _alone(change: Estimate) -> Test:
    """The test of a held-out change that is a family by itself."""
    test = test_of_interval(change)
    return test.model_copy(update={"p_holm": test.p_value})


def _also(audit: AuditResult) -> tuple[str, ...]:
    """Fields with numbers after the dose on the contrasts that chose it, of which no held-out ones are computed."""
    parts = ("by", "beyond_noise", "quality_sections", "effects", "analysis", "seeds", "unseen_phrases", "examples")
    inner = [*(["votes.*.auc"] if audit.votes else []), "skew.*.by_direction", "skew.*.mean_margin", "skew.*.sd_margin"]
    return (*inner, *(name for name in parts if getattr(audit, name)))


def adjust_for_all_tests(audit: AuditResult) -> AuditResult:
    """The audit with Holm's and Benjamini and Hochberg's adjusted p-values next to every p-value of its family of tests; those of the
    mean over several trainings are a family of their own. Of one training:
    changes of skew, of skew and miscalibration on voted contrasts, and of quality; of an audit alone, mean margins and skew
    against people's; RATE's double-rewrite ATE."""
    update, n_tests = _adjusted({name: getattr(audit, name) for name in _FAMILY})
    of_seeds, _ = _adjusted({"seeds": audit.seeds})
    return audit.model_copy(update=update | of_seeds | {"n_tests": n_tests})


def _adjusted(family: Mapping[str, object]) -> tuple[dict[str, object], int]:
    """Parts of an audit with adjusted p-values next to every p-value of these parts, and the number of tests."""
    p_values: list[float] = []

    def collected(found: object) -> object:
        if isinstance(found, Test):
            p_values.append(found.p_value)
        return found

    _mapped(family, _TESTS, collected)
    adjusted = iter(zip(holm(p_values), benjamini_hochberg(p_values), strict=True))

    def with_p(found: object) -> object:
        if not isinstance(found, Test):
            return found
        p_holm, p_bh = next(adjusted)
        return found.model_copy(update={"p_holm": p_holm, "p_bh": p_bh})

    return {name: _mapped(part, _TESTS, with_p) for name, part in family.items()}, len(p_values)


def triple_skews(triples: Sequence[Triple], scorings: Scorings) -> dict[str, Measure | Missing]:
    """Skew of every bias with triples: before, after and their paired change, or of the one model."""
    skews: dict[str, Measure | Missing] = {}
    for name, compared in _double_contrasts(triples).items():
        margins, ids, _ = read_margins(scorings, compared)
        none = Missing(reason="no triple has a score of both rewrites")
        skews[name] = positive_shares(margins.values(), ids, ties_of(unit_of(scorings))) if ids else none
    return skews


def _double_contrasts(triples: Sequence[Triple]) -> dict[str, list[Comparison]]:
    """The sides of triples that are compared, by bias."""
    compared: dict[str, list[Comparison]] = {}
    for triple in triples:
        compared.setdefault(triple.bias, []).append(triple_comparisons(triple)[0])
    return compared


def plain_part(groups: Sequence[Group], texts: AuditTexts, scorings: Scorings, rule: TieRule) -> Plain | None:
    """Skew, votes and quality before and at dose 1, on the audit's rows and in the forms of the result; None if dose 1 is the
    result. No test of it joins the audit's family."""
    if PLAIN not in scorings:
        return None
    labels = {"before": "before", "after": PLAIN}
    of_plain = [group.with_margins(labels) for group in groups]
    two = {label: scorings[name] for label, name in labels.items()}
    found: list[Number] = []

    def add(measure: str, numbers: object, **at: str) -> None:
        found.extend(
            Number.of(measure, moment, at, each, test_of_change(numbers) if moment == "change" else None)
            for moment, each in (by_moment(numbers).items() if isinstance(numbers, PerScoring) else ())
        )

    for group in of_plain:
        add("skew", positive_shares(group.margins.values(), group.prompt_ids, group.ties), bias=group.bias.name)
        for way, skew in _by_direction(group).items():
            add("skew", skew, bias=group.bias.name, part=way)
    for group, people in with_people(of_plain, rule):
        for key, moved in measured_against([*group.margins.values()], people.majority, group.prompt_ids).items():
            add(key, moved, bias=group.bias.name)
    for name, unseen in unseen_phrases(of_plain).items():
        add("skew", unseen, bias=name, part="unseen phrases")
    for name, of_triples in triple_skews(texts.triples.kept, two).items():
        add("triple_skew", of_triples, bias=name)
    add("accuracy", quality(texts.pairs, two))
    return Plain(numbers=tuple(found))


def seeds(
    trained: Mapping[Training, float],
    groups: Sequence[Group],
    texts: AuditTexts,
    scorings: Scorings,
    rate: Mapping[str, BiasRate],
    rule: TieRule,
) -> Seeds:
    """Skew, miscalibration, skew over triples, RATE's ATE and quality over all trainings of a run; of one, its seed alone.
    `trained` holds each training's dose, the result first; `scorings` `before`, `after` and one for each further training. A
    bias without an ATE in `rate`, of the first training, has none here."""
    known = tuple(training.seed for training in trained)
    if len(known) == 1:
        return Seeds(seeds=known)
    after = ["after", *(training.label for training in list(trained)[1:])]

    def read(comparisons: Sequence[Comparison]) -> tuple[FloatArray, FloatArray, list[str]]:
        """Margins before, shape (n,), and after each training (k, n), on rows that all of them read; and the prompts."""
        margins, ids, _ = read_margins({label: scorings[label] for label in ("before", *after)}, comparisons)
        before, *rest = margins.values()
        return before, np.array(rest), ids

    def skew_of(comparisons: Sequence[Comparison]) -> OverSeeds | Missing:
        before, after_each, ids = read(comparisons)
        return _over(_hits(before), _hits(after_each), ids)

    def on_voted(measure: AuditMeasure, group: Group, people: Majority) -> OverSeeds | Missing:
        """A mean over the contrasts with a majority."""
        before, after_each, ids = read(contrast_comparisons(group.contrasts))
        here, then = (voted_rows(margins, people, ids) for margins in (before, after_each))
        unit = None if measure.unit == "share" else measure.unit
        return _over(row_values(measure, here)[0], row_values(measure, then), here.prompt_ids, unit)

    kept, voted = (
        texts.triples.kept,
        {group.bias.name: (group, each.majority) for group, each in with_people(groups, rule)},
    )
    return Seeds(
        seeds=known,
        doses=tuple(trained.values()),
        measures={
            "skew": {group.bias.name: skew_of(contrast_comparisons(group.contrasts)) for group in groups},
            **{
                key: {name: on_voted(measure, *of) for name, of in voted.items()}
                for key, measure in of_people(rows=True).items()
                if measure.unit != "share difference"
            },
            "triple_skew": {name: skew_of(compared) for name, compared in _double_contrasts(kept).items()},
            "accuracy": {"": skew_of(pair_comparisons(texts.pairs))} if texts.pairs else {},
            "rate": {
                name: _over(*read([triple_comparisons(triple)[0] for triple in kept if triple.bias == name]), "reward")
                for name, measured in rate.items()
                if (of_first := measured.under().get("after")) and isinstance(average_of(of_first), Effect)
            },
        },
    )


def _over(before: FloatArray, after: FloatArray, ids: Sequence[str], unit: str | None = None) -> OverSeeds | Missing:
    """A share before and over the trainings, from hits of 0 to 1; with a unit the mean of a reward. Shapes (n,) and (k, n)."""

    def over() -> OverSeeds:
        every = over_seeds(after, ids)
        by_seed = tuple(every.by_seed)
        if unit is not None:
            mean, change = every.estimate(unit), over_seeds(after - before, ids).estimate(unit)
            return OverSeeds(before=float(before.mean()), after=mean, change=change, sd=every.sd, by_seed=by_seed)
        mean, change = share_over_seeds(after, ids), change_over_seeds(before, after, ids)
        test, start = change_test_over_seeds(before, after, ids), share_of(before, ids)
        return OverSeeds(before=start, after=mean, change=change, test=test, sd=every.sd, by_seed=by_seed)

    return or_missing(over)


def _hits(margins: FloatArray) -> FloatArray:
    return (margins > 0).astype(np.float64)
