"""GPT-2 folders: the numbers of others, in every spelling; round trips; damage and other models refused by name."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from autograd_core import Dropout, Parameter, no_grad, optim
from minimodel.transformer import LayerNorm, MiniGPT, MiniGPTConfig, load_gpt2, save_gpt2

DATA = Path(__file__).parent / "data" / "gpt2"

# Weights, and the logits that belong to them.
SPELLINGS = {
    "tiny": ("tiny/model.safetensors", "tiny/reference.npz"),
    "tiny-hubstyle": ("tiny/model.hubstyle.safetensors", "tiny/reference.npz"),
    "tiny-lm-head": ("tiny/model.with_lm_head.safetensors", "tiny/reference.npz"),
    "tiny-f16": ("tiny/model.f16.safetensors", "tiny/reference.f16.npz"),
    "tiny-bf16": ("tiny/model.bf16.safetensors", "tiny/reference.bf16.npz"),
    "medium": ("medium/model.safetensors", "medium/reference.npz"),
}

# float64 runs on the same weights; float32 within what the project promises.
TOLERANCE = {"float64": {"rtol": 1e-8, "atol": 1e-9}, "float32": {"rtol": 0, "atol": 1e-4}}

every_spelling = pytest.mark.parametrize("spelling", SPELLINGS)
both_dtypes = pytest.mark.parametrize("dtype", TOLERANCE)


@pytest.fixture
def folder_of(tmp_path):
    """A folder as users have it, with the weights of one spelling."""

    def make(spelling="tiny"):
        weights, _ = SPELLINGS[spelling]
        folder = tmp_path / spelling
        folder.mkdir()
        shutil.copy(DATA / weights, folder / "model.safetensors")
        shutil.copy((DATA / weights).with_name("config.json"), folder / "config.json")
        return folder

    return make


def reference_of(spelling):
    with np.load(DATA / SPELLINGS[spelling][1]) as file:
        return dict(file)


def rewrite(folder, change):
    """Apply `change` to the dict of tensors in the folder's weights."""
    tensors = safetensors.numpy.load_file(folder / "model.safetensors")
    change(tensors)
    safetensors.numpy.save_file(tensors, folder / "model.safetensors")
    return folder


def bytes_of(model):
    return {name: p.value.tobytes() for name, p in model.named_parameters()}


@every_spelling
@both_dtypes
def test_agrees_with_the_reference(folder_of, spelling, dtype):
    model, reference = load_gpt2(folder_of(spelling), dtype=dtype), reference_of(spelling)
    hidden = {}
    names = {model.blocks[0]: "hidden_after_block0", model.blocks[0].ln1: "hidden_first"}
    for module, name in names.items():
        module.register_forward_hook(
            lambda module, args, kwargs, output, name=name: hidden.update({name: (args, output)})
        )
    ids = reference["input_ids"]
    logits = model(ids)
    assert logits.dtype == np.dtype(dtype)
    np.testing.assert_allclose(logits.value, reference["logits_f64"], **TOLERANCE[dtype])
    if "loss" not in reference:
        return
    loss = model.loss(ids[:, :-1], ids[:, 1:]).item()
    np.testing.assert_allclose(loss, reference["loss"], **TOLERANCE[dtype])
    model(ids)
    np.testing.assert_allclose(hidden["hidden_first"][0][0].value, reference["hidden_first"], **TOLERANCE[dtype])
    found = hidden["hidden_after_block0"][1].value
    np.testing.assert_allclose(found, reference["hidden_after_block0"], **TOLERANCE[dtype])
    full = model(reference["full_length_ids"]).value[:, -4:]
    np.testing.assert_allclose(full, reference["full_length_logits_last4"], **TOLERANCE[dtype])


@both_dtypes
@pytest.mark.parametrize("spelling", ["tiny", "tiny-hubstyle", "tiny-lm-head"])
def test_padded_runs_agree_with_the_reference(folder_of, spelling, dtype):
    model, reference = load_gpt2(folder_of(spelling), dtype=dtype), reference_of(spelling)
    for side, positions in (("right", None), ("left", reference["left_pad_position_ids"])):
        mask = reference[f"{side}_pad_mask"] == 1
        assert not mask.all()
        found = model(reference["input_ids"], pad_mask=mask, position_ids=positions).value
        np.testing.assert_allclose(found[mask], reference[f"{side}_pad_logits"][mask], **TOLERANCE[dtype], err_msg=side)


