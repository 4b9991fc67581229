"""Vectors by integer id: the `Embedding` module, and the readable form of its gradient.

Read `embedding.py` first; `storage.py` holds the pair of files that `save` writes and `load` checks.
"""

from .embedding import Embedding, gather_backward

__all__ = ["Embedding", "gather_backward"]
