"""The public API: the client and its handles, messages and their ids, options, policies, credentials, loggers."""
