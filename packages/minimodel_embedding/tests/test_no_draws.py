"""Weights that are about to be overwritten are not drawn; what is spawned draws."""

import numpy as np
from autograd_core import init
from minimodel.embedding import Embedding
from minimodel.embedding.no_draws import NoDraws


def test_every_initial_value_is_zero_and_the_state_stays():
    no_draws = NoDraws(np.random.default_rng(5).bit_generator)
    before = no_draws.bit_generator.state
    for array in (
        init.xavier_uniform((3, 5), rng=no_draws, dtype=np.float32),
        init.xavier_normal((3, 5), rng=no_draws, dtype=np.float32),
        init.normal((3, 5), std=1.0, rng=no_draws, dtype=np.float32),
    ):
        assert array.dtype == np.float32
        assert array.shape == (3, 5)
        assert not array.any()
    assert not Embedding(3, 5, rng=no_draws).E.value.any()
    assert no_draws.bit_generator.state == before


def test_spawned_generators_are_those_of_a_plain_one():
    ours = [g.random() for g in NoDraws(np.random.default_rng(5).bit_generator).spawn(3)]
    assert ours == [g.random() for g in np.random.default_rng(5).spawn(3)]


def test_loading_a_table_draws_nothing(tmp_path, rng, monkeypatch):
    table = Embedding(3, 5, rng=rng)
    table.save(tmp_path / "table")
    drawing = []
    monkeypatch.setattr(init, "normal", lambda shape, *, rng, **_: drawing.append(type(rng)) or np.zeros(shape))
    assert np.array_equal(Embedding.load(tmp_path / "table").E.value, table.E.value)
    assert drawing == [NoDraws]
