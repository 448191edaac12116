"""Errors and messages as a user meets them: every mistake at once, a full disk in whichever words it comes, each line once."""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path

import pytest

from cda.errors import DataError, did_you_mean, refuse
from cda.launch import say
from cda.user_errors import disk_is_full, explain, speaking, user_errors


def test_a_few_problems_are_all_told_and_of_many_the_first_ten() -> None:
    refuse([])
    with pytest.raises(DataError, match="one\ntwo"):
        refuse(["one", "two"])
    with pytest.raises(DataError) as caught:
        refuse([f"problem {number}" for number in range(12)], "more rows")
    assert str(caught.value).splitlines()[9:] == ["problem 9", "… and 2 more rows"]


def test_a_notebook_shows_the_message_alone(capsys: pytest.CaptureFixture[str]) -> None:
    shell = pytest.importorskip("IPython.core.interactiveshell").InteractiveShell
    assert not shell().run_cell("from cda.errors import DataError\nraise DataError('a.jsonl: no pair')").success
    said = "".join(capsys.readouterr())
    assert "DataError: a.jsonl: no pair" in said and "Traceback" not in said and "--->" not in said


@pytest.mark.parametrize(
    ("word", "expected"),
    [("jargn", " Did you mean 'jargon'?"), ("lenght", " Did you mean 'length'?"), ("zzz", ""), ("", "")],
)
def test_did_you_mean(word: str, expected: str) -> None:
    assert did_you_mean(word, ["length", "jargon"]) == expected


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        OSError(errno.EFBIG, "File too large"),
        RuntimeError("I/O error: No space left on device (os error 28)"),
        RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 551488 vs 551380"),
    ],
)
def test_a_full_disk_is_known_by_its_number_and_by_the_words_of_libraries(error: Exception) -> None:
    assert disk_is_full(error)
    assert "the disk is full" in str(explain(error))
    assert not disk_is_full(OSError(errno.ENOENT, "No such file")) and explain(ValueError("a fault of ours")) is None


@pytest.mark.parametrize("kind", ["AcceleratorError", "RuntimeError"])
def test_a_gpu_that_fails_is_one_sentence(kind: str) -> None:
    error = type(kind, (RuntimeError,), {})(
        "CUDA error: unspecified launch failure\nCUDA kernel errors might be reported later"
    )
    said = str(explain(error))
    assert said.startswith("the GPU failed (CUDA error: unspecified launch failure). Finished stages")
    assert "CUDA_VISIBLE_DEVICES=" in said and "\n" not in said


def test_torch_on_a_full_disk_is_known() -> None:
    torch = pytest.importorskip("torch")
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    with pytest.raises(RuntimeError) as caught:
        torch.save({"weights": torch.zeros(100_000)}, "/dev/full")
    assert disk_is_full(caught.value)


def test_a_command_prints_each_message_once(capsys: pytest.CaptureFixture[str]) -> None:
    with speaking(), speaking():
        say("one\x1b[2J")
    assert capsys.readouterr().out == "one[U+001B][2J\n"


def test_a_program_hears_it_through_logging_alone_and_after_a_command_its_logger_is_as_it_was() -> None:
    program = (
        "import logging; from cda.launch import say; from cda.user_errors import speaking\n"
        "with speaking(): say('heard')\n"
        "log = logging.getLogger('cda'); print(log.handlers, log.level, log.propagate); say('unheard')\n"
        "logging.basicConfig(level=logging.INFO, format='%(name)s: %(message)s'); say('logged')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("heard\n[] 0 True\n", "cda: logged\n")


def test_a_tokenizer_that_gives_up_over_a_text_is_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    from tokenizers import Regex, pre_tokenizers

    split = pre_tokenizers.Split(Regex("(a+)+$"), "isolated")
    with pytest.raises(SystemExit) as ended, user_errors():
        split.pre_tokenize_str("a" * 30 + "!")
    assert ended.value.code == 2
    assert "error: the tokenizer gave up over a text (Onig: Regex search error" in capfd.readouterr().err
