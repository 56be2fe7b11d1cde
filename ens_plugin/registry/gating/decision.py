"""The decision of a gate, and its forms as text, Markdown and JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Literal

from ens_plugin.registry.gating.policy import Requirement
from ens_plugin.report.tables import wrapped
from ens_plugin.report.text import escaped_markdown, printable

__all__ = ["Check", "GateDecision", "apart"]

NAME_WIDTH = 80
WORDS_WIDTH = 400


@dataclass(frozen=True)
class Check:
    """One requirement of a policy, the value found for it, and whether it holds.

    Attributes
    ----------
    requirement : Requirement
    value : float
        Value of the scalar that the requirement is about.
    passed : bool
    subject : str
        What the value is of, up to the verb; by default the name of the scalar.
    """

    requirement: Requirement
    value: float
    passed: bool
    subject: str = ""

    @property
    def text(self) -> str:
        """The requirement and the value found, in one line: ``report.error_upper is 0.0604, at most 0.08 allowed``."""
        wanted = self.requirement
        subject = self.subject or f"{printable(f'{wanted.table}.{wanted.name}', NAME_WIDTH)} is"
        threshold = _as_written(wanted.threshold)
        value = threshold if self.value == wanted.threshold else apart(self.value, wanted.threshold)[0]
        bound = f"at most {threshold} allowed" if wanted.bound == "max" else f"at least {threshold} required"
        return f"{subject} {value}, {bound}"


def apart(value: float, threshold: float) -> tuple[str, str]:
    """Return two numbers as text of four digits, or of the fewest more that keep different numbers different.

    Rounding both alike keeps their order, so the text shows what decided between them.
    """
    for digits in (4, 5, 6):
        short = f"{value:.{digits}g}", f"{threshold:.{digits}g}"
        is_plain = digits == 6 or not any("e+" in text for text in short)
        if is_plain and (short[0] != short[1] or value == threshold):
            return short
    return repr(value), repr(threshold)


def _as_written(threshold: float) -> str:
    plain = f"{threshold:.15g}"
    return plain if float(plain) == threshold else repr(threshold)


@dataclass(frozen=True)
class GateDecision:
    """The decision of :func:`ens_plugin.gate` on one version of a registered model.

    Attributes
    ----------
    name, version : str
        The version that was judged.
    verdict : {"pass", "fail"}
    checks : tuple of Check
        One for each requirement of the policy, in its order.
    policy_digest : str
        ``"sha256:"`` and the sum of the policy file.
    time : str
        UTC time of the decision, ISO 8601.
    report : str or None
        URI of the logged report; None where the gate analysed the model itself or needed no report.
    evidence : str
        Description of the rows that the report is on, and of where it was logged.
    data_digest : str or None
        Digest of the rows that the gate analysed the model on.
    baseline : str or None
        Version that the candidate was compared with.
    comparison : str or None
        Description of the comparison, or of the reason for none.
    promoted : str or None
        Alias that was to be moved and now points at the version.
    promoted_from : str or None
        Version that the alias pointed at before.
    notes : tuple of str
        Sentences for who reads a fail: what to do, and where the alias stays.  They are in the text and in Markdown,
        and not in the JSON.
    warnings : tuple of str
        A comparison that the policy requires and that was not made, in a sentence below the headline; in the JSON it is
        in `comparison`.

    Examples
    --------
    >>> import ens_plugin
    >>> decision = ens_plugin.gate("models:/churn/7", "policy.toml")  # doctest: +SKIP
    >>> decision = ens_plugin.GateDecision(
    ...     name="churn", version="7", verdict="pass", checks=(), policy_digest="sha256:4c0c3b7e", report=None,
    ...     time="2026-01-01T00:00:00+00:00", evidence="569 rows held out", data_digest=None, baseline=None,
    ...     comparison=None)
    >>> print(decision)
    PASS: version 7 of churn meets the policy sha256:4c0c3b7e
    Evidence: 569 rows held out.
    """

    name: str
    version: str
    verdict: Literal["pass", "fail"]
    checks: tuple[Check, ...]
    policy_digest: str
    time: str
    report: str | None
    evidence: str
    data_digest: str | None
    baseline: str | None
    comparison: str | None
    promoted: str | None = None
    promoted_from: str | None = None
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.summary()

    @property
    def passed(self) -> bool:
        """Whether the version may be promoted."""
        return self.verdict == "pass"

    @property
    def reasons(self) -> tuple[str, ...]:
        """One line for each check, failed ones first."""
        return tuple(
            f"{'ok' if check.passed else 'FAILED'}: {check.text}"
            for check in sorted(self.checks, key=lambda check: check.passed)
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the decision as plain Python objects."""
        content = {**asdict(self), "checks": [_check_content(check) for check in self.checks]}
        del content["notes"], content["warnings"]
        return content

    def to_json(self) -> str:
        """Return the decision as JSON text."""
        return json.dumps(self.to_dict(), indent=1, allow_nan=False)

    def summary(self) -> str:
        """Return the decision as plain text, without control characters."""
        lines = [f"{self.verdict.upper()}: {self._headline()}"]
        for warning in self.warnings:
            lines.extend(wrapped(f"Warning: {printable(warning, WORDS_WIDTH)}", later="  "))
        for reason in self.reasons:
            lines.extend(wrapped(reason, indent="  ", later="  "))
        for sentence in self._origin():
            lines.extend(wrapped(sentence, later="    "))
        return "\n".join(lines)

    def to_markdown(self) -> str:
        """Return the decision in Markdown, with all names escaped."""
        lines = [*(f"Warning: {warning}" for warning in self.warnings), *self.reasons, *self._origin()]
        return "\n".join(
            [f"**{self.verdict.upper()}: {escaped_markdown(self._headline(), WORDS_WIDTH)}**", "",
             *(f"- {escaped_markdown(line, WORDS_WIDTH)}" for line in lines)]
        )  # fmt: skip

    def _headline(self) -> str:
        meets = "meets" if self.passed else "does not meet"
        return (
            f"version {self.version} of {printable(self.name, NAME_WIDTH)} {meets} the policy {self.policy_digest[:19]}"
        )

    def _move(self) -> str:
        if self.promoted_from == self.version:
            return f"stays at version {self.version}"
        if self.promoted_from is None:
            return f"points at version {self.version}"
        return f"was moved from version {self.promoted_from} to version {self.version}"

    def _origin(self) -> list[str]:
        lines = [f"Evidence: {printable(self.evidence, WORDS_WIDTH)}."]
        if self.comparison is not None:
            lines.append(f"Baseline: {printable(self.comparison, WORDS_WIDTH)}.")
        if self.promoted is not None:
            lines.append(f"Alias {self.promoted!r} {self._move()}.")
        return [*lines, *(printable(note, WORDS_WIDTH) for note in self.notes)]


def _check_content(check: Check) -> dict[str, Any]:
    content = asdict(check.requirement)
    del content["key"]
    return {**content, "value": check.value, "passed": check.passed}
