/* Shared by the explanation page and the dashboard: the colors of attention maps. */

/* ---- colors: one hue from light to strong, so that color-blind readers see the same order ---- */

const dark = window.matchMedia("(prefers-color-scheme: dark)");
const COLOR_STOPS = {
  light: ["#f7f9fb", "#cfe0ef", "#8fbadd", "#3f86bf", "#14568f", "#06264a"],
  dark: ["#161d24", "#1b3a55", "#235f8f", "#3f90c9", "#8fcbf5", "#f1f9ff"],
};
const MASKED_COLOR = { light: [226, 228, 230], dark: [44, 50, 57] };
const scheme = () => (dark.matches ? "dark" : "light");

/* A function from a weight to red, green and blue. The square root makes small weights visible. */
function colorScale() {
  const stops = COLOR_STOPS[scheme()].map((stop) =>
    [1, 3, 5].map((from) => parseInt(stop.slice(from, from + 2), 16)));
  return (weight) => {
    const at = Math.sqrt(clamp(weight, 0, 1)) * (stops.length - 1);
    const low = Math.min(Math.floor(at), stops.length - 2);
    return stops[low].map((from, channel) => Math.round(from + (at - low) * (stops[low + 1][channel] - from)));
  };
}

function paintMap(canvas, view, head) {
  canvas.width = view.columns;
  canvas.height = view.rows;
  const context = canvas.getContext("2d");
  const image = context.createImageData(view.columns, view.rows);
  const color = colorScale();
  for (let row = 0; row < view.rows; row += 1) {
    for (let column = 0; column < view.columns; column += 1) {
      const rgb = view.isVisible(row, column) ? color(view.weight(head, row, column)) : MASKED_COLOR[scheme()];
      image.data.set([...rgb, 255], 4 * (row * view.columns + column));
    }
  }
  context.putImageData(image, 0, 0);
}

function legend() {
  const canvas = element("canvas", { width: 100, height: 1, "aria-hidden": "true" });
  const context = canvas.getContext("2d");
  const color = colorScale();
  for (let x = 0; x < 100; x += 1) {
    context.fillStyle = `rgb(${color((x / 99) ** 2).join(" ")})`;
    context.fillRect(x, 0, 1, 1);
  }
  return element("div", { className: "legend" }, "0 %", canvas, "100 %",
    element("span", {}, "square-root scale: 25 % is in the middle; gray is masked"));
}
