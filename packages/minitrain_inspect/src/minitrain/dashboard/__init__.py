"""The dashboard: seven panels of one run in one HTML file that fetches nothing. See the BLUEPRINT, section 8."""

from .page import write_dashboard

__all__ = ["write_dashboard"]
