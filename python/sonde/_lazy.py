"""Which module of this package has a name that `sonde.NAME` finds on first use. Importing sonde itself
takes two milliseconds, and is to stay so."""

NAMES: dict[str, str] = {
    "Run": "run",
    "ml": "ml",             # itself
    "wrap_fs": "wrap",
    "wrap_iter": "wrap",
    # Read by the program itself: docs/python-metrics.md.
    "AIMLMetricsCollector": "aiml",
    "CentralizedMetricsCollector": "collector",
    "Metric": "collector",
    "MetricsAggregator": "collector",
    "MetricsFilter": "collector",
    "PerformanceMetrics": "performance",
    "PerformanceMonitor": "timing",
    "ProfilingContext": "profiling",
    "Timer": "timing",
    "benchmark_function": "timing",
    "create_visualization": "visualization",
    "get_metric_stats": "collector",
    "get_metrics_collector": "collector",
    "print_metrics_report": "collector",
    "profile": "profiling",
    "record_counter": "collector",
    "record_metric": "collector",
    "record_timing": "collector",
}
