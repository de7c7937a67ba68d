/* One row a command, in the order `sonde help` shows them. */
SONDE_COMMAND(run)
SONDE_COMMAND(serve)
SONDE_COMMAND(ls)
SONDE_COMMAND(top)
SONDE_COMMAND(export)
SONDE_COMMAND(doctor)
SONDE_COMMAND(help)
