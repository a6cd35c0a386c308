"""What happens when a task fails: one line in the log. A place to hang a real notifier on."""

from __future__ import annotations

import logging

from airflow.sdk import Context

log = logging.getLogger(__name__)


def on_failure(context: Context) -> None:
    """Say which task of which run failed, and why. Never raises: a callback must not hide the failure."""
    ti = context["ti"]
    log.error("%s.%s of run %s failed: %s", ti.dag_id, ti.task_id, ti.run_id, context.get("exception"))
