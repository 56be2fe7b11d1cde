"""The gate as a listener to a registry's webhooks."""
