"""Tasks in Redis: keys, scripts, and the ports on top of them. See region_store.py."""
