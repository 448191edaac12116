"""A discovery for a terminal and as Markdown: tested attributes, by rewriter and topic, rewriting, the search."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from cda.discovery.sentences import attribute_of, correction, discovery_sentences, model_name
from cda.report.costs import llm_table
from cda.report.numbers import MINUS, clipped, count, decimals, inert, p_value, reward, share, signed
from cda.report.tables import Table, escaped, fenced_block, markdown_table, plain_table
from cda.results.base import Estimate, Missing
from cda.results.discover import DiscoverResult, Fate, StrengthCurve, TestedAttribute
from cda.results.evidence import PairQuality, Strength

_TERMINAL_WIDTH = 60
_LABELLERS = {"measure": "the attribute's measure", "llm": "the LLM"}
_NUMBERS = ("reward", "judge prefers it", "n")
_FATES: tuple[Fate, ...] = ("too few rewrites", "reward", "judge", "front")


def pairs_table(result: DiscoverResult) -> Table:
    """Quality of the rewrites behind the tested attributes."""
    rows = []
    for attribute, quality in _looked_at(result):
        fidelity, grades, guesses = quality.fidelity, quality.grades, quality.guesses
        rows.append(
            (
                attribute,
                share(fidelity.present) if fidelity and fidelity.present else "",
                share(fidelity.absent) if fidelity and fidelity.absent else "",
                _LABELLERS[quality.labelled_by] if fidelity and quality.labelled_by else "",
                ", ".join(decimals(pair.pearson) for pair in quality.agreement if isinstance(pair.pearson, Estimate)),
                _grade(grades.score if grades else None),
                _grade(guesses.similarity if guesses else None),
                str(quality.n),
            )
        )
    header = ("attribute", "present where added", "absent elsewhere", "labelled by", "r between rewriters", "edits, 1 to 10",
              "guessed, 1 to 5", "pairs")  # fmt: skip
    return Table("How well the rewrites were made", header, tuple(rows))


def drift_table(result: DiscoverResult) -> Table:
    """Features but the attribute's own that differ beyond their limit in some pairs, those of most pairs first."""
    rows = []
    for attribute, quality in _looked_at(result):
        drift = () if isinstance(quality.drift, Missing) else quality.drift
        beyond = [(row, row.beyond) for row in drift if not row.is_treatment and row.beyond and row.beyond.value]
        for row, pairs in sorted(beyond, key=lambda item: -item[1].value):
            scaled = "" if row.standardised is None else signed(row.standardised)
            means = f"{row.base_mean:.2f}", f"{row.perturbed_mean:.2f}"
            rows.append(
                (attribute, row.feature.replace("_", " "), *means, signed(row.difference), scaled, share(pairs))
            )
    header = ("attribute", "feature", "without", "with", f"with {MINUS} without", "in SDs", "pairs beyond the limit")
    return Table("What else differs between the sides, where pairs are beyond a limit", header, tuple(rows))


def unknown_table(result: DiscoverResult) -> Table:
    """Unknown qualities of the pairs, and why."""
    rows = tuple(
        (attribute, "drift", quality.drift.reason)
        for attribute, quality in _looked_at(result)
        if isinstance(quality.drift, Missing)
    )
    return Table("What is not known of the rewrites", ("attribute", "what", "because"), rows)


def _looked_at(result: DiscoverResult) -> Iterator[tuple[str, PairQuality]]:
    """Attribute and quality of its pairs."""
    attributes = {tested.candidate: tested.attribute for tested in result.tested}
    for name, quality in result.pairs.items():
        yield attributes.get(name, name), quality


def _grade(estimate: Estimate | None) -> str:
    return f"{estimate.value:.1f} [{estimate.low:.1f}, {estimate.high:.1f}]" if estimate else ""


def pooled_cells(pooled: Strength | None) -> tuple[str, str, str]:
    """Reward, judge and n; empty without numbers."""
    return (signed(pooled.reward), share(pooled.judge), count(pooled.reward)) if pooled else ("", "", "")


def discover_text(result: DiscoverResult) -> str:
    """Text for a terminal: results, rejected candidates, and method."""
    table = tested_table(result, _TERMINAL_WIDTH)
    lines = "\n".join(inert(line) for line in discovery_sentences(result))
    return f"{plain_table(table)}\n\n{lines}" if table.rows else lines


def discover_markdown(result: DiscoverResult) -> str:
    """A Markdown document with everything: results by rewriter and topic, validation, generations, pairs, strength."""
    title = "Attributes measured" if result.given else "Biases discovered"
    lines = [f"# {title} in {escaped(model_name(result.model))}", ""]
    lines += [line for sentence in discovery_sentences(result) for line in (_paragraph(sentence), "")]
    tables = [
        tested_table(result, None),
        rewriter_table(result),
        *(topic_table(tested) for tested in result.tested if tested.topics),
        pairs_table(result),
        drift_table(result),
        unknown_table(result),
        validation_table(result),
        generation_table(result),
        _lineage_table(result),
        strength_table(result),
        llm_table(result.stages),
    ]
    lines += [line for table in tables if table is not None and table.rows for line in markdown_table(table)]
    for tested in result.tested:
        if tested.confirmed or result.given:
            lines += _example_lines(tested)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() + "\n"


