"""Metrics of a whole program, by sonde.collector."""

from sonde import Kind as MetricType
from sonde.collector import (CentralizedMetricsCollector, Metric, MetricsAggregator, MetricsFilter,
                             get_metric_stats, get_metrics_collector, print_metrics_report,
                             record_counter, record_metric, record_timing)

__all__ = ["CentralizedMetricsCollector", "Metric", "MetricType", "MetricsAggregator",
           "MetricsFilter", "get_metric_stats", "get_metrics_collector", "print_metrics_report",
           "record_counter", "record_metric", "record_timing"]
