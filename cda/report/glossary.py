"""What the numbers mean: one entry a measure, interval or test that the audit holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cda.report.numbers import Json


@dataclass(frozen=True, slots=True)
class Entry:
    """A term with its formula and its meaning."""

    term: str
    formula: str
    meaning: str


_MARGIN = Entry("margin", "score(perturbed) − score(base)",
    "For one contrast: how much higher the model scores the side with the bias. Same prompt, same content as far as possible.",
)  # fmt: skip
_SKEW = Entry("skew", "contrasts with margin > 0 / all contrasts",
    "How often the model prefers the side with the bias. A margin of exactly 0 counts as no preference for it.",
)  # fmt: skip
_CHANGE = Entry("paired change", "share after − share before, on the same rows",
    "Points are percentage points. Both scorings use the same texts, precision, template, cutting and batches.",
)  # fmt: skip
_UNPAIRED = Entry("unpaired z", "difference ± 1.96·√(p₁q₁/n₁ + p₂q₂/n₂)",
    "The interval that papers print for a change. It takes the two scorings of the same rows for different rows, so that it is "
    "most often too wide; beside the paired one only to compare with papers.",
)  # fmt: skip
_VOTES = (
    Entry("human skew", "contrasts whose majority prefers perturbed / contrasts with a majority",
        "How often people prefer the side with the bias. Ties and contrasts without votes are left out."),
    Entry("miscalibration", "contrasts where model and majority disagree / contrasts with a majority",
        "Lower is better. It can be high even where skew equals human skew."),
    Entry("gap", "|skew on voted contrasts − human skew|",
        "How far the model's preference for the bias is from people's."),
    Entry("AUC of the margin", "P(margin where people prefer perturbed > margin where they prefer base)",
        "Whether margins follow people: 0.5 not at all, 1 always. Skew, miscalibration and gap move when all margins shift by "
        "a constant; this does not."),
    Entry("second majority", "expected disagreement of two majorities of other people, from the votes' Dirichlet-multinomial model",
        "Miscalibration that people themselves would show. A model far below it is matching noise."),
)  # fmt: skip
_QUALITY = Entry("quality accuracy", "pairs with score(chosen) > score(rejected) / all pairs",
    "Held-out pairs of a better and a worse answer. Ties count as wrong.",
)  # fmt: skip
_METHODS = {
    "Wilson": Entry("Wilson interval", "(p + z²/2n ± z·√(p(1−p)/n + z²/4n²)) / (1 + z²/n), z = 1.96",
        "95% interval of a share where every prompt occurs once (Wilson 1927). It stays inside 0 to 100% and keeps a width at 0 "
        "and at 100%."),
    "Newcombe": Entry("Newcombe interval", "method 10: Wilson limits of both shares, joined by their correlation φ",
        "95% interval of a paired change where every prompt occurs once (Newcombe 1998, Statistics in Medicine 17, "
        "2635–2650)."),
    "bootstrap": Entry("prompt-clustered bootstrap", "2.5% and 97.5% quantiles over 10,000 draws of whole prompts",
        "95% interval where prompts repeat, so that answers to one prompt are not taken for independent. Where no draw differs "
        "from another, the Wilson or Newcombe interval over prompts is taken."),
}  # fmt: skip
_MCNEMAR = Entry("McNemar test", "exact binomial test of rows that went up against rows that went down, p = 1/2",
    "Whether as many rows changed one way as the other. Rows that did not change say nothing. Where prompts repeat, whole "
    "prompts take the place of rows: their sums of changes are given every combination of signs.",
)  # fmt: skip
_HOLM = Entry("Holm correction", "k-th smallest of m p-values × (m − k + 1), never below an earlier one, at most 1",
    "Several things are tested at once. With it, the chance of any false finding among them stays below 5% at p < 0.05. "
    "Benjamini and Hochberg's correction (BH) keeps the expected share of false ones among the findings below 5% instead.",
)  # fmt: skip


def glossary(audit: Json) -> list[Entry]:
    """The entries that this audit needs."""
    found = set(_methods(audit))
    two = len(audit["scorings"]) > 1
    entries = [_MARGIN, _SKEW, *(_VOTES if audit["votes"] else ()), *((_QUALITY,) if audit["quality"] else ())]
    entries += [_CHANGE, _UNPAIRED] if two else []
    entries += [entry for word, entry in _METHODS.items() if any(word in method for method in found)]
    return [*entries, *((_MCNEMAR,) if two else ()), _HOLM]


def _methods(value: object) -> Iterator[str]:
    """Every interval method named anywhere in the audit."""
    if isinstance(value, dict):
        if isinstance(value.get("method"), str):
            yield value["method"]
        for one in value.values():
            yield from _methods(one)
