"""Audits as rows that can be shared, and several of them compared: numbers, paired margins, and in what they are not alike."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from cda.results.base import ByAudit, Estimate, MadeBy, Missing, Number, Result, Saved, Shown, Test, of_room
from cda.results.discover import SearchedModel, SearchSettings

Kind = Literal["reward models", "judges", "trainings"]
"""Audits of one kind are averaged together, those of trainings before and after."""


class PairedMargins(Result):
    """Margins of two audits on the rows (contrasts of a bias, or quality pairs) that both have a margin on."""

    first: Estimate
    """Share of these rows on which the first audit's margin is above 0."""
    other: Estimate
    """The same of the other audit."""
    difference: Estimate
    """other − first, paired, clustered by prompt."""
    test: Test
    """Exact test that the difference is 0; Holm's p allows for all such tests of the comparison."""
    agreement: Estimate
    """Share of these rows on which both prefer the same side, or both neither."""
    correlation: Estimate | Missing
    """Pearson's r of the two margins over these rows."""
    both: int
    """Rows on which both margins are above 0."""
    only_first: int
    """Rows on which the first audit's margin alone is above 0."""
    only_other: int
    """Rows on which the other audit's margin alone is above 0."""
    neither: int
    """Rows on which no margin is above 0."""
    unpaired_first: int
    """Rows of the first audit with a margin that the other lacks: other texts, or no margin there."""
    unpaired_other: int
    """The same of the other audit."""


PairedOn = dict[str, PairedMargins | Missing]
"""Two audits row by row: by bias that both audited; and on `quality pairs`."""


_DAY = re.compile(r"\d{4}-\d\d-\d\d")


class MeasuredTexts(Result):
    """A set of texts that was measured on."""

    name: str
    """Source as the audit named it, without paths of its machine."""
    n: int
    """Contrasts, pairs or triples."""
    content: str | None
    """Fingerprint of the texts, whatever their order; None if the audit's folder does not say which they were."""


class TrainedAs(Result):
    """The training that the row's numbers are after."""

    recipe: str
    against: tuple[str, ...]
    """Biases."""
    dose: float
    """Share of the adapter that is applied."""
    adapter: str | None
    """Fingerprint of the training's output; None if the run's folder does not say."""
    chosen_on: tuple[str, ...] = ()
    """Biases on whose contrasts the dose was chosen, and `quality pairs` if they had a say: their numbers after it are held out."""


_TEXTS = {
    **dict.fromkeys(("contrasts", "added", "removed", "unseen phrases"), ("contrasts of {}",)), "votes": ("contrasts of {}", "votes on {}"),
    **dict.fromkeys(("triples", "texts"), ("triples of {}",)), "quality": ("quality pairs",), "places": (), "audit": (),
    "samples": ("samples",),
}  # fmt: skip


