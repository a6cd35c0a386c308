"""The release spec: what a user writes, frozen and checked."""

from release_tasks.spec.load import load_spec, parse_spec
from release_tasks.spec.model import Backend, Framework, ModelSpec
from release_tasks.spec.policy import LATENCY_EDGES_MS, CanaryPolicy
from release_tasks.spec.release import ReleaseSpec
from release_tasks.spec.tensors import Datatype, OutputSpec, TensorSpec, Tolerance

__all__ = [
    "LATENCY_EDGES_MS",
    "Backend",
    "CanaryPolicy",
    "Datatype",
    "Framework",
    "ModelSpec",
    "OutputSpec",
    "ReleaseSpec",
    "TensorSpec",
    "Tolerance",
    "load_spec",
    "parse_spec",
]
