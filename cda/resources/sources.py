"""Data and helpers of a recipe: models, files or embedded texts, an LLM or rules; and the files that an audit measures on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Literal, TypeVar

from pydantic import BaseModel

from cda.biases import Bias, builtin_names
from cda.data.contrasts import CleanContrasts, Votes, clean_contrasts, load_votes, with_votes
from cda.data.load import Row, covariates, load_rows, looks_like_path
from cda.data.pairs import CleanPairs, PairLabels, clean_pairs, load_labels
from cda.data.quality_sets import QualityItem, QualitySet, load_quality_set
from cda.data.sampled import COLUMN_OPTION, Output, Outputs, Placed, load_sampled
from cda.data.triples import CleanTriples, clean_triples
from cda.data.weights import weights_of
from cda.embedded.model import ADAPTERS, EMBEDDED, embedded_model_folder
from cda.embedded.rules import RuleRewriter
from cda.embedded.texts import (
    SECOND_TURNS,
    audit_contrasts,
    authored_contrasts,
    authored_pairs,
    authored_samples,
    broad_topic,
    part_path,
)
from cda.errors import DataError, did_you_mean, refuse
from cda.files.hub import commit_of
from cda.files.paths import user_path
from cda.inert import clipped, inert
from cda.launch import say
from cda.models.config import ModelSpec, Precision, automatic, why_not_compiled
from cda.models.own_files import content_of
from cda.models.weights import n_weights
from cda.prompts import Prompts
from cda.recipe.load import LoadedRecipe, Opened
from cda.recipe.schema import DataSection, ModelSection, SynthesizeSection
from cda.recipe.sections import AuditSection
from cda.records import Contrast, Exclusions, Prompt, count_reasons, prompt_id
from cda.report.numbers import listed
from cda.resources.artifacts import shown_path
from cda.resources.llm_access import LlmAccess
from cda.rewriting.rewriter import GatedRewriter, LLMRewriter, Rewriter
from cda.run import file_fingerprint, fingerprint
from cda.stats.draws import drawn

T = TypeVar("T")
ANOTHER_TOPIC = "of another topic"


def model_spec(section: ModelSection) -> ModelSpec:
    """The model of a recipe, at a precision that this machine chooses if the recipe says auto; makes an embedded one on first use."""
    same = {
        each.name: getattr(section, each.name) for each in fields(ModelSpec) if each.name in ModelSection.model_fields
    }
    spec = ModelSpec(**same | {"name_or_path": _model_name(section), "precision": "bf16"}).pinned()
    precision, notes = _precision(section, spec)
    if section.compile and (why := why_not_compiled()):
        spec, notes = replace(spec, compile=False), [*notes, f"model.compile: left out, which takes longer: {why}"]
    return replace(spec, precision=precision, notes=tuple(notes))


def _precision(section: ModelSection, spec: ModelSpec) -> tuple[Precision, list[str]]:
    """The precision of a recipe's model, and what is to be said of it."""
    asked = section.precision
    if asked == "auto" or asked == "8bit_on_gpu":
        precision, reason = automatic(lambda: n_weights(spec), asked == "8bit_on_gpu")
        return precision, [f"precision {precision}: {reason} (model.precision={asked})"]
    if asked == "bf16" and automatic(lambda: 0)[0] == "fp32":
        return asked, [
            "precision bf16: this CPU has no units that multiply in it; model.precision=fp32 takes less time and rounds less"
        ]
    return asked, []


def _model_name(section: ModelSection) -> str:
    name = section.name_or_path
    if name in ADAPTERS:
        return str(embedded_model_folder(name))
    return str(user_path(name)) if name.startswith("~") else name


def model_source(section: ModelSection) -> str:
    """Fingerprint of a model's content, or its hub id and commit; of an unknown commit, its revision: no finished stage has that."""
    return content_of(_model_name(section), section.revision) or f"{section.name_or_path}@{section.revision}"


def model_kernels(section: ModelSection) -> dict[str, object]:
    """Settings beside the model's content that decide or round its scores, where they differ from the defaults."""
    include = {"attn_implementation", "compile", "reads", "head", "template_date"}
    return section.model_dump(mode="json", include=include, exclude_defaults=True)


