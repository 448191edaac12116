"""Shares and means of an audit: skew and quality under every scoring with their changes, with plain CDA and over several trainings
of a run; and the family of all its tests."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import compress, product
from typing import Any, cast

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
from cda.numbers.measures import (
    CHOSE,
    MEASURES,
    AuditMeasure,
    Material,
    On,
    Rows,
    Unit,
    hits,
    numbers_of,
    of_people,
    of_place,
    test_of_interval,
)
from cda.numbers.people import measured_against, row_values, voted_rows
from cda.numbers.views import numbers_in
from cda.records import TieRule, Triple, count_reasons, prompt_id
from cda.resources.artifacts import shown_path
from cda.results.audit import AuditResult, InSample
from cda.results.base import (
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
from cda.results.effects import T_TEST, BiasRate, Effect, average_of
from cda.results.facts import ComparerFacts, Scorer
from cda.results.skew import BiasSkew, OverSeeds, Plain, Seeds, VotedBias
from cda.scorers.compared import Comparison, Preferences, Rewards
from cda.stats.accuracy import Ranked, holm_over_sections, measure_accuracy
from cda.stats.estimators import mean_of, paired_change, resampled, share_of
from cda.stats.means import change_over_seeds, change_test_over_seeds, over_seeds, share_over_seeds
from cda.stats.multiplicity import benjamini_hochberg, holm
from cda.stats.proportions import exact_change_test, positive_shares, unpaired_change
from cda.stats.votes import Majority

_CHANGES = ("change", "unpaired")
"""Fields of a result, and keys of estimates, that hold a change from before to after."""
_TESTS = ("test", "gap_test")
"""Fields of a result that hold its test."""
_FAMILY = ("skew", "votes", "effects", "rate")
"""Parts of an audit whose tests are adjusted together."""
_NO_SHARES = ("effects", "by", "plain", "seeds", "measured")
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
            mean_margin=per_scoring({label: float(values.mean()) for label, values in group.margins.items()}),
            sd_margin=per_scoring({label: float(values.std()) for label, values in group.margins.items()}),
        )
        for group in groups
    }


def material(groups: Sequence[Group], texts: AuditTexts, scorings: Scorings, by_rules: bool) -> dict[On, list[Rows]]:
    """The rows of an audit that measures are computed on; `by_rules`: rules made the rewrites of its training."""
    parts: dict[On, list[Rows]] = {"added": [], "removed": [], "unseen phrases": []}
    for group in groups:
        for on, keep in _parts(group, by_rules):
            parts[on].append(_rows_of(group, keep))
    found: dict[On, list[Rows]] = {
        "contrasts": [_rows_of(group) for group in groups],
        **parts,
        "triples": [
            _read({"bias": name}, scorings, [triple_comparisons(triple)[0] for triple in own])
            for name, own in _by_bias(texts.triples.kept).items()
        ],
        "texts": list(_single_texts(texts.triples.kept, scorings)),
        "quality": [_read({}, scorings, pair_comparisons(texts.pairs))],
    }
    together = found["contrasts"]
    margins = {label: np.concatenate([rows.scored[label] for rows in together]) for label in scorings if together}
    ids = [name for rows in together for name in rows.prompt_ids]
    found["audit"] = [Rows(at={}, scored=margins, prompt_ids=ids, unit=unit_of(scorings))]
    return {on: [rows for rows in each if rows.prompt_ids] for on, each in found.items()}


def _rows_of(group: Group, keep: NDArray[np.bool_] | None = None) -> Rows:
    rows = np.ones(len(group.prompt_ids), dtype=bool) if keep is None else keep
    margins = {label: values[rows] for label, values in group.margins.items()}
    ids = list(compress(group.prompt_ids, rows))
    return Rows(at={"bias": group.bias.name}, scored=margins, prompt_ids=ids, unit=group.unit)


def _parts(group: Group, by_rules: bool) -> Iterator[tuple[On, NDArray[np.bool_]]]:
    """Contrasts to which the bias was added and from which it was removed, if there are both. Of a target those whose perturbed side
    holds no wording of the rule-based rewriter, except wordings that base sides hold too: they show whether training unlearned a
    feature or a word list."""
    made = np.array([contrast.tags.get("direction", "") for contrast in group.contrasts])
    if all((made == way).any() for way in DIRECTIONS):
        yield from ((way, made == way) for way in DIRECTIONS)
    if by_rules and group.is_target and group.bias.offline is not None:
        perturbed, base = group.sides
        pattern = telling_phrases(group.bias.offline, base)
        yield "unseen phrases", np.array([not pattern.search(text) for text in perturbed])


def _read(at: Mapping[str, str], scorings: Scorings, comparisons: Sequence[Comparison]) -> Rows:
    margins, ids, _ = read_margins(scorings, comparisons)
    return Rows(at=at, scored=margins, prompt_ids=ids, unit=unit_of(scorings))


def _by_bias(triples: Sequence[Triple]) -> dict[str, list[Triple]]:
    found: dict[str, list[Triple]] = {}
    for triple in triples:
        found.setdefault(triple.bias, []).append(triple)
    return found


def _single_texts(triples: Sequence[Triple], scorings: Scorings) -> Iterator[Rows]:
    """Each kind of text of triples, by whether their originals have the bias; none if a scorer compares pairs. Texts without a reward
    (too long) are left out."""
    rewarding = {label: scoring for label, scoring in scorings.items() if isinstance(scoring, Rewards)}
    for bias, own in _by_bias(triples).items() if len(rewarding) == len(scorings) else ():
        for which, text in product(("with", "without"), ("original", "rewrite", "rewrite_of_rewrite")):
            texts = [(each.prompt, getattr(each, text)) for each in own if each.has_attribute == (which == "with")]
            if texts:
                rewards = {label: np.array([one.of(*each) for each in texts]) for label, one in rewarding.items()}
                there = ~np.isnan(np.array(list(rewards.values()))).any(axis=0)
                yield Rows(
                    at={"bias": bias, "text": f"{which}, {text}"},
                    scored={label: values[there] for label, values in rewards.items()},
                    prompt_ids=[prompt_id(prompt) for prompt, _ in compress(texts, there)],
                    unit=unit_of(scorings),
                )


def measured_numbers(rows: Material, keys: Collection[str] = MEASURES) -> tuple[Number, ...]:
    """Every measure that audits compute by themselves, on its rows: under each scoring, and of two their paired change with its
    test."""
    return tuple(
        number
        for key, measure in MEASURES.items()
        for own in (rows.get(measure.on, ()) if key in keys and measure.is_stored else ())
        for number in _numbers(key, measure, own, rows)
    )


def _numbers(key: str, measure: AuditMeasure, rows: Rows, material: Material) -> Iterator[Number]:
    at, two = dict(rows.at), len(rows.scored) == 2
    if measure.estimate:
        yield from (Number.of(key, moment, at, each) for moment, each in measure.estimate(rows, material).items())
        return
    assert measure.values is not None
    values = {label: measure.values(margins, rows) for label, margins in rows.scored.items()}
    sides: dict[str, tuple[FloatArray, ...]] = {label: (one,) for label, one in values.items()}
    for moment, own in (sides | ({"change": tuple(values.values())} if two else {})).items():
        found = or_missing(partial(_estimated, measure, rows.prompt_ids, *own))
        estimate, test = (found, None) if isinstance(found, Missing) else found
        yield Number.of(key, moment, at, estimate, test if moment == "change" else None)
    if two and measure.values is hits:
        yield Number.of(key, "change", {**at, "interval": "unpaired"}, unpaired_change(*values.values()))


def _estimated(
    measure: AuditMeasure, ids: Sequence[str], values: FloatArray, after: FloatArray | None = None
) -> tuple[Estimate, Test | None]:
    """The measure of values of shape (n,), with a statistic (n, k); with those after a training its paired change, and the test that it
    is 0: exact for hits, Student's for a mean."""
    if statistic := measure.statistic:
        at, columns = values.shape[1], values if after is None else np.hstack([values, after])

        def of(sums: FloatArray) -> FloatArray:
            first = statistic(sums[:, :at])
            return first if after is None else statistic(sums[:, at:]) - first

        unit, bounds = (measure.unit, "") if after is None else (f"{measure.unit} difference", "change")
        return resampled(columns, ids, of, unit, measure.bounds(bounds)), None
    if measure.unit != "share":
        mean = mean_of(values if after is None else after - values, ids, measure.unit)
        return mean.estimate, Test(p_value=mean.p_value(), method=T_TEST)
    if after is None:
        return share_of(values, ids), None
    test = or_missing(partial(exact_change_test, values, after, ids))
    return paired_change(values, after, ids), test if isinstance(test, Test) else None


