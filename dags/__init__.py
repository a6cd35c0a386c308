"""DAG files: wiring only."""
