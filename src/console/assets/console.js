// What spares a key or a reload; every page works without it.

// "/" goes to the search, unless one is typing; Ctrl-K and Command-K always do.
document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, textarea, select");
  const command = event.ctrlKey || event.metaKey;
  if ((event.key === "/" && !typing && !command) || (event.key.toLowerCase() === "k" && command)) {
    event.preventDefault();
    document.getElementById("find")?.select();
  }
});

// On a phone rows are stacked, each cell with the heading of its column. They stay a table for screen readers.
for (const table of document.querySelectorAll(".wide table")) {
  const titles = [...table.querySelectorAll("thead th")].map((title) => title.textContent.trim());
  if (!titles.length) continue;
  table.classList.add("stack");
  table.setAttribute("role", "table");
  for (const row of table.rows) {
    row.setAttribute("role", "row");
    for (const [at, cell] of [...row.cells].entries()) {
      const heads = cell.tagName === "TH";
      cell.setAttribute("role", !heads ? "cell" : cell.scope === "col" ? "columnheader" : "rowheader");
      if (!heads && titles[at] && !cell.querySelector("form")) cell.dataset.label = titles[at];
    }
  }
  for (const part of [table.tHead, ...table.tBodies]) part.setAttribute("role", "rowgroup");
}

// A choice that is complete is sent at once.
for (const select of document.querySelectorAll("select[data-submit]")) {
  select.addEventListener("change", () => select.form.requestSubmit());
}

// An open menu closes by a click elsewhere and by Escape.
const drops = () => document.querySelectorAll("header details.drop[open]");
document.addEventListener("click", (event) => {
  for (const drop of drops()) if (!drop.contains(event.target)) drop.open = false;
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  for (const drop of drops()) {
    drop.open = false;
    drop.querySelector("summary").focus();
  }
});

// The local time of an event is in its title, beside UTC.
for (const time of document.querySelectorAll("time[datetime]")) {
  time.title = `${new Date(time.dateTime).toLocaleString(document.documentElement.lang)} (${time.title})`;
}

// What cannot be taken back is asked about once more.
document.addEventListener("submit", (event) => {
  const question = event.submitter?.dataset.confirm;
  if (question && !window.confirm(question)) event.preventDefault();
});

// What was done is told once, also where the page is loaded again.
const here = new URL(location.href);
if (here.searchParams.has("done")) {
  here.searchParams.delete("done");
  history.replaceState(null, "", here);
}

// Numbers beside the lines of an editor.
for (const area of document.querySelectorAll(".editor textarea")) {
  const numbers = area.parentElement.querySelector(".numbers");
  const show = () => {
    const lines = area.value.split("\n").length;
    const faulty = new Set((area.dataset.faulty ?? "").split(",").map(Number));
    const shown = `${lines}:${area.dataset.faulty ?? ""}`;
    if (numbers.dataset.shown !== shown) {
      const number = (_, line) => (faulty.has(line + 1) ? `\u26a0 ${line + 1}` : line + 1);
      numbers.textContent = Array.from({ length: lines }, number).join("\n");
      numbers.dataset.shown = shown;
    }
    numbers.scrollTop = area.scrollTop;
  };
  area.addEventListener("input", show);
  area.addEventListener("scroll", show);
  new ResizeObserver(() => { numbers.style.height = `${area.offsetHeight}px`; show(); }).observe(area);
  show();
}

// Once nobody types for a moment, a text is checked, and lines with faults are marked.
for (const form of document.querySelectorAll("form[data-check]")) {
  const area = form.querySelector(".editor textarea");
  const place = document.createElement("div");
  form.before(place);
  let waits = 0;
  let asked = 0;
  const check = async () => {
    const turn = ++asked;
    const answer = await fetch(form.dataset.check, { method: "POST", body: new URLSearchParams(new FormData(form)) });
    if (!answer.ok || turn !== asked) return;
    const { faults } = await answer.json();
    document.querySelectorAll(".told").forEach((told) => told.remove());
    for (const fault of faults) {
      const told = place.appendChild(document.createElement("p"));
      told.className = "notice warn told";
      told.setAttribute("role", "status");
      told.textContent = fault;
    }
    area.dataset.faulty = faults.map((fault) => /\bline (\d+)/.exec(fault)?.[1] ?? 0).join(",");
    area.dispatchEvent(new Event("scroll"));
  };
  form.addEventListener("input", () => { clearTimeout(waits); waits = setTimeout(check, 600); });
}

// The current tab is the one whose panel the address names.
const tabs = [...document.querySelectorAll(".panels a[href^='#']")];
const mark = () => {
  const panel = location.hash && document.querySelector(".panel:has(:target)");
  if (!panel) return;
  for (const tab of tabs) {
    const place = document.getElementById(tab.hash.slice(1));
    tab.setAttribute("aria-current", panel.contains(place) ? "page" : "false");
  }
};
window.addEventListener("hashchange", mark);
mark();

