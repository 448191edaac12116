"""A number that is missing after a training stays apart from a model without a training, in memory and from a file."""

from __future__ import annotations

import pytest

from cda.results.base import NOT_TRAINED, BeforeAfter, Estimate, Missing

BEFORE = Estimate(value=0.8, low=0.7, high=0.9, n=9, n_prompts=9, unit="share", method="by hand")
GONE = Missing(reason="no margin is left")


@pytest.mark.parametrize("read", [False, True])
def test_a_value_missing_after_a_training_is_no_model_without_a_training(read: bool) -> None:
    trained, alone = BeforeAfter(before=BEFORE, after=GONE, change=GONE), BeforeAfter(before=BEFORE)
    if read:
        trained, alone = (BeforeAfter.model_validate_json(each.model_dump_json()) for each in (trained, alone))
    assert trained.is_trained and trained.last == trained.of("after") == GONE
    assert list(trained.items()) == [("before", BEFORE), ("after", GONE)]
    assert not alone.is_trained and alone.last == alone.of("model") == BEFORE and alone.after == NOT_TRAINED
    with pytest.raises(KeyError):
        trained.of("model")
