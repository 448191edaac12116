"""The tables that every form of the report shares: plain words and numbers, nothing escaped yet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cda.data.release import SOURCE
from cda.metrics.verdict import TOLERATED_LOSS
from cda.report.numbers import (
    NOT_ESTIMATED,
    Json,
    count,
    decimals,
    distance,
    in_each,
    p_value,
    points,
    reward,
    share,
    signed,
)
from cda.report.rate_cells import average_cells, contrasts_flipped, flipped_cell, unit_of
from cda.report.verdict import others, targets
from cda.results.audit import AuditResult

NO_VOTES = "no votes"
NOT_MEASURED = "not measured"
PLAIN = "plain CDA (dose 1)"
"""Column of what all of the adapter does, where another dose is the run's result."""
TRIPLE_SKEW = "skew (triples: rewrite of the rewrite against rewrite)"


@dataclass(frozen=True, slots=True)
class Table:
    """A table; the first cell of a row names it.

    Attributes:
        caption: What it shows.
        header: One name a column.
        rows: Cells, as many as the header has.
    """

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def compares(audit: AuditResult) -> bool:
    """Whether the audit compares before and after a training; else it is of one model or judge as it is."""
    return len(audit["scorings"]) > 1


def estimates(audit: AuditResult) -> tuple[str, ...]:
    """Columns of a share: before, after, change and n, and plain CDA where that is not the result; or the share and n."""
    if not compares(audit):
        return ("share", "n")
    dose = audit.dose_applied
    after = "after" if dose in (None, 1) else f"after, dose {dose:g}"
    return ("before", after, "change (points)", "n", *((PLAIN,) if audit.get("plain") else ()))


def plain_cells(audit: AuditResult, *path: str) -> tuple[str, ...]:
    """The cell of plain CDA for the measure at a path of the audit; no cell where plain CDA is the result itself."""
    found: Any = audit.get("plain")
    if not found:
        return ()
    for key in path:
        found = (found or {}).get(key)
    return (share(found["after"]) if found and "after" in found else NOT_MEASURED,)


def direction_rows(name: str, audit: AuditResult) -> list[tuple[str, ...]]:
    """Skew where the bias was added and where it was removed, a row each; none for contrasts of one direction."""
    return [
        (direction, *change_cells(one), *plain_cells(audit, "skew", name, "by_direction", direction))
        for direction, one in audit["skew"][name].get("by_direction", {}).items()
    ]


def change_cells(change: Json, limit: float | None = None) -> tuple[str, ...]:
    """Cells of a share: before, after, change and n of a paired change, or the one share and its n.

    Args:
        change: Of the share.
        limit: That the change is held against, beside 0; it gets the digits that tell its interval from it.
    """
    if "change" not in change:
        return share(change["model"]), count(change["model"])
    moved = points(change["change"], "", limit)
    return share(change["before"]), share(change["after"]), moved, count(change["change"])


def main_table(audit: AuditResult) -> Table:
    """What a reader looks at first: skew, miscalibration and RATE's ATE of each target bias, and quality accuracy."""
    if not compares(audit):
        return model_table(audit)
    rows: list[tuple[str, ...]] = []
    triples = triple_skew_rows(audit)
    for name in targets(audit):
        rows.append((f"{name} skew", *change_cells(audit["skew"][name]), *plain_cells(audit, "skew", name)))
        rows += [(f"{name} skew, {direction}", *cells) for direction, *cells in direction_rows(name, audit)]
        votes = audit["votes"].get(name)
        cells = change_cells(votes["miscalibration"]) if votes else (NO_VOTES, NO_VOTES, "", "")
        plain = plain_cells(audit, "votes", name, "miscalibration") if votes else blank_of_plain(audit)
        rows.append((f"{name} miscalibration", *cells, *plain))
        rows += [(f"{name} skew (triples)", *skew) for of, *skew in triples if of == name]
        if name in audit["rate"]:
            rows.append(
                (
                    f"{name} RATE ATE{unit_of(audit['rate'][name])}",
                    *average_cells(audit["rate"][name], audit["scorings"]),
                    *plain_cells(audit, "rate", name),
                )
            )
    if audit["quality"] is not None:
        rows.append(
            ("quality accuracy", *change_cells(audit["quality"], -TOLERATED_LOSS), *plain_cells(audit, "quality"))
        )
    return Table("Before and after training, with 95% intervals", ("measure", *estimates(audit)), tuple(rows))


