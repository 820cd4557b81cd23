"""Text files that configure a model server."""

import pytest

from elmo_tf.saved_models.config_protos import (
    read_batching_parameters,
    read_models_config,
    read_monitoring_config,
)

BATCHING = """\
max_batch_size { value: 128 }  # sentences
batch_timeout_micros { value: 0 }
max_enqueued_batches { value: 1000000 }
num_batch_threads { value: 8 }
thread_pool_name { value: 'batches' }
allowed_batch_sizes: 16
allowed_batch_sizes: 128
pad_variable_length_inputs: true
"""


@pytest.fixture
def written(tmp_path):
    """Writes a file with this content; returns its path."""

    def write(content):
        path = tmp_path / "server.config"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def test_batching_parameters_of_tf_serving_are_read(written):
    parameters = read_batching_parameters(written(BATCHING))

    assert parameters.max_batch_size.value == 128
    assert parameters.batch_timeout_micros.value == 0
    assert parameters.HasField("batch_timeout_micros")
    assert not parameters.HasField("max_execution_batch_size")
    assert parameters.max_enqueued_batches.value == 1_000_000
    assert parameters.num_batch_threads.value == 8
    assert parameters.thread_pool_name.value == "batches"
    assert list(parameters.allowed_batch_sizes) == [16, 128]
    assert parameters.pad_variable_length_inputs


@pytest.mark.parametrize(
    ("read", "content", "reason"),
    [
        (read_models_config, "model_config_list {\n config { named: 'x' } }", "named"),
        (read_batching_parameters, "# sizes\nmax_batchsize { value: 3 }", "max_batchsize"),
        (read_batching_parameters, "\nmax_batch_size: 3", 'Expected "{"'),
        (read_batching_parameters, "\npad_variable_length_inputs: 4", 'Expected "true"'),
        (read_monitoring_config, "prometheus_config {\n  enabled: true }", "enabled"),
        (read_monitoring_config, b"\nprometheus_config { path: '\xff' }", "not UTF-8"),
    ],
)
def test_an_error_names_file_and_line(written, read, content, reason):
    path = written(content)

    with pytest.raises(ValueError, match=r"server\.config, line 2: ") as error:
        read(path)
    assert str(path) in str(error.value)
    assert reason in str(error.value)


def test_the_metrics_path_must_begin_with_a_slash(written):
    with pytest.raises(ValueError, match="must begin with a slash, but is 'metrics'"):
        read_monitoring_config(written("prometheus_config { enable: true path: 'metrics' }"))


def test_a_missing_file_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        read_models_config(tmp_path / "nowhere")
