"""The glossary of a report: one entry a measure, interval or test that the audit holds."""

from __future__ import annotations

from functools import cache
from importlib import resources

import yaml

from cda.auditing.report_evidence import compares
from cda.auditing.report_methods import methods_of
from cda.report.page import Entry
from cda.results.audit import AuditResult
from cda.results.base import Missing
from cda.results.effects import NORMAL_TEST, SIGN_TEST
from cda.results.facts import RewardModelFacts
from cda.results.skew import NoiseCeiling

INTERVALS, _DOSE, _TRAINING = "Intervals", "Dose", "Words on a training"
"""Headings whose entries go together."""


@cache
def every_entry() -> dict[str, dict[str, Entry]]:
    """All entries that any audit can have, by heading and key: the core of the report's README."""
    text = (resources.files("cda.auditing") / "glossary.yaml").read_text(encoding="utf-8")
    return {
        heading: {key: Entry(**{"term": key, **entry}) for key, entry in entries.items()}
        for heading, entries in yaml.safe_load(text).items()
    }


def glossary(audit: AuditResult) -> list[Entry]:
    """The entries that this audit needs, true under its tie rule and for its kind of model."""
    by_heading = every_entry()
    known = {key: entry for entries in by_heading.values() for key, entry in entries.items()}
    judged = any(effects.unit == "preference" for effects in audit.effects.values())
    one_order = not isinstance(audit.model, RewardModelFacts) and audit.model.orders == "one"
    methods = set(methods_of(audit))
    tests = [effects.test.method for effects in audit.effects.values() if not isinstance(effects.test, Missing)]
    exact = compares(audit) or any(votes.gap_test is not None for votes in audit.votes.values())
    before: dict[str, object] = {
        ("one-order margin" if one_order else "judged margin") if judged else "margin": True,
        "judged skew" if judged else "skew": True,
        "the panel": audit.panel,
        "mean of the judges": audit.panel,
        "authored skew": any(skew.source == "embedded" for skew in audit.skew.values()),
        "triple skew": audit.triple_skew,
    }
    after: dict[str, object] = {
        "judged quality" if judged else "quality": audit.quality,
        "section": audit.quality_sections,
        "change": compares(audit),
        "unpaired": compares(audit),
        **dict.fromkeys(by_heading[_TRAINING], compares(audit)),
        **dict.fromkeys(by_heading[_DOSE], audit.dose),
        **{word: any(word in method for method in methods) for word in by_heading[INTERVALS]},
        "exact": exact,
        "normal": audit.rate or NORMAL_TEST in tests,
        "sign": SIGN_TEST in tests,
        "holm": True,
    }
    needed = [[known[key] for key, needs in part.items() if needs] for part in (before, after)]
    return [*needed[0], *_people(audit, judged, known), *needed[1]]


def _people(audit: AuditResult, judged: bool, known: dict[str, Entry]) -> list[Entry]:
    """Entries on votes; people's tie rule goes without saying in the entries of one audit."""
    votes = list(audit.votes.values())
    entries: list[Entry] = []
    for rule in dict.fromkeys(voted.rule for voted in votes):
        skew, missed = known[f"human skew (ties: {rule})"], known[f"miscalibration (ties: {rule})"]
        opening = "Lower is better."
        meaning = f"{opening} It can be high even where skew equals human skew.{missed.meaning.removeprefix(opening)}"
        meaning += f" {known['miscalibration of a judge'].meaning}" if judged else ""
        entries += [
            Entry("human skew", skew.formula, skew.meaning),
            Entry("miscalibration", missed.formula, meaning),
        ]
    agreed = any(voted.agreement is not None for voted in votes)
    more: dict[str, object] = {
        "gap": votes,
        "AUC of the margin": votes,
        "mean majority share": agreed,
        "Krippendorff's alpha": agreed,
        "second majority": any(isinstance(voted.noise_ceiling, NoiseCeiling) for voted in votes),
        "powered": any(voted.prediction_powered is not None for voted in votes),
    }
    return entries + [known[key] for key, needs in more.items() if needs]
