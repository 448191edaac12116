"""What data favour in words, a table and figures: terminal, Markdown, page."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import starmap
from typing import TYPE_CHECKING

from cda.preferences.measure import WORDS
from cda.records import PERCENT
from cda.report.document import Document, how_made, meaning
from cda.report.glance import Cell, Chip, Glance, GlanceRow, Series, marked, percent_axis
from cda.report.names import data_called, some
from cda.report.next_step import after_data
from cda.report.numbers import (
    FEW_PROMPTS,
    cell,
    count,
    counted,
    decimals,
    inert,
    listed,
    n_of,
    p_equals,
    p_value,
    percent,
    share,
)
from cda.report.page import Entry, Headline, ReportSection
from cda.report.plots import (
    AFTER,
    BEFORE,
    LINE,
    Mark,
    Plot,
    in_words,
    levels_plot,
    named,
    percent_scale,
    rows_plot,
    slugs,
)
from cda.report.tables import Row, Table, grouping_sentences, p_differ
from cda.results.base import Missing, Test
from cda.results.data import DataBias, DataResult, DataWeights, OddsRegression
from cda.results.effects import ChoiceOdds, Contingency, Grouping, Level, LogOdds
from cda.stats.verdict import SIGNIFICANT, TIE

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_WIDEST = 100
"""Upper end over lower end of odds, from which an interval that has 1 in it says nothing."""


def odds(found: LogOdds) -> str:
    """Odds to 1 with their interval, such as `2.3 [1.4, 3.8]`; not known if the interval goes both ways and spans more than a factor
    `_WIDEST`."""
    if found.estimate.low < 0 < found.estimate.high and found.estimate.high - found.estimate.low > math.log(_WIDEST):
        return "not known: too few pairs differ"
    value, low, high = (_times(end) for end in (found.estimate.value, found.estimate.low, found.estimate.high))
    return f"{value} [{low}, {high}]"


def _times(log_odds: float) -> str:
    """Odds to two digits that count; more if these would hide on which side of 1 they lie."""
    value = math.exp(min(log_odds, 700.0))
    digits = max(0, 1 - math.floor(math.log10(value))) if value > 0 else 2
    while digits < 6 and log_odds and float(f"{value:.{digits}f}") == 1:
        digits += 1
    return f"{value:,.{min(digits, 6)}f}"


def choice_table(result: DataResult) -> Table:
    """A row for each bias, and for the length if no bias is it; counts of sides are in the JSON file."""
    terms = odds_terms(result)
    rows = [
        (
            bias.name,
            cell(bias.on_one_side, share),
            cell(
                bias.contingency, lambda found: f"{share(found.selection_rate)} of {count(found.selection_rate)}", "—"
            ),
            cell(bias.test, lambda test: p_value(test.holm), ""),
            *_odds_cells(terms.get(bias.name)),
            cell(bias.rule_accuracy, share),
            cell(bias.r_train, decimals),
        )
        for bias in result.biases
    ]
    rows += [(WORDS, "", "", "", *_odds_cells(terms[WORDS]), "", "")] if WORDS in terms else []
    header = (
        "bias", "pairs with it on one side", "chosen there", "p (Holm)", "odds, crude", "odds, adjusted", "p adjusted (Holm)",
        "right if always taken", "r with being chosen",
    )  # fmt: skip
    return Table(
        f"What the choices say of each bias, with {PERCENT} intervals; 50%, or odds of 1: they do not mind it",
        header,
        tuple(rows),
    )


def _odds_cells(each: ChoiceOdds | None) -> Row:
    """Crude and adjusted odds, with the p-value of these; the reason for none is a sentence below the table."""
    if each is None:
        return "", "", ""
    crude, adjusted = (cell(found, odds, "—") for found in (each.crude, each.adjusted))
    per = "" if each.per == "having it" or ":" in crude else " for each doubling of the words"
    return f"{crude}{per}", adjusted, cell(each.adjusted, lambda found: p_value(found.test.holm), "")


def odds_terms(result: DataResult) -> dict[str, ChoiceOdds]:
    """Odds of every bias, and of the length if no bias is it."""
    found = {bias.name: bias.odds for bias in result.biases if isinstance(bias.odds, ChoiceOdds)}
    if isinstance(result.words, ChoiceOdds) and all(each.per == "having it" for each in found.values()):
        found[WORDS] = result.words
    return found


def by_table(column: str, by: Mapping[str, Grouping]) -> Table:
    """A row for each level, with all biases; correlations and counts are in the JSON file."""
    across = zip(*(each.levels for each in by.values()), strict=True)
    rows = [(levels[0].name, str(levels[0].n), *map(_of_level, levels)) for levels in across]
    rows.append(
        (
            "p that all are alike (Holm over columns and biases)",
            "",
            *(p_differ(each.differ["data"], "not tested") for each in by.values()),
        )
    )
    caption = f"Chosen where one side has the bias, by {column}, with {PERCENT} intervals; p (Holm over all cells of all columns) where it is below 0.05"
    return Table(caption, (column, "pairs", *by), tuple(rows))


def _of_level(level: Level) -> str:
    chosen, test = level.of("chosen", "data"), level.test
    if chosen is None:
        return "none on one side"
    p = f", p {p_equals(test.holm)}" if isinstance(test, Test) and test.holm < SIGNIFICANT else ""
    return f"{share(chosen)} of {count(chosen)}{p}"


_SCALE = percent_scale("chosen, % of pairs with it on one side", 50)
_TEXT = (
    "A reward model learns what the choices go along with: where one side of a pair has a bias and the other has not, how often is "
    "it the chosen one? The adjusted odds compare pairs that are alike in the other biases and in length. These numbers describe "
    "the data; they are not effects of the bias."
)
_TERMS = (
    Entry("chosen there", "only chosen / (only chosen + only rejected)", f"Share of the pairs with the bias on one side in which that side is the chosen one; {PERCENT} by Wilson, by prompt."),
    Entry("r with being chosen", "Σ d / √(n · Σ d²), d = chosen − rejected", "Correlation (point-biserial) of the bias with being chosen, each pair in both orders; of a measured bias, of its feature (Bharadwaj et al. 2025, section 4)."),
    Entry("right if always taken", "(only chosen + ½ · (both + neither)) / n", "How often a model that prefers the side with the bias and else tosses a coin agrees with the data."),
    Entry("odds", "P(side with it chosen) / P(other side chosen) = exp(β)", "From one logistic regression of choices on differences between the sides, without an intercept. Errors are clustered by prompt (Liang and Zeger 1986), intervals by Student's t."),
    Entry("p", "exact sign-flip test over prompts", "Of as many pairs with it on either side (McNemar's where every prompt occurs once); of odds, clustered t. Holm's is adjusted over the biases, or over biases, columns and groups."),
)  # fmt: skip


_WEIGHT = Entry(
    "weight", "1 − p(choice | differences of the sides), of mean 1", "p is out of fold: from a logistic regression on the other prompts' pairs. In alike pairs both choices then have the same total weight (Clark et al. 2019; overlap weights, Li et al. 2018). It says nothing of quality: where the better answer also has the bias, it counts less too."
)  # fmt: skip


def _weights_sections(result: DataResult) -> Iterator[ReportSection]:
    """What the weights of the rows are and do; none without rows."""
    found, file = result.weights, inert(result.rows)
    if isinstance(found, Missing):
        said = f"No weights: {found.reason}. {file} has the rows without them."
        yield ReportSection("weights", "Weights of the pairs", sentences=(said,))
    elif found is not None:
        rows = [
            (bias.name, cell(bias.r_train, decimals), cell(found.r[bias.name], decimals), str(found.alone[bias.name]))
            for bias in result.biases
        ]
        header = ("bias", "r with being chosen", "r, weighted", "pairs that it decides alone")
        caption = (
            f"What the weights change, with {PERCENT} intervals; alone: the one bias that a pair's sides differ in"
        )
        yield ReportSection(
            "weights", "Weights of the pairs", (_WEIGHTS_TEXT,), (Table(caption, header, tuple(rows)),),
            sentences=tuple(_weights_sentences(found, result)),
        )  # fmt: skip


_WEIGHTS_TEXT = (
    "Each pair has a weight: the less, the better biases and length alone tell its choice. A training that is given the weights learns "
    "less of what they tell."
)


def _weights_sentences(found: DataWeights, result: DataResult) -> Iterator[str]:
    file = inert(result.rows)
    has_texts = any(term.startswith(WORDS) for term in found.terms)
    by = "Biases and length alone" if has_texts else "Biases alone"
    told = f"{by} tell {share(found.told)} of the choices (out of fold)."
    yield f"{told} Effective n {found.effective_n:,.0f} of {found.n:,}."
    if kept := result.left_by_weights():
        r = listed([f"{before.value:.2f}, weighted {after.value:.2f}" for before, after in kept.values()])
        yield f"Weights cannot take {listed(list(kept))} away (r {r}): too few pairs go against {'them' if len(kept) > 1 else 'it'}."
    capped = f"; {found.capped} were cut there" if found.capped else ""
    weights = f"Weights of mean 1, from {found.smallest:.2g} to {found.largest:.2g}{capped}; {found.folds} folds."
    yield f"Rows and weights: {file}. {weights}"
    if has_texts and not kept:
        yield f"A training takes data.supplement={file} data.weights=weight."


def _notes(result: DataResult) -> tuple[Headline, ...]:
    """Sentences for the first screen: on the groups of each column, then on the weights."""
    weights = (said for section in _weights_sections(result) for said in section.sentences)
    return tuple(Headline("", said) for said in (*starmap(_differ_text, result.by.items()), *weights))


def data_document(result: DataResult) -> Document:
    """A sentence for each bias, the table, groups, and how it was made."""
    names = slugs(result.by)
    llm = None if result.llm is None else f"{result.llm.model}, prompt {result.prompt}"
    sections = (
        ReportSection("choices", "What is chosen", (_TEXT,), (choice_table(result),), _choice_plots(result),
                      sentences=tuple(_without_odds(result))),
        *_weights_sections(result),
        *(
            ReportSection(f"by-{names[column]}", f"By {inert(column)}", (), (by_table(column, by),),
                          tuple(filter(None, [_by_plot(names[column], column, by)])), sentences=(_differ_text(column, by),))
            for column, by in result.by.items()
        ),
        how_made(result.versions, data_sentences(result), {"LLM": llm, "split": result.split, "seed": result.seed}),
        meaning(*_TERMS, *([] if result.weights is None else [_WEIGHT])),
    )  # fmt: skip
    subtitle = f"{result.n_pairs} preference pairs of {result.n_prompts} prompts; no reward model is asked."
    return Document(
        f"What the data favour: {data_called(result.pairs)}", subtitle, tuple(_headlines(result)), sections,
        headline=_headline(result), glance=_glance(result), notes=_notes(result), next=after_data(result),
        n_asked=len(result.by) + (result.weights is not None) + bool(result.left_by_weights()),
    )  # fmt: skip


_CHOSEN = Series("after", "how often it is the chosen side")
_CHIPS = {
    "favoured": Chip("favoured", "bad", "▲"), "avoided": Chip("avoided", "none", "▽"),
    "not shown": Chip("not shown", "none", "?"), "too few": Chip("too few", "none", "?"),
    "not told apart": Chip("not told apart", "none", "?"), "not known": Chip("not known", "none", "?"),
}  # fmt: skip
_SHOWN = ("favoured", "avoided")
_SAID = {
    "favoured": "the choices favour {}",
    "avoided": "the choices avoid {}",
    "not told apart": "{} cannot be told apart from {}",
    "not shown": "no preference is shown on {}",
    "too few": "too few pairs differ in {}",
    "not known": "nothing is known of {}",
}


def _headline(result: DataResult) -> str:
    """What the choices go along with, in one sentence."""
    parts = []
    for word, said in _SAID.items():
        own = [bias for bias in _by_strength(result) if _taught(bias, result)[0] == word]
        others = list(dict.fromkeys(name for bias in own for name in result.not_told_apart(bias)))
        parts += [said.format(some([bias.name for bias in own]), *others and [listed(others)])] if own else []
    return f"In {data_called(result.pairs)} {'; '.join(parts)}."


def _by_strength(result: DataResult) -> list[DataBias]:
    """What is shown comes first, the strongest before all."""

    def place(bias: DataBias) -> tuple[bool, float]:
        table = bias.contingency
        shown = _taught(bias, result)[0] in _SHOWN and isinstance(table, Contingency)
        return not shown, -abs(table.selection_rate.value - TIE) if shown and isinstance(table, Contingency) else 0.0

    return sorted(result.biases, key=place)


def _glance(result: DataResult) -> Glance:
    rows = []
    for bias in _by_strength(result):
        word, why = _taught(bias, result)
        if isinstance(bias.contingency, Missing):
            none = Cell(_CHIPS[word], instead="no share")
            rows.append(GlanceRow(bias.name, (none,), bias.contingency.reason, quiet=True))
            continue
        chosen = bias.contingency.selection_rate
        prompts = "" if chosen.n_prompts == chosen.n else f" of {n_of(chosen.n_prompts, 'prompt')}"
        clause = f"of {n_of(chosen.n, 'pair')}{prompts}{why}"
        cells = (Cell(_CHIPS[word], marked(_CHOSEN, chosen)),)
        rows.append(GlanceRow(bias.name, cells, clause, quiet=word not in _SHOWN))
    return Glance(
        caption="Pairs in which one side has the bias and the other has not.", heading="bias",
        axis=percent_axis("share of these pairs"), rows=tuple(rows),
        reading=(
            "Favoured or avoided: the odds of being chosen, adjusted for the other biases and length, exclude 1 with Holm's correction "
            "(without odds: the exact test of the share). The dashed line is 50%: choices that do not mind it. Not shown: that is no "
            f"sign that there is none. Not told apart: another bias tells every choice in which it differs. Too few: pairs of fewer than {FEW_PROMPTS} prompts differ in it.",
        ),
    )  # fmt: skip


def _without_odds(result: DataResult) -> Iterator[str]:
    """Why odds are not in the table; a reason is said once."""
    for name, each in odds_terms(result).items():
        missing = [found.reason for found in (each.crude, each.adjusted) if isinstance(found, Missing)]
        if missing:
            yield f"{name}: no odds{'' if len(missing) == 2 else ' that are adjusted'}: {missing[0]}."


def data_sentences(result: DataResult) -> list[str]:
    """Notes on what was read, left out and adjusted for."""
    lines = []
    if result.excluded.dropped:
        lines.append(f"Left out of {result.excluded.seen} rows: {counted(result.excluded.reasons)}.")
    if result.not_drawn:
        lines.append(f"{result.not_drawn} further pairs were not drawn (--limit).")
    measured = result.llm is None and any(bias.labelled_by.startswith("measured") for bias in result.biases)
    asks = "; an LLM labels by the bias's question, not by a feature: llm.model=NAME" if measured else ""
    lines.append(f"Labels: {'; '.join(f'{bias.name} by {bias.labelled_by}' for bias in result.biases)}{asks}.")
    unknown = {
        bias.name: bias.contingency.exclusions.dropped
        for bias in result.biases
        if isinstance(bias.contingency, Contingency) and bias.contingency.exclusions.dropped
    }
    if unknown:
        lines.append(f"Pairs with an unknown label: {', '.join(f'{name} {n}' for name, n in unknown.items())}.")
    lines.append(_regression_sentence(result.regression))
    if isinstance(result.words, Missing):
        lines.append(f"Nothing is adjusted for length: {result.words.reason}.")
    for column, by in result.by.items():
        lines += grouping_sentences(column, next(iter(by.values())), "pairs")
    return lines


def _regression_sentence(found: OddsRegression | Missing) -> str:
    if isinstance(found, Missing):
        return f"No odds are adjusted: {found.reason}."
    if len(found.terms) < 2:
        return f"No odds are adjusted: of all terms, {listed(found.terms) if found.terms else 'none'} can be estimated."
    unknown = f" {found.unlabelled} pairs with an unknown label are not in it." if found.unlabelled else ""
    return f"The adjusted odds are of one regression on {found.n} pairs with the terms {listed(found.terms)}.{unknown}"


def _headlines(result: DataResult) -> Iterator[Headline]:
    """Each bias: how often the side with it is chosen, and its odds."""
    for bias in result.biases:
        if isinstance(bias.contingency, Missing):
            yield Headline(f"{bias.name}:", f"{bias.contingency.reason}.")
            continue
        chosen = bias.contingency.selection_rate
        text = f"the side with it is chosen in {share(chosen)} of the {count(chosen)} pairs that have it on one side"
        text += f" ({cell(bias.on_one_side, lambda found: percent(found.value))} of all pairs)"
        yield Headline(f"{bias.name}:", f"{text}. {_verdict(bias, result)}")


def _taught(bias: DataBias, result: DataResult) -> tuple[str, str]:
    """What the choices teach of it, by Holm's p of the adjusted odds (of the exact test if there are none), and what a reader needs to
    know if the share alone says something else."""
    odds_of = None if isinstance(bias.odds, Missing) else bias.odds
    chosen = bias.contingency.selection_rate if isinstance(bias.contingency, Contingency) else None
    share_shows = chosen is not None and not chosen.low <= TIE <= chosen.high
    if chosen is not None and (others := result.not_told_apart(bias)):
        return "not told apart", f"; {some(others)} {'tells' if len(others) == 1 else 'tell'} all"
    if odds_of is not None and isinstance(odds_of.adjusted, LogOdds):
        test, for_it = odds_of.adjusted.test, odds_of.adjusted.estimate.value > 0
        says_less = chosen is not None and (chosen.low <= TIE if for_it else chosen.high >= TIE)
        why = "; clear if all else is alike" if says_less else ""
        alike = f"{odds_of.adjusted_for[0]} is" if len(odds_of.adjusted_for) == 1 else "all else is"
        why_not = f"; not if {alike} alike"
    elif isinstance(bias.test, Test) and chosen is not None:
        test, for_it, why, why_not = bias.test, chosen.value > TIE, "", "; not with Holm's correction"
    else:
        return "not known", ""
    if test.holm < SIGNIFICANT:
        return ("favoured" if for_it else "avoided"), why
    if chosen is not None and chosen.n_prompts < FEW_PROMPTS:
        return "too few", ""
    return "not shown", why_not if share_shows else ""


_TEACH = {
    "favoured": "The data teach a preference for it", "avoided": "The data teach an aversion to it",
    "not shown": "No preference is shown", "too few": "Too few pairs differ in it to show a preference",
}  # fmt: skip


def _verdict(bias: DataBias, result: DataResult) -> str:
    """A sentence on what a model can learn of it, with what it rests on."""
    word, _ = _taught(bias, result)
    if others := result.not_told_apart(bias):
        tell = "tells" if len(others) == 1 else "tell"
        return f"It cannot be told apart from {listed(others)}, which {tell} every choice where it differs."
    if word == "not known":
        return "Whether the choices mind it is not known."
    if not isinstance(bias.odds, Missing) and isinstance(bias.odds.adjusted, LogOdds):
        test, by = (
            bias.odds.adjusted.test,
            f"odds {odds(bias.odds.adjusted)}, adjusted for {listed(bias.odds.adjusted_for)}",
        )
    else:
        assert isinstance(bias.test, Test)  # `_taught` knows no other
        test, by = bias.test, "not adjusted"
    return f"{_TEACH[word]} ({by}; Holm p {p_equals(test.holm)})."


def _differ_text(column: str, by: Mapping[str, Grouping]) -> str:
    tests = {name: each.differ["data"] for name, each in by.items()}
    shown = [name for name, test in tests.items() if isinstance(test, Test) and test.holm < SIGNIFICANT]
    if not shown:
        return f"That the choices mind a bias differently by {column} is not shown for any (clustered by prompt, Holm)."
    return f"The choices mind {listed(shown)} differently by {column} (clustered by prompt, Holm p < 0.05)."


def _by_plot(word: str, column: str, by: Mapping[str, Grouping]) -> Plot | None:
    """The share that is chosen, by bias and level."""
    levels = ((f"{name}: {level.name}", level) for name, each in by.items() for level in each.levels)
    title = f"How often the side with the bias is the chosen one, by {named(column)}, with {PERCENT} intervals"
    return levels_plot(f"by-{word}", title, levels, "chosen", ("data",), _SCALE)


def _choice_plots(result: DataResult) -> tuple[Plot, ...]:
    shown = [
        (named(bias.name), {"chosen": bias.contingency.selection_rate})
        for bias in result.biases
        if isinstance(bias.contingency, Contingency)
    ]
    title = "How often the side with the bias is the chosen one, where the other side has it not"
    words = " ".join(in_words(*row, share) for row in shown)
    if not shown:
        return ()
    chosen = rows_plot("choices", title, words, shown, {"chosen": Mark("chosen", AFTER, "o")}, _SCALE)
    return chosen, _contingency_plot(
        {bias.name: bias.contingency for bias in result.biases if isinstance(bias.contingency, Contingency)}
    )


def _contingency_plot(found: Mapping[str, Contingency]) -> Plot:
    """Of each bias which sides have it, in shares of all pairs, as in Bharadwaj et al. 2025, figure 3."""
    tables = {name: _shares_of(each) for name, each in found.items()}
    words = (
        f"{name}: {', '.join(f'{words} {percent(own[key])}' for key, words in _SIDES.items())} of {_n_pairs(found[name])} pairs."
        for name, own in tables.items()
    )
    title = (
        "Which responses have the bias, in shares of the pairs; framed: one side alone, from which a model can learn"
    )
    first, *more = (partial(_draw_table, name, own) for name, own in tables.items())
    return Plot("contingency", title, " ".join(words), first, 1.75, more=tuple(more), least=1.3)


_SIDES = {
    "both": "both",
    "only_chosen": "the chosen one alone",
    "only_rejected": "the rejected one alone",
    "neither": "neither",
}


def _n_pairs(of: Contingency) -> int:
    return of.both + of.only_chosen + of.only_rejected + of.neither


def _shares_of(of: Contingency) -> dict[str, float]:
    return {key: getattr(of, key) / _n_pairs(of) for key in _SIDES}


def _draw_table(name: str, shares: Mapping[str, float], axes: Axes) -> None:
    from matplotlib.patches import Rectangle

    cells = zip(_SIDES, ((0, 0), (1, 0), (0, 1), (1, 1)), strict=True)
    for key, (x, y) in cells:
        alone = key.startswith("only")
        axes.add_patch(Rectangle((x, y), 1, 1, facecolor=AFTER, alpha=0.6 * shares[key], linewidth=0))
        axes.add_patch(
            Rectangle(
                (x + 0.03, y + 0.03),
                0.94,
                0.94,
                fill=False,
                edgecolor=BEFORE if alone else LINE,
                zorder=3 if alone else 2,
            )
        )
        axes.text(x + 0.5, y + 0.5, percent(shares[key]), ha="center", va="center")
    axes.set_xlim(0, 2)
    axes.set_ylim(2, 0)
    axes.set_xticks([0.5, 1.5], ["yes", "no"])
    axes.set_yticks([0.5, 1.5], ["yes", "no"], rotation=90, va="center")
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set_title(named(name), loc="left")
    axes.set_xlabel("rejected has it")
    axes.set_ylabel("chosen has it")
