"""Differentiable operations, one family a file; each function holds its forward and, nested below it, its vjp.

Reading order: `arithmetic`, `elementwise`, `reductions`, `shaping`, `indexing`, `products`, then the fused ones:
`gelu`, `softmax`, `normalization`, `attention`, `dropout`. `autograd_core.functional` is their table of contents.
"""
