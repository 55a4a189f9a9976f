// Keys: browse both ways, versions of a key, values, and what differs between two versions.
import { h, put, get, post, bytes, whole, count, ago, moment, things, unbase, base, plain, parse, key, keyspaceName, link, go, failed } from './lib.js';
import { hexRows, diffRows } from './diff.js';

export function open(main, params, live) {
  const at = {
    ks: unbase(params.get('ks')), prefix: unbase(params.get('prefix')),
    from: params.has('from') ? unbase(params.get('from')) : null, before: params.has('before') ? unbase(params.get('before')) : null,
    end: params.get('end') || null, key: params.has('key') ? unbase(params.get('key')) : null,
  };
  const here = extra => ({ ks: at.ks.length ? at.ks : null, prefix: at.prefix.length ? at.prefix : null, ...extra });
  const list = h('div', { class: 'keys' }), detail = h('aside', { class: 'detail', 'aria-label': 'Key' });
  const prefix = h('input', { type: 'text', value: plain(at.prefix), placeholder: 'prefix, \\x00 for bytes', 'aria-label': 'Prefix', spellcheck: 'false', autocapitalize: 'off', autocomplete: 'off' });
  const bar = h('form', { class: 'toolbar', onsubmit: e => {
    e.preventDefault();
    at.prefix = parse(prefix.value);
    go('keys', here());
  } }, keyspacePicker(at.ks, name => go('keys', { ks: name.length ? name : null })), prefix, h('button', {}, 'Go'),
  h('a', { class: 'button quiet', href: link('sizes', here()) }, 'Sizes'), h('a', { class: 'button quiet', href: link('heat', at.ks.length ? { ks: at.ks } : {}) }, 'Heat'));
  main.append(bar, h('div', { class: 'split' }, list, detail));
  let rows = null, over = false;

  async function look() {
    try {
      let p = await get('keys', here({ from: at.from, before: at.before, end: at.end }));
      if (p.keys.length === 0 && p.before) p = await get('keys', here({ end: at.before ? 'first' : 'last' }));
      if (over) return;
      rows = p;
      showList(p);
    } catch (err) {
      if (!over) list.replaceChildren(failed(err));
    }
  }

  function showList(p) {
    const first = p.keys.length ? unbase(p.keys[0].key) : null;
    const last = p.keys.length ? unbase(p.keys[p.keys.length - 1].key) : null;
    const behind = last ? Uint8Array.from([...last, 0]) : null;
    const step = (text, label, params) => h('a', { class: `button quiet ${params ? '' : 'off'}`, href: params ? link('keys', here(params)) : null, 'aria-label': label, 'aria-disabled': params ? null : 'true' }, text);
    const steps = h('div', { class: 'steps' }, step('⇤', 'First', p.before ? {} : null), step('←', 'Back', p.before && first ? { before: first } : null),
      step('→', 'On', p.behind ? { from: behind } : null), step('⇥', 'Last', p.behind ? { end: 'last' } : null),
      h('span', { class: 'faint' }, `version ${whole(p.version)}`));
    const expires = p.keys.some(r => r.expires);
    const body = p.keys.length === 0 ? h('p', { class: 'hint empty' }, at.prefix.length ? 'No key begins with this.' : 'There are no keys here.')
      : h('table', { class: 'list' }, h('thead', {}, h('tr', {}, h('th', {}, 'key'), h('th', { class: 'num' }, 'value'), h('th', { class: 'num wide' }, 'version'), expires ? h('th', { class: 'wide' }, 'expires') : null)),
        h('tbody', {}, p.keys.map(r => {
          const k = unbase(r.key);
          const chosen = at.key && base(at.key) === r.key;
          return h('tr', { class: chosen ? 'chosen' : '' }, h('td', { class: 'grow' }, h('a', { href: link('keys', here({ from: at.from, before: at.before, end: at.end, key: k })) }, key(k))),
            h('td', { class: 'num' }, bytes(r.size)), h('td', { class: 'num wide soft' }, whole(r.version)), expires ? h('td', { class: 'wide soft' }, r.expires ? moment(r.expires) : '') : null);
        })));
    list.replaceChildren(steps, body, p.keys.length > 20 ? steps.cloneNode(true) : '');
  }

  look();
  if (at.key) showKey(detail, at, live, look, here({ from: at.from, before: at.before, end: at.end }));
  else detail.hidden = true;
  return { close() { over = true; } };
}