@both_dtypes
@pytest.mark.parametrize("spelling", ["tiny", "tiny-hubstyle", "tiny-lm-head", "medium"])
def test_greedy_tokens_agree_with_the_reference(folder_of, spelling, dtype):
    model, reference = load_gpt2(folder_of(spelling), dtype=dtype), reference_of(spelling)
    assert reference["greedy_margins"].min() > 1e-2
    found = model.generate(reference["prompt"], 20, temperature=0)
    assert found.tolist() == reference["greedy_ids"].tolist()


def held_out_ids():
    characters = json.loads((DATA / "trained" / "meta.json").read_text())["chars"]
    text = (DATA / "trained" / "held_out.txt").read_text(encoding="utf-8")
    return np.array([characters.index(character) for character in text])


def test_trained_model_reproduces_its_held_out_loss():
    meta = json.loads((DATA / "trained" / "meta.json").read_text())
    model, ids = load_gpt2(DATA / "trained"), held_out_ids()
    assert len(ids) == meta["held_out_chars"]
    length = model.config.context_len
    windows = (len(ids) - 1) // length
    with no_grad():
        loss = model.loss(
            ids[: windows * length].reshape(windows, length), ids[1 : windows * length + 1].reshape(windows, length)
        ).item()
    assert loss == pytest.approx(meta["held_out_loss_nats_per_char"], abs=1e-5)
    assert round(loss, 3) == 1.522


def test_trained_model_writes_its_text():
    meta = json.loads((DATA / "trained" / "meta.json").read_text())
    with np.load(DATA / "trained" / "reference.npz") as file:
        reference = dict(file)
    model = load_gpt2(DATA / "trained")
    np.testing.assert_allclose(model(reference["input_ids"]).value, reference["logits_f64"], rtol=0, atol=1e-4)
    found = model.generate(reference["prompt_ids"], 50, temperature=0)
    assert found.tolist() == reference["greedy_ids"].tolist()
    assert "".join(meta["chars"][i] for i in found) == meta["greedy_text"]


def test_configuration_comes_from_the_folder(folder_of):
    model = load_gpt2(folder_of(), dropout=0.25)
    assert model.config == MiniGPTConfig(
        d_model=32,
        n_heads=2,
        n_layers=2,
        d_ff=128,
        vocab_size=128,
        context_len=64,
        position="learned",
        attention_bias=True,
        dropout=0.25,
        ln_eps=1e-5,
        dtype="float32",
    )
    assert sum(p.size for p in model.parameters()) == 31_616
    assert load_gpt2(str(DATA / "medium"), dtype=np.float64).config.dtype == "float64"


def test_widening_loses_nothing(folder_of):
    narrow = {name: folder_of(name) for name in ("tiny-f16", "tiny-bf16")}
    for folder in narrow.values():
        wide, exact = load_gpt2(folder), load_gpt2(folder, dtype="float64")
        for a, b in zip(wide.parameters(), exact.parameters(), strict=True):
            assert a.dtype == np.float32
            assert np.array_equal(a.value, b.value)
    stored = safetensors.numpy.load_file(narrow["tiny-f16"] / "model.safetensors")["transformer.wte.weight"]
    assert np.array_equal(load_gpt2(narrow["tiny-f16"]).embedding.E.value, stored.astype(np.float32))


def test_epsilon_of_the_folder_is_used(folder_of):
    folder = folder_of()
    before = load_gpt2(folder)(np.arange(5)).value
    table = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**table, "layer_norm_epsilon": 0.5}))
    model = load_gpt2(folder)
    assert {block.ln1.eps for block in model.blocks} == {model.ln_final.eps} == {0.5}
    assert not np.allclose(model(np.arange(5)).value, before, atol=1e-2)


@pytest.mark.parametrize("spelling", ["tiny", "tiny-hubstyle", "tiny-bf16"])
def test_training_goes_on_from_the_weights(folder_of, spelling):
    model, ids = load_gpt2(folder_of(spelling)), reference_of(spelling)["input_ids"]
    before = bytes_of(model)
    optimizer = optim.AdamW(optim.decay_groups(model, 0.01), lr=1e-3)
    losses = []
    for _ in range(3):
        loss = model.loss(ids[:, :-1], ids[:, 1:])
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        assert all(p.grad is not None and p.grad.dtype == np.float32 and p.grad.any() for p in model.parameters())
        optimizer.step()
    assert losses[0] > losses[1] > losses[2]
    assert all(p.value.tobytes() != before[name] for name, p in model.named_parameters())


