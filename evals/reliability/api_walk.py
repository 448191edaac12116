"""Claim: every Python snippet of README and docs runs as it stands.

Each snippet runs in a process of its own, all in one folder that holds what they name: a reward model my-org/my-reward-model (the
embedded one) and a tiny policy my-org/my-policy; those that train come first. The notebook is run by tests/api/test_notebook.py, and
a program with a title, such as a server, by a test of its own.

    python -m evals.reliability.api_walk            (about two minutes)
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from cda.embedded.model import embedded_model_folder
from evals.method.policy_training import made
from evals.shared import ROOT, Check, finish

_SNIPPET = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def documents() -> list[Path]:
    """Documents for users that hold Python."""
    found = [ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("cda/**/*.md"), *ROOT.glob("recipes/*.md")]
    return [path for path in found if _SNIPPET.search(path.read_text(encoding="utf-8"))]


def snippets() -> list[tuple[Path, str]]:
    """Python of all documents; what loads the adapter of a run comes after what trains it."""
    found = [
        (document, code) for document in documents() for code in _SNIPPET.findall(document.read_text(encoding="utf-8"))
    ]
    return sorted(found, key=lambda snippet: "cda.train(" not in snippet[1])


def make_policy(folder: Path) -> None:
    """A tiny language model with a chat template."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(str(made(folder)))
    tokenizer.chat_template = "<s>{% for message in messages %}{{ message.content }} </s>{% endfor %}"
    tokenizer.save_pretrained(str(folder))


def main() -> int:
    checks, ran = [], {}
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(embedded_model_folder("embedded"), Path(folder) / "my-org" / "my-reward-model")
        make_policy(Path(folder) / "my-org" / "my-policy")
        for number, (document, code) in enumerate(snippets(), 1):
            start = time.monotonic()
            done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)
            name = f"{document.relative_to(ROOT)}, snippet {number} runs"
            ran[name] = {"seconds": round(time.monotonic() - start, 1), "lines": code.count("\n")}
            last = (done.stderr.strip().splitlines() or [""])[-1]
            found = f"exit status {done.returncode}" + (f": {last}" if done.returncode else "")
            checks.append(Check(name, found, done.returncode == 0))
    return finish("api_walk", str(__doc__).splitlines()[0].removeprefix("Claim: "), checks, {"snippets": ran})


if __name__ == "__main__":
    sys.exit(main())
