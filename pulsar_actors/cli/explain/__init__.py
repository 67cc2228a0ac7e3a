"""The page that explains a saved history: a sequence diagram, and what the names in it mean."""
