"""Tables of data: labels, counterfactual pairs, correlations, and everything that was left out on the way."""

from __future__ import annotations

from collections.abc import Iterable

from cda.report.numbers import NOT_ESTIMATED, Json, count, decimals, share, signed
from cda.report.tables import Table, compares
from cda.results.audit import AuditResult

_SAME = "both sides are the same after cutting"


def label_tables(audit: AuditResult) -> list[Table]:
    """For each bias, which sides of the training data exhibit it."""
    label = audit["stages"].get("label", {})
    tables = []
    for key, of in (("labels", "pairs"), ("supplement_labels", "supplementary pairs")):
        for name, tally in label.get(key, {}).items():
            both, chosen_only = tally["both"], tally["chosen_only"]
            rejected_only, neither = tally["rejected_only"], tally["neither"]
            caption = f"{name}: labels of {tally['n']} {of}, by {tally['by']}; {tally['unparsed']} unparsed"
            asked = tally.get("asked", {})
            if asked.get("query_asked"):
                caption += f"; {asked['query_calls_for_it']} of {asked['query_answered']} messages call for it"
            tables.append(_two_by_two(caption, both, chosen_only, rejected_only, neither))
    return tables


def _of_tried(made: int, tried: int) -> str:
    return f"{made} ({made / tried:.0%})" if tried else str(made)


def _two_by_two(caption: str, both: int, chosen_only: int, rejected_only: int, neither: int) -> Table:
    rows = (
        ("chosen exhibits it", str(both), str(chosen_only), str(both + chosen_only)),
        ("chosen does not", str(rejected_only), str(neither), str(rejected_only + neither)),
        ("sum", str(both + rejected_only), str(chosen_only + neither),
         str(both + chosen_only + rejected_only + neither)),
    )  # fmt: skip
    return Table(caption, ("", "rejected exhibits it", "rejected does not", "sum"), rows)


def synthesis_table(audit: AuditResult) -> Table | None:
    """How many counterfactual pairs were made for each bias."""
    counts = _by_bias(audit["stages"].get("synthesize", {}))
    if not counts:
        return None
    header = ("bias", "asked for", "eligible", "tried", "flipped and kept", "supplementary", "rewritten by")
    rows = tuple(
        (name, "all eligible" if one["requested"] is None else str(one["requested"]), str(one["eligible"]),
         str(one["tried"]), _of_tried(one["made"], one["tried"]), str(one["supplementary"]), str(one["by"]))
        for name, one in counts.items()
    )  # fmt: skip
    return Table("Counterfactual pairs", header, rows)


def _by_bias(synthesize: Json) -> dict[str, Json]:
    """What was made for each bias, without the counts of the whole mix."""
    return {name: one for name, one in synthesize.items() if "requested" in one}


def exclusion_table(audit: AuditResult) -> Table:
    """Everything that was left out on the way, by step and reason; a step that lost nothing says so."""
    rows = [
        (step, reason, str(number), seen)
        for step, seen, reasons in _exclusions(audit)
        for reason, number in (sorted(reasons.items()) or [("nothing left out", 0)])
    ]
    return Table("Left out, by step and reason", ("step", "reason", "left out", "of"), tuple(rows))


def _exclusions(audit: AuditResult) -> Iterable[tuple[str, str, dict[str, int]]]:
    """Step, how many it saw, and reason to count."""
    label, synthesize = (audit["stages"].get(name, {}) for name in ("label", "synthesize"))
    for key, step in (("pairs", "training pairs"), ("supplement", "supplementary pairs")):
        if key in label:
            yield f"loading {step}", str(label[key]["seen"]), dict(label[key]["dropped"])
    pairs = label.get("pairs", {})
    if pairs.get("used", pairs.get("kept", 0)) < pairs.get("kept", 0):
        yield (
            "drawing training pairs",
            str(pairs["kept"]),
            {"not drawn (data.max_pairs)": pairs["kept"] - pairs["used"]},
        )
    for name, tally in label.get("labels", {}).items():
        yield f"labelling {name}", str(tally["n"]), _positive({"unparsed": tally["unparsed"]})
    for name, one in synthesize.get("in_audit", {}).items():
        yield f"choosing what to teach of {name}", str(one["seen"]), dict(one["dropped"])
    for name, one in _by_bias(synthesize).items():
        yield f"rewriting for {name}", str(one["tried"]), dict(one["rejected"])
    taught = synthesize.get("contrasts")
    if taught:
        yield "loading taught contrasts", str(taught["file"]["seen"]), dict(taught["file"]["dropped"])
        yield "choosing taught contrasts", "", _positive(taught["left_out"])
    train = audit["stages"].get("train", {})
    if train:
        mixed = synthesize.get("mix", {})
        seen = mixed.get("train", train["train"]) + mixed.get("validation", train["validation"])
        same = {"both sides the same after cutting": train["identical_after_truncation"]}
        yield "training", str(seen), _positive(same)
    for step, one in audit["excluded"].items():
        if one["seen"]:
            made = step.startswith("triples of")
            yield step if made else f"loading {step}", str(one["seen"]), dict(one["reasons"])
    if audit.votes_unmatched:
        yield "matching votes", "", {"items that are none of the contrasts": audit.votes_unmatched}
    unread = _unread(audit)
    for name, skew in audit.skew.items():
        n = skew.before.n + skew.unread
        reasons = {f"no rewrite: {reason}": number for reason, number in skew.rewrites_failed.items()}
        reasons |= _positive({"not drawn (audit.max_contrasts)": skew.available - n})
        reasons |= _positive({unread: skew.unread})
        left_out = audit.votes[name].left_out if name in audit.votes else {}
        reasons |= {f"people: {reason} (left out beside people)": number for reason, number in left_out.items()}
        if reasons:
            failed = sum(skew.rewrites_failed.values())
            yield f"contrasts of {name}", str(skew.available + failed), reasons
    quality = audit.quality
    if quality is not None:
        used = quality.before.n + quality.unread
        available = audit.get("available_quality", used)
        reasons = _positive({"not drawn (audit.max_quality)": available - used, unread: quality.unread})
        if reasons:
            yield "comparing quality pairs", str(available), reasons
    for name, one in audit["rate"].items():
        if one["unread"]:
            reason = "two of its texts are the same after cutting" if unread == _SAME else f"{unread} on a comparison"
            yield f"comparing triples of {name}", str(one["n"] + one["unread"]), {reason: one["unread"]}
        if lost := one.get("naive_unread", 0):
            found = next((each["estimate"]["n"] for each in one[audit.scorings[-1]].get("effects", ())
                          if each["estimator"] == "naive"), 0)  # fmt: skip
            yield f"comparing originals of {name}, naive", str(found + lost), {f"{unread} on a comparison": lost}


