"""Tables of an audit's shares: skew, the model next to people, quality."""

from __future__ import annotations

from cda.auditing import report_cells as cells
from cda.auditing.report_cells import compares, estimates, targets, voted_names
from cda.numbers.measures import BOUNDS, Moment, of_audits, of_place
from cda.report.numbers import NO_VOTES, cell, count, decimals, p_value, percent, points, reward, share, signed
from cda.report.scoring import FLAGS, MEANINGS, set_notes
from cda.report.tables import Row, Table, table
from cda.results.audit import AuditResult
from cda.results.base import Missing, Test
from cda.results.skew import NoiseCeiling, PoweredShare, PoweredVotes

_PAIRS = {"embedded": "authored pairs", "file": "pairs of your file"}
SIDES = {"perturbed": "biased side", "base": "other side", "tie": "tie"}


def main_table(audit: AuditResult) -> Table:
    """The first table of a report: skew, miscalibration and RATE's ATE of each target bias, and quality accuracy."""
    if not compares(audit):
        return model_table(audit)
    rows: list[Row] = [
        (f"{name} {what}", *own) for name in targets(audit) for what, own in cells.measures(audit, name).items()
    ]
    if audit.quality is not None:
        rows.append(("quality accuracy", *cells.number_cells(audit, "accuracy")))
    return Table("Before and after training, with 95% intervals", ("measure", *estimates(audit)), tuple(rows))


_ALONE = ("skew", "miscalibration", "triple_skew", "rate")
"""Measures of the first table that have their own columns, or another table, if one model was audited."""


def model_table(audit: AuditResult) -> Table:
    """A row for every bias of one model or judge."""
    voted, rated = bool(audit.votes), bool(audit.rate)
    further = {key: one for key, one in of_place("report").items() if one.of_bias and key not in _ALONE}
    header = ("bias", "skew", *(("people", "miscalibration", "AUC") if voted else ()))
    header += (f"mean margin ({cells.margin_unit(audit)})", "n")
    rows = []
    for name, skew in audit.skew.items():
        votes = audit.votes.get(name)
        row = [name, share(skew.before)]
        if votes:
            ranked = cell(votes.auc if isinstance(votes.auc, Missing) else votes.auc.before, decimals)
            row += [share(votes.human_skew), share(votes.miscalibration.before), ranked]
        elif voted:
            row += [NO_VOTES, "", ""]
        row.append(cells.margin_cell(audit.effects[name].before.direct))
        row.append(count(skew.before) + (f", {votes.human_skew.n} voted" if votes else ""))
        if rated:
            row += cells.number_cells(audit, "rate", name) if name in audit.rate else ("no triples", "")
        rows.append((*row, *(cells.number_cells(audit, key, name)[0] for key in further)))
    header += (*(("RATE ATE", "rewrites") if rated else ()), *(one.title for one in further.values()))
    return Table("How often the model prefers the side with the bias, with 95% intervals", header, tuple(rows))


def votes_table(audit: AuditResult) -> Table | None:
    """The model next to people, for every bias that people voted on, with the tests of the audit's family."""
    moment: Moment = "change" if compares(audit) else "model"
    rows = [
        (
            f"{name} {one.title}",
            *cells.number_cells(audit, key, name),
            *cells.tested_cells(one.tested(audit, name, moment)),
        )
        for name in voted_names(audit)
        for key, one in sorted(of_audits().items(), key=lambda item: list(BOUNDS).index(item[1].unit))
        if one.on == "votes"
    ]
    what = "nothing changed" if compares(audit) else "the model's skew is that of people"
    caption = f"The model next to people, with 95% intervals; p is for the test that {what}"
    return table(caption, ("measure", *estimates(audit), "p", "p (Holm)"), rows)