def rewriter(synthesize: SynthesizeSection, biases: Sequence[Bias], seed: int, llm: LlmAccess) -> Rewriter:
    """A run's rewriter, LLM or rules; the same fidelity gate checks both."""
    gate = synthesize.gate
    if not llm.settings.used_for(synthesize.by):
        by_rules = RuleRewriter(seed)
        return GatedRewriter(by_rules, None, gate.ask_again, gate.words_within, biases) if gate.on else by_rules
    writes = LLMRewriter(llm.client(), synthesize.show_prompt, told=llm.prompts.rewrite)
    return GatedRewriter(writes, llm.labeller(), gate.ask_again, gate.words_within, biases) if gate.on else writes


def prompt_settings(prompts: Prompts, *kinds: Literal["label", "rewrite", "judge"]) -> dict[str, object]:
    """Prompts as settings: their whole content determines a stage's outputs."""
    return {kind: getattr(prompts, kind).model_dump(mode="json") for kind in kinds}


def prompt_name(reference: str, prompt: BaseModel) -> str:
    """A prompt as reports name it: a shipped one by its name, a file with the mark of its content."""
    if not reference.endswith((".yaml", ".yml")):
        return reference
    return f"{shown_path(reference)} ({fingerprint(prompt.model_dump(mode='json'))[:8]})"


def training_pairs(data: DataSection, opened: Opened) -> CleanPairs:
    """Pairs of `data.pairs`, read once in a run; errors as of `load_pairs`."""
    known_by = ("pairs", data.pairs, data.split, str(data.topic), *sorted(data.columns.items()))
    return opened.once(known_by, lambda: load_pairs(data.pairs, data.split, data.columns, "data.columns", data.topic))


def supplementary_pairs(data: DataSection, opened: Opened) -> CleanPairs:
    """Pairs of `data.supplement`, which has to be set; read once in a run, errors as of `load_pairs`."""
    reference, split, columns = str(data.supplement), data.supplement_split, data.supplement_columns
    known_by = ("supplement", reference, split, *sorted(columns.items()))
    return opened.once(known_by, lambda: load_pairs(reference, split, columns, "data.supplement_columns"))


def pair_weights(data: DataSection, opened: Opened) -> dict[str, float]:
    """Weight of each pair by its id, by the column `data.weights` of the file that unchanged pairs come from; empty without it. Read
    once in a run; DataError: embedded pairs, which have no columns, or as of `weights_of`."""
    column, own = data.weights, data.supplement is None
    if column is None:
        return {}
    reference, split = unchanged_source(data)
    if reference == EMBEDDED:
        raise DataError(
            f"data.weights: the embedded pairs have no column '{column}'; `cda data embedded --rows FILE` writes them with weights, "
            "for data.pairs=FILE"
        )

    def read() -> dict[str, float]:
        cleaned = training_pairs(data, opened) if own else supplementary_pairs(data, opened)
        weights = weights_of(load_rows(reference, split), cleaned.numbers, str(column), reference, "data.weights")
        return {pair.id: weight for pair, weight in zip(cleaned.pairs, weights, strict=True)}

    return opened.once(("weights", data.model_dump_json()), read)


def unchanged_source(data: DataSection) -> tuple[str, str]:
    """The file that unchanged pairs come from, and its split."""
    return (data.pairs, data.split) if data.supplement is None else (data.supplement, data.supplement_split)


def taught_contrasts(data: DataSection, biases: Sequence[Bias], opened: Opened) -> CleanContrasts:
    """Contrasts of `data.contrasts`, of the recipe's biases and of any built-in one; read once in a run."""
    own = [bias.name for bias in biases]

    def read() -> CleanContrasts:
        path, columns = str(data.contrasts), data.contrast_columns
        return clean_contrasts(
            load_rows(path), own, columns, path, setting="data.contrast_columns", others=builtin_names()
        )

    return opened.once(("taught contrasts", data.model_dump_json(), *own), read)


