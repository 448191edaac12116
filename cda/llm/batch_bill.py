"""Money of batches: the most that one could cost is set aside before it is made, and its answers are counted when they are there."""

from __future__ import annotations

from pathlib import Path

from cda.llm.money import Account
from cda.llm.outcome import Again
from cda.llm.protocol import Completion


class BatchBill:
    """Bills of batches, paid by an account (None: no price is known). One batch is collected at a time."""

    def __init__(self, account: Account | None, max_tokens: int) -> None:
        self._account, self._max_tokens = account, max_tokens
        self._dollars, self._n_unsaid = 0.0, 0

    def begin(self, part_id: str, n_requests: int, file: Path) -> bool:
        """Set aside the most that a batch could cost, once: every byte of its file a token, and the longest answers. False: not
        before other batches have ended. LLMError: it could exceed the budget.
        """
        if self._account is None or not file.is_file():
            return True
        most = self._account.price.of(file.stat().st_size, n_requests * self._max_tokens)
        has_room = self._account.purse.begin(most, self._account.budget_usd, part_id)
        if has_room is None:
            raise self._account.used_up(
                f"a batch of {n_requests} requests, which cannot be stopped halfway, could cost ${most:.2f} with answers of "
                f"llm.max_tokens={self._max_tokens} tokens (lower that, or use llm.mode=calls)"
            )
        return has_room

    def add(self, answer: Completion | Again) -> None:
        """Count an answer of the batch that is collected."""
        if self._account is not None:
            self._dollars += self._account.price.of(answer.input_tokens, answer.output_tokens)
            self._n_unsaid += not (answer.input_tokens and answer.output_tokens)

    def end(self, part_id: str, n_requests: int) -> None:
        """Count the batch, whose answers are all read; those without a count each at their share of the most."""
        if self._account is not None:
            purse = self._account.purse
            unsaid = purse.batch_set_aside(part_id) * self._n_unsaid / n_requests
            purse.end(0.0, self._dollars + unsaid, unsaid, part_id)
        self._dollars, self._n_unsaid = 0.0, 0
