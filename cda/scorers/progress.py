"""The bar of a scoring: counts texts, and foretells by their length, since the longest come first."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence

from tqdm import tqdm

from cda.quiet import hides_bars

_FORM = "{desc}: {percentage:3.0f}%|{bar}| {texts} [{elapsed}<{remaining}]"


class TextBar(tqdm):  # type: ignore[type-arg]
    """Its unit is a character (or token) of the texts that are left; those that were scored before are behind it from the start.

    Args:
        sizes: Length of each text, in any unit; what lies beyond the model's limit counts for nothing and should be left out.
        done: Rows that are known.
        label: Stands before it; None for no bar.
    """

    def __init__(self, sizes: Sequence[int], done: frozenset[int] = frozenset(), label: str | None = None) -> None:
        self._sizes, self._done, self._seen = sizes, done, len(done)
        known = sum(sizes[row] for row in done)
        super().__init__(
            total=sum(sizes), initial=known, desc=label, disable=label is None or hides_bars(), bar_format=_FORM
        )

    @property
    def format_dict(self) -> MutableMapping[str, object]:
        """What the bar is drawn from."""
        return {**super().format_dict, "texts": f"{self._seen}/{len(self._sizes)} texts"}

    def scored(self, rows: Sequence[int]) -> None:
        """Go on by texts that are done now; known ones that were scored once more with their batch-mates count once."""
        new = [row for row in rows if row not in self._done]
        self._seen += len(new)
        self.update(sum(self._sizes[row] for row in new))
