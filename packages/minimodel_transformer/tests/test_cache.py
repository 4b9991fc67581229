"""The key-value cache: pieces equal the whole, across the end of the context; hooks, isolation, refusals."""

import gc
import weakref

import numpy as np
import pytest
from autograd_core import no_grad
from minimodel.transformer import KeyValueCache, MiniGPT, MiniGPTConfig, MultiHeadAttention, TransformerBlock
from minimodel.transformer.cache import LayerCache
from minimodel.transformer.sampling import Sampler

CONTEXT, VOCABULARY = 23, 11
TOLERANCE = {"float64": 1e-12, "float32": 1e-5}


def model_of(**changes):
    sizes = {"d_model": 12, "n_heads": 3, "n_layers": 2, "d_ff": 20, "vocab_size": VOCABULARY, "context_len": CONTEXT}
    model = MiniGPT(MiniGPTConfig(**{**sizes, "init_gain": 2.0, **changes}), rng=np.random.default_rng(0))
    if model.config.attention_bias:
        drawn = np.random.default_rng(1)
        for block in model.blocks:
            for bias in (block.attn.b_q, block.attn.b_k, block.attn.b_v, block.attn.b_o):
                bias.value = drawn.standard_normal(12).astype(bias.dtype)
    return model


def cache_of(model):
    return KeyValueCache(model.config.n_layers, model.config.context_len)


def in_pieces(model, tokens, lengths, **arguments):
    """Logits of `tokens`, handed over with one cache in pieces of `lengths`."""
    cache, start, logits = cache_of(model), 0, []
    with no_grad():
        for length in lengths:
            logits.append(model(tokens[..., start : start + length], cache=cache, **arguments).value)
            start += length
            assert cache.length == start
    assert start == tokens.shape[-1]
    return np.concatenate(logits, axis=-2)


every_model = pytest.mark.parametrize(
    "model",
    [
        model_of(position=position, attention_bias=bias, dtype=dtype)
        for position in ("rope", "learned")
        for bias in (False, True)
        for dtype in ("float64", "float32")
    ],
    ids=lambda m: f"{m.config.position}-{'bias' if m.config.attention_bias else 'plain'}-{m.config.dtype}",
)


@every_model
@pytest.mark.parametrize("shape", [(CONTEXT,), (1, CONTEXT), (5, CONTEXT)], ids=str)
@pytest.mark.parametrize(
    "lengths", [[1] * CONTEXT, [7] + [1] * (CONTEXT - 7), [1, 2, 3, 5, 12], [CONTEXT], [0, 3, 0, 20]], ids=str
)
def test_pieces_equal_the_whole(rng, model, shape, lengths):
    tokens = rng.integers(0, VOCABULARY, size=shape)
    whole = model(tokens).value
    found = in_pieces(model, tokens, lengths)
    assert found.shape == whole.shape
    assert found.dtype == whole.dtype == np.dtype(model.config.dtype)
    np.testing.assert_allclose(found, whole, rtol=0, atol=TOLERANCE[model.config.dtype])
    assert np.array_equal(found.argmax(axis=-1), whole.argmax(axis=-1))


@every_model
@pytest.mark.parametrize("prompt_shape", [(3,), (5, 3), (2, CONTEXT), (2, CONTEXT + 4)], ids=str)
@pytest.mark.parametrize("settings", [{"temperature": 0.0}, {"temperature": 0.8, "top_k": 7, "top_p": 0.95}], ids=str)
def test_generated_ids_equal_those_of_recomputing_across_the_end_of_the_context(rng, model, prompt_shape, settings):
    ids = rng.integers(0, VOCABULARY, size=prompt_shape)
    found = model.generate(ids, CONTEXT + 7, rng=np.random.default_rng(3), **settings)
    sampler, drawn = Sampler(**settings), np.random.default_rng(3)
    for _ in range(CONTEXT + 7):
        new = sampler.draw(model(ids[..., -CONTEXT:]).value[..., -1, :], drawn)
        ids = np.concatenate([ids, new[..., None]], axis=-1)
    assert np.array_equal(found, ids)


