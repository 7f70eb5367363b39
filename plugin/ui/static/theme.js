// Bootstrap's dark colours where the reader's system is dark.
const dark = window.matchMedia("(prefers-color-scheme: dark)");
function follow() {
  document.documentElement.setAttribute("data-bs-theme", dark.matches ? "dark" : "light");
}
dark.addEventListener("change", follow);
follow();
