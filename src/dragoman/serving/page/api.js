/* Requests to the API of this server. The key lives in the storage of this tab. */

const KEY = "dragoman-key";
let keyInMemory = "";

/** A request that the server refused, or that did not reach it. */
export class ApiError extends Error {
  constructor(kind, message, retrySeconds = 0) {
    super(message);
    this.kind = kind;
    this.retrySeconds = retrySeconds;
  }
}

export function currentKey() {
  try {
    return sessionStorage.getItem(KEY) ?? "";
  } catch {
    return keyInMemory; // Storage is switched off.
  }
}

export function setKey(key) {
  keyInMemory = key;
  try {
    if (key) sessionStorage.setItem(KEY, key);
    else sessionStorage.removeItem(KEY);
  } catch {
    // The key lasts until the page is closed.
  }
}

async function send(path, options = {}) {
  const headers = new Headers(options.headers);
  const key = currentKey();
  if (key) headers.set("Authorization", `Bearer ${key}`);
  let response;
  try {
    response = await fetch(`v1/${path}`, { ...options, headers, cache: "no-store", credentials: "omit" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("unreachable", "The server does not answer.");
  }
  if (response.ok) return response;
  let detail = null;
  try {
    detail = (await response.json()).error;
  } catch {
    // A proxy may answer with something else.
  }
  const retrySeconds = Number(response.headers.get("Retry-After")) || 0;
  const error = new ApiError(
    detail?.kind ?? "internal",
    detail?.message ?? `The server answered with status ${response.status}.`,
    retrySeconds,
  );
  if (response.status === 401) document.dispatchEvent(new CustomEvent("key-needed", { detail: error }));
  throw error;
}

export async function get(path) {
  return (await send(path)).json();
}

export async function post(path, body, signal) {
  const headers = { "Content-Type": "application/json" };
  return (await send(path, { method: "POST", headers, body: JSON.stringify(body), signal })).json();
}

/** Upload a file with the fields of a form. */
export async function upload(path, form) {
  return (await send(path, { method: "POST", body: form })).json();
}

const secretHeader = (secret) => ({ headers: { "Document-Secret": secret } });

export async function documentStatus(job) {
  return (await send(`documents/${job.id}`, secretHeader(job.secret))).json();
}

export async function documentResult(job) {
  return (await send(`documents/${job.id}/result`, secretHeader(job.secret))).blob();
}
