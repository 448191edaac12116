"""A discovery in a terminal and as Markdown, drawn from discover.json alone."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from cda.report.markdown import escaped, fenced_block, markdown_table
from cda.report.numbers import Json, clipped, count, decimals, inert, p_value, reward, share, signed
from cda.report.tables import Table
from cda.report.terminal import plain_table

_TERMINAL_WIDTH = 60
_NOT_TESTED = "not tested"


def discover_text(result: Json) -> str:
    """For a terminal: what was found, what was not, and how it came about."""
    table = _tested_table(result, _TERMINAL_WIDTH)
    lines = [inert(line) for line in sentences(result)]
    return "\n\n".join([*([plain_table(table)] if table.rows else []), "\n".join(lines)])


def discover_markdown(result: Json) -> str:
    """A Markdown document with everything: results by rewriter and topic, validation, generations, pairs, strength."""
    lines = [
        f"# {'Attributes measured' if result['given'] else 'Biases discovered'} in {escaped(_name(result['model']))}",
        "",
    ]
    lines += [line for sentence in sentences(result) for line in (_paragraph(sentence), "")]
    for table in _tables(result):
        if table.rows:
            lines += markdown_table(table)
    for one in result["tested"]:
        if one["confirmed"] or result["given"]:
            lines += _example_lines(one)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() + "\n"


def sentences(result: Json) -> list[str]:
    """What came out, what was left out, and what the numbers mean."""
    return [*_outcome(result), *_how(result), *_warnings(result)]


def _outcome(result: Json) -> Iterator[str]:
    tested, n = result["tested"], sum(one["confirmed"] for one in result["tested"])
    model, judge = _name(result["model"]), _name(result["judge"])
    if result["given"]:
        yield f"{model} over-rewards {n} of {len(tested)} attributes, held against {judge}."
    elif n:
        yield f"{n} of {len(tested)} tested candidates confirmed: {model} rewards them, {judge} does not."
        yield "Each is a bias file, which `cda train FILE` debiases."
    elif not result["generations"] or not result["generations"][-1]["standings"]:
        yield f"Nothing to measure: no attribute was proposed. {_proposed(result)}"
    elif result["validation"] is None:
        # The cuts always leave somebody, unless nobody was measured.
        last = result["generations"][-1]["standings"]
        yield f"None of {len(last)} candidates could be measured, so that nothing is known of them. {_unmeasured(last)}"
    elif not tested and _n_dropped(result):
        yield f"Nothing was tested: the review dropped all {_n_dropped(result)} candidates that held on the validation prompts."
    elif not tested:
        n_entered = len(result["validation"]["results"])
        yield (
            f"None of {n_entered} candidates held on the validation prompts: no bias of {model} against {judge} is shown."
        )
    else:
        yield f"None of {len(tested)} candidates held on the test prompts: no bias of {model} against {judge} is shown."


def _how(result: Json) -> Iterator[str]:
    material, prompts = result["material"], result["material"]["prompts"]
    left_out = sum(sum(one["reasons"].values()) for one in (*material["sampled"].values(), material["rewards"]))
    if result["given"]:
        yield (
            f"{material['responses']} responses to {sum(prompts.values())} prompts ({left_out} left out); one response of each "
            f"of {result['n_test_prompts']} prompts rewritten by {', '.join(result['rewriters'])}."
        )
    else:
        yield (
            f"{material['responses']} responses to {sum(prompts.values())} prompts ({left_out} left out): {prompts['train']} "
            f"prompts searched on, {prompts['validation']} to validate, {prompts['test']} to test."
        )
        measured = {row["candidate"] for one in result["generations"] for row in one["standings"]}
        yield (
            f"{len(measured)} candidates in {len(result['generations'])} generations, proposed by {result['by']}; confirmed with "
            f"{', '.join(result['rewriters'])}."
        )
    yield (
        "Reward: mean change when the attribute is added, in reward units. Judge: how often the side with it is preferred, "
        "ties as halves. Both with 95% intervals, clustered by prompt. p: at least "
        f"{result['settings']['required_rewriters']} rewriters show both, each by itself (partial conjunction; "
        f"below {result['settings']['test_alpha']:g} is confirmed)."
    )
    if result["by"] == "rules":
        yield "Rules proposed and rewrote, no LLM: attributes are those that rules can see and write."
    if strength := result["strength"]:
        yield _strength_sentence(strength)


def _warnings(result: Json) -> Iterator[str]:
    tested = result["tested"]
    for one in tested:
        for warning in one["warnings"]:
            yield f"{one['attribute']}: {warning}."
        if one["untested"]:
            yield f"{one['attribute']}: not tested, because {one['untested']}."
    failed = [
        f"{row['rewriter']} {sum(row['failed'].values())} of {row['n'] + sum(row['failed'].values())}"
        for row in _summed_failures(result)
        if sum(row["failed"].values())
    ]
    if tested and (n_dropped := _n_dropped(result)):
        yield f"{n_dropped} candidates that held on the validation prompts were dropped in the review and not tested."
    already = [
        (one["attribute"], max(result["already"].get(one["candidate"], {}).values(), default=0)) for one in tested
    ]
    if any(n for _, n in already):
        told = "; ".join(f"{attribute}: {n}" for attribute, n in already if n)
        yield f"Responses that were not rewritten, because they are so already: {told}."
    if failed:
        yield f"Rewrites that are missing: {'; '.join(failed)} (reasons in discover.json)."
    validated = (result["validation"] or {"results": []})["results"]
    for one in validated:
        if one["untested"]:
            yield f"{_attribute(one['candidate'], result)}: not validated, because {one['untested']}."
    yield from _power(tested or validated)


def _power(results: Sequence[Json]) -> Iterator[str]:
    """How small an effect could have been and still be found, where none was."""
    missed = [one for one in results if not one.get("confirmed", one.get("passed"))]
    found = sorted(one["smallest_detectable"] for one in missed if one.get("smallest_detectable") is not None)
    if found:
        least, most = reward(found[0]), reward(found[-1])
        span = least if least == most else f"{least} to {most} by attribute"
        yield f"Where nothing was shown, a mean reward of {span} would have been found with 80% power."


def _tables(result: Json) -> Iterator[Table]:
    yield _tested_table(result, None)
    yield _rewriter_table(result)
    yield from (_topic_table(one) for one in result["tested"] if one["topics"])
    yield _pairs_table(result)
    yield _validation_table(result)
    yield _generation_table(result)
    yield _lineage_table(result)
    yield _strength_table(result)


def _tested_table(result: Json, most: int | None) -> Table:
    rows = []
    for one in result["tested"]:
        pooled = one["pooled"]
        numbers = (
            (signed(pooled["reward"]), share(pooled["judge"]), count(pooled["reward"])) if pooled else ("", "", "")
        )
        p = _NOT_TESTED if one["p_value"] is None else p_value(one["p_value"])
        rows.append(
            (_cut(one["attribute"], most), *numbers, p, "yes" if one["confirmed"] else "no", one.get("file") or "")
        )
    header = ("attribute", "reward", "judge prefers it", "n", "p", "confirmed", "bias file")
    return Table("Tested on prompts that nothing was selected on", header, tuple(rows))


def _rewriter_table(result: Json) -> Table:
    rows = []
    for one in result["tested"]:
        for each in one["rewriters"]:
            found = each["strength"]
            numbers = (
                (
                    signed(found["reward"]),
                    _trimmed(found),
                    share(found["win_rate"]),
                    share(found["judge"]),
                    p_value(_p(found)),
                )
                if found
                else ("", "", "", "", "")
            )
            excluded = each["excluded"] or ""
            rows.append((one["attribute"], each["rewriter"], str(each["n"]), *numbers, excluded))
    header = (
        "attribute",
        "rewriter",
        "n",
        "reward",
        "trimmed",
        "rewarded in",
        "judge prefers it",
        "p",
        "left out because",
    )
    return Table("By rewriter", header, tuple(rows))


def _topic_table(one: Json) -> Table:
    rows = []
    for topic, found in one["topics"].items():
        if "untested" in found:
            rows.append((topic, found["untested"], "", ""))
        else:
            rows.append((topic, signed(found["reward"]), share(found["judge"]), count(found["reward"])))
    return Table(f"By topic: {one['attribute']}", ("topic", "reward", "judge prefers it", "n"), tuple(rows))


def _pairs_table(result: Json) -> Table:
    by_id = {one["candidate"]: one["attribute"] for one in result["tested"]}
    rows = []
    for name, found in result["pairs"].items():
        fidelity, grades, guesses = found["fidelity"], found["grades"], found["guesses"]
        agreement = ", ".join(decimals(one["pearson"]) for one in found["agreement"] if one.get("pearson"))
        rows.append(
            (
                by_id.get(name, name),
                _optional(fidelity and fidelity["present"], share),
                _optional(fidelity and fidelity["absent"], share),
                agreement,
                _optional(grades and grades["score"], _grade),
                _optional(guesses and guesses["similarity"], _grade),
                str(found["n"]),
            )
        )
    header = (
        "attribute",
        "present where added",
        "absent elsewhere",
        "r between rewriters",
        "edits, 1 to 10",
        "guessed, 1 to 5",
        "pairs",
    )
    return Table("How well the rewrites were made", header, tuple(rows))


def _validation_table(result: Json) -> Table:
    rows = []
    for one in (result["validation"] or {"results": []})["results"]:
        pooled = one["pooled"]
        numbers = (
            (signed(pooled["reward"]), share(pooled["judge"]), count(pooled["reward"])) if pooled else ("", "", "")
        )
        p = [_NOT_TESTED if one[name] is None else p_value(one[name]) for name in ("p_reward", "p_judge")]
        rows.append((_attribute(one["candidate"], result), *numbers, *p, "yes" if one["passed"] else "no"))
    header = ("attribute", "reward", "judge prefers it", "n", "p reward", "p judge", "passed")
    return Table("Validation, corrected for all that entered (Bonferroni)", header, tuple(rows))


def _generation_table(result: Json) -> Table:
    rows = []
    for one in result["generations"]:
        fates = [row["fate"] for row in one["standings"]]
        kept = [row for row in one["standings"] if row["fate"] == "kept"]
        best = max((row["reward"] for row in kept), default=None)
        gone = "; ".join(
            f"{fates.count(fate)} {fate}" for fate in ("no rewrites", "reward", "judge", "front") if fate in fates
        )
        rows.append(
            (
                str(one["index"] + 1), str(len(fates)), str(one["n_merged"]), str(one["n_prompts"]), gone, str(len(kept)),
                "" if best is None else reward(best),
            )
        )  # fmt: skip
    header = ("generation", "candidates", "merged", "prompts", "let go by", "kept", "best reward")
    return Table("Search (numbers that were selected on, and no results)", header, tuple(rows))


def _lineage_table(result: Json) -> Table:
    rows = [
        (one["attribute"], " → ".join(_attribute(name, result) for name in result["lineage"].get(one["candidate"], ())))
        for one in result["tested"]
        if result["lineage"].get(one["candidate"])
    ]
    return Table("Where they came from", ("attribute", "ancestors, oldest first"), tuple(rows))


def _strength_table(result: Json) -> Table:
    curve = (result["strength"] or {}).get("curve", ())
    rows = tuple((f"{one['threshold']:g}", f"{one['value']:.3f}", str(len(one["terms"]))) for one in curve)
    return Table("Strength of the run by the judge's threshold", ("judge below", "strength", "attributes"), rows)


def _example_lines(one: Json) -> list[str]:
    lines = [f"## {escaped(one['attribute'])}", ""]
    for example in one["examples"]:
        judge = example["preference"]
        verdict = "no verdict of the judge" if judge is None else f"judge {judge:g}"
        prompt = "\n".join(turn["content"] for turn in example["prompt"])
        sides = ("original", "rewrite") if example["direction"] == "add" else ("rewrite", "original")
        lines += [
            f"Margin {reward(example['margin'])}, {verdict}, rewritten by {escaped(example['rewriter'])}.",
            "",
            "Prompt:",
            "",
        ]
        lines += [*fenced_block(prompt), "", "Without:", "", *fenced_block(example[sides[0]]), ""]
        lines += ["With:", "", *fenced_block(example[sides[1]]), ""]
    return lines


def _summed_failures(result: Json) -> list[Json]:
    names = sorted({each["rewriter"] for one in result["tested"] for each in one["rewriters"]})
    found: list[Json] = []
    for name in names:
        own = [each for one in result["tested"] for each in one["rewriters"] if each["rewriter"] == name]
        reasons: dict[str, int] = {}
        for each in own:
            for why, n in each["failed"].items():
                reasons[why] = reasons.get(why, 0) + n
        found.append({"rewriter": name, "n": sum(each["n"] for each in own), "failed": reasons})
    return found


def _n_dropped(result: Json) -> int:
    """Candidates that held on the validation prompts and did not enter the test: only a person can have dropped them."""
    tested = {one["candidate"] for one in result["tested"]}
    validation = result["validation"] or {"results": []}
    return sum(one["passed"] and one["candidate"] not in tested for one in validation["results"])


def _unmeasured(standings: Sequence[Json]) -> str:
    reasons: Counter[str] = Counter()
    for one in standings:
        reasons.update(one["failed"])
    return f"Rewrites that are missing: {', '.join(f'{n} {why}' for why, n in sorted(reasons.items())) or 'none'}."


def _proposed(result: Json) -> str:
    if not result["generations"]:
        return ""
    reasons = result["generations"][0]["proposed"]["reasons"]
    return f"Answers without one: {', '.join(f'{n} {why}' for why, n in reasons.items()) or 'none'}."


def _strength_sentence(strength: Json) -> str:
    if "missing" in strength:
        return f"Strength of the run: not computed ({strength['missing']})."
    at = next(one for one in strength["curve"] if one["threshold"] == 0.5)
    return (
        f"Diversity-adjusted bias strength of the {strength['n']} finalists, by their validation numbers: {at['value']:.3f} reward "
        f"units (judge below 0.5, {len(at['terms'])} attributes, penalty {strength['penalty']:g})."
    )


def _attribute(name: str, result: Json) -> str:
    found = result["candidates"].get(name)
    return str(found["bias"]["description"]) if found else str(name)


def _name(one: Json) -> str:
    return f"{one['name']} with {one['adapter']} at dose {one['dose']:g}" if one["adapter"] else str(one["name"])


def _trimmed(found: Json) -> str:
    trimmed = found["trimmed"]
    return "" if trimmed is None else f"{signed(trimmed['estimate'])} ({trimmed['n_trimmed']} left out)"


def _p(found: Json) -> float:
    return float(max(found["p_reward"], found["p_judge"]))


def _grade(estimate: Json) -> str:
    return f"{estimate['value']:.1f} [{estimate['low']:.1f}, {estimate['high']:.1f}]"


def _optional(found: Json | None, shown: object) -> str:
    return shown(found) if found else ""  # type: ignore[operator]


def _paragraph(sentence: str) -> str:
    """A line that no reader takes for a heading, a list or a rule, whatever an attribute or a name at its head begins with."""
    line = escaped(sentence).strip()
    line = re.sub(r"\A(?=[#+=-])", r"\\", line)
    return re.sub(r"\A(\d+)(?=[.)])", r"\1\\", line)


def _cut(text: str, most: int | None) -> str:
    return inert(text) if most is None else clipped(inert(text), most)
