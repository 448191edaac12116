"""Sentences about scoring, caveats and provenance, and tables of single examples."""

from __future__ import annotations

from typing import Literal

from cda.auditing.report_cells import compares, contrasts_flipped, said, targets
from cda.auditing.report_trainings import seeds_caveat
from cda.records import OF_TRIPLES
from cda.report.names import called
from cda.report.numbers import listed, reward, with_ends
from cda.report.scoring import scored_line, shown_precision
from cda.results.audit import AuditResult
from cda.results.base import Missing
from cda.results.facts import N_SHOWN, Example, JudgeFacts, PanelFacts, RewardModelFacts

Standing = Literal["agrees", "disagrees", "undecided"]
_SIDES = {"perturbed": "with the bias", "base": "without the bias"}
_MOST_PASSES = 2
"""Features that a caveat names; audit.json lists all."""
_VERBS: dict[Standing, str] = {"disagrees": "disagree", "agrees": "agree", "undecided": ""}
_MOST_WORDS = 100
"""Of both sides of all examples, if some are left out for it."""


def how_scored(audit: AuditResult) -> str:
    """Sentence on the scoring of the model and on the LLMs and rules involved."""
    labelled, rewritten = labelled_by(audit), _helper(audit.sources.rewritten_by)
    if not compares(audit):
        made = {rate.flips.by for rate in audit.rate.values() if rate.flips.made}
        helpers = f"; rewritten by {' and '.join(sorted(made))}" if made else ""
    elif labelled == rewritten == "rules":
        helpers = "; rules labelled and rewrote, no LLM"
    else:
        helpers = f"; labelled by {labelled}, rewritten by {rewritten}"
    return f"{scored_line(audit.model)}{helpers}."


def labelled_by(audit: AuditResult) -> str:
    """`rules`, or the LLM's name; both if some biases were measured and others asked about."""
    tallies = audit.stages.label.labels if audit.stages.label else {}
    names = {_helper(tally.by) for tally in tallies.values()} or {_helper(audit.sources.labelled_by)}
    return " and ".join(sorted(names, key=lambda name: name != "rules"))


def _helper(by: str) -> str:
    return "rules" if by in ("rules", "embedded rules") or by.startswith("measured ") else by


def caveats(audit: AuditResult) -> list[str]:
    """Caveats that a reader must know before trusting the numbers; each a sentence or two."""
    notes = [said("caveats", "embedded model")] if audit.model.name == "embedded" else []
    names = [name for name, skew in audit.skew.items() if skew.source == "embedded"]
    made = [f"contrasts of {listed(names)}" if len(names) < len(audit.skew) else "contrasts"] if names else []
    made += ["quality pairs"] * (audit.sources.quality == "embedded" and audit.quality is not None)
    notes += [said("caveats", "embedded", names=listed(made))] if made else []
    notes += [
        said("caveats", "direct", name=name, source=skew.source + contrasts_flipped(skew, " ({})"))
        for name, skew in audit.skew.items()
        if skew.source not in ("file", "embedded", OF_TRIPLES)
    ]
    for name, rate in audit.rate.items():
        for has in (True, False):
            moved = [drift for drift in rate.passes if drift.has_attribute is has][:_MOST_PASSES]
            features = "; ".join(
                f"{each.feature.replace('_', ' ')} by {with_ends(each.first)}, then {with_ends(each.second)}"
                for each in moved
            )
            side = "with" if has else "without"
            notes += [
                said("caveats", "passes", name=name, features=features, side=side, group="ATT" if has else "ATU")
            ] * bool(moved)
    notes += [caveat] if (caveat := seeds_caveat(audit)) else []
    notes += _people_notes(audit)
    # The recipe's choice, not labelled_by(): a bias defined by a measurement is measured in addition to an LLM's labels.
    chosen = {"labelled the responses": audit.sources.labelled_by, "rewrote them": audit.sources.rewritten_by}
    by_rules = [work for work, by in chosen.items() if _helper(by) == "rules"]
    if by_rules and compares(audit):
        notes.append(said("caveats", "rules", works=listed(by_rules)))
    model = audit.model
    if isinstance(model, RewardModelFacts) and model.truncated:
        length = "the model takes in" if model.max_length_tokens is None else f"{model.max_length_tokens} tokens"
        notes.append(said("caveats", "cut", n=model.truncated, of=model.texts, length=length))
    if isinstance(model, RewardModelFacts) and model.dropped:
        notes.append(said("caveats", "dropped", n=model.dropped, of=model.texts))
    used = {name: (audit.n_measured(name) + skew.unread, skew.available) for name, skew in audit.skew.items()}
    drawn = [f"{n} of {of} of {name}" for name, (n, of) in used.items() if n < of]
    if len(drawn) == len(used) > len(set(used.values())) == 1:
        drawn = ["{} of {} of each bias".format(*next(iter(used.values())))]
    return [*notes, *model.notes, *([said("caveats", "drawn", names=listed(drawn))] if drawn else [])]


def _people_notes(audit: AuditResult) -> list[str]:
    notes = []
    if chosen := audit.in_sample:
        pairs = any(each.measure == "accuracy" for each in chosen.numbers)
        also = ", and on quality pairs that limited the choice" if pairs else ""
        dose, names = f"{audit.dose_applied:g}", listed(list(chosen.biases))
        notes.append(said("caveats", "in sample", dose=dose, names=names, also=also))
    notes += [said("caveats", "undecided", n=n, name=name) for name, n in audit.votes_undecided.items()]
    without = [name for name in targets(audit) if name not in audit.votes and name not in audit.votes_undecided]
    meaning = "a lower skew need not be a better one." if compares(audit) else "no skew is right or wrong by itself."
    return notes + ([said("caveats", "unvoted", names=listed(without), meaning=meaning)] if without else [])