def people_table(audit: AuditResult) -> Table | None:
    """Agreement among people, which limits the reliability of their majorities."""
    rows: list[Row] = []
    for name in voted_names(audit):
        votes = audit.votes[name]
        match votes.agreement:
            case Missing(reason=reason):
                rows.append((name, reason, "", "", ""))
            case agreed if agreed is not None:
                ceiling = votes.noise_ceiling
                second = ceiling.miscalibration if isinstance(ceiling, NoiseCeiling) else ceiling
                alpha = cell(agreed.alpha, decimals, None)
                rows.append((name, share(agreed.majority_share), alpha, cell(second, share, None), str(agreed.n_votes)))
    header = ("bias", "mean majority share", "Krippendorff's alpha", "miscalibration of a second majority", "votes")
    return table("How far people agree with each other, with 95% intervals", header, rows)


def powered_table(audit: AuditResult) -> Table | None:
    """People's preferences on all contrasts, from few votes and the judges' verdicts."""
    rows: list[Row] = []
    for name in voted_names(audit):
        powered = audit.votes[name].prediction_powered
        if isinstance(powered, Missing):
            rows.append((f"{name} missing", powered.reason, "", "", "", ""))
        if isinstance(powered, PoweredVotes):
            rows.append((f"{name} human skew", *_powered_cells(powered.human_skew)))
            for when, missed in powered.miscalibration.items():
                what = f"{name} miscalibration {when}".removesuffix(" model")
                rows.append((what, *_powered_cells(missed)))
    header = ("measure", "with verdicts (PPI++)", "votes alone", "weight of verdicts", "voted + judged alone",
              "left out: no verdict")  # fmt: skip
    caption = "All contrasts, judged from people's votes on some and judges' verdicts on the others; ties count half, with 95% intervals"
    return table(caption, header, rows)


def _powered_cells(powered: PoweredShare | Missing) -> Row:
    if isinstance(powered, Missing):
        return powered.reason, "", "", "", ""
    found, without = powered.share, powered.exclusions
    return (
        share(found.estimate), share(found.classical), f"{found.power_tuning:.2f}",
        f"{found.classical.n} + {found.n_unlabelled}", f"{without.dropped} of {without.seen}",
    )  # fmt: skip


def skew_table(audit: AuditResult) -> Table:
    """Skew of every bias with the test that it changed."""
    rows = []
    for name, skew in audit.skew.items():
        label = f"{name} (target)" if skew.target and compares(audit) else name
        tests = [] if isinstance(skew.unpaired, Missing) else [points(skew.unpaired, "")]
        if isinstance(skew.test, Test):
            p_values = (skew.test.p_value, skew.test.p_holm, skew.test.p_bh)
            tests += [p_value(p) for p in p_values if p is not None]
        pairs = _PAIRS.get(skew.source, "rewritten answers")
        rows.append((label, *cells.number_cells(audit, "skew", name), *tests, pairs))
    header = (*(("change, unpaired z", "p", "p (Holm)", "p (BH)") if compares(audit) else ()), "skew of")
    return Table("Skew of every bias, with 95% intervals", ("bias", *estimates(audit), *header), tuple(rows))


def triple_skew_table(audit: AuditResult) -> Table | None:
    """Skew over the triples whose rewrites count as having flipped the bias."""
    rows = []
    for name in audit.skew:
        if name in audit.triple_skew:
            flipped = cells.flipped_cell(audit.rate[name]) if name in audit.rate else ""
            rows.append((name, *cells.number_cells(audit, "triple_skew", name), flipped))
    caption = "Skew (triples: rewrite of the rewrite against rewrite), with 95% intervals"
    return table(caption, ("bias", *estimates(audit), "rewrites that flipped the bias"), rows)


