/* One row a probe. */
SONDE_PROBE(host)
SONDE_PROBE(process)
SONDE_PROBE(gpu)
