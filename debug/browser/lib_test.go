package browser_test

import (
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/debug"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// script runs the body of an async function in the page, with the modules of the page at hand. It
// returns a list of what is wrong.
func (tb *tab) script(body string) {
	tb.t.Helper()
	var wrong []string
	text := `(async () => {
		const lib = await import('./lib.js'), map = await import('./treemap.js'), diff = await import('./diff.js'), wrong = [];
		const equal = (what, got, want) => { if (got !== want) wrong.push(what + ': ' + JSON.stringify(got) + ', want ' + JSON.stringify(want)); };
		` + body + `
		return wrong;
	})()`
	tb.run(chromedp.Evaluate(text, &wrong, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
	for _, w := range wrong {
		tb.t.Error(w)
	}
}

func TestNumbersHaveUnits(t *testing.T) {
	tb := open(t, debug.Handler(openStore(t, brock.Options{InMemory: true})), desk)
	tb.script(`
		const plain = text => text.replace(/[\u00a0\u202f]/g, '_');
		for (const [n, want] of [[0, '0_B'], [999, '999_B'], [1000, '1.00_kB'], [12345, '12.3_kB'], [999499, '999_kB'], [999500, '1.00_MB'], [1.5e9, '1.50_GB'], [2e15, '2.00_PB'], [3e18, '3000_PB'], [NaN, '–']]) equal('bytes ' + n, plain(lib.bytes(n)), want);
		for (const [n, want] of [[0, '0'], [7, '7'], [0.25, '0.3'], [1234, '1_234'], [123456, '123_456'], [1234567, '1.23_M'], [5e9, '5.00_G'], [Infinity, '–']]) equal('count ' + n, plain(lib.count(n)), want);
		for (const [n, want] of [[0, '0_s'], [5e-9, '5.00_ns'], [0.0000123, '12.3_µs'], [0.25, '250_ms'], [1, '1.00_s'], [59.9, '59.9_s'], [61, '1_min 1_s'], [3600, '1_h'], [5400, '1_h 30_min'], [2592000, '30_d'], [90000, '1_d 1_h']]) equal('duration ' + n, plain(lib.duration(n)), want);
		for (const [n, want] of [[0, '0_%'], [0.0001, '<0.1_%'], [0.015, '1.5_%'], [0.5, '50_%'], [1, '100_%']]) equal('percent ' + n, plain(lib.percent(n)), want);
		equal('whole', plain(lib.whole(9007199254740991)), '9_007_199_254_740_991');
	`)
}

// Keys of any bytes come back from what is shown, and from what stands in an address.
func TestKeysAsTextAreExact(t *testing.T) {
	tb := open(t, debug.Handler(openStore(t, brock.Options{InMemory: true})), desk)
	tb.script(`
		const same = (a, b) => a.length === b.length && a.every((x, i) => x === b[i]);
		let seed = 1;
		const random = n => (seed = seed * 48271 % 2147483647) % n;
		const bits = ['\\', '\\x41', 'é', '日', '😀', '\u202e', '\u0000', ' ', '"', "'", '<b>', '\u00ad', '\ufeff', '\u00a0'].map(s => new TextEncoder().encode(s));
		for (let i = 0; i < 3000; i++) {
			const bytes = [];
			for (let j = random(12); j >= 0; j--) bytes.push(...(random(3) ? bits[random(bits.length)] : [random(256), random(256)]));
			const data = Uint8Array.from(bytes), text = lib.plain(data);
			if (!same(lib.parse(text), data)) wrong.push('parse ' + JSON.stringify(text) + ' is not ' + bytes);
			if (!same(lib.unbase(lib.base(data)), data)) wrong.push('base ' + bytes);
			if (/[\u0000-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069\ufeff]/.test(text)) wrong.push('shown as it is: ' + JSON.stringify(text));
			if (wrong.length > 5) break;
		}
		equal('long', lib.base(new Uint8Array(100000)).length, 133334);
	`)
}

func TestTreemapFillsItsBox(t *testing.T) {
	tb := open(t, debug.Handler(openStore(t, brock.Options{InMemory: true})), desk)
	tb.script(`
		for (const sizes of [[1], [5, 3, 2], Array.from({ length: 500 }, (_, i) => 1e9 / (i + 1)), [1e15, 1, 1, 1], []]) {
			const boxes = map.layout(sizes, 600, 300), total = sizes.reduce((a, b) => a + b, 0);
			equal('boxes', boxes.length, sizes.length);
			boxes.forEach((b, i) => {
				const share = b.w * b.h / 180000;
				if (Math.abs(share - sizes[i] / total) > 1e-6) wrong.push('box ' + i + ' of ' + sizes.length + ' has ' + share);
				if (b.x < -1e-6 || b.y < -1e-6 || b.x + b.w > 600.001 || b.y + b.h > 300.001) wrong.push('box ' + i + ' is outside: ' + JSON.stringify(b));
			});
		}
		equal('nothing', map.layout([0, 0], 10, 10).length, 0);
	`)
}

// Both sides of a difference can be told from its rows, and what is equal is not repeated.
func TestDifferenceHasBothSides(t *testing.T) {
	tb := open(t, debug.Handler(openStore(t, brock.Options{InMemory: true})), desk)
	tb.script(`
		let seed = 7;
		const random = n => (seed = seed * 48271 % 2147483647) % n;
		const check = (a, b) => {
			const rows = diff.diffRows(a, b);
			equal('older', rows.filter(r => r.kind !== 'add').map(r => r.text).join('|'), a.join('|'));
			equal('newer', rows.filter(r => r.kind !== 'del').map(r => r.text).join('|'), b.join('|'));
			return rows;
		};
		for (let i = 0; i < 500 && wrong.length < 5; i++) {
			const list = () => Array.from({ length: random(15) }, () => String(random(4)));
			check(list(), list());
		}
		const rows = check(['a', 'b', 'c', 'd'], ['a', 'x', 'c', 'd']);
		equal('changed', rows.map(r => r.kind).join(), 'same,del,add,same,same');
		const long = Array.from({ length: 4000 }, (_, i) => 'l' + i); // beyond what is compared one by one
		check(long, [...long].reverse());
		check(long, [...long.slice(0, 2000), 'new', ...long.slice(2000)]);
		equal('rows of bytes', diff.hexRows(Uint8Array.from([0x41, 0, 0xff]), 16)[0].replace(/ +/g, ' '), '000010 41 00 ff A··');
	`)
}

// What is unusual is said at the head of the page, the worst first.
func TestFindings(t *testing.T) {
	tb := open(t, debug.Handler(openStore(t, brock.Options{InMemory: true})), desk)
	tb.script(`
		const { findings } = await import('./overview.js');
		const calm = { run: 1e9, segment: 1e9, forwarding: 0, live: 19e8, damaged_places: 0, disk_free: 1e12, disk_reserve: 1e6, pinned_time: 0, pinned_files: 0, pinned_memory: 0, waiting_work: 0, leaked_transactions: 0 };
		const says = (metrics, more = {}) => findings({ ...more, metrics: { ...calm, ...metrics } }).map(f => f.kind + ' ' + f.text).join(' ').replace(/\u00a0/g, ' ');
		equal('calm', says({}), '');
		equal('stopped', says({}, { stopped: 'fsync failed' }), 'bad Writes have stopped.');
		equal('loss', says({}, { loss: { version: 1234, damage: 'x' } }).replace('\u202f', ' '), 'bad What was committed after version 1 234 is left out.');
		equal('damage', says({ damaged_places: 2 }), 'bad 2 damaged places found at rest.');
		equal('full', says({ disk_free: 1000 }), 'bad The disk is full.');
		equal('nearly full', says({ disk_free: 3e8 }), 'warn Only 300 MB of disk are left.');
		equal('disk not known', says({ disk_free: -1 }), '');
		equal('short reader', says({ pinned_time: 59, pinned_files: 1e9 }), '');
		equal('long reader', says({ pinned_time: 600, pinned_files: 1e9 }), 'warn A reader keeps old data for 10 min.');
		equal('waiting', says({ waiting_work: 1 }, { waiting: 'flush: no space' }), 'warn Background work waits.');
		equal('leak', says({ leaked_transactions: 1 }), 'warn 1 transaction never ended.');
		equal('garbage', says({ live: 5e8 }), 'warn 75 % of the files is garbage.');
		equal('small store', says({ run: 1e6, segment: 0, live: 0 }), '');
		equal('order', says({ leaked_transactions: 3, damaged_places: 1 }), 'bad 1 damaged place found at rest. warn 3 transactions never ended.');
	`)
}
