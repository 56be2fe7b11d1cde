"""The plug-in estimate of an ensemble against the deconvolved error and the bias stated beside it."""

from __future__ import annotations

import numpy as np
import pytest

from ens_plugin import CustomEnsemble
from ens_plugin.papers.error_curves_2007 import curves


@pytest.mark.parametrize("n_members", [6, 40])
def test_the_plug_in_is_the_deconvolved_error_and_its_bias(n_members: int) -> None:
    """With 6 members, 1 to 6 are out of bag for a row; the mean number in place of each row's is 0.02 off."""
    rng = np.random.default_rng(0)
    y, wrong = rng.integers(0, 2, 6000), rng.beta(1.0, 3.0, 6000)
    labels = np.where(rng.random((n_members, y.size)) < wrong, 1 - y, y)
    in_bag = rng.random(labels.shape) < 0.63
    in_bag[0, in_bag.all(axis=0)] = False
    ensemble = CustomEnsemble(labels, in_bag, aggregation="vote", classes=[0, 1])
    frame = curves(ensemble, None, y, sizes=[1, 5, 21, np.inf])
    np.testing.assert_allclose(frame.plug_in, frame.deconvolved + frame.plug_in_bias, rtol=0, atol=0.004)
