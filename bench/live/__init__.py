"""The outage scripts of bench.sim, played for real: `python -m bench.live --script hard-down`."""
