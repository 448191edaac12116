"""`cda score`: the reward of every row of any number of rows, shard by shard, by one process or several that need not talk to each other."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby, zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from cda.data.load import Row, RowError
from cda.data.scorable import REWARDS, Layout, layout_of
from cda.data.streams import Source, one_schema, sources, stored_schema
from cda.errors import DataError, ModelError, RunError
from cda.files.paths import user_path
from cda.finetuning.applied import check_subject
from cda.jobs.given import from_python
from cda.jobs.perform import Job, Made, perform
from cda.launch import check_shared, is_main, rank, world_size
from cda.models.load import free_memory
from cda.progress import Bar
from cda.provenance import versions
from cda.recipe.load import LoadedRecipe
from cda.recipe.words import JUDGED, given_words
from cda.report.next_step import after_score
from cda.resources.artifacts import shown_path, shown_target
from cda.resources.llm_access import Step, confirm_all
from cda.resources.named_scorer import NamedScorer, ScorerSettings, Subject, scorer_settings
from cda.resources.scorers import open_scorer
from cda.results.base import load
from cda.results.scored import ScoredInput, ScoreResult
from cda.run import file_fingerprint, fingerprint
from cda.scorers.calibrated import Corrector
from cda.scorers.compared import Rewards, Text, TextScorer, text_id
from cda.scorers.engine import score_texts
from cda.shards.screen import screen
from cda.shards.shards import ROWS, Part, ScoredFolder, Shard, ShardFacts, facts_of, spreads

SHARD_ROWS = 10_000
_PROBED_ROWS = 1_000
_POLL_S = 0.2
_ENOUGH = 100
"""Texts of a shard from which it is a fault, and no accident, that none has a reward."""


@dataclass(frozen=True)
class Scoring:
    """What is to be scored, by what, and where; all of it checked, and none of it scored."""

    sources: Sequence[Source]
    named: NamedScorer
    columns: Mapping[str, str]
    """Our names to the user's."""
    asked_rows: int | None
    """Rows of a shard, if the user says them."""
    folder: ScoredFolder

    @cached_property
    def begun(self) -> ScoreResult | None:
        """What `score.json` says of earlier calls. RunError: it is of another model, other settings, or inputs that have changed."""
        file = self.folder.manifest
        if not file.is_file():
            return None
        found, again = (
            load(ScoreResult, file, "cda score"),
            "give another folder with --out, or remove this one to begin again",
        )
        at, model = self.folder.path, shown_target(self.named.name)
        if found.fingerprint != self.fingerprint:
            of = f"{found.model} as it was" if found.model == model else found.model
            raise RunError(
                f"{at}: holds rewards of {of}, and this is {model} with other weights, code, adapter or settings: {again}"
            )
        if found.columns != dict(self.columns) or self.asked_rows not in (None, found.shard_rows):
            raise RunError(
                f"{at}: was begun with other columns, or with {found.shard_rows:,} rows a shard (--shard-rows): {again}"
            )
        for place, (old, new) in enumerate(zip_longest(found.inputs, self.contents[: len(found.inputs)])):
            if new == old.content:
                continue
            name = "none" if new is None else self.sources[place].name
            if Path(name).name == Path(old.name).name:
                raise RunError(f"{name}: has changed since {at} was begun ({old.content}; now {new}): {again}")
            raise RunError(
                f"{at}: its input {place + 1} is {old.name}, and here it is {name}; inputs can only be added: {again}"
            )
        return found

    @cached_property
    def fingerprint(self) -> str:
        """Digest of all that decides a reward of a text; a model in memory is known by its name alone."""
        subject, calibration = self.named.subject, self.named.settings.score.calibration
        adapter = None if subject.adapter is None else [file_fingerprint(subject.adapter), subject.dose]
        corrected = None if calibration is None else file_fingerprint(user_path(calibration))
        return fingerprint([self.named.scored_as or ["in memory", self.named.name], adapter, corrected])

    @cached_property
    def contents(self) -> list[str]:
        return [source.content() for source in self.sources]

    @cached_property
    def shard_rows(self) -> int:
        return self.begun.shard_rows if self.begun else self.asked_rows or SHARD_ROWS

    @cached_property
    def _read(self) -> tuple[list[int], Any]:
        """Rows of each input, and the schema of all. Inputs of an earlier call with a finished shard are not read for it."""
        known = [each.rows for each in self.begun.inputs] if self.begun else []
        shard = next(iter(sorted((self.folder.path / ROWS).glob("[0-9]*.parquet"))), None) if known else None
        if shard is None:
            known, stored = [], {}
        else:
            ours = REWARDS[:1] if self.begun is None or self.begun.wins is None else REWARDS[1:]
            added = {self.columns.get(name, name) for name in ours}
            stored = {f"the shards in {self.folder.path}": stored_schema(shard, added)}
        scanned = [source.scanned() for source in self.sources[len(known) :]]
        new = {source.name: schema for source, (_, schema) in zip(self.sources[len(known) :], scanned, strict=True)}
        whole = one_schema(stored | new)
        if stored and not whole.equals(*stored.values()):
            raise DataError(
                f"{', '.join(new)}: has other types of columns than the shards in {self.folder.path}. Give another folder"
            )
        return [*known, *(n for n, _ in scanned)], whole

    @property
    def rows(self) -> list[int]:
        return self._read[0]

    @property
    def schema(self) -> Any:
        return self._read[1]

    @cached_property
    def probe(self) -> list[Row]:
        """The first rows."""
        n = min(_PROBED_ROWS, self.rows[0])
        return next(iter(self.sources[0].chunks(n, n, [0], self.schema)))[1]

    @cached_property
    def layout(self) -> Layout:
        """DataError as of `layout_of`, or if rewards would replace a column."""
        where = self.sources[0].name
        found = layout_of([*self.probe, dict.fromkeys(self.schema.names)], self.columns, where)
        if taken := [name for name in found.added if self.columns.get(name, name) in self.schema.names]:
            raise DataError(
                f"{where}: has a column '{self.columns.get(taken[0], taken[0])}' already; give the rewards another name with "
                f"--column {taken[0]}=<a new column>"
            )
        return found

    @cached_property
    def inputs(self) -> list[ScoredInput]:
        return [
            ScoredInput(name=source.name, content=content, rows=n, shards=-(-n // self.shard_rows))
            for source, content, n in zip(self.sources, self.contents, self.rows, strict=True)
        ]

    @cached_property
    def shards(self) -> list[Shard]:
        """Shards of all inputs, in the order of the rows."""
        how = [self.fingerprint, self.shard_rows, self.layout.words, sorted(self.columns.items())]
        return [
            Shard(place, index, fingerprint([how, own.content, place, index]))
            for place, own in enumerate(self.inputs)
            for index in range(own.shards)
        ]

    def rows_of(self, shards: Sequence[Shard]) -> int:
        return sum(min(self.shard_rows, self.rows[each.source] - each.index * self.shard_rows) for each in shards)

    def done(self) -> dict[Shard, ShardFacts]:
        """Finished shards."""
        return {shard: facts for shard in self.shards if (facts := self.folder.done(shard)) is not None}

    def costs(self, shards: Sequence[Shard]) -> list[Step]:
        """Calls of an LLM for some shards, estimated by the first rows."""
        if not self.named.section.kind.asks_llm or not shards:
            return []
        texts = [text for found, _ in (_texts(row, self.layout) for row in self.probe) for text in found]
        times = self.rows_of(shards) / len(self.probe)
        steps = self.named.planned([(prompt, text, text) for prompt, text in texts])
        return [(llm, replace(planned, calls=round(times * planned.calls))) for llm, planned in steps]

    def result(self, asked: Sequence[Shard] = (), seconds: float = 0.0) -> ScoreResult:
        """What is done by now; this launch was to score the shards `asked`, and took so long."""
        done = self.done()
        new = [done[shard] for shard in asked if shard in done]
        n_new, tokens = sum(each.rows for each in new), [each.tokens for each in new]
        n_tokens = None if None in tokens else sum(each or 0 for each in tokens)
        subject, facts = self.named.subject, list(done.values())
        how = subject.section.model_dump(mode="json", exclude_defaults=True, exclude={"name_or_path", "preset"})
        calibration = self.named.settings.score.calibration
        return ScoreResult(
            model=shown_target(self.named.name),
            adapter=None if subject.adapter is None else shown_path(subject.adapter),
            dose=subject.dose,
            fingerprint=self.fingerprint,
            settings={"model": how, "score": self.named.deciding_settings(), "calibration": calibration and shown_path(calibration)},
            read=self.layout.words,
            columns=dict(self.columns),
            as_json=tuple(field.name for field in self.schema if field.metadata),
            shard_rows=self.shard_rows,
            inputs=tuple(self.inputs),
            rows=sum(self.rows),
            rows_done=sum(each.rows for each in facts),
            shards=len(self.shards),
            shards_done=len(done),
            rewards=spreads(facts),
            wins=sum(each.wins for each in facts) if self.layout.pairs else None,
            ties=sum(each.ties for each in facts) if self.layout.pairs else None,
            without_reward=dict(sum((Counter(each.without) for each in facts), Counter[str]()).most_common()),
            cut=sum(each.cut for each in facts),
            rows_per_second=n_new / seconds if n_new else None,
            tokens_per_second=n_tokens / seconds if n_new and n_tokens else None,
            versions=versions(),
        )  # fmt: skip


def run_score(
    references: Sequence[str],
    subject: Subject,
    loaded: LoadedRecipe,
    *,
    columns: Mapping[str, str],
    split: str,
    part: Part,
    shard_rows: int | None,
) -> ScoreResult:
    """Rewards of all rows of the inputs, next to their own columns and in their order, as shards in the run's folder.

    Finished shards stay as they are. Each process of a launch takes its share of the part. DataError: an input cannot be read, has changed,
    or has another schema. RunError: the folder holds something else, or another process works on the part. ModelError: the model cannot be
    used. What cannot be scored in a row is counted by its reason.
    """
    settings = scorer_settings(loaded)
    named = open_scorer(subject, settings)
    own = Part(part.number * world_size() + rank(), part.of * world_size())
    folder = ScoredFolder(loaded.recipe.run_path, own)
    try:
        inputs = sources(references, split)
    except DataError as error:
        raise DataError(str(error).replace("data.split=", "--split ")) from None
    folder.planned()
    check_subject(subject, settings, shares=True, singly=True)
    scoring = Scoring(inputs, named, columns, shard_rows, folder)
    before = scoring.done()
    missing = [shard for shard in own.own(scoring.shards) if shard not in before]
    launched = [Part(part.number * world_size() + number, own.of) for number in range(world_size())]
    asked = [shard for each in launched for shard in each.own(scoring.shards) if shard not in before]

    def plan() -> list[str]:
        n_own = len(own.own(scoring.shards))
        of_part = "" if own.of == 1 else f"; part {own.number + 1} of {own.of} has {n_own:,}"
        return [
            subject.planned,
            f"rows        {sum(scoring.rows):,} in {len(inputs):,} inputs: {len(scoring.shards):,} shards of {scoring.shard_rows:,}{of_part}",
            f"texts       {scoring.layout.words}",
            f"to do       {len(missing):,} shards, {scoring.rows_of(missing):,} rows; {len(before):,} are finished",
        ]

    def work(_: Path) -> Made[ScoreResult]:
        check_shared(folder.path)
        if scoring.begun is None or len(scoring.begun.inputs) < len(inputs):
            folder.write_manifest(scoring.result())
        started = _score(scoring, missing, settings)
        if is_main() and world_size() > 1:
            _wait_for(scoring, asked)
        seconds = time.monotonic() - started
        result = scoring.result(asked, seconds)
        while True:  # a part that ends at the same time may have counted before this one's last shard was there
            folder.write_manifest(result)
            now = scoring.result(asked, seconds)
            if now.shards_done == result.shards_done:
                break
            result = now
        free_memory()
        if not result.missing:
            folder.clean()
        words = (named.name, *references, "--out", str(folder.path), *_again(subject, columns, split, shard_rows))
        more = given_words(loaded.recipe, JUDGED)
        step = after_score(result, (*words, *more), str(folder.path / ROWS), more, unnamed=subject.unnamed)
        return Made(
            result,
            remark=screen(result, own, len(own.own(scoring.shards)), folder.path, step.lines(python=from_python())),
        )

    return perform(Job(plan, work, folder, lambda: scoring.costs(missing)), loaded)


def _again(subject: Subject, columns: Mapping[str, str], split: str, shard_rows: int | None) -> list[str]:
    """Options by which the same scoring goes on."""
    adapter = [] if subject.adapter is None else ["--adapter", str(subject.adapter), "--dose", f"{subject.dose:g}"]
    named = [word for ours, theirs in columns.items() for word in ("--column", f"{ours}={theirs}")]
    of_split = [] if split == "train" else ["--split", split]
    return [*adapter, *named, *of_split, *([] if shard_rows is None else ["--shard-rows", str(shard_rows)])]


def _score(scoring: Scoring, missing: Sequence[Shard], settings: ScorerSettings) -> float:
    """Score and write shards; return the time at which the model was loaded."""
    if not missing:
        return time.monotonic()
    confirm_all(scoring.costs(missing), settings.llm.consent, settings.llm.opened)
    scorer, calibration = scoring.named.as_pointwise().text_scorer(), scoring.named.calibration()
    scorer.strict = False
    corrector = None if calibration is None else Corrector(calibration)
    started = time.monotonic()
    with Bar("  scoring", scoring.rows_of(missing), "rows", "texts") as bar:
        for place, shards in groupby(missing, key=lambda shard: shard.source):
            by_index = {shard.index: shard for shard in shards}
            source, n_rows = scoring.sources[place], scoring.rows[place]
            for index, rows, table in source.chunks(scoring.shard_rows, n_rows, by_index, scoring.schema):
                _write(scoring, by_index[index], rows, table, scorer, corrector)
                bar.update(len(rows))
    return started


def _write(
    scoring: Scoring, shard: Shard, rows: Sequence[Row], table: Any, scorer: TextScorer, corrector: Corrector | None
) -> None:
    """Score the rows of a shard, and write them with their rewards."""
    layout, without, tokens = scoring.layout, Counter[str](), getattr(scorer, "n_tokens", None)
    read = [_texts(row, layout) for row in rows]
    texts = [text for found, _ in read for text in found]
    rewards = score_texts(scorer, texts) if texts else Rewards({})
    if corrector is not None:
        rewards = corrector.rewards(rewards, texts)
    if scoring.named.section.kind.asks_llm:
        rewards = replace(rewards, unit="grade")
    sides, cut = np.full((len(rows), 2 if layout.pairs else 1), np.nan), 0
    for at, (found, reason) in enumerate(read):
        names = [text_id(*text) for text in found]
        if names:
            sides[at] = [rewards.by_text[name] for name in names]
            cut += sum(name in rewards.read for name in names)
            reason = next((rewards.why_missing(name) for name in names if np.isnan(rewards.by_text[name])), None)
        if reason is not None:
            without[reason] += 1
    if len(texts) >= _ENOUGH and not rewards.scored:
        why = ", ".join(f"{n:,} × {reason}" for reason, n in without.most_common(3))
        raise ModelError(f"{scorer.name}: none of {len(texts):,} texts has a reward ({why}); earlier shards are kept")
    values = [sides[:, 0], sides[:, 1], sides[:, 0] - sides[:, 1]] if layout.pairs else [sides[:, 0]]
    for name, column in zip(layout.added, values, strict=True):
        table = table.append_column(scoring.columns.get(name, name), [_nullable(column)])
    read_tokens = None if tokens is None else getattr(scorer, "n_tokens", 0) - tokens
    facts = facts_of(shard, dict(zip(layout.added, values, strict=True)), without, cut, read_tokens)
    scoring.folder.write(shard, table, facts)


def _nullable(values: Any) -> Any:
    import pyarrow as pa

    return pa.array(values, mask=np.isnan(values))


def _texts(row: Row, layout: Layout) -> tuple[Sequence[Text], str | None]:
    """The texts of a row; or none, and the reason."""
    try:
        return layout.texts(row), None
    except RowError as problem:
        return (), str(problem)


def _wait_for(scoring: Scoring, shards: Sequence[Shard]) -> None:
    """Wait until all processes of this launch have written their shards; if one fails, the launcher ends all."""
    for shard in shards:
        while not scoring.folder.done(shard):
            time.sleep(_POLL_S)
