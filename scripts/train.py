"""The whole job of a recipe: `accelerate launch scripts/train.py recipes/jargon.yaml [section.key=value …] [--dry-run]`."""

import sys

from cda.cli import main

if __name__ == "__main__":
    main(["train", *sys.argv[1:]])
