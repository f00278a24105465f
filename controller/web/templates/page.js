// Refreshes the parts of the page in place; without this script the browser loads the page again.
"use strict";
const main = document.querySelector("main[data-refresh]");
async function refresh() {
  if (document.hidden) return;
  const answer = await fetch(location.href, { headers: { Accept: "text/html" }, cache: "no-store" });
  if (answer.status === 401) location.reload();
  if (!answer.ok) throw new Error(answer.status);
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  // Another page, as the daemon leads now or leads no longer: its parts are other ones.
  if (fresh.querySelector("main")?.dataset.page !== main.dataset.page) return location.reload();
  for (const part of main.querySelectorAll("[data-part]")) {
    const next = fresh.getElementById(part.id);
    // A part with the focus stays: it is being read or filled in.
    if (next && !part.contains(document.activeElement) && part.innerHTML !== next.innerHTML)
      part.innerHTML = next.innerHTML;
  }
}
if (main)
  setInterval(() => {
    refresh().then(
      () => (document.getElementById("offline").hidden = true),
      () => (document.getElementById("offline").hidden = false),
    );
  }, 1000 * main.dataset.refresh);
