"""The tracking store and registry, as far as several parts use them: connections, models, versions, digests."""
