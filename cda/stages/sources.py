"""Where a recipe's data and helpers come from: files or embedded texts, an LLM or rules."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cda.biases import Bias
from cda.config.load import LoadedRecipe
from cda.config.schema import By, LlmSection, ModelSection
from cda.data.load import check_columns, load_rows, looks_like_path
from cda.data.pairs import CleanPairs, clean_pairs
from cda.embedded.model import NAME as EMBEDDED
from cda.embedded.model import embedded_model_folder
from cda.embedded.rules import RuleRewriter
from cda.embedded.texts import authored_pairs, part_path
from cda.errors import DataError
from cda.llm.openai_client import OpenAIClient
from cda.models.load import ModelSpec, best_precision
from cda.records import Exclusions
from cda.rewrite.asked import LLMRewriter
from cda.rewrite.protocol import Rewriter
from cda.run import file_fingerprint


def model_spec(section: ModelSection) -> ModelSpec:
    """The model of a recipe; makes the embedded one on first use."""
    name = section.name_or_path
    if name == EMBEDDED:
        name = str(embedded_model_folder())
    elif name.startswith("~"):
        name = str(Path(name).expanduser())
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
    """The LLM of a recipe."""
    return OpenAIClient(
        name=llm.model or "",
        base_url=llm.base_url,
        api_key_env=llm.api_key_env,
        concurrency=llm.concurrency,
        temperature=llm.temperature,
        max_tokens=llm.max_tokens,
        timeout_s=llm.timeout_s,
        retries=llm.retries,
    )


def rewriter(loaded: LoadedRecipe) -> Rewriter:
    """The recipe's rewriter."""
    recipe = loaded.recipe
    if uses_llm(recipe.synthesize.by, recipe.llm):
        return LLMRewriter(llm_client(recipe.llm))
    return RuleRewriter(recipe.seed)


def llm_settings(llm: LlmSection) -> dict[str, Any]:
    """What of the LLM decides its answers."""
    return llm.model_dump(include={"model", "base_url", "temperature", "max_tokens"})


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
        raise DataError(f"{reference}: no usable pair; {cleaned.exclusions}")
    return cleaned


def source_fingerprint(reference: str | None, part: str | None = None) -> str:
    """Fingerprint of a data source: of the file's content where it is one, of its name where it is on a hub."""
    if reference is None:
        return "none"
    if reference == EMBEDDED:
        return file_fingerprint(part_path(part)) if part else EMBEDDED  # type: ignore[arg-type]
    return file_fingerprint(Path(reference).expanduser()) if looks_like_path(reference) else f"hub:{reference}"


def bias_settings(biases: tuple[Bias, ...]) -> list[dict[str, Any]]:
    """Bias files as settings: their whole content decides what a stage makes."""
    return [bias.model_dump(mode="json") for bias in biases]
