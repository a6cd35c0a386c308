"""Benchmarks. Each module prints a table and writes bench/results/NAME.json; goals are shown, never asserted."""
