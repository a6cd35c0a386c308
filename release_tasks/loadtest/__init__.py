"""Load test with Locust, in a process of its own: gevent patches the interpreter it runs in."""
