"""The measuring half of ipfs_kit_py's names, by sonde. IPFS itself is what a daemon or a kit of the
program's own does: see ipfs_kit.py."""
