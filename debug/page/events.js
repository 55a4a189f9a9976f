// What happened in the background, and over which keys commits conflicted.
import { h, put, get, bytes, duration, whole, ago, clock, unbase, key, keyspaceName, failed } from './lib.js';

export function open(main, _params, live) {
  const list = h('div', { class: 'scroll' }), conflicts = h('div', { class: 'scroll' });
  main.append(h('div', { class: 'pairs' },
    h('section', { class: 'card' }, h('h2', {}, 'Events'), list),
    h('section', { class: 'card' }, h('h2', {}, 'Conflicts by key'), conflicts)));
  let timer = 0, over = false;
  const how = what => h('p', { class: 'hint' }, what, ' Give the handler a ', h('code', {}, 'debug.Log'), ' that is in ', h('code', {}, 'Options.Events'), '.');
  async function look() {
    try {
      const p = await get('events');
      const known = !live.state || live.state.allowed.events;
      put(list, [known, p.events], () => !known ? how('The program does not keep the events for this page.') : p.events.length === 0 ? h('p', { class: 'hint' }, 'Nothing has happened yet.')
        : h('table', { class: 'list' }, h('tbody', {}, p.events.map(e => h('tr', { class: e.bad ? 'bad' : '' },
          h('td', { class: 'soft num', title: ago(e.at) }, clock(e.at)), h('td', {}, h('span', { class: `chip ${e.bad ? 'bad' : ''}` }, e.kind)),
          h('td', { class: 'grow' }, e.text, h('span', { class: 'narrow faint' }, [e.took ? ` ${duration(e.took / 1000)}` : '', e.bytes ? ` ${bytes(e.bytes)}` : ''])), h('td', { class: 'num wide' }, e.took ? duration(e.took / 1000) : ''), h('td', { class: 'num wide' }, e.bytes ? bytes(e.bytes) : ''))))));
      put(conflicts, [known, p.conflicts, p.missed], () => !known ? how('Which keys conflict, only the program sees.') : p.conflicts.length === 0
        ? h('p', { class: 'hint' }, 'None was told. A program tells by ', h('code', {}, 'Log.NoteConflict(err)'), '.')
        : [h('table', { class: 'list' }, h('thead', {}, h('tr', {}, h('th', {}, 'key'), h('th', { class: 'num' }, 'conflicts'), h('th', { class: 'num' }, 'last'))),
          h('tbody', {}, p.conflicts.map(c => h('tr', {}, h('td', { class: 'grow' }, conflictKey(c)), h('td', { class: 'num' }, whole(c.count)), h('td', { class: 'num soft' }, ago(c.last)))))),
        p.missed > 0 ? h('p', { class: 'hint' }, `${whole(p.missed)} more, over keys that are not listed.`) : null]);
    } catch (err) {
      list.replaceChildren(failed(err));
    }
    if (!over) timer = setTimeout(look, 2000);
  }
  look();
  return { close() { over = true; clearTimeout(timer); }, pause() { clearTimeout(timer); }, resume: look };
}

function conflictKey(c) {
  const ks = unbase(c.keyspace);
  const where = ks.length ? h('span', { class: 'chip' }, keyspaceName(ks)) : null;
  if (!c.range) return [where, where ? ' ' : '', key(unbase(c.key))];
  return [where, where ? ' ' : '', key(unbase(c.lower || '')), h('span', { class: 'faint' }, ' up to '), c.upper === undefined ? h('span', { class: 'faint' }, 'the end') : key(unbase(c.upper))];
}