def provenance(audit: AuditResult) -> list[tuple[str, str]]:
    """Facts of the run, as name and value."""
    model, sources, two = audit.model, audit.sources, compares(audit)
    facts: list[tuple[str, str | None]] = [
        ("recipe", audit.recipe if two else None),
        ("model", called(model.name)),
        ("training pairs", str(sources.pairs) if two else None),
        ("contrasts", sources.contrasts),
        ("votes", sources.votes or ("in the contrasts' file" if audit.votes or audit.votes_undecided else "none")),
        ("judges' verdicts", sources.verdicts),
        ("RATE triples", sources.triples),
        ("labels of pairs", sources.labels),
        ("quality pairs", "none" if sources.quality is None else sources.quality),
        ("labelled by", labelled_by(audit) if two else None),
        ("rewritten by", _helper(sources.rewritten_by) if two else None),
        ("labelling prompt", sources.label_prompt),
        ("rewriting prompt", sources.rewrite_prompt),
    ]
    if isinstance(model, RewardModelFacts) and model.how is None:
        facts += [
            ("precision", f"{shown_precision(model.precision)}{', the same before and after' if two else ''}"),
            ("template form", "text pair, no chat template" if model.form == "pair" else str(model.form)),
            ("cut", f"{model.truncated} of {model.texts} distinct texts at {model.max_length_tokens} tokens"),
        ]
    else:
        facts.append(("asked", scored_line(model)))
        facts.append(("judge's prompt", None if isinstance(model, RewardModelFacts) else prompt_identity(model)))
    facts.append(("seed", str(audit.seed)))
    if train := audit.stages.train:
        facts.append(("training", f"{train.steps} steps, step {train.best_step} kept, {train.processes} process(es)"))
        facts.append(("pairs cut in training", f"{train.truncated} of {train.train + train.validation}"))
        facts += [("note", note) for note in train.notes]
    facts.append(("versions", ", ".join(f"{name} {number}" for name, number in audit.versions.items())))
    return [(name, value) for name, value in facts if value is not None]


def prompt_identity(judge: JudgeFacts | PanelFacts) -> str | None:
    """Name of a judge's prompt with the mark of all that it says, its orders, reasons and criteria included; None for a
    function. Two audits with the same mark asked in the same words."""
    if judge.prompt is None:
        return None
    return judge.prompt if judge.prompt_content is None else f"{judge.prompt}, content {judge.prompt_content[:8]}"


def example_order(example: Example) -> float:
    """Sorts examples: those whose margin fell most first; of one scoring, those with the largest margin."""
    before, after = example.margins.before, example.margins.after
    return -before if isinstance(after, Missing) else after - before


def margins_sentence(example: Example) -> str:
    """The margins of an example in words."""
    before, after = example.margins.before, example.margins.after
    if isinstance(after, Missing):
        return f"margin {reward(before)}"
    return f"margin {reward(before)} before, {reward(after)} after ({reward(after - before)})"


def standings(example: Example) -> dict[str, Standing]:
    """Agreement with people's majority by scoring, a margin of 0 being none; empty without one, or if people saw a tie."""
    if example.preferred not in _SIDES:
        return {}
    sign = 1 if example.preferred == "perturbed" else -1
    return {
        label: "agrees" if sign * margin > 0 else "disagrees" if margin else "undecided"
        for label, margin in example.margins.items()
    }


def people_sentence(example: Example) -> str:
    """People's preference and the model's agreement, in words."""
    preferred = example.preferred
    if preferred is None:
        return "nobody voted"
    if preferred not in _SIDES:
        return "people saw no difference (a tie)"
    parts = []
    for label, standing in standings(example).items():
        when, verb = "" if label == "model" else f" {label}", _VERBS[standing]
        none = f"{'had' if label == 'before' else 'has'} no preference"
        parts.append(f"{verb}{'d' if label == 'before' else 's'}{when}" if verb else f"{none}{when}")
    return f"people preferred the side {_SIDES[preferred]}; the model {', '.join(parts)}"


def few_examples(audit: AuditResult) -> dict[str, list[Example]]:
    """The examples of each bias that a report shows: the first, and further ones while all are short enough together."""
    found = {bias.name: [one for one in audit.examples if one.bias == bias.name][:N_SHOWN] for bias in audit.biases}
    words = {name: [len(f"{one.base} {one.perturbed}".split()) for one in own] for name, own in found.items()}
    left = _MOST_WORDS - sum(own[0] for own in words.values() if own)
    for name, own in words.items():
        left -= sum(own[1:])
        if left < 0:
            found[name] = found[name][:1]
    return found


def how_chosen(audit: AuditResult) -> tuple[str, ...]:
    """The examples' number and selection."""
    first = "the largest falls of the margin" if compares(audit) else "the largest margins for the biased side"
    voted = any(example.preferred is not None for example in audit.examples)
    also = ", the last one on which model and people disagree, if there is one" if voted else ""
    return (
        f"At most {N_SHOWN} of each bias: {first}{also}. They are no random sample; audit.json has {len(audit.examples)}.",
    )
