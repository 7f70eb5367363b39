"""Language models from their configuration: throughput, memory, energy."""
