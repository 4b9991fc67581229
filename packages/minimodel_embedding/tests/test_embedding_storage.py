"""The pair of files: exact round trips, damage of every kind, and saves that die half-way."""

import json
import os
import shutil
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from autograd_core import Parameter, files
from minimodel.embedding import Embedding


def saved(path, rng, shape=(7, 5), dtype=np.float64):
    table = Embedding(*shape, rng=rng, dtype=dtype)
    table.save(path)
    return table


def edit(manifest, **changes):
    content = json.loads(manifest.read_text())
    content.update(changes)
    manifest.write_text(json.dumps(content))


@pytest.fixture
def pair(tmp_path, rng):
    table = saved(tmp_path / "table", rng)
    return table, tmp_path / "table.npy", tmp_path / "table.json", tmp_path / "table"


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", [(7, 5), (1, 1), (1, 5), (7, 1)])
def test_round_trip_is_bit_equal(tmp_path, rng, shape, dtype):
    table = saved(tmp_path / "table", rng, shape, dtype)
    table.E.value[0, 0] = -0.0
    table.save(tmp_path / "table")
    loaded = Embedding.load(tmp_path / "table")
    assert isinstance(loaded.E, Parameter)
    assert loaded.E.requires_grad
    assert loaded.E.dtype == dtype
    assert loaded.E.value.tobytes() == table.E.value.tobytes()
    assert (loaded.num_embeddings, loaded.embedding_dim) == shape
    assert loaded.E.value.flags.writeable


def test_loaded_table_trains(pair):
    _, _, _, path = pair
    loaded = Embedding.load(path)
    loaded(np.array([2])).sum().backward()
    assert loaded.E.grad is not None
    assert loaded.E.grad[2].tolist() == [1.0] * 5


def test_npy_file_is_numpys_and_manifest_is_plain_json(pair):
    table, npy, manifest, _ = pair
    assert np.array_equal(np.load(npy, allow_pickle=False), table.E.value)
    content = json.loads(manifest.read_text())
    assert content.keys() == {"format", "version", "shape", "dtype", "sha256"}
    assert content["shape"] == [7, 5]
    assert content["dtype"] == "float64"


def test_trailing_npy_is_dropped_and_dots_in_names_are_kept(tmp_path, rng):
    table = saved(tmp_path / "run-0.5.npy", rng)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run-0.5.json", "run-0.5.npy"]
    for spelling in ("run-0.5", "run-0.5.npy"):
        assert np.array_equal(Embedding.load(str(tmp_path / spelling)).E.value, table.E.value)


@pytest.mark.parametrize(
    "path", ["em/", "em/.", "sub/../", "", ".", "..", "/", "em/..", ".npy", "..npy", "em\0", Path(), Path("em", "..")]
)
def test_a_path_that_does_not_end_in_a_name_is_refused(tmp_path, rng, monkeypatch, path):
    (tmp_path / "inside" / "em").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "inside")
    before = sorted(tmp_path.rglob("*"))
    for use in (Embedding(3, 2, rng=rng).save, Embedding.load):
        with pytest.raises(ValueError, match=r"^Embedding: path must end in the name of a file; got .*\. Give"):
            use(path)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    "name", ["em", "em.npy.npy", " ", "em ", ".em", "ñandú", "-em", "a\\b", "em\n", "em.json", "%s{}"]
)
def test_odd_names_are_taken_as_they_are(tmp_path, rng, name):
    table = saved(f"{tmp_path}/{name}", rng)
    stem = name.removesuffix(".npy")
    assert sorted(p.name for p in tmp_path.iterdir()) == [f"{stem}.json", f"{stem}.npy"]
    assert np.array_equal(Embedding.load(f"{tmp_path}/{name}").E.value, table.E.value)


@pytest.mark.parametrize("path", [3, None, b"em", ["em"]], ids=repr)
def test_what_is_no_path_is_refused(rng, path):
    for use in (Embedding(3, 2, rng=rng).save, Embedding.load):
        with pytest.raises(TypeError, match=rf"path must be a str or a path; got {type(path).__name__}\. "):
            use(path)


def test_subclass_loads_as_itself(pair):
    class Special(Embedding):
        pass

    assert type(Special.load(pair[3])) is Special


def test_missing_half_is_file_not_found(pair):
    _, npy, manifest, path = pair
    npy.unlink()
    with pytest.raises(FileNotFoundError, match=r"table\.npy"):
        Embedding.load(path)
    manifest.unlink()
    with pytest.raises(FileNotFoundError, match=r"table\.json"):
        Embedding.load(path)


# Damage.


def test_truncation_at_any_length_is_refused(pair):
    _, npy, manifest, path = pair
    for file in (npy, manifest):
        whole = file.read_bytes()
        # The manifest's closing newline carries nothing.
        for length in range(len(whole.rstrip())):
            file.write_bytes(whole[:length])
            with pytest.raises(ValueError, match=rf"{file.name}"):
                Embedding.load(path)
        file.write_bytes(whole)
    Embedding.load(path)


