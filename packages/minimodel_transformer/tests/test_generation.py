"""Generation: equal to a loop written by hand, below and beyond the context; seeds, batches, flags, refusals."""

import numpy as np
import pytest
from autograd_core import Tensor, no_grad
from minimodel.transformer import MiniGPT, MiniGPTConfig
from minimodel.transformer.sampling import Sampler

CONTEXT = 7


def model_of(**changes):
    sizes = {"d_model": 12, "n_heads": 3, "n_layers": 2, "d_ff": 20, "vocab_size": 11, "context_len": CONTEXT}
    return MiniGPT(MiniGPTConfig(**{**sizes, "init_gain": 4.0, **changes}), rng=np.random.default_rng(0))


@pytest.mark.parametrize("position", ["rope", "learned"])
@pytest.mark.parametrize("prompt_length", [1, 3, CONTEXT, CONTEXT + 4])
def test_greedy_equals_a_hand_written_loop(rng, position, prompt_length):
    model = model_of(position=position)
    prompt = rng.integers(0, 11, size=prompt_length)
    ids = list(prompt)
    for _ in range(13):
        ids.append(int(model(np.array(ids[-CONTEXT:])).value[-1].argmax()))
    found = model.generate(prompt, 13, temperature=0)
    assert found.tolist() == ids
    assert found.dtype == np.int64
    assert len(set(ids)) > 2


def test_sampling_equals_a_hand_written_loop(rng):
    model = model_of()
    prompt = rng.integers(0, 11, size=3)
    settings = {"temperature": 0.7, "top_k": 5, "top_p": 0.9}
    by_hand, ids = np.random.default_rng(5), list(prompt)
    for _ in range(13):
        ids.append(int(Sampler(**settings).draw(model(np.array(ids[-CONTEXT:])).value[-1], by_hand)))
    assert model.generate(prompt, 13, rng=np.random.default_rng(5), **settings).tolist() == ids


def test_equal_seeds_give_equal_text_and_others_do_not(rng):
    model = model_of(init_gain=1.0)
    prompt = rng.integers(0, 11, size=3)
    texts = [model.generate(prompt, 17, rng=np.random.default_rng(seed)).tolist() for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]
    assert model.generate(prompt, 17).tolist() != model.generate(prompt, 17).tolist()


def test_batch_greedy_equals_each_row_alone(rng):
    model = model_of()
    prompts = rng.integers(0, 11, size=(5, 3))
    together = model.generate(prompts, 11, temperature=0)
    assert together.shape == (5, 14)
    for prompt, row in zip(prompts, together, strict=True):
        assert model.generate(prompt, 11, temperature=0).tolist() == row.tolist()


def test_rows_of_a_batch_draw_their_own_numbers(rng):
    model = model_of(init_gain=1.0)
    rows = model.generate(np.tile(rng.integers(0, 11, size=3), (5, 1)), 17, rng=rng)
    assert len({tuple(row) for row in rows.tolist()}) == 5


def test_no_new_tokens_returns_the_prompt(rng):
    prompt = rng.integers(0, 11, size=(2, 3))
    found = model_of().generate(prompt, 0)
    assert np.array_equal(found, prompt)
    assert not np.shares_memory(found, prompt)


def test_lists_and_integer_tensors_are_prompts():
    model = model_of()
    expected = model.generate(np.array([3, 1]), 4, temperature=0).tolist()
    for prompt in ([3, 1], (3, 1), Tensor(np.array([3, 1]))):
        assert model.generate(prompt, 4, temperature=0).tolist() == expected


def test_float32_model_generates(rng):
    assert model_of(dtype="float32").generate(rng.integers(0, 11, size=3), 11, temperature=0).shape == (14,)


def test_full_attention_model_generates(rng):
    model = model_of(causal=False)
    prompt = rng.integers(0, 11, size=3)
    ids = list(prompt)
    for _ in range(9):
        ids.append(int(model(np.array(ids[-CONTEXT:])).value[-1].argmax()))
    assert model.generate(prompt, 9, temperature=0).tolist() == ids


