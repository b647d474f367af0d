/* Axes: round numbers for their ticks, and their texts. */

/* The unit of a time axis: the largest one in which the axis has more than two units. */
function timeUnit(seconds) {
  return [["h", 3600], ["min", 60], ["s", 1]].find(([, size]) => seconds > 2 * size) || ["s", 1];
}

function roundStep(range, count) {
  const rough = range / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  return power * [1, 2, 2.5, 5, 10].find((factor) => factor * power >= rough * 0.999);
}

/* Ticks at round numbers within low and high. */
function ticks(low, high, count) {
  const step = roundStep(high - low, count);
  const first = Math.ceil(low / step - 1e-9);
  const numbers = [];
  for (let index = first; index * step <= high + step * 1e-9; index += 1) numbers.push(index * step);
  return { numbers, step };
}

function tickText(value, step) {
  if (value === 0) return "0";
  if (Math.abs(value) >= 1e6) return `${Number((value / 1e6).toPrecision(4))} M`;
  if (step < 0.001) return value.toExponential(Math.max(0, exponentDigits(value, step))).replace("e-", "e−");
  const digits = clamp(Math.ceil(-Math.log10(step) - 1e-9), 0, 6);
  return value.toLocaleString("en-US", { minimumFractionDigits: 0, maximumFractionDigits: digits + (String(step).includes("25") ? 1 : 0) });
}

function exponentDigits(value, step) {
  const digits = Math.floor(Math.log10(Math.abs(value))) - Math.floor(Math.log10(step));
  return digits + (Math.abs(step / 10 ** Math.floor(Math.log10(step)) - 2.5) < 1e-6 ? 1 : 0);
}

/* The range of some values: a little larger than they are, and from zero if the chart says so. */
function valueRange(values, fromZero) {
  let low = Infinity;
  let high = -Infinity;
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  if (low > high) return [0, 1];
  if (fromZero) low = Math.min(low, 0);
  if (low === high) high = low + (Math.abs(low) || 1);
  const margin = 0.06 * (high - low);
  return [low >= 0 ? Math.max(fromZero ? 0 : low - margin, 0) : low - margin, high + margin];
}
