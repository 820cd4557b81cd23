import keras
import pytest

from elmo_tf import precision


@pytest.mark.parametrize(
    ("flags", "requested", "usable"),
    [
        ("avx512_bf16", "mixed_bfloat16", "mixed_bfloat16"),
        ("avx512f amx_bf16", "mixed_bfloat16", "mixed_bfloat16"),
        ("avx512f", "mixed_bfloat16", "float32"),
        ("avx512_bf16x", "mixed_bfloat16", "float32"),
        ("avx512f", "float32", "float32"),
    ],
)
def test_float32_replaces_unsupported_bfloat16_with_a_warning(
    tmp_path, monkeypatch, caplog, flags, requested, usable
):
    (tmp_path / "cpuinfo").write_text(f"processor\t: 0\nflags\t\t: fpu {flags} sse\n")
    monkeypatch.setattr(precision, "_CPU_FLAGS", tmp_path / "cpuinfo")
    monkeypatch.setattr(precision.tf.config, "list_physical_devices", lambda kind: [])
    assert precision.usable_precision(requested) == usable
    warned = "using float32 instead of mixed_bfloat16" in caplog.text
    assert warned == (requested != usable) == bool(caplog.text)


def test_a_policy_is_reset_after_an_error():
    before = keras.config.dtype_policy().name
    with pytest.raises(ZeroDivisionError), precision.dtype_policy("mixed_bfloat16"):
        _ = 1 / 0
    assert keras.config.dtype_policy().name == before
