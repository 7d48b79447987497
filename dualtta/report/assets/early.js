// Before anything is drawn: the theme that was chosen, else the system's.
(() => {
  let chosen = null;
  try { chosen = localStorage.getItem("dualtta-theme"); } catch { /* a browser that keeps nothing */ }
  const system = matchMedia("(prefers-color-scheme: dark)");
  const put = (theme) => { document.documentElement.dataset.theme = theme; };
  put(chosen || (system.matches ? "dark" : "light"));
  system.addEventListener("change", (event) => {
    let kept = null;
    try { kept = localStorage.getItem("dualtta-theme"); } catch { /* as above */ }
    if (!kept) { put(event.matches ? "dark" : "light"); dispatchEvent(new Event("theme")); }
  });
})();