def load_pairs(
    reference: str, split: str, columns: Mapping[str, str], setting: str, topic: str | None = None
) -> CleanPairs:
    """Pairs of `embedded` or of a reference that `load_rows` takes; errors name `setting`, the recipe's for `columns`.
    Those of one topic, if one is given and the rows name topics. DataError: cannot be loaded, a column is missing, no row names this
    topic, or nothing usable is left."""
    if reference == EMBEDDED:
        every = authored_pairs("train")
        own = _of_topic(every, [broad_topic(authored.domain) for authored in every], topic, EMBEDDED)
        left_out = {ANOTHER_TOPIC: len(every) - len(own)} if len(own) < len(every) else {}
        return CleanPairs(tuple(authored.pair for authored in own), Exclusions(len(every), left_out))
    read = load_rows(reference, split)
    column = columns.get("topic", "topic")
    rows = _of_topic(read, [str(row.get(column) or "").strip() for row in read], topic, reference)
    cleaned = clean_pairs(rows, columns, reference, f"{setting}.")
    if cleaned.taken:
        say(f"  {reference}: {cleaned.taken}")
    if not cleaned.pairs:
        prompt, present = columns.get("prompt", "prompt"), dict.fromkeys(name for row in rows for name in row)
        unread = "" if prompt in present else (
            f". No column '{prompt}' is there; the columns are {', '.join(map(inert, present))}. Name the prompts' with "
            f"{setting}.prompt=<your column>"
        )  # fmt: skip
        raise DataError(f"{reference}: no usable pair; {cleaned.exclusions}{unread}")
    if len(rows) < len(read):
        reasons = {**cleaned.exclusions.reasons, ANOTHER_TOPIC: len(read) - len(rows)}
        exclusions = Exclusions(cleaned.exclusions.seen + len(read) - len(rows), reasons)
        of_all = {id(row): number for number, row in enumerate(read, 1)}
        numbers = tuple(of_all[id(rows[number - 1])] for number in cleaned.numbers)
        return replace(cleaned, exclusions=exclusions, numbers=numbers)
    return cleaned


def _of_topic(rows: Sequence[T], topics: Sequence[str], topic: str | None, where: str) -> Sequence[T]:
    """The rows of one topic; all of them if none is asked for, or if they name none, which is said."""
    if topic is None:
        return rows
    if not any(topics):
        say(f"  {where}: no row names a topic, so that the pairs are not restricted to {clipped(topic, 60)!r}")
        return rows
    own = [row for row, named in zip(rows, topics, strict=True) if named == topic]
    if not own:
        known = list(dict.fromkeys(filter(None, topics)))
        topics = ", ".join(clipped(inert(name), 40) for name in known[:12])
        raise DataError(
            f"{where}: no pair of the topic {clipped(topic, 60)!r} (data.topic).{did_you_mean(topic, known)} Topics there: {topics}. "
            "data.topic=null takes all pairs"
        )
    return own


def load_quality_source(reference: str, split: str, columns: Mapping[str, str]) -> QualitySet:
    """Preferences to be ranked: the embedded quality pairs, or a name that `load_quality_set` takes; errors as of that."""
    if reference != EMBEDDED:
        quality = load_quality_set(reference, split, columns)
        if quality.taken:
            say(f"  {reference}: {quality.taken}")
        return quality
    items = tuple(
        QualityItem(row, str(row), pair.prompt, (pair.chosen,), (pair.rejected,), EMBEDDED, EMBEDDED)
        for row, pair in enumerate((authored.pair for authored in authored_pairs("quality")), 1)
    )
    return QualitySet(EMBEDDED, EMBEDDED, "pairs", items, Exclusions(len(items), {}), {}, None, {})


def sampled_responses(
    reference: str, columns: Mapping[str, str] | None = None, split: str = "train", setting: str = COLUMN_OPTION
) -> Outputs:
    """Responses of a policy by prompt, of a file or `embedded`; errors as of `load_sampled`."""
    if reference != EMBEDDED:
        return load_sampled(reference, columns, split, setting)
    rows = authored_samples()
    by_prompt = {
        prompt_id(row.prompt): Placed(
            row.prompt,
            [Output(text, quality=float(not flaw)) for text, flaw in zip(row.responses, row.flaws, strict=True)],
        )
        for row in rows
    }
    return Outputs(by_prompt, Exclusions(len(rows), {}))


def source_fingerprint(reference: str | None, part: str | None = None) -> str:
    """Fingerprint of a data source: of the content of a file, of the name and commit of a hub data set."""
    if reference is None:
        return "none"
    if reference == EMBEDDED:
        return file_fingerprint(part_path(part)) if part else EMBEDDED  # type: ignore[arg-type]
    if looks_like_path(reference):
        return file_fingerprint(user_path(reference))
    commit = commit_of("dataset", reference)
    return f"hub:{reference}" + (f"@{commit}" if commit else "")


