"""The parts of ./run: servers, clients, the gateway, cases and how they are judged."""