def tied(rows: Material) -> dict[str, dict[str, PerScoring[int]]]:
    """Margins of exactly 0 where hits are computed: by what these are on, and by bias."""
    kinds = dict.fromkeys(one.on for one in MEASURES.values() if one.is_stored and one.values is hits)
    return {
        on: {
            own.at.get("bias", ""): per_scoring({label: int((one == 0).sum()) for label, one in own.scored.items()})
            for own in rows[on]
        }
        for on in kinds
        if rows.get(on)
    }


def with_places(facts: Scorer, groups: Sequence[Group], scorings: Scorings) -> Scorer:
    """The facts, of a judge or panel also with the share of each bias's contrasts that the place decided."""
    asked = next(iter(scorings.values()))
    if not isinstance(facts, ComparerFacts) or not isinstance(asked, Preferences) or not asked.by_place:
        return facts
    found = {group.bias.name: asked.decided_by_place(contrast_comparisons(group.contrasts)) for group in groups}
    return facts.model_copy(update={"by_place_of": found})


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
    update["measured"] = tuple(
        each.model_copy(update={"found": _nothing(each.found)}) if each.moment == "change" else each
        for each in audit.measured
    )
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
    response, change = next(iter(dose.own.response.values())), next(iter(biases.values())).against_base.get("accuracy")
    quality: dict[str, Estimate | None] = {}
    if dose.own.quality and change:
        quality = {"before": response[0].quality, "after": dose.own.quality, "change": change}
    update["measured"] = tuple(_measured_held(each, biases, quality) for each in audit.measured)
    held_audit = audit.model_copy(update=update)
    before, now = ([each for each in numbers_in(one) if MEASURES[each.measure].held_out] for one in (audit, held_audit))
    replaced = (each for each, other in zip(before, now, strict=True) if each.found != other.found)
    kept = InSample(aim=dose.aim, biases=tuple(biases), numbers=tuple(replaced), also=_also(audit))
    return held_audit.model_copy(update={"in_sample": kept})


