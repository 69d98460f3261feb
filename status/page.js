// Without this script the page loads itself again every few seconds. With it, the parts that have changed are replaced, times have their
// ages, and the streams can be filtered and sorted.
(() => {
  "use strict";
  const get = (id) => document.getElementById(id);
  document.documentElement.classList.add("js");

  const age = (seconds) => {
    const s = Math.max(0, Math.floor(seconds)), m = Math.floor(s / 60), h = Math.floor(m / 60);
    const units = (n, unit, rest, smaller) => `${n} ${unit}` + (rest ? ` ${rest} ${smaller}` : "");
    if (s < 60) return `${s} s`;
    if (m < 60) return `${m} min`;
    return h < 24 ? units(h, "h", m % 60, "min") : units(Math.floor(h / 24), "d", h % 24, "h");
  };
  let ahead = 0; // of this clock, in milliseconds
  const ages = () => {
    for (const t of document.querySelectorAll("time[data-suffix]")) {
      const text = age((Date.now() - ahead - Date.parse(t.dateTime)) / 1000) + t.dataset.suffix;
      if (t.textContent !== text) t.textContent = text;
    }
  };

  const filter = () => {
    const q = get("q").value.trim().toLowerCase(), wrong = get("wrong").checked;
    const rows = document.querySelectorAll("#table tbody tr");
    let shown = 0;
    for (const row of rows) {
      row.hidden = !row.dataset.search.includes(q) || (wrong && !("wrong" in row.dataset));
      shown += row.hidden ? 0 : 1;
    }
    const text = `${shown} of ${rows.length} shown`;
    if (get("shown").textContent !== text) get("shown").textContent = text;
  };
  get("filter").addEventListener("input", filter);
  get("filter").addEventListener("submit", (e) => e.preventDefault());

  // The table is sorted by the column that was clicked last; once more turns it round.
  let by = { column: -1, down: false };
  const value = (row) => {
    const cell = row.children[by.column], time = cell.querySelector("time"), text = cell.textContent;
    return time ? time.dateTime : /^[\d.,]+(\/s)?$/.test(text) ? parseFloat(text.replaceAll(",", "")) : text;
  };
  const compare = (a, b) => typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
  const sort = () => {
    document.querySelectorAll("#table thead th").forEach((th, i) => {
      if (!th.firstElementChild) {
        const button = document.createElement("button");
        button.type = "button";
        button.textContent = th.textContent;
        th.replaceChildren(button);
      }
      if (i === by.column) th.setAttribute("aria-sort", by.down ? "descending" : "ascending");
      else th.removeAttribute("aria-sort");
    });
    const body = document.querySelector("#table tbody");
    if (!body || by.column < 0) return;
    const rows = [...body.rows].map((row) => [value(row), row]).sort((a, b) => compare(a[0], b[0]));
    body.append(...(by.down ? rows.reverse() : rows).map(([, row]) => row));
  };
  get("table").addEventListener("click", (e) => {
    const th = e.target.closest("thead th");
    if (!th) return;
    by = { column: th.cellIndex, down: by.column === th.cellIndex && !by.down };
    sort();
    th.firstElementChild.focus();
  });
  sort();

  // The page has no ages, so it differs only if something has happened.
  let tag = "";
  const seen = {};
  const say = (text) => { if (get("live").textContent !== text) get("live").textContent = text; };
  const update = async () => {
    const answer = await fetch("/", { cache: "no-store", headers: tag ? { "If-None-Match": tag } : {} });
    if (answer.status !== 200 && answer.status !== 304) throw new Error(answer.statusText);
    const now = new Date(answer.headers.get("date"));
    ahead = Date.now() - now;
    get("asof").textContent = now.toISOString().slice(0, 19).replace("T", " ") + " UTC";
    if (answer.status === 304) return;
    tag = answer.headers.get("etag");
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    document.title = page.title;
    document.querySelector("link[rel=icon]").href = page.querySelector("link[rel=icon]").href;
    for (const id of ["headline", "problems", "past", "facts", "table", "slots", "notes"]) {
      const html = page.getElementById(id).innerHTML;
      if (seen[id] === html) continue;
      get(id).innerHTML = seen[id] = html;
      if (id === "table") { filter(); sort(); }
    }
    ages();
  };
  const follow = () => update().then(() => say(", live"), () => say(". No updates come: what you see may be old."))
    .finally(() => setTimeout(follow, 2000));
  follow();
  setInterval(ages, 1000);
})();
