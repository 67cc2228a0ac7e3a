"""Settings that every test shares."""

from hypothesis import settings

# A deadline measures the machine and whatever else runs on it. A failing example prints what reproduces it.
settings.register_profile("shared", deadline=None, print_blob=True)
settings.load_profile("shared")
