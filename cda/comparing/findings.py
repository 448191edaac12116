"""What can be said of several audits: places, verdicts, differences between two, and all in which they were not made alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from cda.auditing.report_cells import compares
from cda.auditing.report_scoring import caveats
from cda.auditing.verdict_sentences import quality_sentence, ties_sentence, verdict_kind, verdicts
from cda.comparing.members import Member
from cda.comparing.row import QUALITY
from cda.comparing.screen import ALIKE, on_average
from cda.numbers.views import numbers_in
from cda.report.numbers import FORMS, count, decimals, excludes_zero, few_prompts, listed, n_of, percent, points, share
from cda.resources.artifacts import shown_path
from cda.results.base import Estimate, Missing
from cda.results.comparison import (
    AuditRow,
    ComparisonResult,
    Finding,
    MeasuredTexts,
    PairedMargins,
    PairedOn,
    RankedGroup,
)
from cda.stats.panel import FEW_MODELS
from cda.stats.verdict import SIGNIFICANT

NONE = "none"
"""The value of an audit to which a part of the setup does not apply."""
_NAMED = 4
"""Audits that a sentence names one by one; more are counted."""
_OF_ITSELF = ("model", "revision", "weights", "how", "judges", "training", "adapter", "date", "cda", "kind", "cut")
"""Parts of the setup that name the audit itself, or that tables alone show."""


def setup(row: AuditRow) -> dict[str, str]:
    """Model, scoring, training, and the texts of each measure, in words; without what does not apply."""
    training = row.training
    facts: dict[str, object] = {
        "model": row.model, "revision": row.revision, "weights": row.content and row.content[:8], "kind": row.kind, **row.scored,
        "training": training and f"{training.recipe} against {', '.join(training.against)}, dose {training.dose:g}",
        "adapter": training and training.adapter, "date": row.date, "cda": row.cda_version,
        **{name: _texts_words(texts) for name, texts in row.texts.items()},
    }  # fmt: skip
    return {what: str(value) for what, value in facts.items() if value is not None}


def _texts_words(texts: MeasuredTexts) -> str:
    """Source, number and content of texts."""
    return f"{shown_path(texts.name)}, {texts.n} ({texts.content[:8] if texts.content else 'content unknown'})"


def findings(result: ComparisonResult, members: Sequence[Member], said: Sequence[str]) -> Iterator[Finding]:
    """Places first, then failures, verdicts of trainings, the audits two by two, and what to beware of; `said`: further sentences."""
    for group in result.ranked:
        if group.audits:
            yield _lowest(result, group)
        for name in group.by_place:
            followed = result.audits[name].last("position")
            words = f" in {share(followed)} of comparisons" if isinstance(followed, Estimate) else ""
            text = (
                f"no place: it goes by the place of an answer{words}, so that its skew is near 50% whatever it prefers."
            )
            yield Finding(name=f"{name}:", text=text)
    for name, row in result.audits.items():
        if row.tied:
            text = (
                f"no skew to compare on {listed(row.tied)}, and so no dot, difference or place: it scores {ALIKE} there, and its share only "
                "shows how ties are counted."
            )
            yield Finding(name=f"{name}:", text=text)
    for name, reason in result.failed.items():
        yield Finding(name=f"{name} was not audited:", text=reason, kind="bad")
    if result.refused:
        text = f"{len(result.refused)} of {len(result.refused) + len(members)} files are no audits or rows."
        yield Finding(name="Not compared:", text=text, kind="bad")
    for name, reason in result.refused.items():
        yield Finding(name=f"{name}:", text=reason)
    for member in members:
        if member.audit is not None and compares(member.audit):
            for verdict in verdicts(member.audit):
                name, kind = f"{member.name}, {verdict.bias}: {verdict.word}.", verdict_kind(verdict.word)
                yield Finding(name=name, text=verdict.reason, kind=kind)
            yield Finding(name=f"{member.name}:", text=quality_sentence(member.audit))
    for other, on in result.paired.items():
        # That it has no skew to compare is said above.
        if {*result.audits[other].biases} != {*result.audits[other].tied}:
            yield _pair(f"{other} against {result.against}:", on)
    for sentence in differences(members):
        yield Finding(name="Beware.", text=sentence)
    tied = {member.name: ties_sentence(member.audit) for member in members if member.audit is not None}
    yield from (Finding(name=f"{name}:", text=sentence) for name, sentence in tied.items() if sentence)
    yield from (Finding(name="Note.", text=sentence) for sentence in (*_of_means(result), *said))


def comparison_limits(members: Sequence[Member]) -> dict[str, tuple[str, ...]]:
    """What limits the numbers, each sentence once, with the audits that it holds for."""
    found: dict[str, tuple[str, ...]] = {}
    for member in members:
        for note in caveats(member.audit) if member.audit is not None else ():
            found[note] = (*found.get(note, ()), member.name)
    return found


def _lowest(result: ComparisonResult, group: RankedGroup) -> Finding:
    """The audit with the lowest score, and those that the intervals do not tell from it."""
    numbers = numbers_in(result)
    places, scores = (
        {name: found for name in group.audits if isinstance(found := numbers.where(key, audit=name)[0].found, Estimate)}
        for key in ("place", "score")
    )
    first, *others = group.audits
    equal = [name for name in others if places[name].value == places[first].value]
    also = [name for name in result.leaders(group)[1:] if name not in equal]
    form = FORMS["share"] if scores[first].unit == "share" else decimals  # a size has no sign
    text = f"{first}, {form(scores[first])}{on_average(len(result.audits[first].biases))}, among {len(group.audits)} audits of the same texts"
    text += f"; exactly as low: {_names(equal)}" if equal else ""
    text += f"; as low by the intervals: {_names(also)}" if also else ""
    return Finding(name=f"Lowest {group.ranked_by}:", text=f"{text}.")


def _names(names: Sequence[str]) -> str:
    return listed(names) if len(names) <= _NAMED else f"{len(names)} audits"


def is_difference_shown(found: PairedMargins) -> bool:
    """True if two audits differ beyond chance."""
    return excludes_zero(found.difference) and found.test.holm < SIGNIFICANT


def _pair(name: str, on: PairedOn) -> Finding:
    """The biases on which two audits differ beyond chance, and those on which they do not."""
    of_biases = {bias: found for bias, found in on.items() if bias != QUALITY}
    measured = {bias: found for bias, found in of_biases.items() if isinstance(found, PairedMargins)}
    if not measured:
        reasons = [found.reason for found in of_biases.values() if isinstance(found, Missing)]
        return Finding(name=name, text=f"not paired: {(*reasons, 'no bias in common')[0]}.")
    parts = []
    for word, sign in (("lower", -1), ("higher", 1)):
        shown = [
            f"{bias} ({points(found.difference)}, n = {count(found.difference)})"
            for bias, found in measured.items()
            if is_difference_shown(found) and sign * found.difference.value > 0
        ]
        parts += [f"skew is {word} for {listed(shown)}"] if shown else []
    alike = [
        f"{bias} (the same side in {percent(found.agreement.value)})"
        for bias, found in measured.items()
        if not is_difference_shown(found)
    ]
    parts += [f"no difference of skew is shown for {listed(alike)}"] if alike else []
    return Finding(name=name, text=f"{'; '.join(parts)}.")


def differences(members: Sequence[Member]) -> Iterator[str]:
    """Sentences on what makes audits hard to compare; nothing for what is alike."""
    biases = dict.fromkeys(bias for member in members for bias in member.row.biases)
    lacked: dict[tuple[str, ...], list[str]] = {}
    apart: dict[str, list[str]] = {}
    voted: dict[str, list[str]] = {}
    for bias in biases:
        if lacking := tuple(member.name for member in members if bias not in member.row.biases):
            lacked.setdefault(lacking, []).append(bias)
        having = [member for member in members if bias in member.row.biases]
        for on, known in (("contrasts", apart), ("votes", voted)):
            sets = _by(having, lambda member, bias=bias, on=on: member.row.text_set(on, bias) or member.name)  # type: ignore[misc]
            if len(sets) > 1:
                known.setdefault("; ".join(map(_names, sets.values())), []).append(bias)
                break
    for names, without in lacked.items():
        yield f"{listed(without)}: not measured for {_names(names)}."
    for what, found in (("on different contrasts", apart), ("with different votes of people, or without", voted)):
        for groups, differing in found.items():
            yield (
                f"{listed(differing)}: measured {what} ({groups}); numbers on other texts are marked by ² and so on, and never averaged "
                "or ranked together."
            )
    for kind in dict.fromkeys(member.row.kinds for member in members):
        own = [member for member in members if member.row.kinds == kind]
        setups = {member.name: setup(member.row) for member in own}
        for what in dict.fromkeys(key for found in setups.values() for key in found):
            groups_of = _by(own, lambda member, what=what, of=setups: of[member.name].get(what))  # type: ignore[misc]
            if len(groups_of) > 1 and what not in _OF_ITSELF and (what == QUALITY or what not in own[0].row.texts):
                each = "; ".join(f"{value}: {_names(names)}" for value, names in groups_of.items())
                yield f"Not alike in {what} ({each})."
    if len({member.row.model for member in members if member.row.training}) > 1:
        yield "The trainings are of different models, so a difference between them need not come from the training."
    if shared := [member.name for member in members if not member.margins]:
        yield f"Without margins, so in no mean or rank, and not paired: {_names(shared)}."


def _by(members: Sequence[Member], value: Callable[[Member], object]) -> Mapping[object, list[str]]:
    """Names of the members by a value; those without one are left out."""
    groups: dict[object, list[str]] = {}
    for member in members:
        if (found := value(member)) is not None:
            groups.setdefault(found, []).append(member.name)
    return groups


def _of_means(result: ComparisonResult) -> Iterator[str]:
    """Means over biases, what means are over, what they leave out, and where prompts are few."""
    numbers, n_biases = numbers_in(result), Counter(mean.name for mean in result.means)
    for each in numbers.where("miscalibration"):
        if "bias" not in each.at and isinstance(each.found, Estimate):
            (gap,) = numbers.where("gap", each.moment, audit=each.at["audit"])
            moment = "" if each.moment == "model" else f" {each.moment}"
            if isinstance(gap.found, Estimate):
                yield (
                    f"{each.at['audit']}{moment}, on average over {n_biases[each.at['audit']]} biases: miscalibration "
                    f"{share(each.found)}, skew {share(gap.found)} from people's."
                )
    if any(mean.interval_over == "prompts" for mean in result.means):
        yield f"Means over fewer than {FEW_MODELS} audits, or near 0 or 100%, have intervals over prompts: they hold for these, and say nothing of others."
    for mean in result.means:
        if mean.left_out:
            left = n_of(mean.left_out, "contrast")
            yield f"{mean.bias}: left out of the {mean.name}, for want of a margin of each: {left}."
    prompts: dict[str, int] = {}
    for number in numbers.where("skew"):
        if isinstance(number.found, Estimate) and (bias := number.at["bias"]):
            prompts[bias] = min(number.found.n_prompts, prompts.get(bias, number.found.n_prompts))
    if warning := few_prompts(prompts):
        yield warning
