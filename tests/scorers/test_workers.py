"""Work shared out: every batch computed once by some thread, failures told, no thread left behind; even shares of a launch."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from summed import summed_model

from cda.arrays import FloatArray
from cda.errors import ModelError, RunError
from cda.models.template import Encoded
from cda.scorers.batching import Batch, Exchange, dealt, forward, in_threads, token_ids

ROOT = Path(__file__).parent.parent.parent
ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), str(ROOT)])}
# Nine batches of different lengths.
GIVEN: list[Batch] = [
    {row: Encoded([1, 2 + row] * (1 + row), False), row + 9: Encoded([3 + row], False)} for row in range(9)
]


def test_every_batch_gets_the_rewards_of_this_thread_until_one_fails() -> None:
    asked: list[int] = []

    def following() -> Iterator[Batch]:
        for batch in GIVEN:
            asked.append(min(batch))
            yield batch

    def compute(batch: Batch) -> FloatArray:
        assert torch.get_num_threads() == 2  # half of the four
        return forward(summed_model(), token_ids(batch))

    before = torch.get_num_threads()
    torch.set_num_threads(4)
    try:
        answered = 0
        for batch, rewards in in_threads(compute, following(), 2):
            answered += 1
            # A thread has one batch at most, so that no more can be lost; and the texts are not all fetched beforehand.
            assert len(asked) <= answered + 2
            np.testing.assert_allclose(rewards, forward(summed_model(), token_ids(batch)), atol=1e-5, rtol=0)
        assert sorted(asked) == list(range(9)) and answered == 9
        assert list(in_threads(compute, [], 2)) == []
        unknown: Batch = {0: Encoded([10**6], False)}
        with pytest.raises(IndexError, match="index out of range"):
            list(in_threads(compute, [*GIVEN[:3], unknown, *GIVEN], 2))
        assert torch.get_num_threads() == 4
    finally:
        torch.set_num_threads(before)
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("cda-score")]


ENDLESS = """
import itertools
from summed import summed_model
from cda.models.template import Encoded
from cda.scorers.batching import forward, token_ids
from cda.scorers.batching import in_threads

model = summed_model()
batches = ({0: Encoded([1, 5, 6], False)} for _ in itertools.count())
for at, _ in enumerate(in_threads(lambda batch: forward(model, token_ids(batch)), batches, 2)):
    if at == 3:
        print("under way", flush=True)
"""


def test_ctrl_c_ends_scoring(tmp_path: Path) -> None:
    script = tmp_path / "endless.py"
    script.write_text(ENDLESS, encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, str(script)],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        # A suite that a shell runs in its background is deaf to Ctrl-C, and so would be what it starts.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "under way\n", process.communicate()[1]
    process.send_signal(signal.SIGINT)
    _, problems = process.communicate(timeout=60)
    assert process.returncode != 0
    assert problems.count("Traceback") == problems.count("KeyboardInterrupt") == 1


@pytest.mark.parametrize("n", [1, 2, 3, 8])
def test_shares_are_even_in_number_and_in_every_measure_of_size(n: int) -> None:
    sizes = np.random.default_rng(0).lognormal(6, 1, 1000).astype(int)
    hands = dealt(sizes.tolist(), n)
    assert sorted(row for hand in hands for row in hand) == list(range(1000))
    assert max(map(len, hands)) - min(map(len, hands)) <= 1
    for measure in (sizes, np.minimum(sizes, 512)):  # 512: as they are cut
        sums = [measure[hand].sum() for hand in hands]
        assert max(sums) - min(sums) <= measure.max()
    assert dealt([], 2) == [[], []] and dealt([5], 2) == [[0], []]


AsProcess = Callable[[int], None]


@pytest.fixture
def as_process(monkeypatch: pytest.MonkeyPatch) -> AsProcess:
    """This process is one of two."""
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("MASTER_PORT", "1")
    return lambda number: monkeypatch.setenv("RANK", str(number))


def exchanged(folder: Path, name: str, *rows: object) -> list[dict[str, object]]:
    return list(Exchange(folder, name, poll_s=0.01).gathered(lambda: rows))


def test_a_failure_is_told_and_forgotten_by_the_next_attempt(as_process: AsProcess, tmp_path: Path) -> None:
    def fails() -> list[object]:
        raise ModelError("m: 3 of 9 rewards are NaN")

    as_process(1)
    with pytest.raises(ModelError, match="3 of 9"):
        list(Exchange(tmp_path, "a").gathered(fails))
    as_process(0)
    with pytest.raises(
        RunError, match=r"process 1 of 2 failed while process 0 waited for process 1: m: 3 of 9 rewards"
    ):
        exchanged(tmp_path, "a", {"x": 1})
    as_process(1)
    assert exchanged(tmp_path, "a", {"x": 2}) == [{"x": 1}, {"x": 2}]
