// What spares a key or a reload; every page works without it.

// "/" goes to the search, unless one is typing.
document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, textarea, select");
  if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) {
    event.preventDefault();
    document.getElementById("find")?.focus();
  }
});

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
    if (Number(numbers.dataset.lines) !== lines) {
      numbers.textContent = Array.from({ length: lines }, (_, line) => line + 1).join("\n");
      numbers.dataset.lines = lines;
    }
    numbers.scrollTop = area.scrollTop;
  };
  area.addEventListener("input", show);
  area.addEventListener("scroll", show);
  new ResizeObserver(() => { numbers.style.height = `${area.offsetHeight}px`; show(); }).observe(area);
  show();
}

// What was refused is where one goes on.
document.querySelector("[aria-invalid=true]")?.focus();

// What was typed is not lost by a wrong click.
for (const form of document.querySelectorAll("form[data-keep]")) {
  let changed = false;
  form.addEventListener("input", () => { changed = true; });
  form.addEventListener("submit", () => { changed = false; });
  window.addEventListener("beforeunload", (event) => { if (changed) event.preventDefault(); });
}
