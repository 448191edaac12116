"""Texts that an audit scores: read, drawn, and rewritten if no file and no embedded text has them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from cda.biases import Bias
from cda.data.contrasts import with_votes
from cda.data.quality_sets import QualitySet
from cda.data.sampled import Placed
from cda.data.triples import FailedTriple
from cda.embedded.model import EMBEDDED
from cda.embedded.texts import (
    WITH_CONTRASTS,
    audit_contrasts,
    authored_contrasts,
    authored_responses,
    authored_triples,
)
from cda.errors import DataError
from cda.features import n_words
from cda.launch import say
from cda.llm.money import tokens_of
from cda.recipe.schema import SynthesizeSection
from cda.records import Contrast, Exclusions, Pair, Prompt, RewriteRequest, Triple, count_reasons
from cda.resources.llm_access import LlmAccess, Planned, confirm_all
from cda.resources.sources import AuditInputs, rewriter
from cda.results.effects import Flips
from cda.rewriting.rewriter import Rewriter
from cda.rewriting.triples import Original, checked_triples, flips_of, make_triples
from cda.stats.draws import drawn

EMBEDDED_TEXTS = "embedded texts"
"""How a result names the authors of the embedded triples."""
_INSTRUCTION_TOKENS = 300
_RATE_BY_RULES = 40
_LABEL_TOKENS = 20
_COMPARED_TRIPLE = 3
"""Comparisons of a triple; see `triple_comparisons`."""
_LABELLED_FOR_EACH = 4
"""Answers that an LLM labels for each original with the bias, and each without it, that is wanted."""


@dataclass(frozen=True, slots=True)
class Rewriting:
    """The recipe's rewriter: an LLM or rules."""

    settings: SynthesizeSection
    biases: tuple[Bias, ...]
    seed: int
    llm: LlmAccess
    writes: bool = True
    """False in a plan: texts that would have to be written are left out."""

    @property
    def by_llm(self) -> bool:
        return self.llm.settings.used_for(self.settings.by)

    def labels(self, bias: Bias) -> bool:
        """True if the LLM labels answers for this bias."""
        return self.by_llm and bias.label_by == "ask"

    def calls_for(self, bias: Bias) -> int:
        """LLM calls for each rewrite: one more if the fidelity gate labels it."""
        return 2 if self.labels(bias) and self.settings.gate.on else 1

    def planning(self) -> Rewriting:
        """The same for a plan."""
        return replace(self, writes=False)

    def rewriter(self) -> Rewriter:
        return rewriter(self.settings, self.biases, self.seed, self.llm)


@dataclass(frozen=True, slots=True)
class Triples:
    """RATE triples of the recipe's biases: those kept, whose rewrites both flipped the bias as far as anything can tell; and by
    bias the flips and the triples left out."""

    kept: list[Triple] = field(default_factory=list)
    flips: dict[str, Flips] = field(default_factory=dict)
    failed: dict[str, Exclusions] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AuditTexts:
    """Everything that an audit scores, and earlier exclusions. `available_pairs` and `available` count quality pairs, and
    contrasts by bias, before the sample was drawn; `excluded` unusable rows by the user's file; `failed` failed rewrites by bias;
    `votes_unmatched` items of votes and verdicts that are none of the contrasts."""

    contrasts: tuple[Contrast, ...]
    triples: Triples
    quality: QualitySet | None
    samples: tuple[Placed, ...]
    available_pairs: int
    available: Mapping[str, int]
    excluded: dict[str, Exclusions]
    failed: Mapping[str, Exclusions]
    votes_unmatched: int

    @property
    def pairs(self) -> tuple[Pair, ...]:
        return self.quality.pairs if self.quality else ()


