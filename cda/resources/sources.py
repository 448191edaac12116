"""Data and helpers of a recipe: files or embedded texts, an LLM or rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel

from cda.biases import Bias, builtin_names
from cda.data.contrasts import CleanContrasts, clean_contrasts
from cda.data.load import check_columns, load_rows, looks_like_path
from cda.data.pairs import CleanPairs, clean_pairs
from cda.data.quality_sets import QualityItem, QualitySet, load_quality_set
from cda.embedded.model import ADAPTERS, EMBEDDED, embedded_model_folder
from cda.embedded.rules import RuleRewriter
from cda.embedded.texts import authored_pairs, part_path
from cda.errors import DataError
from cda.files.paths import user_path
from cda.inert import inert
from cda.models.load import ModelSpec, best_precision
from cda.prompts import Prompts
from cda.recipe.load import Opened
from cda.recipe.schema import DataSection, ModelSection, SynthesizeSection
from cda.records import Exclusions
from cda.resources.artifacts import shown_path
from cda.resources.llm_access import LlmAccess
from cda.rewriting.rewriter import Gated, LLMRewriter, Rewriter
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


def rewriter(synthesize: SynthesizeSection, biases: Sequence[Bias], seed: int, llm: LlmAccess) -> Rewriter:
    """A run's rewriter, LLM or rules; the same fidelity gate checks both."""
    gate = synthesize.gate
    if not llm.settings.used_for(synthesize.by):
        by_rules = RuleRewriter(seed)
        return Gated(by_rules, None, gate.ask_again, gate.words_within, biases) if gate.on else by_rules
    writes = LLMRewriter(llm.client(), synthesize.show_prompt, told=llm.prompts.rewrite)
    return Gated(writes, llm.labeller(), gate.ask_again, gate.words_within, biases) if gate.on else writes


def prompt_settings(prompts: Prompts, *kinds: Literal["label", "rewrite", "judge"]) -> dict[str, object]:
    """Prompts as settings: their whole content determines a stage's outputs."""
    return {kind: getattr(prompts, kind).model_dump(mode="json") for kind in kinds}


def prompt_name(reference: str, prompt: BaseModel) -> str:
    """A prompt as reports name it: a shipped one by its name, a file with the mark of its content."""
    if not reference.endswith((".yaml", ".yml")):
        return reference
    return f"{shown_path(reference)} ({fingerprint(prompt.model_dump(mode='json'))[:8]})"


def training_pairs(data: DataSection, opened: Opened) -> CleanPairs:
    """Pairs of `data.pairs`, read once in a run; errors as of `load_pairs`."""
    known_by = ("pairs", data.pairs, data.split, *sorted(data.columns.items()))
    return opened.once(known_by, lambda: load_pairs(data.pairs, data.split, data.columns, "data.columns"))


def supplementary_pairs(data: DataSection, opened: Opened) -> CleanPairs:
    """Pairs of `data.supplement`, which has to be set; read once in a run, errors as of `load_pairs`."""
    reference, split, columns = str(data.supplement), data.supplement_split, data.supplement_columns
    known_by = ("supplement", reference, split, *sorted(columns.items()))
    return opened.once(known_by, lambda: load_pairs(reference, split, columns, "data.supplement_columns"))


def taught_contrasts(data: DataSection, biases: Sequence[Bias], opened: Opened) -> CleanContrasts:
    """Contrasts of `data.contrasts`, of the recipe's biases and of any built-in one; read once in a run."""
    own = [bias.name for bias in biases]

    def read() -> CleanContrasts:
        path = str(data.contrasts)
        rows = load_rows(path)
        has_column = any(data.contrast_columns.get("bias", "bias") in row for row in rows)
        # Without a column of biases they are of the recipe's only one.
        names = list(dict.fromkeys([*own, *builtin_names()])) if has_column else own
        return clean_contrasts(rows, names, data.contrast_columns, path, setting="data.contrast_columns")

    return opened.once(("taught contrasts", data.model_dump_json(), *own), read)


def load_pairs(reference: str, split: str, columns: Mapping[str, str], setting: str) -> CleanPairs:
    """Pairs of `embedded`, or of a reference that `load_rows` takes; `setting` is the recipe's for `columns`, in errors.

    Raises:
        DataError: Cannot be loaded, a column is missing, or nothing usable is left.
    """
    if reference == EMBEDDED:
        pairs = tuple(authored.pair for authored in authored_pairs("train"))
        return CleanPairs(pairs, Exclusions(len(pairs), {}))
    rows = load_rows(reference, split)
    needed = {"chosen": "chosen", "rejected": "rejected", **columns}
    check_columns(rows, needed, reference, setting)
    cleaned = clean_pairs(rows, columns)
    if not cleaned.pairs:
        prompt, present = columns.get("prompt", "prompt"), dict.fromkeys(name for row in rows for name in row)
        unread = "" if prompt in present else (
            f". No column '{prompt}' is there; the columns are {', '.join(map(inert, present))}. Name the prompts' with "
            f"{setting}.prompt=<your column>"
        )  # fmt: skip
        raise DataError(f"{reference}: no usable pair; {cleaned.exclusions}{unread}")
    return cleaned


def load_quality_source(reference: str, split: str, columns: Mapping[str, str]) -> QualitySet:
    """Preferences to be ranked: the embedded quality pairs, or a name that `load_quality_set` takes.

    Raises:
        DataError: Cannot be loaded, or nothing usable is left.
    """
    if reference != EMBEDDED:
        return load_quality_set(reference, split, columns)
    items = tuple(
        QualityItem(row, str(row), pair.prompt, (pair.chosen,), (pair.rejected,), EMBEDDED, EMBEDDED)
        for row, pair in enumerate((authored.pair for authored in authored_pairs("quality")), 1)
    )
    return QualitySet(EMBEDDED, EMBEDDED, "pairs", items, Exclusions(len(items), {}), {}, None, {})


def source_fingerprint(reference: str | None, part: str | None = None) -> str:
    """Fingerprint of a data source: of the content of a file, of the name of a hub data set."""
    if reference is None:
        return "none"
    if reference == EMBEDDED:
        return file_fingerprint(part_path(part)) if part else EMBEDDED  # type: ignore[arg-type]
    return file_fingerprint(user_path(reference)) if looks_like_path(reference) else f"hub:{reference}"


def bias_settings(biases: tuple[Bias, ...]) -> list[dict[str, object]]:
    """Bias files as settings: their whole content determines a stage's outputs."""
    return [bias.model_dump(mode="json") for bias in biases]
