"""Where a recipe's data and helpers come from: files or embedded texts, an LLM or rules."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel

from cda.biases import Bias
from cda.data.load import check_columns, load_rows, looks_like_path
from cda.data.pairs import CleanPairs, clean_pairs
from cda.data.quality_sets import QualityItem, QualitySet, load_quality_set
from cda.data.triples import AttributeRule
from cda.embedded.model import ADAPTERS, embedded_model_folder
from cda.embedded.model import NAME as EMBEDDED
from cda.embedded.rules import RuleRewriter
from cda.embedded.texts import authored_pairs, part_path
from cda.errors import DataError
from cda.files.paths import user_path
from cda.inert import inert
from cda.llm.batch import BatchLLM
from cda.llm.cache import Cache
from cda.llm.cached import CachedLLM
from cda.llm.counted import AnsweredBy, CountedLLM, Tally
from cda.llm.money import Budgeted, Price, Purse
from cda.llm.openai_client import OpenAIClient
from cda.llm.protocol import LLM
from cda.models.load import ModelSpec, best_precision
from cda.recipe.load import LoadedRecipe
from cda.recipe.schema import AuditSection, By, LlmSection, ModelSection
from cda.records import Exclusions
from cda.resources.artifacts import shown_path
from cda.rewriting.asked import Labeller, LLMRewriter, Rewriter
from cda.rewriting.fidelity import GateRules
from cda.rewriting.gate import Gated
from cda.rewriting.labels import asked_labels
from cda.run import file_fingerprint, fingerprint


def model_spec(section: ModelSection) -> ModelSpec:
    """The model of a recipe; makes an embedded one on first use."""
    name = section.name_or_path
    if name in ADAPTERS:
        name = str(embedded_model_folder(name))
    elif name.startswith("~"):
        name = str(user_path(name))
    precision = section.precision if section.precision != "auto" else best_precision()
    return ModelSpec(name, precision, section.max_length_tokens, section.revision, section.trust_remote_code)


def model_source(section: ModelSection) -> str:
    """Fingerprint of a model's content, or its hub id and revision."""
    path = Path(model_spec(section).name_or_path)
    return file_fingerprint(path) if path.is_dir() else f"{section.name_or_path}@{section.revision}"


def uses_llm(by: By, llm: LlmSection) -> bool:
    """Whether a stage asks the LLM rather than following rules."""
    return by == "llm" or (by == "auto" and llm.model is not None)


def llm_client(llm: LlmSection) -> OpenAIClient:
    """The server and model of a recipe, without cache or budget."""
    return OpenAIClient(
        name=llm.model or "",
        base_url=llm.base_url,
        api_key_env=llm.api_key_env,
        concurrency=llm.concurrency,
        requests_per_minute=llm.requests_per_minute,
        tokens_per_minute=llm.tokens_per_minute,
        temperature=llm.temperature,
        max_tokens=llm.max_tokens,
        seed=llm.seed,
        timeout_s=llm.timeout_s,
        retries=llm.retries,
    )


def open_llm(loaded: LoadedRecipe) -> LLM:
    """The LLM of a recipe: asks only what the cache has no answer to, and stops at the budget.

    One object a run and model, and one purse for all models beside a cache, so that the budget holds over all stages
    together.

    Raises:
        LLMError: The cache cannot be opened.
    """
    llm, path = loaded.recipe.llm, cache_path(loaded)
    return loaded.opened.once(("llm", llm.model_dump_json(), path), lambda: _opened_llm(loaded, llm, path))


def _opened_llm(loaded: LoadedRecipe, llm: LlmSection, path: Path) -> LLM:
    client, price = llm_client(llm), price_of(llm)
    path.parent.mkdir(parents=True, exist_ok=True)
    cache = Cache(path, ask_failures_again=llm.ask_failures_again)
    if llm.mode == "batch":
        asked: LLM = BatchLLM(client, cache, price=price)
    else:
        purse = loaded.opened.once(("purse", path), Purse)
        asked = CachedLLM(client if price is None else Budgeted(client, price, llm.budget_usd, purse), cache)
    return CountedLLM(asked, _tallies(loaded).setdefault(client.name, Tally()), price)


