"""The dashboard: seven panels of a run or several, in one HTML file that fetches nothing.

See the BLUEPRINT, section 8.
"""

from .comparison import write_comparison
from .follow import Follower, write_dashboard
from .live import serve_live

__all__ = ["Follower", "serve_live", "write_comparison", "write_dashboard"]
