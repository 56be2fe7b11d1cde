"""Access to the tracking store and the registry: connections, models, versions, digests."""
