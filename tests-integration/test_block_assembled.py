"""The block assembled across the three model packages: embedding, block, tied head, gradients end to end.

The pieces are put together here by hand, from the public names of each package, and not by MiniGPT: what is checked is
that the packages fit, with the gradient of a loss at one end reaching the table of vectors at the other.
"""

from __future__ import annotations

import copy

import numpy as np
import numpy.typing as npt
import pytest
from autograd_core import Module, Tensor, no_grad
from autograd_core import functional as F
from autograd_core.optim import AdamW, clip_grad_norm, decay_groups
from minimodel.embedding import Embedding, gather_backward
from minimodel.transformer import LayerNorm, MiniGPT, MiniGPTConfig, TransformerBlock

VOCABULARY, WIDTH, HEADS, HIDDEN = 13, 12, 3, 20
BATCH, LENGTH = 2, 7

Ids = npt.NDArray[np.int64]


class OneBlock(Module):
    """Logits of the next id: embedding, one block, LayerNorm, the embedding transposed."""

    def __init__(self, rng: np.random.Generator, *, rope: bool = True, dtype: str = "float64") -> None:
        self.embedding = Embedding(VOCABULARY, WIDTH, init_scale=0.5, rng=rng, dtype=dtype)
        self.block = TransformerBlock(WIDTH, HEADS, HIDDEN, rope=rope, rng=rng, dtype=dtype)
        self.norm = LayerNorm(WIDTH, dtype=dtype)

    def forward(self, ids: Ids, pad_mask: npt.NDArray[np.bool_] | None = None) -> Tensor:
        return self.norm(self.block(self.embedding(ids), pad_mask=pad_mask)) @ self.embedding.E.T


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(17)


@pytest.fixture
def ids(rng: np.random.Generator) -> Ids:
    # The last id is never looked up, and targets make up for it: its row learns through the head alone.
    found: Ids = rng.integers(0, VOCABULARY - 1, size=(BATCH, LENGTH + 1))
    return found


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("rope", [False, True])
def test_gradient_of_every_parameter_agrees_with_differences(
    rng: np.random.Generator, ids: Ids, padded: bool, rope: bool
) -> None:
    model = OneBlock(rng, rope=rope)
    mask = np.arange(LENGTH) < np.array([[LENGTH], [4]]) if padded else None
    targets = ids[:, 1:].copy()
    if mask is not None:
        targets[~mask] = -100

    def loss() -> Tensor:
        return F.cross_entropy(model(ids[:, :-1], pad_mask=mask), targets)

    loss().backward()
    names = []
    with no_grad():
        for name, parameter in model.named_parameters():
            direction = rng.standard_normal(parameter.shape)
            start, step = parameter.value.copy(), 1e-6
            parameter.value = start + step * direction
            above = loss().item()
            parameter.value = start - step * direction
            below = loss().item()
            parameter.value = start
            expected = (above - below) / (2 * step)
            assert abs(expected) > 1e-5, f"{name}: a direction in which nothing changes checks nothing"
            assert parameter.grad is not None
            assert float((parameter.grad * direction).sum()) == pytest.approx(expected, rel=1e-5, abs=1e-9), name
            names.append(name)
    assert len(names) == 1 + 4 + 4 + 4 + 2
    assert names[0] == "embedding.E"


def test_one_random_direction_through_all_parameters_at_once(rng: np.random.Generator, ids: Ids) -> None:
    model = OneBlock(rng)
    parameters = list(model.parameters())
    directions = [rng.standard_normal(p.shape) for p in parameters]
    starts = [p.value.copy() for p in parameters]

    def loss_at(distance: float) -> float:
        for parameter, start, direction in zip(parameters, starts, directions, strict=True):
            parameter.value = start + distance * direction
        with no_grad():
            return F.cross_entropy(model(ids[:, :-1]), ids[:, 1:]).item()

    expected = (loss_at(1e-6) - loss_at(-1e-6)) / 2e-6
    loss_at(0.0)
    F.cross_entropy(model(ids[:, :-1]), ids[:, 1:]).backward()
    found = sum(float((p.grad * d).sum()) for p, d in zip(parameters, directions, strict=True) if p.grad is not None)
    assert abs(expected) > 1e-3
    assert found == pytest.approx(expected, rel=1e-6)


def test_tied_table_gets_the_gradients_of_lookup_and_head_together(rng: np.random.Generator, ids: Ids) -> None:
    tied = OneBlock(rng)
    cotangent = rng.standard_normal((BATCH, LENGTH, VOCABULARY))
    tied(ids[:, :-1]).backward(cotangent)

    # The same arithmetic with the two uses of the table held apart.
    apart = copy.deepcopy(tied)
    apart.zero_grad()
    vectors = Tensor(apart.embedding.E.value[ids[:, :-1]], requires_grad=True)
    hidden = apart.norm(apart.block(vectors))
    (hidden @ Tensor(apart.embedding.E.value.T)).backward(cotangent)
    assert vectors.grad is not None
    lookup = gather_backward(vectors.grad, ids[:, :-1], (VOCABULARY, WIDTH))
    head = np.einsum("btv,btd->vd", cotangent, hidden.value)

    assert tied.embedding.E.grad is not None
    np.testing.assert_allclose(tied.embedding.E.grad, lookup + head, rtol=1e-10, atol=1e-12)
    assert not lookup[VOCABULARY - 1].any()
    assert head[VOCABULARY - 1].all()


def test_tied_table_is_observed_and_stepped_once(rng: np.random.Generator, ids: Ids) -> None:
    model = OneBlock(rng)
    seen: list[npt.NDArray[np.float64]] = []
    with model.embedding.E.register_grad_hook(lambda parameter, grad: seen.append(grad.copy())):
        F.cross_entropy(model(ids[:, :-1]), ids[:, 1:]).backward()
    assert len(seen) == 1
    assert model.embedding.E.grad is not None
    assert np.array_equal(seen[0], model.embedding.E.grad)
    assert sum(1 for p in model.parameters() if p is model.embedding.E) == 1


def test_minigpt_of_one_layer_is_this_assembly(rng: np.random.Generator, ids: Ids) -> None:
    model = OneBlock(rng)
    gpt = MiniGPT(
        MiniGPTConfig(
            d_model=WIDTH, n_heads=HEADS, n_layers=1, d_ff=HIDDEN, vocab_size=VOCABULARY, context_len=LENGTH + 1
        )
    )
    renamed = {
        name.replace("block.", "blocks.0.", 1).replace("norm.", "ln_final.", 1): value
        for name, value in model.state_dict().items()
    }
    gpt.load_state_dict(renamed)
    np.testing.assert_allclose(gpt(ids).value, model(ids).value, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_assembly_learns_in_its_own_dtype(rng: np.random.Generator, ids: Ids, dtype: str) -> None:
    model = OneBlock(rng, dtype=dtype)
    optimizer = AdamW(decay_groups(model, 0.01), lr=1e-2)
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(ids[:, :-1]), ids[:, 1:])
        loss.backward()
        clip_grad_norm(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        assert loss.dtype == dtype
    assert losses[0] > 2.0
    assert losses[-1] < 0.3
    assert {str(p.dtype) for p in model.parameters()} == {dtype}
    assert {str(p.grad.dtype) for p in model.parameters() if p.grad is not None} == {dtype}
