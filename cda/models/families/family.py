"""The declaration of a family of reward models: how its authors read a reward, where Transformers' classes do not say."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cda.models.own_files import ModelFiles
from cda.models.reading import Reads
from cda.models.template import Encoding, Turns

if TYPE_CHECKING:
    from torch import Tensor, nn
    from transformers import PretrainedConfig, PreTrainedTokenizerBase

Points = Callable[[list[int]], list[int]]
"""Token ids of one text to the positions whose hidden states a head reads, at least one."""


@dataclass(frozen=True, slots=True)
class Family:
    """A family of published models. They load as Transformers' sequence classifier of their backbone, `score` replaced."""

    key: str
    """Short name; saved in a merged model's config.json as `reward_family`."""
    models: str
    """Published models, for people."""
    official: str
    """How the authors score a text, in one sentence."""
    source: str
    claims: Callable[[ModelFiles], bool]
    """True of the files of a model of this family. It rests on what only its files have: a class, keys, names of tensors, the chat
    template. Where a card alone tells how texts are written, it rests on the published name, as hub id or folder (`published`); in a
    folder of another name a key `reward_family` in config.json says it."""
    refusal: str | None = None
    """Why such a model has no reward of a single text that could be read; None if it has."""
    ways: str = ""
    """What to do then, in place of the two ways that always work."""
    runs_code: bool = False
    """The model's own code computes the reward; declared is only how a text is encoded."""
    backbone: Callable[[Mapping[str, Any]], Mapping[str, Any]] = dict
    """config.json to that of the backbone as Transformers knows it."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Regular expression of a tensor's name in the files to its name in the classifier."""
    convert: Callable[[dict[str, Tensor], PretrainedConfig, ModelFiles], dict[str, Tensor]] | None = None
    """All tensors of the files, the configuration and the files to the classifier's tensors, where renaming is not enough."""
    head: Callable[[PretrainedConfig, ModelFiles], nn.Module] | None = None
    """Configuration and files to the module `score`: states (B, h), or with `points` (B, P, h) and a mask (B, P), to rewards (B, 1).
    None: a linear layer of one output without bias."""
    points: Callable[[PreTrainedTokenizerBase, ModelFiles], Points] | None = None
    """Tokenizer and files to the positions that the head reads; None: the one that `reads` says."""
    reads: Reads = "config"
    turns: Turns | None = None
    """The text that the authors write by hand; None: the chat template."""
    encoding: Encoding | None = None
    """The text that they put together in code, with the tokenizer; `turns` and all that follows then say nothing."""
    last: Callable[[PreTrainedTokenizerBase, ModelFiles], int | None] | None = None
    """Tokenizer and files to the id of a token that every text has to end in."""
    step_end: str | None = None
    """A special token after every paragraph of the answer. With `points` that read them, model.reads=last_token reads the last alone."""
    doubles_bos: bool = False
    """The authors encode with two BOS, one of the template and one of the tokenizer."""
    adds_bos: bool = False
    """The authors let the tokenizer add BOS to the text of a template that writes none."""
    cuts_left: bool = False
    """The authors cut the beginning of a text that is too long, whatever the tokenizer's files say."""
    system: str | None = None
    """The system turn that the authors give a conversation without one."""
    note: str = ""
    """What the report says of the reading, in place of the models' names and `official`."""
    unused: Sequence[str] = ()
    """Regular expressions of tensors in the files that no score passes through."""


def published(*names: str, of: str = "") -> Callable[[ModelFiles], bool]:
    """A claim of models with one of these published names (regular expressions, without the owner): the last part of a hub id or
    folder as the user gives it, or the folder of a hub id in the library's cache. Case does not matter. Each class that config.json
    names has to begin and end as in `of` ("Llama…Classification"), so that another model in a folder of that name is not claimed.
    """
    first, _, last = of.partition("…")
    pattern = re.compile("|".join(f"(?:{name})" for name in names), re.IGNORECASE)

    def claims(files: ModelFiles) -> bool:
        if not all(name.startswith(first) and name.endswith(last) for name in files.architectures):
            return False
        parts = files.name_or_path.rstrip("/\\").replace("\\", "/").split("/")
        cached = [part.split("--")[-1] for part in parts if part.startswith("models--")]
        return any(pattern.fullmatch(part) for part in (parts[-1], *cached))

    return claims
