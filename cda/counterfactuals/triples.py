"""`cda triples`: RATE triples to audit on, from queries, from topics, or from responses that are there already."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

from cda.biases import Bias
from cda.data.load import Row, check_agree, check_columns, load_rows, message_text, prompt_of, readable, side_text
from cda.data.queries import clean_queries
from cda.data.triples import BY_WORDS
from cda.embedded.model import EMBEDDED
from cda.errors import DataError, RecipeError
from cda.files.jsonl import read_text
from cda.files.paths import user_path
from cda.jobs.options import TriplesOptions
from cda.jobs.perform import Job, Made, OneFile, perform
from cda.launch import say
from cda.llm.money import tokens_of
from cda.recipe.load import LoadedRecipe, load_model_audit
from cda.recipe.schema import Recipe
from cda.recipe.sections import AuditSection
from cda.records import Exclusions, Prompt, Triple, count_reasons, text_key
from cda.report.next_step import after_triples
from cda.resources.artifacts import prompt_row
from cda.resources.llm_access import LlmAccess, Planned, Step, confirm_all, llm_access, llm_problems
from cda.resources.sources import rewriter
from cda.results.commands import Written
from cda.rewriting.labels import exhibits
from cda.rewriting.triples import Kind, Lost, Original, baseline_responses, generate_questions, triples_of_responses
from cda.stats.draws import drawn

_ANSWER_TOKENS, _QUESTIONS_TOKENS, _REQUEST_TOKENS = 300, 150, 300
"""Tokens of a baseline response, of the questions on a topic, and of a request around its text; estimated."""


def write_triples(file: str, overrides: Sequence[str], options: TriplesOptions) -> Written:
    """Write triples in both directions, as `cda audit --triples` reads them, and count them by bias. RecipeError: not exactly
    one source, or no LLM, or no key of it, where one is needed. DataError: nothing usable. RunError: `out` not
    writable.
    """
    settings = {"name": "triples", **({"biases": list(options.bias)} if options.bias else {})}
    loaded = replace(load_model_audit(EMBEDDED, settings, overrides), consent=options.consent)
    source, out = options, user_path(file)
    if source.kind not in get_args(Kind):
        raise RecipeError([f"--kind: opinion or technical, found '{source.kind}'"])
    given = [name for name in ("queries", "topics", "responses") if getattr(source, name)]
    if len(given) != 1:
        raise RecipeError(
            [f"give exactly one of --queries, --topics and --responses; found {', '.join(given) or 'none'}"]
        )
    recipe, llm = loaded.recipe, llm_access(loaded)
    if recipe.llm.model is None and not source.responses:
        raise RecipeError([f"--{given[0]}: answers have to be written first, which needs an LLM: set llm.model=..."])
    asks = not source.responses or recipe.labels_by_llm or recipe.rewrites_by_llm
    if asks and (problems := llm_problems(recipe.llm, [str(recipe.llm.model)])):
        raise RecipeError(problems)
    read = _read(source, recipe.audit, recipe.seed)
    _check_measured(read, loaded)
    steps: list[Step] = [(recipe.llm, planned) for planned in _planned(read, loaded)]

    def work(_: Path) -> Made[Written]:
        if not read.responses or source.limit is not None:
            say(f"  {read.text}")
        confirm_all(steps, llm.consent, llm.opened)
        rows, counts = _made(*_texts(read, source, llm, recipe.seed), loaded, llm)
        made = [name for name, n in counts.items() if n]
        lines = [f"Triples: {out}", *after_triples(str(out), options.bias or made).lines()]
        return Made(Written(folder=out, rows=counts), {out.name: rows}, "\n".join(lines))

    job = Job(lambda: _plan(read, loaded), work, OneFile(out), lambda: steps, ("model", "name"))
    return perform(job, loaded)


def _made(
    texts: Sequence[Original], exclusions: Exclusions, loaded: LoadedRecipe, llm: LlmAccess
) -> tuple[list[dict[str, object]], dict[str, int]]:
    """Rows of the triples and of originals without one, and the number of triples by bias; DataError if there is none."""
    recipe = loaded.recipe
    rows: list[dict[str, object]] = []
    counts: dict[str, int] = {}
    say(f"  {len(texts)} to make triples of ({exclusions})")
    by = rewriter(recipe.synthesize, loaded.biases, recipe.seed, llm)
    for bias in loaded.biases:
        labeller = llm.labeller() if _is_asked(bias, recipe) else _measured
        made, lost = triples_of_responses(texts, bias, labeller, by)
        with_bias = sum(triple.has_attribute for triple in made)
        failed = Exclusions(len(texts), count_reasons([each.reason for each in lost]))
        say(f"  {bias.name}: {len(made)} triples, {with_bias} of answers with it ({failed})")
        rows += [*map(_row, made), *(_lost_row(bias, each) for each in lost)]
        counts[bias.name] = len(made)
    if not any(counts.values()):
        raise DataError("no triple was made; the reasons are above")
    return rows, counts


@dataclass(frozen=True, slots=True)
class _Read:
    """What the user's file holds, as far as nothing is asked: topics, or queries, or responses."""

    text: str
    """In words, with what was left out."""
    exclusions: Exclusions
    topics: Sequence[str] = ()
    queries: Sequence[str] = ()
    responses: Sequence[Original] = ()
    n_texts: int = 0
    """Responses to make triples of, at most."""


