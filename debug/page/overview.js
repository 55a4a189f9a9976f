// The first screen: why is it so large, why is it slow, is it healthy.
import { h, put, get, post, bytes, count, whole, duration, percent, ago, things, unbase, short, keyspaceName } from './lib.js';
import { Chart } from './chart.js';
import { Treemap } from './treemap.js';
import { fileItems, fileKey } from './files.js';

export function open(main, _params, live) {
  const verdict = h('section', { class: 'verdict', 'aria-label': 'What to look at' });
  const large = card('Why so large?'), slow = card('Why slow?'), healthy = card('Is it healthy?');
  const cards = h('div', { class: 'cards first', hidden: !live.state }, large.el, slow.el, healthy.el);
  main.append(verdict, cards, glossary());
  const size = sizeCard(large), speed = speedCard(slow), health = healthCard(healthy, live);
  let files = null, shape = null, conflicts = [], timer = 0, over = false;

  // What costs a look at the directory or at keys is asked for rarely.
  async function look() {
    clearTimeout(timer);
    try {
      files = await get('files');
      if (live.state && live.state.allowed.events) conflicts = (await get('events')).conflicts.slice(0, 3);
      if (!shape) shape = await sampleShape();
      show();
    } catch { /* the stream says what is wrong */ }
    if (!over) timer = setTimeout(look, 10e3);
  }

  function show() {
    const st = live.state;
    if (!st) return;
    cards.hidden = false;
    const found = findings(st);
    put(verdict, [found, st.mode], () => found.length
      ? found.map(f => h('p', { class: `finding ${f.kind}` }, icon(f.kind), h('span', {}, h('b', {}, f.text), ' ', f.more)))
      : h('p', { class: 'finding good' }, icon('good'), h('span', {}, h('b', {}, 'Nothing stands out.'), st.mode === 'ReadWrite' ? ' The store takes reads and writes, and nothing waits.' : ' The files can be read, and no damage was met.')));
    size(st, files, shape);
    speed(st, live.points, conflicts);
    health(st);
  }
  if (live.state) show();
  else put(verdict, 'wait', () => h('p', { class: 'finding faint' }, 'Asking the store…'));
  look();
  return {
    news: show,
    gone(text) { put(verdict, text, () => h('p', { class: 'finding bad' }, icon('bad'), h('span', {}, h('b', {}, text)))); },
    pause() { clearTimeout(timer); over = true; },
    resume() { over = false; look(); },
    close() { clearTimeout(timer); over = true; },
  };
}

// glossary explains the words that are the store's own.
function glossary() {
  const words = [
    ['entry', 'one version of one key, or a delete'],
    ['version', 'the number of a commit; each commit has the next one'],
    ['memtable', 'the newest entries, in memory; the journal has them, too'],
    ['journal', 'the write-ahead log. Large values stay where it has put them'],
    ['run', 'entries in the order of their keys, with small values: an SSTable'],
    ['segment', 'a file of large values; runs point to them'],
    ['flush', 'writes a memtable as a run'],
    ['compaction', 'merges runs, and drops what nobody can read any more'],
    ['collection', 'moves the live values out of a segment with garbage; a forwarding table leads to them'],
    ['pinned', 'replaced, but an open transaction or Snapshot may still read it'],
    ['change feed', 'files that stay so that Watch can tell what was committed'],
    ['refused, retried', 'commits that lost a conflict: the program was told so, or Update ran again'],
    ['throttled', 'writers wait because flushes or compactions are behind'],
    ['p50, p99', 'half of the calls took less, 99 of 100 did. Off by a factor of two at most'],
    ['scrub', 'reads all files now and then, and checks their checksums'],
  ];
  return h('details', { class: 'words' }, h('summary', {}, 'Words on this page'), h('dl', {}, words.map(([word, text]) => h('div', {}, h('dt', {}, word), h('dd', {}, text)))));
}

function card(title) {
  const body = h('div', { class: 'card-body' });
  return { el: h('section', { class: 'card' }, h('h2', {}, title), body), body };
}

const marks = { good: '✓', warn: '!', bad: '✕', none: '–' };
function icon(kind) {
  const word = { good: 'well', warn: 'look at this', bad: 'trouble', none: 'not known' }[kind];
  return h('span', { class: `mark ${kind}`, role: 'img', 'aria-label': word }, marks[kind]);
}

