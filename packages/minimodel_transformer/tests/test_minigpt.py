"""MiniGPT: reference values, the number of parameters, dtypes, seeds, dropout, learning, refusals."""

import copy
import math

import numpy as np
import pytest
from autograd_core import Tensor, no_grad
from autograd_core.optim import AdamW, WarmupCosine, clip_grad_norm, decay_groups
from minimodel.transformer import (
    FFN,
    LayerNorm,
    MiniGPT,
    MiniGPTConfig,
    MultiHeadAttention,
    TransformerBlock,
    load_gpt2,
)

TINY = {"d_model": 12, "n_heads": 3, "n_layers": 2, "d_ff": 20, "vocab_size": 11, "context_len": 7}


def tiny(seed=0, **changes):
    return MiniGPT(MiniGPTConfig(**{**TINY, **changes}), rng=np.random.default_rng(seed))


@pytest.fixture
def reference_model(reference):
    case = reference.load("minigpt")
    sizes = case.params
    model = MiniGPT(
        MiniGPTConfig(
            d_model=sizes["n_embd"],
            n_heads=sizes["n_head"],
            n_layers=sizes["n_layer"],
            d_ff=4 * sizes["n_embd"],
            vocab_size=sizes["vocab_size"],
            context_len=sizes["n_positions"],
            position="learned",
            attention_bias=True,
            ln_eps=sizes["ln_eps"],
        )
    )
    model.load_state_dict(reference.gpt_arrays(case.arrays, "param."))
    return model


def assert_gradients(model, case, gradients):
    assert gradients.keys() == dict(model.named_parameters()).keys()
    for name, parameter in model.named_parameters():
        np.testing.assert_allclose(parameter.grad, gradients[name], **case.tolerance, err_msg=name)


# Against the reference.


def test_logits_loss_hidden_states_and_gradients_agree_with_reference(reference, reference_model):
    case = reference.load("minigpt")
    model = reference_model
    hidden = {}
    for i, block in enumerate(model.blocks):

        def keep(module, args, kwargs, output, i=i):
            hidden[i] = args[0].value
            hidden[i + 1] = output.value

        block.register_forward_hook(keep)

    logits = model(case.arrays["ids"])
    loss = model.loss(case.arrays["ids"], case.arrays["targets"])
    loss.backward()

    case.assert_close(logits.value, "logits")
    case.assert_close(loss.item(), "loss")
    for i in range(3):
        case.assert_close(hidden[i], f"hidden.{i}")
    assert_gradients(model, case, reference.gpt_arrays(case.arrays, "grad."))


def test_padded_batch_agrees_with_reference(reference, reference_model):
    case = reference.load("minigpt_padded")
    model, mask = reference_model, case.arrays["key_mask"]
    logits = model(case.arrays["ids"], pad_mask=mask)
    loss = model.loss(case.arrays["ids"], case.arrays["targets"], pad_mask=mask)
    loss.backward()

    valid = case.arrays["valid"]
    assert 0 < valid.sum() < valid.size
    np.testing.assert_allclose(logits.value[valid], case.arrays["logits"][valid], **case.tolerance)
    case.assert_close(loss.item(), "loss")
    assert_gradients(model, case, reference.gpt_arrays(case.arrays, "grad."))


def test_five_adamw_steps_agree_with_reference(reference, reference_model):
    case = reference.load("minigpt_train")
    model, settings = reference_model, case.params
    optimizer = AdamW(
        decay_groups(model, settings["weight_decay"]),
        lr=0.0,
        betas=tuple(settings["betas"]),
        eps=settings["eps"],
    )
    losses, norms = [], []
    for batch, rate in zip(case.arrays["batches"], case.arrays["lr"], strict=True):
        optimizer.lr = float(rate)
        optimizer.zero_grad()
        loss = model.loss(batch[:, :-1], batch[:, 1:])
        loss.backward()
        norms.append(clip_grad_norm(model.parameters(), settings["max_norm"]))
        losses.append(loss.item())
        optimizer.step()

    case.assert_close(losses, "losses")
    case.assert_close(norms, "grad_norms")
    final = reference.gpt_arrays(case.arrays, "final.")
    for name, parameter in model.named_parameters():
        np.testing.assert_allclose(parameter.value, final[name], **case.tolerance, err_msg=name)