def test_first_step_is_that_of_the_weights_loaded(folder_of):
    model = load_gpt2(folder_of(), dtype="float64")
    ids = reference_of("tiny")["input_ids"]
    model.loss(ids[:, :-1], ids[:, 1:]).backward()
    parameter = model.blocks[1].attn.b_v
    gradient, epsilon = parameter.grad[7], 1e-6
    losses = []
    for sign in (1, -1):
        parameter.value[7] += sign * epsilon
        losses.append(model.loss(ids[:, :-1], ids[:, 1:]).item())
        parameter.value[7] -= sign * epsilon
    assert gradient == pytest.approx((losses[0] - losses[1]) / (2 * epsilon), rel=1e-5)


def test_dropout_is_seeded_by_the_generator_and_off_by_default(folder_of):
    folder, ids = folder_of(), np.arange(5)
    runs = [load_gpt2(folder, dropout=0.5, rng=np.random.default_rng(seed))(ids).value for seed in (1, 1, 2)]
    assert np.array_equal(runs[0], runs[1])
    assert not np.array_equal(runs[0], runs[2])
    assert np.array_equal(load_gpt2(folder)(ids).value, load_gpt2(folder, dropout=0.5).eval()(ids).value)


def test_loading_draws_no_weights(folder_of, rng):
    before = rng.bit_generator.state
    model = load_gpt2(folder_of(), dropout=0.5, rng=rng)
    assert rng.bit_generator.state == before
    # Dropout's generators are those that drawing the weights first would have left.
    drawn = MiniGPT(model.config, rng=np.random.default_rng(20_260_313))
    for ours, theirs in zip(model.modules(), drawn.modules(), strict=True):
        if isinstance(ours, Dropout):
            assert ours.rng.bit_generator.state == theirs.rng.bit_generator.state
            assert type(ours.rng) is np.random.Generator


@both_dtypes
@every_spelling
def test_saved_folder_loads_back_bit_equal(tmp_path, folder_of, spelling, dtype):
    model = load_gpt2(folder_of(spelling), dtype=dtype)
    save_gpt2(model, tmp_path / "new" / "folder")
    again = load_gpt2(tmp_path / "new" / "folder", dtype=dtype)
    assert again.config == model.config
    assert bytes_of(again) == bytes_of(model)
    assert sorted(p.name for p in (tmp_path / "new" / "folder").iterdir()) == ["config.json", "model.safetensors"]


def test_models_of_our_own_make_can_be_saved(tmp_path):
    config = MiniGPTConfig(
        d_model=12, n_heads=3, d_ff=20, vocab_size=11, position="learned", attention_bias=True, ln_eps=1e-3, dropout=0.1
    )
    model = MiniGPT(config, rng=np.random.default_rng(0))
    save_gpt2(model, str(tmp_path))
    again = load_gpt2(tmp_path, dtype="float64", dropout=0.1)
    assert again.config == config
    assert bytes_of(again) == bytes_of(model)


def test_saved_folder_has_the_layout_of_transformers(tmp_path, folder_of):
    original = folder_of()
    save_gpt2(load_gpt2(original), tmp_path / "saved")
    ours, theirs = (
        safetensors.numpy.load_file(folder / "model.safetensors") for folder in (tmp_path / "saved", original)
    )
    assert ours.keys() == theirs.keys()
    for name, array in theirs.items():
        assert ours[name].tobytes() == array.tobytes()
        assert (ours[name].dtype, ours[name].shape) == (array.dtype, array.shape)
    with safetensors.safe_open(tmp_path / "saved" / "model.safetensors", "numpy") as file:
        assert file.metadata() == {"format": "pt"}
    table, expected = (json.loads((folder / "config.json").read_text()) for folder in (tmp_path / "saved", original))
    # What transformers writes besides: summaries for other tasks, its own version, and here special ids of 0.
    besides = {name for name in expected if name.startswith("summary_")}
    besides |= {"transformers_version", "pad_token_id", "bos_token_id", "eos_token_id"}
    assert {name: table[name] for name in expected.keys() - besides} == {
        name: expected[name] for name in expected.keys() - besides
    }
    assert table["bos_token_id"] is table["eos_token_id"] is None


def test_full_vocabulary_gets_its_end_of_text(tmp_path):
    config = MiniGPTConfig(
        d_model=2, n_heads=1, n_layers=1, d_ff=3, vocab_size=50257, position="learned", attention_bias=True
    )
    save_gpt2(MiniGPT(config), tmp_path)
    table = json.loads((tmp_path / "config.json").read_text())
    assert (table["bos_token_id"], table["eos_token_id"], table["n_inner"]) == (50256, 50256, 3)


