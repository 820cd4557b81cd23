import keras
import pytest

from elmo_tf import precision


@pytest.fixture
def flags(tmp_path, monkeypatch):
    """Simulates a processor with these flags, without a GPU."""
    path = tmp_path / "cpuinfo"
    monkeypatch.setattr(precision, "_CPU_FLAGS", path)
    monkeypatch.setattr(precision.tf.config, "list_physical_devices", lambda kind: [])
    return lambda names: path.write_text(f"processor\t: 0\nflags\t\t: fpu {names} sse\n")


@pytest.mark.parametrize("names", ["avx512_bf16", "avx512f amx_bf16"])
def test_bfloat16_is_used_if_the_processor_supports_it(flags, names):
    flags(names)
    assert precision.usable_precision("mixed_bfloat16") == "mixed_bfloat16"


@pytest.mark.parametrize("names", ["avx512f", "avx512_bf16x"])
def test_float32_replaces_unsupported_bfloat16_with_a_warning(flags, names, caplog):
    flags(names)
    assert precision.usable_precision("mixed_bfloat16") == "float32"
    assert "using float32 instead of mixed_bfloat16" in caplog.text


def test_float32_gives_no_warning(flags, caplog):
    assert precision.usable_precision("float32") == "float32"
    assert not caplog.text


def test_a_policy_is_reset_after_an_error():
    before = keras.config.dtype_policy().name
    with pytest.raises(ZeroDivisionError), precision.dtype_policy("mixed_bfloat16"):
        _ = 1 / 0
    assert keras.config.dtype_policy().name == before
