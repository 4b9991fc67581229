"""The arithmetic of one block, as on paper: every intermediate value, with its symbol, its shape and its equation.

Read in this order: `step.py`, `arithmetic.py`, `attention_arithmetic.py`, `digits.py`, `tables.py`, `words.py`,
`sources.py`, `content.py`, `mathml.py`, `markdown_sheet.py`, `html_sheet.py`, `colours.py`, `sheet.py`, `example.py`.
"""

from .example import hand_example
from .sheet import Worksheet, worksheet
from .step import Step
from .words import Language

__all__ = ["Language", "Step", "Worksheet", "hand_example", "worksheet"]
