"""The parts of ./run: servers, clients, the gateway, cases and verdicts."""
