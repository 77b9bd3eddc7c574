"""How an attempt ends, in values: what a worker and a test of an app have in common. Pure."""