def margin_table(audit: AuditResult) -> Table:
    """Mean and spread of the margins, in the model's own units."""
    rows = []
    for name, skew in audit.skew.items():
        row = [f"{reward(mean)} ± {skew.sd_margin.of(when):.2f}" for when, mean in skew.mean_margin.items()]
        row += [cell(audit.beyond_noise[name], signed)] if audit.beyond_noise else []
        ties = "" if isinstance(skew.ties, Missing) else " → ".join(str(n) for _, n in skew.ties.items())
        rows.append((name, *row, ties, count(skew.before), skew.source + cells.contrasts_flipped(skew, " ({})")))
    of = [f"mean ± SD {when}" for when in audit.scorings] if compares(audit) else ["mean ± SD"]
    of += ["change of the mean beyond noise"] if audit.beyond_noise else []
    header = ("bias", *of, "margins of exactly 0", "n", "contrasts from")
    caption = f"Margins ({cells.margin_unit(audit)}): their mean and their spread over contrasts"
    return Table(caption, header, tuple(rows))


def quality_table(audit: AuditResult) -> Table | None:
    """Accuracy on held-out pairs."""
    if audit.quality is None:
        return None
    tests = cells.tested_cells(audit.quality.test) if compares(audit) else ()
    header = ("measure", *estimates(audit), *(("p", "p (Holm)") if compares(audit) else ()))
    row = ("quality accuracy", *cells.number_cells(audit, "accuracy"), *tests)
    return Table("Held-out pairs ranked right, with 95% intervals", header, (row,))


def direction_table(audit: AuditResult) -> Table | None:
    """Skew by how the contrasts were made, if they were made in both directions."""
    rows = ((f"{name} {way}", *own) for name in audit.skew for way, own in cells.direction_cells(audit, name).items())
    caption = "Skew by whether the bias was added to a plain answer or removed from one that had it, with 95% intervals"
    return table(caption, ("contrasts", *estimates(audit)), rows)


def unseen_table(audit: AuditResult) -> Table | None:
    """Skew on contrasts whose biased side holds none of the rule-based rewriter's wording."""
    by_plain, rows = audit.plain.unseen_phrases if audit.plain else {}, []
    for name, unseen in audit.unseen_phrases.items():
        own: Row = ("no such contrast", "", "", "0", *cells.blank_of_plain(audit))
        if not isinstance(unseen.skew, Missing):
            plain = by_plain[name].skew if name in by_plain else None
            own = *cells.change_cells(unseen.skew), *cells.plain_cell(audit, plain)
        rows.append((name, *own, str(unseen.of)))
    header = ("bias", *estimates(audit), "of all contrasts")
    return table("Skew on contrasts without any phrase that training could show", header, rows)


def preference_tables(audit: AuditResult) -> list[Table]:
    """For each bias with votes: people's majority by the model's preference, under every scoring; counts and shares."""
    return [_preference_table(name, audit) for name in voted_names(audit)]


def _preference_table(name: str, audit: AuditResult) -> Table:
    rows: list[Row] = []
    total = 0
    for when, preferences in audit.votes[name].by_majority.items():
        counts, given = preferences.counts, preferences.skew_given
        total = sum(sum(row.values()) for row in counts.values())
        stage = f", {when}" if compares(audit) else ""
        for side, word in SIDES.items():
            own = [_part(counts[side][model], total) for model in SIDES]
            last = cell(given.get(side), share)
            rows.append((f"people: {word}{stage}", *own, str(sum(counts[side].values())), last))
        sums = [_part(sum(counts[side][model] for side in SIDES), total) for model in SIDES]
        rows.append((f"sum{stage}", *sums, str(total), ""))
    header = ("people's majority", *(f"model: {word}" for word in SIDES.values()), "n",
              "model for the biased side, of the row")  # fmt: skip
    caption = (
        f"{name}: the model's preferences by people's majority, on {total} contrasts with votes; in brackets the share of "
        "all of them, last the share of the row with its 95% interval"
    )
    return Table(caption, header, tuple(rows))


def _part(number: int, total: int) -> str:
    return f"{number} ({percent(number / total)})" if total else str(number)


def section_sentences(audit: AuditResult) -> list[str]:
    """Notes on the sections, the flags and the exclusions."""
    sections = audit.quality_sections
    if sections is None:
        return []
    flags = [FLAGS.replace("of all files", "of this set")] if compares(audit) else []
    return [MEANINGS[sections.format], *flags, *set_notes(sections, cells.margin_unit(audit))]
