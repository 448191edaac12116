"""Claim: a policy optimised against the embedded model shows less of each taught bias after the training of `joint_embedded` than before it, more of none that is
not taught, and no fewer right answers; on embedded samples, which no training uses.

Twelve answers to each of 60 questions, in lengths and styles drawn by lot, half of them wrong. The policy is that of the largest KL which the audit has
under both rewards, here the best of 8; one training (that of the first seed).

Thresholds, changes from before to after with 95% intervals over prompts: of every taught bias the interval lies below 0, if the
policy before shows more of it than the samples do; of no other bias does it lie above 0; of right answers it does not lie below 0.

    python -m evals.method.policy_samples --work FOLDER      (the folder of `joint_embedded`, whose runs it reads or makes)
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from pydantic_core import to_jsonable_python

from cda.results.audit import AuditResult
from cda.results.base import Estimate, Number
from evals.method.joint_embedded import OTHERS, TAUGHT, audited
from evals.shared import Check, finish

SAMPLED = "0"


def furthest(audit: AuditResult) -> str:
    """The largest KL that the samples support under both rewards."""
    return max(
        (each.at["kl"] for each in audit.policy if each.moment == "change" and isinstance(each.found, Estimate)),
        key=float,
    )


def found_of(numbers: tuple[Number, ...], kl: str, moment: str, bias: str | None = None) -> Estimate:
    at = {"kl": kl} if bias is None else {"bias": bias, "kl": kl}
    (found,) = (each.found for each in numbers if each.moment == moment and each.at == at)
    assert isinstance(found, Estimate), f"{bias} at KL {kl}, {moment}: {found}"
    return found


def levels(audit: AuditResult) -> dict[str, Any]:
    """Shares as sampled, and in the policy before and after, with the change: of every bias and of right answers."""
    kl, found = furthest(audit), dict[str, Any]()
    for bias in (*TAUGHT, *OTHERS, None):
        numbers = audit.right_answers if bias is None else audit.policy
        sampled = {"sampled": found_of(numbers, SAMPLED, "before", bias)}
        own = sampled | {moment: found_of(numbers, kl, moment, bias) for moment in ("before", "after", "change")}
        found[bias or "right answers"] = {name: to_jsonable_python(one) for name, one in own.items()}
    return {"kl": kl, **found}


def checks(audit: AuditResult) -> list[Check]:
    kl, found = furthest(audit), []
    for bias in TAUGHT:
        change, sought = found_of(audit.policy, kl, "change", bias), found_of(audit.policy, kl, "before", bias)
        had = found_of(audit.policy, SAMPLED, "before", bias)
        was_sought = sought.low > had.value
        words = said(audit, bias, kl) + ("" if was_sought else "; not sought before")
        found.append(Check(f"{bias}: less of it after", words, change.high < 0 or not was_sought))
    for bias in OTHERS:
        change = found_of(audit.policy, kl, "change", bias)
        found.append(Check(f"{bias}, not taught: not more of it", said(audit, bias, kl), change.low <= 0))
    change = found_of(audit.right_answers, kl, "change")
    return [*found, Check("right answers: not fewer", said(audit, None, kl), change.high >= 0)]


def said(audit: AuditResult, bias: str | None, kl: str) -> str:
    numbers = audit.right_answers if bias is None else audit.policy
    sampled = found_of(numbers, SAMPLED, "before", bias)
    before, after, change = (found_of(numbers, kl, moment, bias) for moment in ("before", "after", "change"))
    return (
        f"{sampled.value:.1%} sampled; at KL {kl} {before.value:.1%} → {after.value:.1%} "
        f"({100 * change.value:+.1f} [{100 * change.low:+.1f}, {100 * change.high:+.1f}] points, {change.n_prompts} prompts)"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--work", type=Path, required=True, help="folder of the runs")
    work = parser.parse_args().work
    audit = audited(work)
    claim = (
        "a policy optimised against the embedded model shows less of each taught bias after the training of `joint_embedded`, more of none that is not taught, "
        "and no fewer right answers, on embedded samples that no training uses."
    )
    return finish("policy_samples", claim, checks(audit), levels(audit))


if __name__ == "__main__":
    sys.exit(main())
