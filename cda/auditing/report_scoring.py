"""How the numbers came about, in sentences: what scored, what stood in for people or an LLM, and what that limits."""

from __future__ import annotations

from cda.auditing.report_rate_cells import contrasts_flipped
from cda.auditing.report_seeds import seeds_caveat
from cda.auditing.report_verdict import targets
from cda.data.release import SOURCE
from cda.report.numbers import listed, reward
from cda.report.scoring import scored_line
from cda.results.audit import AuditResult
from cda.results.base import Missing
from cda.results.facts import Example, RewardModelFacts
from cda.results.skew import BiasSkew


def how_scored(audit: AuditResult) -> str:
    """How the model was asked and who helped, as one sentence."""
    helpers = helpers_line(audit)
    return f"{scored_line(audit.model)}{f'; {helpers}' if helpers else ''}."


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


def helpers_line(audit: AuditResult) -> str:
    """Who labelled and who rewrote: rules or an LLM; empty where nothing was."""
    if len(audit.scorings) == 1:
        made = {one.flips.by for one in audit.rate.values() if one.flips.made}
        return f"rewritten by {' and '.join(sorted(made))}" if made else ""
    labelled, rewritten = labelled_by(audit), rewritten_by(audit)
    if labelled == rewritten == "rules":
        return "rules labelled and rewrote, no LLM"
    return f"labelled by {labelled}, rewritten by {rewritten}"


def labelled_by(audit: AuditResult) -> str:
    """`rules`, or the LLM's name; both where some biases were measured and others asked about."""
    tallies = audit.stages.label.labels if audit.stages.label else {}
    found = {_helper(tally.by) for tally in tallies.values()} or {_helper(audit.sources.labelled_by)}
    return " and ".join(sorted(found, key=lambda one: one != "rules"))


def rewritten_by(audit: AuditResult) -> str:
    """`rules`, or the LLM's name."""
    return _helper(audit.sources.rewritten_by)


def caveats(audit: AuditResult) -> list[str]:
    """What a reader must know before trusting the numbers; each a sentence or two."""
    notes = []
    if audit.model.name == "embedded":
        notes.append(
            "The model is the small one that ships with this package. It was taught its biases, so the numbers show that "
            "the method runs; they say nothing about another model."
        )
    notes += _contrast_notes(audit)
    notes += [said] if (said := seeds_caveat(audit)) else []
    if audit.dose is not None and audit.dose.chosen:
        dose, chose = audit.dose.chosen, listed(list(audit.dose.biases))
        also = ", and on quality pairs that limited the choice" if audit.quality is not None else ""
        notes.append(
            f"`after` is dose {dose:g}, measured on the very contrasts of {chose} that chose it{also}, which flatters it. What is "
            "called held out is not so measured; the verdicts rest on that."
        )
    undecided = audit.votes_undecided
    for name, n in undecided.items():
        notes.append(
            f"People voted on {n} contrasts of {name}, and on none of them more for one side than for the other. Human skew, "
            "miscalibration and gap are unknown there."
        )
    without = [name for name in targets(audit) if name not in audit.votes and name not in undecided]
    if without:
        notes.append(
            f"Nobody voted on the contrasts of {listed(without)}. Human skew, miscalibration and gap are unknown there, and "
            + (
                "a lower skew need not be a better one."
                if len(audit.scorings) > 1
                else "no skew is right or wrong by itself."
            )
        )
    if audit.sources.quality == "embedded" and audit.quality is not None:
        notes.append(
            "The quality pairs are the embedded ones: a sound and a flawed answer, written by the authors of this package."
        )
    # What the recipe chose, not labelled_by(): a bias that is defined by a measurement is measured beside an LLM too.
    chosen = {
        "labelled the responses": audit.sources.labelled_by,
        "rewrote them": audit.sources.rewritten_by,
    }
    by_rules = [work for work, by in chosen.items() if _helper(by) == "rules"]
    if by_rules and len(audit.scorings) > 1:
        notes.append(
            f"Rules stood in for an LLM: they {listed(by_rules)}. Rules see word lists and counts, not meaning, so they miss "
            "and misplace some of the bias."
        )
    model = audit.model
    if isinstance(model, RewardModelFacts) and model.truncated:
        length = "the model takes in" if model.max_length_tokens is None else f"{model.max_length_tokens} tokens"
        notes.append(
            f"{model.truncated} of {model.texts} texts were longer than {length}. The model saw only their beginning."
        )
    if isinstance(model, RewardModelFacts) and model.dropped:
        notes.append(f"{model.dropped} of {model.texts} texts were too long and were left out.")
    notes += model.notes
    drawn = [
        f"{name} ({skew.before.n + skew.unread} of {skew.available})"
        for name, skew in audit.skew.items()
        if skew.before.n + skew.unread < skew.available
    ]
    if drawn:
        notes.append(f"Not every contrast was scored; a sample was drawn for {listed(drawn)}.")
    return notes


