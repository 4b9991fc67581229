"""`Module`: which parts it finds and under which names, modes, state dictionaries, copies, and its messages."""

import copy
import pickle
import weakref
from typing import Any

import numpy as np
import pytest
from autograd_core import Dropout, Linear, Module, Parameter, Sequential, Tensor
from autograd_core import functional as F


class Leaf(Module):
    def __init__(self, *shape: int) -> None:
        self.weight = Parameter(np.arange(float(np.prod(shape))).reshape(shape))

    def forward(self, x: Any) -> Tensor:
        return F.add(self.weight, x)


class Tree(Module):
    """Parts in every kind of place, not all of them modules, and no call of super().__init__()."""

    def __init__(self) -> None:
        self.gain = Parameter(np.ones(2))
        self.sizes = (2, 3)
        self.first = Leaf(2)
        self.blocks = [Leaf(3), [Leaf(5)], (Leaf(7),)]
        self.by_name = {"a": Leaf(11), "b": {"c": Parameter(np.ones(13))}, 3: Leaf(17)}
        self.note = "not a part"
        self.table = np.ones(4)
        self.alias = self.first
        self.tied = self.blocks[0].weight

    def forward(self, x: Any) -> Tensor:
        return self.first(x)


NAMES = {
    "gain": (2,),
    "first.weight": (2,),
    "blocks.0.weight": (3,),
    "blocks.1.0.weight": (5,),
    "blocks.2.0.weight": (7,),
    "by_name.a.weight": (11,),
    "by_name.b.c": (13,),
    "by_name.3.weight": (17,),
}


def test_parameters_are_found_in_attributes_lists_tuples_and_dicts_in_order_of_declaration() -> None:
    tree = Tree()
    assert {name: p.shape for name, p in tree.named_parameters()} == NAMES
    assert [name for name, _ in tree.named_parameters()] == list(NAMES)
    assert [p.shape for p in tree.parameters()] == list(NAMES.values())


def test_modules_are_found_with_the_root_first_and_shared_ones_once() -> None:
    tree = Tree()
    names = [name for name, _ in tree.named_modules()]
    assert names == ["", "first", "blocks.0", "blocks.1.0", "blocks.2.0", "by_name.a", "by_name.3"]
    assert next(iter(tree.modules())) is tree
    assert len(list(tree.modules())) == 7


def test_what_is_added_later_is_found() -> None:
    tree = Tree()
    tree.blocks.append(Leaf(19))
    tree.late = Leaf(23)
    names = dict(tree.named_parameters())
    assert "blocks.3.weight" in names
    assert "late.weight" in names
    del tree.late
    assert "late.weight" not in dict(tree.named_parameters())


def test_a_tied_parameter_is_listed_once_under_its_first_name() -> None:
    tree = Tree()
    names = [name for name, p in tree.named_parameters() if p is tree.tied]
    assert names == ["blocks.0.weight"]


def test_a_child_that_knows_its_parent_does_not_loop() -> None:
    tree = Tree()
    tree.first.parent = tree
    assert [name for name, _ in tree.named_parameters()] == list(NAMES)


def test_a_module_without_parts_has_none() -> None:
    assert list(Module().parameters()) == []
    assert next(iter(Module().named_modules()))[0] == ""


def test_a_parameter_learns_the_name_it_was_first_given() -> None:
    tree = Tree()
    assert tree.gain.name == "gain"
    tree.other = tree.gain
    assert tree.gain.name == "gain"


def test_modules_can_be_weakly_referenced() -> None:
    tree = Tree()
    assert weakref.ref(tree)() is tree


def test_a_call_runs_forward_once_with_the_arguments() -> None:
    calls: list[tuple[Any, ...]] = []

    class Counting(Module):
        def forward(self, a: Any, *, b: int = 0) -> Tensor:
            calls.append((a, b))
            return Tensor(float(a + b))

    assert Counting()(2, b=3).item() == 5.0
    assert calls == [(2, 3)]


