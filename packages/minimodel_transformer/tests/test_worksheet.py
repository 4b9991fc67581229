"""The worksheet's numbers: against the block, its hooks and the fused operations; what it refuses and leaves alone."""

import itertools

import numpy as np
import pytest
from autograd_core import GELU, ReLU, Tensor, no_grad
from autograd_core import functional as F
from minimodel.transformer import MiniGPT, MiniGPTConfig, TransformerBlock, Worksheet, worksheet
from minimodel.transformer.worksheets import hand_example

SWITCHES = [
    pytest.param(causal, bias, rope, id=f"{'causal' if causal else 'full'}-{'bias' if bias else 'plain'}-{rope}")
    for causal, bias, rope in itertools.product([True, False], [True, False], [True, False])
]
T, D, H, K, WIDTH = 7, 12, 3, 4, 17


def random_block(rng, *, causal=True, bias=True, rope=True, dtype=np.float64, **others):
    """A block in which no gain is 1 and no bias 0, so that leaving one out shows."""
    block = TransformerBlock(D, H, WIDTH, causal=causal, bias=bias, rope=rope, rng=rng, dtype=dtype, **others)
    for parameter in block.parameters():
        parameter.value = rng.standard_normal(parameter.shape).astype(dtype)
    return block


def columns_of(head):
    return slice(head * K, (head + 1) * K)


@pytest.mark.parametrize(("causal", "bias", "rope"), SWITCHES)
def test_the_last_value_is_the_output_of_the_block(rng, causal, bias, rope):
    block = random_block(rng, causal=causal, bias=bias, rope=rope)
    x = rng.standard_normal((T, D))
    y = worksheet(block, x).values["y"]
    assert np.abs(y).max() > 1
    np.testing.assert_allclose(y, block(x).value, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("causal", "bias", "rope"), SWITCHES)
def test_what_hooks_see_stands_under_their_paths(rng, causal, bias, rope):
    block = random_block(rng, causal=causal, bias=bias, rope=rope)
    x = rng.standard_normal((T, D))
    seen = {}
    for name, module in block.named_modules():
        if name:
            module.register_forward_hook(
                lambda module, args, kwargs, output, name=name: seen.update({name: output.value})
            )
    block(x)
    assert set(seen) == {"ln1", "attn", "ln2", "ffn.act", "ffn"}
    values = worksheet(block, x).values
    for name, output in seen.items():
        np.testing.assert_allclose(values[name], output, rtol=1e-12, atol=1e-12, err_msg=name)
    assert np.array_equal(values["z"], x + values["attn"])
    assert np.array_equal(values["y"], values["z"] + values["ffn"])


@pytest.mark.parametrize(("causal", "bias", "rope"), SWITCHES)
def test_inner_values_agree_with_the_fused_operations(rng, causal, bias, rope):
    block = random_block(rng, causal=causal, bias=bias, rope=rope)
    x = rng.standard_normal((T, D))
    values = worksheet(block, x).values

    def close(name, expected):
        np.testing.assert_allclose(values[name], expected, rtol=1e-12, atol=1e-12, err_msg=name)

    for name, stream in (("ln1", x), ("ln2", values["z"])):
        close(f"{name}.mean", stream.mean(axis=-1, keepdims=True))
        close(f"{name}.variance", stream.var(axis=-1, keepdims=True))
        plain = F.layer_norm(Tensor(stream), Tensor(np.ones(D)), Tensor(np.zeros(D)), block.ln1.eps)
        close(f"{name}.normalised", plain.value)
    attn = block.attn
    for letter, weight in zip("qkv", (attn.W_q, attn.W_k, attn.W_v), strict=True):
        close(f"attn.{letter}", F.linear(values["ln1"], weight, getattr(attn, f"b_{letter}") if bias else None).value)
    q, k = (values[f"attn.{letter}{'_rotated' if rope else ''}"] for letter in "qk")
    for head in range(H):
        own, name = columns_of(head), f"attn.head{head}"
        close(f"{name}.scores", q[:, own] @ k[:, own].T)
        close(f"{name}.scaled", q[:, own] @ k[:, own].T / 2.0)  # √K = 2
        seen = np.tri(T, dtype=bool) if causal else np.ones((T, T), bool)
        assert np.array_equal(np.isfinite(values[f"{name}.masked"]), seen)
        close(f"{name}.weights", F.softmax(Tensor(values[f"{name}.masked"])).value)
        gathered = F.scaled_dot_product_attention(q[:, own], k[:, own], values["attn.v"][:, own], causal=causal)
        close(name, gathered.value)
        assert np.array_equal(values["attn.joined"][:, own], values[name])
    close("attn", F.linear(values["attn.joined"], attn.W_o, attn.b_o if bias else None).value)
    close("ffn.pre", F.linear(values["ln2"], block.ffn.W1, block.ffn.b1).value)
    close("ffn.act.tanh", np.tanh(values["ffn.act.inner"]))
    close("ffn.act", F.gelu(Tensor(values["ffn.pre"])).value)


