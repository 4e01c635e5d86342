"""Every page of the console, judged by axe-core: axe.py URL CLIENTS PASSWORD AXE PICTURE.

First the empty console, then one with an example of everything (pages.py), each as an administrator; the full one as a
releaser and a reader too. Each page is judged at 1280 and 390 pixels, light and dark, in English or Chinese by turns.
CLIENTS is the address that config clients read from, AXE the path of axe.min.js. Any violation ends the script with
status 1; all are printed. The name of each page is a line of the output.
"""

import sys

from browser import Browser, pictured, tell
from pages import PEOPLE, fill, pages

WIDTHS = {"1280": 1280, "390": 390}
# Of the dark scheme only colours are new.
RULES = {"light": None, "dark": ["color-contrast"]}
JUDGE = """
const [rules, done] = arguments;
const options = rules ? {runOnly: {type: "rule", values: rules}} : {};
axe.run(document, {...options, resultTypes: ["violations"]}).then(
  (found) => done(found.violations.map((one) => ({rule: one.id, help: one.help,
    nodes: one.nodes.map((node) => node.target.join(" ") + ": " + node.failureSummary.replace(/\\s+/g, " "))}))),
  (error) => done([{rule: "axe", help: String(error), nodes: []}]));
"""


class Judge(Browser):
    """A browser that changes its visitor, language, width and scheme without another session."""

    def __init__(self, url, axe):
        super().__init__(url)
        with open(axe, encoding="utf-8") as source:
            self.axe = source.read()
        self.sessions = {}
        self.page.set_script_timeout(120)

    def come_as(self, name, password):
        if name not in self.sessions:
            self.page.delete_all_cookies()
            self.open("/ui/sign-in")
            self.speak("en")
            self.sign_in(name, password)
            self.sessions[name] = self.page.get_cookie("thuban_session")["value"]
        self.page.delete_cookie("thuban_session")
        self.page.add_cookie({"name": "thuban_session", "value": self.sessions[name], "path": "/ui", "httpOnly": True})

    def speak(self, language):
        self.page.delete_cookie("thuban_language")
        self.page.add_cookie({"name": "thuban_language", "value": language, "path": "/ui"})

    def look(self, scheme, width, height=900):
        media = [{"name": "prefers-color-scheme", "value": scheme}, {"name": "prefers-reduced-motion", "value": "reduce"}]
        self.page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": media})
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def violations(self, path):
        """Those of a page, each with the way in which it was looked at."""
        self.open(path)
        self.one("main")
        self.page.execute_script(self.axe)
        # What is closed is judged too.
        self.page.execute_script("document.querySelectorAll('main details').forEach((one) => { one.open = true; })")
        found = []
        for scheme, rules in RULES.items():
            for width in WIDTHS.values():
                self.look(scheme, width)
                found += [(f"{scheme} {width}", one) for one in self.page.execute_async_script(JUDGE, rules)]
                wide = self.page.execute_script("return document.documentElement.scrollWidth - innerWidth")
                if wide > 0:
                    found.append((f"{scheme} {width}", {"rule": "sideways", "help": f"{wide} px wider than the window", "nodes": []}))
        self.look("light", 1280)
        return found


def judged(judge, who, named, languages=("en", "zh")):
    """Visits all pages; the language changes from page to page."""
    count = 0
    for number, (name, path) in enumerate(named.items()):
        language = languages[number % len(languages)]
        judge.speak(language)
        tell(f"{who}: {name}")
        for view, one in judge.violations(path):
            count += 1
            nodes = "".join(f"\n    {node}" for node in one["nodes"][:4])
            print(f"{who} {name} {path} {language} {view}: {one['rule']}: {one['help']}{nodes}", file=sys.stderr)
    return count


def main(url, clients, password, axe, picture):
    judge = Judge(url, axe)
    with pictured([judge], picture):
        judge.open("/ui/sign-in")
        faults = judged(judge, "nobody", {"sign-in": "/ui/sign-in", "signing in": "/ui/sign-in?to=/ui"})
        judge.come_as("admin", password)
        faults += judged(judge, "admin, empty", pages())
        api = fill(url, clients, password)
        everything = pages(api)
        judge.come_as("admin", password)
        faults += judged(judge, "admin", everything)
        faults += judged(judge, "admin", everything, ("zh", "en"))
        for name in PEOPLE:
            judge.come_as(name, f"password of {name}")
            faults += judged(judge, name, everything)
        if faults:
            raise SystemExit(f"{faults} violations, see above")
        tell("done")


if __name__ == "__main__":
    main(*sys.argv[1:])
