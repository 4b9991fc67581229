"""Causality is exact: no bit of the past depends on the future, whatever the weights."""

import numpy as np
import pytest
from autograd_core import Tensor
from autograd_core import functional as F
from minimodel.transformer import MiniGPT, MiniGPTConfig, MultiHeadAttention

LENGTH = 7


def model_of(weights, **changes):
    config = MiniGPTConfig(
        d_model=12, n_heads=3, n_layers=2, d_ff=20, vocab_size=11, context_len=LENGTH, init_gain=3.0, **changes
    )
    model = MiniGPT(config, rng=np.random.default_rng(0))
    if weights == "huge scores":
        for block in model.blocks:
            for matrix in (block.attn.W_q, block.attn.W_k):
                matrix.value[...] *= 1e5
    return model


every_model = pytest.mark.parametrize(
    "model",
    [
        model_of(weights, position=position, dtype=dtype)
        for weights in ("ordinary", "huge scores")
        for position in ("rope", "learned")
        for dtype in ("float64", "float32")
    ],
    ids=lambda m: f"{m.config.position}-{m.config.dtype}-{np.abs(m.blocks[0].attn.W_q.value).max():.0e}",
)


def test_huge_weights_do_make_huge_scores(rng):
    model = model_of("huge scores")
    block, x = model.blocks[0], rng.standard_normal((LENGTH, 12))
    h = block.ln1(x).value
    scores = (h @ block.attn.W_q.value) @ (h @ block.attn.W_k.value).T
    assert scores.min() < -2e10


@every_model
@pytest.mark.parametrize("padded", [False, True])
def test_later_tokens_change_no_bit_of_earlier_logits(rng, model, padded):
    tokens = rng.integers(0, 11, size=(2, LENGTH))
    mask = np.array([[False] + [True] * (LENGTH - 1), [True] * LENGTH]) if padded else None
    logits = model(tokens, pad_mask=mask).value
    for t in range(LENGTH - 1):
        for _ in range(3):
            other = tokens.copy()
            other[:, t + 1 :] = rng.integers(0, 11, size=(2, LENGTH - t - 1))
            assert np.array_equal(model(other, pad_mask=mask).value[:, : t + 1], logits[:, : t + 1])


@every_model
def test_cut_sequence_gives_the_same_logits(rng, model):
    tokens = rng.integers(0, 11, size=LENGTH)
    logits = model(tokens).value
    exact = model.config.dtype == "float64" and np.abs(model.blocks[0].attn.W_q.value).max() < 1e3
    for t in range(1, LENGTH):
        cut = model(tokens[:t]).value
        if exact:
            np.testing.assert_allclose(cut, logits[:t], rtol=1e-12, atol=1e-12)
        else:
            np.testing.assert_allclose(cut, logits[:t], rtol=1e-3, atol=1e-4)


@every_model
def test_loss_of_a_position_sends_exactly_no_gradient_to_later_ones(rng, model):
    embedded = Tensor(rng.standard_normal((2, LENGTH, 12)).astype(model.config.dtype), requires_grad=True)
    for t in range(LENGTH):
        embedded.zero_grad()
        x = embedded
        for block in model.blocks:
            x = block(x)
        logits = F.linear(model.ln_final(x), model.embedding.E.T)
        F.cross_entropy(logits[:, t], np.array([3, 5])).backward()
        assert embedded.grad is not None
        assert not embedded.grad[:, t + 1 :].any()
        assert embedded.grad[:, t].all()


def test_dropout_does_not_open_the_future(rng):
    tokens = rng.integers(0, 11, size=LENGTH)
    for t in range(LENGTH - 1):
        other = tokens.copy()
        other[t + 1 :] = (other[t + 1 :] + 1) % 11
        # Fresh models: equal seeds, so equal dropout masks.
        first, second = (model_of("ordinary", dropout=0.3)(ids).value for ids in (tokens, other))
        assert np.array_equal(first[: t + 1], second[: t + 1])
        assert not np.array_equal(first, second)


def test_one_token_sees_itself():
    model = model_of("ordinary")
    logits = model(np.array([4])).value
    assert logits.shape == (1, 11)
    assert np.isfinite(logits).all()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300])
def test_whatever_stands_at_a_later_position_stays_there(rng, value):
    attention = MultiHeadAttention(12, 3, rng=rng)
    x = rng.standard_normal((2, LENGTH, 12))
    y = attention(x).value
    broken = x.copy()
    broken[:, 4:] = value
    with np.errstate(all="ignore"):
        z = attention(broken).value
    assert np.array_equal(z[:, :4], y[:, :4])


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_whatever_stands_at_a_padded_position_stays_there(rng, value):
    attention = MultiHeadAttention(12, 3, causal=False, rng=rng)
    x = rng.standard_normal((2, LENGTH, 12))
    mask = np.ones((2, LENGTH), bool)
    mask[:, 2] = False
    y = attention(x, pad_mask=mask).value
    broken = x.copy()
    broken[:, 2] = value
    with np.errstate(all="ignore"):
        z = attention(broken, pad_mask=mask).value
    assert np.array_equal(z[mask], y[mask])