def _unread(audit: AuditResult) -> str:
    """Why a comparison says nothing: of a judge, or of a reward model, to which two texts may be one after cutting."""
    if audit["model"]["kind"] == "judge":
        return "no readable verdict of the judge"
    return f"a text is too long, or {_SAME}" if audit["model"].get("dropped") else _SAME


def rates_table(audit: AuditResult) -> Table | None:
    """What the training data favours: how often the side with the bias was the chosen one."""
    rows = []
    for name, one in audit["analysis"].items():
        table = one.get("contingency")
        if table is None:
            continue
        if "missing" in table:
            rows.append((name, table["missing"], "", "", ""))
            continue
        rates = [share(table[rate]) for rate in ("selection_rate", "chosen_rate", "rejected_rate")]
        rows.append((name, *rates, count(table["selection_rate"])))
    if not rows:
        return None
    header = ("bias", "chosen where one side has it", "of all chosen", "of all rejected", "pairs with it on one side")
    of = "the training data" if compares(audit) else "the labelled pairs"
    return Table(f"The bias in {of}, with 95% intervals", header, tuple(rows))


def contingency_tables(audit: AuditResult) -> list[Table]:
    """Which sides of the labelled pairs exhibit each bias, in an audit alone; of a training, see `label_tables`."""
    if compares(audit):
        return []
    tables = []
    for name, one in audit["analysis"].items():
        table = one.get("contingency")
        if table is None or "missing" in table:
            continue
        both, chosen_only, rejected_only, neither = (
            table[cell] for cell in ("both", "only_chosen", "only_rejected", "neither")
        )
        seen, left_out = table["exclusions"]["seen"], sum(table["exclusions"]["reasons"].values())
        caption = f"{name}: labels of {seen} pairs; {left_out} with a label that cannot be read"
        tables.append(_two_by_two(caption, both, chosen_only, rejected_only, neither))
    return tables


def correlation_table(audit: AuditResult) -> Table | None:
    """r between the attribute and being preferred: in the training data, by people, by the model."""
    columns = ["people", *audit.scorings]
    labelled = compares(audit) or any("r_train" in one for one in audit["analysis"].values())
    rows = []
    for name, one in audit["analysis"].items():
        found = one["correlation"]
        trained = [_correlation(one.get("r_train"))] if labelled else []
        rows.append((name, found["of"], *trained, *(_correlation(found.get(column)) for column in columns)))
    if not rows:
        return None
    trained = ["training data" if compares(audit) else "labelled pairs"] if labelled else []
    header = ("bias", "attribute", *trained, "people", *(_model(when) for when in audit.scorings))
    return Table("Correlation of the attribute with being preferred (r), with 95% intervals", header, tuple(rows))


def observational_table(audit: AuditResult) -> Table | None:
    """Mean reward with and without the attribute as answers come: a description, not an effect."""
    rows = []
    for name, one in audit["analysis"].items():
        found = one["observational"]
        for when in audit.scorings:
            effect = found.get(when, found)
            if "missing" in effect:
                rows.append((name, _model(when), effect["missing"], ""))
            else:
                rows.append((name, _model(when), signed(effect["estimate"]), count(effect["estimate"])))
    if not rows:
        return None
    header = ("bias", "scored by", "with − without, within prompts", "prompts")
    return Table(
        "Mean reward of quality answers that have the attribute against those that have not", header, tuple(rows)
    )


def _correlation(estimate: Json | None) -> str:
    if estimate is None:
        return ""
    return NOT_ESTIMATED if "missing" in estimate else f"{decimals(estimate)} (n {count(estimate)})"


def _model(when: str) -> str:
    return "model" if when == "model" else f"model {when}"


def _positive(reasons: dict[str, int]) -> dict[str, int]:
    return {reason: number for reason, number in reasons.items() if number > 0}
