"""Example workloads for the release pipeline."""
