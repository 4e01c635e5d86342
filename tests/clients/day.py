"""A day of a person at the console, in a real browser: day.py URL PASSWORD PICTURES.

A line is printed after each part of the day; after "half" and "published" one is read before it goes on. With
THUBAN_IT_PICTURES, a folder, the page that docs/console.md shows is left there as a picture:
THUBAN_IT_PICTURES=$PWD/docs/images scripts/test --test it a_day
"""

import sys

from browser import Browser, hear, pictured, tell

LIMITED = """{"namespace": "shop", "name": "pay-limit", "service": "pay", "enable": true, "priority": 0,
"rules": [{"resource": "QPS", "arguments": [{"type": "HEADER", "key": "x", "value": {"type": "EXACT", "value": "1"}}],
"amounts": [{"maxAmount": %d, "validDuration": "1s"}]}]}"""


def rules(day):
    day.open("/ui/services")
    day.one("main details summary").click()
    day.fill("form[method=post][action='/ui/services']", namespace="shop", name="pay", owners="team-a")
    day.press("form[action='/ui/services'] button.primary")
    day.expect("shop / pay")
    day.open("/ui/rules/ratelimits/new?as=json")
    day.fill("form[data-keep]", text=LIMITED % 100)
    day.press("form[data-keep] button.primary")
    day.expect("Clients get nothing.")
    day.expect("Created.")
    rule = day.page.current_url[len(day.url):].split("?")[0]
    # What nobody can read is refused where it was typed.
    day.open(rule + "?as=json")
    day.fill("form[data-keep]", text="{")
    day.press("form[data-keep] button.primary")
    day.one(".notice.fault")
    assert day.one("textarea[name=text]").get_property("value").strip() == "{", "what was typed is lost"
    day.open("/ui/rules/ratelimits/explain?namespace=shop&service=pay&headers=x%3D1")
    released, saved = day.there(".two > section")
    assert "header x = 1 → limit 100 per 1 s" in saved.text and "applies pay-limit" in saved.text, day.text()
    assert "no rule of this family applies" in released.text and "pay-limit" not in released.text, day.text()
    release = f"form[action='{rule}/release']"
    day.open(rule)
    day.page.execute_script("arguments[0].checked = true", day.one(f"{release} [value=gray]"))
    day.fill(release, release_name="some", percent="10", comment="a tenth first")
    day.press(f"{release} button.primary")
    day.expect("10 % (CLIENT_IP)")
    day.press("button[value=promote]")
    day.expect("The same as what is in force")
    # In the form: one more condition and another amount; what is no number is refused beside its field.
    amount = "/rules/0/amounts/0/maxAmount"
    day.click("button[value='add:/rules/0/arguments']")
    day.fill("form[data-keep]", {"/rules/0/arguments/1/key": "y", amount: "many"})
    day.press("form[data-keep] button.primary")
    assert day.one("[aria-invalid=true]").get_attribute("name") == amount, day.text()
    assert day.one("[name='/rules/0/arguments/1/key']").get_property("value") == "y", "what was typed is lost"
    day.fill("form[data-keep]", {amount: "200"})
    day.press("form[data-keep] button.primary")
    day.expect("draft differs")
    day.open(rule + "#changes")
    assert "header y" in day.one(".diff").text, day.text()
    assert any("200" in line.text for line in day.there(".diff .added"))
    day.fill(release, release_name="more")
    day.press(f"{release} button.primary")
    day.expect("more v")
    day.open("/ui/rules/ratelimits/explain?namespace=shop&service=pay&path=/charge&headers=x%3D1")
    day.picture("explain", ".two")
    day.open(rule)
    day.press("button[value=rollback]")
    day.expect("draft differs")
    assert "more" not in day.one(".two .card .badge").text, "it is rolled back"


def files(day):
    day.open("/ui/config")
    day.one("main details summary").click()
    day.fill("form[method=post][action='/ui/config']", namespace="default", group="app", name="application.properties")
    day.press("form[method=post][action='/ui/config'] button.primary")
    day.expect("Nothing is in force yet")
    # A mistake is told of where one edits, and is not published.
    day.fill("form[data-keep]", text="number=1\nbad=\\u12")
    day.press("form[data-keep] button.primary")
    day.one(".notice.warn")
    day.press("form[action^='/ui/config/file/release'] button.primary")
    day.one(".notice.fault")
    day.fill("form[data-keep]", text="number=7\ngood=1")
    day.press("form[data-keep] button.primary")
    assert not day.there(".notice.warn, .notice.fault"), day.text()
    # Key by key: what is not touched stays as it was written.
    day.open(day.page.current_url[len(day.url):].split("&done")[0] + "&as=table")
    day.press("button[value='add:/pairs']")
    day.fill("form[data-keep]", {"/pairs/2/key": "added key", "/pairs/2/value": "by the table"})
    day.press("form[data-keep] button.primary")
    day.expect("Saved.")
    assert day.one("textarea[name=text]").get_property("value").strip() == "number=7\ngood=1\nadded\\ key=by the table", day.text()
    day.press("form[action^='/ui/config/file/release'] button.primary")
    day.expect("The same as what is in force")


def main(url, password, pictures):
    day = Browser(url)
    with pictured([day], pictures):
        day.sign_in("admin", password)
        day.open("/ui/edit/users")
        day.fill("form[data-keep]", {"/name": "eva", "/password": "a password of eva"})
        day.press("button[value='add:/grants']")
        day.fill("form[data-keep]", {"/grants/0/role": "reader", "/grants/0/namespace": "*", "/grants/0/name": "*"})
        day.press("form[data-keep] p.row button.primary")
        day.expect("reader * / *")
        rules(day)
        tell("half")
        hear()
        files(day)
        tell("published")
        hear()
        day.page.refresh()
        day.expect("1 / 1 current")
        day.open("/ui/audit?user=admin&kind=configfile")
        day.expect("default / app/application.properties")
        assert any("publish" in row.text for row in day.there("tbody tr")), day.text()
        file = "/ui/config/file?namespace=default&group=app&name=application.properties"
        day.press("form[action='/ui/sign-out'] button")
        day.sign_in("eva", "a password of eva")
        day.open(file)
        day.expect("The same as what is in force")
        assert not day.there("form[data-keep] button") and not day.there("button[value=withdraw]"), "a reader only reads"
        day.open("/ui/audit")
        day.one(".notice.fault")
        assert "configfile" not in day.text()
        tell("done")


if __name__ == "__main__":
    main(*sys.argv[1:])
