// Small charts of the last minutes: lines over one axis, with what is at the pointer.
import { h, s, tip, ago, clock, put } from './lib.js';

const most = 300e3; // milliseconds that a chart shows, and at least
const least = 30e3;
const gap = 4000; // a longer time without a point is shown as one

// chart draws the named fields of points. Options: title, fields [{name, label, kind}], format, note.
export class Chart {
  constructor(options) {
    this.o = options;
    this.now = h('span', { class: 'now' });
    this.head = h('div', { class: 'chart-head' }, h('h3', {}, options.title), this.now);
    this.svg = s('svg', { class: 'plot', role: 'img', 'aria-label': options.title });
    this.el = h('figure', { class: 'chart', title: options.help || null }, this.head, this.svg);
    this.svg.addEventListener('pointermove', e => this.point(e));
    this.svg.addEventListener('pointerleave', () => this.point(null));
    this.points = [];
    new ResizeObserver(() => this.draw()).observe(this.el);
  }

  update(points) {
    this.points = points;
    this.draw();
  }

  scale() {
    const end = this.points.length ? this.points[this.points.length - 1].at : Date.now();
    let high = 0;
    const first = this.points.length ? this.points[0].at : end;
    const span = Math.min(most, Math.max(least, end - first));
    const seen = this.points.filter(p => p.at >= end - span);
    for (const p of seen) {
      if (this.o.stacked) high = Math.max(high, this.o.fields.reduce((sum, f) => sum + p[f.name], 0));
      else for (const f of this.o.fields) high = Math.max(high, p[f.name]);
    }
    return { end, seen, high, span };
  }

  draw() {
    const width = this.el.clientWidth, height = 82, foot = 14, head = 13; // the label of the axis stands above the lines
    if (width < 40) return;
    const { end, seen, high, span } = this.scale();
    const top = this.o.least ? Math.max(this.o.least, high) : high || 1;
    const x = at => width - (end - at) / span * width;
    const y = v => (height - foot - head) * (1 - v / top) + head;
    this.x = x;
    this.seen = seen;
    this.svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
    this.svg.setAttribute('width', width);
    this.svg.setAttribute('height', height);
    const bottom = height - foot;
    const parts = [s('line', { class: 'axis', x1: 0, x2: width, y1: bottom, y2: bottom })];
    const base = new Array(seen.length).fill(0);
    for (const f of this.o.fields) {
      if (this.o.stacked && seen.every(p => p[f.name] === 0)) continue; // its line would hide the one below
      for (const run of runs(seen, p => this.o.zeroIsNone && !(p[f.name] > 0))) {
        const line = run.map(i => `${x(seen[i].at).toFixed(1)} ${y(base[i] + seen[i][f.name]).toFixed(1)}`);
        const back = this.o.stacked ? run.map(i => `${x(seen[i].at).toFixed(1)} ${y(base[i]).toFixed(1)}`).reverse()
          : [`${x(seen[run[run.length - 1]].at).toFixed(1)} ${bottom}`, `${x(seen[run[0]].at).toFixed(1)} ${bottom}`];
        if (f.area !== false) parts.push(s('path', { class: `area ${f.kind}`, d: `M${line.join('L')}L${back.join('L')}Z` }));
        parts.push(s('path', { class: `line ${f.kind}`, d: `M${line.join('L')}${run.length === 1 ? 'h1.5' : ''}` }));
      }
      if (this.o.stacked) seen.forEach((p, i) => { base[i] += p[f.name]; });
    }
    parts.push(
      s('text', { class: 'tick', x: 0, y: height - 3 }, ago(end - span, end)),
      s('text', { class: 'tick', x: width, y: height - 3, 'text-anchor': 'end' }, 'now'),
      high > 0 ? s('text', { class: 'tick halo', x: 0, y: 10 }, this.o.format(high)) : null);
    this.cursor = s('line', { class: 'cursor', y1: 0, y2: bottom, visibility: 'hidden' });
    parts.push(this.cursor);
    this.svg.replaceChildren(...parts.filter(Boolean));
    this.showNow();
  }

  showNow() {
    const last = this.seen && this.seen[this.seen.length - 1];
    const values = this.o.fields.map(f => {
      const v = last ? last[f.name] : NaN;
      return { f, text: last && !(this.o.zeroIsNone && v === 0) ? this.o.format(v) : '–' };
    });
    put(this.now, values.map(v => v.text), () => values.map(v => h('span', { class: `value ${v.f.kind}` },
      v.f.label ? h('small', {}, v.f.label) : null, h('b', {}, v.text))));
  }

  point(event) {
    if (!event || !this.seen || !this.seen.length) {
      if (this.cursor) this.cursor.setAttribute('visibility', 'hidden');
      tip(null);
      return;
    }
    const at = event.clientX - this.svg.getBoundingClientRect().left;
    let best = this.seen[0];
    for (const p of this.seen) if (Math.abs(this.x(p.at) - at) < Math.abs(this.x(best.at) - at)) best = p;
    this.cursor.setAttribute('x1', this.x(best.at));
    this.cursor.setAttribute('x2', this.x(best.at));
    this.cursor.setAttribute('visibility', 'visible');
    tip(event, h('b', {}, clock(best.at)), this.o.fields.map(f => h('div', { class: 'pair' }, h('span', {}, f.label || this.o.title),
      h('span', {}, this.o.zeroIsNone && best[f.name] === 0 ? 'none' : this.o.format(best[f.name])))));
  }
}

// runs divides points where there is a gap in time, or nothing to show.
function runs(points, none) {
  const out = [];
  let run = [];
  points.forEach((p, i) => {
    if (run.length && p.at - points[i - 1].at > gap) {
      out.push(run);
      run = [];
    }
    if (none(p)) {
      if (run.length) out.push(run);
      run = [];
    } else {
      run.push(i);
    }
  });
  if (run.length) out.push(run);
  return out;
}
