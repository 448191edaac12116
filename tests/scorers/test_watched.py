"""What a user's code reads is noted with its state: files, folders, modules, variables; and nothing of anybody else's."""

from __future__ import annotations

import os
import pickle
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from cda.files.reads import FOLDER, VARIABLE, changed_reads, states
from cda.records import user_prompt
from cda.scorers.own import own_scorer

pytestmark = pytest.mark.usefixtures("modules_as_before")
HEAD = "import os\nfrom pathlib import Path\nHERE = Path(__file__).parent\n"


def read_by(folder: Path, expression: str, before: str = "") -> dict[str, str]:
    """What a scorer has read that gives an expression for every text, without its own file."""
    mine = folder / "mine.py"
    mine.write_text(
        f"{HEAD}{before}\ndef score(prompts, responses):\n    return [float({expression})] * len(responses)\n"
    )
    scorer = own_scorer(f"{mine}:score")
    scorer.score([user_prompt("one")], ["a"])  # type: ignore[union-attr]
    return {name: state for name, state in scorer.code.watch.read.items() if name != str(mine)}


def _array(folder: Path) -> None:
    np.save(folder / "w.npy", np.ones(1))


def _tensor(folder: Path) -> None:
    save_file({"w": np.ones(1)}, folder / "w.safetensors")


def _database(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "w.db")) as database:
        database.execute("CREATE TABLE t AS SELECT 1 AS w")


def _text(folder: Path) -> None:
    (folder / "w.txt").write_text("1")


def _pickled(folder: Path) -> None:
    (folder / "w.pkl").write_bytes(pickle.dumps(1))


@pytest.mark.parametrize(
    ("put", "before", "expression", "file"),
    [
        (_text, "W = (HERE / 'w.txt').read_text()", "W", "w.txt"),
        (_text, "", "open(HERE / 'w.txt').read()", "w.txt"),
        (_text, "", "open(HERE / 'w.txt', 'r+').read()", "w.txt"),
        (_text, "", "os.read(os.open(HERE / 'w.txt', os.O_RDONLY), 1)", "w.txt"),
        (_array, "import numpy as np", "np.load(HERE / 'w.npy')[0]", "w.npy"),
        (_array, "import numpy as np", "np.load(HERE / 'w.npy', mmap_mode='r')[0]", "w.npy"),
        (_tensor, "from safetensors.numpy import load_file", "load_file(HERE / 'w.safetensors')['w'][0]", "w.safetensors"),
        (_tensor, "from safetensors.torch import load_file", "load_file(HERE / 'w.safetensors')['w'][0]", "w.safetensors"),
        (_tensor, "from safetensors import safe_open", "safe_open(HERE / 'w.safetensors', 'np').get_tensor('w')[0]", "w.safetensors"),
        (_database, "import sqlite3", "sqlite3.connect(HERE / 'w.db').execute('SELECT w FROM t').fetchone()[0]", "w.db"),
        (_database, "import sqlite3", "sqlite3.connect(f'file:{HERE}/w.db?mode=ro', uri=True).execute('SELECT w FROM t').fetchone()[0]", "w.db"),
        (_pickled, "import pickle", "pickle.loads((HERE / 'w.pkl').read_bytes())", "w.pkl"),
    ],
)  # fmt: skip
def test_a_file_that_is_read_is_noted_and_a_change_of_it_is_found(
    tmp_path: Path, put: Callable[[Path], None], before: str, expression: str, file: str
) -> None:
    put(tmp_path)
    read = read_by(tmp_path, expression, before)
    # Others may be sources that torch looks at when it is first imported.
    assert [name for name in read if name.startswith(str(tmp_path))] == [str(tmp_path / file)]
    assert changed_reads(read) == []
    stat, content = (tmp_path / file).stat(), bytearray((tmp_path / file).read_bytes())
    content[-1] ^= 1
    (tmp_path / file).write_bytes(content)
    os.utime(tmp_path / file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert changed_reads(read) == [str(tmp_path / file)]


def test_a_missing_file_and_the_names_in_a_folder_count(tmp_path: Path) -> None:
    (tmp_path / "many").mkdir()
    before = "try:\n    open(HERE / 'more.txt')\nexcept OSError:\n    pass"
    read = read_by(tmp_path, "len(list((HERE / 'many').iterdir()))", before)
    missing, listed = str(tmp_path / "more.txt"), f"{FOLDER}{tmp_path / 'many'}"
    assert {*read} == {missing, listed} and read[missing] == "none" and changed_reads(read) == []
    (tmp_path / "more.txt").touch()
    (tmp_path / "many" / "one").touch()
    assert {*changed_reads(read)} == {missing, listed}


@pytest.mark.parametrize(
    "asks",
    [
        "os.environ.get('MY_SIZE', 1)",
        "os.getenv('MY_SIZE') or 1",
        "'MY_SIZE' in os.environ",
        "os.environ.setdefault('MY_SIZE', '1')",
        "os.environb.get(b'MY_SIZE', 1)",
    ],
)
def test_a_variable_that_is_asked_for_counts_and_its_value_is_not_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asks: str
) -> None:
    monkeypatch.delenv("MY_SIZE", raising=False)
    read = read_by(tmp_path, asks)
    monkeypatch.delenv("MY_SIZE", raising=False)
    assert read == {f"{VARIABLE}MY_SIZE": "none"}
    monkeypatch.setenv("MY_SIZE", "secret")
    assert changed_reads(read) == [f"{VARIABLE}MY_SIZE"]
    assert "secret" not in str(states(read))


def test_taking_all_variables_and_what_installed_packages_ask_for_count_not(tmp_path: Path) -> None:
    before = "import subprocess, tempfile\nCOPY = {**os.environ}\nALSO = dict(os.environ)\nTOO = os.environ.copy()"
    assert read_by(tmp_path, "subprocess.run(['true'], env=COPY).returncode", before) == {}


def test_what_the_code_writes_itself_and_what_is_gone_count_not(tmp_path: Path) -> None:
    before = (
        "import tempfile\n(HERE / 'own.txt').write_text('1')\nwith tempfile.TemporaryFile() as own:\n    own.read()"
    )
    before += "\nopen(HERE / 'log.txt', 'a').close()"
    assert read_by(tmp_path, "(HERE / 'own.txt').read_text()", before) == {}
    # Read first, and then written: the next call reads another state.
    assert [*read_by(tmp_path, "open(HERE / 'n.txt', 'w').write('22') and n", _COUNTED)] == [str(tmp_path / "n.txt")]


_COUNTED = "(HERE / 'n.txt').exists() or os.system(f'echo 1 > {HERE}/n.txt')\nn = open(HERE / 'n.txt').read()"


def test_a_module_that_is_imported_by_a_made_up_name_counts_and_is_imported_again_once_changed(tmp_path: Path) -> None:
    (tmp_path / "chosen.py").write_text("N = 1\n")
    before, asks = "import importlib", "importlib.import_module('cho' + 'sen').N"
    assert [*read_by(tmp_path, asks, before)] == [str(tmp_path / "chosen.py")]
    (tmp_path / "chosen.py").write_text("N = 1234\n")
    (tmp_path / "mine.py").write_text(
        f"{HEAD}{before}\ndef score(prompts, responses):\n    return [{asks}] * len(responses)\n"
    )
    again = own_scorer(f"{tmp_path / 'mine.py'}:score")
    assert again.score([user_prompt("one")], ["a"]).tolist() == [1234.0]  # type: ignore[union-attr]
