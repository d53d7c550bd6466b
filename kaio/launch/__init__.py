"""Launching: geometry, argument checks, packing, and launches bound once to be repeated."""

from kaio.launch.bound import BoundLaunch
from kaio.launch.launcher import Launcher

__all__ = ["BoundLaunch", "Launcher"]
