"""Connections of clients: commands in, calls of the model, answers out. One file for each family of commands."""
