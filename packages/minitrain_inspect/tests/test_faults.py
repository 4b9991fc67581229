"""Faults on purpose: each happens before the step it is set for, and nothing else changes."""

import math

import numpy as np
import pytest
from minitrain.config import load_config
from minitrain.data import load_data
from minitrain.faults import faulty_steps
from minitrain.run import prepare
from tiny_run import TINY, write_text

HIDDEN = 11  # model.d_ff of TINY


def prepared(*sets: str):  # type: ignore[no-untyped-def]
    return prepare(load_config(None, (*TINY, *sets)))


def test_without_faults_there_is_nothing_to_call() -> None:
    ready = prepared()
    assert faulty_steps(ready.model, ready.config.faults) is None


@pytest.mark.parametrize("share", [0.3, 1.0])
def test_units_die_before_their_step_and_no_earlier(share: float) -> None:
    ready = prepared(f"faults.dead_units={share}", "faults.dead_units_step=7", "model.n_layers=2")
    before_step = faulty_steps(ready.model, ready.config.faults)
    assert before_step is not None
    before = {name: value.copy() for name, value in ready.model.state_dict().items()}
    for step in (1, 6, 8):
        before_step(step)
    assert all(np.array_equal(value, before[name]) for name, value in ready.model.state_dict().items())
    before_step(7)
    killed = round(share * HIDDEN)
    for name, value in ready.model.state_dict().items():
        if name.endswith("ffn.b1"):
            assert value.tolist() == [-10.0] * killed + [0.0] * (HIDDEN - killed)
        else:
            assert np.array_equal(value, before[name])


def test_one_weight_becomes_nan_before_its_step() -> None:
    ready = prepared("faults.nan_step=5")
    before_step = faulty_steps(ready.model, ready.config.faults)
    assert before_step is not None
    for step, bad in ((4, 0), (5, 1)):
        before_step(step)
        assert sum(int(np.isnan(value).sum()) for value in ready.model.state_dict().values()) == bad


def test_a_share_of_the_lines_is_spread_over_all_of_them() -> None:
    whole, tenth = (load_data(load_config(None, (*TINY, f"faults.data_fraction={share}"))) for share in (1.0, 0.1))
    lines = [tuple(line.ids) for line in whole.train.sequences]
    fed = [tuple(line.ids) for line in tenth.train.sequences]
    assert len(fed) == math.ceil(0.1 * len(lines))
    places = [lines.index(line) for line in fed]
    assert places == sorted(places)
    assert max(np.diff(places)) <= 11
    # What it is measured against stays.
    assert tenth.ngram_loss == whole.ngram_loss
    assert len(tenth.validation) == len(whole.validation)


def test_a_share_of_a_text_is_its_beginning_and_at_least_a_window(tmp_path) -> None:  # type: ignore[no-untyped-def]
    path = write_text(tmp_path / "book.txt", 1000)
    sets = (*TINY, f"data.source={path}", "model.context_len=13")

    def data(share: float):  # type: ignore[no-untyped-def]
        return load_data(load_config(None, (*sets, f"faults.data_fraction={share}")))

    whole, fifth, least = data(1.0), data(0.2), data(1e-6)
    assert np.array_equal(fifth.train.ids, whole.train.ids[: math.ceil(0.2 * len(whole.train.ids))])
    assert len(least.train.ids) == 14
    assert fifth.ngram_loss == whole.ngram_loss
