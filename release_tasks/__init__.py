"""Release gate for machine-learning models: the code that runs inside a task, without Airflow."""

__version__ = "0.1.0"
