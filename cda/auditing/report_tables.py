"""The tables that every form of the report shares: plain words and numbers, nothing escaped yet."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from cda.auditing.report_rate_cells import average_cells, contrasts_flipped, flipped_cell, unit_of
from cda.auditing.report_verdict import others, targets
from cda.data.release import SOURCE
from cda.report.numbers import NOT_ESTIMATED, count, decimals, distance, in_each, p_value, points, reward, share, signed
from cda.report.tables import Table
from cda.results.audit import AuditResult
from cda.results.base import BeforeAfter, Estimate, Measure, Missing, Test
from cda.results.effects import Effect, SameMargin
from cda.results.skew import NoiseCeiling, OverSeeds, Plain, PoweredShare, PoweredVotes, Quality, VotedBias, VotesMoved
from cda.stats.verdict import TOLERATED_LOSS

NO_VOTES = "no votes"
NOT_MEASURED = "not measured"
PLAIN = "plain CDA (dose 1)"
"""Column of what all of the adapter does, where another dose is the run's result."""
TRIPLE_SKEW = "skew (triples: rewrite of the rewrite against rewrite)"


def compares(audit: AuditResult) -> bool:
    """Whether the audit compares before and after a training; else it is of one model or judge as it is."""
    return len(audit.scorings) > 1


def estimates(audit: AuditResult) -> tuple[str, ...]:
    """Columns of a share: before, after, change and n, and plain CDA where that is not the result; or the share and n."""
    if not compares(audit):
        return ("share", "n")
    dose = audit.dose_applied
    after = "after" if dose in (None, 1) else f"after, dose {dose:g}"
    return ("before", after, "change (points)", "n", *((PLAIN,) if audit.plain else ()))


def plain_cells(audit: AuditResult, measure: Callable[[Plain], Measure | Missing | None]) -> tuple[str, ...]:
    """The cell of plain CDA; no cell where plain CDA is the result itself.

    Args:
        audit: The audit.
        measure: Takes the measure of the row out of what plain CDA did; None where it is not there.
    """
    if audit.plain is None:
        return ()
    found = measure(audit.plain)
    return (NOT_MEASURED if found is None or isinstance(found, Missing) else share(found.last),)


def direction_rows(name: str, audit: AuditResult) -> list[tuple[str, ...]]:
    """Skew where the bias was added and where it was removed, a row each; none for contrasts of one direction."""
    return [
        (direction, *change_cells(one), *plain_cells(audit, partial(_plain_direction, name, direction)))
        for direction, one in audit.skew[name].by_direction.items()
    ]


def _plain_direction(name: str, direction: str, plain: Plain) -> Measure | Missing | None:
    return plain.skew[name].by_direction.get(direction)


def change_cells(change: Measure | Missing | OverSeeds, limit: float | None = None) -> tuple[str, ...]:
    """Cells of a share: before, after, change and n of a paired change, or the one share and its n.

    Args:
        change: Of the share.
        limit: That the change is held against, beside 0; it gets the digits that tell its interval from it.
    """
    if isinstance(change, Missing):
        raise TypeError(change.reason)
    before, after, moved = change.before, change.after, change.change
    if isinstance(before, float):
        raise TypeError("a reward is no share")
    if isinstance(after, Missing) or isinstance(moved, Missing):
        return share(before), count(before)
    return share(before), share(after), points(moved, "", limit), count(moved)


def main_table(audit: AuditResult) -> Table:
    """What a reader looks at first: skew, miscalibration and RATE's ATE of each target bias, and quality accuracy."""
    if not compares(audit):
        return model_table(audit)
    rows: list[tuple[str, ...]] = []
    triples = triple_skew_rows(audit)
    for name in targets(audit):
        rows.append((f"{name} skew", *change_cells(audit.skew[name]), *plain_skew(audit, name)))
        rows += [(f"{name} skew, {direction}", *cells) for direction, *cells in direction_rows(name, audit)]
        votes = audit.votes.get(name)
        cells = change_cells(votes.miscalibration) if votes else (NO_VOTES, NO_VOTES, "", "")
        plain = plain_miscalibration(audit, name) if votes else blank_of_plain(audit)
        rows.append((f"{name} miscalibration", *cells, *plain))
        rows += [(f"{name} skew (triples)", *skew) for of, *skew in triples if of == name]
        if name in audit.rate:
            rows.append(
                (
                    f"{name} RATE ATE{unit_of(audit.rate[name])}",
                    *average_cells(audit.rate[name], audit.scorings),
                    *plain_cells(audit, lambda _: None),
                )
            )
    if audit.quality is not None:
        rows.append(("quality accuracy", *quality_cells(audit.quality, audit)))
    return Table("Before and after training, with 95% intervals", ("measure", *estimates(audit)), tuple(rows))


