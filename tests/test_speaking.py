"""What cda says goes through logging: a command prints it, a program decides for itself."""

from __future__ import annotations

import subprocess
import sys

import pytest

from cda.launch import say
from cda.user_errors import speaking


def test_a_command_prints_each_message_once(capsys: pytest.CaptureFixture[str]) -> None:
    with speaking(), speaking():
        say("one\x1b[2J")
    assert capsys.readouterr().out == "one[U+001B][2J\n"


def test_a_program_hears_it_through_logging_alone() -> None:
    program = (
        "import logging; from cda.launch import say; say('unheard')\n"
        "logging.basicConfig(level=logging.INFO, format='%(name)s: %(message)s'); say('heard')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "cda: heard\n")


def test_after_a_command_the_logger_is_as_it_was() -> None:
    program = (
        "import logging; from cda.launch import say; from cda.user_errors import speaking\n"
        "with speaking(): say('heard')\n"
        "log = logging.getLogger('cda'); print(log.handlers, log.level, log.propagate); say('unheard')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "heard\n[] 0 True\n"
