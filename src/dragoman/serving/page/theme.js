/* Sets the color theme before the page is drawn. Only the choice of theme is stored. */

(() => {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");

  function stored() {
    try {
      return localStorage.getItem("theme");
    } catch {
      return null; // Storage is switched off.
    }
  }

  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);

  const choice = stored();
  if (choice === "dark" || choice === "light") root.dataset.theme = choice;

  document.addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme-button");
    const show = () => button.setAttribute("aria-pressed", String(isDark()));
    show();
    system.addEventListener("change", show);
    button.addEventListener("click", () => {
      const theme = isDark() ? "light" : "dark";
      root.dataset.theme = theme;
      show();
      try {
        localStorage.setItem("theme", theme);
      } catch {
        // The choice lasts until the page is closed.
      }
    });
  });
})();
