"""Published reward models that Transformers' classes alone do not read as their authors do: one declaration a family."""

from __future__ import annotations

from functools import lru_cache

from cda.errors import ModelError, did_you_mean
from cda.models.families.causal import CAUSAL, INTERNLM2, by_key, is_causal, logit_of
from cda.models.families.comparing import COMPARING
from cda.models.families.family import Family
from cda.models.families.linear import GATED, LINEAR, TEXTS, named_head
from cda.models.own_files import ModelFiles

FAMILIES: tuple[Family, ...] = (*LINEAR, *TEXTS, *GATED, *INTERNLM2, *CAUSAL, *COMPARING)
"""Every family; the first that claims a model's files reads it."""


@lru_cache(maxsize=64)
def family_of(name_or_path: str, revision: str | None = None, stamp: object = None) -> Family | None:  # noqa: ARG001
    """The family of a model's files; None if a class of Transformers reads them. `stamp`: anything that changes with the files."""
    files = ModelFiles(name_or_path, revision)
    if key := files.config.get("reward_family"):
        if str(key).startswith("head:"):
            return named_head(files, files.config.get("reward_reads"))
        found = next((family for family in FAMILIES if family.key == key), None) or by_key(str(key))
        if found is None:
            known = [family.key for family in FAMILIES]
            raise ModelError(
                f"{name_or_path}: config.json has reward_family {key!r}, which is no family.{did_you_mean(str(key), known)} Known: {', '.join(known)}"
            )
        return found
    return next((family for family in FAMILIES if family.claims(files)), None)


__all__ = ["FAMILIES", "Family", "ModelFiles", "family_of", "is_causal", "logit_of", "named_head"]
