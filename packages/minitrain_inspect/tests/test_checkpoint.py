"""Checkpoints: a run that goes on in fresh objects equals one that never stopped, and a bad file changes nothing."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from autograd_core import GELU, Dropout, Linear, Module, Parameter, Tensor
from autograd_core import functional as F
from autograd_core.optim import SGD, AdamW, Optimizer, WarmupCosine, decay_groups
from minitrain.batches import Batch, PaddedBatches, TokenSequence
from minitrain.checkpoint import load_checkpoint, save_checkpoint, step_of
from minitrain.inspect import Inspector
from minitrain.loop import Progress, Row, train
from safetensors import safe_open
from safetensors.numpy import save

SYMBOLS, WIDTH, HIDDEN = 17, 5, 11


class Layer(Module):
    def __init__(self, hidden: int, dropout: float, rng: np.random.Generator, dtype: str) -> None:
        self.up = Linear(WIDTH, hidden, rng=rng, dtype=dtype)
        self.act = GELU()
        self.dropout = Dropout(dropout, rng=rng.spawn(1)[0]) if dropout else None
        self.down = Linear(hidden, WIDTH, rng=rng, dtype=dtype)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.act(self.up(x))
        return x + self.down(hidden if self.dropout is None else self.dropout(hidden))


class Network(Module):
    def __init__(
        self, *, seed: int, hidden: int = HIDDEN, layers: int = 2, dropout: float = 0.3, dtype: str = "float64"
    ):
        rng = np.random.default_rng(seed)
        self.table = Parameter(rng.normal(size=(SYMBOLS, WIDTH)).astype(dtype))
        self.layers = [Layer(hidden, dropout, rng, dtype) for _ in range(layers)]

    def forward(self, ids: np.ndarray) -> Tensor:
        x = F.embedding(self.table, ids)
        for layer in self.layers:
            x = layer(x)
        return x @ self.table.T


def objective(model: Module, batch: Batch) -> Tensor:
    return F.cross_entropy(model(batch.inputs), batch.targets, reduction="none")


def sequences() -> list[TokenSequence]:
    rng = np.random.default_rng(3)
    return [TokenSequence(rng.integers(0, SYMBOLS, size=length)) for length in (4, 9, 7, 6, 5, 8, 3)]


def momentum(model: Module) -> Optimizer:
    return SGD(model.parameters(), lr=0.0, momentum=0.9, weight_decay=0.01)


def adamw(model: Module) -> Optimizer:
    return AdamW(decay_groups(model, 0.1), lr=0.0)


class Run:
    """What a run is made of, made anew; another seed gives other weights, so that only the file can make two equal."""

    def __init__(
        self,
        seed: int = 0,
        optimizer: Callable[[Module], Optimizer] = adamw,
        *,
        data_seed: int = 7,
        inspected: bool = True,
        watched: str = "*",
        **sizes: Any,
    ) -> None:
        self.model = Network(seed=seed, **sizes)
        self.optimizer = optimizer(self.model)
        self.data = PaddedBatches(sequences(), 3, seed=data_seed)
        self.inspector = Inspector(self.model, self.model.parameters(), spectral_every=3) if inspected else None
        if self.inspector is not None:
            self.inspector.watch(watched)
        self.progress = Progress()
        self.rows: list[Row] = []
        self.seen: list[np.ndarray] = []

    @property
    def parts(self) -> dict[str, Any]:
        return {"data": self.data} | ({} if self.inspector is None else {"inspector": self.inspector})

    def _noted(self, model: Module, batch: Batch) -> Tensor:
        self.seen.append(batch.inputs)
        return objective(model, batch)

    def train(self, steps: int, checkpoint: Callable[[Progress], None] | None = None) -> None:
        train(
            self.model,
            self.optimizer,
            WarmupCosine(1e-2, 1e-3, 4, 30),
            self.data,
            steps=steps,
            objective=self._noted,
            accumulate=2,
            grad_clip=0.7,
            inspector=self.inspector,
            log=self.rows.append,
            log_every=2,
            checkpoint=checkpoint,
            progress=self.progress,
        )

    def save(self, path: Path) -> None:
        save_checkpoint(path, self.model, self.optimizer, self.progress, self.parts)

    def load(self, path: Path) -> None:
        self.progress = load_checkpoint(path, self.model, self.optimizer, self.parts)

    def state(self) -> dict[str, Any]:
        """Everything that a checkpoint could change, comparable by `==`."""
        optimizer = self.optimizer.state_dict()
        return copy.deepcopy(
            {
                "weights": {name: array.tobytes() for name, array in self.model.state_dict().items()},
                "groups": [{k: list(v) if k == "betas" else v for k, v in g.items()} for g in optimizer["groups"]],
                "moments": [
                    {k: v.tobytes() if isinstance(v, np.ndarray) else v for k, v in entry.items()}
                    for entry in optimizer["parameters"]
                ],
                "dropout": [
                    module.rng.bit_generator.state for module in self.model.modules() if isinstance(module, Dropout)
                ],
                "parts": {name: part.state_dict() for name, part in self.parts.items()},
            }
        )


def without_clock(rows: list[Row]) -> list[Row]:
    return [{key: value for key, value in row.items() if not key.endswith("_seconds")} for row in rows]


# --------------------------------------------------------------------------- going on


@pytest.mark.parametrize("optimizer", [adamw, momentum])
@pytest.mark.parametrize("sizes", [{}, {"dropout": 0.0}, {"inspected": False}, {"dtype": "float32"}])
def test_a_run_continued_in_fresh_objects_equals_one_that_never_stopped(
    tmp_path: Path, optimizer: Callable[[Module], Optimizer], sizes: dict[str, Any]
) -> None:
    whole = Run(0, optimizer, **sizes)
    whole.train(20)

    first = Run(0, optimizer, **sizes)
    first.train(10, checkpoint=lambda at: first.save(tmp_path / "state.safetensors"))
    second = Run(99, optimizer, **sizes)
    assert second.state()["weights"] != first.state()["weights"]
    second.load(tmp_path / "state.safetensors")
    assert second.state() == first.state()
    assert second.progress == first.progress
    assert second.progress.step == 10
    second.train(20)

    assert second.state() == whole.state()
    assert without_clock(first.rows + second.rows) == without_clock(whole.rows)
    assert [row["step"] for row in second.rows] == [12, 14, 16, 18, 20]
    seen = first.seen + second.seen
    assert len(seen) == 40
    assert all(np.array_equal(a, b) for a, b in zip(seen, whole.seen, strict=True))
    assert second.rows[0]["elapsed_seconds"] > first.rows[-1]["elapsed_seconds"]
    if whole.inspector is not None:
        assert second.rows[-1]["inspect"]["modules"]["layers.1.up"]["n"] > 0


def test_saving_changes_nothing(tmp_path: Path) -> None:
    saved, plain = Run(), Run()
    saved.train(6, checkpoint=lambda at: saved.save(tmp_path / "state.safetensors"))
    plain.train(6)
    assert saved.state() == plain.state()


def test_numbers_that_are_not_finite_survive(tmp_path: Path) -> None:
    run = Run(inspected=False)
    run.model.table.value[2, 3] = np.nan
    run.progress = Progress(step=1, train_loss=float("inf"))
    run.save(tmp_path / "state")
    other = Run(1, inspected=False)
    other.load(tmp_path / "state")
    assert np.argwhere(np.isnan(other.model.table.value)).tolist() == [[2, 3]]
    assert other.progress.train_loss == float("inf")


# --------------------------------------------------------------------------- bad files


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    run = Run()
    run.train(4)
    run.save(tmp_path / "state.safetensors")
    return tmp_path / "state.safetensors"


def refusal(path: Path, into: Run) -> str:
    """The message with which loading is refused, without the path; nothing may have changed."""
    into.train(3)  # moments and counters that a half-done load would wipe out
    before, progress = into.state(), copy.deepcopy(into.progress)
    with pytest.raises(ValueError, match=r"^[^\n]+$") as caught:
        into.load(path)
    assert into.state() == before
    assert into.progress == progress
    message = str(caught.value)
    assert message.startswith(f"{path}: a checkpoint must ")
    return message.removeprefix(f"{path}: a checkpoint must ")


@pytest.mark.parametrize("kept", [0, 5, 8, 0.1, 0.5, 0.999, -1])
def test_a_truncated_file_is_refused(checkpoint: Path, kept: float) -> None:
    content = checkpoint.read_bytes()
    length = int(kept * len(content)) if isinstance(kept, float) else kept
    checkpoint.write_bytes(content[:length])
    assert refusal(checkpoint, Run(1)).startswith("be a whole safetensors file")


def test_no_flipped_bit_goes_unnoticed(checkpoint: Path) -> None:
    content = checkpoint.read_bytes()
    header_end = 8 + int.from_bytes(content[:8], "little")
    rng = np.random.default_rng(11)
    places = [*rng.integers(0, header_end, size=70), *rng.integers(header_end, len(content), size=70)]
    into = Run(1)
    before = into.state()
    for place in places:
        damaged = bytearray(content)
        damaged[place] ^= 1 << int(rng.integers(8))
        checkpoint.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"^[^\n]*a checkpoint must[^\n]*$"):
            into.load(checkpoint)
    assert into.state() == before


def test_text_that_is_no_checkpoint_is_refused(checkpoint: Path) -> None:
    checkpoint.write_text("{}\n" * 99)
    assert refusal(checkpoint, Run(1)).startswith("be a whole safetensors file")


def test_a_file_of_another_version_is_refused(checkpoint: Path) -> None:
    with safe_open(checkpoint, "numpy") as file:
        header, arrays = file.metadata(), {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    checkpoint.write_bytes(save(arrays, {**header, "schema": "1"}))
    assert refusal(checkpoint, Run(1)) == "have schema 2; got 1. Resume with the version that wrote it."
    checkpoint.write_bytes(save(arrays))  # somebody's weights
    assert refusal(checkpoint, Run(1)) == "have schema 2; got None. Resume with the version that wrote it."


RESUME = "Resume with the configuration and the version that wrote it."


@pytest.mark.parametrize(
    ("other", "difference"),
    [
        (
            {"hidden": 13},
            f"model/layers.0.down.weight is float64 (11, 5) in the file and float64 (13, 5) here. {RESUME}",
        ),
        ({"dtype": "float32"}, f"model/layers.0.down.bias is float64 (5,) in the file and float32 (5,) here. {RESUME}"),
        ({"layers": 3}, f"dropout/layers.2.dropout is missing in the file and present here. {RESUME}"),
        ({"layers": 1}, f"dropout/layers.1.dropout is present in the file and missing here. {RESUME}"),
        ({"dropout": 0.0}, f"dropout/layers.0.dropout is present in the file and missing here. {RESUME}"),
        ({"optimizer": momentum}, f"optimizer/0/buffer is missing in the file and float64 (85,) here. {RESUME}"),
        ({"inspected": False}, f"parts/inspector is present in the file and missing here. {RESUME}"),
        (
            {"watched": "layers.*"},
            "Inspector: a state fits the names it was taken from; 'Network' is in one of the two only. "
            "Call watch() with the same patterns on the same model first.",
        ),
        (
            {"data_seed": 8},
            "the data must be those of the run; got seed 7 where this iterator has 8. "
            "Resume with its configuration and its data, a text file as it was then, or begin a new run.",
        ),
    ],
)
def test_a_checkpoint_of_another_run_is_refused(checkpoint: Path, other: dict[str, Any], difference: str) -> None:
    assert refusal(checkpoint, Run(1, **other)) == f"fit the run; {difference}"


def test_the_file_must_be_there_and_the_folder_too(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Run().load(tmp_path / "state")
    with pytest.raises(FileNotFoundError):
        Run().save(tmp_path / "missing" / "state")
    assert list(tmp_path.iterdir()) == []


def test_the_step_of_a_checkpoint_is_read_without_a_model(tmp_path: Path) -> None:
    model = Network(seed=1)
    path = tmp_path / "state.safetensors"
    assert step_of(path) is None
    save_checkpoint(path, model, adamw(model), Progress(step=23), {})
    assert step_of(path) == 23
    path.write_bytes(path.read_bytes()[:50])
    assert step_of(path) is None
