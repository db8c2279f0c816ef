"""Hybrid-parallel training on Slurm: tables on parameter servers, dense layers under DDP.

Importing this package imports no torch; a model's factory needs only what is here.
"""

from hybridjob.errors import HybridjobError
from hybridjob.schema import Schema, Table

__all__ = ["HybridjobError", "Schema", "Table"]
__version__ = "0.1.0"