# Size and structure.


def closed_formula(c):
    a, p = c.attention_bias, c.position == "learned"
    d, f = c.d_model, c.d_ff
    per_layer = 4 * d * d + 4 * a * d + 2 * d * f + f + d + 4 * d
    return c.vocab_size * d + p * c.context_len * d + c.n_layers * per_layer + 2 * d


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, 103_680),
        ({"context_len": 1009}, 103_680),
        ({"position": "learned"}, 103_680 + 32 * 64),
        ({"attention_bias": True}, 103_680 + 2 * 4 * 64),
        ({**TINY, "position": "learned", "attention_bias": True, "n_layers": 3, "d_model": 13, "n_heads": 1}, 4_259),
    ],
)
def test_parameter_count_follows_the_closed_formula(changes, expected):
    config = MiniGPTConfig(**changes)
    counted = sum(p.size for p in MiniGPT(config).parameters())
    assert counted == closed_formula(config) == expected


def test_names_of_parameters_are_attribute_paths():
    names = [name for name, _ in tiny(n_layers=1, position="learned").named_parameters()]
    assert names == [
        "embedding.E",
        "position_embedding.E",
        *(f"blocks.0.{n}" for n in ("ln1.gamma", "ln1.beta", "attn.W_q", "attn.W_k", "attn.W_v", "attn.W_o")),
        *(f"blocks.0.{n}" for n in ("ln2.gamma", "ln2.beta", "ffn.W1", "ffn.b1", "ffn.W2", "ffn.b2")),
        "ln_final.gamma",
        "ln_final.beta",
    ]
    with pytest.raises(AttributeError, match="position_embedding"):
        tiny().position_embedding  # noqa: B018


@pytest.mark.parametrize("position", ["rope", "learned"])
def test_modules_and_output_shapes_are_those_of_the_blueprint(rng, position):
    model = tiny(position=position, dropout=0.1)
    shapes = {}
    for name, module in model.named_modules():
        module.register_forward_hook(
            lambda module, args, kwargs, output, name=name: shapes.setdefault(name, []).append(output.shape)
        )
    tokens = rng.integers(0, 11, size=(2, 5))
    model.loss(tokens, tokens)
    stream = [(2, 5, 12)]
    expected = {"": [(2, 5, 11)], "embedding": stream, "dropout": stream, "ln_final": stream}
    if position == "learned":
        expected["position_embedding"] = [(5, 12)]
    for i in range(2):
        for part in ("", ".ln1", ".attn", ".attn.dropout", ".ln2", ".ffn", ".dropout"):
            expected[f"blocks.{i}{part}"] = stream
        expected[f"blocks.{i}.ffn.act"] = [(2, 5, 20)]
    assert shapes == expected


def test_head_is_the_embedding_transposed(rng):
    model = tiny()
    final = []
    model.ln_final.register_forward_hook(lambda module, args, kwargs, output: final.append(output.value))
    logits = model(rng.integers(0, 11, size=5)).value
    np.testing.assert_allclose(logits, final[0] @ model.embedding.E.value.T, rtol=1e-13, atol=1e-15)


def test_single_sequence_equals_batch_of_one(rng):
    model = tiny()
    tokens = rng.integers(0, 11, size=5)
    np.testing.assert_allclose(model(tokens).value, model(tokens[None]).value[0], rtol=1e-11, atol=1e-13)


def test_lists_are_tokens():
    model = tiny()
    assert np.array_equal(model([[3, 1, 4]]).value, model(np.array([[3, 1, 4]])).value)