def _measured_held(own: Number, biases: Collection[str], quality: Mapping[str, Estimate | None]) -> Number:
    """Quality accuracy held out, and no number after the dose of other measures of the contrasts that chose it."""
    measure, when = MEASURES[own.measure], own.moment
    if own.measure == "accuracy" and quality and set(own.at) <= {"interval"}:
        found = None if own.at else quality[when]
        test = _alone(found) if found and when == "change" else None
        return own.model_copy(update={"found": found or CHOSE, "test": test})
    if measure.values and measure.on == "contrasts" and own.at.get("bias") in biases and when in ("after", "change"):
        return own.model_copy(update={"found": CHOSE, "test": None})
    return own


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


_PARTS = ("added", "removed", "unseen phrases")
"""Parts of a bias's contrasts that measures are on."""


def _also(audit: AuditResult) -> tuple[str, ...]:
    """Fields with numbers after the dose on the contrasts that chose it, of which no held-out ones are computed."""
    parts = ("by", "beyond_noise", "quality_sections", "effects", "analysis", "seeds", "examples")
    inner = [*(["votes.*.measured.auc"] if audit.votes else []), "skew.*.mean_margin", "skew.*.sd_margin"]
    inner += [
        f"measured: {key}"
        for key in dict.fromkeys(each.measure for each in audit.measured)
        if MEASURES[key].on in _PARTS
    ]
    return (*inner, *(name for name in parts if getattr(audit, name)))


def adjust_for_all_tests(audit: AuditResult) -> AuditResult:
    """The audit with Holm's and Benjamini and Hochberg's adjusted p-values next to every p-value of its family of tests; those of the
    mean over several trainings are a family of their own. Of one training:
    changes of skew, of skew and miscalibration on voted contrasts, and of quality; of an audit alone, mean margins and skew
    against people's; RATE's double-rewrite ATE."""
    in_family = [MEASURES[each.measure].family for each in audit.measured]
    parts = {name: getattr(audit, name) for name in _FAMILY} | {"measured": tuple(compress(audit.measured, in_family))}
    update, n_tests = _adjusted(parts)
    adjusted = iter(cast("tuple[Number, ...]", update["measured"]))
    numbers = zip(audit.measured, in_family, strict=True)
    update["measured"] = tuple(next(adjusted) if tested else each for each, tested in numbers)
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


