"""The Pre-LN block: the block lab's properties, reference values and gradients, the order of its parts."""

import numpy as np
import pytest
from autograd_core import Parameter, Tensor
from minimodel.transformer import TransformerBlock


@pytest.mark.parametrize("shape", [(8, 64), (3, 7, 64)])
def test_shape_is_preserved(rng, shape):
    assert TransformerBlock(64, 4, 256, rng=rng)(rng.standard_normal(shape)).shape == shape


@pytest.mark.parametrize("filling", [0.0, 1e-4])
def test_block_of_zero_parameters_is_nearly_the_identity(rng, filling):
    block = TransformerBlock(64, 4, 256, rng=rng)
    for parameter in block.parameters():
        parameter.value[...] = filling
    x = rng.standard_normal((8, 64))
    x = (x - x.mean(axis=-1, keepdims=True)) / x.std(axis=-1, keepdims=True)
    assert np.abs(block(x).value - x).max() < 1e-3


def test_gradient_reaches_input_and_every_parameter(rng):
    block = TransformerBlock(12, 3, 20, bias=True, rng=rng)
    x = Tensor(rng.standard_normal((2, 5, 12)), requires_grad=True)
    (block(x) * rng.standard_normal((2, 5, 12))).sum().backward()
    assert x.grad is not None
    norms = {name: float(np.linalg.norm(p.grad)) for name, p in block.named_parameters() if p.grad is not None}
    assert norms.keys() == {name for name, _ in block.named_parameters()}
    # Softmax does not see a number added to all scores of a row, which is what a key bias does.
    assert norms.pop("attn.b_k") < 1e-12
    assert all(1e-3 < norm < 1e6 for norm in [*norms.values(), float(np.linalg.norm(x.grad))])


@pytest.mark.parametrize("name", ["block", "block_right_pad"])
def test_agrees_with_reference(reference, name):
    case = reference.load(name)
    d_model = case.arrays["in.x"].shape[-1]
    block = TransformerBlock(d_model, case.params["n_head"], 4 * d_model, bias=True, ln_eps=case.params["ln_eps"])
    block.load_state_dict(reference.block_arrays(case.arrays, "in."))
    x = Tensor(case.arrays["in.x"], requires_grad=True)

    y = block(x, pad_mask=case.arrays.get("in.key_mask"))
    y.backward(case.arrays["gout"])

    case.assert_close(y.value, "out")
    case.assert_close(x.grad, "grad.x")
    gradients = reference.block_arrays(case.arrays, "grad.")
    assert gradients.keys() == dict(block.named_parameters()).keys()
    for parameter_name, parameter in block.named_parameters():
        np.testing.assert_allclose(parameter.grad, gradients[parameter_name], **case.tolerance, err_msg=parameter_name)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("rope", [True, False])
def test_gradients_agree_with_differences(rng, check_directions, causal, rope):
    block = TransformerBlock(12, 3, 20, causal=causal, rope=rope, rng=rng)
    x = Parameter(rng.standard_normal((2, 5, 12)))
    cotangent = rng.standard_normal(x.shape)
    check_directions(lambda: (block(x) * cotangent).sum(), [x, *block.parameters()])


def test_is_two_residual_additions_of_normalised_input(rng):
    block = TransformerBlock(12, 3, 20, rng=rng)
    for layer in (block.ln1, block.ln2):
        layer.gamma.value, layer.beta.value = rng.standard_normal((2, 12))
    x = rng.standard_normal((2, 5, 12))
    z = x + block.attn(block.ln1(x)).value
    expected = z + block.ffn(block.ln2(z)).value
    np.testing.assert_allclose(block(x).value, expected, rtol=1e-13, atol=1e-14)
    post_norm = x + block.ln1(block.attn(x)).value
    assert np.abs(post_norm - z).max() > 0.1


def test_single_sequence_equals_batch_of_one(rng):
    block = TransformerBlock(12, 3, 20, rope=True, rng=rng)
    x = rng.standard_normal((5, 12))
    np.testing.assert_allclose(block(x).value, block(x[None]).value[0], rtol=1e-12, atol=1e-13)


def test_mask_and_positions_reach_attention(rng):
    block = TransformerBlock(12, 3, 20, causal=False, rope=True, rng=rng)
    x = rng.standard_normal((2, 5, 12))
    mask = np.array([[True] * 5, [True, True, False, True, True]])
    seen = []
    with block.attn.register_forward_hook(lambda module, args, kwargs, output: seen.append(kwargs)):
        masked = block(x, pad_mask=mask, position_ids=np.arange(5) * 3).value
    assert seen[0]["pad_mask"] is mask
    assert seen[0]["position_ids"].tolist() == [0, 3, 6, 9, 12]
    plain = block(x, position_ids=np.arange(5) * 3).value
    assert np.array_equal(masked[0], plain[0])
    assert np.abs(masked[1] - plain[1]).max() > 1e-3


def test_parts_have_their_paths():
    names = [name for name, _ in TransformerBlock(12, 3, 20).named_modules() if name]
    assert names == ["ln1", "attn", "ln2", "ffn", "ffn.act"]
    with_dropout = [name for name, _ in TransformerBlock(12, 3, 20, dropout=0.1).named_modules() if name]
    assert with_dropout == ["ln1", "attn", "attn.dropout", "ln2", "ffn", "ffn.act", "dropout"]


def test_every_part_is_observed_once_a_call(rng):
    block = TransformerBlock(12, 3, 20, dropout=0.1, rng=rng)
    counts = dict.fromkeys([name for name, _ in block.named_modules()], 0)

    def count(name):
        def hook(module, args, kwargs, output):
            counts[name] += 1

        return hook

    for name, module in block.named_modules():
        module.register_forward_hook(count(name))
    block(rng.standard_normal((5, 12)))
    assert set(counts.values()) == {1}


def test_dropout_acts_on_both_updates_in_training_only(rng):
    plain = TransformerBlock(12, 3, 20, rng=np.random.default_rng(4))
    dropping = TransformerBlock(12, 3, 20, dropout=0.5, rng=np.random.default_rng(4))
    for (name, a), (_, b) in zip(plain.named_parameters(), dropping.named_parameters(), strict=True):
        assert np.array_equal(a.value, b.value), name
    x = rng.standard_normal((31, 12))
    outputs = {}
    for name, module in dropping.named_modules():
        if name in ("attn", "dropout"):
            module.register_forward_hook(lambda module, args, kwargs, out, name=name: outputs.update({name: out.value}))
    dropping(x)
    for name in ("attn", "dropout"):
        assert 0.35 < (outputs[name] == 0).mean() < 0.65, name
    assert np.array_equal(dropping.eval()(x).value, plain(x).value)


def test_wrong_width_is_refused(rng):
    with pytest.raises(ValueError, match=r"d_model=12; got shape \(5, 11\)"):
        TransformerBlock(12, 3, 20, rng=rng)(np.zeros((5, 11)))


def test_heads_that_do_not_divide_are_refused():
    with pytest.raises(ValueError, match="got d_model=12, n_heads=5"):
        TransformerBlock(12, 5, 20)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_dtype_is_kept(rng, dtype):
    block = TransformerBlock(12, 3, 20, bias=True, rope=True, dropout=0.1, rng=rng, dtype=dtype)
    outputs = []
    for module in block.modules():
        module.register_forward_hook(lambda module, args, kwargs, output: outputs.append(output.dtype))
    block(rng.standard_normal((5, 12)).astype(dtype)).sum().backward()
    assert len(outputs) == 8
    assert {*outputs, *(p.grad.dtype for p in block.parameters() if p.grad is not None)} == {np.dtype(dtype)}