def blank_of_plain(audit: AuditResult) -> tuple[str, ...]:
    """An empty cell in the column of plain CDA, where there is one."""
    return ("",) if audit.get("plain") else ()


def model_table(audit: AuditResult, brief: bool = False) -> Table:
    """One model or judge: every bias in a row, beside people where they voted.

    Args:
        audit: The audit's JSON.
        brief: Leave the mean margin and RATE's ATE out if people's columns take their place.
    """
    voted = bool(audit["votes"])
    with_margin = not (brief and voted)
    unit = next(iter(audit["effects"].values()))["unit"]
    margin = (f"mean margin ({unit})",) if with_margin else ()
    rated = with_margin and bool(audit["rate"])
    header = ("bias", "skew", *(("people", "miscalibration", "AUC") if voted else ()), *margin, "n")
    header += ("RATE ATE", "rewrites") if rated else ()
    rows = []
    for name, skew in audit["skew"].items():
        cells = [name, share(skew["model"])]
        if voted:
            votes = audit["votes"].get(name)
            cells += _people_cells(votes) if votes else [NO_VOTES, "", ""]
        if with_margin:
            cells.append(_mean_margin(audit["effects"][name]["model"]["direct"]))
        voted_rows = f", {audit['votes'][name]['human_skew']['n']} voted" if name in audit["votes"] else ""
        cells.append(count(skew["model"]) + voted_rows)
        if rated:
            one = audit["rate"].get(name)
            cells += average_cells(one, audit["scorings"]) if one else ["no triples", ""]
        rows.append(tuple(cells))
    return Table("How often the model prefers the side with the bias, with 95% intervals", header, tuple(rows))


def _people_cells(votes: Json) -> list[str]:
    auc = votes["auc"]
    ranked = NOT_ESTIMATED if "missing" in auc else decimals(auc["model"])
    return [share(votes["human_skew"]), share(votes["miscalibration"]["model"]), ranked]


def _mean_margin(direct: Json) -> str:
    if same := direct.get("same"):
        return in_each(same["value"])
    return NOT_ESTIMATED if "missing" in direct else signed(direct["estimate"])


def votes_table(audit: AuditResult) -> Table | None:
    """The model beside people, for every bias that people voted on, with the tests of the audit's family."""
    rows: list[tuple[str, ...]] = []
    for name in _voted_names(audit):
        votes = audit["votes"][name]
        people = votes["human_skew"]
        same = ("the same", "") if compares(audit) else ()
        on_voted, disagreed, path = votes["skew_on_voted"], votes["miscalibration"], ("votes", name)
        plain = (audit.get("plain") or {}).get("votes", {}).get(name)
        rows.append((f"{name} human skew", share(people), *same, count(people), *blank_of_plain(audit), "", ""))
        skew = plain_cells(audit, *path, "skew_on_voted")
        rows.append((f"{name} skew on voted contrasts", *change_cells(on_voted), *skew, *tested_cells(on_voted)))
        missed = plain_cells(audit, *path, "miscalibration")
        rows.append((f"{name} miscalibration", *change_cells(disagreed), *missed, *tested_cells(disagreed)))
        gap = (distance(plain["gap"]["after"]),) if plain else ()
        rows.append((f"{name} gap", *gap_cells(votes), *gap, "", ""))
        signed_gap = (points(plain["signed_gap"]["after"]),) if plain else ()
        found = tested_cells(votes.get("gap_test", {}))
        rows.append((f"{name} skew − human skew", *_signed_gap_cells(votes), *signed_gap, *found))
        ranked = _plain_auc(plain["auc"]) if plain else ()
        rows.append((f"{name} AUC of the margin", *_auc_cells(votes["auc"], audit), *ranked, "", ""))
    if not rows:
        return None
    tested = "nothing changed" if compares(audit) else "the model's skew is that of people"
    caption = f"The model beside people, with 95% intervals; p is for the test that {tested}"
    return Table(caption, ("measure", *estimates(audit), "p", "p (Holm)"), tuple(rows))


def tested_cells(test: Json) -> tuple[str, str]:
    """p and Holm's p of a test of the audit's family; empty where there is no such test."""
    if "p_holm" not in test:
        return "", ""
    return p_value(test["p_value"]), p_value(test["p_holm"])


