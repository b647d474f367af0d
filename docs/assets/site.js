// Tables and equations that scroll can be reached with the Tab key. Each table has a name of its own, and the buttons of
// code blocks are no landmarks: a page may have many of them.
const regions = ".md-typeset__scrollwrap:not([tabindex]), math[display=block]:not([tabindex])";
let tableCount = 0;

function makeReachable() {
  for (const region of document.querySelectorAll(regions)) {
    region.setAttribute("tabindex", "0");
    if (region.localName === "div") {
      tableCount += 1;
      region.setAttribute("role", "region");
      region.setAttribute("aria-label", `Table ${tableCount}`);
    }
  }
  for (const buttons of document.querySelectorAll("nav.md-code__nav:not([role])")) buttons.setAttribute("role", "group");
}

new MutationObserver(makeReachable).observe(document.body, { childList: true, subtree: true });
makeReachable();

// The frame of the playground is as high as its content.
for (const frame of document.querySelectorAll("iframe.playground")) {
  const fit = () => {
    const body = frame.contentDocument && frame.contentDocument.body;
    if (!body) return;
    new ResizeObserver(() => { frame.style.height = `${body.scrollHeight + 4}px`; }).observe(body);
  };
  frame.addEventListener("load", fit);
  if (frame.contentDocument && frame.contentDocument.readyState === "complete") fit();
}

// Long paths in tables break after a slash or an underscore, and nowhere else.
for (const code of document.querySelectorAll(".md-typeset td code")) {
  const parts = code.textContent.split(/(?<=[/_])/);
  if (parts.length > 1 && !code.children.length) {
    code.replaceChildren(...parts.flatMap((part, index) => (index ? [document.createElement("wbr"), part] : [part])));
  }
}
