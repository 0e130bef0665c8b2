"""The server process of the Python runtime."""