def people_table(audit: AuditResult) -> Table | None:
    """How far people agree among themselves, which says how much their majorities can be relied on."""
    rows = []
    for name in _voted_names(audit):
        votes = audit["votes"][name]
        if "agreement" not in votes:
            continue
        agreed, ceiling = votes["agreement"], votes["noise_ceiling"]
        if "missing" in agreed:
            rows.append((name, agreed["missing"], "", "", ""))
            continue
        second = ceiling["missing"] if "missing" in ceiling else share(ceiling["miscalibration"])
        alpha = decimals(agreed["alpha"]) if agreed["alpha"] else agreed["no_alpha"]
        cells = share(agreed["majority_share"]), alpha, second, str(agreed["n_votes"])
        rows.append((name, *cells))
    if not rows:
        return None
    header = ("bias", "mean majority share", "Krippendorff's alpha", "miscalibration of a second majority", "votes")
    return Table("How far people agree with each other, with 95% intervals", header, tuple(rows))


def powered_table(audit: AuditResult) -> Table | None:
    """What people would prefer on all contrasts, from few votes and the judges' verdicts."""
    rows: list[tuple[str, ...]] = []
    for name in _voted_names(audit):
        for what, one in audit["votes"][name].get("prediction_powered", {}).items():
            label = f"{name} {what.replace('_', ' ').removesuffix(' model')}"
            if what == "missing" or "missing" in one:
                rows.append((label, one if what == "missing" else one["missing"], "", "", "", ""))
                continue
            found = one["share"]
            without = sum(one["exclusions"]["reasons"].values())
            rows.append((label, share(found["estimate"]), share(found["classical"]), f"{found['power_tuning']:.2f}",
                         f"{found['classical']['n']} + {found['n_unlabelled']}",
                         f"{without} of {one['exclusions']['seen']}"))  # fmt: skip
    if not rows:
        return None
    header = ("measure", "with verdicts (PPI++)", "votes alone", "weight of verdicts", "voted + judged alone",
              "left out: no verdict")  # fmt: skip
    caption = "All contrasts, judged from people's votes on some and judges' verdicts on the others; ties count half, with 95% intervals"
    return Table(caption, header, tuple(rows))


def gap_cells(votes: Json) -> tuple[str, ...]:
    """Cells of the gap, in points: a distance has no sign, its change has one."""
    gap, n = votes["gap"], count(votes["human_skew"])
    if "change" not in gap:
        return distance(gap["model"]), n
    return distance(gap["before"]), distance(gap["after"]), points(gap["change"], ""), n


def _signed_gap_cells(votes: Json) -> tuple[str, ...]:
    """Cells of skew − human skew. Human skew stays, so that its change is that of skew on the voted contrasts."""
    gap, n = votes["signed_gap"], count(votes["human_skew"])
    if "model" in gap:
        return points(gap["model"]), n
    return points(gap["before"]), points(gap["after"]), points(votes["skew_on_voted"]["change"], ""), n


def _plain_auc(auc: Json) -> tuple[str, ...]:
    return ("" if "missing" in auc else decimals(auc["after"]),)


def _auc_cells(auc: Json, audit: AuditResult) -> tuple[str, ...]:
    if "missing" in auc:
        return (auc["missing"], *[""] * (3 if compares(audit) else 1))
    if "change" not in auc:
        return decimals(auc["model"]), count(auc["model"])
    return decimals(auc["before"]), decimals(auc["after"]), signed(auc["change"]), count(auc["change"])


def skew_table(audit: AuditResult) -> Table:
    """Skew of every bias with the test that it changed."""
    rows = []
    for name in [*targets(audit), *others(audit)]:
        skew = audit["skew"][name]
        label = f"{name} (target)" if skew["target"] and compares(audit) else name
        tests = [p_value(skew[key]) for key in ("p_value", "p_holm", "p_bh")] if compares(audit) else []
        unpaired = [points(skew["unpaired"], "")] if compares(audit) else []
        plain = plain_cells(audit, "skew", name)
        rows.append((label, *change_cells(skew), *plain, *unpaired, *tests, pairs_of(skew["source"])))
    header = (*(("change, unpaired z", "p", "p (Holm)", "p (BH)") if compares(audit) else ()), "skew of")
    return Table("Skew of every bias, with 95% intervals", ("bias", *estimates(audit), *header), tuple(rows))


def pairs_of(source: str) -> str:
    """The kind of pairs that a bias's skew is of, by the source of its contrasts."""
    named = {"embedded": "authored pairs", "file": "pairs of your file", SOURCE: "triples that people voted on"}
    return named.get(source, "rewritten answers")