def load_audit_texts(inputs: AuditInputs, rewriting: Rewriting, *, only_audit: bool) -> AuditTexts:
    """Load, make and draw everything; the rewriter is asked only for texts that no file and no embedded set offers. A file's
    contrasts stand for their biases; others have embedded texts (five biases) or rewritten embedded answers. A training is
    audited on every embedded bias, an audit alone (`only_audit`) on those that were asked for. The cost of an LLM's texts is agreed to
    once, before any is written."""
    audit, seed = inputs.audit, rewriting.seed
    if rewriting.writes:
        llm = rewriting.llm
        confirm_all([(llm.settings, each.planned) for each in unwritten(inputs, rewriting)], llm.consent, llm.opened)
    excluded: dict[str, Exclusions] = {}
    groups, failed = _contrasts(inputs, rewriting, excluded, only_audit=only_audit)
    quality = inputs.quality()
    available_pairs = len(quality.items) if quality else 0
    if quality is not None:
        excluded["quality pairs"] = quality.exclusions
        quality = replace(quality, items=tuple(drawn(quality.items, audit.max_quality, seed)))
    triples = _triples(inputs, rewriting, excluded)
    samples = _samples(inputs, seed, excluded)
    most = audit.max_contrasts
    if audit.contrasts is None:
        groups, most = _of_triples(triples, inputs), None  # drawn as triples
    everything = [contrast for group in groups.values() for contrast in group]
    n_unmatched = _n_unmatched(inputs, everything, excluded["votes"])
    return AuditTexts(
        contrasts=tuple(contrast for group in groups.values() for contrast in drawn(group, most, seed)),
        triples=triples,
        quality=quality,
        samples=samples,
        available_pairs=available_pairs,
        available={name: len(group) for name, group in groups.items()},
        excluded=excluded,
        failed=failed,
        votes_unmatched=n_unmatched,
    )


def _samples(inputs: AuditInputs, seed: int, excluded: dict[str, Exclusions]) -> tuple[Placed, ...]:
    """Prompts with two responses of the policy at least; all that is left out is said."""
    outputs, most = inputs.samples(), inputs.audit.max_samples
    if outputs is None:
        return ()
    several = [placed for placed in outputs.prompts if len(placed.responses) > 1]
    taken = drawn(several, most, seed)
    left_out = {"fewer than 2 responses": len(outputs.prompts) - len(several)}
    left_out["not drawn (audit.max_samples)"] = len(several) - len(taken)
    found = {
        "rows of samples": outputs.rows,
        "samples": outputs.responses,
        "prompts of samples": Exclusions(len(outputs.prompts), {why: n for why, n in left_out.items() if n}),
    }
    for name, own in found.items():
        if own.dropped:
            say(f"  {name}: {own}")
    excluded |= found
    return tuple(taken)


def _of_triples(triples: Triples, inputs: AuditInputs) -> dict[str, list[Contrast]]:
    """Both rewrites of each triple as contrasts, by bias; the biases without any are said. DataError: there is no triple."""
    groups = {name: [each.contrast for each in triples.kept if each.bias == name] for name in inputs.names}
    lacking = [name for name, own in groups.items() if not own]
    if len(lacking) == len(groups):
        why = (
            "; ".join(f"{name}: {left}" for name, left in triples.failed.items()) or f"none is of {', '.join(lacking)}"
        )
        raise DataError(
            f"{inputs.audit.triples or 'triples'}: no triple is left to audit on (audit.contrasts is none): {why}"
        )
    if lacking:
        say(f"  not measured, since no triple is of them: {', '.join(lacking)}")
    return {name: own for name, own in groups.items() if own}


def _contrasts(
    inputs: AuditInputs, rewriting: Rewriting, excluded: dict[str, Exclusions], *, only_audit: bool
) -> tuple[dict[str, list[Contrast]], dict[str, Exclusions]]:
    """Contrasts by bias, and the rewrites that failed."""
    own = inputs.contrasts()
    if inputs.audit.contrasts is None:
        excluded["contrasts"] = excluded["votes"] = Exclusions(0, {})
        return {}, {}
    covered = {contrast.bias for contrast in own.contrasts}
    wanted = [
        *(row for row in audit_contrasts() if row.bias in inputs.names or not only_audit),
        *inputs.second_turn_contrasts(),
    ]
    embedded, unread = with_votes([row for row in wanted if row.bias not in covered], *inputs.opinions())
    covered |= {contrast.bias for contrast in embedded}
    groups: dict[str, list[Contrast]] = {}
    for contrast in (*own.contrasts, *embedded):
        groups.setdefault(contrast.bias, []).append(contrast)
    failed: dict[str, Exclusions] = {}
    for bias in inputs.biases:
        if bias.name not in covered and rewriting.writes:
            rewritten, failed[bias.name] = _rewritten_contrasts(bias, _bases(inputs, rewriting), rewriting.rewriter())
            groups |= {bias.name: rewritten} if rewritten else {}
    unread_votes = dict(sorted((Counter(own.votes.reasons) + Counter(unread.reasons)).items()))
    excluded["contrasts"] = own.exclusions
    excluded["votes"] = Exclusions(own.votes.seen + unread.seen, unread_votes)
    if own.ids.exclusions.dropped:
        excluded["ids of contrasts"] = own.ids.exclusions
    return groups, failed


