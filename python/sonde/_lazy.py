"""Which module of this package has a name that `sonde.NAME` finds on first use. Importing sonde itself
takes two milliseconds, and is to stay so."""

NAMES: dict[str, str] = {
    "Run": "run",
    "ml": "ml",             # itself
    "wrap_fs": "wrap",
    "wrap_iter": "wrap",
}
