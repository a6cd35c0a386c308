"""The stages in their one order. Import-free: the CLI, the DAGs, the docs and the tests all read it."""

# name -> one line for `--help`, the docs and the DAG's task docs
STAGES: dict[str, str] = {
    "validate": "check the spec, the candidate's files and the golden data",
    "export": "export each model to the format the server loads",
    "parity": "compare the exported model's outputs with the source framework's",
    "size_gate": "bytes on disk, growth, and memory for stable and candidate side by side",
    "repository": "render and lint the Triton model repository",
    "upload": "publish the repository to an immutable prefix, every digest read back",
    "deploy_staging": "start the release on the staging server",
    "smoke": "readiness, metadata and one inference per model over HTTP and gRPC",
    "load_test": "baseline, ramp and soak with Locust",
    "served_parity": "compare what staging answers with the golden outputs",
    "checklist": "the first eleven points of the pre-launch list",
    "regression": "score the business cases on stable and candidate",
    "approve": "bind a business owner's answer to the release's digest",
    "canary": "move traffic to the candidate, one step of the policy, while the judge watches",
    "promote": "make the candidate stable",
    "settle": "read the live state and either find the release promoted or roll back",
    "rollback": "go back to the last good release and prove it",
}

# Stages that may run once per model (`--model NAME`).
PER_MODEL: frozenset[str] = frozenset({"export", "parity"})

# Options of single stages: stage -> flag -> help.
OPTIONS: dict[str, dict[str, str]] = {
    "approve": {
        "approver": "user name of the person who answered",
        "decision": "approve or reject",
        "digest": "the release digest that was shown to the person",
        "reason": "the person's words",
    },
    "settle": {"reason": "why the promotion ended, for the record"},
    "rollback": {"reason": "why, for the record"},
}
