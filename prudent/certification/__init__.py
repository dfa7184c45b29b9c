"""Proof that a policy keeps its budget, from fresh episodes, before it goes where it matters."""

from prudent.certification.certifying import certify

__all__ = ["certify"]
