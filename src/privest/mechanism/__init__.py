"""Mechanisms: the side that sees y and decides what leaves."""

from privest.mechanism.stream import StreamMechanism

__all__ = ["StreamMechanism"]
