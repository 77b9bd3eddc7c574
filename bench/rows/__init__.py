"""The rows of the table: what each measures, and the questions it answers."""
