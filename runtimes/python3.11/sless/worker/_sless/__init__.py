"""What the worker process is made of; the server shares `wire`."""