// A form of sentences grows, and its words follow, without loading the page.
for (const form of document.querySelectorAll("form[data-sentence]")) {
  let turn = 0;
  let waits = 0;
  const ask = async (edit, part) => {
    const body = new URLSearchParams(new FormData(form));
    body.set("edit", edit);
    body.set("part", part);
    const own = ++turn;
    const answer = await fetch(form.getAttribute("action"), { method: "POST", body, redirect: "error" }).catch(() => null);
    if (own !== turn) return "";
    return answer?.ok ? answer.text() : null;
  };
  // Returns false if the browser has to send the form itself.
  const draw = async (edit, shown) => {
    clearTimeout(waits);
    const text = await ask(edit, "form");
    if (text === null) return false;
    if (text === "") return true;
    const open = [...form.querySelectorAll("#sheet details")].map((one) => one.open);
    const focused = document.activeElement?.getAttribute("name");
    form.querySelector("#sheet").outerHTML = text;
    const details = form.querySelectorAll("#sheet details");
    if (details.length === open.length) open.forEach((is, number) => { details[number].open ||= is; });
    const part = shown && document.getElementById(shown);
    const field = part ? part.querySelector("input:not([type=hidden]), select, button") : null;
    (field ?? (focused && form.elements.namedItem(focused)))?.focus?.();
    return true;
  };
  form.addEventListener("submit", async (event) => {
    const button = event.submitter;
    if (button?.name !== "edit" || button.dataset.plain) return;
    event.preventDefault();
    const shown = decodeURIComponent(new URL(button.formAction).hash.slice(1));
    if (await draw(button.value, shown)) return;
    button.dataset.plain = "yes";
    form.requestSubmit(button);
  });
  // Shows what was typed before another page was loaded.
  form.restored = async (typed) => {
    typed.set("form_token", form.elements.namedItem("form_token").value);
    typed.set("edit", "redraw");
    typed.set("part", "form");
    const answer = await fetch(form.getAttribute("action"), { method: "POST", body: typed, redirect: "error" }).catch(() => null);
    if (answer?.ok) form.querySelector("#sheet").outerHTML = await answer.text();
  };
  form.addEventListener("change", (event) => { if ("redraw" in event.target.dataset) draw("redraw", ""); });
  form.addEventListener("input", () => {
    clearTimeout(waits);
    waits = setTimeout(async () => {
      const text = await ask("preview", "preview");
      if (text) form.querySelector("#preview").outerHTML = text;
    }, 300);
  });
}

// Rows are added without loading the page.
document.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-clone]");
  const rows = button ? [...button.form.querySelectorAll(`[data-row=${button.dataset.clone}]`)] : [];
  if (!rows.length) return;
  event.preventDefault();
  const next = rows.at(-1).cloneNode(true);
  for (const field of next.querySelectorAll("input")) {
    field.name = field.name.replace(/\d+/, rows.length);
    field.value = "";
  }
  rows.at(-1).after(next);
  next.querySelector("input").focus();
});

// What was refused is where one goes on.
document.querySelector("[aria-invalid=true]")?.focus();

// What was typed is not lost by a wrong click, nor by an act elsewhere on the page: it is put back afterwards.
for (const form of document.querySelectorAll("form[data-keep]")) {
  let changed = false;
  const field = (name) => form.elements.namedItem(name);
  const key = `${form.getAttribute("action")} ${field("as")?.value ?? "form"}`;
  form.addEventListener("input", () => { changed = true; });
  form.addEventListener("submit", (event) => { changed = event.submitter?.name === "edit"; });
  window.addEventListener("beforeunload", (event) => { if (changed) event.preventDefault(); });
  if (!form.dataset.keep) continue;
  window.addEventListener("submit", (event) => {
    if (!changed || event.target === form || event.defaultPrevented) return;
    try {
      sessionStorage.setItem(key, new URLSearchParams(new FormData(form)).toString());
      changed = false;
    } catch {
      // Too long to be stored: the browser asks before it leaves.
    }
  });
  const stored = sessionStorage.getItem(key);
  if (stored === null) continue;
  sessionStorage.removeItem(key);
  const typed = new URLSearchParams(stored);
  const put = "sentence" in form.dataset ? form.restored?.(typed) : field("text");
  if (!put) continue;
  if (put === field("text")) {
    put.value = typed.get("text");
    put.dispatchEvent(new Event("input", { bubbles: true }));
  }
  changed = true;
  const notice = document.createElement("p");
  notice.className = "notice warn";
  notice.setAttribute("role", "status");
  notice.textContent = form.dataset.keep;
  form.before(notice);
}
