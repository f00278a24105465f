"""What people ask for: plans, requests, the queue, cancellations, and how each of them ends."""
