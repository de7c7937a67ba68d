/* One row a format. */
SONDE_EXPORT(prometheus)
SONDE_EXPORT(openmetrics)
SONDE_EXPORT(protobuf)
SONDE_EXPORT(json)
SONDE_EXPORT(csv)
