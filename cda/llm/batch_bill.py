"""Money of batches: the most that one could cost is set aside before it is made, and its answers are counted when they are there."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from cda.llm.money import Account


class BatchBill:
    """Bills of batches, paid by an account (None: no price is known). One batch is collected at a time."""

    def __init__(self, account: Account | None, max_tokens: int) -> None:
        self._account, self._max_tokens = account, max_tokens
        self._dollars, self._n_unsaid = 0.0, 0

    def begin(self, part_id: str, n_requests: int, file: Path, running: Collection[str] = ()) -> bool:
        """Set aside the most that a batch could cost, once: every byte of its file a token, and the longest answers. False: not
        before others, of the `running` ones, have ended. LLMError: it could exceed the budget.
        """
        if self._account is None or not file.is_file():
            return True
        most = self._account.price.of(file.stat().st_size, n_requests * self._max_tokens)
        has_room = self._account.purse.begin(most, self._account.budget_usd, part_id, running)
        if has_room is None:
            raise self._account.used_up(
                f"a batch of {n_requests} requests, which cannot be stopped halfway, could cost ${most:.2f} with answers of "
                f"llm.max_tokens={self._max_tokens} tokens (lower that, or use llm.mode=calls)"
            )
        return has_room

    def add(self, input_tokens: int, output_tokens: int) -> None:
        """Count a result of the batch that is collected by its tokens; 0 for what the server does not say."""
        if self._account is not None:
            self._dollars += self._account.price.of(input_tokens, output_tokens)
            self._n_unsaid += not (input_tokens and output_tokens)

    def end(self, part_id: str, n_requests: int, n_missing: int = 0) -> None:
        """Count the batch, whose results are all read; those without a count, and the missing ones that may have been answered,
        each at their share of the most.
        """
        if self._account is not None:
            purse = self._account.purse
            unsaid = purse.batch_set_aside(part_id) * (self._n_unsaid + n_missing) / n_requests
            purse.end(0.0, self._dollars + unsaid, unsaid, part_id)
        self._dollars, self._n_unsaid = 0.0, 0
