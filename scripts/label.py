"""A recipe up to its `label` stage: `python scripts/label.py recipes/jargon.yaml [section.key=value …] [--dry-run]`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # the code of this checkout

from cda.cli import app

if __name__ == "__main__":
    app(args=["label", *sys.argv[1:]])
