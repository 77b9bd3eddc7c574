"""Measurements. Figures are ratios of medians taken side by side in one run."""
