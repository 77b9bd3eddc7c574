"""The worker service: claims tasks of one region, runs their handlers, settles the outcome."""
