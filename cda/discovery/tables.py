"""How well the rewrites behind the tested attributes were made: quality, what else differs between the sides, what is missing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from cda.discovery.sentences import attribute_of, correction, model_name, sentences
from cda.report.costs import llm_table
from cda.report.numbers import MINUS, clipped, count, decimals, inert, p_value, reward, share, signed
from cda.report.tables import Table, escaped, fenced_block, markdown_table, plain_table
from cda.results.base import Estimate, Missing
from cda.results.discover import DiscoverResult, StrengthCurve, TestedAttribute
from cda.results.evidence import PairQuality, Strength

_LABELLERS = {"measure": "the attribute's measure", "llm": "the LLM"}


def pairs_table(result: DiscoverResult) -> Table:
    """Quality of the rewrites behind the tested attributes."""
    rows = []
    for attribute, found in _looked_at(result):
        fidelity, grades, guesses = found.fidelity, found.grades, found.guesses
        agreement = ", ".join(decimals(one.pearson) for one in found.agreement if isinstance(one.pearson, Estimate))
        rows.append(
            (
                attribute,
                _optional(fidelity.present if fidelity else None, share),
                _optional(fidelity.absent if fidelity else None, share),
                _LABELLERS[found.labelled_by] if fidelity and found.labelled_by else "",
                agreement,
                _optional(grades.score if grades else None, _grade),
                _optional(guesses.similarity if guesses else None, _grade),
                str(found.n),
            )
        )
    header = (
        "attribute",
        "present where added",
        "absent elsewhere",
        "labelled by",
        "r between rewriters",
        "edits, 1 to 10",
        "guessed, 1 to 5",
        "pairs",
    )
    return Table("How well the rewrites were made", header, tuple(rows))


def drift_table(result: DiscoverResult) -> Table:
    """Features but the attribute's own that differ beyond their limit in some pairs, those of most pairs first."""
    rows = []
    for attribute, found in _looked_at(result):
        drift = () if isinstance(found.drift, Missing) else found.drift
        beyond = [(row, row.beyond) for row in drift if not row.is_treatment and row.beyond and row.beyond.value]
        for row, pairs in sorted(beyond, key=lambda one: -one[1].value):
            scaled = "" if row.standardised is None else signed(row.standardised)
            rows.append((attribute, row.feature.replace("_", " "), f"{row.base_mean:.2f}", f"{row.perturbed_mean:.2f}",
                         signed(row.difference), scaled, share(pairs)))  # fmt: skip
    header = ("attribute", "feature", "without", "with", f"with {MINUS} without", "in SDs", "pairs beyond the limit")
    return Table("What else differs between the sides, where pairs are beyond a limit", header, tuple(rows))


def unknown_table(result: DiscoverResult) -> Table:
    """What is not known of the pairs, and why."""
    rows = tuple(
        (attribute, "drift", found.drift.reason)
        for attribute, found in _looked_at(result)
        if isinstance(found.drift, Missing)
    )
    return Table("What is not known of the rewrites", ("attribute", "what", "because"), rows)


def _looked_at(result: DiscoverResult) -> Iterator[tuple[str, PairQuality]]:
    """Attribute and quality of its pairs."""
    by_id = {one.candidate: one.attribute for one in result.tested}
    for name, found in result.pairs.items():
        yield by_id.get(name, name), found


def _grade(estimate: Estimate) -> str:
    return f"{estimate.value:.1f} [{estimate.low:.1f}, {estimate.high:.1f}]"


def _optional(found: Estimate | None, shown: Callable[[Estimate], str]) -> str:
    return shown(found) if found else ""


_TERMINAL_WIDTH = 60
_NOT_TESTED = "not tested"


def discover_text(result: DiscoverResult) -> str:
    """For a terminal: what was found, what was not, and how it came about."""
    table = tested_table(result, _TERMINAL_WIDTH)
    lines = [inert(line) for line in sentences(result)]
    return "\n\n".join([*([plain_table(table)] if table.rows else []), "\n".join(lines)])


def discover_markdown(result: DiscoverResult) -> str:
    """A Markdown document with everything: results by rewriter and topic, validation, generations, pairs, strength."""
    lines = [
        f"# {'Attributes measured' if result.given else 'Biases discovered'} in {escaped(model_name(result.model))}",
        "",
    ]
    lines += [line for sentence in sentences(result) for line in (_paragraph(sentence), "")]
    for table in _tables(result):
        if table.rows:
            lines += markdown_table(table)
    for one in result.tested:
        if one.confirmed or result.given:
            lines += _example_lines(one)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() + "\n"


def _tables(result: DiscoverResult) -> Iterator[Table]:
    yield tested_table(result, None)
    yield rewriter_table(result)
    yield from (topic_table(one) for one in result.tested if one.topics)
    yield pairs_table(result)
    yield drift_table(result)
    yield unknown_table(result)
    yield validation_table(result)
    yield generation_table(result)
    yield _lineage_table(result)
    yield strength_table(result)
    if (asked := llm_table(result.stages)) is not None:
        yield asked


def tested_table(result: DiscoverResult, most: int | None) -> Table:
    """What was tested, pooled over rewriters; attributes cut to so many columns."""
    method = correction(result)
    ps = ("p", f"corrected p ({method})") if method else ("p",)
    rows = []
    for one in result.tested:
        pooled = one.pooled
        numbers = (signed(pooled.reward), share(pooled.judge), count(pooled.reward)) if pooled else ("", "", "")
        p = [_p(p) for p in ((one.p_value, one.p_corrected) if method else (one.p_value,))]
        rows.append((_cut(one.attribute, most), *numbers, *p, "yes" if one.confirmed else "no", one.file or ""))
    header = ("attribute", "reward", "judge prefers it", "n", *ps, "confirmed", "bias file")
    return Table(_tested_on(result), header, tuple(rows))