def quality_cells(quality: Quality, audit: AuditResult) -> tuple[str, ...]:
    """Cells of quality accuracy, with the digits that tell its change from the loss that is tolerated."""
    return (*change_cells(quality, -TOLERATED_LOSS), *plain_cells(audit, lambda plain: plain.quality))


def plain_skew(audit: AuditResult, name: str) -> tuple[str, ...]:
    """The cell of a bias's skew under plain CDA."""
    return plain_cells(audit, lambda plain: plain.skew.get(name))


def plain_miscalibration(audit: AuditResult, name: str) -> tuple[str, ...]:
    """The cell of a bias's miscalibration under plain CDA."""
    return plain_cells(audit, lambda plain: plain.votes[name].miscalibration if name in plain.votes else None)


def plain_skew_on_voted(audit: AuditResult, name: str) -> tuple[str, ...]:
    """The cell of a bias's skew on the contrasts with a majority under plain CDA."""
    return plain_cells(audit, lambda plain: plain.votes[name].skew_on_voted if name in plain.votes else None)


def blank_of_plain(audit: AuditResult) -> tuple[str, ...]:
    """An empty cell in the column of plain CDA, where there is one."""
    return ("",) if audit.plain else ()


def model_table(audit: AuditResult, brief: bool = False) -> Table:
    """One model or judge: every bias in a row, beside people where they voted.

    Args:
        audit: The audit's JSON.
        brief: Leave the mean margin and RATE's ATE out if people's columns take their place.
    """
    voted = bool(audit.votes)
    with_margin = not (brief and voted)
    unit = next(iter(audit.effects.values())).unit
    margin = (f"mean margin ({unit})",) if with_margin else ()
    rated = with_margin and bool(audit.rate)
    header = ("bias", "skew", *(("people", "miscalibration", "AUC") if voted else ()), *margin, "n")
    header += ("RATE ATE", "rewrites") if rated else ()
    rows = []
    for name, skew in audit.skew.items():
        cells = [name, share(skew.before)]
        if voted:
            votes = audit.votes.get(name)
            cells += _people_cells(votes) if votes else [NO_VOTES, "", ""]
        if with_margin:
            cells.append(_mean_margin(audit.effects[name].before.direct))
        voted_rows = f", {audit.votes[name].human_skew.n} voted" if name in audit.votes else ""
        cells.append(count(skew.before) + voted_rows)
        if rated:
            one = audit.rate.get(name)
            cells += average_cells(one, audit.scorings) if one else ["no triples", ""]
        rows.append(tuple(cells))
    return Table("How often the model prefers the side with the bias, with 95% intervals", header, tuple(rows))


def _people_cells(votes: VotedBias) -> list[str]:
    ranked = NOT_ESTIMATED if isinstance(votes.auc, Missing) else _decimals(votes.auc.before)
    return [share(votes.human_skew), share(votes.miscalibration.before), ranked]


def _decimals(found: Estimate | Missing) -> str:
    return NOT_ESTIMATED if isinstance(found, Missing) else decimals(found)


def _mean_margin(direct: Effect | SameMargin | Missing) -> str:
    if isinstance(direct, SameMargin):
        return in_each(direct.value)
    return NOT_ESTIMATED if isinstance(direct, Missing) else signed(direct.estimate)


