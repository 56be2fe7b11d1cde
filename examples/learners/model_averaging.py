"""Naive Bayes on a tenth of the digits: the single model, and an average over bootstrap samples."""

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from ens_plugin.papers.model_averaging_2004 import BootstrapModelAveragingClassifier


def main() -> None:
    X, y = load_digits(return_X_y=True)
    few, rest, y_few, y_rest = train_test_split(X, y, train_size=0.1, stratify=y, random_state=0)
    averaged = BootstrapModelAveragingClassifier(random_state=0).fit(few, y_few)
    print(f"Trained on {len(few)} rows of {len(X)}; errors on the rest:")
    print(f"  single model         {100 * (1 - averaged.single_model_.score(rest, y_rest)):5.1f} %")
    print(f"  average of {averaged.n_estimators_} models {100 * (1 - averaged.score(rest, y_rest)):5.1f} %")
    print(f"Labels that more models would not change: {100 * averaged.settled_rows(rest).mean():.0f} % of the rows.")
    print(f"Models that would settle a fifth of the rows: about {averaged.models_to_settle(rest, share=0.2)}.")
    bounds = averaged.parameter_bounds("class_prior_")
    print("Share of the first label, and how near that of infinitely many models (chance 5 %):")
    print(f"  {bounds.mean[0]:.3f} ± {bounds.mean_bound[0]:.3f}")


if __name__ == "__main__":
    main()
