"""A user's own scorer: found, called with messages, and every mistake named at the user's own file and line."""

from __future__ import annotations

import os
import pickle
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import packaging.specifiers
import pytest
from safetensors.numpy import save_file

from cda.errors import ModelError
from cda.files.reads import FOLDER, VARIABLE, changed_reads, states
from cda.records import Message, Prompt, user_prompt
from cda.scorers import own
from cda.scorers.compared import BothOrders
from cda.scorers.own import own_scorer
from cda.scorers.own_code import own_files

pytestmark = pytest.mark.usefixtures("modules_as_before")
PROMPTS: list[Prompt] = [
    user_prompt("one"),
    (Message("system", "be brief"), Message("user", "two"), Message("assistant", "hm"), Message("user", "three words")),
    user_prompt("four"),
]


def written(folder: Path, code: str, name: str = "mine.py") -> str:
    (folder / name).write_text(dedent(code))
    return str(folder / name)


def scorer(folder: Path, code: str) -> Any:
    return own_scorer(f"{written(folder, code)}:score")


def test_a_function_of_two_parameters_gives_rewards(tmp_path: Path) -> None:
    code = """
    calls = []

    def score(prompts, responses, weight=10):
        calls.append(prompts)
        return [weight * len(prompt) + len(response) for prompt, response in zip(prompts, responses)]
    """
    mine = scorer(tmp_path, code)
    rewards = mine.score(PROMPTS, ["a", "bb", "ccc"])
    assert rewards.tolist() == [11.0, 42.0, 13.0]
    assert rewards.dtype == np.float64
    seen = mine.code.function.__globals__["calls"][0]
    # Messages in one shape, also where there is one only.
    assert seen[0] == [{"role": "user", "content": "one"}]
    assert [turn["role"] for turn in seen[1]] == ["system", "user", "assistant", "user"]


@pytest.mark.parametrize(
    ("preference", "expected", "orders"),
    [
        ("float('nan') if a == b else 1 if a > b else -1", [1.0, -1.0, np.nan], BothOrders(n_unread=1, by_place=(False, False, None), position_bias=0.0)),
        # A taste for the first place cancels and is counted.
        ("1.0", [0.0, 0.0, 0.0], BothOrders(by_place=(True, True, True), position_bias=1.0)),
        # A margin is half of the difference between the orders.
        ("{'y': 0.75, 'x': -0.25, 's': 0.25}[a]", [0.5, -0.5, 0.0], BothOrders(by_place=(False, False, True), position_bias=0.25)),
        # A verdict in one order alone counts.
        ("float('nan') if a == 'y' else 1.0", [-1.0, 1.0, 0.0], BothOrders(n_half_read=2, by_place=(None, None, True), position_bias=1.0)),
    ],
)  # fmt: skip
def test_a_function_of_three_parameters_gives_preferences(
    tmp_path: Path, preference: str, expected: list[float], orders: BothOrders
) -> None:
    code = f"def score(prompts, first, second): return [{preference} for a, b in zip(first, second)]"
    mine, sides = scorer(tmp_path, code), (["y", "x", "s"], ["x", "y", "s"])
    np.testing.assert_array_equal(mine.margin(PROMPTS, *sides), expected)
    assert mine.orders == orders
    assert mine.settings["orders"] == "both"  # in one order, as once, it is another result
    needed = replace(mine, both_orders=True).margin(PROMPTS, *sides)
    assert np.isnan(needed).sum() == orders.n_unread + orders.n_half_read


def test_a_preference_is_between_minus_one_and_one(tmp_path: Path) -> None:
    mine = scorer(tmp_path, "def score(p, a, b): return [0, 3.5, -1]")
    with pytest.raises(ModelError, match=r"comparison 2 is 3.5; .* −1 .the second. and 1"):
        mine.margin(PROMPTS, ["a"] * 3, ["b"] * 3)


def test_calls_hold_so_many_rows_and_keep_what_came_before_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own, "BATCH_ROWS", 2)
    code = """
    def score(prompts, responses):
        if "bad" in responses:
            raise ValueError("no such word")
        return [len(responses)] * len(responses)
    """
    kept: dict[int, float | None] = {}
    with pytest.raises(ModelError, match=r"mine\.py:4: ValueError: no such word \(.*texts 5 to 5\)"):
        for finished in scorer(tmp_path, code).in_batches([(PROMPTS[0], text) for text in ("a", "b", "c", "d", "bad")]):
            kept |= {row: score.reward for row, score in finished}
    assert kept == {0: 2.0, 1: 2.0, 2: 2.0, 3: 2.0}


