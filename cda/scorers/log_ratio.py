"""Rewards by causal language models: β · (log π(response | prompt) − log π₀(response | prompt)), in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from cda.arrays import FloatArray
from cda.errors import ModelError
from cda.models.adapters import replaced_tensors
from cda.models.causal import CausalModel, ResponseSpan, response_spans, span_notes
from cda.records import content_id
from cda.scorers.batching import SameTokens, TextBar, batch_budget, batches, characters, row_groups
from cda.scorers.compared import Finished, Text, TextScore, TextScorer

if TYPE_CHECKING:
    import torch

_SLICE_LOGITS = 2**25  # logits that are held in fp32 at once: 128 MiB
_CHUNK = 256
"""Texts whose scores come together, and may be lost by a kill."""


def log_probabilities(
    causal: CausalModel,
    spans: Mapping[int, ResponseSpan],
    batch_tokens: int | None = None,
    done: Callable[[Sequence[int]], object] = lambda _: None,
) -> FloatArray:
    """log π(response | prompt) of each text in the model's present state, summed over the response's tokens.

    Natural logarithms, shape (n,) in the order of `spans`, at most 0; NaN and infinity are passed on. Padding is always
    on the right, where a causal model's tokens cannot attend to it. Logits come in the model's precision, log-sum-exp
    in fp32, sums in fp64. `done` is called with each batch's rows. ModelError if the model lacks a token's embedding.
    """
    import torch

    _check_token_ids(causal, spans.values())
    sums: dict[int, float] = {}
    budget = batch_budget(batch_tokens, causal.model.device.type)
    with torch.inference_mode():
        for batch in batches({row: span.encoded for row, span in spans.items()}, budget):
            sums.update(zip(batch, map(float, _summed(causal.model, [spans[row] for row in batch])), strict=True))
            done(list(batch))
    return np.array([sums[row] for row in spans], dtype=np.float64)


def _summed(model: Any, spans: Sequence[ResponseSpan]) -> FloatArray:
    """One batch's sums, shape (rows,)."""
    import torch

    width = max(len(span.encoded.ids) for span in spans)
    input_ids = torch.zeros((len(spans), width), dtype=torch.long)
    mask = torch.zeros_like(input_ids)
    # The position before each response token tells that token's probability.
    before = torch.zeros_like(input_ids, dtype=torch.bool)
    for row, span in enumerate(spans):
        length = len(span.encoded.ids)
        input_ids[row, :length] = torch.tensor(span.encoded.ids)
        mask[row, :length] = 1
        before[row, span.start - 1 : length - 1] = True
    targets = torch.cat([torch.tensor(span.encoded.ids[span.start :]) for span in spans]).to(model.device)
    logits = _logits_at(model, input_ids.to(model.device), mask.to(model.device), before.to(model.device))
    by_token = _log_softmax_at(logits, targets).cpu().numpy()
    starts = np.cumsum([0, *(span.n_tokens for span in spans[:-1])])
    return np.add.reduceat(by_token, starts)


