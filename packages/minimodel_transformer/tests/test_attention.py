"""Multi-head attention: reference values and gradients, masks, its declaration, refusals."""

import numpy as np
import pytest
from autograd_core import Parameter, Tensor
from minimodel.transformer import MultiHeadAttention

CASES = ["mha_full", "mha_causal", "mha_causal_right_pad", "mha_full_right_pad", "mha_causal_left_pad"]


def fill(module, arrays):
    module.load_state_dict(arrays)
    return module


@pytest.mark.parametrize("name", CASES)
def test_agrees_with_reference(reference, name):
    case = reference.load(name)
    d_model = case.arrays["in.x"].shape[-1]
    attention = MultiHeadAttention(d_model, case.params["n_head"], causal=case.params["causal"], bias=True)
    fill(attention, reference.attention_arrays(case.arrays, "in."))
    x = Tensor(case.arrays["in.x"], requires_grad=True)

    y = attention(x, pad_mask=case.arrays.get("in.key_mask"))
    y.backward(case.arrays["gout"])

    case.assert_close(y.value, "out")
    case.assert_close(x.grad, "grad.x")
    gradients = reference.attention_arrays(case.arrays, "grad.")
    assert gradients.keys() == dict(attention.named_parameters()).keys()
    for parameter_name, parameter in attention.named_parameters():
        np.testing.assert_allclose(parameter.grad, gradients[parameter_name], **case.tolerance, err_msg=parameter_name)


