"""What learners do: their errors, and how to draw them."""

from innerloop.analysis.error import error_curve
from innerloop.analysis.figure import draw_error_curve, save_figure_and_table

__all__ = ["draw_error_curve", "error_curve", "save_figure_and_table"]
