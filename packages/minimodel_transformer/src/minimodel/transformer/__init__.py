"""The parts of a transformer, and a small GPT made of them.

Read in this order: `layer_norm.py`, `ffn.py`, `rope.py`, `cache.py`, `attention.py`, `block.py`, `config.py`,
`gpt.py`, `sampling.py`, `generation.py`, `weights.py`, `tensor_file.py`, `gpt2_config.py`, `gpt2.py`, and the folder
`worksheets/`. Shape letters are those of the root BLUEPRINT: B batch, T positions, D model width, H heads, K head
width, F hidden width, V vocabulary.
"""

from .attention import MultiHeadAttention
from .block import TransformerBlock
from .cache import KeyValueCache
from .config import MiniGPTConfig
from .ffn import FFN
from .gpt import MiniGPT
from .gpt2 import load_gpt2, save_gpt2
from .layer_norm import LayerNorm
from .weights import load_weights, save_weights
from .worksheets import Worksheet, worksheet

__all__ = [
    "FFN",
    "KeyValueCache",
    "LayerNorm",
    "MiniGPT",
    "MiniGPTConfig",
    "MultiHeadAttention",
    "TransformerBlock",
    "Worksheet",
    "load_gpt2",
    "load_weights",
    "save_gpt2",
    "save_weights",
    "worksheet",
]