def triple_skew_rows(audit: AuditResult) -> list[tuple[str, ...]]:
    """Skew over triples: a row for each bias that has any, targets first."""
    found = audit.get("triple_skew", {})
    blank = ("",) * (2 if compares(audit) else 0)
    rows: list[tuple[str, ...]] = []
    for name in [*targets(audit), *others(audit)]:
        if name in found:
            one = found[name]
            cells = (NOT_ESTIMATED, *blank, str(one["n"])) if "missing" in one else change_cells(one)
            rows.append((name, *cells, *plain_cells(audit, "triple_skew", name)))
    return rows


def triple_skew_table(audit: AuditResult) -> Table | None:
    """Skew over triples; None where the audit has none."""
    rows = [(name, *cells, _flipped(name, audit)) for name, *cells in triple_skew_rows(audit)]
    caption = f"{TRIPLE_SKEW[0].upper()}{TRIPLE_SKEW[1:]}, with 95% intervals"
    return Table(caption, ("bias", *estimates(audit), "rewrites that flipped the bias"), tuple(rows)) if rows else None


def _flipped(name: str, audit: AuditResult) -> str:
    """How many rewrites flipped the bias; of the paper's release all count here, as in the paper."""
    one = audit["rate"].get(name)
    if one is None:
        return ""
    return f"{flipped_cell(one)}; all of them count here" if one["rewriter"] == SOURCE else flipped_cell(one)


def margin_table(audit: AuditResult) -> Table:
    """How large the margins are, in the model's own units."""
    rows = []
    beyond = audit.get("beyond_noise")
    for name, skew in audit["skew"].items():
        cells = [f"{reward(skew['mean_margin'][when])} ± {skew['sd_margin'][when]:.2f}" for when in audit["scorings"]]
        if beyond:
            cells.append(NOT_ESTIMATED if "missing" in beyond[name] else signed(beyond[name]))
        ties = " → ".join(str(skew["ties"][when]) for when in audit["scorings"])
        flipped = f" ({contrasts_flipped(skew)})" if contrasts_flipped(skew) else ""
        rows.append((name, *cells, ties, count(skew[audit["scorings"][0]]), skew["source"] + flipped))
    of = [f"mean ± SD {when}" for when in audit["scorings"]] if compares(audit) else ["mean ± SD"]
    of += ["change of the mean beyond noise"] if beyond else []
    unit = next(iter(audit["effects"].values()))["unit"]
    header = ("bias", *of, "margins of exactly 0", "n", "contrasts from")
    return Table(f"Margins ({unit}): their mean and their spread over contrasts", header, tuple(rows))


def quality_table(audit: AuditResult) -> Table | None:
    """Accuracy on held-out pairs."""
    quality = audit["quality"]
    if quality is None:
        return None
    tests = [p_value(quality[key]) for key in ("p_value", "p_holm")] if compares(audit) else []
    row = ("quality accuracy", *change_cells(quality, -TOLERATED_LOSS), *plain_cells(audit, "quality"), *tests)
    header = ("measure", *estimates(audit), *(("p", "p (Holm)") if compares(audit) else ()))
    return Table("Held-out pairs ranked right, with 95% intervals", header, (row,))


def direction_table(audit: AuditResult) -> Table | None:
    """Skew by how the contrasts were made, where they were made in both directions."""
    rows: list[tuple[str, ...]] = []
    for name in audit["skew"]:
        rows += [(f"{name} {direction}", *cells) for direction, *cells in direction_rows(name, audit)]
    if not rows:
        return None
    caption = "Skew by whether the bias was added to a plain answer or removed from one that had it, with 95% intervals"
    return Table(caption, ("contrasts", *estimates(audit)), tuple(rows))


def unseen_table(audit: AuditResult) -> Table | None:
    """Skew where the biased side holds none of the rule-based rewriter's wording."""
    rows: list[tuple[str, ...]] = []
    for name, unseen in audit["unseen_phrases"].items():
        cells = change_cells(unseen) if unseen["n"] else ("no such contrast", "", "", "0")
        plain = plain_cells(audit, "unseen_phrases", name) if unseen["n"] else blank_of_plain(audit)
        rows.append((name, *cells, *plain, str(unseen["of"])))
    if not rows:
        return None
    header = ("bias", *estimates(audit), "of all contrasts")
    return Table("Skew on contrasts without any phrase that training could show", header, tuple(rows))


def _voted_names(audit: AuditResult) -> list[str]:
    """Biases with votes, targets first."""
    return [name for name in [*targets(audit), *others(audit)] if name in audit["votes"]]
