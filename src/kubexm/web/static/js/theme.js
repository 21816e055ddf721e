// Before anything is drawn: the theme somebody chose here, or else the system's. A classic script, so that it comes first.
(() => {
  const chosen = localStorage.getItem("kubexm.theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
