"""Brokers under fire: real faults while a recorded load runs, and its history held against the promises afterwards.

python -m tests.chaos --help
"""
