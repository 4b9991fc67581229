"""What is run: eight faults at two sizes, healthy runs of several kinds, and what lies between healthy and broken.

A `Case` is one training run. Its settings are those of a TOML file beside this one and a few more; the diagnosis is
never told them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from minitrain.config import RunConfig, load_config

HERE = Path(__file__).resolve().parent
TEXT = HERE / "alice.txt"

SEEDS = (0, 1, 2, 3, 4)
TUNED_ON = (0, 1)
"""Seeds that were looked at while thresholds were chosen; the others are for the report."""

SIZES: dict[str, tuple[str, ...]] = {
    "default": (),
    "deep": ("model.d_model=32", "model.d_ff=128", "model.n_layers=4"),
}

EXPECTED = {
    "bad-init": "bad-init",
    "no-warmup": "no-warmup",
    "broken-mask": "broken-mask",
    "dead-units": "dead-units",
    "rate-times-30": "learning-rate-too-high",
    "rate-over-300": "learning-rate-too-low",
    "tenth": "overfitting",
    "nan": "non-finite",
}
"""Fault, which is the name of a TOML file, to the code that should be named first."""

LAB = ("bad-init", "no-warmup", "broken-mask")
"""The three to practise on."""

HARM_NATS = 0.05
"""A fault harms when the last validation loss is so much above that of the run without it; a mask when it leaks."""

RATE_THAT_HARMS = {"default": 2e-2, "deep": 4e-2}
"""Peak rate of `no-warmup` at each size: where starting at once costs something, and warm-up makes it bearable."""

WARM = ("no-warmup", ("train.warmup_steps=30",))
"""The run without the fault of `no-warmup`: the same rate, reached gradually."""

BETWEEN: dict[str, tuple[str, tuple[str, ...], str]] = {
    "rate": ("train.lr_max", ("1.5e-2", "2e-2", "3e-2", "4.5e-2", "6e-2"), "learning-rate-too-high"),
    "gain": ("model.init_gain", ("0.5", "0.3", "0.1", "0.01", "0.0"), "bad-init"),
}
"""Kind of a case to the key, its values and the code: rates up to that of `rate-times-30`, weights that start small."""

HEALTHY: dict[str, tuple[str, ...]] = {
    "rate 1e-3": ("train.lr_max=1e-3",),
    "rate 1e-2": ("train.lr_max=1e-2",),
    "no warm-up": ("train.warmup_steps=0",),
    "text": (f"data.source={TEXT}",),
    "text, rate 1e-3": (f"data.source={TEXT}", "train.lr_max=1e-3"),
    "text, no warm-up": (f"data.source={TEXT}", "train.warmup_steps=0"),
}
"""Healthy runs other than the plain one; each at both sizes with one seed."""


@dataclass(frozen=True, slots=True)
class Case:
    """One run: `kind` is "fault", "healthy", "reference" or one of `BETWEEN`, `name` the fault, value or difference."""

    kind: str
    name: str
    size: str
    seed: int

    @property
    def slug(self) -> str:
        """Name of its folder."""
        return f"{self.kind}-{self.name}-{self.size}-{self.seed}".replace(", ", "-").replace(" ", "-")

    @property
    def expected(self) -> str:
        """Code that should come first; empty where nothing should be found."""
        return EXPECTED[self.name] if self.kind == "fault" else ""

    def config(self, *more: str) -> RunConfig:
        """Return its configuration."""
        file, sets = self.name, ()
        if self.kind == "healthy":
            file, sets = "healthy", HEALTHY.get(self.name, ())
        elif self.kind in BETWEEN:
            file, sets = "healthy", (f"{BETWEEN[self.kind][0]}={self.name}",)
        elif self.kind == "reference":
            file, sets = WARM
        if file == "no-warmup":
            sets = (*sets, f"train.lr_max={RATE_THAT_HARMS[self.size]}")
        return load_config(HERE / f"{file}.toml", (*SIZES[self.size], *sets, f"train.seed={self.seed}", *more))

    @property
    def without(self) -> Case:
        """The run that lacks the fault and nothing else."""
        if self.name == "no-warmup":
            return Case("reference", "warmed up", self.size, self.seed)
        return Case("healthy", "plain", self.size, self.seed)


def all_cases() -> list[Case]:
    """Every run, those that others are compared with first."""
    pairs = [(size, seed) for seed in SEEDS for size in SIZES]
    plain = [Case("healthy", "plain", size, seed) for size, seed in pairs]
    warm = [Case("reference", "warmed up", size, seed) for size, seed in pairs]
    faults = [Case("fault", name, size, seed) for size, seed in pairs for name in EXPECTED]
    others = [
        Case("healthy", name, size, (2 * place + index) % len(SEEDS))
        for place, name in enumerate(HEALTHY)
        for index, size in enumerate(SIZES)
    ]
    between = [
        Case(kind, value, size, seed)
        for kind, (_, values, _) in BETWEEN.items()
        for size, seed in pairs
        for value in values
    ]
    return [*plain, *others, *warm, *faults, *between]
