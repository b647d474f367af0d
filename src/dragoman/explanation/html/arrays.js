/* Shared by the explanation page and the playground of the docs: arrays of numbers in base64. */

function bytes(text) {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

/* The numbers of a packed array. */
function unpack({ decimals, data: text, bits }) {
  const raw = bytes(text).buffer;
  const integers = bits === 32 ? new Int32Array(raw) : new Int16Array(raw);
  return { decimals, at: (index) => integers[index] / 10 ** decimals };
}
