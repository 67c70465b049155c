"""A small warehouse."""
from .stock import OutOfStock, Warehouse

__all__ = ["OutOfStock", "Warehouse"]