def test_huge_scores_stay_exact_under_a_cache(rng):
    model = model_of()
    for block in model.blocks:
        block.attn.W_q.value *= 1e5
        block.attn.W_k.value *= 1e5
    tokens = rng.integers(0, VOCABULARY, size=CONTEXT)
    # Scores of 1e10 have an error of 1e-6, which decides nothing where one key wins outright.
    np.testing.assert_allclose(in_pieces(model, tokens, [1] * CONTEXT), model(tokens).value, rtol=0, atol=1e-4)


def test_given_positions_are_used_as_without_a_cache(rng):
    for position in ("rope", "learned"):
        model = model_of(position=position)
        tokens = rng.integers(0, VOCABULARY, size=(2, 7))
        positions = np.array([[0, 2, 4, 6, 8, 10, 12], [3, 4, 5, 6, 7, 8, 22]])
        cache, logits = cache_of(model), []
        with no_grad():
            for part in (slice(0, 4), slice(4, 5), slice(5, 7)):
                logits.append(model(tokens[:, part], position_ids=positions[:, part], cache=cache).value)
        whole = model(tokens, position_ids=positions).value
        np.testing.assert_allclose(np.concatenate(logits, axis=1), whole, rtol=0, atol=1e-12)
        assert not np.allclose(whole, model(tokens).value)


def test_generation_runs_one_position_a_token_within_the_context_and_the_window_beyond(rng):
    model = model_of()
    lengths = []
    model.blocks[1].register_forward_hook(lambda module, args, kwargs, output: lengths.append(output.shape[-2]))
    model.generate(rng.integers(0, VOCABULARY, size=(2, 5)), CONTEXT, temperature=0)
    assert lengths == [5] + [1] * (CONTEXT - 5) + [CONTEXT] * 4


def test_every_module_fires_its_hooks_under_a_cache(rng):
    model = model_of(position="learned")
    fired = []
    for name, module in model.named_modules():
        module.register_forward_hook(lambda module, args, kwargs, output, name=name: fired.append(name))
    with no_grad():
        model(rng.integers(0, VOCABULARY, size=3))
    plain = fired.copy()
    fired.clear()
    in_pieces(model, rng.integers(0, VOCABULARY, size=3), [3])
    assert fired == plain
    assert set(fired) == {name for name, _ in model.named_modules()}


def test_two_caches_share_nothing(rng):
    model = model_of()
    first, second = (rng.integers(0, VOCABULARY, size=(2, 7)) for _ in range(2))
    caches, logits = (cache_of(model), cache_of(model)), ([], [])
    with no_grad():
        for t in range(7):
            for tokens, cache, kept in zip((first, second), caches, logits, strict=True):
                kept.append(model(tokens[:, t : t + 1], cache=cache).value)
    for tokens, kept in zip((first, second), logits, strict=True):
        np.testing.assert_allclose(np.concatenate(kept, axis=1), model(tokens).value, rtol=0, atol=1e-12)


def test_generation_keeps_nothing_for_the_next_call(rng):
    model = model_of()
    prompts = rng.integers(0, VOCABULARY, size=(2, 5))
    alone = [model.generate(prompt, 9, temperature=0).tolist() for prompt in prompts]
    again = [model.generate(prompt, 9, temperature=0).tolist() for prompt in prompts]
    assert alone == again
    assert alone[0] != alone[1]
    caches = weakref.WeakSet(item for item in gc.get_objects() if isinstance(item, (KeyValueCache, LayerCache)))
    gc.collect()
    assert not caches


def test_weights_changed_between_two_calls_are_used(rng):
    model = model_of()
    prompt = rng.integers(0, VOCABULARY, size=5)
    model.generate(prompt, 9, temperature=0)
    model.blocks[0].attn.W_v.value = rng.standard_normal((12, 12))
    ids = list(prompt)
    for _ in range(9):
        ids.append(int(model(np.array(ids)).value[-1].argmax()))
    assert model.generate(prompt, 9, temperature=0).tolist() == ids


def test_cached_keys_are_not_touched_by_later_positions(rng):
    cache = LayerCache(7)
    keys, values = rng.standard_normal((2, 5, 3, 4, 2))
    first_keys, first_values = cache.append(keys[..., :3, :], values[..., :3, :])
    cache.append(keys[..., 3:, :], values[..., 3:, :])
    assert np.array_equal(first_keys, keys[..., :3, :])
    assert np.array_equal(first_values, values[..., :3, :])
    assert cache.length == 4


