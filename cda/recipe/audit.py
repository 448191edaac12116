"""The recipe's sections on measuring: the data of the audit, and the choice of the dose."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator

from cda.data.triples import AttributeRule
from cda.recipe.section import ContrastColumns, Count, PairColumns, Positive, Section, Share, TripleColumns
from cda.records import TieRule


class AuditSection(Section):
    """Settings of the audit: the texts that the model is measured on, before and after."""

    preset: str | None = None
    """Source of the rest of this section: recipes/audit/NAME.yaml or a path."""
    release: str | None = None
    """Folder of the released data of "Flattery, Fluff, and Fog" in its own layout (a checkout of its repository): pairs with
    people's votes, triples, LLM verdicts, labels, and the paper's own scores to be shown next to ours. A file of `contrasts` or
    `triples` goes before it for the biases that it is of."""
    contrasts: str = "embedded"
    """`embedded`, or a file of contrasts (prompt, base, perturbed; optionally people's preferences)."""
    columns: ContrastColumns = {}
    """Our name: your name, for the contrasts file."""
    votes: str | None = None
    """People's votes in a separate file: rows of id and vote, or of id and votes. `id` is the contrasts' column."""
    verdicts: str | None = None
    """Verdicts of LLM judges on the contrasts, in the form of votes: with few votes and many verdicts, human skew and
    miscalibration are estimated for all contrasts (PPI++)."""
    ties: TieRule = "drop"
    """Contrasts on which people tied or split: left out (`drop`), counted `half` for each side, or `as-released`:
    the column `preferred` as it stands, whatever the votes, and its ties left out (the filter behind Table 6 of "Flattery,
    Fluff, and Fog")."""
    labels: str | None = None
    """File of preference pairs with labels (chosen_<bias> and rejected_<bias>, or what `cda label` wrote): how often the side
    with the bias was chosen there. For an audit without a training, since a training has its own labels."""
    triples: str | None = "embedded"
    """RATE triples: `embedded`, a file (prompt, original, rewrite, rewrite_of_rewrite, has_attribute), or null for none
    but those that `rate` asks for. Biases that the file has none of fall back on those of `release`, then on the embedded ones."""
    triple_columns: TripleColumns = {}
    attribute: AttributeRule = AttributeRule()
    """Reading of has_attribute in triples and answers, if it holds neither yes nor no."""
    rate: Count | None = None
    """In place of the embedded triples: how many embedded answers with the bias, and as many without, the recipe's rewriter
    rewrites and rewrites back. null: 40 if rules rewrite and a bias has no triples of its own, otherwise none."""
    min_flipped: Share = 0.5
    """Least share of originals, with the bias and without it, whose rewrites flipped it; below, no RATE effect that rests
    on them is given, since those that flip may be unlike the others."""
    max_triple_words: Positive | None = None
    """Leave out triples of which any version is longer, for every estimator alike; counted."""
    similarity: bool = False
    """Measure by the embedded encoder how alike the two sides of the contrasts are; takes a minute for 1,000 texts."""
    quality: str | None = "embedded"
    """Held-out preference pairs whose accuracy must not fall: `embedded`, a file, or null for none."""
    quality_columns: PairColumns = {}
    quality_split: str = "test"
    max_contrasts: Positive | None = None
    """For each bias, drawn with the seed; the report says so."""
    max_quality: Positive | None = None


class DoseSection(Section):
    """The dose of the adapter: λ times its update, chosen under a limit on quality loss."""

    on: Literal["auto", "yes", "no"] = "auto"
    """auto: if people voted on enough of the recipe's contrasts to choose by, or the recipe teaches ties alone. `cda
    dose` always does it."""
    aim: Literal["auto", "votes", "tie"] = "auto"
    """The target of a dose. votes: people's majorities. tie: each side preferred equally often, which is an
    assumption and nobody's vote. auto: votes if there are enough, otherwise a tie if the recipe teaches that the two
    sides are worth the same (neutral, without pairs or paired)."""
    doses: list[Annotated[float, Field(ge=0)]] = [0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75, 2, 2.25, 2.5]
    """0 is the base model, 1 plain CDA; both are always scored."""
    repeats: Positive = 50
    """Repeats of 2-fold cross-validation, split by prompt."""
    max_quality_loss: Share = 0.01
    """Accuracy on quality pairs that a dose may lose against the base model."""
    max_quality: Positive | None = 500
    """Quality pairs scored at every dose, drawn with the seed."""
    baselines: bool = True
    """Compare with removals without training, by measured features and by a direction of the hidden states."""
    max_baseline_pairs: Positive = 200
    """Training counterfactuals that these are fitted on, for each bias."""

    @field_validator("on", mode="before")
    @classmethod
    def _yaml_words(cls, value: object) -> object:
        # YAML reads on, off, yes and no as booleans.
        return {True: "yes", False: "no"}.get(value, value) if isinstance(value, bool) else value

    @field_validator("doses")
    @classmethod
    def _ascending(cls, value: list[float]) -> list[float]:
        found = sorted({*value, 0.0, 1.0})
        if len(found) < 3:
            raise ValueError("give at least one dose beside 0 (the base model) and 1 (plain CDA)")
        return found