def _contrast_notes(audit: AuditResult) -> list[str]:
    embedded = [name for name, skew in audit.skew.items() if skew.source == "embedded"]
    notes = []
    if embedded:
        notes.append(
            f"The contrasts of {listed(embedded)} are the embedded ones: written by the authors of this package, "
            "with no human votes."
        )
    released = [name for name, skew in audit.skew.items() if skew.source == SOURCE]
    if released:
        notes.append(
            f"The contrasts of {listed(released)} are pairs of the paper's release that its people voted on: a rewrite with the bias "
            "and the rewrite of that one without it."
        )
    for name, skew in audit.skew.items():
        if skew.source not in ("embedded", "file", SOURCE):
            notes.append(
                f"The contrasts of {name} are {skew.source}{_of_tried(skew)}. They are direct contrasts: only one side is a "
                "rewrite, and people did not vote on them."
            )
    return notes


def _of_tried(skew: BiasSkew) -> str:
    flipped = contrasts_flipped(skew)
    return f" ({flipped})" if flipped else ""


def provenance(audit: AuditResult) -> list[tuple[str, str]]:
    """What was run, as name and value."""
    model, sources = audit.model, audit.sources
    two = len(audit.scorings) > 1
    facts = [("recipe", audit.recipe)] if two else []
    facts += [("model", model.name)]
    facts += [("training pairs", str(sources.pairs))] if two else []
    optional = {
        "judges' verdicts": sources.verdicts,
        "RATE triples": sources.triples,
        "the paper's release": sources.release,
        "labels of pairs": sources.labels,
    }
    facts += [
        ("contrasts", sources.contrasts),
        ("votes", sources.votes or "none, or in the contrasts' file"),
        *((name, source) for name, source in optional.items() if source),
        ("quality pairs", "none" if sources.quality is None else sources.quality),
    ]
    if two:
        facts += [("labelled by", labelled_by(audit)), ("rewritten by", rewritten_by(audit))]
    prompts = {"labelling prompt": sources.label_prompt, "rewriting prompt": sources.rewrite_prompt}
    facts += [(name, prompt) for name, prompt in prompts.items() if prompt]
    if isinstance(model, RewardModelFacts) and model.how is None:
        form = "text pair, no chat template" if model.form == "pair" else model.form
        facts += [
            ("precision", f"{model.precision}{', the same before and after' if two else ''}"),
            ("template form", str(form)),
            ("cut", f"{model.truncated} of {model.texts} distinct texts at {model.max_length_tokens} tokens"),
        ]
    else:
        facts.append(("asked", scored_line(model)))
    facts.append(("seed", str(audit.seed)))
    if train := audit.stages.train:
        facts.append(("training", f"{train.steps} steps, step {train.best_step} kept, {train.processes} process(es)"))
        facts.append(("pairs cut in training", f"{train.truncated} of {train.train + train.validation}"))
        facts += [("note", note) for note in train.notes]
    facts.append(("versions", ", ".join(f"{name} {number}" for name, number in audit.versions.items())))
    return facts


def _helper(by: str) -> str:
    return "rules" if by in ("rules", "embedded rules") or by.startswith("measured ") else by
