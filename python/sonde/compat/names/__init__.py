"""Not imported as a package: sonde.compat puts this folder into sys.path."""
