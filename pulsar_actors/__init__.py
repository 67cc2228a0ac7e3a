"""An Apache Pulsar client: actors, explicit state machines, and Spark."""
