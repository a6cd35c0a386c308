"""Airflow building blocks of the release pipeline: the operator factory, the approval and the staging turn."""
