"""Numbers to compare with what was computed from the release, each with its source.

`paper`: its text prints the number, to the digits given here. `notebook`: the release's notebook prints it. `released files`: neither
was at hand to us when it was written down; it was counted from the released files by other code than the eval's, in the way in
which the paper describes its Table 6 (skew, miscalibration) and its correlations, and is held to it so that nothing moves
unnoticed. Only the first are the paper's tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

SIZES = ("2B", "3B", "8B")  # the models over which the expected means are taken

# bias: (human skew %, n), then base → fine-tuned means of skew and miscalibration %, then r_human and r_model with all
# ties left out, all of these from released files; then r_human and r_model as the release's notebook prints them ("Tie" left
# out, "tie" a vote for response 2).
EXPECTED: dict[str, tuple[tuple[float, int], tuple[float, ...], tuple[float, ...], tuple[float, ...]]] = {
    "structure": ((89.47, 95), (87.72, 77.54, 13.68, 18.25), (0.788, 0.896), (0.773, 0.899)),
    "jargon": ((20.88, 91), (43.22, 15.38, 48.72, 29.67), (-0.586, 0.209), (-0.594, 0.223)),
    "length": ((33.71, 89), (54.31, 36.33, 40.07, 36.33), (-0.116, 0.668), (-0.150, 0.663)),
}
# As the paper prints them, to one decimal; of all 5,000 and 2,650 labelled rows.
EXPECTED_SELECTION = {"structure": 65.5, "jargon": 54.4}
# Skew and miscalibration % of LLM judges as the release's notebook prints them (their ties left out).
EXPECTED_JUDGES = {
    "gpt-4o": {"jargon": (60.56, 53.52), "length": (84.38, 59.38), "structure": (89.19, 8.11)},
}


Source = Literal["paper", "notebook", "released files"]
SOURCES: tuple[Source, ...] = ("paper", "notebook", "released files")

# Of all five biases and four models, in percent: (number, digits to which it is given, source). `low` and `high`: ends of an interval.
# base and trained: each bias with the model trained against it; three: length, jargon and vagueness before and after one training
# against all three (figure 7). The notebook prints more digits of the means than the paper; the paper's interval is quoted by readers
# of its text, which was not at hand, and the rate of agreement on vagueness too: it is that of votes with a stated majority.
MEANS: dict[str, tuple[float, int, str]] = {
    "base: miscalibration over biases": (39.3810, 4, "notebook"),
    "trained: miscalibration over biases": (32.4715, 4, "notebook"),
    "base: gap over biases": (20.5355, 4, "notebook"),
    "trained: gap over biases": (9.9558, 4, "notebook"),
    "three base: miscalibration over biases": (47.8950, 4, "notebook"),
    "three: miscalibration over biases": (35.6888, 4, "notebook"),
    "three base: gap over biases": (33.2455, 4, "notebook"),
    "three: gap over biases": (12.6498, 4, "notebook"),
    "change of skew, unpaired: vagueness-paper": (-29.8, 1, "paper, as its readers quote it"),
    "change of skew, unpaired: vagueness-paper | low": (-43.2, 1, "paper, as its readers quote it"),
    "change of skew, unpaired: vagueness-paper | high": (-16.5, 1, "paper, as its readers quote it"),
    "agreement with the majority: vagueness-paper": (85.7, 1, "paper, as its readers quote it"),
}
# Cells of RewardBench that the notebook has in other digits than the released files: the chat of the 3B model after the training
# against length (its number before it, where the file has 11 points less), and one that was rounded.
NOTEBOOK_REWARDBENCH = {"length 3B FT Chat", "jargon 2B FT Chat"}


@dataclass(frozen=True, slots=True)
class Check:
    """One expected number, where it is from, and the one that was found."""

    name: str
    expected: float
    found: float
    tolerance: float
    source: Source = "released files"

    @property
    def passed(self) -> bool:
        return abs(self.found - self.expected) <= self.tolerance


def checks(tables: dict[str, Any], headline: dict[str, str]) -> Iterator[Check]:
    """Expected numbers beside found ones, for whatever of them the release has files."""
    for bias, (skew, means, correlated, notebook) in EXPECTED.items():
        if bias not in tables:
            continue
        found = tables[bias]["labels"]["as_released"]
        models, human = found["models"], found["human_skew"]
        yield Check(f"{bias} human skew", skew[0], 100 * human["value"], 0.01)
        yield Check(f"{bias} human skew n", skew[1], human["n"], 0)
        for at, (what, run) in enumerate(
            (what, run) for what in ("skew", "miscalibration") for run in ("base", headline.get(bias, ""))
        ):
            if "mean_of_2B_3B_8B" in models.get(run, {}):
                value = models[run]["mean_of_2B_3B_8B"][what]["value"]
                yield Check(f"{bias} {what} {run}, mean of 2B 3B 8B", means[at], 100 * value, 0.01)
        for kind, source, expected, group in (
            ("ties left out", SOURCES[2], correlated, found["correlations"]),
            ("as in the notebook", SOURCES[1], notebook, tables[bias]["correlations_as_in_the_notebook"]),
        ):
            for name, value in zip(("r_human", "r_model"), expected, strict=True):
                if "value" in group[name]:
                    yield Check(f"{bias} {name}, {kind}", value, group[name]["value"], 0.001, source)
        for judge, judged in EXPECTED_JUDGES.items():
            one = found["judges"].get(judge, {}).get("ties_left_out", {})
            if bias in judged and "skew" in one:
                for what, value in zip(("skew", "miscalibration"), judged[bias], strict=True):
                    yield Check(
                        f"{bias} {judge} {what}, ties left out", value, 100 * one[what]["value"], 0.01, "notebook"
                    )
        table = (tables[bias]["contingency"] or {}).get("strict", {})
        if bias in EXPECTED_SELECTION and "selection_rate" in table:
            value = 100 * table["selection_rate"]["value"]
            yield Check(f"{bias} selection rate, labels read strictly", EXPECTED_SELECTION[bias], value, 0.05, "paper")
