"""Segment ids of text pairs: BERT's kin tell the prompt from the response by a second embedding, where they learned it.

A tokenizer whose `model_input_names` hold `token_type_ids` gives them with every pair, so a model trained on its output
knows them; one without was trained on none. They follow from the token ids (all that comes after the first separator), so
they are added where the model looks them up: scores and training then agree, through wrappers that pass token ids alone.
"""

from __future__ import annotations

from typing import Any


def wants_segments(tokenizer: Any, config: Any) -> bool:
    """Whether a model tells the two texts of a pair apart, and its tokenizer says so."""
    return (getattr(config, "type_vocab_size", None) or 0) > 1 and "token_type_ids" in tokenizer.model_input_names


def add_segments(model: Any, separator: int) -> list[Any]:
    """Have a model's embeddings look up segment 1 for what comes after the first separator, and 0 before.

    Args:
        model: Changed in place, before anything wraps it.
        separator: Token id that ends the first text.

    Returns:
        Handles of the hooks, whose `remove` takes them off again.
    """

    def with_segments(_: Any, given: tuple[Any, ...], named: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        ids = named["input_ids"] if named.get("input_ids") is not None else given[0]
        ends = (ids == separator).long()
        return given, named | {"token_type_ids": (ends.cumsum(-1) - ends).clamp(max=1)}

    return [
        module.register_forward_pre_hook(with_segments, with_kwargs=True)
        for module in model.modules()
        if hasattr(module, "token_type_embeddings")
    ]
