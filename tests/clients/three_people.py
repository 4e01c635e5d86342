"""A release that three people make at the console, each at a node of their own: three_people.py URL URL URL PICTURES.

Dora edits and releases, Abe and Bea approve. After each part a line is printed, and one is read before it goes on:
meanwhile policies change, leaders die, and clients refuse what they get.
"""

import sys

from browser import Browser, hear, pictured, tell

FILE = "/ui/config/file?namespace=default&group=app&name=application.properties"
RELEASE = "form[action^='/ui/config/file/release']"
PLAN = {"step.0.percent": "10", "step.0.hold": "6s", "step.1.percent": "60", "step.1.hold": "1h", "step.2.percent": "100"}
WHY = "more for everybody"


def pause(word):
    tell(word)
    hear()


def comes_in(browsers, name, url):
    browsers.append(Browser(url))
    browsers[-1].sign_in(name, f"password of {name}")
    return browsers[-1]


def publish(dora, **more):
    dora.page.execute_script("arguments[0].checked = true", dora.one(f"{RELEASE} [value=steps]"))
    guards = {"guard.refused": "10", "guard.health": ""}
    dora.fill(RELEASE, {**PLAN, **guards}, release_name="more", **more)
    dora.press(f"{RELEASE} button.primary")


def held_back(browser):
    """True if the page says that a freeze is in force, and why."""
    fault = browser.one(".notice.fault").text
    return "(409002)" in fault and "year's end" in fault


def is_refused_in_the_freeze(dora):
    dora.open(FILE)
    dora.fill("form[data-keep]", text="v=new")
    dora.press("form[data-keep] button.primary")
    dora.expect("draft differs")
    publish(dora)
    assert held_back(dora), dora.text()
    for name, value in PLAN.items():
        assert dora.one(f"{RELEASE} [name='{name}']").get_property("value") == value, "what was typed is lost"


def asks(dora):
    dora.open(FILE)
    dora.comes("Request release…")
    publish(dora, request=WHY)
    dora.expect("Approval is asked for")
    find(dora)
    assert not dora.there("button[value=approve]"), "her own request"
    # She sends all the same what the button would.
    dora.page.execute_script("arguments[0].value = 'approve'", dora.one("button[value=withdraw]"))
    dora.press("button[value=approve]")
    assert "does not approve it" in dora.one(".notice.fault").text, dora.text()


def find(browser):
    """Opens the one request that waits, by the list."""
    browser.open("/ui/requests?state=open")
    browser.comes(WHY)
    browser.press("tbody th a")


def approve(browser, name):
    browser.fill("main form", comment=f"seen by {name}")
    browser.press("button[value=approve]")
    assert not browser.there(".notice.fault"), browser.text()
    browser.comes(f"{name}: seen by {name}")


def given(browser):
    return [row.text for row in browser.there("main ul li")]


def approves_twice(abe):
    find(abe)
    assert any("v=new" in line.text for line in abe.there(".diff .added")), abe.text()
    approve(abe, "abe")
    assert not abe.there("button[value=approve]"), "he has approved it"
    # He sends all the same what the button would.
    abe.page.execute_script("arguments[0].value = 'approve'", abe.one("button[value=refuse]"))
    approve(abe, "abe")
    assert given(abe) == ["abe: seen by abe"], abe.text()
    assert abe.one("h1 .badge").text == "open", abe.text()


def approves_too(bea):
    find(bea)
    approve(bea, "bea")
    assert given(bea) == ["abe: seen by abe", "bea: seen by bea"], bea.text()
    # Nothing is carried out in the freeze, by nobody.
    assert bea.one("h1 .badge").text == "approved", bea.text()
    assert not bea.there("button[value=run]"), "she approves, and releases nothing"


def cannot_run_it_yet(dora):
    dora.comes("bea: seen by bea", "approved 2 of 2; nothing is changed yet; it waits for the freeze")
    assert not dora.there("button[value=run]"), "nothing is carried out in a freeze"
    dora.page.execute_script("arguments[0].value = 'run'", dora.one("button[value=withdraw]"))
    dora.press("button[value=run]")
    assert held_back(dora), dora.text()


def runs_it(dora):
    dora.comes("approved 2 of 2; nothing is changed yet; somebody has to carry it out")
    dora.press("button[value=run]")
    dora.open(FILE)
    dora.comes("Rollout of more", "running", " / 3, next step at")


def main(*arguments):
    *urls, picture = arguments
    browsers = []
    with pictured(browsers, picture):
        dora, abe, bea = (comes_in(browsers, name, url) for name, url in zip(["dora", "abe", "bea"], urls))
        is_refused_in_the_freeze(dora)
        pause("frozen")
        asks(dora)
        pause("asked")
        approves_twice(abe)
        pause("one approval")
        approves_too(bea)
        cannot_run_it_yet(dora)
        pause("two approvals")
        runs_it(dora)
        pause("running")
        dora.comes("Rollout of more", "running", "60 %, step 2 / 3")
        pause("second step")
        dora.comes("Rollout of more", "stopped", "step 2 / 3: refused: ")
        dora.open(FILE + "#history")
        dora.expect("cluster stopped more")
        pause("stopped")
        dora.open("/ui/service?namespace=default&name=pay")
        dora.comes("isolated")
        states = {row.text.split()[0]: "isolated" in row.text for row in dora.there("section[aria-labelledby=instances] tbody tr")}
        assert states == {"10.0.0.1:8080": True, "10.0.0.2:8080": False}, states
        tell("done")


if __name__ == "__main__":
    main(*sys.argv[1:])
