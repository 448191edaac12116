"""Ids that were made from a contrast's text, and stand beside another text since: a row was edited after its export."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from cda.records import Contrast, Exclusions

_FORM = re.compile(r"[0-9a-f]{16}")  # of content_id
_REASON = "made from other text"


@dataclass(frozen=True, slots=True)
class CarriedIds:
    """The ids that rows of one file carry.

    Attributes:
        seen: Rows with an id.
        outdated: Rows whose id looks like ours and is not that of their text.
        ours: Whether the file holds ids of ours for certain. Anybody's hash may have sixteen digits: an id is known to be
            ours only where some row carries exactly its own, or its own with the sides swapped.
    """

    seen: int = 0
    outdated: int = 0
    ours: bool = False

    def of(self, contrast: Contrast) -> str | None:
        """The id that votes on a row are looked for under; None: only that of its text."""
        item = contrast.tags.get("item")
        return None if self.ours and _is_outdated(contrast) else item

    @property
    def exclusions(self) -> Exclusions:
        """Ids that are not used."""
        return Exclusions(self.seen, {_REASON: self.outdated} if self.ours and self.outdated else {})

    @property
    def notice(self) -> str | None:
        """A sentence for the user, where an id is or may be outdated."""
        if not self.outdated:
            return None
        if self.ours:
            return (
                f"{self.outdated} of {self.seen} rows carry an id that was {_REASON} (or for another bias); votes on that text "
                "are not counted for them. They go by the id of their own text now"
            )
        return (
            f"{self.outdated} of {self.seen} rows carry an id in the form of those that cda makes from a text, and not that of "
            "their own; if they were edited since, votes on the text before count for them. Then leave their ids empty"
        )


def carried_ids(contrasts: Sequence[Contrast]) -> CarriedIds:
    """What the ids (tag `item`) of a file's rows are.

    Args:
        contrasts: One a row, duplicates included.
    """
    carried = [one for one in contrasts if one.tags.get("item")]
    return CarriedIds(len(carried), sum(map(_is_outdated, carried)), any(map(_is_ours, carried)))


def _is_ours(one: Contrast) -> bool:
    return one.tags["item"] in (*_made(one), *_made(replace(one, perturbed=one.base, base=one.perturbed)))


def _is_outdated(one: Contrast) -> bool:
    item = one.tags.get("item", "")
    return _FORM.fullmatch(item) is not None and item not in _made(one)


def _made(one: Contrast) -> tuple[str, ...]:
    """The ids that are made from its text."""
    return replace(one, tags={}).ids