def bias_settings(biases: tuple[Bias, ...]) -> list[dict[str, object]]:
    """Bias files as settings: their whole content determines a stage's outputs."""
    return [bias.model_dump(mode="json") for bias in biases]


@dataclass(frozen=True, slots=True)
class AuditInputs:
    """The audit's files, each read once in a run. Nothing here spends money."""

    audit: AuditSection
    biases: tuple[Bias, ...]
    opened: Opened
    trains: bool = False
    """The audit of a training: contrasts of the user's file of biases that are not taught are measured too."""
    votes_teach: bool = False
    """Votes on `teaching_prompt`s set the training's targets: contrasts come without them."""

    @property
    def names(self) -> list[str]:
        return [bias.name for bias in self.biases]

    def contrasts(self) -> CleanContrasts:
        """Contrasts of the user's file; none if the recipe names no file."""
        read = self._once("contrasts", self._read_contrasts)
        return replace(read, contrasts=tuple(self._left_votes(read.contrasts)))

    def _left_votes(self, contrasts: Iterable[Contrast]) -> Iterator[Contrast]:
        """Contrasts without the votes that teach."""
        for each in contrasts:
            teaches = self.votes_teach and teaching_prompt(each.prompt)
            yield replace(each, votes=(), preferred=None) if teaches else each

    def opinions(self) -> tuple[Votes, Votes]:
        """People's votes and judges' verdicts from separate files."""
        votes, verdicts = (items for _, _, items in self._opinion_files())
        return votes, verdicts

    def _opinion_files(self) -> Iterator[tuple[str, str, Votes]]:
        for kind, name in (("votes", self.audit.votes), ("verdicts", self.audit.verdicts)):
            items = self.opened.once(("votes", name), partial(load_votes, name)) if name else {}
            yield kind, str(name), items

    def triples(self) -> CleanTriples:
        """RATE triples of the user's file; none if the recipe names no file."""
        where = self.audit.triples
        self.check_by()
        if where is None or where == EMBEDDED:
            return CleanTriples((), Exclusions(0, {}))
        columns, rule, by = self.audit.triple_columns, self.audit.attribute, self.audit.by
        return self._once("triples", lambda: clean_triples(self._rows(where), self.names, columns, where, rule, by))

    def check_by(self) -> None:
        """DataError (all listed) if a column of `audit.by` is in no file, or the same in every row; or cutoffs have no column."""
        audit = self.audit
        files = [name for name in (audit.contrasts, audit.triples) if name not in (None, EMBEDDED)]
        rows = {str(name): self._rows(str(name)) for name in files} if audit.by else {}
        refuse([*by_problems(audit.by, rows), *cutoff_problems(audit.by, audit.cutoffs)])

    def _rows(self, name: str) -> list[Row]:
        return self.opened.once(("rows", name), lambda: load_rows(name))

    def labels(self) -> dict[str, PairLabels]:
        """Labels of preference pairs by bias; empty if the recipe names no file of them."""
        reference = self.audit.labels
        return {} if reference is None else self._once("labels", lambda: load_labels(reference, self.names))

    def quality(self) -> QualitySet | None:
        """Held-out quality pairs with their sections; None if the recipe asks for none. DataError: cannot be loaded, or several
        responses on a side, which `cda quality` ranks and an audit does not."""
        reference, split, columns = self.audit.quality, self.audit.quality_split, self.audit.quality_columns
        if reference is None:
            return None
        quality = self._once("quality", lambda: load_quality_source(reference, split, columns))
        if any(len(item.chosen) != 1 or len(item.rejected) != 1 for item in quality.items):
            raise DataError(
                f"{reference}: read as {quality.format}, whose items have several responses on a side; an audit takes one pair "
                f"a row. `cda quality MODEL {reference}` ranks them"
            )
        return quality

    @property
    def sampled_from(self) -> str | None:
        """Where samples of a policy come from; None: nowhere."""
        return {"auto": EMBEDDED if self.trains else None}.get(str(self.audit.samples), self.audit.samples)

    def samples(self) -> Outputs | None:
        """Responses of a policy by prompt; None if there are none. DataError: cannot be loaded, or no prompt has two."""
        reference, columns = self.sampled_from, self.audit.sample_columns
        if reference is None:
            return None
        return self._once("samples", lambda: sampled_responses(reference, columns, setting="audit.sample_columns."))

    def existing_contrasts(self) -> list[Contrast]:
        """Contrasts that exist before the audit makes any: the user's and the embedded ones."""
        if self.audit.contrasts is None:
            return [triple.contrast for triple in self.triples().triples]
        embedded, _ = with_votes([*audit_contrasts(), *self.second_turn_contrasts()], *self.opinions())
        return [*self.contrasts().contrasts, *self._left_votes(embedded)]

    def drawn_contrasts(self, seed: int) -> list[Contrast]:
        """Those of them that the audit draws; a file's contrasts stand for the embedded ones."""
        existing = self.existing_contrasts()
        found: list[Contrast] = []
        for name in dict.fromkeys([*self.names, *(contrast.bias for contrast in existing)]):
            own = [contrast for contrast in existing if contrast.bias == name]
            files = [contrast for contrast in own if contrast.tags.get("source", "file") == "file"]
            found += drawn(files or own, self.audit.max_contrasts, seed)
        return found

    def untaught(self) -> list[str]:
        """Biases of the user's file that are not the recipe's own."""
        return sorted({contrast.bias for contrast in self.contrasts().contrasts} - set(self.names))

    def second_turns(self) -> list[str]:
        """Names of the biases of second turns that are measured beside the recipe's own, as `audit.second_turn` says; without
        those that are the recipe's own, or that the user's file has contrasts of."""
        asked = self.audit.second_turn
        if asked == "no" or self.audit.contrasts is None:
            return []
        covered = {contrast.bias for contrast in self.contrasts().contrasts}
        wanted = SECOND_TURNS if asked == "yes" else set(self.names) - covered
        names = [SECOND_TURNS[name] for name in SECOND_TURNS if name in wanted]
        return [name for name in names if name not in covered and name not in self.names]

    def second_turn_contrasts(self) -> list[Contrast]:
        """Embedded contrasts of `second_turns`, and of biases of second turns that are the recipe's own."""
        return authored_contrasts("second_turn", [*self.names, *self.second_turns()])

    def existing_prompts(self) -> list[Prompt]:
        """Prompts of everything that the audit measures on, as far as it exists beforehand."""
        quality, samples = self.quality(), self.samples()
        return [
            *(contrast.prompt for contrast in self.existing_contrasts()),
            *(triple.prompt for triple in self.triples().triples),
            *(item.prompt for item in (quality.items if quality else ())),
            *(placed.prompt for placed in (samples.prompts if samples else ())),
        ]

    def check_opinions(self) -> None:
        """DataError if votes or verdicts have no id of a contrast that exists, or no readable vote."""
        contrasts = replace(self, votes_teach=False).existing_contrasts() if any(self.opinions()) else []
        if contrasts:
            self.unmatched(contrasts)
        self.check_readable(contrasts)

    def unmatched(self, contrasts: Sequence[Contrast]) -> list[tuple[str, int, int]]:
        """Name, items that match no contrast, and all items of each file of votes or verdicts; DataError if none matches."""
        known = {name for contrast in contrasts for name in contrast.ids}
        counts = []
        for _, file, items in self._opinion_files():
            missing = sum(item not in known for item in items)
            if items and missing == len(items):
                ids = [str(contrast.tags["item"]) for contrast in contrasts if "item" in contrast.tags]
                ours = ", ".join(ids[:3]) or "none: give the contrasts a column id (audit.columns.id=<your column>)"
                made = [name for name in self.names if name not in {contrast.bias for contrast in contrasts}]
                if made:
                    raise DataError(
                        f"{file}: none of its {len(items)} ids is an id of a contrast, and those of {', '.join(made)} are still to be "
                        "rewritten, so that nobody can have voted on them. Give the contrasts that people saw (audit.contrasts=<file>)"
                    )
                if others := self._biases_of(items):
                    raise DataError(
                        f"{file}: its {len(items)} ids are of contrasts of {listed(others)} in {self.audit.contrasts}, and this measures "
                        f"{listed(self.names)} alone; name {'it' if len(others) == 1 else 'them'} too (--bias {' --bias '.join(others)})"
                    )
                raise DataError(
                    f"{file}: none of its {len(items)} ids is an id of the contrasts. There: {', '.join(list(items)[:3])}, "
                    f"…; of the contrasts: {ours}"
                )
            counts.append((file, missing, len(items)))
        return counts

    def _biases_of(self, items: Votes) -> list[str]:
        """Biases that rows of the user's contrasts with these ids name, and that are not measured."""
        if self.audit.contrasts in (None, EMBEDDED):
            return []
        name, bias = (self.audit.columns.get(column, column) for column in ("id", "bias"))
        rows = self._rows(str(self.audit.contrasts))
        found = {str(row.get(bias)) for row in rows if row.get(bias) and str(row.get(name)) in items}
        return sorted(found - set(self.names))

    def check_readable(self, contrasts: Sequence[Contrast]) -> None:
        """Raise DataError if a file of votes or verdicts has ids of the contrasts, but no readable vote on any."""
        for kind, file, items in self._opinion_files():
            of_file = [contrast for contrast in contrasts if any(item in items for item in contrast.ids)]
            if of_file and not any(getattr(contrast, kind) for contrast in of_file):
                words = [word for of_item in items.values() for word in of_item]
                reasons = count_reasons([f"unreadable vote '{word[:40]}'" for word in words])
                raise _unreadable(file, Exclusions(len(words), reasons))

    def _read_contrasts(self) -> CleanContrasts:
        audit = self.audit
        if audit.contrasts in (None, EMBEDDED):
            return CleanContrasts((), Exclusions(0, {}), Exclusions(0, {}))
        self.check_by()
        where, others = str(audit.contrasts), builtin_names() if self.trains else ()
        rows, opinions = self._rows(where), self.opinions()
        own = clean_contrasts(rows, self.names, audit.columns, where, *opinions, by=audit.by, others=others)
        if audit.votes is None and own.votes.seen and own.votes.dropped == own.votes.seen:
            raise _unreadable(where, own.votes)
        return own

    def _once(self, kind: str, read: Callable[[], T]) -> T:
        return self.opened.once((kind, self.audit.model_dump_json(), self.trains, *self.names), read)