def test_any_changed_byte_of_the_matrix_file_is_refused_or_harmless(pair):
    table, npy, _, path = pair
    whole = npy.read_bytes()
    refused = 0
    for position in range(len(whole)):
        for flip in (0x01, 0x80):
            damaged = bytearray(whole)
            damaged[position] ^= flip
            npy.write_bytes(damaged)
            try:
                loaded = Embedding.load(path)
            except ValueError as error:
                assert "table.npy" in str(error)  # noqa: PT017  most bytes are refused, spaces of the header are not
                refused += 1
            else:
                assert np.array_equal(loaded.E.value, table.E.value)
    assert refused >= 2 * table.E.value.nbytes


def test_appended_bytes_are_refused(pair):
    _, npy, _, path = pair
    npy.write_bytes(npy.read_bytes() + b"\0")
    with pytest.raises(ValueError, match=r"cut or has something appended: 280 bytes announced, 281 present"):
        Embedding.load(path)


def test_swapped_matrices_are_refused(tmp_path, rng):
    saved(tmp_path / "a", rng)
    saved(tmp_path / "b", rng)
    os.replace(tmp_path / "a.npy", tmp_path / "b.npy")
    with pytest.raises(ValueError, match=r"b\.npy must hold the matrix that b\.json describes; it has sha256"):
        Embedding.load(tmp_path / "b")


def test_matrix_of_an_earlier_save_is_refused(tmp_path, rng):
    saved(tmp_path / "table", rng)
    shutil.copy(tmp_path / "table.npy", tmp_path / "old.npy")
    saved(tmp_path / "table", rng)
    os.replace(tmp_path / "old.npy", tmp_path / "table.npy")
    with pytest.raises(ValueError, match="different saves"):
        Embedding.load(tmp_path / "table")


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (np.zeros((1, 5)), r"shape \[1, 5\] where the manifest says \[7, 5\]"),
        (np.zeros((7, 5), np.float32), "dtype float32 where the manifest says float64"),
        (np.zeros((7, 5)), "sha256"),
        (np.zeros((7, 5), np.int64), "matrix of float32 or float64; it has shape .* int64"),
        (np.zeros((7, 5), np.complex128), "matrix of float32 or float64"),
        (np.zeros((7, 5), np.float16), "matrix of float32 or float64"),
        (np.zeros(35), r"it has shape \(35,\)"),
        (np.zeros((0, 5)), r"it has shape \(0, 5\)"),
        (np.zeros(7, dtype=[("a", "f8")]), "matrix of float32 or float64"),
    ],
)
def test_matrix_that_disagrees_with_the_manifest_is_refused(pair, other, message):
    _, npy, _, path = pair
    np.save(npy, other)
    with pytest.raises(ValueError, match=message):
        Embedding.load(path)


class Bomb:
    def __reduce__(self):
        return os.mkdir, ("exploded",)


def test_pickled_content_is_refused_and_never_run(pair, tmp_path, monkeypatch):
    _, npy, _, path = pair
    monkeypatch.chdir(tmp_path)
    np.save(npy, np.array([[Bomb()]], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="Python objects, which are never unpickled"):
        Embedding.load(path)
    assert not Path("exploded").exists()


def test_archive_in_place_of_a_matrix_is_refused(pair):
    _, npy, _, path = pair
    buffer = BytesIO()
    np.savez(buffer, np.zeros((7, 5)))
    npy.write_bytes(buffer.getvalue())
    with pytest.raises(ValueError, match=r"not a whole \.npy file"):
        Embedding.load(path)


def test_header_that_announces_too_much_is_refused_without_allocating(pair):
    _, npy, manifest, path = pair
    huge = npy.read_bytes().replace(b"(7, 5), }          ", b"(999999999999, 5), }")
    assert b"999999999999" in huge
    npy.write_bytes(huge[: len(npy.read_bytes())])
    edit(manifest, shape=[999999999999, 5])
    with pytest.raises(ValueError, match="bytes announced"):
        Embedding.load(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "npy"}, "format 'minimodel.embedding'; got 'npy'"),
        ({"version": 2}, "version 1.*; got 2"),
        ({"version": True}, "version 1.*; got True"),
        ({"shape": [7]}, r"two sizes.*; got \[7\]"),
        ({"shape": [7.0, 5]}, r"two sizes.*; got \[7\.0, 5\]"),
        ({"shape": [0, 5]}, r"two sizes.*; got \[0, 5\]"),
        ({"shape": "75"}, "two sizes.*; got '75'"),
        ({"dtype": "float16"}, "dtype 'float32' or 'float64'; got 'float16'"),
        ({"dtype": None}, "dtype 'float32' or 'float64'; got None"),
        ({"sha256": "12"}, "64 hexadecimal digits as sha256; got '12'"),
        ({"sha256": "0" * 64}, "sha256 .* where the manifest says 0000"),
        ({"file": "../x.npy"}, r"missing \[\], unknown \['file'\]"),
        ({"previous": 1}, "object in 'previous'; got 1"),
        ({"previous": {"shape": [7, 5]}}, r"missing \['dtype', 'sha256'\]"),
    ],
)
def test_manifest_with_wrong_content_is_refused(pair, changes, message):
    _, _, manifest, path = pair
    edit(manifest, **changes)
    with pytest.raises(ValueError, match=rf"table\.json .*{message}|{message}"):
        Embedding.load(path)


