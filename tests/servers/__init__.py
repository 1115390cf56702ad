"""Real servers on loopback, a file each: started by the tests that use them, and stopped."""

import socket


def free_port():
    """One that nobody listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]
