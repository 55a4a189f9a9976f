// Where writes go: ranges of keys over time.
import { h, put, listen, count, duration, unbase, key, short, plain, keyspaceName, link, go, tip, clock, get } from './lib.js';
import { keyspacePicker } from './keys.js';

const rowHeight = 11, foot = 18;
const leastColumns = 45; // the map grows from these to all that are kept

export function open(main, params) {
  const ks = unbase(params.get('ks')), lo = params.has('lo') ? unbase(params.get('lo')) : null, hi = params.has('hi') ? unbase(params.get('hi')) : null;
  const canvas = h('canvas', { class: 'heat', role: 'img', 'aria-label': 'Writes by range of keys over time' });
  const axis = h('div', { class: 'heat-axis' }), scale = h('div', { class: 'heat-scale' }), busy = h('ul', { class: 'notes' }), note = h('p', { class: 'hint' });
  const head = h('p', { class: 'diskline' });
  main.append(h('form', { class: 'toolbar', onsubmit: e => e.preventDefault() }, keyspacePicker(ks, name => go('heat', { ks: name.length ? name : null })),
    lo || hi ? h('a', { class: 'button quiet', href: link('heat', { ks: ks.length ? ks : null }) }, 'Whole keyspace') : null,
    h('a', { class: 'button quiet', href: link('keys', { ks: ks.length ? ks : null }) }, 'Keys')),
  h('section', { class: 'card full' }, h('h2', {}, 'Writes by key, over time'), head, h('div', { class: 'heat-box' }, axis, canvas), scale, note, busy));
  note.textContent = 'Writes only: reads leave no trace outside of the program\'s own calls. Each column is two seconds of the change feed, rows are ranges of about equal size. A click on a row looks into its range.';
  let grid = null, source = null, over = false;
  const dark = matchMedia('(prefers-color-scheme: dark)');

  function start() {
    if (source || over) return;
    source = listen('heat', { ks, lo, hi }, {
      grid(g) {
        grid = { bounds: g.bounds.map(unbase), columns: g.columns, slot: g.slot, most: g.most };
        draw();
      },
      columns(list) {
        if (!grid) return;
        grid.columns = grid.columns.concat(list).slice(-grid.most);
        draw();
      },
      end(failure) {
        stop();
        note.textContent = `Nothing new comes: ${failure.error}.`;
      },
      error(over) {
        if (!over) return;
        stop();
        get('state').then(() => setTimeout(start, 3000), err => { note.textContent = `Nothing new comes: ${err.message}.`; });
      },
    });
  }
  function stop() {
    if (source) source.close();
    source = null;
  }

  function draw() {
    if (!grid || !canvas.isConnected) return;
    const width = canvas.parentElement.clientWidth - axis.offsetWidth, rows = grid.bounds.length + 1;
    const height = Math.max(160, rows * rowHeight) + foot, ratio = devicePixelRatio || 1;
    const tall = (height - foot) / rows;
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    canvas.style.setProperty('width', `${width}px`);
    canvas.style.setProperty('height', `${height}px`);
    axis.style.setProperty('height', `${height - foot}px`);
    const c = canvas.getContext('2d');
    c.scale(ratio, ratio);
    const style = getComputedStyle(canvas);
    c.fillStyle = style.getPropertyValue('--heat-empty');
    c.fillRect(0, 0, width, height - foot);
    let most = 0;
    for (const col of grid.columns) for (const v of col.rows) most = Math.max(most, v);
    const end = grid.columns.length ? grid.columns[grid.columns.length - 1].at : Date.now();
    const span = grid.columns.length ? (end - grid.columns[0].at) / grid.slot + 1 : 0;
    grid.shown = Math.min(grid.most, Math.max(leastColumns, Math.ceil(span)));
    const wide = width / grid.shown;
    for (const col of grid.columns) {
      const x = width - (end - col.at) / grid.slot * wide - wide;
      if (x < -wide) continue;
      col.rows.forEach((v, i) => {
        if (v <= 0) return;
        c.fillStyle = colour(Math.sqrt(v / most), dark.matches);
        c.fillRect(x, (rows - 1 - i) * tall, Math.ceil(wide) + 0.5, tall - (tall > 6 ? 1 : 0));
      });
    }
    c.fillStyle = style.getPropertyValue('--soft');
    c.font = '11px ' + getComputedStyle(document.body).fontFamily;
    c.fillText(`${duration(Math.round(grid.shown * grid.slot / 1000))} ago`, 0, height - 4);
    c.textAlign = 'right';
    c.fillText('now', width, height - 4);
    const step = Math.max(1, Math.round(rows / 8));
    put(axis, [grid.bounds.map(b => plain(b)), height], () => {
      const labels = [];
      for (let i = 0; i < rows; i += step) labels.push(h('span', { vars: { bottom: `${i * tall}px` }, title: plain(low(i)) }, i === 0 && !lo ? 'first key' : short(low(i), 18)));
      return labels;
    });
    const last = grid.columns[grid.columns.length - 1];
    put(head, last ? [last.total, last.all] : null, () => last ? [h('b', {}, `${count(last.total)}/s`), h('span', {}, ` written in ${keyspaceName(ks)}, ${count(last.all)}/s in the whole store`)] : h('span', { class: 'faint' }, 'Watching: the first column comes in two seconds.'));
    put(scale, [most, dark.matches], () => [h('span', {}, '0'), h('i', { class: 'ramp' }), h('span', {}, `${count(most)} keys/s`)]);
    put(busy, last ? last.keyspaces : null, () => last && last.keyspaces.length > 0 ? last.keyspaces.map(b => {
      const name = unbase(b.name);
      return h('li', {}, h('b', {}, h('a', { href: link('heat', { ks: name.length ? name : null }) }, keyspaceName(name))), h('span', {}, `${count(b.rate)}/s`));
    }) : []);
  }

  const low = i => (i === 0 ? lo || new Uint8Array() : grid.bounds[i - 1]);
  const high = i => (i === grid.bounds.length ? hi : grid.bounds[i]);
  const row = event => {
    const box = canvas.getBoundingClientRect(), rows = grid.bounds.length + 1;
    const i = rows - 1 - Math.floor((event.clientY - box.top) / ((box.height - foot) / rows));
    return i >= 0 && i < rows ? i : -1;
  };
  canvas.addEventListener('pointermove', e => {
    const i = grid ? row(e) : -1;
    if (i < 0) return tip(null);
    const box = canvas.getBoundingClientRect(), wide = box.width / grid.shown;
    const end = grid.columns.length ? grid.columns[grid.columns.length - 1].at : 0;
    const at = end - Math.floor((box.right - e.clientX) / wide) * grid.slot;
    const col = grid.columns.find(c => Math.abs(c.at - at) <= grid.slot / 2 + 50);
    tip(e, h('b', {}, key(low(i), 60)), high(i) ? [h('span', { class: 'faint' }, ' up to '), key(high(i), 60)] : h('span', { class: 'faint' }, ' to the end'),
      h('div', { class: 'pair' }, h('span', {}, col ? clock(col.at) : 'not watched'), h('span', {}, col ? `${count(col.rows[i])}/s` : '')),
      col && col.truncated ? h('div', { class: 'faint' }, 'a sample: the writers are faster than the page reads') : null);
  });
  canvas.addEventListener('pointerleave', () => tip(null));
  canvas.addEventListener('click', e => {
    const i = grid ? row(e) : -1;
    if (i >= 0 && grid.bounds.length > 0) go('heat', { ks: ks.length ? ks : null, lo: low(i), hi: high(i) });
  });
  const redraw = () => draw();
  addEventListener('resize', redraw);
  dark.addEventListener('change', redraw);
  start();
  draw();
  return {
    close() { over = true; stop(); removeEventListener('resize', redraw); dark.removeEventListener('change', redraw); },
    pause: stop, resume: start,
  };
}

// colour is a ramp from the background to what stands out on it.
const light = [[226, 240, 237], [120, 190, 180], [232, 163, 61], [190, 40, 60]];
const night = [[24, 52, 50], [20, 120, 112], [222, 150, 50], [255, 96, 96]];
function colour(x, dark) {
  const ramp = dark ? night : light;
  const at = Math.min(0.9999, Math.max(0, x)) * (ramp.length - 1), i = Math.floor(at), f = at - i;
  return `rgb(${ramp[i].map((v, n) => Math.round(v + (ramp[i + 1][n] - v) * f)).join(' ')})`;
}
