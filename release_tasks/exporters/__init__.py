"""Exporters: one module per source framework, behind the interface in ``base``."""

from __future__ import annotations

from release_tasks.exporters.base import FILE_NAMES, ExportedModel, Exporter, Runner, Tensors
from release_tasks.spec.model import Framework

__all__ = ["FILE_NAMES", "ExportedModel", "Exporter", "Runner", "Tensors", "exporter_for"]


def exporter_for(framework: Framework) -> Exporter:
    """The exporter of a source framework; imports its module only."""
    if framework is Framework.pytorch:
        from release_tasks.exporters.torchscript import TorchScriptExporter

        return TorchScriptExporter()
    if framework is Framework.tensorflow:
        from release_tasks.exporters.savedmodel import SavedModelExporter

        return SavedModelExporter()
    if framework is Framework.lightgbm:
        from release_tasks.exporters.lightgbm_onnx import LightGBMExporter

        return LightGBMExporter()
    from release_tasks.exporters.onnx_file import OnnxExporter

    return OnnxExporter()
