"""Quality on preference benchmarks, best-of-n and win rates."""