def votes_table(audit: AuditResult) -> Table | None:
    """The model beside people, for every bias that people voted on, with the tests of the audit's family."""
    rows: list[tuple[str, ...]] = []
    for name in _voted_names(audit):
        votes, plain = audit.votes[name], audit.plain.votes.get(name) if audit.plain else None
        people, on_voted, disagreed = votes.human_skew, votes.skew_on_voted, votes.miscalibration
        same = ("the same", "") if compares(audit) else ()
        rows.append((f"{name} human skew", share(people), *same, count(people), *blank_of_plain(audit), "", ""))
        skew = plain_skew_on_voted(audit, name)
        rows.append((f"{name} skew on voted contrasts", *change_cells(on_voted), *skew, *tested_cells(on_voted.test)))
        missed = plain_miscalibration(audit, name)
        rows.append((f"{name} miscalibration", *change_cells(disagreed), *missed, *tested_cells(disagreed.test)))
        rows.append((f"{name} gap", *gap_cells(votes), *plain_gap(plain), "", ""))
        signed_gap = (points(plain.signed_gap.last),) if plain else ()
        tested = ("", "") if votes.gap_test is None else tested_cells(votes.gap_test)
        rows.append((f"{name} skew − human skew", *_signed_gap_cells(votes), *signed_gap, *tested))
        ranked = _plain_auc(plain.auc) if plain else ()
        rows.append((f"{name} AUC of the margin", *_auc_cells(votes.auc, audit), *ranked, "", ""))
    if not rows:
        return None
    what = "nothing changed" if compares(audit) else "the model's skew is that of people"
    caption = f"The model beside people, with 95% intervals; p is for the test that {what}"
    return Table(caption, ("measure", *estimates(audit), "p", "p (Holm)"), tuple(rows))


def tested_cells(test: Test | Missing) -> tuple[str, str]:
    """p and Holm's p of a test of the audit's family; empty where there is no such test."""
    if isinstance(test, Test):
        return ("", "") if test.p_holm is None else (p_value(test.p_value), p_value(test.p_holm))
    return "", ""


def people_table(audit: AuditResult) -> Table | None:
    """How far people agree among themselves, which says how much their majorities can be relied on."""
    rows = []
    for name in _voted_names(audit):
        votes = audit.votes[name]
        match votes.agreement:
            case None:
                continue
            case Missing(reason=reason):
                rows.append((name, reason, "", "", ""))
            case agreed:
                ceiling, alpha = votes.noise_ceiling, agreed.alpha
                second = share(ceiling.miscalibration) if isinstance(ceiling, NoiseCeiling) else _reason(ceiling)
                words = alpha.reason if isinstance(alpha, Missing) else decimals(alpha)
                rows.append((name, share(agreed.majority_share), words, second, str(agreed.n_votes)))
    if not rows:
        return None
    header = ("bias", "mean majority share", "Krippendorff's alpha", "miscalibration of a second majority", "votes")
    return Table("How far people agree with each other, with 95% intervals", header, tuple(rows))


def _reason(found: Missing | None) -> str:
    return "" if found is None else found.reason


def powered_table(audit: AuditResult) -> Table | None:
    """What people would prefer on all contrasts, from few votes and the judges' verdicts."""
    rows: list[tuple[str, ...]] = []
    for name in _voted_names(audit):
        powered = audit.votes[name].prediction_powered
        if isinstance(powered, Missing):
            rows.append((f"{name} missing", powered.reason, "", "", "", ""))
        if not isinstance(powered, PoweredVotes):
            continue
        missed = {f"miscalibration {when}".removesuffix(" model"): one for when, one in powered.miscalibration.items()}
        for what, one in {"human skew": powered.human_skew, **missed}.items():
            rows.append((f"{name} {what}", *_powered_cells(one)))
    if not rows:
        return None
    header = ("measure", "with verdicts (PPI++)", "votes alone", "weight of verdicts", "voted + judged alone",
              "left out: no verdict")  # fmt: skip
    caption = "All contrasts, judged from people's votes on some and judges' verdicts on the others; ties count half, with 95% intervals"
    return Table(caption, header, tuple(rows))


