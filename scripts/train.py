"""The whole job of a recipe: `accelerate launch scripts/train.py recipes/jargon.yaml [section.key=value …] [--dry-run]`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # the code of this checkout

from cda.cli import main

if __name__ == "__main__":
    main(["train", *sys.argv[1:]])