# Gradients.


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"position": "learned"},
        {"causal": False},
        {"n_layers": 1, "d_model": 5, "n_heads": 1, "position": "learned"},
    ],
    ids=str,
)
def test_gradients_agree_with_differences(rng, check_directions, changes):
    model = tiny(init_gain=3.0, **changes)
    tokens = rng.integers(0, 11, size=(2, 7))
    targets = rng.integers(0, 11, size=(2, 7))
    targets[0, 3] = -100
    check_directions(lambda: model.loss(tokens, targets), model.parameters())


# The loss.


def test_loss_at_initialisation_is_near_that_of_guessing():
    model = MiniGPT(MiniGPTConfig(), rng=np.random.default_rng(0))
    tokens = np.random.default_rng(1).integers(0, 64, size=(16, 33))
    assert model.loss(tokens[:, :-1], tokens[:, 1:]).item() == pytest.approx(math.log(64), abs=0.05)


def test_reductions_of_the_loss(rng):
    model = tiny()
    tokens, targets = rng.integers(0, 11, size=(2, 3, 5))
    targets[1, 2:] = -100
    each = model.loss(tokens, targets, reduction="none").value
    assert each.shape == (3, 5)
    assert not each[1, 2:].any()
    assert each.astype(bool).sum() == 12
    assert model.loss(tokens, targets, reduction="sum").item() == pytest.approx(each.sum(), rel=1e-12)
    assert model.loss(tokens, targets).item() == pytest.approx(each.sum() / 12, rel=1e-12)
    other = np.where(targets == -100, 7, targets)
    assert model.loss(tokens, np.where(other == 7, 7, other), ignore_index=7, reduction="none").value[1, 2:].sum() == 0


def test_batch_without_a_counted_target_has_loss_and_gradients_zero(rng):
    model = tiny()
    loss = model.loss(rng.integers(0, 11, size=(2, 5)), np.full((2, 5), -100))
    loss.backward()
    assert loss.item() == 0.0
    assert not any(p.grad.any() for p in model.parameters() if p.grad is not None)


def test_loss_passes_mask_and_positions_through_the_root(rng):
    model = tiny()
    seen = []
    model.register_forward_hook(lambda module, args, kwargs, output: seen.append(kwargs))
    tokens = rng.integers(0, 11, size=(2, 5))
    mask = np.ones((2, 5), bool)
    model.loss(tokens, tokens, pad_mask=mask, position_ids=np.arange(5))
    assert seen[0]["pad_mask"] is mask
    assert seen[0]["position_ids"].tolist() == [0, 1, 2, 3, 4]


# Padding and positions.


