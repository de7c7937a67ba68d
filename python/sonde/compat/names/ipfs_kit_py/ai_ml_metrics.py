"""Training, inference and workers, by sonde.aiml."""

from sonde.aiml import AIMLMetricsCollector

__all__ = ["AIMLMetricsCollector"]
