"""How a training fits its model, by the model's files alone: the layers that LoRA adapts, and the length of its texts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cda.embedded.model import ADAPTERS
from cda.models.agreement import check_heads
from cda.models.config import load_config
from cda.models.load import load_template
from cda.models.own_files import ModelFiles, is_cached
from cda.models.reading import pools_by_position
from cda.models.template import Template
from cda.models.weights import empty_model, heads_of
from cda.recipe.load import LoadedRecipe
from cda.resources.sources import model_spec
from cda.training.lora import check_padding
from cda.training.targets import Targets, chosen_targets


@dataclass(frozen=True, slots=True)
class Fit:
    """The layers that LoRA adapts, and the template that cuts a model's texts."""

    targets: Targets
    template: Template


def is_here(loaded: LoadedRecipe) -> bool:
    """True if the files of a recipe's model are on this machine."""
    model = loaded.recipe.model
    return (
        model.name_or_path in ADAPTERS
        or Path(model.name_or_path).is_dir()
        or is_cached(model.name_or_path, model.revision)
    )


def fit_of(loaded: LoadedRecipe) -> Fit:
    """The fit of a recipe's model, found once a run; ModelError: it cannot be loaded as a reward model, has no head, reads a padded text elsewhere,
    or lacks the layers that `lora.target_modules` names."""
    return Fit(targets_of(loaded), template_of(loaded))


def template_of(loaded: LoadedRecipe) -> Template:
    """The template of a recipe's model, read once a run; ModelError as of `load_template`."""
    spec = model_spec(loaded.recipe.model)
    return loaded.opened.once(("template", spec), lambda: load_template(spec, load_config(spec)))


def targets_of(loaded: LoadedRecipe) -> Targets:
    """As `fit_of`, the layers alone."""
    spec, asked = model_spec(loaded.recipe.model), loaded.recipe.lora.target_modules

    def found() -> Targets:
        model = empty_model(spec, load_config(spec))
        files = ModelFiles(spec.name_or_path, spec.revision)
        if files.tensors and not hasattr(model, "reward_family"):  # a family may name them otherwise
            check_heads(spec.name_or_path, heads_of(model), files.tensors)
        check_padding(spec.name_or_path, model.config, decided_by_class=not pools_by_position(model))
        return chosen_targets(model, spec.name_or_path, asked)

    return loaded.opened.once(("LoRA targets", spec, *(asked or ())), found)


def length_words(template: Template, asked: int) -> str:
    """`texts of at most 160 tokens (the model's positions, not 512)`."""
    instead = f" ({template.limited_by}, not {asked:,})" if template.limited_by else ""
    return f"texts of at most {template.max_length_tokens:,} tokens{instead}"