// keyspacePicker opens a list with a search: there may be ten thousand.
export function keyspacePicker(now, choose) {
  const panel = h('div', { class: 'panel', hidden: true });
  const button = h('button', { type: 'button', class: 'picker', 'aria-haspopup': 'listbox' }, h('small', {}, 'keyspace'), h('b', {}, keyspaceName(now)));
  const search = h('input', { type: 'search', placeholder: 'find a keyspace', 'aria-label': 'Find a keyspace', spellcheck: 'false', autocapitalize: 'off' });
  const rows = h('div', { class: 'options', role: 'listbox' });
  const box = h('div', { class: 'pickbox' }, button, panel);
  panel.append(search, rows);
  let asked = 0;
  async function look(after) {
    const n = ++asked;
    try {
      const text = parse(search.value);
      const p = await get('keyspaces', { contains: text.length ? text : null, after: after || null, limit: 50 });
      if (n !== asked) return;
      if (!after) rows.replaceChildren();
      else rows.lastChild.remove();
      rows.append(...p.keyspaces.map(k => {
        const name = unbase(k.name);
        return h('button', { type: 'button', role: 'option', class: 'option', onclick: () => { panel.hidden = true; choose(name); } },
          h('span', { class: 'grow' }, name.length ? key(name, 120) : 'default'), h('span', { class: 'faint' }, `${bytes(k.bytes)}`));
      }));
      if (p.more) rows.append(h('button', { type: 'button', class: 'option more', onclick: () => look(unbase(p.keyspaces[p.keyspaces.length - 1].name)) }, `more of ${whole(p.total)}`));
      else if (p.total === 0) rows.append(h('p', { class: 'hint' }, 'none'));
    } catch (err) {
      rows.replaceChildren(failed(err));
    }
  }
  button.addEventListener('click', () => {
    panel.hidden = !panel.hidden;
    if (!panel.hidden) {
      look();
      search.focus();
    }
  });
  search.addEventListener('input', () => look());
  search.addEventListener('keydown', e => { if (e.key === 'Enter') e.preventDefault(); });
  box.addEventListener('keydown', e => { if (e.key === 'Escape') { panel.hidden = true; button.focus(); } });
  box.addEventListener('focusout', e => { if (e.relatedTarget && !box.contains(e.relatedTarget)) panel.hidden = true; });
  return box;
}

