"""The result of an audit."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from cda.results.base import Estimate, Missing, Saved
from cda.results.people import VotedBias
from cda.results.skew import BiasSkew, Plain, Quality, Seeds, TripleSkew, UnseenPhrases


class AuditResult(Saved):
    """Everything that an audit measures of one model, or of a model before and after its training."""

    in_memory: ClassVar[frozenset[str]] = frozenset({"dose", "run"})

    schema_version: Literal[2] = 2
    recipe: str
    """Name of the recipe."""
    scorings: tuple[str, ...]
    """`model`, or `before` and `after`; first of all a training's `before`."""
    dose_applied: float | None
    aim: str | None
    model: Any
    biases: Any
    sources: Any
    skew: dict[str, BiasSkew]
    """By bias, the targets first."""
    votes: dict[str, VotedBias]
    """By bias that people voted on."""
    votes_undecided: dict[str, int]
    """By bias that people voted on without any majority for one side: contrasts with votes."""
    panel: Any
    quality: Quality | None
    """None without quality pairs."""
    beyond_noise: dict[str, Estimate | Missing]
    """By bias, the change of the mean margin that neither noise nor stretched rewards explain, in reward units; empty for one
    model."""
    quality_sections: Any
    triple_skew: dict[str, TripleSkew]
    """By bias with triples."""
    paper: Any
    effects: Any
    drift: Any
    plain: Plain | None
    """None where plain CDA is the result itself."""
    rate: Any
    rewards: Any
    analysis: Any
    seeds: Seeds | None
    """None for a model as it is."""
    unseen_phrases: dict[str, UnseenPhrases]
    """By target whose training rewrites were made by rules."""
    examples: Any
    excluded: Any
    votes_unmatched: int
    """Items of the files of votes and verdicts that are none of the contrasts."""
    available_quality: Any
    stages: Any
    versions: Any
    seed: int
    n_tests: int
    """Tests that Holm and Benjamini and Hochberg allow for together."""
    dose: Any = None
    """Only in memory, for the report: how the dose was chosen."""
    run: Any = None
    """Only in memory, for the report: when, where and for how much the run's stages were made."""

    # The five below let readers be moved to attributes part by part; they go with the last `Any` above.
    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)

    def __setitem__(self, name: str, value: Any) -> None:
        self.__dict__[name] = value

    def __contains__(self, name: str) -> bool:
        return getattr(self, name, None) is not None

    def keys(self) -> list[str]:
        return [name for name in type(self).model_fields if getattr(self, name) is not None]

    def get(self, name: str, default: Any = None) -> Any:
        found = getattr(self, name, None)
        return default if found is None else found

    def items(self) -> list[tuple[str, Any]]:
        return [(name, getattr(self, name)) for name in self.keys()]

    def __or__(self, other: Any) -> AuditResult:
        return self.model_copy(update=dict(other.items()))

    def __ror__(self, other: Any) -> Any:
        return other | dict(self.items())

    def __ior__(self, other: Any) -> AuditResult:
        self.__dict__.update(other)
        return self
