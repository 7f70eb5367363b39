"""What a package can add to Berth: an objective, a collector, a scheduler and a family."""
