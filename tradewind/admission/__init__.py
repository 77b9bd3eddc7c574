"""What may be submitted, and what makes two submits the same task. Pure."""
