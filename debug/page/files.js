// The files of the store as a map.
import { h, get, bytes, whole, percent, ago, failed } from './lib.js';
import { Treemap } from './treemap.js';

const kinds = {
  run: 'Runs: keys in order, with small values',
  value: 'Value segments: large values',
  journal: 'Journal: what was written last, with large values',
  forwarding: 'Forwarding tables: where moved values are now',
  other: 'Manifest, keys and locks',
};

export function fileItems(files) {
  return files.map(f => ({
    size: f.bytes, label: f.name, sub: bytes(f.bytes), kind: `file-${f.kind}`, part: f.bytes > 0 ? Math.min(1, (f.dead || 0) / f.bytes) : 0,
    tip: () => [h('b', {}, f.name), h('div', {}, f.about || kinds[f.kind] || f.kind),
      pair('size', bytes(f.bytes)), f.dead ? pair('dead', `${bytes(f.dead)}, ${percent(f.dead / f.bytes)}`) : null,
      f.time ? pair('written', ago(f.time)) : null],
  }));
}

function pair(name, text) {
  return h('div', { class: 'pair' }, h('span', {}, name), h('span', {}, text));
}

export function open(main) {
  const box = h('div', { class: 'map' }), sums = h('div'), list = h('div', { class: 'scroll' });
  main.append(h('section', { class: 'card full' }, h('h2', {}, 'Files'), sums, box, list));
  const map = new Treemap(box, 320, 'Files by size');
  let timer = 0, over = false;
  async function look() {
    try {
      const p = await get('files');
      if (over) return;
      const order = Object.keys(kinds).filter(k => p.kinds[k]);
      sums.replaceChildren(h('table', { class: 'legend' }, h('tbody', {}, order.map(k => h('tr', {},
        h('th', { scope: 'row' }, h('i', { class: `swatch file-${k}` }), kinds[k].split(':')[0], h('small', {}, (kinds[k].split(': ')[1] || ''))),
        h('td', {}, whole(p.kinds[k].count)), h('td', {}, bytes(p.kinds[k].bytes)), p.dead ? h('td', {}, p.kinds[k].dead > 0 ? `${bytes(p.kinds[k].dead)} dead` : '') : null)))),
      p.files.length === 0 ? h('p', { class: 'hint' }, 'The store is in memory: it has no files to show.') : !p.dead ? h('p', { class: 'hint' }, 'What is dead in a file is in the store\'s manifest: brock ui shows it.') : h('p', { class: 'hint' }, 'Hatched parts are dead: no entry needs them.'));
      map.update(fileItems(p.files));
      list.replaceChildren(h('table', { class: 'list' }, h('thead', {}, h('tr', {}, h('th', {}, 'file'), h('th', { class: 'num' }, 'size'), p.dead ? h('th', { class: 'num' }, 'dead') : null, h('th', {}, p.dead ? 'what it is' : 'written'))),
        h('tbody', {}, p.files.slice(0, 300).map(f => h('tr', {}, h('td', {}, h('code', {}, f.name)), h('td', { class: 'num' }, bytes(f.bytes)),
          p.dead ? h('td', { class: 'num' }, f.dead ? bytes(f.dead) : '') : null, h('td', { class: 'soft' }, f.about || (f.time ? ago(f.time) : kinds[f.kind])))))));
      if (p.total.count > 300) list.append(h('p', { class: 'hint' }, `The 300 largest of ${whole(p.total.count)} files.`));
    } catch (err) {
      sums.replaceChildren(failed(err));
    }
    if (!over) timer = setTimeout(look, 5000);
  }
  look();
  return { close() { over = true; clearTimeout(timer); }, pause() { clearTimeout(timer); }, resume: look };
}
