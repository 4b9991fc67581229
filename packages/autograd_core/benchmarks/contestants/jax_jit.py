"""JAX: the textbook formula, differentiated and compiled together with clipping and AdamW into one step."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from workloads import (
    BETA1,
    BETA2,
    EPS,
    LEARNING_RATE,
    MAX_NORM,
    WEIGHT_DECAY,
    Weights,
    Workload,
    batch,
    stream,
)

from . import textbook

FUNCTIONS = textbook.functions(jnp, lambda x: jax.lax.stop_gradient(x.max(axis=-1, keepdims=True)))


class Contestant:
    """Compiled functions and the state they hand on; old state is donated."""

    def __init__(self, workload: Workload, dtype: str, weights: Weights, threads: int = 1) -> None:
        jax.config.update("jax_enable_x64", dtype == "float64")
        mask = jnp.asarray(textbook.causal_mask(workload.T, dtype))
        self.weights = {name: jnp.array(array) for name, array in weights.items()}
        self.first = jax.tree.map(jnp.zeros_like, self.weights)
        self.second = jax.tree.map(jnp.zeros_like, self.weights)
        self.count = jnp.zeros((), dtype)
        self.tokens, self.targets = (jnp.asarray(ids, "int32") for ids in batch(workload))
        self.x = jnp.asarray(stream(workload, dtype))

        def loss(w: dict[str, jax.Array], tokens: jax.Array, targets: jax.Array) -> jax.Array:
            return textbook.loss(FUNCTIONS, w, tokens, targets, workload, mask)

        def step(w, first, second, count, tokens, targets):  # type: ignore[no-untyped-def]
            value, gradients = jax.value_and_grad(loss)(w, tokens, targets)
            norm = jnp.sqrt(sum(jnp.vdot(g, g) for g in gradients.values()))
            clip = jnp.minimum(1.0, MAX_NORM / (norm + 1e-6))
            gradients = jax.tree.map(lambda g: g * clip, gradients)
            count = count + 1
            first = jax.tree.map(lambda m, g: BETA1 * m + (1.0 - BETA1) * g, first, gradients)
            second = jax.tree.map(lambda v, g: BETA2 * v + (1.0 - BETA2) * g * g, second, gradients)
            size, root = LEARNING_RATE / (1.0 - BETA1**count), jnp.sqrt(1.0 - BETA2**count)
            w = jax.tree.map(
                lambda p, m, v: p * (1.0 - LEARNING_RATE * WEIGHT_DECAY) - size * m / (jnp.sqrt(v) / root + EPS),
                w,
                first,
                second,
            )
            return w, first, second, count, value

        self.value_and_grad = jax.jit(jax.value_and_grad(loss))
        self.compiled = jax.jit(step, donate_argnums=(0, 1, 2, 3))
        self.block = jax.jit(lambda w, x: textbook.block(FUNCTIONS, w, "blocks.0.", x, workload.H, mask))

    def loss_and_gradients(self) -> tuple[float, Weights]:
        loss, gradients = self.value_and_grad(self.weights, self.tokens, self.targets)
        return float(loss), {name: np.asarray(gradient) for name, gradient in gradients.items()}

    def step(self) -> float:
        self.weights, self.first, self.second, self.count, loss = self.compiled(
            self.weights, self.first, self.second, self.count, self.tokens, self.targets
        )
        return float(loss)

    def forward(self) -> jax.Array:
        return self.block(self.weights, self.x).block_until_ready()

    def output(self) -> npt.NDArray[np.floating]:
        return np.asarray(self.forward())
