/* One row a kind of destination. */
SONDE_PUSH(otlp)
SONDE_PUSH(remote_write)
SONDE_PUSH(pyroscope)
