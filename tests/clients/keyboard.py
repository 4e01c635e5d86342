"""Jobs at the console with the keyboard alone: keyboard.py URL CLIENTS PASSWORD PICTURE.

Signs in, skips the bar, opens and closes a menu, finds a service by search, makes another one, explains a request,
edits a rule and releases it to some and then to all, approves a request of somebody else, and disables a user after the question whether that is meant. No pointer is used,
and whatever has the focus shows it.
"""

import sys
import time

from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from browser import LIMIT, Browser, is_gone, pictured, tell
from pages import Api, fill, rules

STEPS_MAX = 150


class Typist(Browser):
    """A browser whose visitor has no pointer."""

    def press_keys(self, *keys):
        ActionChains(self.page).send_keys(*keys).perform()

    def press_with_control(self, key):
        ActionChains(self.page).key_down(Keys.CONTROL).send_keys(key).key_up(Keys.CONTROL).perform()

    def focused(self):
        return self.page.switch_to.active_element

    def is_at(self, selector):
        return self.page.execute_script("return document.activeElement.matches(arguments[0])", selector)

    def go_to(self, selector):
        """Presses Tab until this has the focus, which has to be visible."""
        for _ in range(STEPS_MAX):
            self.press_keys(Keys.TAB)
            if self.is_at(selector):
                shown = "const style = getComputedStyle(document.activeElement); return style.outlineStyle + style.outlineWidth"
                assert "none" not in self.page.execute_script(shown), f"{selector} does not show its focus"
                return
        raise AssertionError(f"no way by Tab to {selector}")

    def type_into(self, selector, text):
        self.go_to(selector)
        self.press_with_control("a")
        self.press_keys(text)

    def enter(self, key=Keys.ENTER):
        """Goes on once another page is there."""
        old = self.one("html")
        self.press_keys(key)
        WebDriverWait(self.page, LIMIT).until(lambda _: is_gone(old))
        self.one("main")

    def come(self, name, password):
        self.open("/ui/sign-in")
        if not self.is_at("[name=user]"):
            self.go_to("[name=user]")
        self.press_keys(name)
        self.type_into("[name=password]", password)
        self.enter()
        self.expect("Home")

    def leave(self):
        self.go_to("header .user > summary")
        self.press_keys(Keys.ENTER)
        self.go_to("form[action='/ui/sign-out'] button")
        self.enter()


def finds_the_way(typist):
    typist.open("/ui/services")
    typist.press_keys(Keys.TAB)
    assert typist.is_at(".skip"), "the first stop skips the bar"
    typist.press_keys(Keys.ENTER)
    assert typist.is_at("main"), "the focus is in the page"
    typist.open("/ui/services")
    typist.go_to("header nav .drop > summary")
    typist.press_keys(Keys.ENTER)
    typist.go_to("header nav .drop a[href='/ui/namespaces']")
    typist.press_keys(Keys.ESCAPE)
    assert typist.is_at("header nav .drop > summary") and not typist.there("header nav .drop[open]"), "the menu is closed"


def searches(typist):
    for press in (typist.press_keys, typist.press_with_control):
        typist.open("/ui/cluster")
        press("/" if press == typist.press_keys else "k")
        assert typist.is_at("#find"), f"{press.__name__} leads to the search"
    typist.press_keys("pay")
    typist.enter()
    typist.expect("pay-limit")
    assert typist.there(".find[data-current]") and not typist.there("header nav a[aria-current=page]"), "search is marked"
    typist.go_to("main a[href*='/ui/service?']")
    typist.enter()
    typist.expect("shop / pay")


def makes_a_service(typist):
    typist.open("/ui/services")
    typist.go_to("main details > summary")
    typist.press_keys(Keys.ENTER)
    typist.type_into("form[method=post] [name=namespace]", "shop")
    typist.type_into("form[method=post] [name=name]", "stock")
    typist.enter()
    typist.expect("shop / stock")


def explains(typist):
    typist.open("/ui/explain")
    typist.go_to("main details > summary")
    typist.press_keys(Keys.ENTER)
    typist.go_to("textarea[name=curl]")
    typist.press_keys("curl -H 'x-beta: 1' http://pay.shop/charge")
    typist.go_to("form[action='/ui/explain'][method=post] button")
    typist.enter()
    typist.expect("version=2")
    assert "x-beta%3D1" in typist.page.current_url, typist.page.current_url
    typist.type_into("main [name=service]", "cart")
    typist.enter()
    typist.expect("shop / cart")


def releases_a_rule(typist):
    """Another amount, saved, as a canary for a zone that is offered, then for all."""
    typist.open("/ui/rules/ratelimits?namespace=desk")
    typist.go_to("tbody th a")
    typist.enter()
    typist.go_to(".panels a[href='#edit']")
    typist.press_keys(Keys.ENTER)
    typist.type_into("[name='/rules/0/amounts/0/maxAmount']", "250")
    WebDriverWait(typist.page, LIMIT).until(lambda _: "250" in typist.one("#preview").text, "no preview")
    typist.go_to("form[data-keep] button[name=then]")
    typist.enter()
    typist.expect("Saved.")
    release = "form[action$='/release']"
    typist.go_to(f"{release} [name=type]")
    typist.press_keys(Keys.ARROW_DOWN)
    assert typist.is_at(f"{release} [name=type][value=gray]"), "an arrow key chooses"
    typist.type_into(f"{release} [name='label.0.key']", "zone")
    typist.type_into(f"{release} [name='label.0.value']", "a")
    typist.go_to(f"{release} > details > button")
    typist.enter()
    typist.expect("zone=a")
    typist.go_to(".bar button[value=promote]")
    old = typist.one("html")
    typist.press_keys(Keys.ENTER)
    WebDriverWait(typist.page, LIMIT).until(lambda page: page.switch_to.alert).accept()
    WebDriverWait(typist.page, LIMIT).until(lambda _: is_gone(old))
    typist.expect("The same as what is in force")
    typist.expect("250")


def approves(typist):
    typist.open("/ui/requests?state=open")
    typist.go_to("tbody th a")
    typist.enter()
    typist.go_to("button[value=approve]")
    typist.enter(Keys.SPACE)
    typist.expect("approved 1 of 1")


def disables(typist):
    typist.open("/ui/accounts")
    typist.go_to("button[value=disable]")
    row = typist.focused().find_element("xpath", "ancestor::tr").text.split()[0]
    typist.press_keys(Keys.ENTER)
    question = WebDriverWait(typist.page, LIMIT).until(lambda page: page.switch_to.alert)
    question.dismiss()
    assert typist.is_at("button[value=disable]"), "nothing was done"
    return row


def main(url, clients, password, picture):
    typist = Typist(url)
    with pictured([typist], picture):
        fill(url, clients, password)
        # No policy holds there.
        Api(url, password).post("/naming/v1/ratelimits", dict(rules()["ratelimits"], namespace="desk"))
        typist.come("admin", password)
        for job in (finds_the_way, searches, makes_a_service, explains, releases_a_rule, approves, disables):
            began = time.monotonic()
            job(typist)
            print(f"{job.__name__}: {time.monotonic() - began:.1f} s", file=sys.stderr)
        typist.open("/ui")
        typist.leave()
        assert typist.there("[name=password]"), "signed out"
        tell("done")


if __name__ == "__main__":
    main(*sys.argv[1:])
