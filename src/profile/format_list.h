/* One row a format. The first whose probe says yes reads a file, so the least picky is last. */
SONDE_FORMAT(pprof)
SONDE_FORMAT(pprof_heap)
SONDE_FORMAT(perf_script)
SONDE_FORMAT(folded)
SONDE_FORMAT(speedscope)
SONDE_FORMAT(chrome)
SONDE_FORMAT(report_json)
SONDE_FORMAT(otlp_profile)
