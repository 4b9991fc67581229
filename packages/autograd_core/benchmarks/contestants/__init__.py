"""Contestants. Each file defines `Contestant(workload, dtype, weights, threads, **options)` with four methods.

    loss_and_gradients()  the loss and every gradient by the names of `workloads.shapes`, changing no weight
    step()                one training step (forward, backward, clipping, AdamW) on the one batch; returns its loss
    forward()             the first block without gradient, on `workloads.stream`; whatever the framework returns
    output()              the same as a NumPy array

Workloads without training need only the last two. `hand.py` and `ours.py` come with the benchmark's environment; the
others import a peer, which need not be installed.
"""
