"""The pod of a task. Imported only in profile `kubernetes`: the provider costs seconds of every parse."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator

IMAGE = "release-gate-task:latest"
NAMESPACE = "release-gate"


def pod_task(task_id: str, arguments: list[str], **kwargs: Any) -> KubernetesPodOperator:
    """A pod that gets the command line as its arguments; the image's entry point puts ``python -m`` before it.

    Image, namespace, service account and pod template come from ``RELEASE_TASK_IMAGE``, ``RELEASE_TASK_NAMESPACE``,
    ``RELEASE_TASK_SERVICE_ACCOUNT`` and ``RELEASE_POD_TEMPLATE``, read when the DAG is parsed. The template mounts the
    workspace volume and the settings; the settings' path in the pod is the one that Airflow uses.
    """
    template = os.environ.get("RELEASE_POD_TEMPLATE")
    if template and not Path(template).is_file():
        raise ValueError(f"RELEASE_POD_TEMPLATE: {template!r} is not accepted: no such file; unset it or mend the path")
    return KubernetesPodOperator(
        task_id=task_id,
        name=task_id.replace("_", "-").replace(".", "-"),
        image=os.environ.get("RELEASE_TASK_IMAGE", IMAGE),
        namespace=os.environ.get("RELEASE_TASK_NAMESPACE", NAMESPACE),
        service_account_name=os.environ.get("RELEASE_TASK_SERVICE_ACCOUNT"),
        pod_template_file=template,
        arguments=arguments,
        env_vars={name: os.environ[name] for name in ("RELEASE_SETTINGS",) if name in os.environ},
        labels={"app.kubernetes.io/part-of": "release-gate"},
        do_xcom_push=True,
        # A second try gets a pod of its own: attaching to a dead one would read its stale result.
        durable=False,
        on_finish_action="delete_succeeded_pod",
        **kwargs,
    )
