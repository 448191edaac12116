"""Claim: nothing that was measured before is reused once what decides it has changed in its place, and it is reused where nothing
has. Each attempt audits, gives the same command again, changes one thing and gives it a third time: the second time the audit is
reused, and the third time it holds the margins of a fresh folder without any cache, or those that are known beforehand.

    python -m evals.reliability.fault_identities        (about 20 minutes on 2 cores; the attempts are part of `faults` too)
"""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evals.reliability.fault_runs import Attempt
from evals.reliability.moving_hub import MovingHub, files_of, moving_hub
from evals.shared import Check, finish

ROWS = [
    {"prompt": f"Name fruit {n}.", "base": "An apple." + " It is red." * (n % 3), "perturbed": "A pomaceous fruit " * (1 + n % 4)}
    for n in range(12)
]  # fmt: skip
REUSED = "done before, reused"
_LENGTH = "[{} * len(response) for response in responses]"


@dataclass
class Place:
    """A folder that audits run in: rows, variables of the environment, and the words of the command."""

    folder: Path
    target: str
    words: tuple[str, ...] = ()
    variables: dict[str, str] = field(default_factory=dict)

    def audit(self, out: str, *more: str) -> tuple[str, list[dict[str, Any]]]:
        """What an audit into a folder says, and its margins."""
        rows = self.folder / "rows.jsonl"
        rows.write_text("".join(json.dumps(row) + "\n" for row in ROWS), "utf-8")
        given = (
            ("--contrasts", "rows.jsonl") if not any(word.startswith("audit.contrasts=") for word in self.words) else ()
        )
        command = ["audit", self.target, "--bias", "length", *given, "--quality", "none", "--triples", "none", "--out", out,
                   "audit.second_turn=no", *self.words, *more]  # fmt: skip
        status, said = (_started if "HF_ENDPOINT" in self.variables else _forked)(command, self.folder, self.variables)
        if status:
            return f"status {status}: {said[-600:]}", []
        return said, [
            json.loads(line) for line in (self.folder / out / "audit" / "margins.jsonl").read_text("utf-8").splitlines()
        ]

    def changed(self, change: Callable[[], object], *more: str, negates: bool = False) -> str | None:
        """What is wrong if this changes between two runs of one command; `negates`: every reward, by which the answer is known
        without a fresh folder."""
        said, first = self.audit("run")
        if not first:
            return f"the first run fails: {said}"
        said, again = self.audit("run")
        if REUSED not in said or again != first:
            return f"an audit of which nothing has changed is not reused: {said[:900]}"
        change()
        said, second = self.audit("run", *more)
        fresh = _negated(first) if negates else self.audit("fresh", *more, "score.cache=none")[1]
        if fresh == first:
            return "the change changes nothing, so that this shows nothing"
        if REUSED in said or _rounded(second) != _rounded(fresh):
            return f"the numbers of before are reused: {said[-600:]}"
        return None if "made again, because" in said else f"not said: {said[:600]}"


def _started(command: list[str], folder: Path, variables: Mapping[str, str]) -> tuple[int, str]:
    """Exit status and output of a new process, whose libraries read the variables as they are imported."""
    import cda

    environment = {**os.environ, "PYTHONPATH": str(Path(cda.__file__).parents[1])} | variables
    done = subprocess.run(
        [sys.executable, "-m", "cda", *command],
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment,
        timeout=600,
    )
    return done.returncode, done.stdout + done.stderr


def _app() -> Callable[[list[str]], object]:
    """The command line, with the libraries that an audit imports."""
    for name in (
        "transformers.models.llama",
        "cda.api.runs",
        "cda.auditing.audit",
        "cda.models.load",
        "cda.models.weights",
    ):
        importlib.import_module(name)
    return importlib.import_module("cda.cli").app  # type: ignore[no-any-return]


def _forked(command: list[str], folder: Path, variables: Mapping[str, str]) -> tuple[int, str]:
    """The same of a copy of this process, which has imported the libraries: a third of the time."""
    app = _app()
    log = folder / "said.log"
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), log.read_text("utf-8", "replace")
    status = 99
    try:
        os.chdir(folder)
        os.environ.update({"HF_HUB_OFFLINE": "1"} | dict(variables))
        opened = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for stream in (1, 2):
            os.dup2(opened, stream)
        try:
            app(command)
        except SystemExit as ended:
            status = int(ended.code or 0)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(status)