def _powered_cells(one: PoweredShare | Missing) -> tuple[str, ...]:
    if isinstance(one, Missing):
        return one.reason, "", "", "", ""
    found, without = one.share, one.exclusions
    return (
        share(found.estimate), share(found.classical), f"{found.power_tuning:.2f}",
        f"{found.classical.n} + {found.n_unlabelled}", f"{without.dropped} of {without.seen}",
    )  # fmt: skip


def gap_cells(votes: VotedBias) -> tuple[str, ...]:
    """Cells of the gap, in points: a distance has no sign, its change has one."""
    gap, n = votes.gap, count(votes.human_skew)
    found = tuple(_distance(one) for _, one in gap.items())
    return (*found, n) if isinstance(gap.change, Missing) else (*found, points(gap.change, ""), n)


def plain_gap(plain: VotesMoved | None) -> tuple[str, ...]:
    """The cell of the gap under plain CDA; no cell without it."""
    return () if plain is None else (_distance(plain.gap.last),)


def _distance(found: Estimate | Missing) -> str:
    return NOT_ESTIMATED if isinstance(found, Missing) else distance(found)


def _signed_gap_cells(votes: VotedBias) -> tuple[str, ...]:
    """Cells of skew − human skew. Human skew stays, so that its change is that of skew on the voted contrasts."""
    found, change = [points(one) for _, one in votes.signed_gap.items()], votes.skew_on_voted.change
    moved = [] if isinstance(change, Missing) else [points(change, "")]
    return (*found, *moved, count(votes.human_skew))


def _plain_auc(auc: BeforeAfter | Missing) -> tuple[str, ...]:
    return ("" if isinstance(auc, Missing) else _decimals(auc.last),)


def _auc_cells(auc: BeforeAfter | Missing, audit: AuditResult) -> tuple[str, ...]:
    if isinstance(auc, Missing):
        return (auc.reason, *[""] * (3 if compares(audit) else 1))
    found = tuple(_decimals(one) for _, one in auc.items())
    if isinstance(auc.change, Missing):
        return (*found, count(auc.before) if isinstance(auc.before, Estimate) else "")
    return (*found, signed(auc.change), count(auc.change))


def skew_table(audit: AuditResult) -> Table:
    """Skew of every bias with the test that it changed."""
    rows = []
    for name in [*targets(audit), *others(audit)]:
        skew = audit.skew[name]
        label = f"{name} (target)" if skew.target and compares(audit) else name
        unpaired = [] if isinstance(skew.unpaired, Missing) else [points(skew.unpaired, "")]
        tests = [] if isinstance(skew.test, Missing) else [p_value(p) for p in _p_values(skew.test)]
        rows.append((label, *change_cells(skew), *plain_skew(audit, name), *unpaired, *tests, pairs_of(skew.source)))
    header = (*(("change, unpaired z", "p", "p (Holm)", "p (BH)") if compares(audit) else ()), "skew of")
    return Table("Skew of every bias, with 95% intervals", ("bias", *estimates(audit), *header), tuple(rows))


def _p_values(test: Test) -> list[float]:
    """p by itself, after Holm, and after Benjamini and Hochberg."""
    return [p for p in (test.p_value, test.p_holm, test.p_bh) if p is not None]


def pairs_of(source: str) -> str:
    """The kind of pairs that a bias's skew is of, by the source of its contrasts."""
    named = {"embedded": "authored pairs", "file": "pairs of your file", SOURCE: "triples that people voted on"}
    return named.get(source, "rewritten answers")


def triple_skew_rows(audit: AuditResult) -> list[tuple[str, ...]]:
    """Skew over triples: a row for each bias that has any, targets first."""
    blank = ("",) * (2 if compares(audit) else 0)
    rows: list[tuple[str, ...]] = []
    for name in [*targets(audit), *others(audit)]:
        if name in audit.triple_skew:
            one = audit.triple_skew[name]
            cells = (NOT_ESTIMATED, *blank, str(one.n)) if isinstance(one.skew, Missing) else change_cells(one.skew)
            plain = plain_cells(audit, partial(_plain_triples, name))
            rows.append((name, *cells, *plain))
    return rows


def _plain_triples(name: str, plain: Plain) -> Measure | Missing | None:
    return plain.triple_skew[name].skew if name in plain.triple_skew else None


