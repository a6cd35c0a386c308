"""Clients of object storage, Triton and Prometheus. Each names itself in its errors."""