def audited_prompts(inputs: AuditInputs) -> set[str]:
    """`prompt_id` of everything that the audit measures on."""
    return {prompt_id(prompt) for prompt in inputs.existing_prompts()}


def audit_inputs(loaded: LoadedRecipe) -> AuditInputs:
    trains = not loaded.only_audit
    return AuditInputs(loaded.recipe.audit, loaded.biases, loaded.opened, trains, trains and loaded.recipe.votes_teach)


def teaching_prompt(prompt: Prompt) -> bool:
    """True for about half of all prompts, the same in every file and run."""
    return int(fingerprint(["teaches", prompt_id(prompt)]), 16) % 2 == 0


def _unreadable(name: str, votes: Exclusions) -> DataError:
    most = sorted(votes.reasons.items(), key=lambda item: -item[1])[:3]
    why = ", ".join(f"{n} × {reason}" for reason, n in most)
    return DataError(
        f"{name}: none of its {votes.seen} votes can be read ({why}{', …' * (len(votes.reasons) > 3)}); the words are perturbed, "
        "base, response_1, response_2 and tie"
    )


def by_problems(columns: Sequence[str], files: Mapping[str, Sequence[Row]]) -> Iterator[str]:
    """Columns that no file has, or that are the same or empty in every row; `files` are the rows by name of the file."""
    if columns and not files:
        yield (
            "audit.by: embedded texts have no columns to compare by; give contrasts or triples of your own (audit.contrasts, "
            "audit.triples)"
        )
        return
    present = sorted({key for rows in files.values() for row in rows for key in row})
    for name in dict.fromkeys(columns):
        values = {value for rows in files.values() for row in rows for value in covariates(row, [name]).values()}
        where = " and ".join(files)
        if name not in present:
            yield f"{where}: audit.by: no column '{name}'.{did_you_mean(name, present)} Found: {', '.join(present)}"
        elif len(values) < 2:
            found = f"the same in every row ('{values.pop()[:40]}')" if values else "empty in every row"
            yield f"{where}: audit.by: the column '{name}' is {found}, so that there is nothing to compare"


def cutoff_problems(columns: Sequence[str], cutoffs: Mapping[str, Sequence[float]]) -> Iterator[str]:
    """Cutoffs without a column of `by`, without a number, or with one twice."""
    for name, bounds in cutoffs.items():
        if name not in columns:
            yield f"audit.cutoffs: '{name}' is no column of audit.by ({', '.join(columns) or 'which is empty'})"
        elif not bounds or len(set(bounds)) < len(bounds):
            yield f"audit.cutoffs.{name}: give different numbers, one at least; found {list(bounds)}"
