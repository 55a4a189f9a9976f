// The files of the store as a map.
import { h, put, get, bytes, whole, percent, ago, things, failed } from './lib.js';
import { Treemap } from './treemap.js';

// groups are the kinds of files, in the order in which a reader asks for them.
export const groups = {
  run: ['Runs', 'keys in order, with small values'],
  value: ['Value segments', 'large values'],
  journal: ['Journal', 'what was written last, with large values'],
  forwarding: ['Forwarding tables', 'where moved values are now'],
  feed: ['Change feed', 'only Watch reads them'],
  kept: ['Leaving or new', 'open readers keep them, or they are being written'],
  other: ['Manifest, keys and locks', ''],
};

const others = [[/^MANIFEST/, 'log of which files make up the store'], [/^SUPER$/, 'names the manifest'], [/^LOCK$/, 'lock of the process that writes'], [/^KEYS/, 'data keys, wrapped by the master key']];

// about says in words what a file is for.
function about(f) {
  if (f.tier) {
    const place = f.tier === 'base' ? 'the base, below all others' : f.tier === 'upper' ? 'as a flush wrote it' : `tier ${f.tier.slice(4)} of 255`;
    return `run ${f.run}, ${place}: ${things(f.entries, 'entry', 'entries')}, versions ${whole(f.minVersion)} to ${whole(f.maxVersion)}`;
  }
  if (f.use === 'unflushed') return 'not yet in a run: the next open reads it';
  if (f.use === 'entries' && f.entries > 0) return things(f.entries, 'value');
  const other = others.find(([name]) => name.test(f.name));
  return f.group === 'other' ? (other ? other[1] : 'not a file of the store') : groups[f.group][1];
}

export function fileItems(files) {
  return files.map(f => ({
    size: f.bytes, label: f.name, brief: f.name.replace(/^0+(\d+)\..*$/, '$1'), sub: bytes(f.bytes), kind: `file-${f.group}`, part: f.bytes > 0 ? Math.min(1, (f.dead || 0) / f.bytes) : 0,
    tip: () => [h('b', {}, f.name), h('div', {}, about(f)),
      pair('size', bytes(f.bytes)), f.dead ? pair('dead', `${bytes(f.dead)}, ${percent(f.dead / f.bytes)}`) : null,
      f.time ? pair('written', ago(f.time)) : null],
  }));
}

// fileKey says what the colours of the map mean.
export function fileKey(files) {
  const shown = Object.keys(groups).filter(g => files.kinds[g] && files.kinds[g].bytes > files.total.bytes / 200);
  return h('p', { class: 'mapkey' }, shown.map(g => h('span', {}, h('i', { class: `swatch file-${g}` }), groups[g][0])), files.total.dead > 0 ? h('span', {}, h('i', { class: 'swatch hatched' }), 'Dead part') : null);
}

function pair(name, text) {
  return h('div', { class: 'pair' }, h('span', {}, name), h('span', {}, text));
}

export function open(main) {
  const box = h('div', { class: 'map' }), sums = h('div'), list = h('div', { class: 'scroll' });
  main.append(h('section', { class: 'card full' }, h('h2', {}, 'Files'), sums, box, list));
  const map = new Treemap(box, 320, 'Files by size');
  let timer = 0, over = false, shown = 50;
  async function look() {
    clearTimeout(timer);
    try {
      const p = await get('files');
      if (over) return;
      put(sums, [p.kinds], () => p.files.length === 0 ? h('p', { class: 'hint' }, 'The store has no files yet.') : [
        h('table', { class: 'legend files' }, h('thead', {}, h('tr', {}, h('td', {}), h('td', {}, 'files'), h('td', {}, 'size'), h('td', {}, 'dead'))),
          h('tbody', {}, Object.keys(groups).filter(g => p.kinds[g]).map(g => h('tr', {},
            h('th', { scope: 'row' }, h('i', { class: `swatch file-${g}` }), groups[g][0], groups[g][1] ? h('small', {}, groups[g][1]) : null),
            h('td', {}, whole(p.kinds[g].count)), h('td', {}, bytes(p.kinds[g].bytes)), h('td', {}, p.kinds[g].dead > 0 ? `${bytes(p.kinds[g].dead)} · ${percent(p.kinds[g].dead / p.kinds[g].bytes)}` : '–'))))),
        h('p', { class: 'hint' }, 'Hatched parts are dead: no entry needs them, nor history that is kept. What newer runs have replaced in older ones counts once a compaction finds it.')]);
      map.update(fileItems(p.files));
      put(list, [p.files, shown, Math.floor(Date.now() / 5000)], () => [h('table', { class: 'list' }, h('thead', {}, h('tr', {}, h('th', {}, 'file'), h('th', { class: 'num' }, 'size'), h('th', { class: 'num' }, 'dead'), h('th', { class: 'grow wide' }, 'what it is'), h('th', { class: 'num wide' }, 'written'))),
        h('tbody', {}, p.files.slice(0, shown).map(f => h('tr', {}, h('td', { class: 'name' }, h('i', { class: `swatch file-${f.group}` }), h('code', {}, f.name), h('small', { class: 'narrow soft' }, about(f))), h('td', { class: 'num' }, bytes(f.bytes)),
          h('td', { class: 'num' }, f.dead ? percent(f.dead / f.bytes) : ''), h('td', { class: 'grow soft wide' }, about(f)), h('td', { class: 'num soft wide' }, f.time ? ago(f.time) : ''))))),
      p.total.count > shown ? h('p', { class: 'hint' }, `The ${whole(shown)} largest of ${whole(p.total.count)} files. `, p.files.length > shown ? h('button', { type: 'button', class: 'quiet', onclick: () => { shown = p.files.length; look(); } }, 'Show more') : null) : null]);
    } catch (err) {
      sums.replaceChildren(failed(err));
    }
    if (!over) timer = setTimeout(look, 5000);
  }
  look();
  return { close() { over = true; clearTimeout(timer); }, pause() { clearTimeout(timer); }, resume: look };
}
