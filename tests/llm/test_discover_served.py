"""`cda discover` with a model that answers nonsense, behind a server nobody here wrote: nothing is proposed, and that is a result."""

from __future__ import annotations

import json
from pathlib import Path

from test_transformers_serve import make_model, needs_serve, served
from typer.testing import CliRunner

from cda.cli import app

REWARD = "def reward(prompts, responses):\n    return [len(text) for text in responses]\n"


@needs_serve
def test_nothing_is_proposed_and_the_run_ends_well(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    make_model(folder)
    (tmp_path / "reward.py").write_text(REWARD, encoding="utf-8")
    rows = [{"prompt": f"Is it {n}?", "responses": ["yes", f"no , it is {n + 1}"]} for n in range(8)]
    responses = tmp_path / "responses.jsonl"
    responses.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    with served(folder) as url:
        words = [f"llm.base_url={url}", f"llm.model={folder}", "llm.max_tokens=8", "llm.concurrency=2"]
        words += [f"discover.rewriters=[{folder},other]", "discover.populations=[5,2]", "discover.batches=[4]"]
        target, out = (
            f"{tmp_path / 'reward.py'}:reward",
            ["--responses", str(responses), "--out", str(tmp_path / "run")],
        )
        done = CliRunner().invoke(app, ["discover", target, *words, *out])
    assert done.exit_code == 0, done.output
    assert "no attribute was proposed" in done.output
    result = json.loads((tmp_path / "run" / "discover.json").read_text(encoding="utf-8"))
    assert result["generations"][0]["proposed"]["reasons"] == {"no answer in the asked form": 2}
    assert result["tested"] == [] and not (tmp_path / "run" / "biases").exists()
