"""A real browser without a window: Debian's Chromium and its driver."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

ARGUMENTS = ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-background-networking")


@contextmanager
def open_browser(width: int, height: int) -> Iterator[Any]:
    """Open it for the block."""
    from selenium import webdriver  # noqa: PLC0415 - only what uses a browser needs it
    from selenium.webdriver.chrome.service import Service  # noqa: PLC0415 - the same

    options = webdriver.ChromeOptions()
    for argument in (*ARGUMENTS, f"--window-size={width},{height}"):
        options.add_argument(argument)
    options.binary_location = _needed("chromium")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(_needed("chromedriver")))
    try:
        yield driver
    finally:
        driver.quit()


def _needed(program: str) -> str:
    path = shutil.which(program)
    assert path is not None, f"{program} is not installed: these tests need Debian's chromium and chromium-driver"
    return path
