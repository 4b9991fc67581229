"""Weights files: exact round trips, strictness, damage, and models that stay whole when a load fails."""

import json
import struct

import numpy as np
import pytest
import safetensors.numpy
from autograd_core import Linear, Sequential
from minimodel.transformer import LayerNorm, MiniGPT, MiniGPTConfig, load_weights, save_weights

TINY = {"d_model": 12, "n_heads": 3, "n_layers": 2, "d_ff": 20, "vocab_size": 11, "context_len": 7}


def tiny(seed=0, **changes):
    return MiniGPT(MiniGPTConfig(**{**TINY, **changes}), rng=np.random.default_rng(seed))


def bytes_of(model):
    return {name: p.value.tobytes() for name, p in model.named_parameters()}


@pytest.fixture
def saved(tmp_path):
    model = tiny(0)
    save_weights(model, tmp_path / "model.safetensors")
    return model, tmp_path / "model.safetensors"


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("changes", [{}, {"position": "learned", "attention_bias": True, "dropout": 0.1}], ids=str)
def test_round_trip_is_bit_equal(tmp_path, dtype, changes):
    model, other = tiny(0, dtype=dtype, **changes), tiny(1, dtype=dtype, **changes)
    assert bytes_of(model) != bytes_of(other)
    save_weights(model, tmp_path / "w")
    load_weights(other, str(tmp_path / "w"))
    assert bytes_of(other) == bytes_of(model)
    assert {p.dtype for p in other.parameters()} == {np.dtype(dtype)}
    tokens = np.arange(5)
    assert np.array_equal(other.eval()(tokens).value, model.eval()(tokens).value)


def test_names_in_the_file_are_the_dotted_names(saved):
    model, file = saved
    content = safetensors.numpy.load_file(file)
    assert content.keys() == dict(model.named_parameters()).keys()
    assert np.array_equal(content["blocks.1.attn.W_q"], model.blocks[1].attn.W_q.value)


def test_equal_weights_give_equal_bytes(tmp_path, saved):
    _, file = saved
    save_weights(tiny(0), tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == file.read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["again", "model.safetensors"]


def test_words_for_the_header_are_kept_and_change_nothing_else(tmp_path, saved):
    model, _ = saved
    save_weights(model, tmp_path / "w", {"config": "<é>"})
    with safetensors.safe_open(tmp_path / "w", "numpy") as content:
        assert content.metadata() == {"config": "<é>"}
    other = tiny(1)
    load_weights(other, tmp_path / "w")
    assert bytes_of(other) == bytes_of(model)
    save_weights(model, tmp_path / "again", {"config": "<é>"})
    assert (tmp_path / "again").read_bytes() == (tmp_path / "w").read_bytes()


def test_any_module_has_weights(tmp_path):
    model, other = (Sequential(Linear(3, 5), Linear(5, 2)) for _ in range(2))
    save_weights(model, tmp_path / "w")
    load_weights(other, tmp_path / "w")
    assert bytes_of(model) == bytes_of(other)


def test_frozen_parameters_are_saved_and_loaded(tmp_path):
    model, other = tiny(0), tiny(1)
    model.embedding.E.requires_grad = other.embedding.E.requires_grad = False
    save_weights(model, tmp_path / "w")
    load_weights(other, tmp_path / "w")
    assert bytes_of(model) == bytes_of(other)
    assert not other.embedding.E.requires_grad


def test_transposed_values_are_saved_as_they_read(tmp_path):
    model, other = Linear(3, 5), Linear(3, 5)
    model.weight.value = np.arange(15.0).reshape(5, 3).T
    save_weights(model, tmp_path / "w")
    load_weights(other, tmp_path / "w")
    assert np.array_equal(other.weight.value, np.arange(15.0).reshape(5, 3).T)


def assert_refused(model, file, match):
    before = bytes_of(model)
    with pytest.raises(ValueError, match=match) as error:
        load_weights(model, file)
    assert file.name in str(error.value)
    assert bytes_of(model) == before


def test_missing_and_unknown_names_are_refused(saved):
    _, file = saved
    content = safetensors.numpy.load_file(file)
    content["lm_head"] = content.pop("embedding.E")
    safetensors.numpy.save_file(content, file)
    assert_refused(tiny(1), file, r"missing \['embedding.E'\], unknown \['lm_head'\]")

    save_weights(tiny(0), file)
    assert_refused(tiny(1, n_layers=1), file, r"missing \[\], unknown \['blocks.1.attn.W_k'")
    assert_refused(tiny(1, n_layers=3), file, r"missing \['blocks.2.attn.W_k'")


def test_other_shape_is_refused(saved):
    _, file = saved
    assert_refused(tiny(1, vocab_size=13), file, r"embedding.E is \(11, 12\) float64 and must be \(13, 12\) float64")
    content = safetensors.numpy.load_file(file)
    content["ln_final.gamma"] = content["ln_final.gamma"][:1]  # would broadcast
    safetensors.numpy.save_file(content, file)
    assert_refused(tiny(1), file, r"ln_final.gamma is \(1,\) float64 and must be \(12,\) float64")


def test_other_dtype_is_refused(saved):
    _, file = saved
    assert_refused(tiny(1, dtype="float32"), file, r"embedding.E is \(11, 12\) float64 and must be \(11, 12\) float32")


def test_truncation_is_refused(saved):
    _, file = saved
    whole = file.read_bytes()
    for length in [0, 1, 7, 8, 9, 100, len(whole) // 2, len(whole) - 1]:
        file.write_bytes(whole[:length])
        assert_refused(tiny(1), file, "not a whole safetensors file")
    file.write_bytes(whole + b"\0")
    assert_refused(tiny(1), file, "not a whole safetensors file")


def test_files_of_another_kind_are_refused(tmp_path, saved):
    _, file = saved
    np.save(tmp_path / "x.npy", np.zeros(3))
    assert_refused(tiny(1), tmp_path / "x.npy", "not a whole safetensors file")
    header = json.dumps({"embedding.E": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}}).encode()
    file.write_bytes(struct.pack("<Q", len(header)) + header + b"\0" * 4)
    assert_refused(tiny(1), file, r"not a whole safetensors file of NumPy's dtypes|unknown|missing")


def test_missing_file_is_file_not_found(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        load_weights(tiny(), tmp_path / "nowhere")


def test_non_finite_weights_load_with_a_warning(tmp_path):
    model = tiny()
    model.ln_final.beta.value[3] = np.nan
    save_weights(model, tmp_path / "w")
    other = tiny(1)
    with pytest.warns(RuntimeWarning, match=r"NaN or infinite values in \['ln_final.beta'\]") as record:
        load_weights(other, tmp_path / "w")
    assert bytes_of(other) == bytes_of(model)
    assert record[0].filename == __file__


def test_failed_save_leaves_the_old_file(tmp_path, saved, monkeypatch):
    _, file = saved
    before = file.read_bytes()

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        save_weights(tiny(1), file)
    assert file.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["model.safetensors"]


@pytest.mark.parametrize("path", ["new/", "", ".", "new/..", "a\0b"])
def test_a_path_that_does_not_end_in_a_name_is_refused(tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"^save_weights: path must end in the name of a file; got "):
        save_weights(LayerNorm(4), path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", [None, 3, b"weights"])
@pytest.mark.parametrize("use", [save_weights, load_weights])
def test_what_is_no_path_is_refused(use, path):
    with pytest.raises(TypeError, match=f"^{use.__name__}: path must be a str or a path; got {type(path).__name__}"):
        use(LayerNorm(4), path)
