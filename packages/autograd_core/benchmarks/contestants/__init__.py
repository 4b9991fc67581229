"""Contestants. Each file defines `Contestant(workload, dtype, weights, threads, **options)` with four methods.

    loss_and_gradients()  the loss and every gradient by the names of `workloads.shapes`, changing no weight
    step()                one training step (forward, backward, clipping, AdamW) on the one batch; returns its loss
    forward()             the first block without gradient, on `workloads.stream`; whatever the framework returns
    output()              the same as a NumPy array

Workloads with training need the first two, the others the last two. `hand.py`, `hand_block.py` and `ours.py` run in the
benchmark's environment as it is; the others import a peer, which need not be installed.
"""