def _rounded(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without what differs between batches of other texts."""
    return [
        {name: round(value, 4) if isinstance(value, float) else value for name, value in row.items()} for row in rows
    ]


def _negated(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {name: -value if name.endswith("_model") and isinstance(value, float) else value for name, value in row.items()}
        for row in rows
    ]


@dataclass(frozen=True)
class Reads:
    """A way in which a scorer comes by its factor: its code, and how to set the factor to 1 or −1."""

    code: str
    put: Callable[[Place, int], object]

    def __call__(self, folder: Path) -> str | None:
        place = Place(folder, "mine.py:score")
        (folder / "mine.py").write_text(
            "import os\nfrom pathlib import Path\nHERE = Path(__file__).parent\n" + self.code, "utf-8"
        )
        self.put(place, 1)
        return place.changed(lambda: self.put(place, -1), negates=True)


def _in_call(value: str, before: str = "") -> str:
    return f"{before}\ndef score(prompts, responses):\n    factor = {value}\n    return {_LENGTH.format('factor')}\n"


def _text(name: str) -> Callable[[Place, int], object]:
    def put(place: Place, factor: int) -> None:
        file = place.folder / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"{factor:+d}", "utf-8")

    return put


def _dated(name: str) -> Callable[[Place, int], object]:
    """Of equal size, with the date of before."""

    def put(place: Place, factor: int) -> None:
        _text(name)(place, factor)
        os.utime(place.folder / name, (1_700_000_000, 1_700_000_000))

    return put


def _array(place: Place, factor: int) -> None:
    import numpy as np

    np.save(place.folder / "w.npy", np.array([float(factor)]))


def _tensor(name: str) -> Callable[[Place, int], object]:
    def put(place: Place, factor: int) -> None:
        import numpy as np
        from safetensors.numpy import save_file

        (place.folder / name).parent.mkdir(exist_ok=True)
        save_file({"w": np.array([float(factor)])}, place.folder / name)

    return put


def _json(place: Place, factor: int) -> None:
    (place.folder / "w.json").write_text(json.dumps({"w": factor}))


def _torch(place: Place, factor: int) -> None:
    import torch

    torch.save({"w": factor}, place.folder / "w.pt")


def _pickle(place: Place, factor: int) -> None:
    import pickle

    (place.folder / "w.pkl").write_bytes(pickle.dumps(factor))


def _database(place: Place, factor: int) -> None:
    import sqlite3
    from contextlib import closing

    with closing(sqlite3.connect(place.folder / "w.db")) as database:
        database.execute("CREATE TABLE IF NOT EXISTS t (w)")
        database.execute("DELETE FROM t")
        database.execute("INSERT INTO t VALUES (?)", (factor,))
        database.commit()


def _parquet(place: Place, factor: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"w": [factor]}), place.folder / "w.parquet")


def _listing(place: Place, factor: int) -> None:
    (place.folder / "many").mkdir(exist_ok=True)
    if factor < 0:
        (place.folder / "many" / "minus").touch()


def _appears(place: Place, factor: int) -> None:
    if factor < 0:
        (place.folder / "override.txt").write_text("-1")


def _variable(place: Place, factor: int) -> None:
    place.variables["MY_FACTOR"] = str(factor)


def _link(place: Place, factor: int) -> None:
    (place.folder / f"w{factor}.txt").write_text(str(factor))
    link = place.folder / "w.txt"
    link.unlink(missing_ok=True)
    link.symlink_to(f"w{factor}.txt")


def _package(place: Place, factor: int) -> None:
    package = place.folder / "made_parts"
    package.mkdir(exist_ok=True)
    (package / "__init__.py").touch()
    # Another length, as Python itself tells bytecode by date and length.
    (package / "chosen.py").write_text(f"FACTOR = {factor}\n" + "# another\n" * (factor < 0))


_OPEN = "int(open(HERE / 'w.txt').read())"
_FUNCTION: Mapping[str, Reads] = {
    "a weights file read at import": Reads(f"WEIGHT = {_OPEN}\n" + _in_call("WEIGHT"), _text("w.txt")),
    "a weights file read in the call": Reads(_in_call(_OPEN), _text("w.txt")),
    "weights of equal size, and their date put back": Reads(_in_call(_OPEN), _dated("w.txt")),
    "JSON beside the code": Reads("import json\n" + _in_call("json.loads((HERE / 'w.json').read_text())['w']"), _json),
    "an array of numpy": Reads("import numpy as np\n" + _in_call("np.load(HERE / 'w.npy')[0]"), _array),
    "an array of numpy, mapped": Reads(
        "import numpy as np\n" + _in_call("np.load(HERE / 'w.npy', mmap_mode='r')[0]"), _array
    ),
    "safetensors beside the code": Reads(
        "from safetensors.numpy import load_file\n" + _in_call("load_file(HERE / 'w.safetensors')['w'][0]"),
        _tensor("w.safetensors"),
    ),
    "safetensors in a folder of their own, by torch": Reads(
        "from safetensors.torch import load_file\n"
        + _in_call("float(load_file(HERE / 'deep' / 'w.safetensors')['w'][0])"),
        _tensor("deep/w.safetensors"),
    ),
    "a checkpoint of torch": Reads("import torch\n" + _in_call("torch.load(HERE / 'w.pt')['w']"), _torch),
    "a pickle": Reads("import pickle\n" + _in_call("pickle.loads((HERE / 'w.pkl').read_bytes())"), _pickle),
    "a database": Reads(
        "import sqlite3\n" + _in_call("sqlite3.connect(HERE / 'w.db').execute('SELECT w FROM t').fetchone()[0]"),
        _database,
    ),
    "a table that compiled code opens": Reads(
        "import pyarrow.parquet as pq\n" + _in_call("pq.read_table(str(HERE / 'w.parquet'))['w'][0].as_py()"), _parquet
    ),
    "the names in a folder": Reads(_in_call("-1 if os.listdir(HERE / 'many') else 1"), _listing),
    "a file that was not there": Reads(
        _in_call(
            "-1 if override else 1",
            "try:\n    override = open(HERE / 'override.txt').read()\nexcept OSError:\n    override = None\n",
        ),
        _appears,
    ),
    "an environment variable": Reads(_in_call("int(os.environ.get('MY_FACTOR', 1))"), _variable),
    "an environment variable, by a helper and os.getenv": Reads(
        "from os import getenv\ndef factor_of(name):\n    return int(getenv(name) or 1)\n"
        + _in_call("factor_of('MY_FACTOR')"),
        _variable,
    ),
    "an environment variable that is only looked for": Reads(
        _in_call("-1 if 'MY_MINUS' in os.environ else 1"),
        lambda place, factor: place.variables.update({"MY_MINUS": "1"} if factor < 0 else {}),
    ),
    "a link that leads elsewhere": Reads(_in_call(_OPEN), _link),
    "a module that is imported by a made-up name": Reads(
        "import importlib\n" + _in_call("importlib.import_module('.'.join(['made_parts', 'chosen'])).FACTOR"), _package
    ),
    "a file that a thread reads": Reads(
        "from concurrent.futures import ThreadPoolExecutor\n"
        + _in_call("ThreadPoolExecutor(1).submit(lambda: int((HERE / 'w.txt').read_text())).result()"),
        _text("w.txt"),
    ),
    "a file named from the working folder": Reads(_in_call("int(open('w.txt').read())"), _text("w.txt")),
}


def other_function(folder: Path) -> str | None:
    """The same folder for another function of the same file."""
    (folder / "mine.py").write_text(
        "def score(prompts, responses): return [len(one) for one in responses]\n"
        "def minus(prompts, responses): return [-len(one) for one in responses]\n"
    )
    place = Place(folder, "mine.py:score")
    return place.changed(lambda: setattr(place, "target", "mine.py:minus"), negates=True)


def unseen(folder: Path) -> str | None:
    """What cannot be seen, as another program's file: by score.scorer_version, and by --fresh."""
    wrong = []
    for more in (("score.scorer_version=2",), ("--fresh",)):
        own = folder / more[0].strip("-")[:5]
        own.mkdir()
        place = Place(own, "mine.py:score")
        (own / "mine.py").write_text(
            "import subprocess\n" + _in_call("int(subprocess.run(['cat', 'w.txt'], capture_output=True).stdout)")
        )
        (own / "w.txt").write_text("1")
        wrong.append(place.changed(lambda own=own: (own / "w.txt").write_text("-1"), *more, negates=True))
    return next(filter(None, wrong), None)


def kept_scores(folder: Path) -> str | None:
    """A run fails half-way and keeps its scores; then the weights change, and the same command goes on."""
    place = Place(folder, "mine.py:score")
    (folder / "mine.py").write_text(
        "from pathlib import Path\nfrom cda.scorers import own\nown.BATCH_ROWS = 5\nCALLS = []\n"
        "def score(prompts, responses):\n    CALLS.append(1)\n    factor = int(Path('w.txt').read_text())\n"
        "    if len(CALLS) > 2 and Path('fails').exists():\n        raise ValueError('half-way')\n"
        f"    return {_LENGTH.format('factor')}\n"
    )
    (folder / "w.txt").write_text("1")
    (folder / "fails").touch()
    said, _ = place.audit("run")
    if "are kept in" not in said:
        return f"nothing is kept: {said}"
    (folder / "fails").unlink()
    (folder / "w.txt").write_text("-1")
    said, again = place.audit("run")
    fresh = place.audit("fresh")[1]
    return None if again == fresh and fresh else f"scores of before the change are among them: {said[-600:]}"


def tiny(folder: Path, seed: int, causal: bool = False) -> Path:
    """A small model of random weights with a tokenizer of words."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, LlamaForSequenceClassification, PreTrainedTokenizerFast

    words = sorted({word for row in ROWS for text in row.values() for word in text.replace(".", " .").split()})
    names = ["<pad>", "<s>", "</s>", "<unk>", *words]
    tokenizer = Tokenizer(models.WordLevel({name: at for at, name in enumerate(names)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )
    fast.chat_template = "{% for message in messages %}{{ message.content }} </s> {% endfor %}"
    torch.manual_seed(seed)
    config = LlamaConfig(vocab_size=len(names), hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
                         pad_token_id=0, bos_token_id=1, eos_token_id=2, num_labels=1, initializer_range=0.5)  # fmt: skip
    (LlamaForCausalLM if causal else LlamaForSequenceClassification)(config).save_pretrained(folder)
    fast.save_pretrained(folder)
    return folder


_AS_IT_IS = ("model.precision=fp32", "model.max_length_tokens=128")


def _other_template(files: dict[str, bytes]) -> dict[str, bytes]:
    name = "chat_template.jinja"
    return files | {name: files[name].replace(b" </s> ", b" apple </s> ")}


def on_hub(target: str, change: Callable[[MovingHub, Path], object], *words: str) -> Callable[[Path], str | None]:
    """A repository of the hub moves: `org/model` at first holds a model, `org/policy` and `org/base` causal ones, `org/rows` rows."""

    def attack(folder: Path) -> str | None:
        with moving_hub() as hub:
            hub.push("models", "org/model", files_of(tiny(folder / "m", 1)))
            for name, seed in (("org/policy", 2), ("org/base", 3)):
                if "dpo:" in target:
                    hub.push("models", name, files_of(tiny(folder / "from" / name, seed, causal=True)))
            hub.push("datasets", "org/rows", _rows_of(ROWS))
            place = Place(folder, target, (*_AS_IT_IS, *words), hub.environment(folder / "home"))
            return place.changed(lambda: change(hub, folder))

    return attack


def _rows_of(rows: list[dict[str, str]]) -> dict[str, bytes]:
    return {"train.jsonl": "".join(json.dumps(row) + "\n" for row in rows).encode()}


def _moved(name: str, causal: bool = False) -> Callable[[MovingHub, Path], object]:
    return lambda hub, folder: hub.push("models", name, files_of(tiny(folder / "other", 7, causal)))


def _last(hub: MovingHub, name: str) -> dict[str, bytes]:
    return [*hub.commits["models", name].values()][-1]


def offline_copy(folder: Path) -> str | None:
    """Without a connection this machine has a data set of another commit than the one that is wanted."""
    with moving_hub() as hub:
        hub.push("datasets", "org/rows", _rows_of(ROWS))
        place = Place(
            folder,
            "mine.py:score",
            ("audit.contrasts=org/rows",),
            hub.environment(folder / "home"),
        )
        (folder / "mine.py").write_text(f"def score(prompts, responses): return {_LENGTH.format('1')}\n")
        place.audit("run")
    (folder / "home" / "hub" / "datasets--org--rows" / "refs" / "main").write_text("c" * 40)
    place.variables |= {"HF_HUB_OFFLINE": "1"}
    said, rows = place.audit("other")
    return f"rows of another commit: {said[-400:]}" if rows or "c" * 40 not in said or "Traceback" in said else None


def told(folder: Path) -> str | None:
    """The commits that a run used, in its terminal, manifest and report."""
    with moving_hub() as hub:
        model = hub.push("models", "org/model", files_of(tiny(folder / "m", 1)))
        rows = hub.push("datasets", "org/rows", _rows_of(ROWS))
        words = (*_AS_IT_IS, "audit.contrasts=org/rows")
        said, _ = Place(folder, "org/model", words, hub.environment(folder / "home")).audit("run")
    places = {
        "terminal": said,
        "manifest": (folder / "run" / "manifest.json").read_text("utf-8"),
        "report": (folder / "run" / "report" / "report.html").read_text("utf-8"),
    }
    silent = [name for name, text in places.items() if model not in text or rows not in text]
    return f"not in {', '.join(silent)}" if silent else None


def local(change: Callable[[Path], object]) -> Callable[[Path], str | None]:
    """A local model is changed in its folder."""

    def attack(folder: Path) -> str | None:
        tiny(folder / "model", 1)
        tiny(folder / "other", 7)
        (folder / "linked").symlink_to("model")
        return Place(folder, "./linked", _AS_IT_IS).changed(lambda: change(folder))

    return attack


def _same_date(folder: Path) -> None:
    old, new = folder / "model" / "model.safetensors", folder / "other" / "model.safetensors"
    stat = old.stat()
    assert stat.st_size == new.stat().st_size
    shutil.copyfile(new, old)
    os.utime(old, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def _linked_elsewhere(folder: Path) -> None:
    (folder / "linked").unlink()
    (folder / "linked").symlink_to("other")


def _template_alone(folder: Path) -> None:
    file = folder / "model" / "chat_template.jinja"
    file.write_bytes(_other_template(files_of(folder / "model"))[file.name])


def _tokenizer_alone(folder: Path) -> None:
    file = folder / "model" / "tokenizer.json"
    content = json.loads(file.read_text("utf-8"))
    vocabulary = content["model"]["vocab"]
    vocabulary["apple"], vocabulary["fruit"] = vocabulary["fruit"], vocabulary["apple"]
    file.write_text(json.dumps(content), "utf-8")


ATTEMPTS: tuple[Attempt, ...] = (
    *(Attempt("identity", f"a scorer of one's own: {name}", attack) for name, attack in _FUNCTION.items()),
    Attempt("identity", "another function of the same file, in the same folder", other_function),
    Attempt("identity", "what cannot be seen, with a version or --fresh", unseen),
    Attempt("identity", "scores kept by a run that failed, then other weights", kept_scores),
    Attempt("identity", "main of a model moves on the hub", on_hub("org/model", _moved("org/model"))),
    Attempt(
        "identity",
        "main moves, and only the chat template is another",
        on_hub("org/model", lambda hub, _: hub.push("models", "org/model", _other_template(_last(hub, "org/model")))),
    ),
    Attempt("identity", "main of a policy moves", on_hub("dpo:org/policy,org/base", _moved("org/policy", True))),
    Attempt("identity", "main of its reference moves", on_hub("dpo:org/policy,org/base", _moved("org/base", True))),
    Attempt(
        "identity",
        "main of a data set moves",
        on_hub(
            "org/model",
            lambda hub, _: hub.push("datasets", "org/rows", _rows_of(ROWS[1:])),
            "audit.contrasts=org/rows",
        ),
    ),
    Attempt("identity", "a copy of a data set at another commit, without a connection", offline_copy),
    Attempt("identity", "the commits are told", told),
    Attempt("identity", "local weights of equal size, and their date put back", local(_same_date)),
    Attempt("identity", "a link to a local model leads elsewhere", local(_linked_elsewhere)),
    Attempt("identity", "a local model's chat template alone", local(_template_alone)),
    Attempt("identity", "a local model's tokenizer alone", local(_tokenizer_alone)),
)


def _survived(attempt: Attempt, folder: Path) -> str | None:
    folder.mkdir()
    try:
        wrong = attempt.attack(folder)
    except Exception as error:  # an attack that breaks down has shown nothing
        wrong = f"breaks down: {error!r}"[:600]
    print(f"  {attempt.name}: {wrong or 'survived'}", flush=True)
    return wrong and wrong.replace(str(folder), "FOLDER")


def main() -> int:
    """All attempts by themselves, two at a time."""
    _app()
    with (
        tempfile.TemporaryDirectory() as name,
        ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("fork")) as lanes,
    ):
        under_way = {
            attempt.name: lanes.submit(_by_number, number, Path(name) / str(number))
            for number, attempt in enumerate(ATTEMPTS)
        }
        found = {name: done.result() for name, done in under_way.items()}
    n = sum(wrong is None for wrong in found.values())
    checks = [Check(f"{len(found)} attempts at an old number: survived", f"{n}", n == len(found))]
    numbers = {"identity": {"survived": n, "tried": len(found)}, "attempts": found}
    return finish("fault_identities", (__doc__ or "").split("\n\n")[0].replace("\n", " "), checks, numbers)


def _by_number(number: int, folder: Path) -> str | None:
    return _survived(ATTEMPTS[number], folder)


if __name__ == "__main__":
    sys.exit(main())
