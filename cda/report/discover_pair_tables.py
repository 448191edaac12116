"""How well the rewrites behind the tested attributes were made: quality, what else differs between the sides, what is missing."""

from __future__ import annotations

from collections.abc import Iterator

from cda.report.inspect_tables import plain
from cda.report.numbers import MINUS, Json, decimals, share, signed
from cda.report.tables import Table

_LABELLERS = {"measure": "the attribute's measure", "llm": "the LLM"}


def pairs_table(result: Json) -> Table:
    """Quality of the rewrites behind the tested attributes."""
    rows = []
    for attribute, found in _looked_at(result):
        fidelity, grades, guesses = found["fidelity"], found["grades"], found["guesses"]
        agreement = ", ".join(decimals(one["pearson"]) for one in found["agreement"] if one.get("pearson"))
        by = str(found.get("labelled_by"))
        rows.append(
            (
                attribute,
                _optional(fidelity and fidelity["present"], share),
                _optional(fidelity and fidelity["absent"], share),
                _LABELLERS.get(by, "") if fidelity else "",
                agreement,
                _optional(grades and grades["score"], _grade),
                _optional(guesses and guesses["similarity"], _grade),
                str(found["n"]),
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


def drift_table(result: Json) -> Table:
    """Features but the attribute's own that differ beyond their limit in some pairs, those of most pairs first."""
    rows = []
    for attribute, found in _looked_at(result):
        beyond = [row for row in found["drift"] if not row["is_treatment"] and row["beyond"] and row["beyond"]["value"]]
        for row in sorted(beyond, key=lambda one: -one["beyond"]["value"]):
            scaled = "" if row["standardised"] is None else signed(row["standardised"])
            rows.append((attribute, plain(row["feature"]), f"{row['base_mean']:.2f}", f"{row['perturbed_mean']:.2f}",
                         signed(row["difference"]), scaled, share(row["beyond"])))  # fmt: skip
    header = ("attribute", "feature", "without", "with", f"with {MINUS} without", "in SDs", "pairs beyond the limit")
    return Table("What else differs between the sides, where pairs are beyond a limit", header, tuple(rows))


def unknown_table(result: Json) -> Table:
    """What is not known of the pairs, and why."""
    rows = tuple((attribute, *one) for attribute, found in _looked_at(result) for one in found["missing"].items())
    return Table("What is not known of the rewrites", ("attribute", "what", "because"), rows)


def _looked_at(result: Json) -> Iterator[tuple[str, Json]]:
    """Attribute and quality of its pairs."""
    by_id = {one["candidate"]: one["attribute"] for one in result["tested"]}
    for name, found in result["pairs"].items():
        yield by_id.get(name, name), found


def _grade(estimate: Json) -> str:
    return f"{estimate['value']:.1f} [{estimate['low']:.1f}, {estimate['high']:.1f}]"


def _optional(found: Json | None, shown: object) -> str:
    return shown(found) if found else ""  # type: ignore[operator]
