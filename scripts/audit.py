"""A recipe up to its `audit` stage: `python scripts/audit.py recipes/jargon.yaml [section.key=value …] [--dry-run]`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # the code of this checkout

from cda.cli import app

if __name__ == "__main__":
    app(args=["audit", *sys.argv[1:]])