// findings are sentences about what is unusual, the worst first.
export function findings(st) {
  const m = st.metrics, out = [];
  const files = m.run + m.segment + m.forwarding;
  const add = (kind, text, more) => out.push({ kind, text, more });
  if (st.stopped) add('bad', 'Writes have stopped.', `${st.stopped}. Open the store again once the cause is gone.`);
  if (st.loss) add('bad', `What was committed after version ${whole(st.loss.version)} is left out.`, `${st.loss.damage}. Salvage into a new store to go on writing.`);
  if (m.damaged_places > 0) add('bad', `${things(m.damaged_places, 'damaged place')} found at rest.`, 'Verify names the keys. Restore them from a backup.');
  if (m.disk_free >= 0 && m.disk_free <= m.disk_reserve && m.disk_reserve > 0) add('bad', 'The disk is full.', 'Writes are refused. Deletes go on, and free space.');
  else if (m.disk_free >= 0 && m.disk_free < files / 5) add('warn', `Only ${bytes(m.disk_free)} of disk are left.`, 'A compaction writes its result before it removes what it has read.');
  if (m.pinned_time > 60) {
    const kept = m.pinned_files + m.pinned_memory;
    add('warn', `A reader keeps old data for ${duration(m.pinned_time)}.`, `${kept > 0 ? `${bytes(kept)} can't be freed.` : 'It takes little yet.'} It began in ${where(st.pinnedBy)}.`);
  }
  if (m.waiting_work > 0) add('warn', 'Background work waits.', `${st.waiting}.`);
  if (m.leaked_transactions > 0) add('warn', `${things(m.leaked_transactions, 'transaction')} never ended.`, 'Discard every transaction, and close every Snapshot.');
  const garbage = Math.max(0, files - m.live);
  if (files > 64e6 && garbage > m.live * 1.5) add('warn', `${percent(garbage / files)} of the files is garbage.`, 'A store frees it while clients write and when it is idle. If it stays, look at what is pinned.');
  return out;
}

// sizeCard says where the bytes are.
function sizeCard({ body }) {
  const head = h('p', { class: 'big' }), bar = h('div', { class: 'stack' }), legend = h('div'), notes = h('ul', { class: 'notes' });
  const mapBox = h('div', { class: 'map' }), mapKey = h('div');
  body.append(head, bar, legend, h('h3', {}, h('a', { href: '#/files' }, 'The files ›')), mapBox, mapKey, notes);
  const map = new Treemap(mapBox, 150, 'Files by size');
  return (st, files, shape) => {
    const m = st.metrics, follows = st.mode !== 'ReadWrite';
    const tree = m.run + m.segment + m.forwarding;
    const onDisk = files ? Math.max(files.total.bytes, tree) : tree + m.pinned_files;
    const expired = Math.min(m.expired, m.live);
    const dead = Math.min(m.dead, Math.max(0, tree - m.live));
    const kept = follows && files && files.kinds.kept ? files.kinds.kept.bytes : m.pinned_files; // what its readers keep, only the writer knows
    const rest = Math.max(0, onDisk - tree - kept), feed = files && files.kinds.feed ? files.kinds.feed.bytes : 0;
    const parts = [
      { name: 'Live', help: 'needed, also by kept history', kind: 'live', size: m.live - expired },
      { name: 'Expired', help: 'past its time to live', kind: 'expired', size: expired },
      { name: 'Dead', help: 'large values nobody needs', kind: 'dead', size: dead },
      { name: 'Replaced', help: 'overwritten, deleted; room ahead', kind: 'replaced', size: Math.max(0, m.run + m.segment - m.live - dead) },
      { name: 'Forwarding', help: 'tables that lead to moved values', kind: 'other', size: m.forwarding },
      follows ? { name: 'Leaving or new', help: 'kept for readers, or being written', kind: 'pinned', size: kept }
        : { name: 'Pinned', help: kept > 0 ? `kept for ${where(st.pinnedBy)}` : 'only open readers need it', kind: 'pinned', size: kept },
      { name: 'Change feed', help: 'only Watch reads it', kind: 'feed', size: Math.min(feed, rest) },
      { name: follows ? 'Journal and rest' : 'Rest', help: follows ? 'not yet in runs; manifest, locks' : 'manifest, files that come or go', kind: 'rest', size: Math.max(0, rest - feed) },
    ];
    const sum = parts.reduce((a, p) => a + p.size, 0) || 1;
    put(head, [bytes(onDisk), count(m.run_entries + m.memtable_entries)], () => [h('b', {}, bytes(onDisk)), h('span', {}, ` on disk, ${things(m.run_entries + m.memtable_entries, 'entry', 'entries')} `, h('small', { class: 'faint' }, '(old versions and deletes counted)'))]);
    const shown = parts.filter(p => p.size > 0);
    put(bar, shown.map(p => [p.kind, (p.size / sum).toFixed(3)]), () => shown.map(p => h('span', { class: `fill ${p.kind}`, vars: { 'flex-grow': p.size / sum }, title: `${p.name}: ${bytes(p.size)}` })));
    const none = parts.filter(p => !(p.size > 0));
    put(legend, parts.map(p => [bytes(p.size), p.help]), () => [h('table', { class: 'legend' }, h('tbody', {}, shown.map(p => h('tr', {},
      h('th', { scope: 'row' }, h('i', { class: `swatch ${p.kind}` }), p.name, h('small', {}, p.help)),
      h('td', {}, bytes(p.size)), h('td', {}, percent(p.size / sum)))))),
    none.length ? h('p', { class: 'zero' }, 'None: ', none.map((p, i) => [i ? ', ' : '', h('span', { title: p.help }, p.name)])) : null]);
    if (files) {
      map.update(fileItems(files.files));
      put(mapKey, files.kinds, () => fileKey(files));
    }
    mapBox.classList.toggle('gone', !files || files.files.length === 0);
    const lines = [];
    if (m.pinned > 0) lines.push(['Pinned', `Version ${whole(m.pinned_version)} is still read by ${where(st.pinnedBy)}. ${m.pinned_time > 0 ? `What it reads was first replaced ${duration(m.pinned_time)} ago.` : 'Nothing that it reads was replaced.'}`, m.pinned_time > 60, st.pinnedBy]);
    if (shape && shape.versions > 0) lines.push(['History', `${percent(shape.older / Math.max(1, shape.bytes))} of the bytes sampled are older versions, ${percent(shape.deletes / shape.versions)} of the entries are deletes.${follows ? '' : ` ${keepsText(st.limits.keeps)}`}`]);
    if (m.feed > 0) lines.push(['Feed', `${bytes(m.feed)} can be read by Watch, back to ${duration(m.feed_age)} ago; entries may need them, too`]);
    if (m.old_key > 0) lines.push(['Old keys', `${bytes(m.old_key)} are not yet under the current data key`]);
    if (m.compression_in > 0) lines.push(['Compression', `${bytes(m.compression_in)} became ${bytes(m.compression_out)}`]);
    lines.push(['Memory', `${bytes(m.memory)}${st.limits.memoryLimit > 0 && !follows ? ` of at most ${bytes(st.limits.memoryLimit)}` : ''}; ${bytes(m.memtable)} in memtables`]);
    if (shape && shape.largest.length > 1) lines.push(['Largest', shape.largest.map(k => `${k.name} ${bytes(k.bytes)}`).join(' · ')]);
    put(notes, lines, () => lines.map(([name, text, warn, title]) => h('li', { class: warn ? 'warn' : '', title }, h('b', {}, name), h('span', {}, text))));
  };
}

// where shortens a place, "path/package.function (path/file:line)".
function where(text) {
  const m = /^(?:.*\/)?([^/]+) \((?:.*[\\/])?([^\\/]+)\)$/.exec(text || '');
  return m ? `${m[1]} (${m[2]})` : text || 'a place that is not known';
}

function keepsText(k) {
  if (k.manual) return 'Old versions stay until the program gives them up.';
  if (k.age > 1e9) return 'All versions are kept.';
  if (k.age > 0) return `Versions are kept for ${duration(k.age)}.`;
  return k.versions > 1 ? `${k.versions} versions of a key are kept.` : 'Only the latest version of a key is kept.';
}

// sampleShape samples the largest keyspaces, weighted by their sizes.
async function sampleShape() {
  const list = await get('keyspaces', { by: 'size', limit: 4 });
  const sum = { older: 0, bytes: 0, versions: 0, deletes: 0, largest: [] };
  for (const k of list.keyspaces) {
    if (k.bytes <= 0) continue;
    const name = unbase(k.name);
    sum.largest.push({ name: keyspaceName(name), bytes: k.bytes });
    const p = await get('shape', { ks: name });
    const all = p.newest.bytes + p.older.bytes + p.deletes.bytes + p.expired.bytes;
    const versions = p.newest.count + p.older.count + p.deletes.count + p.expired.count;
    if (all === 0 || versions === 0) continue;
    sum.bytes += k.bytes;
    sum.older += k.bytes * p.older.bytes / all;
    sum.versions += k.entries;
    sum.deletes += k.entries * p.deletes.count / versions;
  }
  return sum;
}

// speedCard has the charts.
function speedCard({ body }) {
  const grid = h('div', { class: 'charts' }), notes = h('ul', { class: 'notes' }), hint = h('div');
  body.append(hint, grid, notes);
  const rate = n => `${count(n)}/s`, flow = n => `${bytes(n)}/s`;
  const charts = [
    new Chart({ title: 'Commit', fields: [{ name: 'commitP99', label: 'p99', kind: 'c2' }, { name: 'commitP50', label: 'p50', kind: 'c1' }], format: duration, zeroIsNone: true, help: 'Time from the call of Commit to its return' }),
    new Chart({ title: 'Sync', fields: [{ name: 'syncP99', label: 'p99', kind: 'c2' }, { name: 'syncP50', label: 'p50', kind: 'c1' }], format: duration, zeroIsNone: true, help: 'Time of syncs of the journal' }),
    new Chart({ title: 'Read', fields: [{ name: 'readP99', label: 'p99', kind: 'c2' }, { name: 'readP50', label: 'p50', kind: 'c1' }], format: duration, zeroIsNone: true, help: 'Time of one in 256 point reads' }),
    new Chart({ title: 'Commits', fields: [{ name: 'version', kind: 'c1' }], format: rate }),
    new Chart({ title: 'Reads', fields: [{ name: 'reads', kind: 'c1' }], format: rate }),
    new Chart({ title: 'Conflicts', fields: [{ name: 'conflicts', label: 'refused', kind: 'bad' }, { name: 'retries', label: 'retried', kind: 'c2' }], format: rate, least: 1 }),
    new Chart({ title: 'Writers throttled', fields: [{ name: 'stall', kind: 'bad' }], format: percent, least: 0.05, help: 'Share of the time' }),
    new Chart({ title: 'In files', fields: [{ name: 'files', label: 'all', kind: 'c2' }, { name: 'live', label: 'live', kind: 'c1' }], format: bytes }),
    new Chart({ title: 'Memory', fields: [{ name: 'memory', kind: 'c4' }], format: bytes, help: 'What the store takes itself' }),
    new Chart({ title: 'Written to files', stacked: true, fields: [{ name: 'journal', label: 'journal', kind: 'c1' }, { name: 'flushed', label: 'flush', kind: 'c3' }, { name: 'compacted', label: 'compact', kind: 'c2' }, { name: 'collected', label: 'collect', kind: 'c4' }], format: flow }),
  ];
  charts[8].el.classList.add('third');
  charts[9].el.classList.add('wide');
  const own = new Set([0, 1, 2, 4, 5, 6, 9]); // of a follower these count its own work only
  grid.append(...charts.map(c => c.el));
  return (st, points, conflicts) => {
    const m = st.metrics, l = st.latencies, follows = st.mode !== 'ReadWrite';
    charts.forEach((c, i) => {
      c.el.hidden = follows && own.has(i);
      if (!c.el.hidden) c.update(points);
    });
    put(hint, follows, () => follows ? h('p', { class: 'hint' }, 'This page reads the files of a store that another process writes. Latencies, stalls and compactions are known there: mount ', h('code', {}, 'debug.Handler'), ' in that program to see them.') : null);
    const lines = [];
    if (!follows) {
      lines.push(['Stalls', m.stall > 0 ? `writers waited ${duration(m.stall)} in all` : 'writers never waited', m.stall > 60]);
      lines.push(['Compactions', `${count(m.compactions)}, ${bytes(m.compacted)} written; ${things(m.flushes, 'flush', 'flushes')}, ${things(m.collections, 'collection')}`]);
      lines.push(['Amplification', `${m.write_amplification.toFixed(1)} bytes written to files for each committed; ${m.space_amplification.toFixed(2)} bytes in files for each live`]);
      lines.push(['Long reader', m.pinned_time > 0 ? `open, and keeps old data for ${duration(m.pinned_time)}: ${where(st.pinnedBy)}` : 'none', m.pinned_time > 60, st.pinnedBy]);
      lines.push(['Conflicts', m.conflicts + m.retries > 0 ? [`${count(m.conflicts)} commits refused (${percent(m.conflicts / (m.conflicts + m.commits))}), ${count(m.retries)} runs repeated`] : 'none']);
      if (conflicts.length > 0) lines.push(['Conflict keys', [conflicts.map(c => [shortConflict(c), c.count]).map(([name, n]) => `${name} ${count(n)}×`).join(' · '), ' ', { href: '#/events', text: 'all' }]]);
    }
    if (m.watches > 0) lines.push(['Watches', `${things(m.watches, 'Watch', 'Watches')}, the slowest is ${things(m.watch_behind, 'commit')} behind`]);
    if (m.jumped > 0) lines.push(['Scans', `${bytes(m.jumped)} of values were jumped to and are not in key order yet`]);
    if (l.commit_latency && l.commit_latency.count > 0) lines.push(['Since open', `commit ${quantiles(l.commit_latency)}; sync ${quantiles(l.sync_latency)}; read ${quantiles(l.read_latency)}`]);
    put(notes, lines, () => lines.map(([name, text, warn, title]) => h('li', { class: warn ? 'warn' : '', title }, h('b', {}, name), h('span', {}, Array.isArray(text) ? text.map(t => t.href ? h('a', { href: t.href }, t.text) : t) : text))));
  };
}

// shortConflict names the key or range of a conflict.
function shortConflict(c) {
  const ks = unbase(c.keyspace);
  return `${ks.length ? `${keyspaceName(ks)}: ` : ''}${c.range ? `${short(unbase(c.lower || ''))} …` : short(unbase(c.key))}`;
}

function quantiles(l) {
  return l.count === 0 ? 'none' : `p50 ${duration(l.p50)}, p99 ${duration(l.p99)}`;
}

// healthCard is a list of checks, and the actions.
function healthCard({ body }) {
  const list = h('ul', { class: 'checks' }), disk = h('div', { class: 'disk' }), acts = h('div'), notes = h('ul', { class: 'notes' });
  body.append(list, disk, acts, notes);
  let shownActions = null;
  return st => {
    const m = st.metrics, now = st.at, follows = st.mode !== 'ReadWrite';
    const checks = [];
    const check = (kind, name, text) => checks.push({ kind, name, text });
    if (st.stopped) check('bad', 'Writes', st.stopped);
    else if (follows) check('none', 'Writes', 'not by this process');
    else if (m.refused_commits > 0) check('warn', 'Writes', `accepted; ${things(m.refused_commits, 'commit')} refused for lack of disk space`);
    else check('good', 'Writes', 'accepted');
    check(m.damaged_places > 0 ? 'bad' : 'good', 'Damage', m.damaged_places > 0 ? things(m.damaged_places, 'damaged place') : 'none found');
    if (st.loss) check('bad', 'Loss', `${things(st.loss.commits, 'commit')} behind version ${whole(st.loss.version)} left out`);
    if (follows) {
      check('none', 'Scrub', 'the writer does it');
    } else if (m.last_scrub_timestamp > 0) {
      const age = now / 1000 - m.last_scrub_timestamp;
      check(st.limits.scrubEvery > 0 && age > 2 * st.limits.scrubEvery ? 'warn' : 'good', 'Scrub', `all files verified ${ago(m.last_scrub_timestamp * 1000, now)}`);
    } else if (st.limits.scrubEvery > 0) {
      check('none', 'Scrub', m.scrubbed > 0 ? `first round: ${bytes(m.scrubbed)} verified` : `first round not begun; one in ${duration(st.limits.scrubEvery)}`);
    } else {
      check('none', 'Scrub', 'is off');
    }
    // What follows is known where the store is written.
    if (!follows) check(m.last_backup_timestamp > 0 ? 'good' : 'none', 'Backup', m.last_backup_timestamp > 0 ? ago(m.last_backup_timestamp * 1000, now) : 'none by this process since it opened the store');
    if (!follows) check(m.waiting_work > 0 ? 'warn' : 'good', 'Background', m.waiting_work > 0 ? st.waiting : m.refused_work > 0 ? `nothing waits; ${count(m.refused_work)} runs were refused by the system` : 'nothing waits');
    if (!follows || m.leaked_transactions > 0) check(m.leaked_transactions > 0 ? 'warn' : 'good', 'Leaks', m.leaked_transactions > 0 ? `${things(m.leaked_transactions, 'transaction')} never ended` : 'none found');
    if (m.dropped_events > 0) check('warn', 'Events', `${count(m.dropped_events)} dropped, as earlier ones took long`);
    if (m.release_failures > 0) check('warn', 'Files', `${count(m.release_failures)} could not be removed; the next open does`);
    const facts = [['Version', whole(m.version)], ['Durability', follows ? 'the writer decides' : st.limits.durability.toLowerCase()],
      ['Opened in', duration(m.open_time)], ['Files', `${whole(m.open_files)} open, ${whole(m.mapped_files)} mapped`]];
    put(notes, facts, () => facts.map(([name, text]) => h('li', {}, h('b', {}, name), h('span', {}, text))));
    put(list, checks, () => checks.map(c => h('li', {}, icon(c.kind), h('b', {}, c.name), h('span', {}, c.text))));
    const used = m.run + m.segment + m.forwarding;
    put(disk, [bytes(m.disk_free), bytes(used), bytes(m.disk_reserve)], () => m.disk_free < 0 ? h('p', { class: 'hint' }, 'How much disk is left is not known.') : [
      h('h3', {}, 'Disk'),
      h('p', { class: 'diskline' }, h('b', {}, bytes(m.disk_free)), st.limits.diskLimit > 0 ? ` left below the limit of ${bytes(st.limits.diskLimit)}` : ' left', m.disk_reserve > 0 ? h('span', { class: 'faint' }, `, ${bytes(m.disk_reserve)} of it kept for deletes`) : null),
      h('div', { class: 'stack thin', title: 'this store, and what is left' },
        h('span', { class: 'fill live', vars: { 'flex-grow': used / (used + m.disk_free || 1) } }),
        h('span', { class: 'fill pinned', vars: { 'flex-grow': m.disk_reserve / (used + m.disk_free || 1) } }),
        h('span', { class: 'fill empty', vars: { 'flex-grow': Math.max(0, m.disk_free - m.disk_reserve) / (used + m.disk_free || 1) } })),
    ]);
    // Built once: a result must not go away with the next second.
    const text = st.allowed.actions.join();
    if (text !== shownActions) {
      shownActions = text;
      acts.replaceChildren();
      const can = st.allowed.actions.filter(a => a !== 'delete');
      if (can.length) acts.append(h('h3', {}, 'Actions'), h('div', { class: 'acts' }, can.map(actionButton)));
    }
  };
}

const explained = {
  verify: 'reads every file and checks every checksum',
  compact: 'merges all runs to one: reads are as fast as they can be',
  reclaim: 'compacts, and moves live values out of files with garbage',
};

function actionButton(name) {
  const out = h('span', { class: 'faint' }, explained[name]);
  let running = null;
  const title = name[0].toUpperCase() + name.slice(1);
  const button = h('button', { type: 'button', class: 'quiet' }, title);
  button.addEventListener('click', async () => {
    if (running) {
      running.abort();
      return;
    }
    running = new AbortController();
    button.textContent = 'Stop';
    out.className = 'faint';
    out.textContent = 'at work…';
    try {
      const res = await post('action', { do: name }, running.signal);
      out.className = res.found ? 'failed' : 'done';
      out.replaceChildren(res.found ? `${things(res.found, 'problem')} found: ` : name === 'reclaim' ? `done in ${duration(res.took / 1000)}: ${bytes(res.freed)} freed` : name === 'verify' ? `done in ${duration(res.took / 1000)}: every checksum is right` : `done in ${duration(res.took / 1000)}`,
        ...(res.problems || []).slice(0, 10).map(p => h('span', { class: 'problem' }, p.text)));
    } catch (err) {
      out.className = 'failed';
      out.textContent = err.name === 'AbortError' ? 'stopped' : err.message;
    }
    running = null;
    button.textContent = title;
  });
  return h('p', { class: 'act' }, button, out);
}
