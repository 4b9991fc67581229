"""What `mutations/flip_signs.py` found that no other test noticed: each test here fails for the sign it names."""

import numpy as np
import pytest
from autograd_core.ops.scatter_add import scatter_add_rows


@pytest.mark.parametrize("lowest", [0, 1, 2, 5])
def test_the_first_run_of_sorted_ids_is_found_whatever_its_id(lowest: int, rng: np.random.Generator) -> None:
    # `np.diff(ids, prepend=-1)`: with 1 in the place of -1, a batch whose lowest id is 1 loses that id's rows.
    ids = rng.integers(lowest, 7, 1031)
    ids[0] = lowest
    grad = rng.standard_normal((1031, 37))
    expected = np.zeros((7, 37))
    np.add.at(expected, ids, grad)
    np.testing.assert_allclose(scatter_add_rows(ids, grad, 7), expected, rtol=1e-12, atol=1e-12)
