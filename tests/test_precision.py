import keras
import pytest

from elmo_tf import precision


@pytest.fixture
def flags(tmp_path, monkeypatch):
    """Lets the processor seem to have these flags, and no GPU be there."""
    path = tmp_path / "cpuinfo"
    monkeypatch.setattr(precision, "_CPU_FLAGS", path)
    monkeypatch.setattr(precision.tf.config, "list_physical_devices", lambda kind: [])
    return lambda names: path.write_text(f"processor\t: 0\nflags\t\t: fpu {names} sse\n")


@pytest.mark.parametrize("names", ["avx512_bf16", "avx512f amx_bf16"])
def test_bfloat16_is_used_where_the_processor_multiplies_it(flags, names):
    flags(names)
    assert precision.usable_precision("mixed_bfloat16") == "mixed_bfloat16"


@pytest.mark.parametrize("names", ["avx512f", "avx512_bf16x"])
def test_elsewhere_float32_takes_its_place_and_a_warning_says_so(flags, names, caplog):
    flags(names)
    with caplog.at_level("WARNING", logger="absl"):
        assert precision.usable_precision("mixed_bfloat16") == "float32"
    assert "using float32 instead of mixed_bfloat16" in caplog.text


def test_where_nothing_is_known_of_the_processor_bfloat16_is_not_trusted(flags):
    assert not precision.has_fast_bfloat16()  # the file is not there


def test_float32_is_never_warned_of(flags, caplog):
    assert precision.usable_precision("float32") == "float32"
    assert not caplog.text


def test_a_policy_holds_within_its_block_alone():
    before = keras.config.dtype_policy().name
    with precision.dtype_policy("mixed_bfloat16"):
        assert keras.layers.Dense(1).compute_dtype == "bfloat16"
    assert keras.config.dtype_policy().name == before


def test_a_policy_ends_with_an_error_too():
    before = keras.config.dtype_policy().name
    with pytest.raises(ZeroDivisionError), precision.dtype_policy("mixed_bfloat16"):
        _ = 1 / 0
    assert keras.config.dtype_policy().name == before
