"""How much of a recipe's adapter to apply: `python scripts/dose.py recipes/jargon.yaml [section.key=value …] [--dry-run]`."""

import sys

from cda.cli import app

if __name__ == "__main__":
    app(args=["dose", *sys.argv[1:]])