def _tested_on(result: DiscoverResult) -> str:
    if not result.given:
        return "Tested on prompts that nothing was selected on"
    # Not so of an attribute that is given, which may have been found on these very prompts.
    n, n_all = result.n_test_prompts, sum(result.material.prompts.values())
    return f"Measured on all {n} prompts" if n == n_all else f"Measured on {n} of {n_all} prompts"


def rewriter_table(result: DiscoverResult) -> Table:
    """The same, rewriter by rewriter, with why one was left out."""
    rows = []
    for one in result.tested:
        for each in one.rewriters:
            found = each.strength
            numbers = (
                (
                    signed(found.reward),
                    _trimmed(found),
                    share(found.win_rate),
                    share(found.judge),
                    p_value(found.p_value),
                )
                if found
                else ("", "", "", "", "")
            )
            excluded = each.excluded or ""
            flipped = f"{each.n} of {each.asked}"
            rows.append((one.attribute, each.rewriter, flipped, *numbers, excluded))
    header = (
        "attribute",
        "rewriter",
        "n, of rewrites asked for",
        "reward",
        "trimmed",
        "rewarded in",
        "judge prefers it",
        "p",
        "left out because",
    )
    return Table("By rewriter", header, tuple(rows))


def topic_table(one: TestedAttribute) -> Table:
    """One tested attribute by topic."""
    rows = []
    for topic, found in one.topics.items():
        if isinstance(found, Missing):
            rows.append((topic, found.reason, "", ""))
        else:
            rows.append((topic, signed(found.reward), share(found.judge), count(found.reward)))
    return Table(f"By topic: {one.attribute}", ("topic", "reward", "judge prefers it", "n"), tuple(rows))


def validation_table(result: DiscoverResult) -> Table:
    """What the validation prompts said."""
    rows = []
    for one in result.validated:
        pooled = one.pooled
        numbers = (signed(pooled.reward), share(pooled.judge), count(pooled.reward)) if pooled else ("", "", "")
        p = [_p(p) for p in (one.p_reward, one.p_judge)]
        rows.append((attribute_of(one.candidate, result), *numbers, *p, "yes" if one.passed else "no"))
    header = ("attribute", "reward", "judge prefers it", "n", "p reward", "p judge", "passed")
    return Table("Validation, corrected for all that entered (Bonferroni)", header, tuple(rows))


def generation_table(result: DiscoverResult) -> Table:
    """What became of the candidates of each generation."""
    rows = []
    for one in result.generations:
        fates = [row.fate for row in one.standings]
        kept = [row for row in one.standings if row.fate == "kept"]
        best = max((row.reward for row in kept if row.reward is not None), default=None)
        gone = "; ".join(
            f"{fates.count(fate)} {fate}" for fate in ("too few rewrites", "reward", "judge", "front") if fate in fates
        )
        rows.append(
            (
                str(one.index + 1), str(len(fates)), str(one.n_merged), str(one.n_prompts), gone, str(len(kept)),
                "" if best is None else reward(best),
            )
        )  # fmt: skip
    header = ("generation", "candidates", "merged", "prompts", "let go by", "kept", "best reward")
    return Table("Search (numbers that were selected on, and no results)", header, tuple(rows))


def _lineage_table(result: DiscoverResult) -> Table:
    rows = [
        (
            one.attribute,
            " → ".join(attribute_of(name, result) for name in result.lineage.get(one.candidate, ())),
        )
        for one in result.tested
        if result.lineage.get(one.candidate)
    ]
    return Table("Where they came from", ("attribute", "ancestors, oldest first"), tuple(rows))


def strength_table(result: DiscoverResult) -> Table:
    """Diversity-adjusted strength at each threshold of the judge."""
    curve = result.strength.curve if isinstance(result.strength, StrengthCurve) else ()
    rows = tuple((f"{one.threshold:g}", f"{one.value:.3f}", str(one.n)) for one in curve)
    return Table("Strength of the run by the judge's threshold", ("judge below", "strength", "attributes"), rows)


def _example_lines(one: TestedAttribute) -> list[str]:
    lines = [f"## {escaped(one.attribute)}", ""]
    for example in one.examples:
        judge = example.preference
        verdict = "no verdict of the judge" if judge is None else f"judge {judge:g}"
        prompt = "\n".join(turn.content for turn in example.prompt)
        lines += [
            f"Margin {reward(example.margin)}, {verdict}, rewritten by {escaped(example.rewriter)}.",
            "",
            "Prompt:",
            "",
        ]
        lines += [*fenced_block(prompt), "", "Without:", "", *fenced_block(example.without_attribute), ""]
        lines += ["With:", "", *fenced_block(example.with_attribute), ""]
    return lines


def _trimmed(found: Strength) -> str:
    trimmed = found.trimmed
    return "" if trimmed is None else f"{signed(trimmed.estimate)} ({trimmed.n_trimmed} left out)"


def _p(p: float | None) -> str:
    return _NOT_TESTED if p is None else p_value(p)


def _paragraph(sentence: str) -> str:
    """A line that no reader takes for a heading, a list or a rule, whatever an attribute or a name at its head begins with."""
    line = escaped(sentence).strip()
    line = re.sub(r"\A(?=[#+=-])", r"\\", line)
    return re.sub(r"\A(\d+)(?=[.)])", r"\1\\", line)


def _cut(text: str, most: int | None) -> str:
    return inert(text) if most is None else clipped(inert(text), most)