@pytest.mark.parametrize("key", ["format", "version", "shape", "dtype", "sha256"])
def test_manifest_without_a_key_is_refused(pair, key):
    _, _, manifest, path = pair
    content = json.loads(manifest.read_text())
    del content[key]
    manifest.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=key):
        Embedding.load(path)


@pytest.mark.parametrize("text", [b"", b"[]", b"7", b"{", b"\xff\xfe{}", b"[" * 100_000, b"nul"])
def test_manifest_that_is_no_object_is_refused(pair, text):
    _, _, manifest, path = pair
    manifest.write_bytes(text)
    with pytest.raises(ValueError, match=r"table\.json"):
        Embedding.load(path)


# Other spellings of the same values.


@pytest.mark.parametrize("spelling", ["big-endian", "fortran"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_other_byte_and_memory_orders_load_native_and_contiguous(tmp_path, rng, spelling, dtype):
    table = saved(tmp_path / "table", rng, dtype=dtype)
    value = table.E.value
    big_endian = value.astype(value.dtype.newbyteorder(">"))
    np.save(tmp_path / "table.npy", big_endian if spelling == "big-endian" else np.asfortranarray(value))
    loaded = Embedding.load(tmp_path / "table").E.value
    assert loaded.dtype == dtype
    assert loaded.dtype.isnative
    assert loaded.flags.c_contiguous
    assert np.array_equal(loaded, value)


def test_non_finite_weights_load_with_a_warning(tmp_path, rng):
    table = Embedding(7, 5, rng=rng)
    table.E.value[2, 3] = np.nan
    table.E.value[0, 0] = -np.inf
    table.save(tmp_path / "table")
    with pytest.warns(RuntimeWarning, match=r"table\.npy holds 2 values that are NaN or infinite") as record:
        loaded = Embedding.load(tmp_path / "table")
    assert loaded.E.value.tobytes() == table.E.value.tobytes()
    assert record[0].filename == __file__


# Saving.


def test_save_into_a_missing_folder_fails_and_leaves_nothing(tmp_path, rng):
    with pytest.raises(FileNotFoundError):
        saved(tmp_path / "missing" / "table", rng)
    assert list(tmp_path.iterdir()) == []


def test_overwriting_leaves_two_files_and_no_trace_of_the_old_matrix(tmp_path, rng):
    saved(tmp_path / "table", rng)
    second = saved(tmp_path / "table", rng, shape=(3, 2), dtype=np.float32)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["table.json", "table.npy"]
    assert "previous" not in json.loads((tmp_path / "table.json").read_text())
    assert np.array_equal(Embedding.load(tmp_path / "table").E.value, second.E.value)


def test_damaged_pair_can_be_saved_over(pair, rng):
    _, npy, _, path = pair
    npy.write_bytes(b"garbage")
    second = saved(path, rng)
    assert np.array_equal(Embedding.load(path).E.value, second.E.value)


class Killed(BaseException):
    """Stands for the process ending: nothing below may catch it and go on."""


@pytest.mark.parametrize("first_rename", [0, 1, 2])
@pytest.mark.parametrize("second_rename", [0, 1, 2])
def test_interrupted_save_loads_as_old_or_new(tmp_path, rng, monkeypatch, first_rename, second_rename):
    """Two saves in a row die at every pair of moments; some whole matrix, never a mixture, is always there."""
    tables = [saved(tmp_path / "table", rng)]
    rename = os.replace
    for stop_before in (first_rename, second_rename):
        count = iter(range(9))

        def dying_rename(source, target, stop_before=stop_before, count=count):
            if next(count) == stop_before:
                raise Killed
            rename(source, target)

        tables.append(Embedding(7, 5, rng=rng))
        with monkeypatch.context() as patch:
            patch.setattr(files.os, "replace", dying_rename)
            with pytest.raises(Killed):
                tables[-1].save(tmp_path / "table")
        found = Embedding.load(tmp_path / "table").E.value
        assert any(np.array_equal(found, table.E.value) for table in tables)
        assert np.array_equal(found, tables[-1].E.value) or stop_before < 2
    assert sorted(p.name for p in tmp_path.iterdir()) == ["table.json", "table.npy"]
