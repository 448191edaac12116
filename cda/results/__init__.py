"""Results: frozen, versioned types; the only shapes that are saved, drawn or returned."""

from cda.results.audit import AuditResult as AuditResult
from cda.results.base import BeforeAfter as BeforeAfter
from cda.results.base import Estimate as Estimate
from cda.results.base import Measure as Measure
from cda.results.base import Missing as Missing
from cda.results.base import PerScoring as PerScoring
from cda.results.base import Result as Result
from cda.results.base import Test as Test