def with_llm(loaded: LoadedRecipe, model: str, **changed: object) -> LoadedRecipe:
    """The same recipe with another LLM."""
    llm = llm_named(loaded, model).model_copy(update=changed)
    return replace(loaded, recipe=loaded.recipe.model_copy(update={"llm": llm}))


def llm_named(loaded: LoadedRecipe, model: str) -> LlmSection:
    """The recipe's LLM settings with another model."""
    return loaded.recipe.llm.model_copy(update={"model": model})


def llm_counts(loaded: LoadedRecipe) -> dict[str, Tally]:
    """What this run has asked of each model so far, in this process."""
    return {name: replace(tally) for name, tally in _tallies(loaded).items()}


def _tallies(loaded: LoadedRecipe) -> dict[str, Tally]:
    return loaded.opened.once("tallies", dict)


def answered_notes(loaded: LoadedRecipe, answered: AnsweredBy) -> list[str]:
    """Sentences for the user where another model answered than was asked for or than answered before; noted for later runs.

    Raises:
        LLMError: The cache cannot be used.
    """
    settings = llm_client(loaded.recipe.llm).settings
    with Cache(cache_path(loaded)) as cache:
        earlier = cache.answering_models(settings)
        cache.note_models(settings, answered.models)
    return answered.notes(settings["model"], earlier)


def cache_path(loaded: LoadedRecipe) -> Path:
    """File of answers: one for all runs that lie beside each other."""
    if loaded.recipe.llm.cache is not None:
        return user_path(loaded.recipe.llm.cache)
    return run_path(loaded).parent / "llm-cache.sqlite"


def run_path(loaded: LoadedRecipe) -> Path:
    """The folder of a recipe's run."""
    return user_path(loaded.recipe.run.folder or Path("runs") / loaded.recipe.name)


def price_of(llm: LlmSection) -> Price | None:
    """Price of the recipe's model, where one is given; half of it in batch mode, as OpenAI charges."""
    section = llm.prices.get(llm.model or "")
    if section is None:
        return None
    share = 0.5 if llm.mode == "batch" else 1.0
    return Price(share * section.input, share * section.output)


def rewriter(loaded: LoadedRecipe) -> Rewriter:
    """The recipe's rewriter, LLM or rules; the same fidelity gate checks both."""
    recipe, gate = loaded.recipe, loaded.recipe.synthesize.gate
    rules = GateRules(words_within=gate.words_within)
    if not uses_llm(recipe.synthesize.by, recipe.llm):
        by_rules = RuleRewriter(recipe.seed)
        return Gated(by_rules, None, gate.ask_again, rules, loaded.biases) if gate.on else by_rules
    writes = LLMRewriter(open_llm(loaded), recipe.synthesize.show_prompt, told=loaded.prompts.rewrite)
    if not gate.on:
        return writes
    return Gated(writes, labels_of(loaded), gate.ask_again, rules, loaded.biases)


def labels_of(loaded: LoadedRecipe) -> Labeller:
    """Labels of single responses by the recipe's LLM."""
    return asked_labels(open_llm(loaded), loaded.recipe.label.ask_again, loaded.prompts.label)


def llm_settings(llm: LlmSection) -> dict[str, Any]:
    """The settings that decide the LLM's answers, with the address where the environment alone names it.

    A stage made without `ask_failures_again` is made again where failures are asked again.
    """
    again = {"ask_failures_again"} if llm.ask_failures_again else set()
    settings = llm.model_dump(include={"model", "base_url", "temperature", "seed", "max_tokens"} | again)
    return settings | {"base_url": llm.base_url or os.environ.get("OPENAI_BASE_URL")}


def prompt_settings(loaded: LoadedRecipe, *kinds: Literal["label", "rewrite", "judge"]) -> dict[str, object]:
    """What the LLM is told, as settings: the whole content of a prompt file decides what a stage makes."""
    return {kind: getattr(loaded.prompts, kind).model_dump(mode="json") for kind in kinds}


