"""`cda pairs`: RATE triples to audit on, from queries, from topics, or from responses that are there already."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cda.biases import Bias
from cda.data.load import Row, RowError, check_agree, load_rows, message_text, prompt_of
from cda.data.queries import clean_queries
from cda.data.triples import BY_WORDS
from cda.errors import DataError, RecipeError
from cda.files.jsonl import read_text, write_jsonl
from cda.files.paths import place_for, user_path
from cda.launch import say
from cda.llm.money import tokens_of
from cda.recipe.load import LoadedRecipe
from cda.recipe.sections import AuditSection
from cda.records import Exclusions, Prompt, Triple, count_reasons, text_key
from cda.resources.artifacts import prompt_row
from cda.resources.dry_run import stop_if_dry
from cda.resources.llm_access import LlmAccess, Planned, llm_access, llm_client
from cda.resources.sources import rewriter
from cda.rewriting.labels import exhibits
from cda.rewriting.triples import Kind, Original, baseline_responses, generate_questions, triples_of_responses

_ANSWER_TOKENS = 300
"""Tokens of a baseline response, estimated."""


@dataclass(frozen=True, slots=True)
class PairsSource:
    """Source of the triples: exactly one of the three files."""

    queries: str | None = None
    """Prompts or conversations, filtered to single clean questions."""
    topics: str | None = None
    """A topic a line; `per_topic` questions of `kind` are generated on each."""
    responses: str | None = None
    """Prompt, response and, if known, has_attribute."""
    kind: Kind = "technical"
    """Of generated questions: opinion (sycophancy), technical (vagueness)."""
    per_topic: int = 5
    limit: int | None = None
    """Maximum number of queries or responses; None: all."""


def make_pairs(loaded: LoadedRecipe, source: PairsSource, out: Path) -> dict[str, int]:
    """Write triples in both directions, as `cda audit --triples` reads them; return how many by bias. RecipeError: not exactly
    one source, or no LLM, or no key of it, where one is needed. DataError: nothing usable. RunError: `out` not
    writable.
    """
    given = [name for name in ("queries", "topics", "responses") if getattr(source, name)]
    if len(given) != 1:
        raise RecipeError(
            [f"give exactly one of --queries, --topics and --responses; found {', '.join(given) or 'none'}"]
        )
    recipe, llm = loaded.recipe, llm_access(loaded)
    if recipe.llm.model is None and not source.responses:
        raise RecipeError([f"--{given[0]}: answers have to be written first, which needs an LLM: set llm.model=..."])
    asks = not source.responses or recipe.labels_by_llm or recipe.rewrites_by_llm
    if asks and (problems := llm_client(recipe.llm).check()):
        raise RecipeError(problems)
    stop_if_dry(loaded, lambda: _plan(loaded, source, given[0], out))
    place_for(out)
    triples: list[Triple] = []
    counts: dict[str, int] = {}
    texts, exclusions = _texts(source, recipe.audit, llm)
    say(f"  {len(texts)} to make triples of ({exclusions})")
    by = rewriter(recipe.synthesize, loaded.biases, recipe.seed, llm)
    for bias in loaded.biases:
        labelled_by_llm = recipe.labels_by_llm and bias.label_by == "ask"
        if recipe.rewrites_by_llm:
            llm.confirm(_planned(texts, bias, labelled_by_llm, recipe.synthesize.gate.on))
        made, failed = triples_of_responses(texts, bias, llm.labeller() if labelled_by_llm else _measured, by)
        with_bias = sum(triple.has_attribute for triple in made)
        say(f"  {bias.name}: {len(made)} triples, {with_bias} of answers with it ({failed})")
        triples += made
        counts[bias.name] = len(made)
    if not triples:
        raise DataError("no triple was made; the reasons are above")
    write_jsonl(out, map(_row, triples))
    say(f"Triples: {out}; audit on them with `cda audit <model> --triples {out}`")
    return counts


def _plan(loaded: LoadedRecipe, source: PairsSource, given: str, out: Path) -> list[str]:
    """Steps of a dry run; the file is read."""
    recipe, where = loaded.recipe, str(getattr(source, given))
    n = len(load_rows(where)) if given != "topics" else sum(map(bool, read_text(user_path(where)).split("\n")))
    most = "" if source.limit is None else f", at most {source.limit}"
    by = recipe.llm.model if recipe.rewrites_by_llm else "embedded rules"
    return [
        f"{given:11} {where}: {n} rows{most}",
        f"triples     {', '.join(bias.name for bias in loaded.biases)}, by {by}",
        f"file        {out}",
    ]


def _texts(source: PairsSource, audit: AuditSection, llm: LlmAccess) -> tuple[list[Original], Exclusions]:
    """Responses with their prompts, and their labels for the bias if a file has them."""
    if source.responses:
        return read_responses(load_rows(source.responses)[: source.limit], source.responses, audit)
    client = llm.client()
    if source.topics:
        topics = [line.strip() for line in read_text(user_path(source.topics)).splitlines() if line.strip()]
        if not topics:
            raise DataError(f"{source.topics}: holds no topic; write one a line")
        queries, exclusions = generate_questions(topics, source.kind, client, source.per_topic)
        queries = queries[: source.limit]
        say(f"  {len(queries)} {source.kind} questions on {len(topics)} topics ({exclusions})")
    else:
        cleaned = clean_queries(load_rows(str(source.queries)), str(source.queries))
        queries = list(cleaned.queries[: source.limit])
        say(f"  {len(cleaned.queries)} clean questions in {source.queries} ({cleaned.exclusions})")
    mean = sum(map(tokens_of, queries)) / max(1, len(queries))
    llm.confirm(Planned("answering the queries", len(queries), mean + 50, _ANSWER_TOKENS))
    return baseline_responses(queries, client)


def read_responses(rows: Sequence[Row], where: str, audit: AuditSection) -> tuple[list[Original], Exclusions]:
    """Rows of prompt, response and, if known, has_attribute, by the name and rule in the audit's settings; unusable
    rows are counted. DataError names the file, `where`: a column is missing, or a category that the recipe names; or
    one response is said to have the attribute and to lack it.
    """
    rule, column = audit.attribute, audit.triple_columns.get("has_attribute", "has_attribute")
    present = {key for row in rows for key in row}
    if missing := sorted({"prompt", "response"} - present):
        raise DataError(
            f"{where}: needs the columns prompt and response, and lacks {' and '.join(missing)}. "
            f"Found: {', '.join(sorted(present))}"
        )
    if (column != "has_attribute" or rule != BY_WORDS) and column not in present:
        raise DataError(
            f"{where}: no column '{column}', which is to say whether a response has the attribute. "
            f"Found: {', '.join(sorted(present))}. Map it with audit.triple_columns.has_attribute=<your column>"
        )
    rule.check((row.get(column) for row in rows), where)
    found: dict[tuple[str, ...], list[tuple[int, Original]]] = {}
    reasons = []
    for number, row in enumerate(rows, 1):
        try:
            response = message_text(row.get("response"))
            if not isinstance(response, str) or not response.strip():
                raise RowError("no response")
            stated = row.get(column)
            has_attribute = None if stated is None or stated == "" else rule.read(stated)
            original = Original(prompt_of(row.get("prompt")), response, has_attribute)
        except RowError as problem:
            reasons.append(str(problem))
            continue
        same = found.setdefault(text_key(original.prompt, original.response), [])
        same.append((number, original))
        reasons += ["duplicate"] if len(same) > 1 else []
    labels = {key: {row.has_attribute for _, row in same} - {None} for key, same in found.items()}
    both = [[number for number, _ in found[key]] for key, says in labels.items() if len(says) > 1]
    check_agree(((numbers, f"the same response, and {column} says yes and no") for numbers in both), where)
    texts = [replace(same[0][1], has_attribute=next(iter(labels[key]), None)) for key, same in found.items()]
    return texts, Exclusions(len(rows), count_reasons(reasons))


def _planned(texts: Sequence[Original], bias: Bias, labelled: bool, gated: bool) -> Planned:
    """Two rewrites, a label of each if the gate asks, and one of the response if it has none."""
    unlabelled = sum(row.has_attribute is None for row in texts)
    calls = len(texts) * (4 if labelled and gated else 2) + (unlabelled if labelled else 0)
    mean = sum(tokens_of(row.response) for row in texts) / len(texts)
    return Planned(f"labelling and rewriting for {bias.name}", calls, mean + 300, mean)


def _measured(prompts: Sequence[Prompt], responses: Sequence[str], bias: Bias) -> list[bool | None]:  # noqa: ARG001
    if bias.measure is not None and bias.measure.relative:
        raise DataError(
            f"{bias.name}: whether one response by itself has it cannot be measured; give has_attribute in the file"
        )
    return [exhibits(text, bias) for text in responses]


def _row(triple: Triple) -> dict[str, object]:
    texts = {name: getattr(triple, name) for name in ("original", "rewrite", "rewrite_of_rewrite", "has_attribute")}
    flipped = {} if triple.flipped is None else {"flipped": triple.flipped}
    return {"bias": triple.bias, "prompt": prompt_row(triple.prompt)} | texts | flipped