def _logits_at(model: Any, input_ids: torch.Tensor, mask: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """Logits at the marked positions alone, row by row, shape (marked, vocabulary)."""
    bare = model.get_base_model() if hasattr(model, "peft_config") else model
    if type(bare).__module__.startswith("transformers.models."):
        # The output layer then runs at these positions only; a mask of them is understood by all of the library's own models.
        chosen = model(input_ids=input_ids, attention_mask=mask, logits_to_keep=positions).logits
        if chosen.shape[0] == int(positions.sum()) and chosen.ndim == 2:
            return chosen  # type: ignore[no-any-return]
    return model(input_ids=input_ids, attention_mask=mask).logits[positions]  # type: ignore[no-any-return]


def _log_softmax_at(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """log p(target) of each row, fp64, shape (rows,); only a slice of the logits is ever held in fp32."""
    import torch

    step = max(1, _SLICE_LOGITS // logits.shape[-1])
    parts = []
    for part, aim in zip(torch.split(logits, step), torch.split(targets, step), strict=True):
        exact = part.float()
        parts.append(exact.gather(1, aim[:, None])[:, 0].double() - exact.logsumexp(-1).double())
    return torch.cat(parts)


def _check_token_ids(causal: CausalModel, spans: Iterable[ResponseSpan]) -> None:
    rows = int(causal.model.get_input_embeddings().weight.shape[0])
    highest = max((max(span.encoded.ids) for span in spans), default=0)
    if highest >= rows:
        token = causal.template.tokenizer.convert_ids_to_tokens(highest)
        raise ModelError(
            f"{causal.name}: the texts hold token {highest} ({token!r}), but the model knows {rows} tokens. "
            "Its tokenizer belongs to another model"
        )


@dataclass(frozen=True, slots=True)
class Policy:
    """A causal model in one state: as it was loaded, or with its adapter off. `state` puts the model into its
    state and back, around some batches at a time; the `note` says it after the model's name.
    """

    causal: CausalModel
    state: Callable[[], AbstractContextManager[Any]] = nullcontext
    note: str = ""

    @property
    def name(self) -> str:
        return f"{self.causal.name} {self.note}".rstrip()


def adapter_off(causal: CausalModel) -> Policy:
    """The base under a model's adapter: the reference of a DPO adapter, without loading a second model. ModelError if
    there is no adapter, or it trained biases or replaced embeddings of the base, which cannot be switched off.
    """
    if causal.adapter is None:
        raise ModelError(f"{causal.name}: has no adapter to switch off; give a separate reference model")
    biases = {config.bias for config in causal.model.peft_config.values() if hasattr(config, "bias")} - {"none"}
    if biases:
        raise ModelError(
            f"{causal.adapter}: trained the base's biases too (bias={biases.pop()}), which stay when it is switched off. "
            "Load the base once more as the reference"
        )
    if replaced := replaced_tensors(causal.adapter):
        raise ModelError(
            f"{causal.adapter}: replaces the base's {replaced[0]}, which stays when it is switched off. "
            "Load the base once more as the reference"
        )
    return Policy(causal, causal.model.disable_adapter, "(adapter off)")


@dataclass
class LogRatioScorer(TextScorer):
    """A scorer over a policy and its reference: β · (log π(response | prompt) − log π₀(response | prompt)).

    Reference None: π₀ = 1, plain log-probability, which favours short responses unless divided `per_token`. β (DPO's
    default is 0.1) sets the unit, no sign, no rank. `batch_tokens`, None: 1,024 on a CPU, else 4,096, whose logits take
    1 GiB in bf16 for 128,000 words. ModelError if β is not positive, or the two cannot read the same tokens.
    """

    policy: Policy
    reference: Policy | None
    beta: float = 0.1
    per_token: bool = False
    batch_tokens: int | None = None
    label: str | None = None

    def __post_init__(self) -> None:
        if not (np.isfinite(self.beta) and self.beta > 0):
            raise ModelError(f"beta={self.beta}: must be a positive number, as 0.1")
        if self.reference is not None:
            _check_same_tokens(self.policy.causal, self.reference.causal)

    @property
    def name(self) -> str:
        return f"{self.policy.name} against {self.reference.name}" if self.reference else self.policy.name

    @property
    def precision(self) -> str:
        return self.policy.causal.spec.precision

    @property
    def unit(self) -> str:
        """Unit of a reward, for reports; without a reference it is named a log-probability."""
        what = "log-ratio" if self.reference else "log-probability"
        return f"{self.beta:g} × {what} ({'mean per token' if self.per_token else 'sum over tokens'}, nats)"

    def notes(self) -> list[str]:
        """Fallbacks in use, each as a sentence for the user."""
        notes = span_notes(self.policy.causal.template)
        if self.reference is None:
            notes.append("No reference model: the reward is the policy's log-probability, not a log-ratio.")
            return notes
        policy, reference = self.policy.causal, self.reference.causal
        if policy.template.tokenizer.chat_template != reference.template.tokenizer.chat_template:
            notes.append("The reference has another chat template; the policy's is used for both.")
        if policy.spec.precision != reference.spec.precision:
            notes.append(
                f"Policy and reference differ in precision ({policy.spec.precision}, {reference.spec.precision}); "
                "the log-ratio holds that difference too."
            )
        return notes

    def in_batches(
        self, texts: Sequence[Text], skip: frozenset[int] = frozenset(), known: Mapping[str, float] | None = None
    ) -> Generator[Finished, None, None]:
        """Rewards some hundred texts at a time; positive: the policy makes the response likelier than the reference
        does. NaN and infinity are passed on; no reward if the prompt alone fills max_length_tokens. ModelError if the
        chat template does not show the start of responses, or the tokenizer is another model's.
        """
        n, n_policies = len(texts), 2 if self.reference else 1
        asked = [rows for rows in row_groups(n, _CHUNK) if not skip.issuperset(rows)]
        same = SameTokens(skip, known or {})
        left = frozenset(row for rows in asked for row in rows)
        done = frozenset(row for row in range(n * n_policies) if row % n not in left)
        sizes = [characters(*text) for text in texts]
        label = f"{self.label} (policy and reference)" if self.label and self.reference else self.label
        with TextBar(sizes * n_policies, done, label) as bar:
            for rows in asked:
                found = response_spans(self.policy.causal.template, [texts[row] for row in rows])
                spans = {row: span for row, span in zip(rows, found, strict=True) if span is not None}
                computed = {row: span for row, span in spans.items() if _is_first(same, row, span)}
                bar.scored([number * n + row for number in range(n_policies) for row in rows if row not in computed])
                unread = [(row, TextScore(None)) for row in rows if row not in spans]
                yield [*same.scored(zip(computed, self._rewards(computed, bar, n), strict=True)), *unread]
            if others := same.others():
                yield others

    def _rewards(self, spans: Mapping[int, ResponseSpan], bar: TextBar, n: int) -> list[float]:
        """Rewards of spans by row; the bar counts the policy's n texts first, then the reference's."""
        sums = list[FloatArray]()
        for start, policy in ((0, self.policy), (n, self.reference)):
            if policy is not None:
                count = partial(_count, bar, start)
                with policy.state():
                    sums.append(log_probabilities(policy.causal, spans, self.batch_tokens, count))
        log_ratio = sums[0] - sums[1] if self.reference else sums[0]
        if self.per_token:
            log_ratio = log_ratio / np.array([span.n_tokens for span in spans.values()], dtype=np.float64)
        return [float(reward) for reward in self.beta * log_ratio]


def _is_first(same: SameTokens, row: int, span: ResponseSpan) -> bool:
    # The same tokens with the response beginning elsewhere have another probability.
    return same.is_first(row, content_id("read", span.encoded.ids, span.start), span.encoded.truncated)


def _count(bar: TextBar, start: int, rows: Sequence[int]) -> None:
    bar.scored([start + row for row in rows])


def _check_same_tokens(policy: CausalModel, reference: CausalModel) -> None:
    """A log-ratio is of one sequence of tokens, so each id must stand for the same token in both."""
    if policy.model is reference.model:
        return
    first, second = policy.template, reference.template
    ours, theirs = dict(first.tokenizer.get_vocab()), dict(second.tokenizer.get_vocab())
    differing = {token for token in ours.keys() | theirs.keys() if ours.get(token) != theirs.get(token)}
    # A padding token is often added in training, and no text holds it.
    differing -= {first.tokenizer.pad_token, second.tokenizer.pad_token} - (ours.keys() & theirs.keys())
    if differing:
        example = min(differing)
        raise ModelError(
            f"{policy.name} and {reference.name}: their vocabularies differ in {len(differing)} tokens (first: {example!r}, "
            f"id {ours.get(example)} against {theirs.get(example)}), so they read no common tokens. "
            "The reference must be the model that the policy was trained from"
        )
    if second.max_length_tokens < first.max_length_tokens:
        raise ModelError(
            f"{reference.name}: reads {second.max_length_tokens} tokens at most and {policy.name} "
            f"{first.max_length_tokens}; set model.max_length_tokens={second.max_length_tokens} for both"
        )
