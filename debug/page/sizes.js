// Sizes by keyspace and prefix, as a treemap.
import { h, get, bytes, count, percent, whole, unbase, key, plain, short, keyspaceName, link, go, failed } from './lib.js';
import { Treemap } from './treemap.js';

export function open(main, params) {
  const inside = params.has('ks') || params.has('prefix') || params.has('in');
  const ks = unbase(params.get('ks')), prefix = unbase(params.get('prefix'));
  const box = h('div', { class: 'map' }), path = h('p', { class: 'path' }), list = h('div', { class: 'scroll' }), note = h('p', { class: 'hint' });
  main.append(h('section', { class: 'card full' }, path, box, note, list));
  const map = new Treemap(box, 380, 'Sizes');
  let over = false;
  const at = p => ({ in: 1, ks: ks.length ? ks : null, prefix: p && p.length ? p : null });

  async function keyspaces() {
    path.replaceChildren(h('b', {}, 'All keyspaces'));
    const p = await get('keyspaces', { by: 'size', limit: 200 });
    if (over) return;
    const parts = p.keyspaces.map(k => ({ name: unbase(k.name), size: k.bytes, entries: k.entries }));
    const used = parts.filter(k => k.size > 0);
    if (used.length === 1 && p.total === 1) { // one keyspace: no need to choose
      location.replace(link('sizes', { in: 1, ks: used[0].name.length ? used[0].name : null }));
      return;
    }
    const open = k => () => go('sizes', { in: 1, ks: k.name.length ? k.name : null });
    note.textContent = used.length === 0 ? 'The store is empty.' : `Estimates of keys and values as they are stored. ${p.measured < p.total ? `${whole(p.measured)} of ${whole(p.total)} keyspaces were measured.` : used.length < parts.length ? `${whole(used.length)} of ${whole(p.total)} keyspaces have data.` : p.total > parts.length ? `The ${parts.length} largest of ${whole(p.total)}.` : ''}`;
    const total = used.reduce((a, k) => a + k.size, 0);
    draw(used.map(k => ({ ...k, label: keyspaceName(k.name), show: k.name.length ? key(k.name, 120) : 'default', go: open(k), href: link('sizes', { in: 1, ks: k.name.length ? k.name : null }) })), total);
  }

  async function parts() {
    const p = await get('sizes', { ks, prefix });
    if (over) return;
    const base = unbase(p.prefix);
    const crumbs = [h('a', { href: '#/sizes' }, 'All keyspaces'), ' › ', prefix.length ? h('a', { href: link('sizes', at()) }, keyspaceName(ks)) : h('b', {}, keyspaceName(ks))];
    if (prefix.length) crumbs.push(' › ', key(prefix, 200));
    crumbs.push(h('span', { class: 'faint' }, ` ${bytes(p.bytes)} in ${count(p.entries)} entries`), ' ', h('a', { class: 'button quiet', href: link('keys', { ks: ks.length ? ks : null, prefix: prefix.length ? prefix : null }) }, 'Keys'));
    path.replaceChildren(...crumbs);
    note.textContent = p.parts.length === 0 ? 'There are no keys here.' : `Estimates, old versions and deletes counted.${base.length > prefix.length ? ` All keys begin with ${short(base, 60)}` : ''}`;
    const cut = b => (b.length > base.length ? b.subarray(base.length) : b);
    draw(p.parts.map(c => {
      const name = unbase(c.prefix);
      const target = c.key ? ['keys', { ks: ks.length ? ks : null, from: name, key: name }] : ['sizes', at(name)];
      return { size: c.bytes, entries: c.entries, label: `…${short(cut(name), 40)}`.replace(/^…(?=.*)/, base.length ? '…' : ''), show: [key(name, 200), c.key ? '' : h('span', { class: 'faint' }, '*')], go: () => go(...target), href: link(...target) };
    }), p.parts.reduce((a, c) => a + c.bytes, 0));
  }

  function draw(items, total) {
    map.update(items.map((i, n) => ({ size: i.size, label: i.label, sub: bytes(i.size), kind: `hue${n % 6}`, go: i.go,
      tip: () => [h('b', {}, i.label), h('div', { class: 'pair' }, h('span', {}, 'size'), h('span', {}, bytes(i.size))), h('div', { class: 'pair' }, h('span', {}, 'entries'), h('span', {}, count(i.entries))), h('div', { class: 'pair' }, h('span', {}, 'share'), h('span', {}, percent(i.size / total)))] })));
    items.sort((a, b) => b.size - a.size);
    if (items.length === 0) return;
    list.replaceChildren(h('table', { class: 'list' }, h('thead', {}, h('tr', {}, h('th', {}, 'part'), h('th', { class: 'num' }, 'size'), h('th', { class: 'num' }, 'share'), h('th', { class: 'num wide' }, 'entries'))),
      h('tbody', {}, items.slice(0, 100).map(i => h('tr', {}, h('td', { class: 'grow' }, h('a', { href: i.href }, i.show)), h('td', { class: 'num' }, bytes(i.size)), h('td', { class: 'num' }, total > 0 ? percent(i.size / total) : ''), h('td', { class: 'num wide soft' }, count(i.entries)))))));
  }

  (inside ? parts() : keyspaces()).catch(err => { if (!over) note.replaceWith(failed(err)); });
  return { close() { over = true; } };
}
