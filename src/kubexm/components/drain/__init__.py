"""Taking nodes out of service: what a drain does, the steps, and how they are planned around some work."""
