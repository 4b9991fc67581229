"""PyTorch without compilation: the modules its users write, its fused attention, its clipping and its AdamW."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch  # noqa: TID251 - to compare with
from torch import nn  # noqa: TID251 - to compare with
from torch.nn import functional as F  # noqa: TID251 - to compare with
from workloads import (
    BETA1,
    BETA2,
    EPS,
    LAYER_NORM_EPS,
    LEARNING_RATE,
    MAX_NORM,
    WEIGHT_DECAY,
    Weights,
    Workload,
    batch,
    stream,
)


class Attention(nn.Module):
    """Causal self-attention with one packed projection, as nanoGPT has it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        B, T, D = x.shape
        q, k, v = (part.view(B, T, self.heads, -1).transpose(1, 2) for part in self.qkv(x).split(D, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(B, T, D))


class Block(nn.Module):
    """Pre-LN block."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.ln1 = nn.LayerNorm(width, eps=LAYER_NORM_EPS)
        self.attn = Attention(width, heads)
        self.ln2 = nn.LayerNorm(width, eps=LAYER_NORM_EPS)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attn(self.ln1(x))
        return x + self.down(F.gelu(self.up(self.ln2(x)), approximate="tanh"))


class GPT(nn.Module):
    """Learned positions, tied head."""

    def __init__(self, workload: Workload) -> None:
        super().__init__()
        self.embedding = nn.Embedding(workload.V, workload.D)
        self.positions = nn.Embedding(workload.context_len, workload.D)
        self.blocks = nn.ModuleList(Block(workload.D, workload.H) for _ in range(workload.L))
        self.ln_final = nn.LayerNorm(workload.D, eps=LAYER_NORM_EPS)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens) + self.positions.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return F.linear(self.ln_final(x), self.embedding.weight)


class Contestant:
    """The model above; `fused` chooses AdamW's fused implementation."""

    def __init__(
        self, workload: Workload, dtype: str, weights: Weights, threads: int = 1, *, fused: bool = False
    ) -> None:
        torch.set_num_threads(threads)
        torch.set_default_dtype(getattr(torch, dtype))
        self.model = GPT(workload)
        with torch.no_grad():
            for name, (parameter, place) in self._by_name().items():
                parameter[place] = torch.from_numpy(weights[name].T)
        self.tokens, self.targets = (torch.from_numpy(ids) for ids in batch(workload))
        self.x = torch.from_numpy(stream(workload, dtype))
        options = {"fused": True} if fused else {}
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(),
            lr=LEARNING_RATE,
            betas=(BETA1, BETA2),
            eps=EPS,
            weight_decay=WEIGHT_DECAY,
            **options,
        )

    def _by_name(self) -> dict[str, tuple[torch.Tensor, slice]]:
        """Parameter and place in it of every weight; matrices lie transposed, (out, in), embeddings too by `.T`."""
        model, everything = self.model, slice(None)
        found: dict[str, tuple[torch.Tensor, slice]] = {
            "embedding.E": (model.embedding.weight.T, everything),
            "position_embedding.E": (model.positions.weight.T, everything),
            "ln_final.gamma": (model.ln_final.weight, everything),
            "ln_final.beta": (model.ln_final.bias, everything),
        }
        for i, block in enumerate(model.blocks):
            D = block.attn.out.weight.shape[0]
            for j, letter in enumerate("qkv"):
                third = slice(j * D, (j + 1) * D)
                found[f"blocks.{i}.attn.W_{letter}"] = (block.attn.qkv.weight, third)
                found[f"blocks.{i}.attn.b_{letter}"] = (block.attn.qkv.bias, third)
            for weight, bias, layer in (
                ("attn.W_o", "attn.b_o", block.attn.out),
                ("ffn.W1", "ffn.b1", block.up),
                ("ffn.W2", "ffn.b2", block.down),
                ("ln1.gamma", "ln1.beta", block.ln1),
                ("ln2.gamma", "ln2.beta", block.ln2),
            ):
                found[f"blocks.{i}.{weight}"] = (layer.weight, everything)
                found[f"blocks.{i}.{bias}"] = (layer.bias, everything)
        return found

    def _loss(self) -> torch.Tensor:
        logits = self.model(self.tokens)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), self.targets.view(-1))

    def loss_and_gradients(self) -> tuple[float, Weights]:
        loss = self._loss()
        loss.backward()
        gradients = {}
        for name, (parameter, place) in self._by_name().items():
            source = parameter if parameter._base is None else parameter._base
            gradient = source.grad if source is parameter else source.grad.T
            gradients[name] = gradient[place].numpy().T.copy()
        self.optimizer.zero_grad()
        return loss.item(), gradients

    def step(self) -> float:
        self.optimizer.zero_grad()
        loss = self._loss()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), MAX_NORM)
        self.optimizer.step()
        return loss.item()

    def forward(self) -> torch.Tensor:
        with torch.no_grad():
            return self.model.blocks[0](self.x)

    def output(self) -> npt.NDArray[np.floating]:
        return self.forward().numpy()
