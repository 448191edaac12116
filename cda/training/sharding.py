"""Which parts of a model are sharded by themselves under FSDP, where neither the launcher nor the recipe names them."""

from __future__ import annotations

from typing import Any


def shard_blocks(plugin: Any, model: Any) -> None:
    """Have FSDP shard a model by its blocks, unless other parts are named.

    Args:
        plugin: Accelerate's FSDP plugin of this launch; None without FSDP, and nothing is done.
        model: What is trained; changed in nothing.
    """
    if plugin is not None and not plugin.transformer_cls_names_to_wrap:
        plugin.transformer_cls_names_to_wrap = block_names(model)


def block_names(model: Any) -> list[str]:
    """Classes that the model names as not to be split (`_no_split_modules`), as far as they can be sharded by themselves.

    Encoders name their embeddings too. accelerate 1.15 gives the embedding table a shard of its own, and fails where a
    part around it has one already ("Invariant encountered"); it also refuses names of classes that this model has not.
    """
    table = model.get_input_embeddings()
    around_table, present = set(), set()
    for part in model.modules():
        name = type(part).__name__
        present.add(name)
        if any(inside is table for inside in part.modules()):
            around_table.add(name)
    return [name for name in model._no_split_modules or () if name in present - around_table]
