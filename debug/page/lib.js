// What all views use: elements, numbers with units, keys of any bytes, and requests.

// h makes an element. Text goes in as text nodes only, so a key can't become markup.
export function h(tag, props, ...children) {
  return fill(document.createElement(tag), props, children);
}

// s makes an element of SVG.
export function s(tag, props, ...children) {
  return fill(document.createElementNS('http://www.w3.org/2000/svg', tag), props, children);
}

function fill(el, props, children) {
  for (const [name, value] of Object.entries(props || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) el.addEventListener(name.slice(2), value);
    else if (name === 'vars') for (const [k, v] of Object.entries(value)) el.style.setProperty(k, v);
    else if (name === 'value' && 'value' in el) el.value = value;
    else el.setAttribute(name, value === true ? '' : value);
  }
  add(el, children);
  return el;
}

function add(el, children) {
  for (const c of children.flat(Infinity)) {
    if (c === null || c === undefined || c === false) continue;
    el.append(c instanceof Node ? c : document.createTextNode(String(c)));
  }
}

// put replaces what el has, unless it was built of the same model: what somebody selects or points at
// stays while the page is live.
const models = new WeakMap();
export function put(el, model, build) {
  const text = JSON.stringify(model);
  if (models.get(el) === text) return;
  models.set(el, text);
  el.replaceChildren();
  add(el, [build()]);
}

// Numbers. The space before a unit doesn't break.
const nbsp = '\u00a0';

function three(x) {
  const a = Math.abs(x);
  return x.toFixed(a >= 100 || a === 0 ? 0 : a >= 10 ? 1 : 2);
}

export function bytes(n) {
  if (!Number.isFinite(n)) return '–';
  if (Math.abs(n) < 1000) return `${Math.round(n)}${nbsp}B`;
  let i = -1;
  do { n /= 1000; i++; } while (Math.abs(n) >= 999.5 && i < 4);
  return `${three(n)}${nbsp}${'kMGTP'[i]}B`;
}

export function count(n) {
  if (!Number.isFinite(n)) return '–';
  const a = Math.abs(n);
  if (a >= 999.5e3) {
    let i = -1;
    do { n /= 1000; i++; } while (Math.abs(n) >= 999.5 && i < 4);
    return `${three(n)}${nbsp}${'kMGTP'[i]}`;
  }
  if (a !== 0 && a < 10 && n !== Math.round(n)) return n.toFixed(a < 0.1 ? 2 : 1);
  return Math.round(n).toString().replace(/\B(?=(\d{3})+$)/g, '\u202f');
}

// whole is an exact number, with thin spaces, which don't break.
export function whole(n) {
  return String(n).replace(/\B(?=(\d{3})+$)/g, '\u202f');
}

export function duration(seconds) {
  if (!Number.isFinite(seconds)) return '–';
  if (seconds === 0) return `0${nbsp}s`;
  const a = Math.abs(seconds);
  if (a < 0.9995e-6) return `${three(seconds * 1e9)}${nbsp}ns`;
  if (a < 0.9995e-3) return `${three(seconds * 1e6)}${nbsp}µs`;
  if (a < 0.9995) return `${three(seconds * 1e3)}${nbsp}ms`;
  if (a < 60) return `${three(seconds)}${nbsp}s`;
  if (a < 3600) return `${Math.floor(seconds / 60)}${nbsp}min${seconds % 60 >= 1 && a < 600 ? ` ${Math.floor(seconds % 60)}${nbsp}s` : ''}`;
  if (a < 86400) return `${Math.floor(seconds / 3600)}${nbsp}h${seconds % 3600 >= 60 ? ` ${Math.floor(seconds % 3600 / 60)}${nbsp}min` : ''}`;
  return `${Math.floor(seconds / 86400)}${nbsp}d${seconds % 86400 >= 3600 ? ` ${Math.floor(seconds % 86400 / 3600)}${nbsp}h` : ''}`;
}

export function percent(x) {
  if (!Number.isFinite(x)) return '–';
  const p = x * 100;
  return `${p > 0 && p < 0.1 ? '<0.1' : p >= 10 || p === 0 ? p.toFixed(0) : p.toFixed(1)}${nbsp}%`;
}

export function ago(ms, now = Date.now()) {
  const seconds = Math.max(0, (now - ms) / 1000);
  return seconds < 2 ? 'just now' : seconds < 60 ? `${Math.floor(seconds)}${nbsp}s ago` : `${duration(Math.floor(seconds))} ago`;
}

