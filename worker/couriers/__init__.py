"""The parts of a courier: where a task may go, how fast tasks may leave, and how one is carried."""