def _read(source: TriplesOptions, audit: AuditSection, seed: int) -> _Read:
    """Read the file, and draw as many rows of it as are wanted. DataError: it cannot be read, or holds nothing usable."""
    if source.responses:
        responses, exclusions = read_responses(load_rows(source.responses), source.responses, audit)
        if not responses:
            raise DataError(f"{source.responses}: no usable response; {exclusions}")
        kept = drawn(responses, source.limit, seed)
        text = f"{_of(len(kept), len(responses))} responses in {source.responses}"
        return _Read(text, exclusions, responses=kept, n_texts=len(kept))
    if source.queries:
        column = audit.triple_columns.get("prompt")
        clean, exclusions = clean_queries(load_rows(source.queries), source.queries, column)
        queries = drawn(clean, source.limit, seed)
        text = f"{_of(len(queries), len(clean))} clean questions in {source.queries} ({exclusions})"
        return _Read(text, exclusions, queries=queries, n_texts=len(queries))
    lines = read_text(user_path(str(source.topics))).splitlines()
    topics = list(dict.fromkeys(line.strip() for line in lines if line.strip()))
    if not topics:
        raise DataError(f"{source.topics}: holds no topic; write one a line")
    n = len(topics) * source.per_topic
    n_texts = n if source.limit is None else min(n, source.limit)
    text = f"{len(topics)} topics in {source.topics}: {_of(n_texts, n)} {source.kind} questions"
    return _Read(text, Exclusions(len(topics), {}), topics=topics, n_texts=n_texts)


def _of(n: int, n_all: int) -> str:
    return str(n) if n == n_all else f"{n} (--limit) of {n_all}"


def _plan(read: _Read, loaded: LoadedRecipe) -> list[str]:
    """Steps of a dry run."""
    by = loaded.recipe.llm.model if loaded.recipe.rewrites_by_llm else "embedded rules"
    return [
        f"reads       {read.text}",
        f"triples     {', '.join(bias.name for bias in loaded.biases)}, rewritten and rewritten back by {by}",
    ]


def _is_asked(bias: Bias, recipe: Recipe) -> bool:
    """True if the LLM says whether a text has the bias."""
    return recipe.labels_by_llm and bias.label_by == "ask"


def _planned(read: _Read, loaded: LoadedRecipe) -> list[Planned]:
    """The LLM's calls at most: questions on topics, answers, and for each bias two rewrites of each response, a label of each if the
    gate asks, and one of the response if it has none."""
    recipe, n = loaded.recipe, read.n_texts
    planned = []
    if read.topics:
        planned.append(Planned("writing questions", len(read.topics), _REQUEST_TOKENS, _QUESTIONS_TOKENS))
    if not read.responses:
        asked = sum(map(tokens_of, read.queries)) / max(1, len(read.queries))
        planned.append(Planned("answering the queries", n, asked + 50, _ANSWER_TOKENS))
    if not recipe.rewrites_by_llm:
        return planned
    known = [tokens_of(row.response) for row in read.responses]
    mean = sum(known) / len(known) if known else _ANSWER_TOKENS
    unlabelled = sum(row.has_attribute is None for row in read.responses) if known else n
    for bias in loaded.biases:
        labelled = _is_asked(bias, recipe)
        calls = n * (4 if labelled and recipe.synthesize.gate.on else 2) + (unlabelled if labelled else 0)
        planned.append(Planned(f"labelling and rewriting for {bias.name}", calls, mean + _REQUEST_TOKENS, mean))
    return planned