def test_a_module_without_forward_says_what_is_missing() -> None:
    with pytest.raises(NotImplementedError, match=r"Module: a Module must define forward\(self"):
        Module()(1.0)


def test_train_and_eval_set_the_whole_tree_and_return_the_module() -> None:
    tree = Tree()
    assert all(module.training for module in tree.modules())
    assert tree.eval() is tree
    assert not any(module.training for module in tree.modules())
    assert tree.train() is tree
    assert all(module.training for module in tree.modules())


def test_evaluating_restores_each_modules_own_mode_also_after_an_exception() -> None:
    tree = Tree()
    tree.first.training = False
    before = [module.training for module in tree.modules()]
    with tree.evaluating():
        assert not any(module.training for module in tree.modules())
    assert [module.training for module in tree.modules()] == before
    with pytest.raises(KeyError), tree.evaluating():
        raise KeyError
    assert [module.training for module in tree.modules()] == before


def test_zero_grad_clears_every_parameter() -> None:
    tree = Tree()
    for p in tree.parameters():
        p.grad = np.ones(p.shape)
    tree.zero_grad()
    assert all(p.grad is None for p in tree.parameters())


def test_state_dict_copies() -> None:
    tree = Tree()
    state = tree.state_dict()
    assert {name: array.shape for name, array in state.items()} == NAMES
    state["gain"][0] = 99.0
    assert tree.gain.value[0] == 1.0


def test_a_loaded_state_is_the_saved_one_bit_for_bit_in_the_same_arrays(rng: np.random.Generator) -> None:
    source, target = Tree(), Tree()
    for p in source.parameters():
        p.value = rng.standard_normal(p.shape)
    homes = [p.value for p in target.parameters()]
    target.load_state_dict(source.state_dict())
    for a, b, home in zip(source.parameters(), target.parameters(), homes, strict=True):
        assert a.value.tobytes() == b.value.tobytes()
        assert b.value is home
        assert not np.shares_memory(a.value, b.value)


def test_a_frozen_parameter_is_saved_and_loaded_too() -> None:
    tree = Tree()
    tree.gain.requires_grad = False
    state = tree.state_dict()
    state["gain"] += 1.0
    tree.load_state_dict(state)
    assert tree.gain.value.tolist() == [2.0, 2.0]


def replaced(name: str, value: Any) -> dict[str, Any]:
    return {**Tree().state_dict(), "gain": np.full(2, 5.0), name: value}


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({}, r"missing \['blocks\.0\.weight', .*'gain'\], unexpected none"),
        (replaced("extra", 1.0), r"missing none, unexpected \['extra'\]"),
        (replaced("first.weight", np.ones((1, 2))), r"first\.weight is \(2,\) and the state has \(1, 2\)"),
        (replaced("by_name.3.weight", 1.0), r"by_name\.3\.weight is \(17,\) and the state has \(\)"),
        (replaced("first.weight", np.array([True, False])), r"values must be numbers; first\.weight has dtype bool"),
        (replaced("first.weight", np.array(["a", "b"])), r"first\.weight has dtype <U1"),
        (replaced("first.weight", np.array([1, 2], object)), r"first\.weight has dtype object"),
        (replaced("first.weight", np.ones(2, complex)), r"first\.weight has dtype complex128"),
    ],
)
def test_a_state_that_does_not_fit_is_refused_and_nothing_is_written(state: dict[str, Any], message: str) -> None:
    tree = Tree()
    before = tree.state_dict()
    with pytest.raises(ValueError, match=message):
        tree.load_state_dict(state)
    after = tree.state_dict()
    assert all(np.array_equal(before[name], after[name]) for name in NAMES)


@pytest.mark.parametrize("dtype", ["<f4", ">f4", ">f8", "i4"])
def test_other_number_formats_are_converted(dtype: str) -> None:
    leaf = Leaf(3)
    leaf.load_state_dict({"weight": np.array([5, 6, 7], dtype)})
    assert leaf.weight.value.tolist() == [5.0, 6.0, 7.0]
    assert leaf.weight.dtype == np.dtype(np.float64)


