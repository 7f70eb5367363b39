"""``berth replay`` simulates past jobs; ``berth replay tune`` searches for a better policy on
them."""
