"""Acts and loads of the main jobs at a rule, counted in a real browser: acts.py URL PASSWORD PICTURES.

An act is a click, or one field that is filled or chosen. A load is another document. A line is printed for each job.
Each job has bounds, which end the script.
"""

import sys

from selenium.common.exceptions import WebDriverException
from selenium.webdriver.support.ui import WebDriverWait

from browser import LIMIT, Browser, pictured, tell

LIMITED = "/ui/rules/ratelimits/limit"
NARROW = 390


class Hand:
    """Does what a person does, and counts it."""

    def __init__(self, browser):
        self.browser = browser
        self.begin()

    def begin(self):
        self.acts, self.loads, self.page = 0, 0, self.browser.one("html")

    def see(self):
        """Counts a load if the document is another one."""
        try:
            self.page.is_enabled()
        except WebDriverException:
            self.loads += 1
            self.page = self.browser.one("html")

    def act(self, selector, does, is_questioned=False):
        def is_done(_):
            try:
                self.see()
                field = next(one for one in self.browser.there(selector) if one.is_displayed())
                # Not below the line that stays in view.
                self.browser.page.execute_script("arguments[0].scrollIntoView({block: 'center'})", field)
                does(field)
                return True
            except (StopIteration, WebDriverException):
                return False

        WebDriverWait(self.browser.page, LIMIT).until(is_done, f"{selector} is not there")
        self.acts += 1
        if is_questioned:
            WebDriverWait(self.browser.page, LIMIT).until(lambda page: page.switch_to.alert).accept()
            self.acts += 1
        self.see()

    def click(self, selector):
        self.act(selector, lambda field: field.click())

    def confirm(self, selector):
        """Clicks, and says yes to the question that follows."""
        self.act(selector, lambda field: field.click(), is_questioned=True)

    def type(self, selector, text):
        self.act(selector, lambda field: (field.clear(), field.send_keys(text)))

    def shows(self, selector, *texts):
        def is_shown(_):
            self.see()
            try:
                found = " ".join(one.text for one in self.browser.there(selector))
            except WebDriverException:
                return False
            return all(text in found for text in texts)

        WebDriverWait(self.browser.page, LIMIT).until(is_shown, f"{texts!r} are not shown in {selector}")

    def ends(self, job, acts, loads):
        self.see()
        tell(f"{job}: {self.acts} acts, {self.loads} loads")
        assert self.acts <= acts and self.loads <= loads, f"{job}: at most {acts} acts and {loads} loads"


def one_condition(hand, name, number, loads_before):
    """One header condition on a rate limit, up to the words that say it, then saved."""
    condition = f"/rules/0/arguments/{number}"
    hand.browser.open(LIMITED)
    hand.begin()
    hand.click(".panels a[href='#edit']")
    hand.click("button[value='add:/rules/0/arguments']")
    hand.type(f"[name='{condition}/key']", name)
    hand.type(f"[name='{condition}/value/value']", "1")
    if loads_before == 0:
        hand.shows("#preview", f"header {name} = 1", "Enforced by: Envoy sidecar")
        assert hand.loads == 0, "no page is loaded before it is saved"
    hand.click("form[data-keep] p.row button.primary")
    hand.shows("main", "Saved.", f"header {name} = 1")
    hand.ends(f"one condition, {'with' if loads_before == 0 else 'without'} scripts", 6, loads_before + 1)


def new_route(hand):
    hand.browser.open("/ui/rules/routings/new?namespace=shop")
    hand.begin()
    hand.type("[name='/name']", "beta")
    hand.type("[name='/routing_config/callee/service']", "pay")
    hand.click("button[value='add:/routing_config/rules/0/arguments/arguments']")
    hand.type("[name='/routing_config/rules/0/arguments/arguments/0/key']", "x-beta")
    hand.type("[name='/routing_config/rules/0/arguments/arguments/0/value/value']", "1")
    label = "/routing_config/rules/0/destinations/0/labels/0"
    hand.type(f"[name='{label}/key']", "version")
    hand.type(f"[name='{label}/value/value']", "2")
    hand.shows("#preview", "Calls to shop/pay with header x-beta = 1 go to version=2")
    offered = [one.get_attribute("value") for one in hand.browser.there("#offer-labels option")]
    assert "version" in offered, offered
    assert hand.loads == 0
    hand.click("form[data-keep] button[name=then]")
    hand.shows("main", "Created.", "Release the draft")
    hand.ends("a new route", 8, 1)


def release_to_some(hand):
    hand.browser.open(LIMITED)
    hand.begin()
    hand.click(".bar a.primary")
    hand.click("[name=type][value=gray]")
    hand.type("[name=percent]", "10")
    hand.click(f"form[action='{LIMITED}/release'] button.primary")
    hand.shows("main", "10 % (CLIENT_IP)")
    hand.ends("release to some", 4, 1)
    hand.begin()
    hand.confirm(".bar button.primary[value=promote]")
    hand.shows("main", "The same as what is in force")
    hand.ends("promote to all, with the question", 2, 1)


def edit_outlives_an_act(hand):
    """What is typed is there again after another act on the same page."""
    amount = "[name='/rules/0/amounts/0/maxAmount']"
    hand.browser.open(LIMITED)
    hand.begin()
    hand.click(".panels a[href='#edit']")
    hand.type(amount, "9")
    hand.click(".panels a[href='#overview']")
    hand.confirm("#acts button[value=rollback]")
    hand.shows("main", "Done.")
    hand.click(".panels a[href='#edit']")
    hand.shows("main", "Your edit below is not saved yet.")
    WebDriverWait(hand.browser.page, LIMIT).until(lambda _: hand.browser.one(amount).get_property("value") == "9")
    hand.ends("an edit outlives an act", 6, 1)


def is_narrow(browser, path):
    browser.open(path)
    for part in ["", "#edit", "#releases"]:
        browser.page.execute_script("location.hash = arguments[0]", part)
        wide = browser.page.execute_script("return document.documentElement.scrollWidth")
        assert wide <= NARROW, f"{path}{part} is {wide} wide"
    bar = browser.there(".bar")
    assert not bar or bar[0].size["height"] == 48, bar[0].size


def main(url, password, pictures):
    browsers = [Browser(url)]
    with pictured(browsers, pictures):
        hand = Hand(browsers[0])
        browsers[0].sign_in("admin", password)
        one_condition(hand, "x-one", 0, 0)
        new_route(hand)
        release_to_some(hand)
        edit_outlives_an_act(hand)
        browsers.append(Browser(url, with_scripts=False))
        browsers[1].page.get(url + "/ui")
        plain = Hand(browsers[1])
        plain.type("[name=user]", "admin")
        plain.type("[name=password]", password)
        plain.click("button.primary")
        plain.shows("body", "Home")
        one_condition(plain, "x-two", 1, 1)
        narrow = browsers[0]
        narrow.page.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride", {"width": NARROW, "height": 844, "deviceScaleFactor": 1, "mobile": False}
        )
        file = "/ui/config/file?namespace=default&group=app&name=application.properties"
        new = [f"/ui/rules/{kind}/new" for kind in ["routings", "ratelimits", "circuitbreakers", "faultdetectors"]]
        for language in ["en", "zh"]:
            narrow.page.add_cookie({"name": "thuban_language", "value": language, "path": "/ui"})
            for path in [LIMITED, file, *new]:
                is_narrow(narrow, path)
        tell("done")


if __name__ == "__main__":
    main(*sys.argv[1:])
