"""Where tests run: on a CPU, unless someone lets them see a GPU (CUDA_VISIBLE_DEVICES=0 python -m pytest …)."""

import os

import pytest

on_a_cpu = pytest.mark.skipif(bool(os.environ.get("CUDA_VISIBLE_DEVICES")), reason="says what a CPU computes")
