"""The Triton model repository: config.pbtxt through the protobuf, layout, and the linter."""