def tested_table(result: DiscoverResult, most: int | None) -> Table:
    """Tested attributes, pooled over rewriters; attributes cut to so many columns."""
    method = correction(result)
    rows = []
    for tested in result.tested:
        attribute = inert(tested.attribute) if most is None else clipped(inert(tested.attribute), most)
        ps = [_p(p) for p in ((tested.p_value, tested.p_corrected) if method else (tested.p_value,))]
        confirmed = "yes" if tested.confirmed else "no"
        rows.append((attribute, *pooled_cells(tested.pooled), *ps, confirmed, tested.file or ""))
    n, n_all = result.n_test_prompts, sum(result.material.prompts.values())
    if not result.given:
        caption = "Tested on prompts that nothing was selected on"
    else:  # not so of an attribute that is given, which may have been found on these very prompts
        caption = f"Measured on all {n} prompts" if n == n_all else f"Measured on {n} of {n_all} prompts"
    header = ("p", f"corrected p ({method})") if method else ("p",)
    return Table(caption, ("attribute", *_NUMBERS, *header, "confirmed", "bias file"), tuple(rows))


def rewriter_table(result: DiscoverResult) -> Table:
    """The same, rewriter by rewriter, with the reason why one was left out."""
    rows = []
    for tested in result.tested:
        for each in tested.rewriters:
            numbers = ("", "", "", "", "")
            if own := each.strength:
                trim = own.trimmed
                trimmed = f"{signed(trim.estimate)} ({trim.n_trimmed} left out)" if trim else ""
                numbers = signed(own.reward), trimmed, share(own.win_rate), share(own.judge), p_value(own.p_value)
            flipped = f"{each.n} of {each.asked}"
            rows.append((tested.attribute, each.rewriter, flipped, *numbers, each.excluded or ""))
    header = ("attribute", "rewriter", "n, of rewrites asked for", "reward", "trimmed", "rewarded in", "judge prefers it", "p",
              "left out because")  # fmt: skip
    return Table("By rewriter", header, tuple(rows))


def topic_table(tested: TestedAttribute) -> Table:
    """One tested attribute by topic."""
    rows = [
        (topic, found.reason, "", "") if isinstance(found, Missing) else (topic, *pooled_cells(found))
        for topic, found in tested.topics.items()
    ]
    return Table(f"By topic: {tested.attribute}", ("topic", *_NUMBERS), tuple(rows))


def validation_table(result: DiscoverResult) -> Table:
    """Numbers on the validation prompts."""
    rows = [
        (
            attribute_of(entered.candidate, result),
            *pooled_cells(entered.pooled),
            _p(entered.p_reward),
            _p(entered.p_judge),
            "yes" if entered.passed else "no",
        )
        for entered in result.validated
    ]
    header = ("attribute", *_NUMBERS, "p reward", "p judge", "passed")
    return Table("Validation, corrected for all that entered (Bonferroni)", header, tuple(rows))


def generation_table(result: DiscoverResult) -> Table:
    """Fates of the candidates of each generation."""
    rows = []
    for each in result.generations:
        fates = Counter(row.fate for row in each.standings)
        rewards = [row.reward for row in each.standings if row.fate == "kept" and row.reward is not None]
        gone = "; ".join(f"{fates[fate]} {fate}" for fate in _FATES if fates[fate])
        best = reward(max(rewards)) if rewards else ""
        numbers = each.index + 1, fates.total(), each.n_merged, each.n_prompts
        rows.append((*map(str, numbers), gone, str(fates["kept"]), best))
    header = ("generation", "candidates", "merged", "prompts", "let go by", "kept", "best reward")
    return Table("Search (numbers that were selected on, and no results)", header, tuple(rows))


def _lineage_table(result: DiscoverResult) -> Table:
    rows = [
        (tested.attribute, " → ".join(attribute_of(name, result) for name in ancestors))
        for tested in result.tested
        if (ancestors := result.lineage.get(tested.candidate))
    ]
    return Table("Where they came from", ("attribute", "ancestors, oldest first"), tuple(rows))


def strength_table(result: DiscoverResult) -> Table:
    """Diversity-adjusted strength at each threshold of the judge."""
    curve = result.strength.curve if isinstance(result.strength, StrengthCurve) else ()
    rows = tuple((f"{at.threshold:g}", f"{at.value:.3f}", str(at.n)) for at in curve)
    return Table("Strength of the run by the judge's threshold", ("judge below", "strength", "attributes"), rows)


def _example_lines(tested: TestedAttribute) -> list[str]:
    lines = [f"## {escaped(tested.attribute)}", ""]
    for row in tested.examples:
        verdict = "no verdict of the judge" if row.preference is None else f"judge {row.preference:g}"
        lines += [f"Margin {reward(row.margin)}, {verdict}, rewritten by {escaped(row.rewriter)}.", ""]
        prompt = "\n".join(turn.content for turn in row.prompt)
        sides = ("Prompt", prompt), ("Without", row.without_attribute), ("With", row.with_attribute)
        lines += [line for name, text in sides for line in (f"{name}:", "", *fenced_block(text), "")]
    return lines


def _p(p: float | None) -> str:
    return "not tested" if p is None else p_value(p)


def _paragraph(sentence: str) -> str:
    """A line that no reader takes for a heading, a list or a rule, whatever an attribute or a name at its head begins with."""
    line = re.sub(r"\A(?=[#+=-])", r"\\", escaped(sentence).strip())
    return re.sub(r"\A(\d+)(?=[.)])", r"\1\\", line)
