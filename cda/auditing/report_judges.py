"""Tables and sentences on LLM judges: each judge of a panel, their agreement, and each criterion of a rubric."""

from __future__ import annotations

from collections.abc import Iterator

from cda.auditing.report_cells import said
from cda.report.numbers import NOT_ESTIMATED, cell, count, decimals, points, share, signed
from cda.report.tables import Row, Table, table
from cda.results.audit import AuditResult
from cda.results.base import Estimate, Missing
from cda.results.skew import BiasPanel, JudgedBias

_OVERALL = "overall"


def judge_words(audit: AuditResult) -> list[str]:
    """Paragraphs on the tables of judges and criteria that an audit has."""
    agreed = any(panel.majority is not None for panel in audit.panel.values())
    left_out = any(panel.without for panel in audit.panel.values())
    needed = {"panel": audit.panel, "agreement": agreed, "without": left_out, "criteria": audit.criteria}
    return [said("judges", key) for key, need in needed.items() if need]


def judge_tables(audit: AuditResult) -> list[Table | None]:
    """Every table of a panel's judges and a rubric's criteria; None for each that the audit has no numbers for."""
    return [panel_table(audit), agreement_table(audit), criteria_matrix(audit), criteria_table(audit)]


def panel_table(audit: AuditResult) -> Table | None:
    """Skew and miscalibration of every judge, of the panel, its majority, and in the mean of the judges; None without a panel."""
    voted = any(panel.panel.miscalibration is not None for panel in audit.panel.values())
    rows = [
        (f"{bias}, {name}", *_judged_cells(judged, voted))
        for bias, panel in audit.panel.items()
        for name, judged in _of_panel(panel).items()
    ]
    header = ("bias, judge", "skew", "n", "ties", "without a verdict", *_voted_header(voted))
    return table("Each judge by itself and the panel, with 95% intervals", header, rows)


def _of_panel(panel: BiasPanel) -> dict[str, JudgedBias]:
    together = {"the panel": panel.panel, "majority of the judges": panel.majority, "mean of the judges": panel.mean}
    return panel.judges | {name: judged for name, judged in together.items() if judged is not None}


def _voted_header(voted: bool) -> Row:
    return ("miscalibration", "n voted") if voted else ()


def _judged_cells(judged: JudgedBias, voted: bool) -> Row:
    """Skew, its n, ties and contrasts without a verdict; miscalibration and its n if people voted on any bias."""
    people = (cell(judged.miscalibration, share), cell(judged.miscalibration, count, "")) if voted else ()
    ties = "" if judged.ties is None else str(judged.ties)
    return cell(judged.skew, share), cell(judged.skew, count, ""), ties, str(judged.unread), *people


def agreement_table(audit: AuditResult) -> Table | None:
    """Krippendorff's alpha of every panel, and of the panel without each of its judges; None without a panel."""
    header = (
        "bias, judges", "Krippendorff's alpha", "change of alpha", "skew of the panel", "change of skew (points)", "n",
    )  # fmt: skip
    caption = "Agreement of the judges, of all and without each of them, with 95% intervals"
    return table(caption, header, (row for bias, panel in audit.panel.items() for row in _agreement_rows(bias, panel)))


def _agreement_rows(bias: str, panel: BiasPanel) -> Iterator[Row]:
    if panel.majority is None:
        return
    alpha = alpha_of(panel)
    yield f"{bias}, all", cell(alpha, decimals), "", cell(panel.panel.skew, share), "", cell(alpha, count, "")
    for judge, without in panel.without.items():
        yield (
            f"{bias}, without {judge}",
            cell(without.alpha, decimals),
            cell(without.alpha_change, signed),
            cell(without.skew, share),
            cell(without.skew_change, lambda change: points(change, "")),
            cell(without.alpha, count, ""),
        )


def alpha_of(panel: BiasPanel) -> Estimate | Missing:
    """Krippendorff's alpha of all judges of a panel."""
    return panel.agreement if isinstance(panel.agreement, Missing) else panel.agreement.alpha


def criteria_matrix(audit: AuditResult) -> Table | None:
    """Skew by criterion (rows) and bias (columns), the skew overall last; None without criteria or for one bias."""
    biases = list(audit.criteria)
    if len(biases) < 2:
        return None
    names = list(next(iter(audit.criteria.values())))
    rows = [(name, *(_short(audit.criteria[bias][name].skew) for bias in biases)) for name in names]
    rows.append((_OVERALL, *(_short(audit.skew[bias].before) for bias in biases)))
    return table("Skew by criterion and bias, with 95% intervals and n", ("criterion", *biases), rows)


def _short(skew: Estimate | Missing) -> str:
    return NOT_ESTIMATED if isinstance(skew, Missing) else f"{share(skew)}, n {skew.n}"


def criteria_table(audit: AuditResult) -> Table | None:
    """Skew and miscalibration by each criterion, next to the skew overall; None without criteria."""
    voted = any(found.miscalibration is not None for own in audit.criteria.values() for found in own.values())
    rows: list[Row] = []
    for bias, own in audit.criteria.items():
        for name, judged in own.items():
            change = cell(judged.against_overall, lambda against: points(against, ""))
            rows.append((f"{bias}, {name}", *_judged_cells(judged, voted), change))
        overall = audit.skew[bias]
        missed = audit.votes[bias].miscalibration.before if bias in audit.votes else None
        people = (cell(missed, share), cell(missed, count)) if voted else ()
        ties = "" if isinstance(overall.ties, Missing) else str(overall.ties.before)
        shown = (share(overall.before), count(overall.before), ties, str(overall.unread))
        rows.append((f"{bias}, {_OVERALL}", *shown, *people, ""))
    header = (
        "bias, criterion",
        "skew",
        "n",
        "ties",
        "without a verdict",
        *_voted_header(voted),
        "minus overall (points)",
    )
    return table("Skew by criterion, with 95% intervals", header, rows)
