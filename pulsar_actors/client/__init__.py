"""What users hold: the client and its handles, messages and their ids, options, policies, credentials, loggers."""
