"""A browser without a window, for pages that are tested as a reader sees them: Debian's chromium, by selenium."""
import contextlib
import json
import os
import shutil

import pytest

# What the page loses to the browser's own start is not its own: it is asked of a page that is open already.
ARGUMENTS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars")


@contextlib.contextmanager
def browser(width=1280, height=900, dark=False):
    """A driver of selenium; a test that asks for one is skipped where there is none."""
    webdriver = pytest.importorskip("selenium.webdriver")
    program, server = shutil.which("chromium"), shutil.which("chromedriver")
    if not (program and server):
        pytest.skip("no chromium, or no chromedriver")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for argument in (*ARGUMENTS, f"--window-size={width},{height}"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.chrome.service.Service(server))
    try:
        # A window cannot be as narrow as a telephone; what it shows can.
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                               {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]})
        yield driver
    finally:
        driver.quit()


def complaints(driver):
    """The messages of the console, which a page shall not have."""
    return [entry["message"] for entry in driver.get_log("browser")]


def requests(driver):
    """What the page asked for, as (address, why it was refused or None)."""
    asked, refused = {}, {}
    for entry in driver.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            asked[message["params"]["requestId"]] = message["params"]["request"]["url"]
        elif message["method"] == "Network.loadingFailed":
            refused[message["params"]["requestId"]] = message["params"].get("blockedReason", "failed")
    return [(address, refused.get(number)) for number, address in asked.items()]


def keep_picture(driver, name):
    """For who looks at it: the whole page, in the folder that PFW_PICTURES names."""
    if not os.environ.get("PFW_PICTURES"):
        return
    height = driver.execute_script("return document.documentElement.scrollHeight")
    width = driver.execute_script("return innerWidth")
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                           {"width": width, "height": min(height, 16000), "deviceScaleFactor": 1, "mobile": False})
    driver.save_screenshot(os.path.join(os.environ["PFW_PICTURES"], f"{name}.png"))
