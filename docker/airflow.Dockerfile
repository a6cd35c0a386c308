# Image of Airflow's components with the DAGs; the stages run in pods of their own image.
#   docker build -f docker/airflow.Dockerfile -t release-gate-airflow:latest .
FROM apache/airflow:3.3.2-python3.11

RUN pip install --no-cache-dir \
      apache-airflow==3.3.2 apache-airflow-providers-cncf-kubernetes==10.25.0 \
      apache-airflow-providers-standard==1.21.0 google-cloud-storage==3.17.1 pyyaml pydantic
WORKDIR /opt/release-gate
COPY dags dags
COPY plugins plugins
COPY release_tasks release_tasks

ENV PYTHONPATH=/opt/release-gate \
    RELEASE_PROFILE=kubernetes \
    AIRFLOW__CORE__DAGS_FOLDER=/opt/release-gate/dags \
    AIRFLOW__CORE__LOAD_EXAMPLES=False