@pytest.mark.parametrize("rope", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("padded", [False, True])
def test_gradients_agree_with_differences(rng, check_directions, rope, bias, padded):
    attention = MultiHeadAttention(12, 3, bias=bias, rope=rope, rng=rng)
    if bias:
        for b in (attention.b_q, attention.b_k, attention.b_v, attention.b_o):
            b.value = rng.standard_normal(12)
    x = Parameter(rng.standard_normal((2, 5, 12)))
    cotangent = rng.standard_normal(x.shape)
    mask = np.array([[True] * 5, [False, True, True, True, False]]) if padded else None
    # A key bias adds one number to all scores of a row, which softmax does not see: its gradient is 0 without RoPE.
    checked = [p for n, p in attention.named_parameters() if rope or n != "b_k"]
    check_directions(lambda: (attention(x, pad_mask=mask) * cotangent).sum(), [x, *checked])


def test_running_means_when_all_scores_are_equal():
    attention = MultiHeadAttention(1, 1)
    attention.W_q.value[...] = attention.W_k.value[...] = 0.0
    attention.W_v.value[...] = attention.W_o.value[...] = 1.0
    x = np.array([[[1.0], [3.0], [8.0]]])
    assert attention(x).value.ravel().tolist() == [1.0, 2.0, 4.0]


def test_query_without_visible_key_gives_zero():
    attention = MultiHeadAttention(1, 1)
    attention.W_q.value[...] = attention.W_k.value[...] = 0.0
    attention.W_v.value[...] = attention.W_o.value[...] = 1.0
    x = Tensor(np.array([[[1.0], [3.0], [8.0]]]), requires_grad=True)
    y = attention(x, pad_mask=np.array([[False, True, True]]))
    assert y.value.ravel().tolist() == [0.0, 3.0, 5.5]
    y.backward(np.ones(y.shape))
    assert x.grad is not None
    assert x.grad.ravel().tolist() == [0.0, 1.5, 0.5]


@pytest.mark.parametrize("causal", [True, False])
def test_padded_keys_leave_no_trace(rng, causal):
    attention = MultiHeadAttention(12, 3, causal=causal, rope=True, rng=rng)
    x = rng.standard_normal((2, 7, 12))
    mask = np.ones((2, 7), dtype=bool)
    mask[0, 4:] = False
    mask[1, 2] = False
    other = x.copy()
    other[~mask] = 1e6 * rng.standard_normal((int((~mask).sum()), 12))
    assert np.array_equal(attention(other, pad_mask=mask).value[mask], attention(x, pad_mask=mask).value[mask])

    x = Tensor(x, requires_grad=True)
    cotangent = rng.standard_normal(x.shape)
    cotangent[~mask] = 0.0  # only what real queries compute counts
    attention(x, pad_mask=mask).backward(cotangent)
    assert x.grad is not None
    assert not x.grad[~mask].any()
    assert x.grad[mask].all()


def test_padding_on_the_right_equals_leaving_it_out(rng):
    attention = MultiHeadAttention(12, 3, causal=False, rope=True, rng=rng)
    x = rng.standard_normal((2, 7, 12))
    mask = np.arange(7) < np.array([[7], [4]])
    y = attention(x, pad_mask=mask).value
    np.testing.assert_allclose(attention(x[1, :4]).value, y[1, :4], rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(attention(x[0]).value, y[0], rtol=1e-11, atol=1e-13)


def test_mask_of_all_real_tokens_changes_nothing(rng):
    attention = MultiHeadAttention(12, 3, rng=rng)
    x = rng.standard_normal((2, 7, 12))
    np.testing.assert_allclose(attention(x, pad_mask=np.ones((2, 7), bool)).value, attention(x).value, rtol=1e-13)


def test_single_sequence_equals_batch_of_one(rng):
    attention = MultiHeadAttention(12, 3, rng=rng)
    x = rng.standard_normal((7, 12))
    assert attention(x).shape == (7, 12)
    np.testing.assert_allclose(attention(x).value, attention(x[None]).value[0], rtol=1e-13, atol=1e-14)
    mask = np.array([True] * 5 + [False] * 2)
    np.testing.assert_allclose(
        attention(x, pad_mask=mask).value, attention(x[None], pad_mask=mask[None]).value[0], rtol=1e-13, atol=1e-14
    )


def test_batch_rows_do_not_meet(rng):
    attention = MultiHeadAttention(12, 3, rng=rng)
    x = rng.standard_normal((5, 7, 12))
    order = np.array([3, 1, 4, 0, 2])
    np.testing.assert_allclose(attention(x[order]).value, attention(x).value[order], rtol=1e-13, atol=1e-14)


def test_one_position_gives_the_projected_value(rng):
    attention = MultiHeadAttention(12, 3, rope=True, rng=rng)
    x = rng.standard_normal((1, 12))
    expected = x @ attention.W_v.value @ attention.W_o.value
    np.testing.assert_allclose(attention(x).value, expected, rtol=1e-12, atol=1e-14)


def test_output_projection_runs_with_one_head_too(rng):
    attention = MultiHeadAttention(5, 1, rng=rng)
    x = rng.standard_normal((3, 5))
    before = attention(x).value
    attention.W_o.value[...] *= 2.0
    np.testing.assert_allclose(attention(x).value, 2 * before, rtol=1e-13)


@pytest.mark.parametrize("name", ["W_q", "W_k", "W_v", "W_o", "b_q", "b_v", "b_o"])
def test_writing_into_each_parameter_changes_the_layer(rng, name):
    attention = MultiHeadAttention(12, 3, bias=True, rng=rng)
    x = rng.standard_normal((7, 12))
    before = attention(x).value
    getattr(attention, name).value[...] += rng.standard_normal(getattr(attention, name).shape)
    assert np.abs(attention(x).value - before).max() > 1e-3


def test_declares_four_matrices_and_with_bias_four_vectors():
    shapes = {name: p.shape for name, p in MultiHeadAttention(12, 3).named_parameters()}
    assert shapes == dict.fromkeys(["W_q", "W_k", "W_v", "W_o"], (12, 12))
    with_bias = MultiHeadAttention(12, 3, bias=True)
    assert {n for n, _ in with_bias.named_parameters()} == {*shapes, "b_q", "b_k", "b_v", "b_o"}
    assert not any(p.value.any() for n, p in with_bias.named_parameters() if n.startswith("b"))
    with pytest.raises(AttributeError, match="b_q"):
        MultiHeadAttention(12, 3).b_q  # noqa: B018


def test_matrices_are_xavier_uniform_and_differ():
    attention = MultiHeadAttention(96, 3, rng=np.random.default_rng(7))
    bound = (6 / 192) ** 0.5
    values = [p.value for p in attention.parameters()]
    for value in values:
        assert 0.99 * bound < np.abs(value).max() <= bound
    assert len({value.tobytes() for value in values}) == 4


def test_dropout_acts_on_the_output_in_training_only(rng):
    plain = MultiHeadAttention(12, 3, rng=np.random.default_rng(2))
    dropping = MultiHeadAttention(12, 3, dropout=0.25, rng=np.random.default_rng(2))
    x = rng.standard_normal((101, 12))
    y = plain(x).value
    dropped = dropping(x).value
    kept = dropped != 0
    assert 0.15 < 1 - kept.mean() < 0.35
    np.testing.assert_allclose(dropped[kept], (y / 0.75)[kept], rtol=1e-12)
    assert np.array_equal(dropping.eval()(x).value, y)


def test_heads_that_do_not_divide_are_refused():
    with pytest.raises(ValueError, match=r"must divide d_model; got d_model=65, n_heads=4\..*d_model=68"):
        MultiHeadAttention(65, 4)
    with pytest.raises(ValueError, match=r"got d_model=3, n_heads=4\..*d_model=4"):
        MultiHeadAttention(3, 4)


@pytest.mark.parametrize(("sizes", "name"), [((0, 1), "d_model"), ((4, 0), "n_heads"), ((4, -2), "n_heads")])
def test_sizes_below_one_are_refused(sizes, name):
    with pytest.raises(ValueError, match=f"{name} must be at least 1; got"):
        MultiHeadAttention(*sizes)


@pytest.mark.parametrize("p", [1.0, -0.1, 2.0])
def test_impossible_dropout_is_refused(p):
    with pytest.raises(ValueError, match=rf"p must be in \[0, 1\); got {p}"):
        MultiHeadAttention(4, 2, dropout=p)


@pytest.mark.parametrize("shape", [(12,), (3, 11), (2, 2, 3, 12), ()])
def test_misshapen_input_is_refused(shape):
    with pytest.raises(ValueError, match=r"must be \(T, D\) or \(B, T, D\) with D = d_model=12; got shape"):
        MultiHeadAttention(12, 3)(np.zeros(shape))


@pytest.mark.parametrize("dtype", [np.int64, np.float64])
def test_mask_that_is_not_bool_is_refused(dtype):
    with pytest.raises(TypeError, match=rf"pad_mask must be bool, True where .* real; got dtype {np.dtype(dtype)}"):
        MultiHeadAttention(12, 3)(np.zeros((2, 5, 12)), pad_mask=np.ones((2, 5), dtype))


@pytest.mark.parametrize("shape", [(5,), (2, 4), (1, 5), (2, 5, 5)])
def test_misshapen_mask_is_refused(shape):
    with pytest.raises(ValueError, match=r"pad_mask must have one value a token; got shape .* for tokens \(2, 5\)"):
        MultiHeadAttention(12, 3)(np.zeros((2, 5, 12)), pad_mask=np.ones(shape, bool))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", [(5, 12), (2, 5, 12), (0, 5, 12)])
def test_dtype_and_shape_are_kept(rng, dtype, shape):
    attention = MultiHeadAttention(12, 3, bias=True, rope=True, rng=rng, dtype=dtype)
    x = Tensor(rng.standard_normal(shape).astype(dtype), requires_grad=True)
    mask = rng.random(shape[:-1]) < 0.7
    y = attention(x, pad_mask=mask)
    y.backward(np.ones(shape, dtype))
    assert y.shape == shape
    assert x.grad is not None
    assert {y.dtype, x.grad.dtype, *(p.grad.dtype for p in attention.parameters() if p.grad is not None)} == {
        np.dtype(dtype)
    }
