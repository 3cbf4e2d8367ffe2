// What scrolls sideways can be scrolled by keys, too (WCAG 2.1.1); the theme wraps tables before the page has loaded.
function focusable() {
  for (const each of document.querySelectorAll(".md-typeset__scrollwrap"))
    if (each.scrollWidth > each.clientWidth) each.tabIndex = 0
    else each.removeAttribute("tabindex")
}
addEventListener("load", focusable)
addEventListener("resize", focusable)
