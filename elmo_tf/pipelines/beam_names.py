"""The names that the pipelines use from Apache Beam, or an error that says how to install it."""

try:
    import apache_beam as beam
except ModuleNotFoundError as error:
    if error.name != "apache_beam":
        raise
    raise ImportError(
        "An embedding pipeline needs apache-beam: pip install 'elmo_tf[beam]' brings it."
    ) from None

from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems
from apache_beam.io.parquetio import WriteToParquet
from apache_beam.ml.inference.base import (
    KeyedModelHandler,
    ModelHandler,
    PredictionResult,
    RunInference,
)
from apache_beam.options.pipeline_options import PipelineOptions

__all__ = [
    "CompressionTypes",
    "FileSystems",
    "KeyedModelHandler",
    "ModelHandler",
    "PipelineOptions",
    "PredictionResult",
    "RunInference",
    "WriteToParquet",
    "beam",
]
