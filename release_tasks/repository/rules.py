"""The rules of the repository contract, as a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Rule:
    """One rule.

    Attributes:
        summary: what must hold.
        remedy: how to mend a breach.
        origin: `upstream` when Triton itself fails or misbehaves, `house` when it is this project's own rule.
        blocks: whether a breach stops the release; the others are advice.
    """

    summary: str
    remedy: str
    origin: Literal["upstream", "house"] = "upstream"
    blocks: bool = True


RULES: dict[str, Rule] = {
    "L001": Rule("the model folder holds config.pbtxt", "write <model>/config.pbtxt"),
    "L002": Rule("config.pbtxt lies in the model folder, not in a version folder", "move it one folder up"),
    "L003": Rule("at least one version folder", "put the model into <model>/1/"),
    "L004": Rule(
        "version folders are named ^[1-9][0-9]*$; Triton's lenient parse would load `1.bak` as version 1",
        "rename or remove the folder; going back means an older release, never a renamed folder",
    ),
    "L005": Rule("the version folder holds the backend's file", "use the default file name of the backend"),
    "L006": Rule("nothing else lies in the version folder", "remove the file, or move it where the backend expects it"),
    "L007": Rule(
        "a SavedModel lies in 1/model.savedmodel/ with saved_model.pb", "move the files into model.savedmodel/"
    ),
    "L008": Rule(
        "a model folder holds config.pbtxt, version folders, label files, warmup/ and initial_state/ only",
        "remove the file",
        origin="house",
    ),
    "C001": Rule("config.pbtxt parses as ModelConfig", "generate it from the protobuf message, not by pasting text"),
    "C002": Rule("`name` is the folder's name", "rename one of them"),
    "C003": Rule("a known backend is named", "set `backend`"),
    "C004": Rule("inputs and outputs are listed; auto-complete is switched off", "list every input and output"),
    "C005": Rule("every tensor has a name, a type and positive or -1 dims", "complete the tensor"),
    "C006": Rule("tensor names differ", "rename one of them"),
    "C007": Rule("pytorch tensors are named <name>__<index>, counted from 0", "rename them in forward()'s order"),
    "C008": Rule("max_batch_size is not negative", "set it to 0 or more"),
    "C009": Rule(
        "with max_batch_size > 0 the batch dimension is implicit and not repeated in dims",
        "remove the leading -1 from dims",
    ),
    "C010": Rule("dynamic batching needs max_batch_size > 0", "set max_batch_size, or drop dynamic_batching"),
    "C011": Rule("preferred batch sizes lie between 1 and max_batch_size", "change them"),
    "C013": Rule("sequence batching has control inputs", "name the start and ready inputs"),
    "C014": Rule(
        "an ensemble has neither instance groups, warm-up, optimization nor batchers of its own",
        "set them on the models it calls",
    ),
    "C015": Rule("each tensor of an ensemble is written once", "rename one step's output"),
    "C016": Rule("warm-up names existing inputs, and its data files exist", "write <model>/warmup/<file>"),
    "C017": Rule("warm-up batches are not larger than max_batch_size", "lower them"),
    "H001": Rule("model names are ^[a-z][a-z0-9_]*$", "rename the model", origin="house"),
    "H002": Rule(
        "the dynamic batcher's queue has no limits of its own: with them, requests beyond one batch wait up to 500 ms",
        "leave default_queue_policy out and limit pending requests in the proxy",
        origin="house",
        blocks=False,
    ),
    "H003": Rule("parameter release_id names the release", "set it", origin="house"),
    "H004": Rule(
        "the queue delay is at most a tenth of the SLA, because low traffic pays it as latency",
        "lower max_queue_delay_microseconds",
        origin="house",
        blocks=False,
    ),
    "H005": Rule("instance groups are set; Triton's default differs by machine", "set instance_group", origin="house"),
}
