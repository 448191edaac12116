"""Tables of data: labels, counterfactual pairs, correlations, and everything that was left out on the way."""

from __future__ import annotations

from collections.abc import Iterable

from cda.auditing.report_rate_cells import last_effects
from cda.auditing.report_tables import compares
from cda.report.numbers import NOT_ESTIMATED, count, decimals, share, signed
from cda.report.tables import Table
from cda.results.audit import AuditResult
from cda.results.base import Estimate, Missing
from cda.results.effects import Contingency
from cda.results.facts import LabelCounts, RewardModelFacts

_SAME = "both sides are the same after cutting"


def label_tables(label: LabelCounts | None) -> list[Table]:
    """For each bias, which sides of the training data exhibit it."""
    if label is None:
        return []
    tables = []
    for tallies, of in ((label.labels, "pairs"), (label.supplement_labels, "supplementary pairs")):
        for name, tally in tallies.items():
            caption = f"{name}: labels of {tally.n} {of}, by {tally.by}; {tally.unparsed} unparsed"
            if (asked := tally.asked) and asked.query_asked:
                caption += f"; {asked.query_calls_for_it} of {asked.query_answered} messages call for it"
            tables.append(_two_by_two(caption, tally.both, tally.chosen_only, tally.rejected_only, tally.neither))
    return tables


def _of_tried(made: int, tried: int) -> str:
    return f"{made} ({made / tried:.0%})" if tried else str(made)


def _two_by_two(caption: str, both: int, chosen_only: int, rejected_only: int, neither: int) -> Table:
    rows = (
        ("chosen exhibits it", str(both), str(chosen_only), str(both + chosen_only)),
        ("chosen does not", str(rejected_only), str(neither), str(rejected_only + neither)),
        ("sum", str(both + rejected_only), str(chosen_only + neither),
         str(both + chosen_only + rejected_only + neither)),
    )  # fmt: skip
    return Table(caption, ("", "rejected exhibits it", "rejected does not", "sum"), rows)


def synthesis_table(audit: AuditResult) -> Table | None:
    """How many counterfactual pairs were made for each bias."""
    if audit.stages.synthesize is None:
        return None
    header = ("bias", "asked for", "eligible", "tried", "flipped and kept", "supplementary", "rewritten by")
    rows = tuple(
        (name, "all eligible" if one.requested is None else str(one.requested), str(one.eligible),
         str(one.tried), _of_tried(one.made, one.tried), str(one.supplementary), one.by)
        for name, one in audit.stages.synthesize.biases.items()
    )  # fmt: skip
    return Table("Counterfactual pairs", header, rows)


def exclusion_table(audit: AuditResult) -> Table:
    """Everything that was left out on the way, by step and reason; a step that lost nothing says so."""
    rows = [
        (step, reason, str(number), seen)
        for step, seen, reasons in _exclusions(audit)
        for reason, number in (sorted(reasons.items()) or [("nothing left out", 0)])
    ]
    return Table("Left out, by step and reason", ("step", "reason", "left out", "of"), tuple(rows))


def _exclusions(audit: AuditResult) -> Iterable[tuple[str, str, dict[str, int]]]:
    """Step, how many it saw, and reason to count."""
    stages = audit.stages
    if label := stages.label:
        yield "loading training pairs", str(label.pairs.seen), label.pairs.dropped
        if label.supplement:
            yield "loading supplementary pairs", str(label.supplement.seen), label.supplement.dropped
        kept, used = label.pairs.kept, label.pairs.used
        if used is not None and used < kept:
            yield "drawing training pairs", str(kept), {"not drawn (data.max_pairs)": kept - used}
        for name, tally in label.labels.items():
            yield f"labelling {name}", str(tally.n), _positive({"unparsed": tally.unparsed})
    if synthesize := stages.synthesize:
        for name, dropped in synthesize.in_audit.items():
            yield f"choosing what to teach of {name}", str(dropped.seen), dropped.dropped
        for name, made in synthesize.biases.items():
            yield f"rewriting for {name}", str(made.tried), made.rejected
        if taught := synthesize.contrasts:
            yield "loading taught contrasts", str(taught.file.seen), taught.file.dropped
            yield "choosing taught contrasts", "", _positive(taught.left_out)
    if train := stages.train:
        mix = synthesize.mix if synthesize else train
        same = {"both sides the same after cutting": train.identical_after_truncation}
        yield "training", str(mix.train + mix.validation), _positive(same)
    for step, excluded in audit.excluded.items():
        if excluded.seen:
            triples = step.startswith("triples of")
            yield step if triples else f"loading {step}", str(excluded.seen), dict(excluded.reasons)
    if audit.votes_unmatched:
        yield "matching votes", "", {"items that are none of the contrasts": audit.votes_unmatched}
    unread = _unread(audit)
    for name, skew in audit.skew.items():
        n = skew.before.n + skew.unread
        reasons = {f"no rewrite: {reason}": number for reason, number in skew.rewrites_failed.items()}
        reasons |= _positive({"not drawn (audit.max_contrasts)": skew.available - n})
        reasons |= _positive({unread: skew.unread})
        left_out = audit.votes[name].left_out if name in audit.votes else {}
        reasons |= {f"people: {reason} (left out beside people)": number for reason, number in left_out.items()}
        if reasons:
            failed = sum(skew.rewrites_failed.values())
            yield f"contrasts of {name}", str(skew.available + failed), reasons
    quality = audit.quality
    if quality is not None:
        used = quality.before.n + quality.unread
        available = audit.available_quality
        reasons = _positive({"not drawn (audit.max_quality)": available - used, unread: quality.unread})
        if reasons:
            yield "comparing quality pairs", str(available), reasons
    for name, one in audit.rate.items():
        if one.unread:
            reason = "two of its texts are the same after cutting" if unread == _SAME else f"{unread} on a comparison"
            yield f"comparing triples of {name}", str(one.n + one.unread), {reason: one.unread}
        if lost := one.naive_unread:
            found = next((each.estimate.n for each in last_effects(one) if each.estimator == "naive"), 0)
            yield f"comparing originals of {name}, naive", str(found + lost), {f"{unread} on a comparison": lost}


