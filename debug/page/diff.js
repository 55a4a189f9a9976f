// What differs between two lists of lines.

const most = 1500; // lines that are compared one by one

// diffRows returns rows {kind: same, add or del, text}, by the longest common subsequence.
export function diffRows(a, b) {
  let head = 0, tail = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  const x = a.slice(head, a.length - tail), y = b.slice(head, b.length - tail);
  const rows = a.slice(0, head).map(text => ({ kind: 'same', text }));
  if (x.length > most || y.length > most) {
    rows.push(...x.map(text => ({ kind: 'del', text })), ...y.map(text => ({ kind: 'add', text })));
  } else {
    rows.push(...middle(x, y));
  }
  return rows.concat(a.slice(a.length - tail).map(text => ({ kind: 'same', text })));
}

function middle(x, y) {
  const n = x.length, m = y.length, w = m + 1;
  const longest = new Uint16Array((n + 1) * w);
  for (let i = n - 1; i >= 0; i--) {
    for (let j = m - 1; j >= 0; j--) {
      longest[i * w + j] = x[i] === y[j] ? longest[(i + 1) * w + j + 1] + 1 : Math.max(longest[(i + 1) * w + j], longest[i * w + j + 1]);
    }
  }
  const out = [];
  let i = 0, j = 0;
  while (i < n || j < m) {
    if (i < n && j < m && x[i] === y[j]) {
      out.push({ kind: 'same', text: x[i] });
      i++;
      j++;
    } else if (i < n && (j === m || longest[(i + 1) * w + j] >= longest[i * w + j + 1])) {
      out.push({ kind: 'del', text: x[i++] });
    } else {
      out.push({ kind: 'add', text: y[j++] });
    }
  }
  return out;
}

// hexRows shows bytes as rows of 16 (of 8 on a narrow screen).
export function hexRows(data, offset) {
  const width = matchMedia('(max-width: 520px)').matches ? 8 : 16;
  const rows = [];
  for (let i = 0; i < data.length; i += width) {
    const part = [...data.subarray(i, i + width)];
    rows.push(`${(offset + i).toString(16).padStart(6, '0')}  ${part.map(b => b.toString(16).padStart(2, '0')).join(' ').padEnd(width * 3 - 1)}  ${part.map(b => b >= 0x20 && b < 0x7f ? String.fromCharCode(b) : '·').join('')}`);
  }
  return rows;
}