export function clock(ms) {
  return new Date(ms).toLocaleTimeString([], { hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' });
}

export function moment(ms) {
  return new Date(ms).toISOString().replace('T', ' ').replace(/\.000Z$/, 'Z');
}

export function things(n, one, many = one + 's') {
  return `${count(n)}${nbsp}${n === 1 ? one : many}`;
}

// Bytes and base64url.
export function unbase(text) {
  const bin = atob((text || '').replace(/-/g, '+').replace(/_/g, '/'));
  return Uint8Array.from(bin, c => c.charCodeAt(0));
}

export function base(data) {
  let bin = '';
  for (let i = 0; i < data.length; i += 4096) bin += String.fromCharCode(...data.subarray(i, i + 4096));
  return btoa(bin).replace(/\+/g, '-').replace(/\//g, '_').replace(/=+$/, '');
}

// pieces divides bytes into text that can be shown as it is, and escapes. Controls, marks that turn
// text around, and all that is invisible are escaped, and so is what is not UTF-8.
// With ignoreBOM a byte order mark stays: it is a character like any other here.
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
const shown = /^[\p{L}\p{M}\p{N}\p{P}\p{S} ]$/u;
export function pieces(data) {
  const out = [];
  const push = (text, esc) => {
    const last = out[out.length - 1];
    if (last && last.esc === esc) last.text += text;
    else out.push({ text, esc });
  };
  for (let i = 0; i < data.length;) {
    const n = runeLength(data, i);
    if (n > 0) {
      const text = decoder.decode(data.subarray(i, i + n));
      if (text === '\\') push('\\\\', true);
      else if (shown.test(text)) push(text, false);
      else if (n === 1) push(hex(data[i]), true);
      else push(`\\u{${text.codePointAt(0).toString(16)}}`, true);
      i += n;
    } else {
      push(hex(data[i++]), true);
    }
  }
  return out;
}

function hex(b) {
  return '\\x' + b.toString(16).padStart(2, '0');
}

function runeLength(d, i) {
  const b = d[i];
  if (b < 0x80) return 1;
  const n = b >= 0xf0 && b < 0xf5 ? 4 : b >= 0xe0 ? 3 : b >= 0xc2 ? 2 : 0;
  if (n === 0 || b >= 0xf5 || i + n > d.length) return 0;
  try {
    decoder.decode(d.subarray(i, i + n));
    return n;
  } catch {
    return 0;
  }
}

// plain is a key as text with escapes: what parse reads.
export function plain(data) {
  return pieces(data).map(p => p.text).join('');
}

// parse reads text with escapes \xNN, \u{N} and \\.
export function parse(text) {
  const out = [];
  const encoder = new TextEncoder();
  const escape = /\\x([0-9a-fA-F]{2})|\\u\{([0-9a-fA-F]{1,6})\}|\\\\/y;
  for (let i = 0; i < text.length;) {
    escape.lastIndex = i;
    const m = escape.exec(text);
    if (m) {
      if (m[1]) out.push(parseInt(m[1], 16));
      else if (m[2]) out.push(...encoder.encode(String.fromCodePoint(Math.min(parseInt(m[2], 16), 0x10ffff))));
      else out.push(0x5c);
      i += m[0].length;
      continue;
    }
    const c = String.fromCodePoint(text.codePointAt(i));
    out.push(...encoder.encode(c));
    i += c.length;
  }
  return Uint8Array.from(out);
}

// key shows bytes as an element. A long key is cut.
export function key(data, most = 400) {
  const cut = data.length > most;
  const list = pieces(cut ? data.subarray(0, most) : data);
  return h('code', { class: 'key' },
    data.length === 0 ? h('span', { class: 'faint' }, '(empty)') : list.map(p => p.esc ? h('span', { class: 'esc' }, p.text) : p.text),
    cut ? h('span', { class: 'faint' }, ` … ${bytes(data.length)}`) : null);
}

// short is a key as short text, for labels in drawings.
export function short(data, most = 28) {
  const text = plain(data.subarray(0, most * 4)) || '(empty)';
  return text.length > most ? text.slice(0, most - 1) + '…' : text;
}

export function keyspaceName(data) {
  return data.length === 0 ? 'default' : short(data, 60);
}

// Requests.
export class Failure extends Error {
  constructor(text, code) {
    super(text);
    this.code = code;
  }
}

function address(path, params) {
  const q = new URLSearchParams();
  for (const [k, v] of Object.entries(params || {})) {
    if (v !== null && v !== undefined) q.set(k, v instanceof Uint8Array ? base(v) : v);
  }
  const text = q.toString();
  return text ? `${path}?${text}` : path;
}

async function answer(response) {
  let body;
  try {
    body = await response.json();
  } catch {
    throw new Failure(`the server answered ${response.status}`, 'failed');
  }
  if (!response.ok) throw new Failure(body.error || `the server answered ${response.status}`, body.code || 'failed');
  return body;
}

export async function get(path, params, signal) {
  let response;
  try {
    response = await fetch(address(path, params), { signal });
  } catch (err) {
    if (err.name === 'AbortError') throw err;
    throw new Failure('the server does not answer', 'offline');
  }
  return answer(response);
}

export async function post(path, params, signal) {
  let response;
  try {
    response = await fetch(address(path, params), { method: 'POST', headers: { 'X-Brock-Action': '1' }, signal });
  } catch (err) {
    if (err.name === 'AbortError') throw err;
    throw new Failure('the server does not answer', 'offline');
  }
  return answer(response);
}

export function listen(path, params, on) {
  const source = new EventSource(address(path, params));
  for (const [name, fn] of Object.entries(on)) {
    if (name !== 'error') source.addEventListener(name, e => fn(JSON.parse(e.data)));
  }
  source.addEventListener('error', () => on.error && on.error(source.readyState === EventSource.CLOSED));
  return source;
}

// link is the address of a view.
export function link(view, params) {
  return '#' + address(`/${view}`, params);
}

export function go(view, params) {
  location.hash = link(view, params);
}

export function failed(err) {
  return h('p', { class: 'failed' }, err.message || String(err));
}

// tip shows text at the pointer.
const tipBox = document.getElementById('tip');
export function tip(event, ...content) {
  if (!event) {
    tipBox.hidden = true;
    return;
  }
  tipBox.replaceChildren();
  add(tipBox, content);
  tipBox.hidden = false;
  const box = tipBox.getBoundingClientRect();
  const x = Math.min(event.clientX + 14, innerWidth - box.width - 8);
  const y = event.clientY + 18 + box.height > innerHeight ? event.clientY - box.height - 10 : event.clientY + 18;
  tipBox.style.setProperty('left', `${Math.max(8, x)}px`);
  tipBox.style.setProperty('top', `${Math.max(8, y)}px`);
}
