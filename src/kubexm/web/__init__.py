"""The page: static files that speak REST, and nothing else. Must not know the server behind them."""

from kubexm.web.site import page

__all__ = ["page"]
