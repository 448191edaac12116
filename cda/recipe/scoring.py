"""The recipe's section on scoring, and the kinds of scorers by their names."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from cda.recipe.section import Positive, Section, Share
from cda.scorers.own_code import is_own
from cda.scorers.served_options import ServedOptions

Kind = Literal["classifier", "log-ratio", "steered", "judge", "served", "function"]
PREFIXES: dict[str, Kind] = {"judge:": "judge", "dpo:": "log-ratio", "steered:": "steered", "served:": "served"}


def kind_of(name: str) -> Kind:
    """Kind of scorer that a model's name stands for.

    `judge:NAME` an LLM judge, `judge:NAME,NAME` a panel of several; `dpo:POLICY` or `dpo:POLICY,REFERENCE` the log-ratio of two causal language models;
    `steered:MODEL` a causal language model with a vector added to its residual stream, against itself; `served:URL` or an
    http address a reward model behind a server; `package.module:function` or `file.py:function` a scorer of the user's
    own; anything else a sequence classifier (hub id, folder, or `embedded`).
    """
    for prefix, kind in PREFIXES.items():
        if name.startswith(prefix):
            return kind
    if name.startswith(("http://", "https://")):
        return "served"
    return "function" if is_own(name) and not Path(name).is_dir() else "classifier"


def bare_name(name: str) -> str:
    """A model's name without the word for its kind."""
    for prefix in PREFIXES:
        name = name.removeprefix(prefix)
    return name


def judges_of(name: str) -> tuple[str, ...]:
    """The models of `judge:NAME`, or of a panel `judge:NAME,NAME,…`."""
    return tuple(judge.strip() for judge in bare_name(name).split(","))


def policy_and_reference(name: str) -> tuple[str, str | None]:
    """The two models of `dpo:POLICY,REFERENCE`; no reference if none is named."""
    policy, _, reference = bare_name(name).partition(",")
    return policy, reference or None


class JudgeSection(Section):
    ties: bool = True
    """A judge may say that neither answer is better."""
    by_token: bool = False
    """Read the probabilities of a one-token verdict (the server has to give logprobs) in place of a written verdict."""
    prompt: str = "ours"
    """The judge's instructions: `ours`, `paper`, or the path of a prompt file."""
    reasons: Literal["before", "after", "none"] | None = None
    """Place of the reasons for a written verdict: before it, after it, or not at all. null: as the prompt says (`ours`:
    before, `paper`: after)."""
    orders: Literal["both", "one"] | None = None
    """both: each comparison is asked with either answer first, and a taste for a place cancels. one: once, with the first
    answer drawn; half the calls, and a taste for a place stays in each margin. null: as the prompt says (`ours`: both,
    `paper`: one)."""
    max_unread: Share = 0.5
    """Share of comparisons that may be without a readable verdict; with more, nothing is reported of the others."""


class LogRatioSection(Section):
    """Settings of `dpo:` and `steered:`: β · (log π(response | prompt) − log π₀(response | prompt))."""

    reference_revision: str | None = None
    """Commit of the reference on the hub; model.revision is the policy's."""
    adapter: str | None = None
    """PEFT adapter of the policy; without a separate reference, the model with the adapter off is the reference."""
    no_reference: bool = False
    """Plain log-probability of the policy (π₀ = 1)."""
    beta: Annotated[float, Field(gt=0)] = 0.1
    per_token: bool = False
    vector: str | None = None
    """Vector of `steered:`: .npy or .safetensors file of a vector as long as the hidden state."""
    tensor: str | None = None
    """Its name, if a .safetensors file holds several."""
    layer: Annotated[int, Field(ge=0)] | None = None
    """Decoder layer after which it is added, from 0."""
    strength: float = 1.0


class ScoreSection(Section):
    batch_tokens: Positive | None = None
    """Padded tokens in a batch at most. null: 1,024 on a CPU, 8,192 elsewhere (4,096 for log-ratios)."""
    over_length: Literal["cut", "drop", "refuse"] = "cut"
    """Texts beyond model.max_length_tokens: cut at the end and counted, left out and counted, or refused before anything is
    scored."""
    workers: Positive | Literal["auto"] = "auto"
    """Processes that score on a CPU, each with the model in memory. auto: one per core if there is enough to score."""
    cache: str | None = None
    """File of scores, shared by all runs: nothing is scored twice by the same local model. null: score-cache.sqlite next to
    the run folder; `none`: no such file. Scores of a server or of your own function are kept only until the run has used
    them: the same name may later serve another model."""
    self_check: bool = True
    """Score a few texts alone and in a batch when a model is loaded, and warn if the scores differ."""
    judge: JudgeSection = JudgeSection()
    log_ratio: LogRatioSection = LogRatioSection()
    served: ServedOptions = ServedOptions()
