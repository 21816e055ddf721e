"""Preflight: what hosts must be, have and not have before anything on them is changed."""

from kubexm.components.preflight.module import Preflight

__all__ = ["Preflight"]
