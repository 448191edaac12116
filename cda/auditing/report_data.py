"""Tables below those of shares: effects and drift of direct contrasts, RATE, the data, and everything that was left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from cda.auditing import report_cells as cells
from cda.auditing.verdict_sentences import confounds_sentence, drift_sentence
from cda.report import plots
from cda.report.numbers import MINUS, NOT_ESTIMATED, cell, count, decimals, p_equals, p_value, share, signed
from cda.report.plots import FAINT, PAGE, SCORINGS, THIRD, Mark, Plot, named
from cda.report.tables import Row, Table, table
from cda.results.audit import AuditResult
from cda.results.base import Estimate, Missing, Test
from cda.results.effects import BiasDrift, BiasRate, Contingency, DirectEffects, NotIdentified, RateEffects, SameMargin
from cda.results.facts import RewardModelFacts
from cda.results.stages import LabelCounts

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMS = {"linear": "linear", "log_ratio": "log ratio"}
Step = tuple[str, int | None, Mapping[str, int]]
"""A step, how many it saw (None if not counted), and reason to the number left out."""
_TRAINED = Mark("training data", THIRD, "^")
_NAMED_POINTS = 4
_SAME = "both sides are the same after cutting"


def effects_table(audit: AuditResult) -> Table:
    """Mean margins: of pairs alike in all else first, then adjusted for drift, then as they are; test and verdict."""
    two = cells.compares(audit)
    rows: list[Row] = []
    for name, effects in audit.effects.items():
        for when, under in effects.items():
            *alike, verdict = _identified_cells(under, bool(drift_sentence(name, audit)))
            tests = () if two else cells.tested_cells(effects.test)
            label = f"{name}, {when}" if two else name
            rows.append((label, *alike, cells.margin_cell(under.direct, None), *tests, verdict))
    adjusted = (f"adjusted, {form}" for form in FORMS.values())
    tests = () if two else ("p, all pairs", "p (Holm)")
    header = ("bias", "among like pairs", "like pairs", *adjusted, "all pairs", *tests, "the effect is")
    caption = f"Mean margin ({cells.margin_unit(audit)}) of direct contrasts, with 95% intervals"
    return Table(caption, header, tuple(rows))


def _identified_cells(under: DirectEffects, may_be_drift: bool) -> Row:
    found, direct = under.identification, under.direct
    if isinstance(direct, SameMargin):
        return "", "", "", "", "identified" if direct.value else "none shown"
    if isinstance(found, Missing):
        return found.reason, "", "", "", NOT_ESTIMATED
    margins = cells.at_no_drift(found)
    alike, *forms = (cells.margin_words(margins.get(kind)) for kind in ("alike", *FORMS))
    verdict = "not identified from these pairs" if may_be_drift else found.verdict
    return alike, f"{found.overlap.n} of {found.overlap.n_total}", *forms, verdict


def identification_sentences(audit: AuditResult) -> list[str]:
    """Why an effect is identified or not, one sentence a bias (of the last scoring: drift is the same for all)."""
    sentences = []
    for name, effects in audit.effects.items():
        last = effects.last
        if isinstance(last.direct, SameMargin) and last.direct.value:
            sentences.append(f"{name}: the margin is the same in every pair, whatever else differs between the sides.")
        elif isinstance(last.identification, NotIdentified):
            sentences.append(
                f"{name}: {last.identification.verdict}: {last.identification.reason}{confounds_sentence(last.identification)}"
            )
        elif may_be_drift := drift_sentence(name, audit):
            sentences.append(f"{name}: not identified from these pairs. {may_be_drift}")
    return sentences


def drift_tables(audit: AuditResult) -> list[Table]:
    """Other differences between the two sides, for each bias."""
    return [table for name, drift in audit.drift.items() if (table := _drift_table(name, drift)) is not None]


def _drift_table(name: str, drift: BiasDrift) -> Table | None:
    def in_points(label: Estimate) -> str:
        value, low, high = (f"{100 * end:+.0f}".replace("-", MINUS) for end in (label.value, label.low, label.high))
        return f"{value} [{low}, {high}] points"

    rows: list[Row] = []
    for found in () if isinstance(drift.features, Missing) else drift.features:
        label = found.name + (" (the bias itself)" if found.is_treatment else "")
        ratio = "" if found.median_ratio is None else f"{found.median_ratio:.2f}"
        means = ["" if mean is None else f"{mean:.2f}" for mean in (found.base_mean, found.perturbed_mean)]
        rows.append((label, *means, cell(found.difference, signed, None),
                     cell(found.standardised, signed), ratio, cell(found.beyond, share)))  # fmt: skip
    for other, came_along in drift.labels.items():
        rows.append((f"labelled {other}", "", "", cell(came_along, in_points, None), "", "", ""))
    if isinstance(drift.similarity, Estimate):
        rows.append(("cosine of embeddings", "", "", signed(drift.similarity), "", "", ""))
    header = ("feature", "base", "perturbed", "perturbed − base", "in SDs", "median ratio", "pairs beyond the limit")
    by_letter = not isinstance(drift.features, Missing) and any(
        found.feature == "type_token_ratio" and found.n_unheld for found in drift.features
    )
    units = " (each letter of a script without spaces between words counts as a word)" if by_letter else ""
    return table(f"{name}: what differs between the sides of {drift.n} contrasts{units}", header, rows)


def rate_tables(audit: AuditResult) -> list[Table]:
    """For each bias with triples, every effect by every estimator."""
    tables = []
    for name, rate in audit.rate.items():
        whens = [*rate.under(), *(["changes"] if rate.under() and cells.compares(audit) else [])]
        tables += [_rate_table(name, rate, when, audit) for when in whens]
    return tables


def _rate_table(name: str, rate: BiasRate, when: str, audit: AuditResult) -> Table:
    under = rate.under().get(when)
    overall: RateEffects | Missing = rate.changes if under is None else under.overall
    parts = (overall,) if under is None else (overall, under.by_length, under.slope)
    rows = [
        (f"{effect.estimand.replace('CATE: ', 'words of the original ')}, {effect.estimator}", signed(effect.estimate),
         cell(effect.standardised, signed, ""), p_value(effect.p_value), count(effect.estimate))
        for part in parts for effect in cells.effects_in(part)
    ]  # fmt: skip
    gaps = () if isinstance(overall, Missing) else overall.not_estimated
    gaps += () if under is None else under.slope.not_estimated
    rows += [(f"{gap.estimand}, {gap.estimator}", NOT_ESTIMATED, gap.reason, "", "") for gap in gaps]
    if isinstance(overall, Missing):
        rows.append(("all", NOT_ESTIMATED, overall.reason, "", ""))
    stage = f", {when}" if cells.compares(audit) else ""
    what = ": changes of the RATE effects (after − before)" if when == "changes" else f"{stage}: RATE effects"
    caption = f"{name}{what} on {rate.n} triples (rewrites: {rate.flips.by}; {cells.flipped_cell(rate)})"
    # The family of tests holds one effect a bias, of the last scoring.
    if when == audit.scorings[-1] and isinstance(rate.test, Test) and rate.test.p_holm is not None:
        caption += f"; Holm-adjusted p of 'ATE, double' {p_equals(rate.test.p_holm)}, for {cells.tests_named(audit)} of this audit"
    header = ("effect, estimator", "effect", "in SDs of the originals", "p (unadjusted)", "n")
    return Table(caption, header, tuple(rows))


def rate_sentences(audit: AuditResult) -> list[str]:
    """Number of answers in which rewrites flipped each bias, and reasons for missing average effects."""
    sentences = []
    for name, rate in audit.rate.items():
        flips = rate.flips
        sides = (
            ("with", flips.flipped_with, flips.tried_with),
            ("without", flips.flipped_without, flips.tried_without),
        )
        parts = " and ".join(f"{flipped} of {tried} answers {side} it" for side, flipped, tried in sides if tried)
        sentences += [
            f"{name}: rewritten by {flips.by}; {parts} are used. Nothing checks that the bias flipped."
            if flips.checked_by is None
            else f"{name}: rewritten by {flips.by}. Both rewrites flipped the bias in {parts} (told by: {flips.checked_by}).",
            missing_rate_sentence(name, rate),
        ]
    return [sentence for sentence in sentences if sentence]


def missing_rate_sentence(name: str, rate: BiasRate) -> str:
    """Why the average effect of a bias is not given; empty if it is."""
    missing = rate.measured if isinstance(rate.measured, Missing) else rate.measured.last.average
    return f"{name}: RATE's ATE is not estimated: {missing.reason}." if isinstance(missing, Missing) else ""


def _labeller(by: str) -> str:
    return by.replace("_", " ") if by.startswith("measured ") else by


def label_tables(label: LabelCounts | None) -> list[Table]:
    """For each bias, which sides of the training data exhibit it."""
    if label is None:
        return []
    tables = []
    turns = label.second_turn.labels if label.second_turn else {}
    for tallies, of in (
        (label.labels, "pairs"),
        (label.supplement_labels, "supplementary pairs"),
        (turns, "conversations (data.second_turn)"),
    ):
        for name, tally in tallies.items():
            caption = f"{name}: labels of {tally.n} {of}, by {_labeller(tally.by)}; {tally.unparsed} unparsed"
            if (asked := tally.asked) and asked.query_asked:
                caption += f"; {asked.query_calls_for_it} of {asked.query_answered} messages call for it"
            tables.append(_two_by_two(caption, tally.both, tally.chosen_only, tally.rejected_only, tally.neither))
    return tables


def contingency_tables(audit: AuditResult) -> list[Table]:
    """Which sides of the labelled pairs exhibit each bias, in an audit alone; of a training, see `label_tables`."""
    tables = []
    for name, analysis in audit.analysis.items():
        found = analysis.labels and analysis.labels.contingency
        if isinstance(found, Contingency) and not cells.compares(audit):
            unread = f"{found.exclusions.dropped} with a label that cannot be read"
            caption = f"{name}: labels of {found.exclusions.seen} pairs; {unread}"
            tables.append(_two_by_two(caption, found.both, found.only_chosen, found.only_rejected, found.neither))
    return tables


def _two_by_two(caption: str, both: int, chosen_only: int, rejected_only: int, neither: int) -> Table:
    counts = {
        "chosen exhibits it": (both, chosen_only),
        "chosen does not": (rejected_only, neither),
        "sum": (both + rejected_only, chosen_only + neither),
    }
    rows = ((name, str(with_it), str(without), str(with_it + without)) for name, (with_it, without) in counts.items())
    return Table(caption, ("", "rejected exhibits it", "rejected does not", "sum"), tuple(rows))


def synthesis_table(audit: AuditResult) -> Table | None:
    """Number of counterfactual pairs for each bias."""
    if audit.stages.synthesize is None:
        return None
    header = ("bias", "asked for", "eligible", "tried", "flipped and kept", "supplementary", "rewritten by")
    rows = []
    for name, made in audit.stages.synthesize.biases.items():
        requested = "all eligible" if made.requested is None else str(made.requested)
        kept = f"{made.made} ({made.made / made.tried:.0%})" if made.tried else str(made.made)
        rows.append((name, requested, str(made.eligible), str(made.tried), kept, str(made.supplementary), made.by))
    return Table("Counterfactual pairs", header, tuple(rows))


def exclusion_table(audit: AuditResult) -> Table:
    """Everything that was left out on the way, by step and reason; a step of the data that lost nothing says so."""
    steps = [*_data_steps(audit), *(step for step in _audit_steps(audit) if any(n > 0 for n in step[2].values()))]
    rows = [
        (step, reason, str(number), "" if seen is None else str(seen))
        for step, seen, reasons in steps
        for reason, number in sorted(item for item in reasons.items() if item[1] > 0) or [("nothing left out", 0)]
    ]
    return Table("Left out, by step and reason", ("step", "reason", "left out", "of"), tuple(rows))


def _data_steps(audit: AuditResult) -> Iterator[Step]:
    stages = audit.stages
    if label := stages.label:
        yield "loading training pairs", label.pairs.seen, label.pairs.dropped
        if label.supplement:
            yield "loading supplementary pairs", label.supplement.seen, label.supplement.dropped
            if (used := label.supplement.used) is not None and used < label.supplement.kept:
                yield (
                    "labelling supplementary pairs",
                    label.supplement.kept,
                    {"not needed": label.supplement.kept - used},
                )
        kept, used = label.pairs.kept, label.pairs.used
        if used is not None and used < kept:
            yield "drawing training pairs", kept, {"not drawn (data.max_pairs)": kept - used}
        for name, tally in label.labels.items():
            yield f"labelling {name}", tally.n, {"unparsed": tally.unparsed}
    if synthesize := stages.synthesize:
        for name, dropped in synthesize.in_audit.items():
            yield f"choosing what to teach of {name}", dropped.seen, dropped.dropped
        for name, made in synthesize.biases.items():
            yield f"rewriting for {name}", made.tried, made.rejected
        if taught := synthesize.contrasts:
            yield "loading taught contrasts", taught.file.seen, taught.file.dropped
            yield "choosing taught contrasts", None, taught.left_out
    if train := stages.train:
        mix = synthesize.mix if synthesize else train
        same = {"both sides the same after cutting": train.identical_after_truncation}
        yield "training", mix.train + mix.validation, same
    for name, excluded in audit.excluded.items():
        if excluded.seen:
            yield name if name.startswith("triples of") else f"loading {name}", excluded.seen, excluded.reasons


def _audit_steps(audit: AuditResult) -> Iterator[Step]:
    unread = "no readable verdict of the judge"
    if isinstance(audit.model, RewardModelFacts) and audit.model.unit == "grade":
        unread = "a text without a readable grade"
    elif isinstance(audit.model, RewardModelFacts):  # to which two texts may be one after cutting
        unread = f"a text is too long, or {_SAME}" if audit.model.dropped else _SAME
    yield "matching votes", None, {"items that are none of the contrasts": audit.votes_unmatched}
    for name, skew in audit.skew.items():
        reasons = {f"no rewrite: {reason}": number for reason, number in skew.rewrites_failed.items()}
        reasons["not drawn (audit.max_contrasts)"] = skew.available - skew.before.n - skew.unread
        reasons[unread] = skew.unread
        left_out = audit.votes[name].left_out if name in audit.votes else {}
        reasons |= {
            f"people: {reason} (left out of the comparison with people)": number for reason, number in left_out.items()
        }
        yield f"contrasts of {name}", skew.available + sum(skew.rewrites_failed.values()), reasons
    if (quality := audit.quality) is not None:
        not_drawn = audit.available_quality - quality.before.n - quality.unread
        reasons = {"not drawn (audit.max_quality)": not_drawn, unread: quality.unread}
        yield "comparing quality pairs", audit.available_quality, reasons
    for name, rate in audit.rate.items():
        lost, naive_lost = f"{unread} on a comparison", rate.naive_unread or 0
        reason = "two of its texts are the same after cutting" if unread == _SAME else lost
        yield f"comparing triples of {name}", rate.n + rate.unread, {reason: rate.unread}
        effects = () if isinstance(rate.measured, Missing) else cells.effects_in(rate.measured.last.overall)
        n = next((effect.estimate.n for effect in effects if effect.estimator == "naive"), 0)
        yield f"comparing originals of {name}, naive", n + naive_lost, {lost: naive_lost}


def rates_table(audit: AuditResult) -> Table | None:
    """Share of training pairs in which the side with the bias is the chosen one."""
    rows: list[Row] = []
    for name, analysis in audit.analysis.items():
        match analysis.labels and analysis.labels.contingency:
            case Contingency() as found:
                rates = [share(rate) for rate in (found.selection_rate, found.chosen_rate, found.rejected_rate)]
                rows.append((name, *rates, count(found.selection_rate)))
            case Missing(reason=reason):
                rows.append((name, reason, "", "", ""))
    header = ("bias", "chosen where one side has it", "of all chosen", "of all rejected", "pairs with it on one side")
    of = "the training data" if cells.compares(audit) else "the labelled pairs"
    return table(f"The bias in {of}, with 95% intervals", header, rows)


def correlation_table(audit: AuditResult) -> Table | None:
    """r between the attribute and being preferred: in the training data, by people, by the model."""
    labelled = cells.compares(audit) or any(analysis.labels for analysis in audit.analysis.values())
    rows = []
    for name, analysis in audit.analysis.items():
        r = analysis.correlation
        trained = [analysis.labels.r_train if analysis.labels else None] if labelled else []
        found = [*trained, r.people, *(model for _, model in r.model.items())]
        rows.append((name, r.of, *(cell(value, lambda r: f"{decimals(r)} (n {count(r)})") for value in found)))
    trained_column = ["training data" if cells.compares(audit) else "labelled pairs"] if labelled else []
    header = ("bias", "attribute", *trained_column, "people", *(_model(when) for when in audit.scorings))
    return table("Correlation of the attribute with being preferred (r), with 95% intervals", header, rows)


def observational_table(audit: AuditResult) -> Table | None:
    """Mean reward with and without the attribute as answers come: a description, not an effect."""
    rows: list[Row] = []
    for name, analysis in audit.analysis.items():
        found = analysis.observational
        by_scoring = dict.fromkeys(audit.scorings, found) if isinstance(found, Missing) else dict(found.effect.items())
        for when, effect in by_scoring.items():
            estimate = effect if isinstance(effect, Missing) else effect.estimate
            rows.append((name, _model(when), cell(estimate, signed, None), cell(estimate, count, "")))
    header = ("bias", "scored by", "with − without, within prompts", "prompts")
    return table("Mean reward of quality answers that have the attribute against those that have not", header, rows)


def _model(when: str) -> str:
    return "model" if when == "model" else f"model {when}"


def correlation_plot(audit: AuditResult) -> Plot | None:
    """r of the attribute with people's preference against r with the model's, if both are known."""
    by_people = _known_r({name: analysis.correlation.people for name, analysis in audit.analysis.items()})
    model = {name: _known_r(dict(audit.analysis[name].correlation.model.items())) for name in by_people}
    people = {name: r for name, r in by_people.items() if model[name]}
    if not people:
        return None
    labels = {name: analysis.labels.r_train for name, analysis in audit.analysis.items() if analysis.labels}
    trained = {name: r for name, r in _known_r(labels).items() if name in people}
    said = []
    for name, r in people.items():
        each = {"people": r, **model[name], **({"training data": trained[name]} if name in trained else {})}
        said.append(f"{name}: {', '.join(f'{word} {decimals(r)} (n = {count(r)})' for word, r in each.items())}.")
    opening = "Correlation (r) of each attribute with being preferred, by people across and by the model upwards."
    title = (
        "What the model favours against what people favour: correlation of each attribute with being preferred. On the diagonal "
        "the two agree"
    )
    by_mark = [
        (SCORINGS[when], {name: model[name][when] for name in people if when in model[name]}) for when in audit.scorings
    ]
    drawn = [(mark, r) for mark, r in (*by_mark, (_TRAINED, trained)) if r]
    last = {name: list(model[name].values())[-1].value for name in people}
    draw = partial(_draw_correlations, people, drawn, last)
    return Plot("correlations", title, f"{opening} {' '.join(said)}", draw, 3.1)


def _known_r(found: Mapping[str, object]) -> dict[str, Estimate]:
    return {key: r for key, r in found.items() if isinstance(r, Estimate)}


def _draw_correlations(
    people: Mapping[str, Estimate], drawn: Sequence[tuple[Mark, Mapping[str, Estimate]]], last: Mapping[str, float],
    axes: Axes,
) -> None:  # fmt: skip
    """Names stand at the points of the last scoring that has one; numbers, with a key below, if they are many."""
    axes.plot([-1, 1], [-1, 1], color=FAINT, linewidth=0.8, linestyle=(0, (4, 3)), zorder=1)
    for mark, by_model in drawn:
        across, upwards = [people[name] for name in by_model], list(by_model.values())
        axes.errorbar(
            [r.value for r in across], [r.value for r in upwards], xerr=plots.errors(across), yerr=plots.errors(upwards),
            fmt=mark.shape, color=mark.color, label=mark.name, markersize=5, elinewidth=0.8,
            markerfacecolor=mark.color if mark.filled else PAGE, zorder=3,
        )  # fmt: skip
    few = len(people) <= _NAMED_POINTS
    for at, (name, r) in enumerate(people.items(), 1):
        right = r.value > 0
        axes.annotate(
            named(name) if few else str(at), (r.value, last[name]), (-5 if right else 5, 4),
            textcoords="offset points", ha="right" if right else "left", fontsize=7,
        )  # fmt: skip
    axes.set(xlim=(-1.05, 1.05), ylim=(-1.05, 1.05), aspect="equal")
    axes.set_xticks([-1, -0.5, 0, 0.5, 1])
    axes.set_yticks([-1, -0.5, 0, 0.5, 1])
    key = [f"{at} {named(name, 14)}" for at, name in enumerate(people, 1)]
    lines = [] if few else ["   ".join(key[start : start + 3]) for start in range(0, len(key), 3)]
    plots.draw_frame(axes, "\n".join(["r by people", *lines]), "both")
    axes.set_ylabel("r by the model" + (", in training data" if drawn[-1][0] is _TRAINED and len(drawn) > 1 else ""))
    if len(drawn) > 1:
        plots.legend(axes, len(drawn))
