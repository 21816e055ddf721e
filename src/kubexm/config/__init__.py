"""cluster.yaml to a `Cluster`: places in every error, secrets by reference. Knows no host."""

from kubexm.config.errors import ConfigErrors, Problem
from kubexm.config.load import Loaded, Source, load, loads, names_in
from kubexm.config.secrets import local_path, resolve

__all__ = ["ConfigErrors", "Loaded", "Problem", "Source", "load", "loads", "local_path", "names_in", "resolve"]
