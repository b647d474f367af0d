// Tables and equations that scroll can be reached with the Tab key.
const regions = ".md-typeset__scrollwrap:not([tabindex]), math[display=block]:not([tabindex])";

function makeReachable() {
  for (const region of document.querySelectorAll(regions)) {
    region.setAttribute("tabindex", "0");
    if (region.localName === "div") {
      region.setAttribute("role", "region");
      region.setAttribute("aria-label", "Table");
    }
  }
}

new MutationObserver(makeReachable).observe(document.body, { childList: true, subtree: true });
makeReachable();
