"""How well the rewrites behind the tested attributes were made: quality, what else differs between the sides, what is missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from cda.report.inspect_tables import plain
from cda.report.numbers import MINUS, decimals, share, signed
from cda.report.tables import Table
from cda.results.base import Estimate, Missing
from cda.results.discover import DiscoverResult
from cda.results.rewrite_quality import PairQuality

_LABELLERS = {"measure": "the attribute's measure", "llm": "the LLM"}


def pairs_table(result: DiscoverResult) -> Table:
    """Quality of the rewrites behind the tested attributes."""
    rows = []
    for attribute, found in _looked_at(result):
        fidelity, grades, guesses = found.fidelity, found.grades, found.guesses
        agreement = ", ".join(decimals(one.pearson) for one in found.agreement if isinstance(one.pearson, Estimate))
        rows.append(
            (
                attribute,
                _optional(fidelity.present if fidelity else None, share),
                _optional(fidelity.absent if fidelity else None, share),
                _LABELLERS[found.labelled_by] if fidelity and found.labelled_by else "",
                agreement,
                _optional(grades.score if grades else None, _grade),
                _optional(guesses.similarity if guesses else None, _grade),
                str(found.n),
            )
        )
    header = (
        "attribute",
        "present where added",
        "absent elsewhere",
        "labelled by",
        "r between rewriters",
        "edits, 1 to 10",
        "guessed, 1 to 5",
        "pairs",
    )
    return Table("How well the rewrites were made", header, tuple(rows))


def drift_table(result: DiscoverResult) -> Table:
    """Features but the attribute's own that differ beyond their limit in some pairs, those of most pairs first."""
    rows = []
    for attribute, found in _looked_at(result):
        drift = () if isinstance(found.drift, Missing) else found.drift
        beyond = [(row, row.beyond) for row in drift if not row.is_treatment and row.beyond and row.beyond.value]
        for row, pairs in sorted(beyond, key=lambda one: -one[1].value):
            scaled = "" if row.standardised is None else signed(row.standardised)
            rows.append((attribute, plain(row.feature), f"{row.base_mean:.2f}", f"{row.perturbed_mean:.2f}",
                         signed(row.difference), scaled, share(pairs)))  # fmt: skip
    header = ("attribute", "feature", "without", "with", f"with {MINUS} without", "in SDs", "pairs beyond the limit")
    return Table("What else differs between the sides, where pairs are beyond a limit", header, tuple(rows))


def unknown_table(result: DiscoverResult) -> Table:
    """What is not known of the pairs, and why."""
    rows = tuple(
        (attribute, "drift", found.drift.reason)
        for attribute, found in _looked_at(result)
        if isinstance(found.drift, Missing)
    )
    return Table("What is not known of the rewrites", ("attribute", "what", "because"), rows)


def _looked_at(result: DiscoverResult) -> Iterator[tuple[str, PairQuality]]:
    """Attribute and quality of its pairs."""
    by_id = {one.candidate: one.attribute for one in result.tested}
    for name, found in result.pairs.items():
        yield by_id.get(name, name), found


def _grade(estimate: Estimate) -> str:
    return f"{estimate.value:.1f} [{estimate.low:.1f}, {estimate.high:.1f}]"


def _optional(found: Estimate | None, shown: Callable[[Estimate], str]) -> str:
    return shown(found) if found else ""
