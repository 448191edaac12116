"""All figures of an audit report, by the section that each belongs to; drawn from the audit's JSON alone."""

from __future__ import annotations

from cda.auditing.report_dose import dose_plots
from cda.auditing.report_plots_effects import drift_plots, effect_plots, rate_plots
from cda.auditing.report_plots_people import correlation_plots, people_plots
from cda.auditing.report_plots_shares import change_plots, contrast_rewards, quality_plots, skew_plot, triple_rewards
from cda.report.plots import Plot
from cda.results.audit import AuditResult


def section_plots(audit: AuditResult) -> dict[str, tuple[Plot, ...]]:
    """Figures of each section, by its id, each only where its data exist; skew itself stands on the first screen."""
    found = {
        "votes": people_plots(audit),
        "dose": dose_plots(audit),
        "biases": [*change_plots(audit), *contrast_rewards(audit)],
        "effects": effect_plots(audit),
        "rate": [*rate_plots(audit), *triple_rewards(audit)],
        "quality": quality_plots(audit),
        "data": correlation_plots(audit),
        "drift": drift_plots(audit),
    }
    return {section: tuple(plots) for section, plots in found.items() if plots}


def audit_plots(audit: AuditResult) -> list[Plot]:
    """Every figure, in the order of the report, with skew first: what is written for paper."""
    return [skew_plot(audit), *(plot for plots in section_plots(audit).values() for plot in plots)]
