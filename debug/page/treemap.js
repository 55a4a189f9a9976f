// A squarified treemap (Bruls, Huizing, van Wijk, "Squarified Treemaps", 2000) as SVG.
import { s, tip } from './lib.js';

// layout returns a rectangle for each size, largest first; sizes must be sorted.
export function layout(sizes, width, height) {
  const total = sizes.reduce((a, b) => a + b, 0);
  const out = [];
  if (total <= 0) return out;
  const scale = width * height / total;
  let x = 0, y = 0, w = width, h = height, i = 0;
  while (i < sizes.length) {
    const side = Math.min(w, h);
    let row = [], sum = 0, worst = Infinity;
    for (; i + row.length < sizes.length;) {
      const a = sizes[i + row.length] * scale;
      const next = sum + a;
      const big = Math.max(...row, a), small = Math.min(...row, a);
      const ratio = Math.max(side * side * big / (next * next), next * next / (side * side * small));
      if (row.length && ratio > worst) break;
      row.push(a);
      sum = next;
      worst = ratio;
    }
    const thick = side > 0 ? sum / side : 0;
    let at = 0;
    for (const a of row) {
      const long = thick > 0 ? a / thick : 0;
      out.push(w >= h ? { x, y: y + at, w: thick, h: long } : { x: x + at, y, w: long, h: thick });
      at += long;
    }
    if (w >= h) { x += thick; w -= thick; } else { y += thick; h -= thick; }
    i += row.length;
  }
  return out;
}

// Treemap draws items {size, label, brief, sub, kind, part, tip(), go()}. brief stands for a label that
// is too long; part is the share that is hatched.
export class Treemap {
  constructor(el, height, label) {
    this.el = el;
    this.height = height;
    this.items = [];
    this.svg = s('svg', { class: 'treemap', role: 'group', 'aria-label': label });
    el.append(this.svg);
    new ResizeObserver(() => this.draw()).observe(el);
  }

  update(items) {
    const text = JSON.stringify(items.map(i => [i.size, i.label, i.sub, i.kind, i.part && i.part.toFixed(3)]));
    this.items = items.filter(i => i.size > 0).sort((a, b) => b.size - a.size);
    if (text === this.text) return;
    this.text = text;
    this.draw();
  }

  draw() {
    const width = this.el.clientWidth, height = this.height;
    if (width < 20) return;
    this.svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
    this.svg.setAttribute('width', width);
    this.svg.setAttribute('height', height);
    const boxes = layout(this.items.map(i => i.size), width, height);
    this.svg.replaceChildren(
      s('defs', {}, s('pattern', { id: 'hatch', width: 5, height: 5, patternUnits: 'userSpaceOnUse', patternTransform: 'rotate(45)' },
        s('rect', { class: 'hatch', width: 2, height: 5 }))),
      ...boxes.map((b, i) => this.box(b, this.items[i])));
  }

  box(b, item) {
    const w = Math.max(0, b.w - 2), hgt = Math.max(0, b.h - 2);
    const act = item.go ? { onclick: item.go, tabindex: 0, role: 'link', onkeydown: e => { if (e.key === 'Enter') item.go(); } } : {};
    const fits = Math.floor((w - 12) / 7);
    const g = s('g', { class: `box ${item.kind || ''} ${item.go ? 'go' : ''}`, transform: `translate(${(b.x + 1).toFixed(1)} ${(b.y + 1).toFixed(1)})`,
      'aria-label': `${item.label}, ${item.sub || ''}`, onpointermove: e => tip(e, ...item.tip()), onpointerleave: () => tip(null), ...act },
      s('rect', { width: w.toFixed(1), height: hgt.toFixed(1), rx: Math.min(3, w / 2, hgt / 2).toFixed(1) }));
    if (item.part > 0) g.append(s('rect', { class: 'dead', fill: 'url(#hatch)', y: (hgt * (1 - item.part)).toFixed(1), width: w.toFixed(1), height: (hgt * item.part).toFixed(1) }));
    if (fits >= (item.brief ? Math.min(4, item.brief.length) : 4) && hgt >= 20) g.append(s('text', { x: 6, y: 15 }, cut(item.brief && item.label.length > fits ? item.brief : item.label, fits)));
    if (hgt >= 36 && item.sub && item.sub.length * 6.2 <= w - 10) g.append(s('text', { class: 'sub', x: 6, y: 30 }, item.sub));
    return g;
  }
}

function cut(text, n) {
  return text.length <= n ? text : text.slice(0, Math.max(1, n - 1)) + '…';
}
