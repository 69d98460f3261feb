// Without this script everything works too. With it, times have this browser's time as a title, and a click copies a command.
(() => {
  "use strict";
  for (const t of document.querySelectorAll("time")) t.title = new Date(t.dateTime).toLocaleString();
  for (const code of document.querySelectorAll(".command code")) {
    const copy = document.createElement("button");
    copy.type = "button";
    copy.textContent = "Copy";
    copy.addEventListener("click", () => navigator.clipboard.writeText(code.textContent).then(() => { copy.textContent = "Copied"; }));
    code.after(" ", copy);
  }
})();
