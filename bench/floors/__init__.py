"""Floors: the least that the machine allows, without a product around it."""