def test_rotation_turns_pairs_by_the_position(rng):
    values = worksheet(random_block(rng), rng.standard_normal((T, D))).values
    for letter in "qk":
        before, after = values[f"attn.{letter}"], values[f"attn.{letter}_rotated"]
        for head, i in itertools.product(range(H), range(K // 2)):
            first, second = head * K + i, head * K + i + K // 2
            points = before[:, first] + 1j * before[:, second]
            turned = points * np.exp(1j * np.arange(T) * 10000.0 ** (-2 * i / K))
            np.testing.assert_allclose(after[:, first] + 1j * after[:, second], turned, rtol=1e-12, atol=1e-12)


def test_names_stand_in_the_order_of_the_arithmetic():
    layer_norm = ["mean", "centred", "variance", "std", "normalised"]
    head = ["scores", "scaled", "masked", "max", "exp", "sum", "weights"]
    assert list(worksheet(*hand_example()).values) == [
        "x",
        *(f"ln1.{name}" for name in layer_norm),
        "ln1",
        "attn.q",
        "attn.k",
        "attn.v",
        *(f"attn.head0.{name}" for name in head),
        "attn.head0",
        "attn.joined",
        "attn",
        "z",
        *(f"ln2.{name}" for name in layer_norm),
        "ln2",
        "ffn.pre",
        "ffn.act.inner",
        "ffn.act.tanh",
        "ffn.act",
        "ffn",
        "y",
    ]


def test_every_value_has_the_shape_that_its_letters_say(rng):
    sizes = {"T": T, "D": D, "K": K, "F": WIDTH, "1": 1, "K/2": K // 2}
    steps = worksheet(random_block(rng), rng.standard_normal((T, D))).steps
    assert {letter for step in steps for letter in step.axes} == set(sizes)
    for step in steps:
        assert step.value.shape == tuple(sizes[letter] for letter in step.axes), step.name


def test_float32_stays_float32(rng):
    block = random_block(rng, dtype=np.float32)
    x = rng.standard_normal((T, D)).astype(np.float32)
    values = worksheet(block, x).values
    assert {value.dtype for value in values.values()} == {np.dtype(np.float32)}
    np.testing.assert_allclose(values["y"], block(x).value, rtol=1e-4, atol=1e-5)


def test_what_is_masked_is_exactly_nothing(rng):
    x = rng.standard_normal((T, D))
    block = random_block(rng)
    changed = x.copy()
    changed[4:] = 100.0
    before, after = worksheet(block, x).values, worksheet(block, changed).values
    assert np.array_equal(before["attn.head1.weights"][:4, :4], after["attn.head1.weights"][:4, :4])
    assert (before["attn.head1.weights"][np.triu_indices(T, 1)] == 0).all()


def test_large_scores_do_not_overflow(rng):
    block = random_block(rng)
    block.attn.W_q.value[...] *= 1e4
    x = rng.standard_normal((T, D))
    values = worksheet(block, x).values
    assert np.abs(values["attn.head0.scores"]).max() > 1e4
    np.testing.assert_allclose(values["y"], block(x).value, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("length", [1, 24])
def test_shortest_and_longest(rng, length):
    block = random_block(rng)
    x = rng.standard_normal((length, D))
    np.testing.assert_allclose(worksheet(block, x).values["y"], block(x).value, rtol=1e-12, atol=1e-12)


def test_a_tensor_a_nested_list_and_whole_numbers_are_taken():
    block, x = hand_example()
    expected = worksheet(block, x).values["y"]
    assert np.array_equal(worksheet(block, Tensor(x)).values["y"], expected)
    assert np.array_equal(worksheet(block, x.tolist()).values["y"], expected)
    whole = worksheet(block, np.array([[1, 2, 3, 4]])).values["y"]
    assert whole.dtype == np.float64
    np.testing.assert_allclose(whole, block(np.array([[1.0, 2.0, 3.0, 4.0]])).value, rtol=1e-13)


def test_dropout_is_left_out(rng):
    block = random_block(rng, dropout=0.5)
    x = rng.standard_normal((T, D))
    sheet = worksheet(block, x)
    assert "Dropout is left out" in str(sheet)
    assert block.training, "a worksheet changes no flag"
    with no_grad():
        np.testing.assert_allclose(sheet.values["y"], block.eval()(x).value, rtol=1e-12, atol=1e-12)
    assert "Dropout" not in str(worksheet(random_block(rng), x))


def test_no_hook_fires_and_nothing_changes(rng):
    block = random_block(rng)
    calls = []
    for module in block.modules():
        module.register_forward_hook(lambda module, args, kwargs, output: calls.append(module))
    before = block.state_dict()
    x = rng.standard_normal((T, D))
    kept = x.copy()
    worksheet(block, x)
    assert calls == []
    assert np.array_equal(x, kept)
    assert all(np.array_equal(value, before[name]) for name, value in block.state_dict().items())
    assert all(parameter.grad is None for parameter in block.parameters())


def test_a_worksheet_does_not_follow_later_changes(rng):
    block, x = random_block(rng), rng.standard_normal((T, D))
    sheet = worksheet(block, x)
    text, w_q = str(sheet), block.attn.W_q.value.copy()
    block.attn.W_q.value[...] = 0.0
    x[...] = 0.0
    assert str(sheet) == text
    assert np.array_equal(sheet.parameters["attn.W_q"], w_q)
    with pytest.raises(ValueError, match="read-only"):
        sheet.values["y"][0, 0] = 1.0


def test_a_block_inside_a_model_is_worked_out_on_the_stream_that_enters_it(rng):
    model = MiniGPT(MiniGPTConfig(d_model=12, n_heads=3, d_ff=20, vocab_size=11, context_len=8), rng=rng)
    entering, leaving = [], []
    with (
        model.blocks[1].register_forward_hook(lambda module, args, kwargs, output: entering.append(args[0].value[0])),
        model.ln_final.register_forward_hook(lambda module, args, kwargs, output: leaving.append(args[0].value[0])),
    ):
        model(np.array([[3, 1, 4, 1, 5]]))
    sheet = worksheet(model.blocks[1], entering[0])
    np.testing.assert_allclose(sheet.values["y"], leaving[0], rtol=1e-12, atol=1e-12)


def test_too_many_positions_or_heads_are_refused(rng):
    block = TransformerBlock(34, 17, 3, rng=rng)
    with pytest.raises(ValueError, match=r"at most 24 positions and 16 heads; got 25 positions and 3 heads"):
        worksheet(random_block(rng), np.zeros((25, D)))
    with pytest.raises(ValueError, match=r"at most 24 positions and 16 heads; got 2 positions and 17 heads"):
        worksheet(block, np.zeros((2, 34)))


@pytest.mark.parametrize("shape", [(T, D + 1), (2, T, D), (D,), (0, D)])
def test_another_shape_is_refused(rng, shape):
    with pytest.raises(ValueError, match=r"x must be \(T, D\) .* D = d_model=12; got shape") as caught:
        worksheet(random_block(rng), np.zeros(shape))
    assert str(shape) in str(caught.value)


def test_rows_of_different_length_are_refused(rng):
    with pytest.raises(
        ValueError, match="worksheet: the rows of x must be equally long; got one of length 4 and one of"
    ):
        worksheet(TransformerBlock(4, 1, 8, rng=rng), [[0.5, 1.0, 0.0, -0.5], [1.0]])


def test_what_is_no_number_is_refused(rng):
    block = random_block(rng)
    with pytest.raises(ValueError, match="x must be finite"):
        worksheet(block, np.full((T, D), np.nan))
    with pytest.raises(TypeError, match="x must hold numbers; got dtype bool"):
        worksheet(block, np.ones((T, D), bool))


def test_what_is_no_block_is_refused(rng):
    model = MiniGPT(MiniGPTConfig(), rng=rng)
    with pytest.raises(TypeError, match=r"must be a TransformerBlock; got MiniGPT\. .*model\.blocks\[i\]"):
        worksheet(model, np.zeros((T, 64)))


@pytest.mark.parametrize(("other", "name"), [(ReLU(), "ReLU"), (GELU("none"), r"GELU\('none'\)")])
def test_another_activation_is_refused(rng, other, name):
    block = random_block(rng)
    block.ffn.act = other
    with pytest.raises(ValueError, match=f"GELU in its tanh form; got {name} as block.ffn.act"):
        worksheet(block, np.zeros((T, D)))


def test_another_language_and_another_number_of_tokens_are_refused():
    block, x = hand_example()
    with pytest.raises(ValueError, match="language must be 'en' or 'es'; got 'fr'"):
        worksheet(block, x, language="fr")
    with pytest.raises(ValueError, match="one text a position; got 3 for 2 positions"):
        worksheet(block, x, tokens=["a", "b", "c"])


@pytest.mark.parametrize(
    ("tokens", "came"), [(3, "int"), ([1, 2], "list with int"), (["a", None], "list with NoneType"), (b"ab", "bytes")]
)
def test_tokens_that_are_no_texts_are_refused(tokens, came):
    with pytest.raises(TypeError, match=rf"worksheet: tokens must be texts, one a position; got {came}\. "):
        worksheet(*hand_example(), tokens=tokens)


def test_repr_is_short():
    sheet = worksheet(*hand_example())
    assert isinstance(sheet, Worksheet)
    assert repr(sheet) == "<Worksheet of 33 steps, T=2, D=4, H=1, K=4, F=8>"
