"""The dashboard: seven panels of a run or several, in one HTML file that fetches nothing.

See the BLUEPRINT, section 8.
"""

from .comparison import write_comparison
from .follow import Follower, write_dashboard

__all__ = ["Follower", "write_comparison", "write_dashboard"]
