"""Tensors of a safetensors file, read one by one: every dtype exactly, whatever its place."""

import json
import struct

import numpy as np
import pytest
import safetensors.numpy
from minimodel.transformer.tensor_file import TensorFile


def write_raw(path, tensors):
    """Write a safetensors file from (dtype, shape, bytes), which the library cannot for dtypes that NumPy lacks."""
    header, body = {}, b""
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(body), len(body) + len(content)]}
        body += content
    written = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(written)) + written + body)
    return path


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tensors_are_read_as_they_were_written(rng, tmp_path, dtype):
    arrays = {
        "matrix": rng.standard_normal((5, 7)).astype(np.float32),
        "half": rng.standard_normal((3, 2)).astype(np.float16),
        "double": rng.standard_normal(11),
        "nothing": np.zeros((0, 3), np.float32),
        "number": np.array(2.5, np.float32),
    }
    safetensors.numpy.save_file(arrays, tmp_path / "t")
    file = TensorFile(tmp_path / "t")
    assert file.shapes == {name: array.shape for name, array in arrays.items()}
    assert file.dtypes == {"matrix": "F32", "half": "F16", "double": "F64", "nothing": "F32", "number": "F32"}
    for name, array in arrays.items():
        found = file.read(name, dtype)
        assert found.dtype == dtype
        assert np.array_equal(found, array.astype(dtype))
        assert found.shape == array.shape


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_bfloat16_is_widened_exactly(tmp_path, dtype):
    bits = np.arange(2**16, dtype="<u2")
    write_raw(tmp_path / "t", {"before": ("F32", [1], b"\0" * 4), "all": ("BF16", [256, 256], bits.tobytes())})
    found = TensorFile(tmp_path / "t").read("all", dtype).ravel()
    sign = np.where(bits >> 15, -1.0, 1.0)
    exponent, mantissa = ((bits >> 7) & 0xFF).astype(int), (bits & 0x7F) / 128.0
    with np.errstate(over="ignore"):
        expected = sign * np.where(exponent == 0, mantissa * 2.0**-126, (1.0 + mantissa) * 2.0 ** (exponent - 127))
    special = exponent == 255
    assert np.array_equal(found[~special], expected[~special])
    assert np.array_equal(np.isnan(found), special & (mantissa != 0))
    assert np.array_equal(found[special & (mantissa == 0)], [np.inf, -np.inf])


def test_double_beyond_float32_becomes_infinite(tmp_path):
    safetensors.numpy.save_file({"x": np.array([1e300, 1.0])}, tmp_path / "t")
    assert TensorFile(tmp_path / "t").read("x", np.float32).tolist() == [np.inf, 1.0]


def test_other_dtypes_are_refused_when_read(tmp_path):
    safetensors.numpy.save_file({"x": np.arange(3), "y": np.ones(2)}, tmp_path / "t")
    file = TensorFile(tmp_path / "t")
    assert file.read("y", np.float64).tolist() == [1.0, 1.0]
    with pytest.raises(ValueError, match="x must be F64, F32, F16 or BF16; got I64"):
        file.read("x", np.float32)


def test_what_is_no_safetensors_file_is_refused(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros(3))
    with pytest.raises(ValueError, match=r"x\.npy must be a whole safetensors file; .*\. Save or fetch it again"):
        TensorFile(tmp_path / "x.npy")
    write_raw(tmp_path / "lies", {"x": ("F32", [1000], b"\0" * 8)})
    with pytest.raises(ValueError, match="lies must be a whole safetensors file"):
        TensorFile(tmp_path / "lies")
    with pytest.raises(FileNotFoundError, match="nowhere"):
        TensorFile(tmp_path / "nowhere")