def _n_unmatched(inputs: AuditInputs, contrasts: Sequence[Contrast], votes: Exclusions) -> int:
    """Items of votes and verdicts that are none of the contrasts; all that was left out of both is said."""
    audit, own = inputs.audit, inputs.contrasts()
    if audit.contrasts not in (None, EMBEDDED):
        say(f"  {audit.contrasts}: {own.exclusions}")
        if own.ids.notice:
            say(f"  {audit.contrasts}: {own.ids.notice}")
    unmatched = inputs.unmatched(contrasts)
    for file, missing, n_items in unmatched:
        if missing:
            say(f"  {file}: {missing} of {n_items} items are none of the contrasts")
    inputs.check_readable(contrasts)
    if votes.dropped:
        say(f"  votes: {votes}; the words are perturbed, base, response_1, response_2 and tie")
    if inputs.opinions()[1] and not any(contrast.votes or contrast.preferred for contrast in contrasts):
        say(f"  {audit.verdicts}: not used, because no contrast has votes; verdicts extend votes")
    return sum(missing for _, missing, _ in unmatched)


def _triples(inputs: AuditInputs, rewriting: Rewriting, excluded: dict[str, Exclusions]) -> Triples:
    """Triples of each bias: the file's, else the embedded ones, else rewrites of embedded answers."""
    audit, own = inputs.audit, inputs.triples()
    if audit.triples not in (None, EMBEDDED):
        excluded["triples"] = own.exclusions
        say(f"  {audit.triples}: {own.exclusions}")
    triples = Triples()
    too_long: list[Triple] = []
    n_given = n_drawn = 0
    for bias in inputs.biases:
        given, by, checked_by = _given_triples(bias, inputs)
        n_given += len(given)
        tried = drawn(given, audit.max_triples, rewriting.seed)
        n_drawn += len(tried)
        if tried:
            kept, reasons = checked_triples([each for each in tried if isinstance(each, Triple)], bias)
            flips = flips_of([each.has_attribute for each in tried], kept, by, checked_by)
            reasons += [each.reason for each in tried if isinstance(each, FailedTriple)]
            failed = Exclusions(len(tried), count_reasons(reasons))
        elif n_each := _n_each(bias, inputs, rewriting):
            kept, flips, failed = _made_triples(bias, n_each, rewriting)
        else:
            continue
        long = [triple for triple in kept if audit.max_triple_words and _longest(triple) > audit.max_triple_words]
        triples.kept.extend(kept)
        triples.flips[bias.name], triples.failed[bias.name] = flips.less(long), failed
        too_long += long
        if flips.checked_by is None and inputs.audit.contrasts is None:
            say(
                f"  triples of {bias.name}: nothing checks that the rewrites flipped it, so that all count as flipped; give a column "
                "flipped, or the bias file a measure"
            )
        if failed.dropped:
            say(f"  triples of {bias.name}: {failed}")
    if n_given > n_drawn:
        excluded["triples, to draw from"] = Exclusions(n_given, {"not drawn (audit.max_triples)": n_given - n_drawn})
        say(f"  triples: {excluded['triples, to draw from']}")
    if too_long:
        reason = "a version is longer than audit.max_triple_words"
        excluded["triples by length"] = Exclusions(len(triples.kept), {reason: len(too_long)})
        say(f"  triples: {excluded['triples by length']}")
    return replace(triples, kept=[triple for triple in triples.kept if triple not in too_long])


