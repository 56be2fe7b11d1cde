"""Davidson (2004): stable classifiers averaged over bootstrap samples, and how many samples are enough."""

from __future__ import annotations

from ens_plugin.papers.model_averaging_2004.model_averaging import BootstrapModelAveragingClassifier
from ens_plugin.papers.model_averaging_2004.output_bounds import bounds
from ens_plugin.papers.model_averaging_2004.settled_growth import grow_until_settled

__all__ = ["BootstrapModelAveragingClassifier", "bounds", "grow_until_settled"]
