"""The embedded stack: the real components on one machine, owned by supervisord."""
