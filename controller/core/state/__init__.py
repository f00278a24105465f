"""The parts of the view, by lifetime: each module names the event that ends its facts."""
