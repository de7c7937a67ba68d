"""Pictures of them, by sonde.visualization."""

from sonde.visualization import AIMLVisualization, PlotError, create_visualization

__all__ = ["AIMLVisualization", "PlotError", "create_visualization"]