@pytest.mark.parametrize("fails", [False, True])
def test_generation_leaves_the_model_as_it_was(rng, fails):
    model = model_of(dropout=0.5)
    model.eval()
    model.blocks[1].training = True  # a mixture, which must come back as it is
    model.loss(rng.integers(0, 11, size=(2, 5)), rng.integers(0, 11, size=(2, 5))).backward()
    flags = [m.training for m in model.modules()]
    gradients = [None if p.grad is None else p.grad.copy() for p in model.parameters()]
    if fails:
        model.embedding.E.value[...] = np.nan
        with pytest.raises(ValueError, match="logits must be finite"):
            model.generate([1, 2], 5)
    else:
        model.generate([1, 2], 5)
    assert [m.training for m in model.modules()] == flags
    assert True in flags
    assert False in flags
    for parameter, gradient in zip(model.parameters(), gradients, strict=True):
        assert np.array_equal(parameter.grad, gradient)


def test_dropout_is_off_and_its_generators_do_not_move(rng):
    model = model_of(dropout=0.5)
    plain = model_of()
    states = [m.rng.bit_generator.state for m in model.modules() if hasattr(m, "rng")]
    prompt = rng.integers(0, 11, size=3)
    assert model.generate(prompt, 11, temperature=0).tolist() == plain.generate(prompt, 11, temperature=0).tolist()
    assert [m.rng.bit_generator.state for m in model.modules() if hasattr(m, "rng")] == states
    assert all(m.training for m in model.modules())


def test_a_context_that_no_memory_holds_costs_what_is_used_of_it():
    short, endless = (model_of(context_len=length).generate([3, 1, 4], 5, temperature=0) for length in (9, 2**50))
    assert endless.tolist() == short.tolist()


def test_no_graph_is_recorded(rng):
    model = model_of()
    recorded = []
    model.register_forward_hook(lambda module, args, kwargs, output: recorded.append(output.requires_grad))
    model.generate([1], 5)
    assert recorded == [False] * 5


def test_works_inside_no_grad():
    with no_grad():
        assert model_of().generate([1], 5).shape == (6,)


@pytest.mark.parametrize("prompt", [[], [[]], np.zeros((2, 0), int), np.zeros((0, 3), int)])
def test_empty_prompt_is_refused(prompt):
    with pytest.raises(ValueError, match=r"prompt must be .* with at least one token; got shape"):
        model_of().generate(prompt, 5)


@pytest.mark.parametrize("prompt", [3, np.zeros((2, 2, 2), int)])
def test_misshapen_prompt_is_refused(prompt):
    with pytest.raises(ValueError, match=r"prompt must be \(T,\) or \(B, T\)"):
        model_of().generate(prompt, 5)


@pytest.mark.parametrize("new_tokens", [0, 3])
def test_prompt_ids_out_of_range_are_refused_also_outside_the_window(new_tokens):
    prompt = [11] + [0] * CONTEXT
    with pytest.raises(IndexError, match=r"got 11 at position \(0,\)"):
        model_of().generate(prompt, new_tokens)


def test_prompt_that_is_not_integers_is_refused():
    with pytest.raises(TypeError, match="float64"):
        model_of().generate([1.0, 2.0], 3)


def test_impossible_number_of_new_tokens_is_refused():
    with pytest.raises(ValueError, match="max_new_tokens must not be negative; got -1"):
        model_of().generate([1], -1)
    for value in (2.0, True, "3"):
        with pytest.raises(TypeError, match=f"max_new_tokens must be an integer; got {value!r}"):
            model_of().generate([1], value)


@pytest.mark.parametrize("new_tokens", [10**15, 2**70])
def test_more_new_tokens_than_memory_are_refused(new_tokens):
    with pytest.raises(ValueError, match=f"must fit in memory; got max_new_tokens={new_tokens}"):
        model_of().generate([1], new_tokens)


@pytest.mark.parametrize("setting", [{"temperature": -1.0}, {"top_k": 0}, {"top_p": 0.0}])
def test_impossible_settings_are_refused_before_anything_runs(setting):
    model = model_of()
    calls = []
    model.register_forward_hook(lambda module, args, kwargs, output: calls.append(1))
    with pytest.raises(ValueError, match=next(iter(setting))):
        model.generate([1], 0, **setting)
    assert calls == []
