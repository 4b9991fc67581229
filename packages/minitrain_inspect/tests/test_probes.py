"""The probe of the mask: exactly 0 for a causal model, more for any that looks ahead; it changes nothing."""

import numpy as np
import pytest
from autograd_core import Module, Tensor, is_grad_enabled
from minimodel.transformer import MiniGPT, MiniGPTConfig
from minitrain.diagnosis import future_leak

V, T = 13, 11


def gpt(*, seed: int = 5, **settings: object) -> MiniGPT:
    sizes = {"d_model": 12, "n_heads": 2, "n_layers": 2, "d_ff": 19, "vocab_size": V, "context_len": T}
    return MiniGPT(MiniGPTConfig(**sizes, **settings), rng=np.random.default_rng(seed))  # type: ignore[arg-type]


class Peeking(Module):
    """A model whose logits at t are a table's rows of the tokens up to t + `ahead`, summed; 0 is causal."""

    def __init__(self, ahead: int, scale: float = 1.0) -> None:
        self.ahead = ahead
        self.table = scale * np.random.default_rng(3).normal(size=(V, V))

    def forward(self, ids: np.ndarray) -> Tensor:
        assert not is_grad_enabled()
        rows = self.table[ids]  # (1, T, V)
        total = np.cumsum(rows, axis=1)
        for shift in range(1, self.ahead + 1):
            total[:, :-shift] += rows[:, shift:]
        return Tensor(total)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("position", ["rope", "learned"])
@pytest.mark.parametrize("gain", [1.0, 100.0])
def test_a_causal_model_leaks_exactly_nothing(dtype: str, position: str, gain: float) -> None:
    assert future_leak(gpt(dtype=dtype, position=position, init_gain=gain), V, T) == 0.0


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_model_without_mask_leaks(dtype: str) -> None:
    assert future_leak(gpt(dtype=dtype, causal=False), V, T) > 1e-4


def test_a_mask_that_is_one_off_is_broken_however_small_the_leak() -> None:
    assert future_leak(Peeking(0), V, T) == 0.0
    assert future_leak(Peeking(1), V, T) > 0.1
    assert 0.0 < future_leak(Peeking(1, scale=1e-30), V, T) < 1e-28


def test_where_there_is_no_future_nothing_leaks() -> None:
    assert future_leak(Peeking(1), V, 1) == 0.0
    assert future_leak(Peeking(1), 1, T) == 0.0


def test_long_contexts_are_probed_in_part() -> None:
    lengths: list[int] = []

    class Measured(Peeking):
        def forward(self, ids: np.ndarray) -> Tensor:
            lengths.append(ids.shape[1])
            return super().forward(ids)

    assert future_leak(Measured(0), V, 1024) == 0.0
    assert lengths == [128] * 5


def test_nan_that_stays_has_not_moved() -> None:
    model = gpt()
    model.blocks[0].ffn.W1.value[0, 0] = np.nan
    assert future_leak(model, V, T) == 0.0


def test_probing_changes_nothing_of_the_model() -> None:
    model = gpt(dropout=0.5)
    model.train()
    states = [module.rng.bit_generator.state for module in model.modules() if hasattr(module, "rng")]
    before = {name: value.copy() for name, value in model.state_dict().items()}
    shared = np.random.get_state()[1].tobytes()  # noqa: NPY002 - that it stays untouched is the point
    assert future_leak(model, V, T) == future_leak(model, V, T) == 0.0
    assert np.random.get_state()[1].tobytes() == shared  # noqa: NPY002
    assert all(module.training for module in model.modules())
    assert states == [module.rng.bit_generator.state for module in model.modules() if hasattr(module, "rng")]
    assert states
    assert all(value.tobytes() == before[name].tobytes() for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
