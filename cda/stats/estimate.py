"""An estimate: a value that never travels without its interval and its n."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with a 95% interval.

    Attributes:
        value: The estimate, in `unit`.
        low: Lower end of the interval.
        high: Upper end of the interval.
        n: Observations behind it.
        n_prompts: Distinct prompts behind it (the clusters).
        unit: `share` (0 to 1), `share difference` (−1 to 1), `reward`, `preference` (−1 to 1), `AUC`, `AUC difference`,
            `correlation`, `alpha`, `cosine`, `standard deviations`, or the name of a feature in its own unit.
        method: How the interval was made.
    """

    value: float
    low: float
    high: float
    n: int
    n_prompts: int
    unit: str
    method: str

    def to_json(self) -> dict[str, Any]:
        return asdict(self)
