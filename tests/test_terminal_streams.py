import io
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cda.inert import width
from cda.terminal import ascii_of, fitted_to_stream, never_fails

SIGNS = "skew 50% ± 3 → 40% … ▲ rewarded ≤ é 中 🎉 \udc80"
COMMANDS = (
    ["list", "biases"],
    ["--help"],
    ["config"],
    ["list", "nonsense"],
    ["audit", "--help"],
)
ALL = "import sys\nfrom cda.cli import main\n" + "".join(
    f"try:\n    main({words})\nexcept SystemExit:\n    pass\n" for words in COMMANDS
) + f"from cda.terminal import put\nput({SIGNS!r})\nput({SIGNS!r}, sys.stdout)\nprint({SIGNS!r})\n"  # fmt: skip


class Screen(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def surroundings(encoding: str, columns: str, **others: str) -> dict[str, str]:
    return (
        os.environ
        | {"PYTHONIOENCODING": encoding, "LANG": "C", "PYTHONUTF8": "0", "COLUMNS": columns, "NO_COLOR": "1"}
        | others
    )


@pytest.mark.parametrize(
    ("encoding", "known"),
    [
        ("ascii", "skew 50% +/- 3 -> 40% ... ^ rewarded <= e ?? ?? ?"),
        ("latin-1", "skew 50% ± 3 -> 40% ... ^ rewarded <= é ?? ?? ?"),
        ("cp1252", "skew 50% ± 3 -> 40% … ^ rewarded <= é ?? ?? ?"),
        ("utf-8", "skew 50% ± 3 → 40% … ▲ rewarded ≤ é 中 🎉 ?"),
    ],
)
def test_signs_have_a_form_in_every_encoding(encoding: str, known: str) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    assert fitted_to_stream(SIGNS, stream) == known
    never_fails(stream)
    print(SIGNS, file=stream, flush=True)
    assert stream.buffer.getvalue().decode(encoding) == known.replace("...", ".") + "\n"


def test_every_sign_of_ours_has_a_form_that_says_something() -> None:
    for sign in "−–—…·•×±≤≥≈≡→←↶▲▽✓✗│─═°“”‘’αβλθµπρσχΔΣ√²½":
        assert ascii_of(sign).isascii() and "?" not in ascii_of(sign)
    assert ascii_of("\u0301") == ""


def test_lines_wrap_at_the_width_of_a_terminal_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    text = "  name    what it does and why it is there, in a sentence of some length\nshort\n" + "汉字" * 20
    assert fitted_to_stream(text, io.StringIO()) == text
    lines = fitted_to_stream(text, Screen()).split("\n")
    assert max(map(width, lines)) <= 30 and "short" in lines
    assert "".join(lines).replace(" ", "") == text.replace(" ", "").replace("\n", "")
    path = "/a/folder/with/a/name/that/is/longer/than/the/terminal.html"
    assert path in fitted_to_stream(f"report      {path}", Screen()).split("\n")


def test_widths_of_marks_wide_and_right_to_left_letters() -> None:
    texts = ("e\u0301", "हिन्दी", "ต้ม", "שָׁלוֹם", "中文", "👍", "a\u200db")
    assert list(map(width, texts)) == [1, 5, 2, 4, 4, 2, 2]


def test_commands_print_in_an_encoding_that_knows_little(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ALL], env=surroundings("ascii", "60"), capture_output=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    said = done.stdout.decode("ascii") + done.stderr.decode("ascii")
    assert "Traceback" not in said and "\x1b" not in said and "-> 40%" in said and "jargon" in said


def test_commands_on_a_narrow_terminal(tmp_path: Path) -> None:
    main, end = pty.openpty()
    script = ALL.replace("print(", "put(")
    with subprocess.Popen(
        [sys.executable, "-c", script],
        env=surroundings("ascii", "40", TERM="xterm"),
        stdin=end,
        stdout=end,
        stderr=end,
        cwd=tmp_path,
    ) as process:
        os.close(end)
        read = bytearray()
        while chunk := _chunk(main):
            read += chunk
    os.close(main)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", read.decode("ascii")).replace("\r\n", "\n").split("\n")
    assert process.returncode == 0 and "Traceback" not in read.decode("ascii")
    assert len(lines) > 200
    assert [line for line in lines if width(line) > 40 and len(line.split()) > 1] == []


def _chunk(file: int) -> bytes:
    try:
        return os.read(file, 65536)
    except OSError:  # Linux says so that the other end is closed
        return b""