def test_saving_replaces_files_whole(tmp_path, folder_of, monkeypatch):
    folder = folder_of()
    (folder / "vocab.json").write_text("{}")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        save_gpt2(load_gpt2(DATA / "medium"), folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    monkeypatch.undo()
    save_gpt2(load_gpt2(DATA / "medium"), folder)
    assert load_gpt2(folder).config.d_model == 64
    assert (folder / "vocab.json").read_text() == "{}"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"position": "rope"}, "GPT-2 has position='learned'; the model has 'rope'"),
        ({"attention_bias": False}, "GPT-2 has attention_bias=True; the model has False"),
        ({"causal": False}, "GPT-2 has causal=True; the model has False"),
    ],
    ids=str,
)
def test_models_that_gpt2_is_not_are_refused(tmp_path, changes, message):
    config = MiniGPTConfig(**{"position": "learned", "attention_bias": True, **changes})
    with pytest.raises(ValueError, match=message):
        save_gpt2(MiniGPT(config), tmp_path / "saved")
    assert not (tmp_path / "saved").exists()


@pytest.mark.parametrize("other", [None, LayerNorm(4)], ids=["None", "LayerNorm"])
def test_what_is_no_model_is_not_saved(tmp_path, other):
    with pytest.raises(TypeError, match=f"^save_gpt2: model must be a MiniGPT; got {type(other).__name__}"):
        save_gpt2(other, tmp_path / "saved")
    assert not (tmp_path / "saved").exists()


def test_a_parameter_of_another_shape_is_not_saved(tmp_path):
    model = MiniGPT(MiniGPTConfig(position="learned", attention_bias=True))
    model.blocks[1].ffn.W2 = Parameter(np.zeros((3, 64)))
    with pytest.raises(
        ValueError, match=r"blocks\.1\.ffn\.W2 must have shape \(256, 64\), as the configuration says; got \(3, 64\)"
    ):
        save_gpt2(model, tmp_path / "saved")
    assert not (tmp_path / "saved").exists()


@pytest.mark.parametrize("folder", [None, 3, b"folder"])
def test_what_is_no_folder_is_refused(folder):
    model = MiniGPT(MiniGPTConfig(position="learned", attention_bias=True))
    for name, use in (("load_gpt2", load_gpt2), ("save_gpt2", lambda folder: save_gpt2(model, folder))):
        with pytest.raises(TypeError, match=f"^{name}: path must be a str or a path; got {type(folder).__name__}"):
            use(folder)


def assert_refused(folder, match):
    with pytest.raises(ValueError, match=match) as error:
        load_gpt2(folder)
    message = str(error.value)
    assert message.startswith("load_gpt2: ")
    assert "\n" not in message
    assert str(folder) in message


@pytest.mark.parametrize("missing", ["config.json", "model.safetensors"])
def test_missing_files_are_named(folder_of, missing):
    folder = folder_of()
    (folder / missing).unlink()
    with pytest.raises(FileNotFoundError, match=f"must hold config.json and model.safetensors; there is no {missing}"):
        load_gpt2(folder)
    with pytest.raises(FileNotFoundError, match=r"there is no config\.json"):
        load_gpt2(folder / "nowhere")


def test_truncated_weights_are_refused(folder_of):
    folder = folder_of()
    whole = (folder / "model.safetensors").read_bytes()
    for length in (0, 1, 7, 8, 9, 1000, len(whole) // 2, len(whole) - 1):
        (folder / "model.safetensors").write_bytes(whole[:length])
        assert_refused(folder, "model.safetensors must be a whole safetensors file")
    (folder / "model.safetensors").write_bytes(whole + b"\0")
    assert_refused(folder, "model.safetensors must be a whole safetensors file")


@pytest.mark.parametrize(
    "name",
    ["wte.weight", "wpe.weight", "h.0.ln_1.bias", "h.1.attn.c_attn.bias", "h.1.mlp.c_proj.weight", "ln_f.weight"],
)
def test_missing_tensors_are_refused(folder_of, name):
    folder = rewrite(folder_of(), lambda tensors: tensors.pop(f"transformer.{name}"))
    assert_refused(
        folder, rf"must hold a GPT-2 of 2 layers and nothing else; missing {name}, unknown none\. Does config.json"
    )


def test_missing_tensors_are_listed_up_to_a_few(folder_of):
    folder = folder_of()
    table = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**table, "n_layer": 10**12}))
    assert_refused(folder, r"missing h\.2\.ln_1\.weight, h\.2\.ln_1\.bias, .* and others, unknown none\.")