def test_nan_may_be_loaded() -> None:
    leaf = Leaf(1)
    leaf.load_state_dict({"weight": [np.nan]})
    assert np.isnan(leaf.weight.value[0])


def test_astype_returns_a_converted_copy_in_which_ties_are_ties() -> None:
    tree = Tree()
    tree.gain.grad = np.ones(2)
    tree.first.training = False
    small = tree.astype("float32")
    assert type(small) is Tree
    assert all(p.dtype == np.float32 for p in small.parameters())
    assert small.gain.grad.dtype == np.float32
    assert small.tied is small.blocks[0].weight
    assert small.alias is small.first
    assert not small.first.training
    assert all(p.dtype == np.float64 for p in tree.parameters())
    assert not any(
        np.shares_memory(a.value, b.value) for a, b in zip(tree.parameters(), small.parameters(), strict=True)
    )
    assert small(np.ones(2, np.float32)).dtype == np.float32


@pytest.mark.parametrize("dtype", [int, bool, complex])
def test_astype_needs_a_floating_dtype(dtype: type) -> None:
    with pytest.raises(TypeError, match="parameters need a floating dtype; got"):
        Tree().astype(dtype)


@pytest.mark.parametrize("how", ["deepcopy", "pickle"])
def test_copies_are_independent_and_keep_ties_modes_and_generators(how: str) -> None:
    model = Sequential(Linear(3, 3, rng=np.random.default_rng(0)), Dropout(0.5, rng=np.random.default_rng(1)))
    model.shared = model.layers[0].weight
    model.layers[0].eval()
    twin = copy.deepcopy(model) if how == "deepcopy" else pickle.loads(pickle.dumps(model))
    x = np.random.default_rng(2).standard_normal((5, 3))
    assert twin.shared is twin.layers[0].weight
    assert [m.training for m in twin.modules()] == [m.training for m in model.modules()] == [True, False, True]
    assert np.array_equal(twin(x).value, model(x).value)  # the same dropout mask: the generator was copied too
    twin.layers[0].weight.value[...] = 0.0
    assert model.layers[0].weight.value.any()


def test_a_misspelt_attribute_names_the_nearest() -> None:
    with pytest.raises(AttributeError, match=r"Tree has no attribute 'frist'\. Did you mean 'first'\?"):
        _ = Tree().frist
    with pytest.raises(AttributeError, match=r"Tree has no attribute 'zzz'\.$"):
        _ = Tree().zzz
    assert not hasattr(Tree(), "frist")
    assert getattr(Tree(), "frist", 5) == 5


def test_repr_lists_the_parts_by_name() -> None:
    model = Sequential(Linear(2, 3), Dropout(0.5))
    assert repr(model) == (
        "Sequential(\n"
        "  layers.0: Linear\n"
        "  layers.0.weight: Parameter (2, 3) float64\n"
        "  layers.0.bias: Parameter (3,) float64\n"
        "  layers.1: Dropout\n"
        ")"
    )
    assert repr(Dropout(0.5)) == "Dropout()"


@pytest.mark.parametrize("names", [("a.b", {"b": 1}), (0, "0")])
def test_two_parameters_of_one_dotted_name_have_no_state_dict(names: tuple[Any, Any]) -> None:
    class Tangled(Module):
        def __init__(self) -> None:
            first, second = Parameter([1.0]), Parameter([2.0])
            key, other = names
            self.parts = {key: first, "a": {"b": second}} if isinstance(other, dict) else {key: first, other: second}

    with pytest.raises(ValueError, match=r"each parameter needs a dotted name of its own; two are called \['parts."):
        Tangled().state_dict()
    with pytest.raises(ValueError, match="a dotted name of its own"):
        Tangled().load_state_dict({})


@pytest.mark.parametrize("dtype", ["junk", int, object, None.__class__])
def test_astype_names_the_rule_for_what_is_no_floating_dtype(dtype: Any) -> None:
    with pytest.raises(TypeError, match="astype: parameters need a floating dtype; got"):
        Linear(2, 2).astype(dtype)
