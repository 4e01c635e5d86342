"""A person at the console, in a real browser: pages are opened, filled and judged by what they show.

A script of a day prints a line after each of its parts, and after some of them reads one before it goes on. Whatever a
page does not show in time ends the day, with a picture of it.
"""

import os
import sys
from contextlib import contextmanager

from selenium import webdriver
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select, WebDriverWait

LIMIT = 40


class Browser:
    """One for each person, with cookies of its own."""

    def __init__(self, url, with_scripts=True):
        self.url = url
        options = webdriver.ChromeOptions()
        if not with_scripts:
            options.add_experimental_option("prefs", {"profile.managed_default_content_settings.javascript": 2})
        for flag in ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1280,1000", "--lang=en"]:
            options.add_argument(flag)
        options.binary_location = "/usr/bin/chromium"
        self.page = webdriver.Chrome(options=options, service=webdriver.ChromeService("/usr/bin/chromedriver"))
        self.page.set_page_load_timeout(LIMIT)

    def open(self, path):
        self.page.get(self.url + path)

    def one(self, selector):
        """The first that is there, waited for."""
        return WebDriverWait(self.page, LIMIT).until(lambda page: page.find_element(By.CSS_SELECTOR, selector))

    def there(self, selector):
        return self.page.find_elements(By.CSS_SELECTOR, selector)

    def fill(self, form, fields=None, **more):
        for name, value in {**(fields or {}), **more}.items():
            field = self.one(f"{form} [name='{name}']")
            if field.tag_name == "select":
                Select(field).select_by_visible_text(value)
            else:
                self.page.execute_script("arguments[0].value = arguments[1]", field, value)

    def press(self, selector):
        """Goes on once another page is there."""
        self.go_on(selector)
        self.one("main")

    def go_on(self, selector):
        """Goes on once this page is left, maybe for another site."""
        button, old = self.one(selector), self.one("html")
        self.page.execute_script("window.confirm = () => true; arguments[0].click()", button)
        WebDriverWait(self.page, LIMIT).until(lambda _: is_gone(old))

    def click(self, selector):
        """Presses what changes the page that is there."""
        self.page.execute_script("arguments[0].click()", self.one(selector))

    def expect(self, text):
        WebDriverWait(self.page, LIMIT).until(lambda page: text in self.text(), f"{text!r} is not shown")

    def comes(self, *texts):
        """Opens the page anew until it shows all of them: what was done through another node arrives a moment later."""

        def shown(page):
            page.get(page.current_url)
            return all(text in self.text() for text in texts)

        WebDriverWait(self.page, LIMIT).until(shown, f"{texts!r} are not shown")

    def text(self):
        return self.one("body").text

    def picture(self, name, selector):
        """What the documentation shows of this page from there on, if somebody asks for it."""
        folder = os.environ.get("THUBAN_IT_PICTURES")
        if folder:
            self.page.set_window_size(1040, 860)
            self.page.execute_script("document.querySelectorAll('.two details').forEach(one => one.open = true)")
            self.page.execute_script("arguments[0].scrollIntoView()", self.one(selector))
            self.page.save_screenshot(os.path.join(folder, name + ".png"))
            self.page.set_window_size(1280, 1000)

    def sign_in(self, name, password):
        self.open("/ui")
        self.fill("form", user=name, password=password)
        self.press("button.primary")
        self.expect("Home")


def is_gone(element):
    try:
        element.is_enabled()
        return False
    except WebDriverException:
        return True


def tell(word):
    print(word, flush=True)


def hear():
    if not sys.stdin.readline():
        raise SystemExit("nobody listens")


@contextmanager
def pictured(browsers, picture):
    """Closes the browsers at the end, which is told with a picture of each if it is a bad one."""
    try:
        yield
    except BaseException:
        for number, browser in enumerate(browsers):
            browser.page.save_screenshot(picture.replace(".png", f"-{number}.png"))
            print(browser.page.current_url, browser.text(), file=sys.stderr)
        raise
    finally:
        for browser in browsers:
            browser.page.quit()
