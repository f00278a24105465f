"""The cluster: its brokers, and the inter-broker protocol that requests follow."""