def test_a_package_of_the_current_folder_and_an_object_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "ownpackage"
    package.mkdir()
    written(package, "", "__init__.py")
    written(package, "def of(text):\n    return len(text)\n", "length.py")
    code = """
    from .length import of

    class Model:
        def __init__(self, sign):
            self.sign = sign
        def reward(self, prompts, responses):
            return [self.sign * of(one) for one in responses]
        __call__ = reward

    shorter = Model(-1)
    """
    written(package, code, "models.py")
    monkeypatch.chdir(tmp_path)
    for name in ("ownpackage.models:shorter", "ownpackage.models:shorter.reward"):
        mine: Any = own_scorer(name)
        assert mine.name == name
        assert mine.score(PROMPTS[:2], ["a", "bbb"]).tolist() == [-1.0, -3.0]


def test_a_file_imports_what_lies_beside_it_and_hides_no_module(tmp_path: Path) -> None:
    written(tmp_path, "FACTOR = 3\n", "besides_mine.py")
    code = "from besides_mine import FACTOR\ndef score(prompts, responses):\n    return [FACTOR] * len(responses)\n"
    mine: Any = own_scorer(f"{written(tmp_path, code, 'json.py')}:score")
    assert mine.score(PROMPTS[:1], ["x"]).tolist() == [3.0]
    import json

    assert json.loads("1") == 1


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ("(1.0, 2, 3.0)", None),
        ("__import__('numpy').array([1, 2, 3], 'float32')", None),
        ("__import__('torch').tensor([1.0, 2, 3], requires_grad=True).bfloat16()", None),
        ("None", "returned nothing; it gets lists, and must return 3 numbers"),
        ("[1, 2]", "returned 2 values; it gets lists, and must return 3 numbers"),
        ("[1]", "returned 1 value; it gets lists, and must return 3 numbers"),
        ("[[1], [2], [3]]", r"array of shape \(3, 1\)"),
        ("[[1], [2, 3], [4]]", "cannot be read"),
        ("1.5", "returned a number"),
        ("(one for one in (1, 2, 3))", "returned a generator"),
        ("{1: 2}", "returned a dict"),
        ("'123'", "returned text"),
        ("[1, 'two', 3]", "value 2 is 'two', no number"),
        ("[1, 2, None]", "value 3 is None, no number"),
        ("[True, False, True]", "value 1 is True, no number"),
        ("[1, True, None]", "value 2 is True, no number"),
        ("[1, 2j, 3]", "value 2 is 2j, no number"),
        ("[1, float('nan'), float('inf')]", "2 of 3 rewards are NaN, infinite or beyond 1e.100 .first: text 2"),
        ("[1e100, 1, -1e101]", "1 of 3 rewards are NaN, infinite or beyond 1e.100 .first: text 3"),
    ],
)
def test_numbers_in_any_container_are_taken_and_anything_else_is_named(
    tmp_path: Path, returned: str, message: str | None
) -> None:
    mine = scorer(tmp_path, f"def score(prompts, responses):\n    return {returned}\n")
    if message is None:
        assert mine.score(PROMPTS, ["a", "b", "c"]).tolist() == [1.0, 2.0, 3.0]
        return
    with pytest.raises(ModelError, match=message):
        mine.score(PROMPTS, ["a", "b", "c"])