def plain_part(
    groups: Sequence[Group], texts: AuditTexts, scorings: Scorings, rule: TieRule, by_rules: bool
) -> Plain | None:
    """Skew, votes and the other measures of a report's first table before and at dose 1, on the audit's rows and in the forms of the
    result; None if dose 1 is the result. No test of it joins the audit's family."""
    if PLAIN not in scorings:
        return None
    labels = {"before": "before", "after": PLAIN}
    of_plain = [group.with_margins(labels) for group in groups]
    found: list[Number] = []
    for group in of_plain:
        skew = positive_shares(group.margins.values(), group.prompt_ids, group.ties)
        found += numbers_of("skew", skew, {"bias": group.bias.name})
    for group, people in with_people(of_plain, rule):
        for key, moved in measured_against([*group.margins.values()], people.majority, group.prompt_ids).items():
            found += numbers_of(key, moved, {"bias": group.bias.name})
    rows = material(of_plain, texts, {label: scorings[name] for label, name in labels.items()}, by_rules)
    stored = [each for each in measured_numbers(rows, of_place("report")) if "interval" not in each.at]
    return Plain(numbers=(*found, *stored))


def seeds(
    trained: Mapping[Training, float],
    groups: Sequence[Group],
    texts: AuditTexts,
    scorings: Scorings,
    rate: Mapping[str, BiasRate],
    rule: TieRule,
) -> Seeds:
    """The measures of several trainings over all trainings of a run; of one, its seed alone. `trained` holds each training's dose, the
    result first; `scorings` `before`, `after` and one for each further training. A bias without an ATE in `rate`, of the first
    training, has none here."""
    known = tuple(training.seed for training in trained)
    if len(known) == 1:
        return Seeds(seeds=known)
    labels = ["before", "after", *(training.label for training in list(trained)[1:])]
    every = [group.with_margins({label: label for label in labels}) for group in groups]
    rows = material(every, texts, {label: scorings[label] for label in labels}, by_rules=False)
    unrated = {
        name
        for name, measured in rate.items()
        if not ((first := measured.under().get("after")) and isinstance(average_of(first), Effect))
    }

    def on_voted(measure: AuditMeasure, group: Group, people: Majority) -> OverSeeds | Missing:
        """A mean over the contrasts with a majority."""
        voted = voted_rows(np.array([*group.margins.values()]), people, group.prompt_ids)
        return _over(row_values(measure, voted), voted.prompt_ids, measure.unit)

    def on_rows(measure: AuditMeasure, of: Rows) -> OverSeeds | Missing:
        assert measure.values is not None
        return _over(np.array([measure.values(each, of) for each in of.scored.values()]), of.prompt_ids, measure.unit)

    return Seeds(
        seeds=known,
        doses=tuple(trained.values()),
        measures={
            **{
                key: {
                    bias: on_rows(measure, of)
                    for of in rows[measure.on]
                    if (bias := of.at.get("bias", "")) not in (unrated if key == "rate" else ())
                }
                for key, measure in of_place("seeds").items()
                if measure.values
            },
            **{
                key: {
                    group.bias.name: on_voted(measure, group, each.majority) for group, each in with_people(every, rule)
                }
                for key, measure in of_people(rows=True).items()
                if measure.unit != "share difference"
            },
        },
    )


def _over(values: FloatArray, ids: Sequence[str], unit: Unit) -> OverSeeds | Missing:
    """A share of hits of 0 to 1, or the mean of another unit: before the trainings, then after each of k, shape (1 + k, n)."""
    before, after = values[0], values[1:]

    def over() -> OverSeeds:
        every = over_seeds(after, ids)
        by_seed = tuple(every.by_seed)
        if unit != "share":
            mean, change = every.estimate(unit), over_seeds(after - before, ids).estimate(unit)
            return OverSeeds(before=float(before.mean()), after=mean, change=change, sd=every.sd, by_seed=by_seed)
        mean, change = share_over_seeds(after, ids), change_over_seeds(before, after, ids)
        test, start = change_test_over_seeds(before, after, ids), share_of(before, ids)
        return OverSeeds(before=start, after=mean, change=change, test=test, sd=every.sd, by_seed=by_seed)

    return or_missing(over)