def _unread(audit: AuditResult) -> str:
    """Why a comparison says nothing: of a judge, or of a reward model, to which two texts may be one after cutting."""
    if not isinstance(audit.model, RewardModelFacts):
        return "no readable verdict of the judge"
    return f"a text is too long, or {_SAME}" if audit.model.dropped else _SAME


def rates_table(audit: AuditResult) -> Table | None:
    """What the training data favours: how often the side with the bias was the chosen one."""
    rows = []
    for name, one in audit.analysis.items():
        match one.labels and one.labels.contingency:
            case Contingency() as table:
                rates = [share(rate) for rate in (table.selection_rate, table.chosen_rate, table.rejected_rate)]
                rows.append((name, *rates, count(table.selection_rate)))
            case Missing(reason=reason):
                rows.append((name, reason, "", "", ""))
    if not rows:
        return None
    header = ("bias", "chosen where one side has it", "of all chosen", "of all rejected", "pairs with it on one side")
    of = "the training data" if compares(audit) else "the labelled pairs"
    return Table(f"The bias in {of}, with 95% intervals", header, tuple(rows))


def contingency_tables(audit: AuditResult) -> list[Table]:
    """Which sides of the labelled pairs exhibit each bias, in an audit alone; of a training, see `label_tables`."""
    if compares(audit):
        return []
    tables = []
    for name, one in audit.analysis.items():
        table = one.labels and one.labels.contingency
        if isinstance(table, Contingency):
            read = f"{table.exclusions.dropped} with a label that cannot be read"
            caption = f"{name}: labels of {table.exclusions.seen} pairs; {read}"
            tables.append(_two_by_two(caption, table.both, table.only_chosen, table.only_rejected, table.neither))
    return tables


def correlation_table(audit: AuditResult) -> Table | None:
    """r between the attribute and being preferred: in the training data, by people, by the model."""
    labelled = compares(audit) or any(one.labels for one in audit.analysis.values())
    rows = []
    for name, one in audit.analysis.items():
        found = one.correlation
        trained = [_correlation(one.labels.r_train if one.labels else None)] if labelled else []
        by_model = (_correlation(r) for _, r in found.model.items())
        rows.append((name, found.of, *trained, _correlation(found.people), *by_model))
    if not rows:
        return None
    trained = ["training data" if compares(audit) else "labelled pairs"] if labelled else []
    header = ("bias", "attribute", *trained, "people", *(_model(when) for when in audit.scorings))
    return Table("Correlation of the attribute with being preferred (r), with 95% intervals", header, tuple(rows))


def observational_table(audit: AuditResult) -> Table | None:
    """Mean reward with and without the attribute as answers come: a description, not an effect."""
    rows = []
    for name, one in audit.analysis.items():
        found = one.observational
        by_scoring = dict.fromkeys(audit.scorings, found) if isinstance(found, Missing) else dict(found.effect.items())
        for when, effect in by_scoring.items():
            if isinstance(effect, Missing):
                rows.append((name, _model(when), effect.reason, ""))
            else:
                rows.append((name, _model(when), signed(effect.estimate), count(effect.estimate)))
    if not rows:
        return None
    header = ("bias", "scored by", "with − without, within prompts", "prompts")
    return Table(
        "Mean reward of quality answers that have the attribute against those that have not", header, tuple(rows)
    )


def _correlation(estimate: Estimate | Missing | None) -> str:
    if estimate is None:
        return ""
    return NOT_ESTIMATED if isinstance(estimate, Missing) else f"{decimals(estimate)} (n {count(estimate)})"


def _model(when: str) -> str:
    return "model" if when == "model" else f"model {when}"


def _positive(reasons: dict[str, int]) -> dict[str, int]:
    return {reason: number for reason, number in reasons.items() if number > 0}
