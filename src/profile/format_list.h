/* One row a format. */
SONDE_FORMAT(pprof)
SONDE_FORMAT(folded)
SONDE_FORMAT(speedscope)
SONDE_FORMAT(chrome)
SONDE_FORMAT(perf_script)
SONDE_FORMAT(report_json)
