"""How many times faster generation is with the key-value cache than when each token is computed from scratch.

    hatch run minimodel_transformer:python packages/minimodel_transformer/benchmarks/generation.py

Both ways generate the same tokens from the same model, in turns, so that a busy machine slows both. A line a dtype: the
median seconds of each way and the median of the ratios of neighbours. The exit status is 1 if the tokens differ or the
ratio of float64, the dtype of a model that asks for none, is below `--at-least`.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time

# Small matrices stall on several threads; must be set before NumPy is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from autograd_core import no_grad
from minimodel.transformer import MiniGPT, MiniGPTConfig


def recompute(model: MiniGPT, prompt: np.ndarray, max_new_tokens: int) -> np.ndarray:
    """Prompt and greedy continuation, each token from a forward over everything before it."""
    ids = prompt
    with model.evaluating(), no_grad():
        for _ in range(max_new_tokens):
            logits = model(ids[-model.config.context_len :]).value[-1]
            ids = np.append(ids, logits.argmax())
    return ids


def measure(model: MiniGPT, prompt: np.ndarray, max_new_tokens: int, repeats: int) -> tuple[float, float, float]:
    """Median seconds with the cache and from scratch, and the median ratio."""
    model.generate(prompt, 2, temperature=0)
    recompute(model, prompt, 2)
    cached, recomputed = [], []
    for _ in range(repeats):
        start = time.perf_counter()
        with_cache = model.generate(prompt, max_new_tokens, temperature=0)
        middle = time.perf_counter()
        from_scratch = recompute(model, prompt, max_new_tokens)
        cached.append(middle - start)
        recomputed.append(time.perf_counter() - middle)
        if not np.array_equal(with_cache, from_scratch):
            raise SystemExit("the two ways generate different tokens")
    ratios = [b / a for a, b in zip(cached, recomputed, strict=True)]
    return statistics.median(cached), statistics.median(recomputed), statistics.median(ratios)


def main() -> int:
    """0 if the cache is as much faster as asked."""
    parser = argparse.ArgumentParser(description="Cached generation against recomputing, as a ratio.")
    parser.add_argument("--tokens", type=int, default=256, help="tokens to generate (default: %(default)s)")
    parser.add_argument("--prompt", type=int, default=16, help="tokens of the prompt (default: %(default)s)")
    parser.add_argument("--context-len", type=int, default=512, help="(default: %(default)s)")
    parser.add_argument("--d-model", type=int, default=64, help="(default: %(default)s)")
    parser.add_argument("--n-layers", type=int, default=2, help="(default: %(default)s)")
    parser.add_argument("--repeats", type=int, default=7, help="(default: %(default)s)")
    parser.add_argument("--at-least", type=float, default=5.0, help="ratio to reach in float64 (default: %(default)s)")
    asked = parser.parse_args()

    print(
        f"{asked.tokens} tokens after {asked.prompt}, context_len {asked.context_len}, d_model {asked.d_model}, ",
        end="",
    )
    print(f"{asked.n_layers} layers, NumPy {np.__version__}, {os.environ['OPENBLAS_NUM_THREADS']} BLAS thread(s)")
    print("dtype    cached/s  recomputed/s  ratio")
    ratios = {}
    for dtype in ("float64", "float32"):
        config = MiniGPTConfig(
            d_model=asked.d_model,
            d_ff=4 * asked.d_model,
            n_layers=asked.n_layers,
            context_len=asked.context_len,
            init_gain=2.0,  # at 1 the untrained model repeats itself
            dtype=dtype,
        )
        model = MiniGPT(config, rng=np.random.default_rng(0))
        prompt = np.random.default_rng(1).integers(0, config.vocab_size, size=asked.prompt)
        cached, recomputed, ratios[dtype] = measure(model, prompt, asked.tokens, asked.repeats)
        print(f"{dtype}  {cached:8.3f}  {recomputed:12.3f}  {ratios[dtype]:5.1f}")
    return 0 if ratios["float64"] >= asked.at_least else 1


if __name__ == "__main__":
    sys.exit(main())