class AuditRow(Saved):
    """One audit in a form that can be shared, without paths of the machine that made it."""

    schema_version: Literal[2] = 2
    cda_version: str
    date: str | None
    """Day on which the audit was finished (UTC), such as `2026-11-24`; None if the run's folder does not say."""
    model: str
    """Name; of a local folder or file its last part."""
    unnamed: Annotated[bool, Field(exclude_if=lambda unnamed: not unnamed)] = False
    """It was in memory, where no command can name it."""
    revision: str | None
    """Commit on the hub: the one that was asked for, or that of this machine's cache when the row was written."""
    content: str | None
    """Fingerprint of a sequence classifier with its precision: of the files of a folder, of a hub model of its name and the revision
    asked for; None for other kinds, after a training, and if the run's folder does not say."""
    kind: Literal["reward model", "judge"]
    scored: dict[str, str]
    """How it was asked, in words: precision, template, judge's prompt and so on, as far as they apply."""
    training: TrainedAs | None
    """None for a model as it is."""
    texts: dict[str, MeasuredTexts]
    """What was measured on, by name: `contrasts of BIAS`, `votes on BIAS`, `triples of BIAS`, `quality pairs`, `samples`."""
    numbers: tuple[Number, ...]
    """Every number of the audit; of a training before, after and change."""
    verdicts: Annotated[dict[str, str], Field(default_factory=dict, exclude_if=lambda words: not words)]
    """Bias to the word of the audit's verdict on it; empty in rows of earlier versions."""
    needed: Annotated[dict[str, int], Field(default_factory=dict, exclude_if=lambda contrasts: not contrasts)]
    """Bias to the contrasts that a verdict on it needs, if there were too few."""
    short_names: Annotated[dict[str, str], Field(default_factory=dict, exclude_if=lambda names: not names)]
    """Bias to what tables and figures call it, if its file says so."""
    quality_ties: Annotated[dict[str, int], Field(default_factory=dict, exclude_if=lambda ties: not ties)]
    """Scoring (`model`, `before` or `after`) to its quality pairs that are scored exactly alike, if any."""
    tied: Annotated[tuple[str, ...], Field(exclude_if=lambda biases: not biases)] = ()
    """Biases with no skew to compare: all pairs are scored exactly alike, or, where no vote decides, most are and the rest give no
    majority for the side with the bias."""

    @model_validator(mode="after")
    def _possible(self) -> Self:
        """Refuse what no audit has; rows come from other machines."""
        if not self.model.strip() or not self.biases:
            raise ValueError("no model's name" if self.biases else "no bias was measured")
        if self.date is not None and not _DAY.fullmatch(self.date):
            raise ValueError(f"date: '{self.date[:40]}' is no day such as 2026-11-24")
        return self

    @property
    def biases(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(number.at["bias"] for number in self.numbers if "bias" in number.at))

    @property
    def kinds(self) -> Kind:
        return "trainings" if self.training else "judges" if self.kind == "judge" else "reward models"

    @property
    def label(self) -> str:
        """The model's name, with its training."""
        if self.training is None:
            return self.model
        return f"{self.model} after {self.training.recipe}, dose {self.training.dose:g}"

    def text_set(self, on: str, bias: str = "") -> tuple[str, ...] | None:
        """Version of the texts that a measure `on` contrasts, votes, triples or quality pairs is of; None if it is unknown."""
        texts = [self.texts.get(name.format(bias)) for name in _TEXTS[on]]
        found = tuple("" if each is None else each.content for each in texts)
        return None if None in found else found  # type: ignore[return-value]

    def moments(self, measure: str, bias: str = "", kl: str = "") -> dict[str, Estimate | Missing]:
        """The numbers of a bias (at a KL), or of the whole audit, by moment; of a measure that the row does not have `before` is
        missing."""
        at = {name: one for name, one in (("bias", bias), ("kl", kl)) if one}
        found: dict[str, Estimate | Missing] = {
            each.moment: each.found for each in self.numbers if each.measure == measure and each.at == at
        }
        return found or {"before": Missing(reason="the row does not have it")}

    def last(self, measure: str, bias: str = "") -> Estimate | Missing:
        """A number of the model as it is, or after its training."""
        found = self.moments(measure, bias)
        return next(found[moment] for moment in ("model", "after", "before", "change") if moment in found)


class MeanOver(Result):
    """Audits of one kind that have the mean over them in `together`: those that measured a bias on the same texts and votes."""

    bias: str
    kind: Kind
    name: str
    """As the mean's numbers name it."""
    group: Annotated[str, Field(exclude_if=lambda name: not name)] = ""
    """The folder that all of them were given by, if several folders were given."""
    audits: tuple[str, ...]
    interval_over: Literal["models and prompts", "prompts"]
    """`prompts`: of one share at least the interval is over prompts alone and holds for these audits: too few to say anything of others."""
    left_out: int
    """Contrasts that at least one of them has no margin on."""
    sd: float
    """Standard deviation between their skews, after a training if there is one."""


class RankedGroup(Result):
    """Audits that were measured on the same texts, votes and pairs throughout; their places are in `together`."""

    audits: tuple[str, ...]
    """The lowest score first."""
    ranked_by: str
    """The measure behind the score, the mean over biases: the first of these that every audit has for every bias."""
    by_place: Annotated[tuple[str, ...], Field(exclude_if=lambda names: not names)] = ()
    """Judges that mostly go by the place of an answer, and so have no place by distance from 50%, near which they are whatever they
    prefer."""
    tied: Annotated[tuple[str, ...], Field(exclude_if=lambda names: not names)] = ()
    """Audits without a place since on a bias at least they have no skew to compare (`tied` of their rows)."""


