"""All scripts of the learners, one after the other: growing to size, pruning, proofs of labels, model averaging."""

from __future__ import annotations

from benchmarks.learners import certificate, growth, model_averaging, pruning


def main(arguments: list[str] | None = None) -> str:
    """Run each with the same options, and return their sections."""
    return "\n\n".join(script.main(arguments) for script in (growth, pruning, certificate, model_averaging))


if __name__ == "__main__":
    print(main())