def prompt_name(reference: str, prompt: BaseModel) -> str:
    """A prompt as reports name it: a shipped one by its name, a file with the mark of its content."""
    if not reference.endswith((".yaml", ".yml")):
        return reference
    return f"{shown_path(reference)} ({fingerprint(prompt.model_dump(mode='json'))[:8]})"


def attribute_rule(audit: AuditSection) -> AttributeRule:
    """How a column of the user's files says whether a response has the attribute."""
    return AttributeRule(**audit.attribute.model_dump())


def training_pairs(loaded: LoadedRecipe) -> CleanPairs:
    """Pairs of `data.pairs`, read once in a run.

    Raises:
        DataError: As `load_pairs`.
    """
    data = loaded.recipe.data
    known_by = ("pairs", data.pairs, data.split, *sorted(data.columns.items()))
    return loaded.opened.once(known_by, lambda: load_pairs(data.pairs, data.split, data.columns, "data.columns"))


def supplementary_pairs(loaded: LoadedRecipe) -> CleanPairs:
    """Pairs of `data.supplement`, which has to be set; read once in a run.

    Raises:
        DataError: As `load_pairs`.
    """
    data = loaded.recipe.data
    reference, split, columns = str(data.supplement), data.supplement_split, data.supplement_columns
    known_by = ("supplement", reference, split, *sorted(columns.items()))
    return loaded.opened.once(known_by, lambda: load_pairs(reference, split, columns, "data.supplement_columns"))


def load_pairs(reference: str, split: str, columns: Mapping[str, str], setting: str) -> CleanPairs:
    """Pairs of a data source.

    Args:
        reference: `embedded`, or what `load_rows` takes.
        split: For sources with several.
        columns: Our name to theirs.
        setting: Recipe setting that maps columns, for error messages.

    Raises:
        DataError: Cannot be loaded, a column is missing, or nothing usable is left.
    """
    if reference == EMBEDDED:
        pairs = tuple(one.pair for one in authored_pairs("train"))
        return CleanPairs(pairs, Exclusions(len(pairs), {}))
    rows = load_rows(reference, split)
    needed = {"chosen": "chosen", "rejected": "rejected", **columns}
    check_columns(rows, needed, reference, setting)
    cleaned = clean_pairs(rows, columns)
    if not cleaned.pairs:
        found = dict.fromkeys(name for row in rows for name in row)
        unread = (
            f". No column '{columns.get('prompt', 'prompt')}' is there; the columns are {', '.join(map(inert, found))}. Name the "
            f"prompts' with {setting}.prompt=<your column>"
        )
        has_prompt = columns.get("prompt", "prompt") in found
        raise DataError(f"{reference}: no usable pair; {cleaned.exclusions}{'' if has_prompt else unread}")
    return cleaned


def load_quality_source(reference: str, split: str, columns: Mapping[str, str]) -> QualitySet:
    """Preferences to be ranked: the embedded quality pairs, or what `load_quality_set` takes.

    Raises:
        DataError: Cannot be loaded, or nothing usable is left.
    """
    if reference != EMBEDDED:
        return load_quality_set(reference, split, columns)
    found = [one.pair for one in authored_pairs("quality")]
    items = [
        QualityItem(row, str(row), pair.prompt, (pair.chosen,), (pair.rejected,), EMBEDDED, EMBEDDED)
        for row, pair in enumerate(found, 1)
    ]
    return QualitySet(EMBEDDED, EMBEDDED, "pairs", tuple(items), Exclusions(len(found), {}), {}, None, {})


def source_fingerprint(reference: str | None, part: str | None = None) -> str:
    """Fingerprint of a data source: of the file's content where it is one, of its name where it is on a hub."""
    if reference is None:
        return "none"
    if reference == EMBEDDED:
        return file_fingerprint(part_path(part)) if part else EMBEDDED  # type: ignore[arg-type]
    return file_fingerprint(user_path(reference)) if looks_like_path(reference) else f"hub:{reference}"


def bias_settings(biases: tuple[Bias, ...]) -> list[dict[str, object]]:
    """Bias files as settings: their whole content decides what a stage makes."""
    return [bias.model_dump(mode="json") for bias in biases]
