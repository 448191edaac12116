"""LLM calls of an audit of one model, as a plan before any of them is made."""

from __future__ import annotations

from cda.auditing.audit import audit_rewriting, comparisons_of, stage, stages_before
from cda.auditing.texts import load_audit_texts, unwritten
from cda.launch import unsaid
from cda.recipe.load import LoadedRecipe
from cda.resources.llm_access import Step
from cda.resources.named_scorer import Subject, scorer_settings
from cda.resources.scorers import open_scorer
from cda.resources.sources import audit_inputs
from cda.run import RunFolder


def planned_calls(loaded: LoadedRecipe) -> list[Step]:
    """Every LLM call that the audit is about to make, cached answers not deducted; none if it is finished, or asks no LLM.

    A text that is still to be written counts in an LLM's comparisons with the length of the answer that it is rewritten from.
    """
    recipe, inputs, rewriting = loaded.recipe, audit_inputs(loaded), audit_rewriting(loaded)
    to_write = unwritten(inputs, rewriting)
    steps: list[Step] = [(recipe.llm, each.planned) for each in to_write]
    if recipe.model.asks_llm:
        scorer = open_scorer(Subject("model", recipe.model), scorer_settings(loaded))
        with unsaid():
            texts = load_audit_texts(inputs, rewriting.planning(), only_audit=loaded.only_audit)
        # The number tells the comparisons of one answer apart.
        further = [
            (prompt, text, f"{text} {number}")
            for each in to_write
            for prompt, text in each.answers
            for number in range(each.n_comparisons)
        ]
        steps += scorer.planned([*comparisons_of(texts), *further])
    folder = RunFolder(recipe.run_path)
    can_be_done = all(folder.record(name) for name in stages_before(loaded))
    return [] if steps and can_be_done and folder.is_done(stage(loaded, folder)) else steps