def _given_triples(bias: Bias, inputs: AuditInputs) -> tuple[Sequence[Triple | FailedTriple], str, str | None]:
    """Existing triples and originals that gave none, their author, and the source of the claim that their rewrites flipped the bias."""
    of_file = [triple for triple in inputs.triples().triples if triple.bias == bias.name]
    failed = [each for each in inputs.triples().failed if each.bias == bias.name]
    if of_file or failed:
        return [*of_file, *failed], str(inputs.audit.triples), _checker(of_file, bias)
    if inputs.audit.triples is None or inputs.audit.rate or inputs.audit.contrasts is None:
        return [], "", None
    return [authored.triple for authored in authored_triples([bias.name])], EMBEDDED_TEXTS, "blind readers"


def _n_each(bias: Bias, inputs: AuditInputs, rewriting: Rewriting) -> int:
    """Number of answers with the bias, and as many without, that are rewritten to make triples of it."""
    if not rewriting.writes:
        return 0
    if inputs.audit.rate is not None or inputs.audit.triples is None or inputs.audit.contrasts is None:
        return inputs.audit.rate or 0
    by_rules = not rewriting.by_llm and bias.offline is not None and bias.name not in WITH_CONTRASTS
    n_each = (
        _RATE_BY_RULES
        if inputs.audit.max_triples is None
        else max(1, min(_RATE_BY_RULES, inputs.audit.max_triples // 2))
    )
    return n_each if by_rules else 0


def _made_triples(bias: Bias, n_each: int, rewriting: Rewriting) -> tuple[list[Triple], Flips, Exclusions]:
    originals, unlabelled = _originals(bias, n_each, rewriting)
    writer = rewriting.rewriter()
    made, lost = make_triples(originals, bias, writer)
    kept, reasons = checked_triples(made, bias)  # without a gate nobody has looked at them yet
    labelled = rewriting.calls_for(bias) > 1
    checked_by = f"labels of {rewriting.llm.settings.model}" if labelled else _measure_name(bias)
    flips = flips_of([original.has_attribute for original in originals], kept, writer.name, checked_by, made=True)
    reasons += [each.reason for each in lost] + ["its label could not be read"] * unlabelled
    return kept, flips, Exclusions(len(originals) + unlabelled, count_reasons(reasons))


def _checker(triples: Sequence[Triple], bias: Bias) -> str | None:
    """Source of the claim that a file's rewrites flipped the bias: its column `flipped`, the measure, or both in part."""
    n_labelled = sum(triple.flipped is not None for triple in triples)
    if n_labelled == 0:
        return _measure_name(bias)
    others = _measure_name(bias) or "nothing"
    rest = f" in {n_labelled} of {len(triples)} rows, {others} in the others" if n_labelled < len(triples) else ""
    return f"the column flipped{rest}"


def _measure_name(bias: Bias) -> str | None:
    return f"measured {bias.measure.feature.replace('_', ' ')}" if bias.measure else None


def _longest(triple: Triple) -> int:
    return max(map(n_words, (triple.original, triple.rewrite, triple.rewrite_of_rewrite)))


def _originals(bias: Bias, n_each: int, rewriting: Rewriting) -> tuple[list[Original], int]:
    """Embedded answers with and without the bias, and the number with no readable label."""
    found = _candidates(bias, n_each, rewriting)
    if asked := [answer for answer in found if answer.has_attribute is None]:
        prompts, responses = [answer.prompt for answer in asked], [answer.response for answer in asked]
        labels = rewriting.llm.labeller()(prompts, responses, bias)
        found = [replace(answer, has_attribute=label) for answer, label in zip(asked, labels, strict=True)]
    unlabelled = sum(answer.has_attribute is None for answer in found)
    return _of_each_side(found, n_each, rewriting.seed), unlabelled


def _of_each_side(answers: Sequence[Original], n_each: int, seed: int) -> list[Original]:
    """So many answers without the bias, and as many with it, as far as there are."""
    sides = ([answer for answer in answers if answer.has_attribute is side] for side in (False, True))
    return [answer for side in sides for answer in drawn(side, n_each, seed)]


def _texts_of(answers: Sequence[Original]) -> list[tuple[Prompt, str]]:
    return [(answer.prompt, answer.response) for answer in answers]


def _candidates(bias: Bias, n_each: int, rewriting: Rewriting) -> list[Original]:
    """Embedded answers that may be rewritten: labelled by the authors for the embedded biases, else by the measure, else all to be
    labelled by the LLM. If one answer alone cannot show the bias, plain answers are those without it, none with it."""
    last_turns = authored_contrasts("second_turn", [bias.name])
    without = [*authored_contrasts("audit", [bias.name]), *last_turns]
    if without:
        having = [*authored_contrasts("shown", [bias.name]), *last_turns]
        return [
            *(Original(row.prompt, row.base, False) for row in without),
            *(Original(row.prompt, row.perturbed, True) for row in having),
        ]
    plain = [Original(row.prompt, row.base, False) for row in authored_contrasts("audit", ["jargon"])]
    others = [Original(row.prompt, text) for row in authored_responses() for text in row.responses]
    if rewriting.labels(bias):
        answers = drawn([*plain, *others], _LABELLED_FOR_EACH * n_each, rewriting.seed)
        return [replace(answer, has_attribute=None) for answer in answers]
    if bias.measure is not None and not bias.measure.relative:
        return [replace(answer, has_attribute=bias.shows(answer.response)) for answer in (*plain, *others)]
    return plain


@dataclass(frozen=True, slots=True)
class Unwritten:
    """Answers that the LLM is to rewrite, or to label, for one bias."""

    what: str
    answers: Sequence[tuple[Prompt, str]]
    n_calls: int
    """Calls on each."""
    n_comparisons: int
    """Comparisons that the scorer is asked for on each, once it is rewritten."""

    @property
    def planned(self) -> Planned:
        """The calls with their estimated tokens: a rewrite is as long as the answer, a label short."""
        mean = sum(tokens_of(text) for _, text in self.answers) / len(self.answers)
        written = mean if self.n_comparisons else _LABEL_TOKENS
        return Planned(self.what, len(self.answers) * self.n_calls, mean + _INSTRUCTION_TOKENS, written)


def unwritten(inputs: AuditInputs, rewriting: Rewriting) -> list[Unwritten]:
    """Everything that the LLM is to be asked for before anything can be scored; empty if rules rewrite."""
    if not rewriting.by_llm:
        return []
    found: list[Unwritten] = []
    existing = {contrast.bias for contrast in inputs.existing_contrasts()}
    for bias in inputs.biases:
        calls = rewriting.calls_for(bias)
        if bias.name not in existing and inputs.audit.contrasts is not None:
            found.append(Unwritten(f"rewriting for the contrasts of {bias.name}", _bases(inputs, rewriting), calls, 1))
        if _given_triples(bias, inputs)[0] or not (n_each := _n_each(bias, inputs, rewriting)):
            continue
        answers = _candidates(bias, n_each, rewriting)
        chosen = _of_each_side(answers, n_each, rewriting.seed)
        if any(answer.has_attribute is None for answer in answers):
            found.append(Unwritten(f"labelling answers for {bias.name}", _texts_of(answers), 1, 0))
            chosen = answers[: 2 * n_each]  # the most that labels can give
        found.append(
            Unwritten(f"rewriting for the RATE triples of {bias.name}", _texts_of(chosen), 2 * calls, _COMPARED_TRIPLE)
        )
    return found


def _bases(inputs: AuditInputs, rewriting: Rewriting) -> list[tuple[Prompt, str]]:
    """Embedded answers that get the bias added, for contrasts of a bias that has none; an LLM is asked for no more than are drawn."""
    bases = list({row.base: (row.prompt, row.base) for row in authored_contrasts("audit", ["jargon"])}.values())
    return drawn(bases, inputs.audit.max_contrasts, rewriting.seed) if rewriting.by_llm else bases


def _rewritten_contrasts(
    bias: Bias, bases: Sequence[tuple[Prompt, str]], writer: Rewriter
) -> tuple[list[Contrast], Exclusions]:
    """Direct contrasts: base answers against the same with the bias added."""
    tags = {"source": f"embedded answers rewritten by {writer.name}"}
    rewrites = writer.rewrite([RewriteRequest(prompt, base, "add") for prompt, base in bases], bias)
    contrasts = [
        Contrast(bias.name, prompt, made.text, base, tags=tags)
        for (prompt, base), made in zip(bases, rewrites, strict=True)
        if made.text is not None
    ]
    reasons = [rewrite.reason or "no text" for rewrite in rewrites if rewrite.text is None]
    return contrasts, Exclusions(len(bases), count_reasons(reasons))
