"""Real processes for measurements: started, watched, and gone afterwards."""