// showKey shows the versions of a key.
async function showKey(el, at, live, changed, back) {
  const name = at.key, ks = at.ks.length ? at.ks : null;
  const versions = h('div'), value = h('div', { class: 'valuebox' }), acts = h('div', { class: 'acts' });
  el.hidden = false;
  el.replaceChildren(h('a', { class: 'close', href: link('keys', back), 'aria-label': 'Close' }, '×'),
    h('h2', { class: 'keyname' }, key(name, 2000)), h('p', { class: 'faint' }, `${things(name.length, 'byte')} in ${ks ? keyspaceName(ks) : 'the default keyspace'}`), versions, acts, value);
  if (matchMedia('(max-width: 760px)').matches) el.scrollIntoView({ block: 'start' });
  let picked = [], all = [];
  async function look(before) {
    try {
      const p = await get('history', { ks, key: name, before: before || null });
      all = before ? all.concat(p.versions) : p.versions;
      show(p.more);
    } catch (err) {
      versions.replaceChildren(failed(err));
    }
  }
  function show(more) {
    if (all.length === 0) {
      versions.replaceChildren(h('p', { class: 'hint' }, 'No version of this key is kept.'));
      return;
    }
    const values = live.state && live.state.allowed.values;
    const meta = all.some(v => v.meta), expires = all.some(v => v.expires), times = all.some(v => v.by);
    const pick = v => {
      picked = picked.includes(v) ? picked.filter(x => x !== v) : [...picked, v].slice(-2);
      for (const box of versions.querySelectorAll('input')) box.checked = picked.includes(Number(box.value));
      compare.classList.toggle('off', picked.length !== 2);
      compare.disabled = picked.length !== 2;
    };
    const compare = h('button', { type: 'button', class: 'quiet off', disabled: true, onclick: () => showDiff(value, ks, name, Math.min(...picked), Math.max(...picked)) }, 'Compare two');
    versions.replaceChildren(h('h3', {}, things(all.length, 'version') + (more ? ' and more' : '')),
      h('table', { class: 'list' }, h('thead', {}, h('tr', {}, values && all.length > 1 ? h('th', {}) : null, h('th', { class: 'num' }, 'version'), times ? h('th', { class: 'num', title: 'A commit has no time of its own: the store notes the time at each flush, compaction and the like' }, 'written before') : null, h('th', { class: 'num' }, 'value'), meta ? h('th', { class: 'num' }, 'meta') : null, expires ? h('th', {}, 'expires') : null, h('th', {}))),
        h('tbody', {}, all.map(v => h('tr', {}, values && all.length > 1 ? h('td', {}, v.deleted ? '' : h('input', { type: 'checkbox', value: v.version, 'aria-label': `compare version ${v.version}`, onchange: () => pick(v.version) })) : null,
          h('td', { class: 'num' }, whole(v.version)), times ? h('td', { class: 'num soft', title: v.by ? moment(v.by) : null }, v.by ? ago(v.by) : '–') : null, h('td', { class: 'num' }, v.deleted ? h('span', { class: 'chip' }, 'deleted') : bytes(v.size)), meta ? h('td', { class: 'num soft' }, v.meta ? `0x${v.meta.toString(16)}` : '') : null,
          expires ? h('td', { class: 'soft' }, v.expires ? (v.expires < Date.now() ? `expired ${ago(v.expires)}` : moment(v.expires)) : '') : null,
          h('td', { class: 'end' }, values && !v.deleted ? h('button', { type: 'button', class: 'quiet', onclick: () => showValue(value, ks, name, v.version, 0) }, 'Show') : ''))))),
      h('div', { class: 'acts' }, more ? h('button', { type: 'button', class: 'quiet', onclick: () => look(all[all.length - 1].version) }, 'Older') : null, values && all.length > 1 ? compare : null),
      values ? '' : h('p', { class: 'hint' }, 'Values are hidden: the program has not given ', h('code', {}, 'debug.Values'), '.'));
    acts.replaceChildren();
    if (live.state && live.state.allowed.actions.includes('delete') && !all[0].deleted) acts.append(deleteButton(ks, name, all[0].version, () => { changed(); look(); }));
  }
  // What is allowed comes with the stream: a page that is opened at a key may be ahead of it.
  if (!live.state) {
    try {
      live.state = await get('state');
    } catch (err) {
      versions.replaceChildren(failed(err));
      return;
    }
  }
  look();
}

function deleteButton(ks, name, version, done) {
  const out = h('span', { class: 'faint' });
  let sure = false;
  const button = h('button', { type: 'button', class: 'quiet danger' }, 'Delete');
  button.addEventListener('click', async () => {
    if (!sure) {
      sure = true;
      button.textContent = 'Really delete it';
      setTimeout(() => { sure = false; button.textContent = 'Delete'; }, 4000);
      return;
    }
    try {
      await post('action', { do: 'delete', ks, key: name, version });
      done();
    } catch (err) {
      out.className = 'failed';
      out.textContent = err.message;
    }
  });
  return h('p', { class: 'act' }, button, out);
}

const part = 4096;

async function showValue(el, ks, name, version, offset) {
  try {
    const v = await get('value', { ks, key: name, version, offset, limit: part });
    const data = unbase(v.data);
    const steps = v.size > part ? h('div', { class: 'steps' },
      h('button', { type: 'button', class: 'quiet', disabled: offset === 0, onclick: () => showValue(el, ks, name, version, Math.max(0, offset - part)) }, '←'),
      h('span', { class: 'faint' }, `bytes ${whole(offset)} to ${whole(offset + data.length)} of ${whole(v.size)}`),
      h('button', { type: 'button', class: 'quiet', disabled: offset + data.length >= v.size, onclick: () => showValue(el, ks, name, version, offset + part) }, '→')) : '';
    const forms = [];
    if (v.decoded !== undefined) forms.push(['decoded', () => h('pre', { class: 'value' }, JSON.stringify(v.decoded, null, 2))]);
    const text = asText(data);
    if (text !== null && offset === 0 && data.length === v.size) {
      const json = asJSON(text);
      if (json !== null) forms.push(['JSON', () => h('pre', { class: 'value' }, json)]);
    }
    if (text !== null) forms.push(['text', () => h('pre', { class: 'value' }, text)]);
    forms.push(['bytes', () => hexView(data, offset)]);
    const box = h('div'), tabs = h('div', { class: 'tabs' });
    const choose = i => {
      box.replaceChildren(forms[i][1]());
      [...tabs.children].forEach((b, j) => b.setAttribute('aria-pressed', i === j));
    };
    forms.forEach((f, i) => tabs.append(h('button', { type: 'button', class: 'quiet', onclick: () => choose(i) }, f[0])));
    choose(0);
    el.replaceChildren(h('h3', {}, `Value of version ${whole(v.version)}`), tabs, v.undecoded ? h('p', { class: 'failed' }, `The decoder: ${v.undecoded}`) : '', steps, box,
      h('button', { type: 'button', class: 'quiet', onclick: () => el.replaceChildren() }, 'Hide'));
  } catch (err) {
    el.replaceChildren(failed(err));
  }
}