def triple_skew_table(audit: AuditResult) -> Table | None:
    """Skew over triples; None where the audit has none."""
    rows = [(name, *cells, _flipped(name, audit)) for name, *cells in triple_skew_rows(audit)]
    caption = f"{TRIPLE_SKEW[0].upper()}{TRIPLE_SKEW[1:]}, with 95% intervals"
    return Table(caption, ("bias", *estimates(audit), "rewrites that flipped the bias"), tuple(rows)) if rows else None


def _flipped(name: str, audit: AuditResult) -> str:
    """How many rewrites flipped the bias; of the paper's release all count here, as in the paper."""
    one = audit.rate.get(name)
    if one is None:
        return ""
    return f"{flipped_cell(one)}; all of them count here" if one.flips.by == SOURCE else flipped_cell(one)


def margin_table(audit: AuditResult) -> Table:
    """How large the margins are, in the model's own units."""
    rows = []
    for name, skew in audit.skew.items():
        spread = dict(skew.sd_margin.items())
        cells = [f"{reward(mean)} ± {spread[when]:.2f}" for when, mean in skew.mean_margin.items()]
        if audit.beyond_noise:
            beyond = audit.beyond_noise[name]
            cells.append(NOT_ESTIMATED if isinstance(beyond, Missing) else signed(beyond))
        ties = "" if isinstance(skew.ties, Missing) else " → ".join(str(n) for _, n in skew.ties.items())
        flipped = f" ({contrasts_flipped(skew)})" if contrasts_flipped(skew) else ""
        rows.append((name, *cells, ties, count(skew.before), skew.source + flipped))
    of = [f"mean ± SD {when}" for when in audit.scorings] if compares(audit) else ["mean ± SD"]
    of += ["change of the mean beyond noise"] if audit.beyond_noise else []
    unit = next(iter(audit.effects.values())).unit
    header = ("bias", *of, "margins of exactly 0", "n", "contrasts from")
    return Table(f"Margins ({unit}): their mean and their spread over contrasts", header, tuple(rows))


def quality_table(audit: AuditResult) -> Table | None:
    """Accuracy on held-out pairs."""
    quality = audit.quality
    if quality is None:
        return None
    tests = tested_cells(quality.test) if compares(audit) else ()
    row = ("quality accuracy", *quality_cells(quality, audit), *tests)
    header = ("measure", *estimates(audit), *(("p", "p (Holm)") if compares(audit) else ()))
    return Table("Held-out pairs ranked right, with 95% intervals", header, (row,))


def direction_table(audit: AuditResult) -> Table | None:
    """Skew by how the contrasts were made, where they were made in both directions."""
    rows: list[tuple[str, ...]] = []
    for name in audit.skew:
        rows += [(f"{name} {direction}", *cells) for direction, *cells in direction_rows(name, audit)]
    if not rows:
        return None
    caption = "Skew by whether the bias was added to a plain answer or removed from one that had it, with 95% intervals"
    return Table(caption, ("contrasts", *estimates(audit)), tuple(rows))


def unseen_table(audit: AuditResult) -> Table | None:
    """Skew where the biased side holds none of the rule-based rewriter's wording."""
    rows: list[tuple[str, ...]] = []
    for name, unseen in audit.unseen_phrases.items():
        if isinstance(unseen.skew, Missing):
            cells, plain = ("no such contrast", "", "", "0"), blank_of_plain(audit)
        else:
            cells = change_cells(unseen.skew)  # type: ignore[assignment]
            plain = plain_cells(audit, partial(_plain_unseen, name))
        rows.append((name, *cells, *plain, str(unseen.of)))
    if not rows:
        return None
    header = ("bias", *estimates(audit), "of all contrasts")
    return Table("Skew on contrasts without any phrase that training could show", header, tuple(rows))


def _plain_unseen(name: str, plain: Plain) -> Measure | Missing | None:
    return plain.unseen_phrases[name].skew


def _voted_names(audit: AuditResult) -> list[str]:
    """Biases with votes, targets first."""
    return [name for name in [*targets(audit), *others(audit)] if name in audit.votes]