def _texts(read: _Read, source: TriplesOptions, llm: LlmAccess, seed: int) -> tuple[Sequence[Original], Exclusions]:
    """Responses with their prompts, and their labels for the bias if a file has them."""
    if read.responses:
        return read.responses, read.exclusions
    client, queries = llm.client(), list(read.queries)
    if read.topics:
        queries, exclusions = generate_questions(read.topics, source.kind, client, source.per_topic)
        queries = drawn(queries, source.limit, seed)
        say(f"  {len(queries)} {source.kind} questions on {len(read.topics)} topics ({exclusions})")
    return baseline_responses(queries, client)


def read_responses(rows: Sequence[Row], where: str, audit: AuditSection) -> tuple[list[Original], Exclusions]:
    """Rows of prompt, response (`original` in the columns of the audit's settings) and, if known, has_attribute, by its name and
    rule there; unusable rows are counted. DataError names the file, `where`: a column is missing, or a category that the recipe names; or
    one response is said to have the attribute and to lack it.
    """
    rule, column = audit.attribute, audit.triple_columns.get("has_attribute", "has_attribute")
    asked, answered = audit.triple_columns.get("prompt", "prompt"), audit.triple_columns.get("original", "response")
    is_named = column != "has_attribute" or rule != BY_WORDS
    needed = {"prompt": asked, "original": answered} | ({"has_attribute": column} if is_named else {})
    check_columns(rows, needed, where, "--column ")
    rule.check((row.get(column) for row in rows), where)

    def read(row: Row) -> Original:
        response, stated = side_text(message_text(row.get(answered)), *["no response"] * 2), row.get(column)
        has_attribute = None if stated is None or stated == "" else rule.read(stated)
        return Original(prompt_of(row.get(asked)), response, has_attribute)

    numbered, unusable = readable(rows, read)
    found: dict[tuple[str, ...], list[tuple[int, Original]]] = {}
    for number, original in numbered:
        found.setdefault(text_key(original.prompt, original.response), []).append((number, original))
    reasons = [reason for _, reason in unusable] + ["duplicate"] * (len(numbered) - len(found))
    labels = {key: {row.has_attribute for _, row in same} - {None} for key, same in found.items()}
    both = [[number for number, _ in found[key]] for key, says in labels.items() if len(says) > 1]
    check_agree(((numbers, f"the same response, and {column} says yes and no") for numbers in both), where)
    texts = [replace(same[0][1], has_attribute=next(iter(labels[key]), None)) for key, same in found.items()]
    return texts, Exclusions(len(rows), count_reasons(reasons))


def _check_measured(read: _Read, loaded: LoadedRecipe) -> None:
    """DataError, before anything is asked: responses without a label, and a bias that is measured against another response."""
    if read.responses and all(row.has_attribute is not None for row in read.responses):
        return
    relative = [bias for bias in loaded.biases if bias.measure is not None and bias.measure.relative]
    if unlabelled := [bias.name for bias in relative if not _is_asked(bias, loaded.recipe)]:
        raise DataError(
            f"{', '.join(unlabelled)}: whether one response by itself has it cannot be measured; give has_attribute in a file of "
            "--responses"
        )


def _measured(prompts: Sequence[Prompt], responses: Sequence[str], bias: Bias) -> list[bool | None]:  # noqa: ARG001
    return [exhibits(text, bias) for text in responses]


def _row(triple: Triple) -> dict[str, object]:
    texts = {name: getattr(triple, name) for name in ("original", "rewrite", "rewrite_of_rewrite", "has_attribute")}
    flipped = {} if triple.flipped is None else {"flipped": triple.flipped}
    return {"bias": triple.bias, "prompt": prompt_row(triple.prompt)} | texts | flipped


def _lost_row(bias: Bias, lost: Lost) -> dict[str, object]:
    """An original without a triple: an audit counts it among those tried."""
    row = lost.original
    return {
        "bias": bias.name, "prompt": prompt_row(row.prompt), "original": row.response, "rewrite": None,
        "rewrite_of_rewrite": None, "has_attribute": row.has_attribute, "failed": lost.reason,
    }  # fmt: skip
