"""Davidson (2004): stable classifiers averaged over bootstrap samples, and how many samples are enough."""

from ens_plugin.papers.model_averaging_2004.model_averaging import BootstrapModelAveragingClassifier
from ens_plugin.papers.model_averaging_2004.output_bounds import bounds

__all__ = ["BootstrapModelAveragingClassifier", "bounds"]
