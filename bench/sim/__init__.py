"""A discrete-event simulation of routing: the product's own decisions in a world of our making."""
