"""A server that runs the gate on a registry's webhooks."""
