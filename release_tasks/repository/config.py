"""config.pbtxt, built as a ModelConfig message and printed from it: valid by construction."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from release_tasks.errors import DependencyMissing, RepositoryError
from release_tasks.spec.model import ModelSpec
from release_tasks.spec.tensors import TensorSpec

TEMPLATES = Path(__file__).parents[2] / "model_repo_templates"
CONFIG_FILE = "config.pbtxt"
WARM_UP_FOLDER = "warmup"
RELEASE_PARAMETER = "release_id"


@dataclass(frozen=True)
class Rendering:
    """What a config is made of.

    Attributes:
        model: the model's spec.
        file_name: file or folder in the version folder that the server loads.
        release: release id, put into the config so that the server can be asked for it.
        warm_up_shapes: shape of one row per input, as stored in the model's `warmup/` folder.
    """

    model: ModelSpec
    file_name: str
    release: str
    warm_up_shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)


def config_message(rendering: Rendering, templates: Path = TEMPLATES) -> Any:
    """The ModelConfig of a model: the backend's template, then all that comes from the spec.

    Raises:
        RepositoryError: the backend has no template, or it is no ModelConfig.
    """
    config = _from_template(rendering, templates)
    model = rendering.model
    config.max_batch_size = model.max_batch_size
    for tensor in model.inputs:
        _set_tensor(config.input.add(), tensor)
    for tensor in model.outputs:
        _set_tensor(config.output.add(), tensor)
    config.version_policy.latest.num_versions = model.config.version_policy.latest
    _set_batching(config, model)
    _set_instances(config, model)
    _set_warm_up(config, rendering)
    config.parameters[RELEASE_PARAMETER].string_value = rendering.release
    return config


def print_config(config: Any) -> str:
    """The text of config.pbtxt."""
    from google.protobuf import text_format

    return str(text_format.MessageToString(config))


def parse_config(text: str) -> Any:
    """The message of a config.pbtxt.

    Raises:
        google.protobuf.text_format.ParseError: it does not parse.
    """
    from google.protobuf import text_format

    return text_format.Parse(text, protobuf().ModelConfig())


def protobuf() -> Any:
    """Triton's model_config protobuf module."""
    try:
        from tritonclient.grpc import model_config_pb2
    except ImportError as error:
        raise DependencyMissing(
            f"config.pbtxt is built with tritonclient: {error}", remedy="install tritonclient[grpc]"
        ) from error
    return model_config_pb2


def _from_template(rendering: Rendering, templates: Path) -> Any:
    import jinja2
    from google.protobuf import text_format

    backend = str(rendering.model.backend)
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(templates), undefined=jinja2.StrictUndefined)
    try:
        template = environment.get_template(f"{backend}/{CONFIG_FILE}.j2")
        return parse_config(template.render(model=rendering.model, file_name=rendering.file_name))
    except (jinja2.TemplateError, text_format.ParseError) as error:
        raise RepositoryError(
            field=f"model_repo_templates/{backend}/{CONFIG_FILE}.j2",
            value=str(error),
            rule="it must exist and render to a ModelConfig",
            remedy="mend the template; see model_repo_templates/README.md",
        ) from error


def _set_tensor(entry: Any, tensor: TensorSpec) -> None:
    entry.name = tensor.name
    entry.data_type = protobuf().DataType.Value(f"TYPE_{tensor.dtype}")
    entry.dims.extend(tensor.shape)


def _set_batching(config: Any, model: ModelSpec) -> None:
    batching, sequence = model.config.dynamic_batching, model.config.sequence_batching
    if batching is not None:
        made = config.dynamic_batching
        made.preferred_batch_size.extend(batching.preferred_batch_sizes)
        made.max_queue_delay_microseconds = batching.max_queue_delay_us
        if batching.queue_policy is not None:
            policy = made.default_queue_policy
            policy.timeout_action = protobuf().ModelQueuePolicy.REJECT
            policy.default_timeout_microseconds = batching.queue_policy.timeout_us
            policy.allow_timeout_override = False
            policy.max_queue_size = batching.queue_policy.max_queue_size
    if sequence is not None:
        made = config.sequence_batching
        made.max_sequence_idle_microseconds = sequence.max_sequence_idle_us
        made.direct.SetInParent()
        control = protobuf().ModelSequenceBatching.Control
        for name, kind in (
            (sequence.start_input, control.CONTROL_SEQUENCE_START),
            (sequence.ready_input, control.CONTROL_SEQUENCE_READY),
        ):
            made.control_input.add(name=name).control.add(kind=kind).fp32_false_true.extend([0.0, 1.0])


def _set_instances(config: Any, model: ModelSpec) -> None:
    for group in model.config.instance_groups:
        entry = config.instance_group.add(count=group.count, gpus=list(group.gpus))
        entry.kind = protobuf().ModelInstanceGroup.Kind.Value(group.kind)
        entry.rate_limiter.priority = model.config.priority


def _set_warm_up(config: Any, rendering: Rendering) -> None:
    model = rendering.model
    if not model.config.warm_up.enabled:
        return
    for size in model.config.warm_up.batch_sizes:
        entry = config.model_warmup.add(name=f"batch_{size}", batch_size=size, count=1)
        for tensor in model.inputs:
            data = entry.inputs[tensor.name]
            data.data_type = protobuf().DataType.Value(f"TYPE_{tensor.dtype}")
            shape = rendering.warm_up_shapes.get(tensor.name)
            data.dims.extend(shape or [abs(size) for size in tensor.shape])
            if shape:
                data.input_data_file = tensor.name
            else:
                data.zero_data = True