class Finding(Result):
    """A sentence on the audits, with its subject."""

    name: str
    text: str
    kind: Literal["good", "bad", "none"] = "none"


class ComparisonResult(Shown):
    """Several audits next to each other: the numbers of each, their means, places and ranks, and every one paired with the first."""

    made_by = MadeBy("cda compare", "comparison.json", "cda.comparing.page:comparison_document")
    schema_version: Literal[3] = 3
    audits: ByAudit[AuditRow]
    """By a name of their own."""
    sources: dict[str, str]
    """Name to the run's folder or the row's file."""
    together: tuple[Number, ...]
    """Numbers of several audits: scores and places, means, ranks; those of each audit lie in its row."""
    means: tuple[MeanOver, ...]
    ranked: tuple[RankedGroup, ...]
    paired: dict[str, PairedOn]
    """By audit with margins, but the first, which each is held against."""
    against: str | None
    """That first one; None if fewer than two have margins."""
    n_tests: int
    """Tests that Holm allows for together in `paired`."""
    findings: tuple[Finding, ...]
    """What can be said: places, verdicts, differences, and all in which the audits are not alike."""
    limits: dict[str, tuple[str, ...]]
    """What limits the numbers of some audits, to these audits' names."""
    failed: dict[str, str]
    """Models that could not be audited, and why."""
    refused: dict[str, str]
    """Files of a folder that are no audit and no row, and why."""
    seed: int
    """Seed of the draws behind means and ranks."""
    versions: dict[str, str]
    """Versions of the packages that means and ranks depend on."""

    def leaders(self, group: RankedGroup) -> list[str]:
        """The audits of a group that may have its first place, by the intervals."""
        places = {each.at["audit"]: each.found for each in self.together if each.measure == "place"}
        return [name for name in group.audits if isinstance(found := places[name], Estimate) and found.low == 1]

    def export(self, folder: str | Path) -> tuple[Path, ...]:
        """Write each of its audits as a row that can be shared; see `export` of an audit."""
        write = of_room("cda.comparing.row:write_row")
        return tuple(write(row, f"{folder}/") for row in self.audits.values())

    def failures(self, *conditions: str) -> list[str]:
        """Conditions that hold for an audit, or have no number, with its name; see `failures` of an audit."""
        failures = of_room("cda.auditing.conditions:failures_of")
        return [f"{name}: {problem}" for name, row in self.audits.items() for problem in failures(row, conditions)]

    def __repr__(self) -> str:
        return f"<Comparison of {', '.join(self.audits)}>"


class ComparedDiscovery(Result):
    """One discovery of a comparison: how it searched, and what it found."""

    model: SearchedModel
    judge: SearchedModel
    by: str
    """The LLM that proposed; `rules` without one."""
    rewriters: tuple[str, ...]
    search: SearchSettings
    n_candidates: int
    """Distinct candidates measured."""
    n_validated: int
    """Candidates that entered the validation."""
    n_tested: int
    n_confirmed: int
    n_test_prompts: int
    seed: int
    recall: Estimate | Missing
    """Share of what the discoveries of the same model and judge confirmed together that this one confirmed."""
    strength: float | Missing | None
    """Diversity-adjusted bias strength at a judge's threshold of 0.5, reward units; None without a validation."""


class ComparedAttribute(Result):
    """An attribute that at least one of the discoveries confirmed."""

    attribute: str
    """In words, as the first that confirmed it has them."""
    confirmed: tuple[str, ...]
    """The discoveries that confirmed it."""
    effect: dict[str, Estimate | Missing]
    """By discovery that tested it: mean margin on its test prompts, reward units."""


class DiscoveriesResult(Shown):
    """Several discoveries next to each other: recall among what they confirmed together, and effects."""

    made_by = MadeBy("cda compare", "discoveries.json", "cda.comparing.discoveries:discoveries_document")
    schema_version: Literal[1] = 1
    discoveries: dict[str, ComparedDiscovery]
    """By their folder or file."""
    found_by_any: tuple[ComparedAttribute, ...]
    """What at least one of them confirmed."""
