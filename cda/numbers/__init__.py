"""Results as rows of numbers, by one table of measures."""