def test_more_positions_than_the_context_are_refused(rng):
    model = model_of()
    cache = cache_of(model)
    with no_grad():
        model(rng.integers(0, VOCABULARY, size=20), cache=cache)
        with pytest.raises(ValueError, match=r"a sequence must fit context_len=23; got 24 tokens"):
            model(rng.integers(0, VOCABULARY, size=4), cache=cache)
        assert cache.length == 20
        model(rng.integers(0, VOCABULARY, size=3), cache=cache)


def test_more_positions_than_the_cache_has_room_for_are_refused(rng):
    model = model_of()
    cache = KeyValueCache(2, 5)
    with no_grad():
        model(rng.integers(0, VOCABULARY, size=3), cache=cache)
        with pytest.raises(ValueError, match=r"cache: 5 positions fit; got 3 after 3\. Begin again"):
            model(rng.integers(0, VOCABULARY, size=3), cache=cache)


def test_another_batch_is_refused(rng):
    model = model_of()
    cache = cache_of(model)
    with no_grad():
        model(rng.integers(0, VOCABULARY, size=(2, 3)), cache=cache)
        with pytest.raises(ValueError, match=r"shape of those before, \(2, 3\) and width 4; got \(5, 3\) and 4"):
            model(rng.integers(0, VOCABULARY, size=(5, 1)), cache=cache)


def test_cache_of_another_depth_is_refused(rng):
    with no_grad(), pytest.raises(ValueError, match="as many layers as the model, 2; got 3"):
        model_of()(rng.integers(0, VOCABULARY, size=3), cache=KeyValueCache(3, CONTEXT))


def test_cache_under_gradients_is_refused(rng):
    with pytest.raises(RuntimeError, match=r"no gradient flows; gradients are on\. Run under autograd_core.no_grad"):
        model_of()(rng.integers(0, VOCABULARY, size=3), cache=cache_of(model_of()))


def test_cache_of_full_attention_is_refused(rng):
    model = model_of(causal=False)
    with no_grad(), pytest.raises(ValueError, match="needs causal attention; this one has causal=False"):
        model(rng.integers(0, VOCABULARY, size=3), cache=cache_of(model))


def test_cache_with_padding_is_refused(rng):
    model = model_of()
    with no_grad(), pytest.raises(ValueError, match="for sequences of equal length; got a pad_mask"):
        model(rng.integers(0, VOCABULARY, size=(2, 3)), pad_mask=np.ones((2, 3), bool), cache=cache_of(model))


@pytest.mark.parametrize("sizes", [(0, 5), (2, 0)])
def test_impossible_sizes_are_refused(sizes):
    with pytest.raises(ValueError, match="must be at least 1; got 0"):
        KeyValueCache(*sizes)


@pytest.mark.parametrize("rope", [False, True])
@pytest.mark.parametrize("layer", [MultiHeadAttention, TransformerBlock])
def test_a_layer_alone_takes_its_own_cache(rng, layer, rope):
    sizes = (12, 3) if layer is MultiHeadAttention else (12, 3, 20)
    module = layer(*sizes, rope=rope, rng=rng)
    x = rng.standard_normal((2, 7, 12))
    cache = LayerCache(7)
    with no_grad():
        pieces = [module(x[:, :3], cache=cache).value, module(x[:, 3:], cache=cache).value]
    np.testing.assert_allclose(np.concatenate(pieces, axis=1), module(x).value, rtol=0, atol=1e-12)


def test_what_is_no_cache_is_refused(rng):
    model, x = model_of(), rng.standard_normal((3, 12))
    with no_grad():
        for cache in (3, [], LayerCache(CONTEXT)):
            with pytest.raises(TypeError, match=f"^MiniGPT: cache must be a KeyValueCache; got {type(cache).__name__}"):
                model([1, 2], cache=cache)
        with pytest.raises(TypeError, match=r"cache must be a LayerCache; got KeyValueCache\..* cache\.layers\[i\]"):
            model.blocks[0](x, cache=cache_of(model))
