"""Handles of several topics or partitions: each has a crew of producers or consumers, which are made one by one.

This folder knows `producing` and `consuming`, which do not know it.
"""