@pytest.mark.parametrize(
    ("definition", "message"),
    [
        ("def score(texts): pass", r"needs the parameters \(texts\); it must need two"),
        ("def score(a, b, c, d): pass", r"\(a, b, c, d\)"),
        ("def score(*texts): pass", r"needs the parameters \(\)"),
        ("def score(prompts, responses, *, device): pass", r"\(prompts, responses, device\)"),
        ("class score:\n    def __call__(self, prompts, responses): pass", "is a class; name a function, or an object"),
        ("async def score(prompts, responses): pass", "is async or a generator"),
        ("def score(prompts, responses): yield 1", "is async or a generator"),
        ("score = 3", "is no function"),
        (
            "from os.path import join\ndef score_all(p, r): return []\ndef other(p, r): return []\n",
            r"has no 'score'. Did you mean 'score_all'\? It has: other, score_all$",
        ),
    ],
)
def test_what_takes_neither_two_nor_three_is_refused(tmp_path: Path, definition: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        scorer(tmp_path, definition)


def test_missing_files_and_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    missing = {
        "nowhere.py:score": r"nowhere\.py: no such file",
        "nowhere_at_all.models:score": "no module 'nowhere_at_all'",
    }
    odd = ("score", "mine.py", "a b:score", "mine.py:", "http://localhost:8000")
    for name, message in (missing | dict.fromkeys(odd, "is no scorer of your own")).items():
        with pytest.raises(ModelError, match=message):
            own_scorer(name)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import os\nimport not_installed_anywhere\n", r"mine\.py:2: ModuleNotFoundError: No module named 'not_inst"),
        ("def score(p, r)\n    return 1\n", r"mine\.py:1: SyntaxError"),
        ("x = 1\n\ny = x / 0\n", r"mine\.py:3: ZeroDivisionError: division by zero \(while"),
        ("import sys\nsys.exit(2)\n", r"mine\.py:2: it ends the program .*__main__"),
    ],
)
@pytest.mark.parametrize("as_module", [False, True])
def test_errors_while_loading_name_the_users_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, message: str, as_module: bool
) -> None:
    written(tmp_path, code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModelError, match=message):
        own_scorer("mine:score" if as_module else "mine.py:score")


def test_an_error_in_a_library_names_the_users_line(tmp_path: Path) -> None:
    code = """
    import json

    def inner(text):
        return json.loads(text)

    def score(prompts, responses):
        return [inner(one) for one in responses]
    """
    with pytest.raises(ModelError, match=r"mine\.py:5: JSONDecodeError") as caught:
        scorer(tmp_path, code).score(PROMPTS[:1], ["no json"])
    assert "Traceback" not in str(caught.value) and "cda/scorers" not in str(caught.value)


@pytest.mark.parametrize(
    ("imported", "statement"),
    [
        ("helper.py", "from helper import VALUE"),
        ("helper.py", "import helper; VALUE = helper.VALUE"),
        ("tools/helper.py", "from tools.helper import VALUE"),
        ("tools/helper.py", "from tools import helper; VALUE = helper.VALUE"),
        ("tools/__init__.py", "from tools import VALUE"),
        ("helper.py", "from between import VALUE"),
    ],
)
def test_settings_change_with_the_file_and_what_it_imports_from_its_own_folder(
    tmp_path: Path, imported: str, statement: str
) -> None:
    written(tmp_path, "def late():\n    from helper import VALUE\nVALUE = 0\n", "between.py")
    (tmp_path / "tools").mkdir()
    found = []
    for text in ("VALUE = 1", "VALUE = 2", "VALUE = 1"):
        written(tmp_path, text, imported)
        mine = scorer(tmp_path, f"{statement}\nimport json\ndef score(prompts, responses): return [VALUE]")
        found.append(mine.settings)
        for name in ("helper", "between", "tools", "tools.helper"):
            sys.modules.pop(name, None)
    assert found[0] == found[2] != found[1]
    changed = scorer(tmp_path, f"{statement}\ndef score(prompts, responses): return [7]")
    assert changed.settings != found[2]
    assert changed.score(PROMPTS[:1], ["x"]).tolist() == [7.0]  # the file is read anew, too


def test_settings_are_of_the_function_s_own_code_alone(tmp_path: Path) -> None:
    """Other files beside it, installed packages and what runs meanwhile are no part of it."""
    code = "import numpy\ndef score(prompts, responses): return [0]"
    before = scorer(tmp_path, code).settings
    written(tmp_path, "VALUE = 1", "other.py")
    assert scorer(tmp_path, code).settings == before
    (mine,) = own_files(Path(np.__file__).parent / "version.py", "numpy.version")
    assert mine.name == "version.py"
    file = Path(packaging.specifiers.__file__)
    inside = own_files(file, "packaging.specifiers")
    assert inside[0] == file and 1 < len(inside) < 30 and all(file.parent in path.parents for path in inside)


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
