"""Messages and services of the wire contract, generated from proto/ by `make gen`. Never edited."""
