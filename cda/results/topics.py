"""A search for attributes topic by topic: what each topic's search found, and every attribute measured in every topic."""

from __future__ import annotations

from typing import Literal

from cda.results.base import Missing, Result, Saved
from cda.results.discover import Part, SearchFacts
from cda.results.evidence import Strength
from cda.results.shown import MadeBy

Decision = Literal["confirmed", "shared", "opposite", "not shown", "not tested"]


class TopicMaterial(Saved):
    """The topics that a search by topic works on, and those that were left out."""

    schema_version: Literal[1] = 1
    prompts: dict[str, dict[Part, int]]
    """Topic to its prompts by part; in the order in which topics first come."""
    left_out: dict[str, str]
    """Topic to the reason why it is not searched, with the number of its prompts."""
    n_left_out: int
    """Prompts of those topics."""
    n_without: int
    """Prompts that name no topic, or two."""


class Heterogeneity(Result):
    """A test that an attribute's reward is the same in all topics (Welch's F with prompt-clustered errors)."""

    statistic: float
    """F; near 1 if topics differ by chance alone."""
    df: int
    """Topics minus one."""
    df_error: float
    """Welch's degrees of freedom of the error."""
    p_value: float
    """Before any adjustment."""
    p_holm: float | None = None
    """After Holm, over all attributes of the table."""
    i_squared: float
    """Share of the variation between topics that is not noise, 0 to 1."""


class TopicCell(Result):
    """One attribute on the test prompts of one topic."""

    topic: str
    found_here: bool
    """The topic's own search (or the user) brought it to the test; else it was carried over from another topic."""
    strength: Strength | Missing
    """Reward and judge, by the rewriters that count."""
    p_value: float | None
    """One-sided, that the model rewards it and the judge does not (partial conjunction); None if untested."""
    p_corrected: float | None
    """Corrected within the topic: found here, with all that the topic tested; carried over, with all carried to it, in both directions."""
    p_over_all: float | None
    """Of one found here, corrected with the tests of all topics together; None for others."""
    p_opposite: float | None
    """Corrected: that the model rewards its absence and the judge prefers its presence; None if that was not tested."""
    n_family: int
    """Tests that the correction counts."""
    decision: Decision
    """`confirmed`: found and confirmed here. `shared`: found in another topic, and holds here. `opposite`: holds here with the signs
    turned around. `not shown`; `not tested`."""
    file: str | None = None
    """Its bias file, in the folder of the run; None without one."""


class TopicAttribute(Result):
    """One attribute in every topic, and over all of them."""

    candidate: str
    """Its `id`."""
    name: str
    """Name of its bias."""
    attribute: str
    """In words."""
    found_in: tuple[str, ...]
    """Topics whose searches brought it to the test; empty if it was given."""
    cells: tuple[TopicCell, ...]
    """One for each topic, in their order."""
    pooled: Strength | Missing
    """Over the test prompts of all topics together."""
    pooled_p: float | None
    """One-sided p-value on all of them (partial conjunction); None if untested."""
    pooled_p_corrected: float | None
    """Corrected for all attributes of the table."""
    pooled_confirmed: bool
    """The corrected p-value is below the level."""
    differs: Heterogeneity | Missing
    """A test that the reward is the same in all topics."""

    def in_topics(self, *decisions: Decision) -> tuple[str, ...]:
        """The topics in which it was decided so."""
        return tuple(cell.topic for cell in self.cells if cell.decision in decisions)

    @property
    def turns(self) -> bool:
        """True if its reward lies above 0 in one topic and below 0 in another, each with its whole interval."""
        rewards = [cell.strength.reward for cell in self.cells if isinstance(cell.strength, Strength)]
        return any(reward.low > 0 for reward in rewards) and any(reward.high < 0 for reward in rewards)


class TopicSearch(Result):
    """The search in one topic, in numbers; its own `discover.json` holds the rest."""

    topic: str
    folder: str
    """In the folder of the run, with the topic's own report."""
    prompts: dict[Part, int]
    n_candidates: int
    """Distinct candidates measured."""
    n_validated: int
    """Candidates that entered the validation."""
    n_tested: int
    n_confirmed: int
    n_carried_in: int
    """Attributes of other topics that were measured here."""
    earlier_tests: int = 0
    """Tests on any of the same test prompts in this folder before, with other settings or candidates."""


class TopicsResult(SearchFacts):
    """A finished search by topic."""

    made_by = MadeBy("cda discover --by-topic", "topics.json", "cda.discovery.discovery_page:discovery_document")
    schema_version: Literal[2] = 2
    left_out: dict[str, str]
    """Topic to the reason why it was not searched."""
    n_left_out: int
    """Prompts of those topics."""
    n_without: int
    """Prompts that name no topic, or two; left out."""
    searches: tuple[TopicSearch, ...]
    """One for each topic."""
    by_attribute: tuple[TopicAttribute, ...]
    """Attributes measured in every topic: those confirmed in most topics first, then by the largest reward in any."""
    n_not_carried: int
    """Tested attributes that were not measured in other topics (`discover.carried`); their topic's report has them."""

    @property
    def n_confirmed(self) -> int:
        """Attributes confirmed by the searches of the topics, each topic's counted."""
        return sum(search.n_confirmed for search in self.searches)
