"""Packages by name: what a registry tells of a release, its changelog, and its documentation."""

from typing import ClassVar

from rowen.connectors.packages.address import Ecosystem
from rowen.connectors.packages.lookup import Index
from rowen.connectors.packages.npm import NpmIndex
from rowen.connectors.packages.package import Package
from rowen.connectors.packages.pypi import PyPIIndex

__all__ = ["Npm", "PyPI"]


class PyPI(Package):
    """Reads a Python package."""

    kind: ClassVar[str] = "pypi"
    ecosystem: ClassVar[Ecosystem] = "pypi"
    index: ClassVar[type[Index]] = PyPIIndex


class Npm(Package):
    """Reads a package for JavaScript."""

    kind: ClassVar[str] = "npm"
    ecosystem: ClassVar[Ecosystem] = "npm"
    index: ClassVar[type[Index]] = NpmIndex