@pytest.mark.parametrize("position", ["rope", "learned"])
def test_padding_on_the_left_with_position_ids_equals_the_unpadded_sequence(rng, position):
    model = tiny(position=position, init_gain=3.0)
    short = rng.integers(0, 11, size=4)
    padded = np.concatenate([[0, 0, 0], short])
    mask = np.array([False] * 3 + [True] * 4)
    positions = np.array([0, 0, 0, 0, 1, 2, 3])
    logits = model(padded[None], pad_mask=mask[None], position_ids=positions[None]).value[0]
    np.testing.assert_allclose(logits[3:], model(short).value, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("position", ["rope", "learned"])
def test_padding_on_the_right_changes_nothing_before_it(rng, position):
    model = tiny(position=position, init_gain=3.0)
    short = rng.integers(0, 11, size=4)
    batch = np.stack([np.concatenate([short, [0, 0, 0]]), rng.integers(0, 11, size=7)])
    mask = np.array([[True] * 4 + [False] * 3, [True] * 7])
    logits = model(batch, pad_mask=mask).value
    np.testing.assert_allclose(logits[0, :4], model(short).value, rtol=1e-10, atol=1e-12)


def test_learned_positions_come_from_position_ids(rng):
    model = tiny(position="learned")
    tokens = rng.integers(0, 11, size=5)
    assert np.array_equal(model(tokens).value, model(tokens, position_ids=np.arange(5)).value)
    moved = model(tokens, position_ids=np.array([6, 5, 4, 3, 2])).value
    assert np.abs(moved - model(tokens).value).max() > 1e-3


def test_impossible_position_ids_are_refused(rng):
    tokens = rng.integers(0, 11, size=(2, 5))
    for position in ("rope", "learned"):
        model = tiny(position=position)
        with pytest.raises(TypeError, match="position_ids must be integers; got dtype float64"):
            model(tokens, position_ids=np.arange(5.0))
        with pytest.raises(ValueError, match=r"position_ids .* got shape \(1,\) for tokens \(2, 5\)"):
            model(tokens, position_ids=np.array([0]))
    with pytest.raises(IndexError, match="got 7 at position"):
        tiny(position="learned")(tokens, position_ids=np.arange(3, 8))


# dtype.


def test_float32_stays_float32_through_training(rng):
    model = tiny(dtype="float32", dropout=0.1, attention_bias=True, position="learned")
    found = []
    for module in model.modules():
        module.register_forward_hook(lambda module, args, kwargs, output: found.append(output.dtype))
    optimizer = AdamW(decay_groups(model, 0.1), lr=0.0)
    schedule = WarmupCosine(1e-2, 1e-3, 3, 10)
    for step in range(10):
        optimizer.lr = schedule(step)
        optimizer.zero_grad()
        tokens = rng.integers(0, 11, size=(3, 7))
        model.loss(tokens, tokens, pad_mask=rng.random((3, 7)) < 0.9).backward()
        clip_grad_norm(model.parameters(), 0.5)
        optimizer.step()
        for parameter in model.parameters():
            assert parameter.grad is not None
            found += [parameter.dtype, parameter.grad.dtype]
    found += [v.dtype for v in arrays_in(optimizer.state_dict()) if v.dtype.kind == "f"]
    assert len(found) > 10 * 2 * 20
    assert set(found) == {np.dtype(np.float32)}


def arrays_in(state):
    if isinstance(state, np.ndarray):
        yield state
    elif isinstance(state, dict):
        for value in state.values():
            yield from arrays_in(value)
    elif isinstance(state, (list, tuple)):
        for value in state:
            yield from arrays_in(value)


@pytest.mark.parametrize("position", ["rope", "learned"])
def test_float32_agrees_with_float64_to_its_precision(rng, position):
    wide, narrow = tiny(position=position), tiny(position=position, dtype="float32")
    tokens = rng.integers(0, 11, size=(2, 7))
    np.testing.assert_allclose(narrow(tokens).value, wide(tokens).value, rtol=1e-3, atol=1e-6)


def test_converted_copy_computes_and_describes_itself_in_the_other_dtype(rng):
    model = tiny()
    tokens = rng.integers(0, 11, size=5)
    model(tokens)  # fills the rotary tables in float64
    narrow = model.astype("float32")
    assert narrow.config.dtype == "float32"
    assert model.config.dtype == "float64"
    assert narrow(tokens).dtype == np.float32
    assert model(tokens).dtype == np.float64
    with pytest.raises(TypeError, match="dtype must be float64 or float32; got float16"):
        model.astype(np.float16)


# Seeds and initial values.


def test_equal_seeds_give_equal_models():
    for (name, a), (_, b), (_, c) in zip(
        tiny(3).named_parameters(), tiny(3).named_parameters(), tiny(4).named_parameters(), strict=True
    ):
        assert np.array_equal(a.value, b.value), name
        if a.ndim == 2:
            assert not np.array_equal(a.value, c.value), name


def test_unseeded_models_differ():
    config = MiniGPTConfig(**TINY)
    assert not np.array_equal(MiniGPT(config).embedding.E.value, MiniGPT(config).embedding.E.value)


def test_dropout_does_not_change_the_drawn_weights():
    for (name, a), (_, b) in zip(tiny().named_parameters(), tiny(dropout=0.3).named_parameters(), strict=True):
        assert np.array_equal(a.value, b.value), name


def test_initial_values():
    model = MiniGPT(MiniGPTConfig(d_model=96, vocab_size=101, position="learned"), rng=np.random.default_rng(0))
    assert model.embedding.E.value.std() == pytest.approx(0.02, rel=0.05)
    assert model.position_embedding.E.value.std() == pytest.approx(0.02, rel=0.05)
    for name, parameter in model.named_parameters():
        if name.endswith("gamma"):
            assert (parameter.value == 1).all()
        elif parameter.ndim == 1:
            assert not parameter.value.any(), name
        elif not name.endswith("E"):
            bound = math.sqrt(6 / sum(parameter.shape))
            assert 0.98 * bound < np.abs(parameter.value).max() <= bound, name


@pytest.mark.parametrize("gain", [0.0, 0.25, 30.0])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_init_gain_multiplies_every_drawn_weight_and_nothing_else(gain, dtype):
    plain, scaled = tiny(position="learned", dtype=dtype), tiny(position="learned", dtype=dtype, init_gain=gain)
    for (name, a), (_, b) in zip(plain.named_parameters(), scaled.named_parameters(), strict=True):
        assert b.dtype == dtype
        np.testing.assert_allclose(b.value, a.value * (gain if a.ndim == 2 else 1), rtol=1e-6, err_msg=name)


def test_ln_eps_reaches_every_layer_norm():
    model = tiny(ln_eps=0.25)
    assert [m.eps for _, m in model.named_modules() if hasattr(m, "eps")] == [0.25] * 5


# Dropout.


def test_dropout_acts_in_training_and_not_in_evaluation(rng):
    plain, dropping = tiny(), tiny(dropout=0.3)
    tokens = rng.integers(0, 11, size=(2, 7))
    first, second = dropping(tokens).value, dropping(tokens).value
    assert np.abs(first - second).max() > 1e-4
    assert np.array_equal(dropping.eval()(tokens).value, plain(tokens).value)
    assert np.array_equal(tiny(dropout=0.3)(tokens).value, first)


def test_dropout_generators_are_independent(rng):
    model = tiny(dropout=0.3)
    states = [str(m.rng.bit_generator.state) for m in model.modules() if hasattr(m, "rng")]
    assert len(states) == 5
    assert len(set(states)) == 5


# Behaviour as a whole.


@pytest.mark.parametrize("position", ["rope", "learned"])
def test_one_batch_is_learned_by_heart(position):
    model = tiny(position=position, dtype="float32")
    tokens = np.random.default_rng(2).integers(0, 11, size=(3, 8))
    optimizer = AdamW(model.parameters(), lr=1e-2, weight_decay=0.0)
    for _ in range(200):
        optimizer.zero_grad()
        loss = model.loss(tokens[:, :-1], tokens[:, 1:])
        loss.backward()
        optimizer.step()
    # The first token is a coin toss between the three lines at most; all else is determined by what precedes it.
    assert loss.item() < 0.25


def test_causal_order_matters_and_without_it_the_future_is_seen(rng):
    tokens = rng.integers(0, 11, size=7)
    later = tokens.copy()
    later[-1] = (later[-1] + 1) % 11
    for causal in (True, False):
        model = tiny(causal=causal)
        assert np.array_equal(model(tokens).value[:-1], model(later).value[:-1]) is causal


def test_copy_is_independent_and_keeps_the_tie(rng):
    model = tiny()
    twin = copy.deepcopy(model)
    tokens = rng.integers(0, 11, size=5)
    before = model(tokens).value
    twin.embedding.E.value[...] += 1.0
    assert np.array_equal(model(tokens).value, before)
    assert not np.array_equal(twin(tokens).value, before)
    assert len(list(twin.parameters())) == len(list(model.parameters()))
    twin.loss(tokens, tokens).backward()
    assert model.embedding.E.grad is None
    assert twin.embedding.E.grad is not None


def test_without_gradients_nothing_is_recorded(rng):
    with no_grad():
        assert not tiny()(rng.integers(0, 11, size=5)).requires_grad


# Refusals.


@pytest.mark.parametrize("position", ["rope", "learned"])
def test_sequence_longer_than_the_context_is_refused_with_both_lengths(position):
    model = tiny(position=position)
    assert model(np.zeros(7, dtype=int)).shape == (7, 11)
    with pytest.raises(ValueError, match="must fit context_len=7; got 8 tokens"):
        model(np.zeros((2, 8), dtype=int))


@pytest.mark.parametrize("shape", [(), (2, 3, 5)])
def test_misshapen_tokens_are_refused(shape):
    with pytest.raises(ValueError, match=r"tokens must be \(T,\) or \(B, T\); got shape"):
        tiny()(np.zeros(shape, dtype=int))


def test_impossible_tokens_are_refused():
    with pytest.raises(IndexError, match=r"got 11 at position \(1, 0\)"):
        tiny()(np.array([[0, 1], [11, 2]]))
    with pytest.raises(TypeError, match="float64"):
        tiny()(np.zeros(5))


def test_impossible_targets_are_refused(rng):
    tokens = rng.integers(0, 11, size=(2, 5))
    with pytest.raises(ValueError, match=r"\(2, 5\).*\(2, 4\)"):
        tiny().loss(tokens, tokens[:, :4])
    with pytest.raises(IndexError, match="got 11 at position"):
        tiny().loss(tokens, np.full((2, 5), 11))
    with pytest.raises(ValueError, match="reduction"):
        tiny().loss(tokens, tokens, reduction="max")


RAGGED = [[1, 2], [3]]


@pytest.mark.parametrize(
    ("name", "run"),
    [
        ("MiniGPT: the rows of tokens", lambda model: model(RAGGED)),
        ("MiniGPT: the rows of tokens", lambda model: model.loss(RAGGED, RAGGED)),
        ("MiniGPT: the rows of targets", lambda model: model.loss([[1, 2], [3, 4]], RAGGED)),
        ("MiniGPT: the rows of pad_mask", lambda model: model([[1, 2], [3, 4]], pad_mask=[[True, True], [True]])),
        ("MiniGPT: the rows of position_ids", lambda model: model([[1, 2], [3, 4]], position_ids=RAGGED)),
        ("generate: the rows of the prompt", lambda model: model.generate(RAGGED, 1)),
    ],
)
@pytest.mark.parametrize("position", ["rope", "learned"])
def test_rows_of_different_length_are_refused(name, run, position):
    with pytest.raises(
        ValueError, match=f"^{name} must be equally long; got one of length 2 and one of length 1. Pad the shorter"
    ):
        run(tiny(position=position))


def test_ids_beyond_64_bits_are_out_of_range():
    for run in (tiny(), lambda ids: tiny().generate(ids, 1)):
        with pytest.raises(IndexError, match=rf"must be in \[0, 11\); got {2**70} at position \(1,\)"):
            run([1, 2**70])


def test_empty_lists_are_no_tokens():
    assert tiny()([]).shape == (0, 11)
    assert tiny().loss([[], []], [[], []]).item() == 0.0


@pytest.mark.parametrize(
    ("owner", "make"),
    [
        ("MiniGPT", lambda rng: MiniGPT(MiniGPTConfig(), rng=rng)),
        ("TransformerBlock", lambda rng: TransformerBlock(12, 3, 20, rng=rng)),
        ("TransformerBlock", lambda rng: TransformerBlock(12, 3, 20, dropout=0.1, rng=rng)),
        ("MultiHeadAttention", lambda rng: MultiHeadAttention(12, 3, rng=rng)),
        ("FFN", lambda rng: FFN(12, 20, rng=rng)),
        ("generate", lambda rng: tiny().generate([1], 1, rng=rng)),
        ("generate", lambda rng: tiny().generate([1], 0, temperature=0, rng=rng)),
        ("load_gpt2", lambda rng: load_gpt2("anywhere", rng=rng)),
    ],
)
def test_what_is_no_generator_is_refused(owner, make):
    message = rf"^{owner}: rng must be a numpy\.random\.Generator; got int 0\. Pass np\.random\.default_rng\(0\)\.$"
    with pytest.raises(TypeError, match=message):
        make(0)


@pytest.mark.parametrize(
    ("owner", "layer"),
    [
        ("LayerNorm", LayerNorm(4)),
        ("FFN", FFN(4, 8)),
        ("MultiHeadAttention", MultiHeadAttention(4, 2)),
        ("LayerNorm", TransformerBlock(4, 2, 8)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_enters_a_layer_is_real_numbers(owner, layer):
    whole = np.array([[1, 2, 3, 4], [4, 3, 2, 1]])
    assert np.array_equal(layer(whole).value, layer(whole.astype(np.float64)).value)
    assert layer(whole.astype(np.float16)).shape == (2, 4)
    for x, came in (
        ([[1.0, 2.0, 3.0, 4.0]], "list"),
        (None, "NoneType"),
        (whole.astype(complex), "dtype complex128"),
        (whole.astype(object), "dtype object"),
        (whole > 1, "dtype bool"),
        (whole.astype(str), "dtype <U"),
    ):
        with pytest.raises(TypeError, match=f"^{owner}: x must be a Tensor or an array of real numbers; got {came}"):
            layer(x)


def test_what_is_no_configuration_is_refused():
    for config in (None, {}, MiniGPTConfig):
        with pytest.raises(TypeError, match=f"^MiniGPT: config must be a MiniGPTConfig; got {type(config).__name__}"):
            MiniGPT(config)


@pytest.mark.parametrize("name", ["causal", "bias", "rope"])
def test_switches_that_are_no_bools_are_refused(name):
    with pytest.raises(TypeError, match=f"^MultiHeadAttention: {name} must be true or false; got 'no'"):
        MultiHeadAttention(4, 2, **{name: "no"})


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("LayerNorm: eps", lambda value: LayerNorm(4, value)),
        ("MultiHeadAttention: dropout", lambda value: MultiHeadAttention(4, 2, dropout=value)),
        ("TransformerBlock: dropout", lambda value: TransformerBlock(4, 2, 8, dropout=value)),
        ("MiniGPTConfig: dropout", lambda value: MiniGPTConfig(dropout=value)),
    ],
)
@pytest.mark.parametrize("value", ["0.1", None, True, 1j, np.ones(2)], ids=repr)
def test_settings_that_are_no_numbers_are_refused(name, make, value):
    with pytest.raises(TypeError, match=f"^{name} must be a number; got "):
        make(value)


def test_an_integer_that_no_float_holds_is_refused():
    with pytest.raises(ValueError, match="MiniGPTConfig: ln_eps must fit a float"):
        MiniGPTConfig(ln_eps=10**400)


def test_impossible_masks_are_refused(rng):
    tokens = rng.integers(0, 11, size=(2, 5))
    with pytest.raises(TypeError, match="pad_mask must be bool"):
        tiny()(tokens, pad_mask=np.ones((2, 5), dtype=int))
    with pytest.raises(ValueError, match=r"pad_mask .* got shape \(5,\) for tokens \(2, 5\)"):
        tiny()(tokens, pad_mask=np.ones(5, dtype=bool))


def test_tensor_tokens_are_tokens(rng):
    tokens = rng.integers(0, 11, size=5)
    assert np.array_equal(tiny()(Tensor(tokens)).value, tiny()(tokens).value)


@pytest.mark.parametrize("shape", [(0,), (2, 0), (0, 5)])
def test_empty_batches_and_sequences_pass(shape):
    model = tiny()
    logits = model(np.zeros(shape, dtype=int))
    assert logits.shape == (*shape, 11)
    logits.sum().backward()
    assert all(p.grad is not None and not p.grad.any() for p in model.parameters())