// asText returns text if all bytes are, but for a rune that is cut at the end.
export function asText(data) {
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(data, { stream: true });
    return /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/.test(text) ? null : text;
  } catch {
    return null;
  }
}

function asJSON(text) {
  if (!/^\s*[[{]/.test(text)) return null;
  try {
    JSON.parse(text);
    return indent(text);
  } catch {
    return null;
  }
}

// indent lays JSON out without reading numbers: those above 2^53 would change.
function indent(text) {
  let out = '', depth = 0;
  const line = () => '\n' + '  '.repeat(depth);
  for (const [token] of text.matchAll(/"(?:[^"\\]|\\.)*"|[[\]{}:,]|[^\s[\]{}:,"]+/g)) {
    if (token === '{' || token === '[') {
      depth++;
      out += token + line();
    } else if (token === '}' || token === ']') {
      depth--;
      out = /[[{]\s*$/.test(out) ? out.trimEnd() + token : out + line() + token;
    } else if (token === ',') out += token + line();
    else if (token === ':') out += ': ';
    else out += token;
  }
  return out;
}

function hexView(data, offset) {
  return h('pre', { class: 'value hex' }, hexRows(data, offset).join('\n') || '(empty)');
}

// showDiff shows what differs between two versions: by lines of text, or by rows of bytes.
async function showDiff(el, ks, name, older, newer) {
  try {
    const limit = 65536;
    const [a, b] = await Promise.all([get('value', { ks, key: name, version: older, limit }), get('value', { ks, key: name, version: newer, limit })]);
    const lines = v => {
      const data = unbase(v.data);
      if (v.decoded !== undefined) return JSON.stringify(v.decoded, null, 2).split('\n');
      const text = asText(data);
      return text === null ? null : (asJSON(text) ?? text).split('\n');
    };
    const la = lines(a), lb = lines(b);
    const isText = la !== null && lb !== null;
    const rows = isText ? diffRows(la, lb) : diffRows(hexRows(unbase(a.data), 0), hexRows(unbase(b.data), 0));
    const cut = a.size > limit || b.size > limit;
    el.replaceChildren(h('h3', {}, `Version ${whole(older)} → ${whole(newer)}`),
      rows.every(r => r.kind === 'same') ? h('p', { class: 'hint' }, 'The values are equal.') : '',
      cut ? h('p', { class: 'hint' }, `The first ${bytes(limit)} of both.`) : '',
      h('pre', { class: `value diff ${isText ? '' : 'hex'}` }, fold(rows).map(r => h('span', { class: r.kind }, (r.kind === 'add' ? '+ ' : r.kind === 'del' ? '− ' : '  ') + r.text + '\n'))),
      h('button', { type: 'button', class: 'quiet', onclick: () => el.replaceChildren() }, 'Hide'));
  } catch (err) {
    el.replaceChildren(failed(err));
  }
}

// fold leaves out what is equal and far from a difference.
function fold(rows) {
  const near = rows.map(() => false);
  rows.forEach((r, i) => { if (r.kind !== 'same') for (let j = Math.max(0, i - 3); j <= Math.min(rows.length - 1, i + 3); j++) near[j] = true; });
  const out = [];
  let left = 0;
  rows.forEach((r, i) => {
    if (near[i]) {
      if (left) out.push({ kind: 'skip', text: `… ${count(left)} equal` });
      left = 0;
      out.push(r);
    } else left++;
  });
  if (left) out.push({ kind: 'skip', text: `… ${count(left)} equal` });
  return out;
}