@pytest.mark.parametrize(
    "name", ["score.weight", "transformer.h.2.ln_1.weight", "transformer.h.2.attn.bias", "h.0.attn"]
)
def test_unknown_tensors_are_refused(folder_of, name):
    folder = rewrite(folder_of(), lambda tensors: tensors.update({name: np.zeros(3, np.float32)}))
    assert_refused(folder, rf"must hold a GPT-2 of 2 layers and nothing else; missing none, unknown {name}\.")


@pytest.mark.parametrize("name", ["h.\u0661.attn.bias", f"h.{'9' * 5000}.attn.bias", "h.-1.attn.bias"])
def test_what_only_looks_like_a_mask_buffer_is_refused(folder_of, name):
    folder = rewrite(folder_of(), lambda tensors: tensors.update({name: np.zeros(3, np.float32)}))
    assert_refused(folder, rf"must hold a GPT-2 of 2 layers and nothing else; missing none, unknown {name}\.")


def test_names_of_tensors_cannot_break_the_line(folder_of):
    folder = rewrite(folder_of(), lambda tensors: tensors.update({"a\nb\x1b[2J": np.zeros(3, np.float32)}))
    assert_refused(folder, r"missing none, unknown 'a\\nb\\x1b\[2J'\.")


def test_missing_and_unknown_tensors_are_listed_together(folder_of):
    def change(tensors):
        tensors["transformer.norm.weight"] = tensors.pop("transformer.ln_f.weight")

    folder = rewrite(folder_of(), change)
    assert_refused(folder, r"missing ln_f\.weight, unknown transformer\.norm\.weight\.")


def test_a_tensor_in_both_spellings_is_refused(folder_of):
    folder = rewrite(folder_of(), lambda tensors: tensors.update({"ln_f.bias": np.zeros(32, np.float32)}))
    assert_refused(folder, r"must be there once; got both .*ln_f\.bias, .*ln_f\.bias\.")


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("wte.weight", (127, 32)),
        ("h.0.attn.c_attn.weight", (96, 32)),
        ("h.1.ln_2.weight", (1,)),
        ("wpe.weight", (2048,)),
    ],
)
def test_misshapen_tensors_are_refused(folder_of, name, shape):
    folder = rewrite(folder_of(), lambda t: t.update({f"transformer.{name}": np.zeros(shape, np.float32)}))
    shown = str(shape).replace("(", r"\(").replace(")", r"\)")
    assert_refused(folder, rf"transformer\.{name} must have shape .*, as config.json says; got {shown}")


@pytest.mark.parametrize("key", ["vocab_size", "n_positions", "n_inner"])
def test_sizes_that_the_tensors_do_not_have_are_refused_before_memory_is_taken(folder_of, key):
    folder = folder_of()
    table = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**table, key: 10**15}))
    assert_refused(folder, "must have shape .*1000000000000000")


def test_tensors_that_are_not_floating_are_refused(folder_of):
    folder = rewrite(folder_of(), lambda t: t.update({"transformer.ln_f.bias": np.zeros(32, np.int32)}))
    assert_refused(folder, r"transformer\.ln_f\.bias must be F64, F32, F16 or BF16; got I32")


def test_a_head_of_its_own_is_refused(folder_of):
    def change(tensors):
        tensors["lm_head.weight"] = tensors["lm_head.weight"].copy()
        tensors["lm_head.weight"][3, 5] += 1e-3

    folder = rewrite(folder_of("tiny-lm-head"), change)
    assert_refused(folder, r"lm_head\.weight must equal wte\.weight, .* 1 of 4096 numbers differ")


def test_non_finite_weights_load_with_a_warning(folder_of):
    def change(tensors):
        tensors["transformer.wte.weight"] = tensors["transformer.wte.weight"].copy()
        tensors["transformer.wte.weight"][3, 5] = np.nan
        tensors["lm_head.weight"] = tensors["transformer.wte.weight"]

    folder = rewrite(folder_of("tiny-lm-head"), change)
    with pytest.warns(RuntimeWarning, match=r"holds NaN or infinite values in wte\.weight; they are loaded") as record:
        model = load_gpt2(folder)
    assert np.isnan(model.embedding.E.value[3, 5])
    assert record[0].filename == __file__


def test_other_dtypes_are_refused(folder_of):
    with pytest.raises(TypeError, match="dtype must be float64 or float32; got float16"):
        load_gpt2(folder_of(), dtype="float16")
